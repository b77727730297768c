"""A survey's maps and bars draw the numbers that they are given, and say each with its error."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.views.plots.survey.distance_bars import DistanceBars, distance_name
from ropewalk.views.plots.survey.mean_map import MeanMap
from ropewalk.views.plots.survey.statistic_map import PALE, StatisticMap
from ropewalk.views.style import theme
from tests.views.plots.hand import click, point_at

MEANS = np.arange(12).reshape(6, 2) / 20
MEANS[4, 1] = np.nan
ERRORS = np.full((6, 2), 0.013)


def rgb(colour: QColor | None) -> list[int]:
    assert colour is not None
    return [colour.red(), colour.green(), colour.blue()]


def drawn(plot: StatisticMap | MeanMap, at: QPointF) -> list[int]:
    """The colour of a pixel, on the ground of a panel."""
    return rgb(plot.picture().pixelColor(QPoint(round(2 * at.x()), round(2 * at.y()))))


@pytest.fixture
def heads(qtbot: QtBot) -> StatisticMap:
    made = StatisticMap()
    qtbot.addWidget(made)
    made.resize(220, 500)
    made.show_statistic("induction", MEANS, ERRORS, 200)
    made.show()
    return made


def test_cells_of_few_heads_fill_a_high_panel(heads: StatisticMap) -> None:
    box = heads.cell_of(0, 0)
    assert not heads.across
    assert heads.plot.width() > 0.8 * heads.width()
    assert heads.plot.height() > 0.8 * heads.height()
    assert box.width() > 1.2 * box.height()
    heads.resize(QSize(500, 200))
    heads.grab()
    assert heads.across, "layers go across where there is more room for them"


@pytest.mark.parametrize("dark", ["dark", "light"])
def test_a_cell_has_the_colour_of_its_number_and_says_it_with_its_error(
    heads: StatisticMap, dark: theme.ThemeName
) -> None:
    theme.apply(dark)
    heads.theme_changed()
    for layer, head in ((0, 0), (3, 1), (5, 1)):
        corner = heads.cell_of(layer, head).topLeft() + QPointF(4, 4)
        entry = theme.current().sequential[round(float(MEANS[layer, head]) / MEANS[5, 1] * 255)]
        assert drawn(heads, corner) == entry[:3].tolist()
    assert heads.words(3, 1) == "L3H1: 0.350 ± 0.013 · n = 200"
    assert heads.words(4, 1) == "L4H1: no text has a value"
    assert heads.is_masked(*heads.turned(4, 1))
    assert heads.words(-1, -1) == heads.words(6, 0) == ""


def test_a_click_an_arrow_and_the_pointer_are_about_their_head(heads: StatisticMap) -> None:
    chosen: list[tuple[int, int]] = []
    heads.chosen.connect(lambda *head: chosen.append(head))
    heads.chosen.connect(heads.mark)
    click(heads, heads.cell_of(2, 1).center())
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Left):
        QTest.keyClick(heads, key)
    assert chosen == [(2, 1), (3, 1), (3, 0)]
    assert heads.accessibleDescription() == heads.words(3, 0)
    point_at(heads, heads.cell_of(5, 0).center())
    assert heads.hovered == (5, 0)


def test_of_differences_only_the_significant_keep_their_colour_and_number(heads: StatisticMap) -> None:
    differences = np.array([[0.4, -0.4], [0.2, -0.1], [np.nan, 0.0]])
    adjusted = np.array([[0.0004, 0.2], [0.3, 0.01], [np.nan, 1.0]])
    for size in (QSize(220, 500), QSize(500, 200)):
        heads.resize(size)
        heads.show_difference("B − A", differences, np.full((3, 2), 0.05), 200, adjusted, adjusted < 0.05)
        heads.grab()
        told = [tuple(place) for place in np.argwhere(heads.data.told.T if heads.across else heads.data.told).tolist()]
        assert told == [(0, 0), (1, 1)]
        strong, pale = (rgb(heads.data.colour(*heads.turned(*head))) for head in ((0, 0), (0, 1)))
        full = theme.current().diverging
        assert strong == full[255, :3].tolist()
        panel = rgb(theme.current().panel)
        assert pale == [round(a + PALE * (b - a)) for a, b in zip(panel, full[1, :3].tolist(), strict=True)]
    assert heads.words(1, 1) == "L1H1: −0.100 ± 0.050 · p adjusted 0.010 · n = 200"
    assert " · p adjusted < 0.001 · " in heads.words(0, 0)
    columns = dict(heads.table())
    assert columns["p adjusted"][3] == 0.01
    assert (columns["layer"][3], columns["head"][3], columns["value"][3]) == (1, 1, -0.1)


def test_ten_thousand_heads_are_drawn_and_found(heads: StatisticMap) -> None:
    means = np.random.default_rng(0).random((100, 100))
    heads.show_statistic("many", means, means, 7)
    heads.resize(600, 640)
    heads.grab()
    assert heads.box.cell_at(heads.cell_of(93, 41).center()) == heads.turned(93, 41)
    assert heads.number(93, 41) == np.float32(means[93, 41])


@pytest.fixture
def places(qtbot: QtBot) -> MeanMap:
    made = MeanMap()
    qtbot.addWidget(made)
    made.resize(420, 420)
    grid = np.where(np.tri(20) > 0, 0.05, np.nan)
    grid[10, 2], grid[19, 19] = 0.8, np.nan
    made.show_map("L1H2", grid)
    made.show()
    made.grab()
    return made


def test_the_axes_of_a_mean_map_are_percents_of_the_text(places: MeanMap) -> None:
    for axis, length in ((places.rows_axis, places.plot.height()), (places.columns_axis, places.plot.width())):
        stride, edges = axis.tickValues(-0.5, 19.5, length)[0]
        assert axis.tickStrings(edges, 1, stride) == [f"{share} %" for share in range(0, 101, stride)]
        assert edges[1] == pytest.approx(stride / 5 - 0.5)
    assert places.words(10, 2) == "queries at 50–55 %, keys at 10–15 %: 0.800"
    assert places.words(2, 10) == "queries at 10–15 %, keys at 50–55 %: after the query"
    assert places.words(19, 19).endswith("no text")
    assert places.is_masked(2, 10)
    assert places.is_masked(19, 19)
    point_at(places, places.cell_rect(10, 2).center())
    assert places.hover == (10, 2)
    click(places, places.cell_rect(12, 4).center())
    assert places.selection == (12, 4)
    assert drawn(places, places.cell_rect(10, 2).center()) == theme.current().sequential[255, :3].tolist()


RANGES = [(0, 1), (1, 2), (2, 4), (4, 8), (8, 16), (512, 1024), (1024, 2048)]
SHARES = np.array([0.1, 0.2, 0.3, 0.25, 0.1, 0.05, np.nan])


@pytest.fixture
def bars(qtbot: QtBot) -> DistanceBars:
    made = DistanceBars()
    qtbot.addWidget(made)
    made.resize(640, 300)
    made.show_distances("L1H2", RANGES, SHARES, np.full(7, 0.02), 200)
    made.show()
    made.grab()
    return made


def test_ranges_are_named_as_long_as_there_is_room(bars: DistanceBars) -> None:
    assert bars.names == ("0", "1", "2–3", "4–7", "8–15", "512–1023", "1k–2k")
    bars.resize(260, 200)
    bars.grab()
    assert bars.names == ("0", "1", "2", "4", "8", "512", "1k")
    assert distance_name(131072, 262144) == "128k–256k"


@pytest.mark.parametrize("projector", [False, True])
def test_a_bar_is_as_high_as_its_share_and_its_error_is_around_its_end(bars: DistanceBars, projector: bool) -> None:
    theme.apply("dark", projector)
    bars.theme_changed()
    bars.grab()
    unit = bars.at(0, 0).y() - bars.at(0, 1).y()
    for place in range(6):
        box, ends = bars.bar_of(place), bars.whisker(place)
        assert box.height() == pytest.approx(SHARES[place] * unit)
        assert ends is not None
        assert ends[0].y() == pytest.approx(box.top() - 0.02 * unit)
        assert ends[1].y() == pytest.approx(box.top() + 0.02 * unit)
        assert bars.number_box(place).bottom() <= ends[0].y()
    numbers = bars.numbered()
    assert numbers
    assert all(box.top() >= 0 for box in numbers.values())
    assert bars.is_hidden(6)


def test_arrows_and_clicks_read_a_bar(bars: DistanceBars) -> None:
    picked: list[int] = []
    bars.picked.connect(picked.append)
    click(bars, bars.slot_of(2).center())
    assert bars.heading.readout == "2–3 tokens back: 0.300 ± 0.020 · n = 200"
    QTest.keyClick(bars, Qt.Key.Key_Left)
    assert picked == [2, 1]
    assert bars.accessibleDescription() == "1 token back: 0.200 ± 0.020 · n = 200"
    point_at(bars, bars.slot_of(6).center())
    assert bars.heading.readout == "1,024–2,047 tokens back: no text is so long"
    assert dict(bars.table())["to"] == [1, 2, 4, 8, 16, 1024, 2048]
