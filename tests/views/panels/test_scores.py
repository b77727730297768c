"""Scores, masked scores and weights agree with the run, share their crosshair, and are drawn once per change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskHead, AskRefined, AskRow
from ropewalk.model.readings.records import HeadPatch, TokenText
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.panels.panel import NOTHING_YET
from ropewalk.views.panels.scores import STATES, ScoresPanel
from ropewalk.views.plots.maps.levels import value_range
from ropewalk.views.plots.maps.map_data import MapData
from ropewalk.views.plots.maps.token_axis import TokenAxis
from ropewalk.views.style import theme
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle
from tests.views.plots.hand import drag, point_at

Show = Callable[..., Any]


@pytest.fixture
def panel(running: Session, shown: Show) -> ScoresPanel:
    made: ScoresPanel = shown(ScoresPanel, running, 760, 460)
    return made


def test_nothing_is_explained_before_the_first_run(session: Session, shown: Show) -> None:
    panel = shown(ScoresPanel, session)
    assert panel.notice.text() == NOTHING_YET
    assert not panel.body.isVisible()


def test_the_three_pictures_hold_the_numbers_of_the_run(panel: ScoresPanel, running: Session) -> None:
    now = running.selection.now
    scores, weights = (
        canned.scores(run_on(running), now.layer, now.head),
        canned.weights(run_on(running), now.layer, now.head),
    )
    for query, key in ((0, 0), (7, 3), (11, 11)):
        assert panel.raw.value(query, key) == pytest.approx(scores[query, key], abs=1e-5)
        assert panel.masked.value(query, key) == pytest.approx(scores[query, key], abs=1e-5)
        assert panel.weights.value(query, key) == pytest.approx(weights[query, key], abs=1e-6)
    assert panel.masked.is_masked(2, 9)
    assert panel.weights.is_masked(2, 9)
    assert not panel.raw.is_masked(2, 9)


def test_the_weights_keep_fixed_levels_and_their_pixels(panel: ScoresPanel, running: Session) -> None:
    now = running.selection.now
    assert (panel.weights.levels.low, panel.weights.levels.high) == (0.0, 1.0)
    weight = canned.weights(run_on(running), now.layer, now.head)[9, 3]
    wanted = theme.current().sequential[round(float(np.float32(weight)) * 255)].tolist()[:3]
    assert panel.weights.data.colour(9, 3) == QColor(*wanted)


def test_leaving_out_the_first_token_stretches_the_colours(qtbot: QtBot, panel: ScoresPanel, running: Session) -> None:
    running.selection.update(layer=0, head=1)  # a head that looks at the first token
    settle(running, panel)
    panel.skip_first.click()
    weights = np.where(canned.visible(run_on(running)), canned.weights(run_on(running), 0, 1), 0)
    assert panel.weights.levels.high == pytest.approx(weights[:, 1:].max(), abs=1e-6)
    panel.skip_first.click()
    assert panel.weights.levels.high == 1.0


def test_the_log_scale_is_for_weights_alone(panel: ScoresPanel) -> None:
    panel.log_scale.click()
    assert [m.levels.scale for m in panel.maps] == ["linear", "linear", "log"]


def test_a_click_selects_the_cell(qtbot: QtBot, panel: ScoresPanel, running: Session) -> None:
    point = panel.weights.cell_rect(8, 2).center().toPoint()
    QTest.mouseClick(panel.weights.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert (running.selection.now.query, running.selection.now.key) == (8, 2)


def test_a_change_of_cell_moves_marks_and_asks_for_the_row_alone(
    qtbot: QtBot, panel: ScoresPanel, running: Session, engine: CannedEngine
) -> None:
    draws, asked = panel.draws, len(engine.asked)
    running.selection.update(query=5, key=1)
    settle(running, panel)
    assert panel.draws == draws
    now = running.selection.now
    assert engine.asked[asked:] == [AskRow(now.layer, now.head, 5)]
    running.selection.update(key=2)
    settle(running, panel)
    assert len(engine.asked) == asked + 1


def test_a_change_of_head_draws_once(qtbot: QtBot, panel: ScoresPanel, running: Session) -> None:
    draws = panel.draws
    running.selection.update(layer=2, head=3)
    settle(running, panel)
    assert panel.draws == draws + 1
    assert panel.subtitle.text() == "L2H3 · 12 × 12 · kv head 0"


def test_a_step_draws_once_and_adds_a_row(qtbot: QtBot, panel: ScoresPanel, running: Session) -> None:
    draws = panel.draws
    running.timeline.step()
    settle(running, panel)
    assert panel.draws == draws + 1
    assert panel.weights.data.colour(12, 0) is not None


def test_hover_is_the_same_in_all_maps_and_is_read_out(panel: ScoresPanel, running: Session) -> None:
    running.selection.point_at(Hover(query=9, key=3))
    assert {m.hover for m in panel.maps} == {(9, 3)}
    assert panel.row.heading.readout.startswith("query 9 ·cat → key 3 ·sat · score ")
    running.selection.point_at(Hover(query=3, key=9))
    assert panel.row.heading.readout.endswith("masked")
    running.selection.point_at(Hover())
    assert panel.row.heading.readout == ""


def test_what_is_read_out_ends_with_its_run(panel: ScoresPanel, running: Session) -> None:
    cell = panel.weights.cell_rect(9, 3)
    point_at(panel.weights, cell.center())
    assert panel.row.heading.readout.startswith("query 9 ")
    running.start(Prompt("another prompt of as many tokens"))
    settle(running, panel)
    assert panel.row.heading.readout == ""
    assert {m.hover for m in panel.maps} == {(-1, -1)}
    point_at(panel.weights, cell.center() + QPointF(1, 1))
    assert panel.row.heading.readout.startswith("query 9 "), "the pointer has not left the cell"
    running.timeline.step()
    settle(running, panel)
    assert panel.row.heading.readout.startswith("query 9 "), "the same run, a token longer"


def test_the_row_is_drawn_as_bars_of_its_weights(panel: ScoresPanel, running: Session) -> None:
    now = running.selection.now
    weights = canned.weights(run_on(running), now.layer, now.head)[now.query]
    assert panel.row.heights == pytest.approx(weights)
    assert panel.row.heading.text.startswith("row of query 10 ·sat")


def test_a_bar_picks_its_key(qtbot: QtBot, panel: ScoresPanel, running: Session) -> None:
    point = panel.row.slot_of(6).center().toPoint()
    QTest.mouseClick(panel.row.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert running.selection.now.key == 6


def test_cells_have_the_same_size_in_all_maps(panel: ScoresPanel) -> None:
    for width, height in product((462, 761, 1264), (250, 420, 700)):
        panel.resize(width, 900)
        panel.triptych.show_alone(None)
        panel.triptych.setMaximumHeight(2000)
        panel.triptych.resize(width - 32, height)
        panel.triptych.arrange()
        assert panel.raw.form.row_labels, (width, height)
        assert len({m.cell_rect(0, 0).width() for m in panel.maps}) == 1, (width, height)


@pytest.mark.parametrize("tokens", [20, 28, 40, 90])
def test_cells_have_the_same_size_whether_they_are_named_or_numbered(
    long_run: Callable[[int], Session], shown: Show, tokens: int
) -> None:
    panel = shown(ScoresPanel, long_run(tokens), 760, 900)
    for width in range(600, 1800, 90):
        panel.triptych.resize(width, 500)
        assert len({m.cell_rect(0, 0).width() for m in panel.maps}) == 1, width


def test_one_map_takes_the_place_of_three_and_turns_through_its_states(panel: ScoresPanel, running: Session) -> None:
    side, three = panel.raw.plot.width(), [m.value(7, 3) for m in panel.maps]
    panel.one.click()
    shown = {name: one for name, one in zip(STATES, panel.maps, strict=True) if one.isVisible()}
    assert shown == {"softmax": panel.weights}
    assert panel.weights.form.row_labels
    assert panel.weights.titles == ("query", "key")
    assert panel.weights.plot.width() > side
    seen = []
    for _ in STATES:
        panel.next_state()
        (alone,) = (one for one in panel.maps if one.isVisible())
        assert (panel.state_name.text(), panel.triptych.alone) == (STATES[panel.state.value()], alone)
        seen.append(alone.value(7, 3))
    assert seen == three
    panel.state.setFocus()
    QTest.keyClick(panel.state, Qt.Key.Key_Left)
    assert panel.triptych.alone is panel.masked
    panel.one.click()
    QApplication.processEvents()
    assert all(one.isVisible() for one in panel.maps)
    assert panel.raw.plot.width() == side


def test_where_three_maps_would_be_small_one_stands_by_itself(panel: ScoresPanel) -> None:
    for size, maps in (((400, 420), 1), ((900, 460), 3), ((430, 260), 1), ((760, 900), 3)):
        panel.resize(*size)
        QApplication.processEvents()
        shown = [one for one in panel.maps if one.isVisible()]
        assert len(shown) == maps, size
        assert panel.one.isVisible() == panel.state.isHidden() == (maps == 3)
        assert shown[0].plot.width() >= 150
    panel.resize(400, 420)
    QApplication.processEvents()
    first = panel.triptych.alone
    panel.next_state()
    assert first is panel.weights
    assert panel.triptych.alone is panel.raw, "the slider goes on, and nothing is chosen for larger panels"
    panel.resize(900, 460)
    QApplication.processEvents()
    assert all(one.isVisible() for one in panel.maps)


def test_the_titles_of_the_one_map_stand_beside_its_names(panel: ScoresPanel) -> None:
    panel.one.click()
    panel.resize(700, 800)
    QApplication.processEvents()
    axis = panel.weights.rows_axis
    assert axis.title == "query"
    assert axis.size().width() >= axis.room(panel.weights.cell_rect(0, 0).height())


def test_the_row_stands_beside_one_map_where_the_panel_is_wide(panel: ScoresPanel) -> None:
    panel.one.click()
    panel.resize(1200, 500)
    QApplication.processEvents()
    assert panel.row.geometry().left() >= panel.triptych.geometry().right()
    assert panel.row.height() == panel.triptych.height()
    panel.resize(600, 900)
    QApplication.processEvents()
    assert panel.row.geometry().top() >= panel.triptych.geometry().bottom()


def test_zooming_one_map_zooms_all(panel: ScoresPanel) -> None:
    view = QRectF(1.5, 2.5, 6, 6)
    panel.raw.look_at(view)
    assert {m.view.left() for m in panel.maps} == {1.5}


def test_levels_that_are_dragged_are_those_of_both_score_maps(panel: ScoresPanel, running: Session) -> None:
    panel.raw.grab()
    bar = panel.raw.bar.box.geometry()
    right = panel.raw.bar._inner().topRight() if bar.width() > bar.height() else panel.raw.bar._inner().topLeft()
    end = QPointF(right.x(), bar.center().y()) if bar.width() > bar.height() else QPointF(bar.center().x(), right.y())
    whole = panel.raw.levels
    drag(panel.raw, [end, (end + bar.center()) / 2, bar.center()])
    assert whole.low < panel.raw.levels.high < whole.high
    assert panel.masked.levels == panel.raw.levels
    assert not panel.weights.levels.by_hand
    running.selection.update(layer=2)
    settle(running, panel)
    assert panel.masked.levels == panel.raw.levels
    assert panel.raw.levels.by_hand, "heads are compared in the colours that were chosen"
    panel.masked.reset_levels()
    assert panel.raw.levels == panel.masked.levels
    assert not panel.raw.levels.by_hand


def test_the_weights_of_a_long_run_are_not_all_dark(long_run: Callable[[int], Session], shown: Show) -> None:
    session = long_run(300)
    panel = shown(ScoresPanel, session, 760, 460)
    session.selection.update(layer=0, head=1)  # a head that looks at the first token
    settle(session, panel)
    assert panel.weights.levels.note() == "to 99.5 %"
    assert 0 < panel.weights.levels.high < 0.8
    panel.log_scale.click()
    assert panel.weights.levels.share == 1.0


def test_a_long_run_is_pooled_and_zooming_asks_for_single_cells(
    long_run: Callable[[int], Session], shown: Show, engine: CannedEngine
) -> None:
    session = long_run(300)
    panel = shown(ScoresPanel, session, 760, 460)
    assert panel.weights.block[0] > 1
    assert panel.weights.note.startswith("max of ")
    pooled = panel.raw.levels
    panel.weights.look_at(QRectF(9.5, 19.5, 40, 40))
    settle(session, panel)
    assert panel.weights.block == (1, 1)
    raw = canned.reading(run_on(session), AskHead(1, 4, (20, 60), (10, 50))).scores.raw
    assert raw is not None
    assert raw.min() < pooled.low  # the largest of a pixel's cells hid it
    assert panel.raw.levels.low == pytest.approx(float(raw.min()), abs=1e-5)
    assert panel.masked.levels == panel.raw.levels
    question = engine.asked[-1]
    assert isinstance(question, AskHead)
    assert question.columns == (10, 50)
    panel.weights.look_at(QRectF(-0.5, -0.5, 300, 300))
    assert panel.raw.levels == pooled
    panel.weights.look_at(QRectF(9.5, 19.5, 40, 40))
    settle(session, panel)
    assert panel.weights.value(30, 15) == pytest.approx(canned.weights(run_on(session), 1, 4)[30, 15], abs=1e-6)


def test_a_hidden_panel_asks_nothing_until_it_is_shown(
    qtbot: QtBot, panel: ScoresPanel, running: Session, engine: CannedEngine
) -> None:
    panel.hide()
    asked = len(engine.asked)
    running.selection.update(layer=3)
    running.selection.update(query=4)
    settle(running)
    assert len(engine.asked) == asked
    panel.show()
    settle(running, panel)
    assert panel.subtitle.text().startswith("L3H4")


def test_a_sampled_picture_is_labelled_and_refined_in_place(
    running: Session, engine: CannedEngine, qtbot: QtBot
) -> None:
    length = run_on(running).length
    whole = canned.reading(run_on(running), AskHead(1, 4))
    coarse = replace(
        whole,
        scores=replace(whole.scores, values=np.zeros_like(whole.scores.values), reduction="sampled"),
        weights=replace(whole.weights, values=np.zeros_like(whole.weights.values), reduction="sampled"),
    )
    patch = HeadPatch(
        3,
        0,
        whole.scores.values[3:7, :4],
        whole.weights.values[3:7, :4],
        whole.weights.visible[3:7, :4],
        None if whole.scores.raw is None else whole.scores.raw[3:7, :4],
    )
    engine.answers |= {AskHead: lambda run, asked: coarse, AskRefined: lambda run, asked: whole}
    engine.ready[AskRefined] = (patch,)
    panel = ScoresPanel(running)
    qtbot.addWidget(panel)
    panel.resize(900, 500)
    seen: list[float | None] = []

    def look() -> None:
        seen.append(panel.weights.value(5, 2))
        panel.weights.data.colour(5, 2)  # coloured once, so that a part changes its colours alone

    panel.drawn.connect(look)
    engine.gated = AskRefined
    engine.gate.shut()
    panel.show()
    qtbot.waitUntil(lambda: panel.weights.value(5, 2) == whole.weights.values[5, 2])
    assert seen[0] == 0
    assert panel.weights.note == "sampled → max of 1 × 1"
    question = engine.asked[-1]
    assert isinstance(question, AskRefined)
    assert question.picture.reduction == "max"
    assert panel.weights.value(9, 2) == 0
    share = panel.weights.levels.indices(whole.weights.values[5:6, 2:3])[0, 0]
    assert panel.weights.data.colour(5, 2) == QColor(*(int(c) for c in theme.current().sequential[share][:3]))
    assert coarse.weights.values[5, 2] == 0
    engine.gate.open.set()
    settle(running, panel)
    assert panel.weights.value(length - 1, 0) == whole.weights.values[-1, 0]
    assert panel.weights.note == ""


def test_mean_or_max_is_offered_where_a_pixel_covers_cells(
    long_run: Callable[[int], Session], shown: Show, engine: CannedEngine
) -> None:
    session = long_run(700)
    panel = shown(ScoresPanel, session, 900, 500)
    assert panel.weights.note.startswith("max of ")
    assert panel.mean.isVisible()
    assert [one.reduction for one in engine.asked if isinstance(one, AskHead)] == ["max"]
    QTest.mouseClick(panel.mean, Qt.MouseButton.LeftButton)
    settle(session, panel)
    assert [one.reduction for one in engine.asked if isinstance(one, AskHead)] == ["max", "mean"]
    assert panel.subtitle.text().endswith("all cells would be 1.869 MiB")  # 700² numbers of four bytes


def test_the_row_of_a_new_run_takes_the_place_of_the_old_one(
    panel: ScoresPanel, running: Session, qtbot: QtBot, engine: CannedEngine
) -> None:
    asked = len([one for one in engine.asked if isinstance(one, AskRow)])
    engine.text = lambda place: TokenText(place, "new")
    running.start(Prompt("another prompt of as many tokens"))
    settle(running, panel)
    assert len([one for one in engine.asked if isinstance(one, AskRow)]) == asked + 1
    assert panel._labels[0] == "new"


def test_a_text_that_a_prompt_repeats_is_made_drawable_once(
    panel: ScoresPanel, running: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, engine: CannedEngine
) -> None:
    written: list[str] = []
    drawable = theme.drawable

    def noted(text: str, role: theme.Role = "number") -> str:
        written.append(text)
        return drawable(text, role)

    engine.text = lambda place: TokenText(place, "äö"[place % 2])
    monkeypatch.setattr("ropewalk.views.panels.scores.theme.drawable", noted)
    running.start(Prompt("another prompt of as many tokens"))
    settle(running, panel)
    assert sorted(written) == ["ä", "ö"]
    assert panel._labels[:4] == ("ä", "ö", "ä", "ö")


def test_a_step_writes_and_measures_only_the_label_it_adds(
    panel: ScoresPanel, running: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    measured: list[tuple[str, ...]] = []
    drawable, width_of = theme.drawable, TokenAxis._widest

    def noted(text: str, role: theme.Role = "number") -> str:
        written.append(text)
        return drawable(text, role)

    def measuring(axis: TokenAxis, labels: tuple[str, ...]) -> float:
        measured.append(labels)
        return width_of(axis, labels)

    monkeypatch.setattr("ropewalk.views.panels.scores.theme.drawable", noted)
    monkeypatch.setattr(TokenAxis, "_widest", measuring)
    running.timeline.step()
    settle(running, panel)
    added = run_on(running).tokens[run_on(running).length - 1].text
    assert written == [added]
    assert set(measured) == {(drawable(added),)}
    assert panel._labels == tuple(drawable(token.text) for token in run_on(running).tokens[: run_on(running).length])
    running.timeline.step_back()
    settle(running, panel)
    assert written == [added]
    assert len(panel._labels) == run_on(running).length


def test_a_head_switch_recolours_each_picture_once_and_a_selection_none(
    panel: ScoresPanel, running: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    coloured: list[MapData] = []
    colours = MapData._coloured

    def noted(data: MapData, values: Any, visible: Any) -> Any:
        coloured.append(data)
        return colours(data, values, visible)

    monkeypatch.setattr(MapData, "_coloured", noted)
    running.selection.update(head=(running.selection.now.head + 1) % 8)
    settle(running, panel)
    for heatmap in panel.maps:
        heatmap.grab()
    assert sorted(coloured, key=id) == sorted((heatmap.data for heatmap in panel.maps), key=id)
    coloured.clear()
    running.selection.update(query=5, key=2)
    settle(running, panel)
    for heatmap in panel.maps:
        heatmap.grab()
    assert coloured == []


def test_scores_that_differ_by_rounding_alone_have_one_colour() -> None:
    equal = np.array([[1.4142135, np.nan], [1.4142136, 1.4142134]], np.float32)
    low, high = value_range(equal)
    assert high - low == 1.0
    assert value_range(np.array([[1.41, 1.42]], np.float32)) == pytest.approx((1.41, 1.42))
    assert value_range(np.array([[np.inf]], np.float32)) == (0.0, 1.0)
