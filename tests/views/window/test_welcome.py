"""What a first start says: when it is there, how it is closed, that it stays closed, and the way into lesson 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.style import theme
from ropewalk.views.window.welcome import LINES, WelcomeCard
from tests.qt_guards import delete_what_is_due
from tests.views.driving import settle, window_over


@pytest.fixture
def window(qtbot: QtBot, session: Session) -> Iterator[MainWindow]:
    """The window of a first start, with the run that it begins with."""
    window = window_over(session, restore=True)
    window.resize(QSize(1366, 768))
    window.show()
    window.activateWindow()
    session.opening.begin(prompt=Prompt("the cat"))
    settle(session)
    yield window
    window.close()
    window.deleteLater()


def card_of(window: MainWindow) -> WelcomeCard:
    assert window.welcome is not None
    return window.welcome


def test_a_first_start_says_what_to_click_and_covers_little(window: MainWindow) -> None:
    card = card_of(window)
    assert card.isVisible(), "the run that the window begins with leaves it there"
    assert [label.text() for label in card.lines] == list(LINES)
    for size in (QSize(1024, 768), QSize(1366, 768)):
        for projector in (True, False):
            window.resize(size)
            window.set_look("light", projector)
            stage = window.stage.geometry()
            assert stage.contains(card.geometry())
            assert card.width() * card.height() < stage.width() * stage.height() / (2 if projector else 6)
            for label in card.lines:
                assert label.height() >= label.heightForWidth(label.width())
    theme.apply("dark")


@pytest.mark.parametrize(
    "close",
    [
        lambda window: QTest.keyClick(window, Qt.Key.Key_Escape),
        pytest.param(
            lambda window: QTest.mouseClick(card_of(window).lines[1], Qt.MouseButton.LeftButton), marks=pytest.mark.slow
        ),
        pytest.param(
            lambda window: QTest.keyClick(card_of(window).close_button, Qt.Key.Key_Return), marks=pytest.mark.slow
        ),
        lambda window: window.session.start(Prompt("another one")),
    ],
    ids=["Esc", "a click on it", "Enter on its button", "a run"],
)
def test_it_is_closed_for_good(window: MainWindow, close: Callable[[MainWindow], object]) -> None:
    card, before = card_of(window), window.session.selection.now
    window.setFocus()
    close(window)
    settle(window.session)
    assert window.welcome is None
    delete_what_is_due()
    assert not isValid(card)
    assert window.session.settings.now.welcomed
    assert window.session.selection.now.layer == before.layer, "what is under it was not clicked"
    assert SettingsStore(window.session.settings.path).now.welcomed


def test_a_click_elsewhere_leaves_it(window: MainWindow) -> None:
    QTest.mouseClick(window.cards["tokens"], Qt.MouseButton.LeftButton)
    window.session.selection.update(query=2)
    assert card_of(window).isVisible()


@pytest.mark.parametrize(
    "size",
    [QSize(1280, 720), *(pytest.param(QSize(*wider), marks=pytest.mark.slow) for wider in ((1366, 768), (1920, 1080)))],
)
def test_it_leaves_the_number_in_sight_that_it_says_to_look_at(window: MainWindow, size: QSize) -> None:
    window.resize(size)
    settle(window.session)
    card, why = card_of(window), window.cards["why"]
    assert why.isVisible()
    assert not card.geometry().intersects(QRect(why.mapTo(window, QPoint()), why.size()))
    for label in card.lines:
        assert label.height() >= label.heightForWidth(label.width())


def test_lesson_0_is_one_click_away(qtbot: QtBot, window: MainWindow) -> None:
    QTest.mouseClick(card_of(window).start_button, Qt.MouseButton.LeftButton)
    assert window.welcome is None
    qtbot.waitUntil(lambda: window.lesson.lesson is not None)
    assert window.lesson.lesson is not None
    assert window.lesson.lesson.number == 0
    assert window.stage.workspace == "lesson"
    window.lesson.leave()
    settle(window.session)


def test_another_start_says_nothing(qtbot: QtBot, session: Session) -> None:
    for remembered in ({"welcomed": True}, {"geometry": b"\x01"}):
        session.settings.update(welcomed=False, geometry=b"")
        session.settings.update(**remembered)
        window = window_over(session, restore=True)
        assert window.welcome is None, "it was closed, or the window was open before there was such a card"
        window.deleteLater()
        delete_what_is_due()
    picture = window_over(session, restore=False)
    assert picture.welcome is None
    picture.deleteLater()
    delete_what_is_due()
