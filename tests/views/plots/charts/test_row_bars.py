"""Where not every bar has room for its number, the largest weights have theirs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.records import RowReading
from ropewalk.views.plots.charts.row_bars import RowBars
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
    bars.resize(600, 160)
    bars.show()
    assert sorted(bars.numbered()) == [0, 1, 2, 4, 5, 6]


def test_a_number_gives_way_to_a_larger_one_and_to_a_bar_that_it_would_touch(bars: RowBars) -> None:
    bars.resize(200, 120)
    bars.show()
    boxes = [bars.number_box(place) for place in (1, 2, 5)]
    assert boxes[0].intersects(boxes[1])
    assert list(bars.numbered()) == [1, 5], "0.28 stands beside 0.30; the small ones would stand upon the large bars"


def test_the_selected_bar_has_its_number_and_so_has_a_larger_one_beside(bars: RowBars) -> None:
    bars.resize(200, 120)
    bars.show()
    for place in (0, 4, 6):
        bars.mark(place)
        assert list(bars.numbered())[:3] == [place, 1, 5]
    bars.mark(2)
    assert next(iter(bars.numbered())) == 2
    assert 1 not in bars.numbered(), "0.30 would stand upon 0.28"
    bars.mark(7)
    assert 7 not in bars.numbered(), "a hidden key has no weight"


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


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_weights_without_an_end_reach_the_top_beside_the_largest_that_has_one(
    bars: RowBars, scale: Literal["linear", "log"]
) -> None:
    weights = np.array([np.inf, 0.5, np.nan, 0.25, np.inf, 0.0, 0.1, 0.0])
    bars.set_scale(scale, skip_first=False)
    bars.set_row(RowReading(0, 0, 6, np.zeros(8), weights, np.arange(8) < 7, 0.0, np.inf), tuple("abcdefgh"))
    bars.resize(600, 160)
    bars.show()
    bars.grab()
    assert bars.top == 0.5
    assert bars.heights[0] == bars.heights[1] == bars.heights[4] == max(bars.heights)
    assert bars.number(0) == "∞"
    assert np.isfinite(bars.box.viewRange()).all()


def test_no_number_is_written_over_a_bar_beside(bars: RowBars) -> None:
    bars.show()
    for width in range(120, 600, 40):
        bars.resize(width, 160)
        for place, box in bars.numbered().items():
            beside = [bars.bar_of(other) for other in range(8) if other != place]
            assert not any(bar.intersects(box) for bar in beside), (width, place)


def test_in_a_low_plot_no_number_stands_upon_the_heading_or_the_names(bars: RowBars) -> None:
    bars.show()
    for height in range(50, 160, 5):
        bars.resize(600, height)
        plot = bars.box.geometry()
        for box in bars.numbered().values():
            assert box.top() >= bars.heading.area.bottom()
            assert box.bottom() <= plot.bottom() + 3
    assert bars.numbered()
