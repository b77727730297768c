"""The colours of a long run are not all spent on its few large numbers, and the bar says so."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.records import Floats
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.maps.levels import ROBUST, Levels, robust
from ropewalk.views.style import theme
from ropewalk.views.style.colour_maps import COLOUR_MAPS, colour_table
from tests.views.plots.hand import drag


def weights(size: int) -> tuple[Floats, np.ndarray[tuple[int, int], np.dtype[np.bool_]]]:
    """Rows that look at the first token, and a little at all others."""
    visible = np.tril(np.ones((size, size), np.bool_))
    values = np.where(visible, 0.3 / np.arange(1, size + 1)[:, None], 0).astype(np.float32)
    values[:, 0] += 0.7
    return values, visible


def test_the_scale_of_a_long_run_ends_where_most_of_its_cells_do() -> None:
    values, visible = weights(700)
    levels = robust(Levels(0.0, 1.0), values, visible, 700)
    assert levels.high == pytest.approx(np.quantile(values[visible], ROBUST))
    assert levels.note() == "to 99.5 %"
    assert levels.indices(values)[visible].mean() > 20, "it is not black"
    assert levels.indices(values)[699, 0] == 255
    signed = robust(Levels(-1.0, 1.0, "diverging"), -values, visible, 700)
    assert (signed.low, signed.high) == (-levels.high, levels.high)


@pytest.mark.parametrize("size", [12, 63])
def test_the_scale_of_a_short_run_is_whole(size: int) -> None:
    values, visible = weights(size)
    assert robust(Levels(0.0, 1.0), values, visible, size) == Levels(0.0, 1.0)
    assert Levels(0.0, 1.0).note() == ""


def test_a_scale_that_would_lose_nothing_or_everything_stays() -> None:
    size = 100
    visible = np.ones((size, size), np.bool_)
    even = np.linspace(0, 1, size * size, dtype=np.float32).reshape(size, size)
    assert robust(Levels(0.0, 1.0), even, visible, size) == Levels(0.0, 1.0)
    single = np.zeros((size, size), np.float32)
    single[3, 3] = 1.0
    assert robust(Levels(0.0, 1.0), single, visible, size) == Levels(0.0, 1.0)
    assert robust(Levels(0.0, 1.0), single, ~visible, size) == Levels(0.0, 1.0)


@pytest.fixture(params=[(420, 460), (460, 200)], ids=["lying", "standing"])
def shown(request: pytest.FixtureRequest, qtbot: QtBot) -> Heatmap:
    made = Heatmap("weights")
    qtbot.addWidget(made)
    made.resize(*request.param)
    values, visible = weights(12)
    made.set_data(values, visible, (0, 12), (0, 12))
    made.show()
    made.grab()
    return made


def pull(heatmap: Heatmap, end: int, share: float) -> None:
    """Drag an end of the bar to a share of it."""
    bar = heatmap.bar.box.geometry()
    inner, standing = heatmap.bar._inner(), heatmap.bar._standing

    def at(place: float) -> QPointF:
        if standing:
            return QPointF(bar.center().x(), inner.bottom() - place * inner.height())
        return QPointF(inner.left() + place * inner.width(), bar.center().y())

    drag(heatmap, [at(float(end)), at((end + share) / 2), at(share)])


def test_an_end_that_is_dragged_gives_the_colours_to_other_numbers(qtbot: QtBot, shown: Heatmap) -> None:
    with qtbot.waitSignal(shown.levelled):
        pull(shown, 1, 0.4)
    assert shown.levels.high == pytest.approx(0.4, abs=0.02)
    assert (shown.levels.low, shown.levels.note()) == (0.0, "by hand")
    assert shown.data.colour(11, 0) == QColor(*theme.current().sequential[255].tolist()[:3])
    shown.set_levels(Levels(0.0, 0.9))
    assert shown.levels.high == pytest.approx(0.4, abs=0.02), "what a person chose stays"
    pull(shown, 0, 0.25)
    assert shown.levels.low == pytest.approx(0.1, abs=0.01), "the bar is filled with the levels in use"
    shown.reset_levels()
    assert shown.levels == Levels(0.0, 0.9)


def test_ends_of_signed_levels_move_together_and_never_cross(shown: Heatmap) -> None:
    shown.set_levels(Levels(-2.0, 2.0, "diverging"))
    pull(shown, 1, 0.75)
    assert shown.levels.high == pytest.approx(1.0, abs=0.06)
    assert shown.levels.low == -shown.levels.high
    pull(shown, 0, 0.9)
    assert 0 < shown.levels.high < 0.1


def test_another_scale_takes_the_levels_back(shown: Heatmap) -> None:
    pull(shown, 1, 0.4)
    shown.set_levels(Levels(1e-4, 1.0, "log"))
    assert shown.levels == Levels(1e-4, 1.0, "log")


@pytest.mark.parametrize("name", COLOUR_MAPS)
def test_every_map_of_colours_grows_lighter_all_the_way(name: str) -> None:
    red, green, blue = colour_table(name)[:, :3].astype(float).T / 255
    linear = [np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4) for part in (red, green, blue)]
    brightness = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert np.diff(brightness).min() > -1e-3
    assert brightness[-1] > brightness[0] + 0.3


def test_other_colours_are_those_of_the_cells(shown: Heatmap) -> None:
    theme.colour_in("magma")
    try:
        shown.theme_changed()
        index = shown.levels.indices(np.array(shown.value(7, 3), np.float32))
        assert shown.data.colour(7, 3) == QColor(*colour_table("magma")[index].tolist()[:3])
    finally:
        theme.colour_in("viridis")


def test_the_bars_of_counts_are_of_what_is_shown_however_small_the_map_was(qtbot: QtBot) -> None:
    heatmap = Heatmap("weights")
    qtbot.addWidget(heatmap)
    heatmap.resize(420, 460)
    heatmap.show()
    ones, there = np.ones((6, 6), np.float32), np.ones((6, 6), np.bool_)
    heatmap.set_data(0 * ones, there, (0, 6), (0, 6))
    heatmap.resize(120, 140)  # too small for them
    heatmap.set_data(ones, there, (0, 6), (0, 6))
    assert heatmap.plot.width() < 120
    heatmap.resize(420, 460)
    assert heatmap.plot.width() > 120
    drawn = np.asarray(
        heatmap.bar.counts.opts["height" if heatmap.bar.box.width() > heatmap.bar.box.height() else "width"]
    )
    along = np.flatnonzero(drawn)
    assert len(along) == 1
    assert along[0] > len(drawn) / 2
