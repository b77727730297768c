"""The cache panel: slabs that hold the contents, bytes, growth, the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskCache
from ropewalk.model.readings.magnitudes import FULL
from ropewalk.views.panels.cache import CachePanel, byte_lines
from ropewalk.views.panels.cache_costs import costs
from ropewalk.views.plots.slabs import Side, capacity, magnitude_colours
from ropewalk.views.style import ink, theme
from tests.views import canned
from tests.views.driving import run_on, settle

Shown = Callable[..., Any]


@pytest.mark.parametrize("side", ["K", "V"])
def test_a_column_is_as_bright_as_what_it_holds(side: Side, running: Session, shown: Shown) -> None:
    panel = shown(CachePanel, running, 900, 700)
    running.selection.update(key=0, layer=0)
    reading = canned.reading(run_on(running), AskCache())
    image = panel.slabs.grab().toImage()
    look = theme.current()
    colour, contents = (look.key, reading.keys) if side == "K" else (look.value, reading.values)
    table = magnitude_colours(ink.mixed(look.panel, colour, 0.12), colour, look.undefined)
    slab = panel.slabs.slab(side, 2)
    sizes = np.abs(contents[2]).transpose(0, 2, 1).reshape(32, -1)
    strength = np.rint(np.minimum(sizes / np.percentile(sizes, 99), 1) * FULL).astype(int)
    rows = strength.shape[0]
    for row, column in ((0, 3), (17, 7), (31, 10)):
        y = slab.top() + int(np.flatnonzero(np.arange(slab.height()) * rows // slab.height() == row)[0])
        x = round(panel.slabs.column_box(side, 2, column).center().x())
        wanted = QColor(*(int(c) for c in table[strength[row, column]][:3]))
        assert image.pixelColor(x, y).rgb() == wanted.rgb()


def test_bytes_are_shown_measured_and_by_formula(running: Session, shown: Shown) -> None:
    panel = shown(CachePanel, running, 570, 180)
    assert panel.subtitle.text() == "12 positions · 12,288 bytes · 1,024 a token"
    assert panel.costs.lines[0].endswith("= 2·1·12·4·2·16·4")
    assert panel.costs.lines[1] == "= 12,288 = measured"
    wrong = replace(canned.reading(run_on(running), AskCache()), bytes_measured=12_000)
    assert byte_lines(run_on(running), wrong)[1] == "= 12,288 but measured 12,000"


def test_bars_stand_to_one_another_as_the_head_counts(running: Session, shown: Shown) -> None:
    panel = shown(CachePanel, running, 570, 180)
    widths = [panel.costs.bar_of(i).width() for i in range(3)]
    assert [c.name for c in panel.costs.rows] == ["MHA, 8 kv heads", "GQA, 2 kv heads (here)", "MQA, 1 kv head"]
    assert widths[1] == pytest.approx(widths[0] / 4)
    assert widths[2] == pytest.approx(widths[0] / 8)


def test_a_model_that_is_mha_or_mqa_has_no_second_bar_of_it(running: Session) -> None:
    reading = canned.reading(run_on(running), AskCache())
    assert [c.own for c in costs(reading, heads=8, kv_heads=8)] == [True, False]
    assert [c.name for c in costs(reading, heads=8, kv_heads=1)] == ["MHA, 8 kv heads", "MQA, 1 kv head (here)"]


def test_a_step_adds_a_column_that_stands_apart(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(CachePanel, running, 570, 180)
    before = panel.slabs.edges("K")
    drawn = panel.draws
    running.timeline.step()
    settle(running, panel)
    after = panel.slabs.edges("K")
    assert (len(before), len(after)) == (13, 14)
    assert panel.draws == drawn + 1
    assert panel.subtitle.text().startswith("13 positions = 12 prompt + 1 decoded · 13,312 bytes")
    last, new = panel.slabs.column_box("K", 0, 11), panel.slabs.column_box("K", 0, 12)
    assert new.left() - last.right() == pytest.approx(3)
    image = panel.slabs.grab().toImage()
    above = panel.slabs.block("K").top() - 3
    assert image.pixelColor(round(new.center().x()), above).rgb() == theme.current().text.rgb()
    assert image.pixelColor(round(last.center().x()), above).rgb() != theme.current().text.rgb()


def test_room_grows_in_leaps() -> None:
    assert [capacity(n) for n in (1, 16, 17, 24, 25, 33, 49, 512)] == [16, 16, 24, 24, 32, 48, 64, 512]


def test_columns_outside_the_window_are_grey(running: Session, shown: Shown) -> None:
    panel = shown(CachePanel, running, 570, 300)
    reading = replace(canned.reading(run_on(running), AskCache()), windows=(None, 4, None, None))
    panel.slabs.show_cache(reading)
    assert panel.slabs.visible(0).all()
    assert list(np.flatnonzero(panel.slabs.visible(1))) == [8, 9, 10, 11]
    assert "outside the window of 4" in panel.slabs.description(1, 2)
    assert "outside" not in panel.slabs.description(1, 9)
    image = panel.slabs.grab().toImage()

    def colourful(layer: int, column: int) -> float:
        box = panel.slabs.column_box("K", layer, column).toRect().adjusted(2, 2, -2, -2)
        return max(
            float(image.pixelColor(box.center().x(), y).hsvSaturationF()) for y in range(box.top(), box.bottom())
        )

    assert colourful(1, 2) < 0.3 < colourful(1, 9)
    assert colourful(0, 2) > 0.3


def test_a_click_selects_layer_and_key_and_hover_points_at_it(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(CachePanel, running, 570, 180)
    drawn = panel.draws
    at = panel.slabs.column_box("V", 3, 7).center().toPoint()
    QTest.mouseMove(panel.slabs, at)
    assert running.selection.hover == Hover(key=7)
    QTest.mouseClick(panel.slabs, Qt.MouseButton.LeftButton, pos=at)
    assert (running.selection.now.layer, running.selection.now.key) == (3, 7)
    assert panel.slabs.layer == 3
    assert panel.draws == drawn
    image = panel.slabs.grab().toImage()
    slab = panel.slabs.slab("V", 3)
    assert image.pixelColor(slab.left() - 3, slab.center().y()).rgb() == theme.current().accent.rgb()


def test_a_stride_stands_for_several_positions(running: Session, shown: Shown) -> None:
    panel = shown(CachePanel, running, 570, 180)
    reading = canned.reading(run_on(running), AskCache(positions=4))
    assert reading.stride == 3
    panel.slabs.show_cache(reading)
    assert panel.slabs.at(panel.slabs.column_box("K", 1, 2).center()) == (1, 6)


def test_both_themes_and_no_text_is_cut(running: Session, shown: Shown) -> None:
    panel = shown(CachePanel, running, 570, 180)
    dark = panel.grab().toImage()
    assert panel.costs.width() >= panel.costs.sizeHint().width()
    assert panel.costs.height() >= panel.costs.sizeHint().height()
    theme.apply("light")
    panel.theme_changed()
    assert panel.grab().toImage() != dark


def test_arrows_walk_from_column_to_column_and_from_layer_to_layer(running: Session, shown: Shown) -> None:
    panel = shown(CachePanel, running, 570, 180)
    running.selection.update(layer=1, key=5)
    reached = []
    for arrow in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Up):
        QTest.keyClick(panel.slabs, arrow)
        reached.append((running.selection.now.layer, running.selection.now.key))
    assert reached == [(1, 6), (2, 6), (2, 5), (1, 5), (0, 5), (0, 5)]


def test_the_planner_begins_at_the_models_limit_and_counts_every_sequence(running: Session, shown: Shown) -> None:
    panel = shown(CachePanel, running, 570, 300)
    limit = run_on(running).config.max_position
    assert panel.planner.context.value() == limit
    assert panel.planner.bars.lines[0].startswith(f"{1024 * limit:,} bytes")
    panel.planner.batch.setValue(3)
    assert panel.planner.bars.lines[0].startswith(f"{3 * 1024 * limit:,} bytes")
