"""Where not every bar has room for its number, the largest weights have theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.records import RowReading
from ropewalk.views.plots.row_bars import RowBars
from ropewalk.views.style import ink, theme


@pytest.fixture
def bars(qtbot: QtBot) -> RowBars:
    bars = RowBars()
    qtbot.addWidget(bars)
    weights = np.array([0.02, 0.3, 0.28, 0.0, 0.05, 0.25, 0.1, 0.0])
    visible = np.arange(8) < 7
    bars.set_row(RowReading(0, 0, 6, np.zeros(8), weights, visible, 0.0, 1.0), tuple("abcdefgh"))
    return bars


def test_all_bars_are_numbered_where_there_is_room(bars: RowBars) -> None:
    assert sorted(bars.numbered(1)) == [0, 1, 2, 4, 5, 6]


def test_the_largest_come_first_and_their_neighbours_give_way(bars: RowBars) -> None:
    assert bars.numbered(2) == [1, 5]
    assert bars.numbered(3) == [1, 5]


def test_the_selected_bar_always_has_its_number(bars: RowBars) -> None:
    bars.mark(3)
    assert bars.numbered(2) == [3, 1, 5]
    bars.mark(6)
    assert bars.numbered(2) == [6, 1, 4]
    bars.mark(7)
    assert bars.numbered(2) == [1, 5], "a hidden key has no weight"


def test_the_arrows_pick_the_key_beside_and_stop_at_the_ends(qtbot: QtBot, bars: RowBars) -> None:
    picked: list[int] = []
    bars.picked.connect(picked.append)
    for key in (0, 3, 7):
        bars.mark(key)
        for arrow in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            QTest.keyClick(bars, arrow)
    assert picked == [1, 2, 4, 6]


def test_every_bar_is_found_under_its_own_middle(bars: RowBars) -> None:
    bars.resize(400, 120)
    bars.show()
    picked: list[int] = []
    bars.picked.connect(picked.append)
    for key in range(8):
        QTest.mouseClick(bars.viewport(), Qt.MouseButton.LeftButton, pos=bars.slot_of(key).center().toPoint())
    assert picked == list(range(8))


@pytest.mark.parametrize("projector", [False, True])
@pytest.mark.parametrize("size", [(90, 90), (200, 120), (400, 160), (900, 300)])
def test_the_outline_is_around_the_bar_and_under_no_number(
    bars: RowBars, size: tuple[int, int], projector: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    theme.apply("light", projector=projector)
    bars.theme_changed()
    bars.resize(*size)
    bars.show()
    numbers: dict[str, QRectF] = {}

    def noted(painter: QPainter, box: QRectF, text: str, *how: Any) -> None:
        if text.startswith("0."):
            numbers[text] = painter.transform().mapRect(box)

    monkeypatch.setattr(ink, "draw_text", noted)
    for place in range(8):
        bars.mark(place)
        numbers.clear()
        bars.grab()
        ring, bar = bars.ring_of(place), bars.bar_of(place)
        assert ring.left() < bar.left()
        assert ring.right() > bar.right()
        assert ring.top() < bar.top() or place == 7
        assert ring.bottom() >= bar.bottom() - 1
        assert ring.height() >= 4
        assert place == 7 or bars.number(place) in numbers
        outer = ring.adjusted(-1, -1, 1, 1)
        assert [text for text, box in numbers.items() if box.intersects(outer)] == []
