"""A series is gone through by hand or played, says where it stands, and never moves where nothing shall."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.views.plots.film_bar import FilmBar
from ropewalk.views.style import motion, theme

NAMES = [f"step {step:,}" for step in (0, 100, 1000, 20000)]


@pytest.fixture
def film(qtbot: QtBot) -> FilmBar:
    made = FilmBar("Step")
    qtbot.addWidget(made)
    made.set_names(NAMES)
    made.resize(400, 40)
    made.show()
    return made


def test_it_stands_at_the_last_place_and_the_keys_go_through_all(film: FilmBar) -> None:
    places = list[int]()
    film.moved.connect(places.append)
    assert (film.place, film.label.text()) == (3, "step 20,000")
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Home, Qt.Key.Key_Right):
        QTest.keyClick(film.slider, key)
    assert places == [2, 0, 1]
    assert film.label.text() == film.slider.accessibleDescription() == "step 100"
    assert film.label.width() >= film.label.fontMetrics().horizontalAdvance(NAMES[-1])


def test_it_is_played_to_its_end_and_stops_where_nobody_sees_it(film: FilmBar) -> None:
    QTest.mouseClick(film.play_button, Qt.MouseButton.LeftButton)
    assert (film.place, film.is_playing, film.play_button.text()) == (0, True, "Pause")
    film.advance()
    film.hide()
    assert (film.place, film.is_playing) == (1, False)
    film.show()
    film.toggle()
    film.timer.timeout.emit()
    film.timer.timeout.emit()
    assert (film.place, film.is_playing, film.play_button.text()) == (3, False, "Play")


def test_where_nothing_shall_move_it_shows_the_end(film: FilmBar) -> None:
    motion.choose("reduced")
    film.go(1)
    QTest.mouseClick(film.play_button, Qt.MouseButton.LeftButton)
    assert (film.place, film.is_playing) == (3, False)


def test_a_name_has_its_room_on_a_projector(film: FilmBar) -> None:
    theme.apply("dark", projector=True)
    film.theme_changed()
    film.grab()
    assert film.label.width() >= film.label.fontMetrics().horizontalAdvance(NAMES[-1])
