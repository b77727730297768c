"""The heads panel: thumbnails, scores, sorting, selection by hand and key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QColor, QContextMenuEvent, QFontMetrics
from PySide6.QtTest import QSignalSpy, QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskAtlas, AskRepeats, AskScoreChanges
from ropewalk.model.errors import CheckpointError
from ropewalk.model.readings.records import AtlasPart, HeadAtlas, RepeatScores, Run
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.plots.atlas import LAYER_ORDER, AtlasView, sorted_heads
from ropewalk.views.plots.atlas_plan import Metrics, Plan, Planner
from ropewalk.views.style import ink, theme
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle

Shown = Callable[..., Any]
METRICS = Metrics(gap=3, group_gap=8, label=16, label_width=30, gutter=40, header=36)


def place(panel: HeadsPanel, layer: int, head: int) -> QPoint:
    found = panel.view.plan.of(layer, head)
    assert found is not None
    return found.square.center()


def test_a_pixel_is_the_weight_of_its_cell(running: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    running.selection.update(layer=3, head=7)
    image = panel.view.grab().toImage()
    table, look = theme.current().sequential, theme.current()
    for layer, head in ((0, 1), (1, 4), (2, 6)):
        square = panel.view.plan.of(layer, head).square
        weights = canned.weights(run_on(running), layer, head)
        side, cells = square.width(), len(weights)
        for q, k in ((5, 0), (7, 3), (11, 10), (2, 9)):
            x, y = (int(np.flatnonzero(np.arange(side) * cells // side == i)[0]) for i in (k, q))
            seen = image.pixelColor(square.left() + x, square.top() + y)
            wanted = (
                look.masked_ground if k > q else QColor(*(int(c) for c in table[round(float(weights[q, k]) * 255)][:3]))
            )
            assert seen.rgb() == wanted.rgb(), (layer, head, q, k)


def test_a_click_selects_layer_and_head_and_redraws_nothing(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    drawn = panel.draws
    QTest.mouseClick(panel.view, Qt.MouseButton.LeftButton, pos=place(panel, 2, 5))
    assert (running.selection.now.layer, running.selection.now.head) == (2, 5)
    assert panel.view.selected == (2, 5)
    assert panel.draws == drawn
    square = panel.view.plan.of(2, 5).square
    image = panel.view.grab().toImage()
    assert image.pixelColor(square.center().x(), square.top() - 1).rgb() == theme.current().accent.rgb()


def test_arrows_move_over_the_grid_and_stop_at_its_edge(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    assert panel.view.plan.arrangement == "heads across"
    running.selection.update(layer=0, head=0)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Left):
        QTest.keyClick(panel.view, key)
    assert (running.selection.now.layer, running.selection.now.head) == (1, 1)
    for _ in range(9):
        QTest.keyClick(panel.view, Qt.Key.Key_Up)
    assert (running.selection.now.layer, running.selection.now.head) == (0, 1)


def test_hover_names_head_kv_head_and_score(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    QTest.mouseMove(panel.view, place(panel, 2, 6))
    assert running.selection.hover == Hover(layer=2, head=6)
    score = canned.reading(run_on(running), AskAtlas()).scores["previous token"][2, 6]
    assert panel.reading.text() == f"L2H6 · kv1 · previous token {score:.3f}"
    running.selection.point_at(Hover())
    assert panel.reading.text().startswith("L1H4")


def test_sorting_puts_the_highest_score_first(running: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    panel.sort_box.setCurrentText("sink")
    scores = canned.reading(run_on(running), AskAtlas()).scores["sink"]
    order = [scores[p.layer, p.head] for p in panel.view.plan.places]
    assert order == sorted(order, reverse=True)
    assert "by sink" in panel.subtitle.text()
    assert panel.view.plan.arrangement == "sorted"
    assert len(panel.view.plan.places) == 32


def test_an_undefined_score_says_why_and_keeps_the_layer_order(running: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    panel.sort_box.setCurrentText("induction")
    assert "not N tokens twice" in panel.why_undefined.text()
    assert panel.view.plan.arrangement == "heads across"
    panel.sort_box.setCurrentText(LAYER_ORDER)
    assert not panel.why_undefined.text()


def test_the_formula_is_the_tooltip(running: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    panel.sort_box.setCurrentText("sink")
    assert "mean over q ≥ 1 of w[q, 0]" in panel.sort_box.toolTip()


def test_small_scores_come_first_for_entropy_and_undefined_ones_last() -> None:
    values = np.array([[0.5, np.nan], [0.1, 2.0]])
    assert sorted_heads(values, "smallest") == [(1, 0), (0, 0), (1, 1), (0, 1)]
    assert sorted_heads(values, "largest") == [(1, 1), (0, 0), (1, 0), (0, 1)]


def test_changes_go_by_their_size_and_heads_that_do_not_reach_it_are_left_out() -> None:
    values = np.array([[0.5, np.nan], [-0.7, 0.1]])
    assert sorted_heads(values, "farthest") == [(1, 0), (0, 0), (1, 1), (0, 1)]
    assert sorted_heads(values, "farthest", 0.5) == [(1, 0), (0, 0)]
    assert sorted_heads(values, "largest", 0.1) == [(0, 0), (1, 1)]
    assert sorted_heads(values, "smallest", 0.1) == [(1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("layers", "heads", "group", "way"),
    [(4, 8, 4, "heads across"), (30, 9, 3, "heads across"), (80, 64, 8, "heads across")],
)
def test_the_arrangement_with_the_larger_thumbnails_wins(layers: int, heads: int, group: int, way: str) -> None:
    plan = Planner(layers, heads, group, QSize(728, 270), METRICS).in_layers()
    assert plan.arrangement == way or plan.folds > 1
    assert plan.side >= METRICS.smallest
    squares = [p.square for p in plan.places]
    assert len(squares) == layers * heads
    if layers * heads < 300:
        assert not any(a.intersects(b) for i, a in enumerate(squares) for b in squares[:i])
        assert plan.size.width() <= 728
        assert plan.size.height() <= 270 or plan.side == METRICS.smallest


@pytest.mark.parametrize(("number", "width", "height"), [(32, 728, 270), (270, 728, 270), (8, 300, 200)])
def test_sorted_heads_are_whole_rows(number: int, width: int, height: int) -> None:
    order = [(i // 8, i % 8) for i in range(number)]
    plan = Planner(4, 8, 4, QSize(width, height), METRICS).in_order(order, 66, 36)
    squares = [p.square for p in plan.places]
    assert not any(a.intersects(b) for i, a in enumerate(squares) for b in squares[:i])
    tops = sorted({s.top() for s in squares})
    cut = [t for t in tops if t < height < t + plan.side + METRICS.label * plan.lines]
    assert not cut


def test_kv_groups_have_a_bracket_in_the_key_colour(running: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    image = panel.view.grab().toImage()
    first = panel.view.plan.of(0, 0).square
    last = panel.view.plan.of(0, 3).square
    above = {image.pixelColor(first.center().x() - 8, y).rgb() for y in range(first.top())}
    between = {image.pixelColor(last.right() + 5, y).rgb() for y in range(first.top())}
    assert theme.current().key.rgb() in above
    assert theme.current().key.rgb() not in between


@pytest.mark.parametrize("projector", [False, True])
def test_a_ring_around_a_head_leaves_its_number_whole(running: Session, shown: Shown, projector: bool) -> None:
    theme.apply("dark", projector)
    panel = shown(HeadsPanel, running, 1400, 900)
    view, look = panel.view, theme.current()
    assert view.plan.lines
    running.selection.update(layer=3, head=7)
    square = view.plan.of(1, 4).square
    font = look.font("label")
    digits = QFontMetrics(font).tightBoundingRect("0.00").height()
    middle = square.bottom() + 1 + look.grid(0.375) + ink.line_height(font) / 2
    box = QRect(square.left(), round(middle - digits / 2), square.width(), digits)
    before = view.grab(box).toImage()
    view.highlight(frozenset({(1, 4)}))
    assert view.grab(box).toImage() == before
    theme.apply("dark")


def test_another_theme_is_another_picture(running: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    before = panel.view.grab().toImage()
    theme.apply("light", projector=True)
    panel.theme_changed()
    assert panel.view.grab().toImage() != before


def test_a_step_redraws_once(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(HeadsPanel, running)
    drawn = panel.draws
    running.timeline.step()
    settle(running, panel)
    assert panel.draws == drawn + 1


def test_nothing_run_says_so(session: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, session)
    assert panel.notice.isVisible()
    assert "Nothing has been run yet" in panel.notice.text()


def test_a_low_wide_room_folds_the_layers_into_blocks(running: Session, shown: Shown) -> None:
    plan = Planner(4, 8, 4, QSize(800, 150), METRICS).in_layers()
    assert plan.folds == 2
    assert plan.size.width() <= 800
    single = Planner(4, 8, 4, QSize(800, 150), METRICS)._grid("heads across", False)
    assert plan.side > single.side
    first, third = plan.of(0, 0), plan.of(2, 0)
    assert first is not None
    assert third is not None
    assert third.square.top() == first.square.top()
    assert third.column == 8 + first.column
    assert len({(p.layer, p.head) for p in plan.places}) == 32


def test_layers_that_take_long_are_painted_as_they_come(
    running: Session, shown: Shown, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, engine: CannedEngine
) -> None:
    engine.gated = AskAtlas
    running.run_changed.connect(lambda before, after: engine.gate.shut())  # first, so that no answer is sooner
    panel = shown(HeadsPanel, running, 760, 420)
    whole = canned.reading(run_on(running), AskAtlas())
    engine.ready[AskAtlas] = (AtlasPart(2, whole.thumbnails[2], "sampled", {}),)
    engine.answers[AskAtlas] = lambda run, asked: whole if asked.exact else replace(whole, reduction="sampled")
    monkeypatch.setattr(panel, "PATIENCE", 0.0)
    running.start(Prompt("another prompt"))
    qtbot.waitUntil(lambda: "sampled" in panel.subtitle.text())
    question = engine.asked[-1]
    assert isinstance(question, AskAtlas)
    assert set(question.first) == {0, 1, 2, 3}
    ground = theme.current().masked_ground.rgb()
    image = panel.view.grab().toImage()
    here, there = panel.view.plan.of(2, 1).square, panel.view.plan.of(0, 1).square
    assert image.pixelColor(here.left() + 2, here.top() + 2).rgb() != ground
    assert image.pixelColor(there.left() + 2, there.top() + 2).rgb() == ground
    assert not panel.exact.isVisible()
    engine.gate.open.set()
    settle(running, panel)
    assert panel.exact.isVisible()
    QTest.mouseClick(panel.exact, Qt.MouseButton.LeftButton)
    settle(running, panel)
    assert [asked.exact for asked in engine.asked if isinstance(asked, AskAtlas)] == [False, False, True]
    assert "sampled" not in panel.subtitle.text()
    assert panel.exact.isVisible()


def test_many_layers_in_a_low_room_scroll_as_little_as_possible() -> None:
    plan = Planner(30, 9, 3, QSize(800, 115), METRICS).in_layers()
    assert plan.size.width() <= 800
    assert plan.size.height() < Planner(30, 9, 3, QSize(800, 115), METRICS)._grid("heads across", False).size.height()


def layers_painted(view: AtlasView, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects which layers are painted into the picture from now on."""
    painted: list[int] = []
    paint = view._paint_layer

    def noted(layer: int) -> None:
        painted.append(layer)
        paint(layer)

    monkeypatch.setattr(view, "_paint_layer", noted)
    return painted


def test_a_step_paints_each_thumbnail_once_and_an_empty_one_never(
    running: Session, shown: Shown, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    painted = layers_painted(panel.view, monkeypatch)
    running.timeline.step()
    settle(running, panel)
    assert painted == [0, 1, 2, 3]
    painted.clear()
    panel.view.choose("previous", "layer order")  # only what is written under them differs
    running.selection.update(layer=2, head=3)
    assert painted == []


def test_parts_of_a_step_replace_thumbnails_one_by_one(
    running: Session, shown: Shown, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, engine: CannedEngine
) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    whole = canned.reading(run_on(running), AskAtlas())
    changed = replace(whole, thumbnails=1 - whole.thumbnails)
    engine.ready[AskAtlas] = (AtlasPart(2, changed.thumbnails[2], "exact", {}),)
    engine.answers[AskAtlas] = lambda run, asked: changed
    monkeypatch.setattr(panel, "PATIENCE", 0.0)
    before = panel.view.grab().toImage()
    painted = layers_painted(panel.view, monkeypatch)
    engine.gated = AskAtlas
    engine.gate.shut()
    panel.refresh()
    qtbot.waitUntil(lambda: painted == [2])
    image = panel.view.grab().toImage()
    here, there = panel.view.plan.of(2, 1).square.center(), panel.view.plan.of(0, 1).square.center()
    assert image.pixelColor(here) != before.pixelColor(here)
    assert image.pixelColor(there) == before.pixelColor(there)  # still that of the step before, not empty
    engine.gate.open.set()
    settle(running, panel)
    assert painted == [2, 0, 1, 3]


def test_many_thumbnails_are_painted_over_several_turns(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    view = AtlasView()
    qtbot.addWidget(view)
    view.fit(QSize(800, 600))
    painted = layers_painted(view, monkeypatch)
    rng = np.random.default_rng(0)
    with qtbot.waitSignal(view.painted):
        view.show_atlas(HeadAtlas(rng.random((30, 9, 8, 8), np.float32), "exact", {}, {}), 3)
        assert (len(painted), view.is_painted) == (AtlasView.HEADS_AT_ONCE // 9, False)
    assert sorted(painted) == list(range(30))
    assert view.is_painted


def test_a_plan_is_made_once_for_a_room(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    view = AtlasView()
    qtbot.addWidget(view)
    view.fit(QSize(800, 600))
    made: list[Planner] = []
    in_layers = Planner.in_layers

    def noted(planner: Planner) -> Plan:
        made.append(planner)
        return in_layers(planner)

    monkeypatch.setattr(Planner, "in_layers", noted)
    rng = np.random.default_rng(0)
    for _ in range(3):
        view.show_atlas(HeadAtlas(rng.random((4, 8, 8, 8), np.float32), "exact", {}, {}), 4)
    assert len(made) == 1
    view.fit(QSize(500, 600))
    assert len(made) == 2


@pytest.mark.parametrize(("width", "height"), [(728, 270), (300, 200), (1200, 700)])
def test_the_outline_of_sorted_heads_is_whole(width: int, height: int) -> None:
    order = [(i // 8, i % 8) for i in range(32)]
    plan = Planner(4, 8, 4, QSize(width, height), METRICS).in_order(order, 66, 36)
    assert min(min(p.square.left(), p.square.top()) for p in plan.places) >= 3
    assert max(p.square.right() for p in plan.places) <= width - 4


def test_a_score_somebody_chose_stays_the_label_in_any_order_and_after_a_step(running: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    assert panel.view.score == "previous token"
    for name in ("sink", LAYER_ORDER):
        panel.sort_box.setCurrentText(name)
        panel.sort_box.textActivated.emit(name)
    assert (panel.view.score, panel.view.sorted_by) == ("sink", LAYER_ORDER)
    running.timeline.step()
    settle(running, panel)
    assert panel.view.score == "sink"
    panel.order_by_layer()
    assert panel.view.sorted_by == LAYER_ORDER


def test_where_random_repeats_fail_their_button_is_not_pressed(
    running: Session, shown: Shown, engine: CannedEngine
) -> None:
    def fail(run: Run, asked: AskRepeats) -> RepeatScores:
        raise CheckpointError("The model has no room for them; close another.")

    panel = shown(HeadsPanel, running, 760, 420)
    own = panel.view.score_of(1, 2)
    engine.answers[AskRepeats] = fail
    failures: list[str] = []
    running.failed.connect(lambda sentence, details: failures.append(sentence))
    panel.repeats.click()
    settle(running, panel)
    assert failures == ["The model has no room for them; close another."]
    assert not panel.repeats.isChecked()
    assert panel.view.score_of(1, 2) == own
    del engine.answers[AskRepeats]
    panel.repeats.click()
    settle(running, panel)
    assert panel.repeats.isChecked()
    panel.hide()
    running.start(Prompt("another prompt of as many tokens"))
    settle(running)
    assert panel.repeats.isChecked(), "what a hidden panel has not asked yet has not failed"
    panel.show()
    settle(running, panel)
    assert "random tokens twice" in panel.subtitle.text()


def test_heads_are_tested_on_random_repeats_and_on_the_prompt_again(
    running: Session, shown: Shown, engine: CannedEngine
) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    own = panel.view.score_of(1, 2)
    panel.repeats.click()
    settle(running, panel)
    assert engine.asked[-1] == AskRepeats()
    assert "on 32 random tokens twice" in panel.subtitle.text()
    assert (
        panel.view.score_of(1, 2) == canned.reading(run_on(running), AskRepeats()).scores[panel.view.score][1, 2] != own
    )
    panel.sort_box.setCurrentText("induction")
    assert not panel.why_undefined.text(), "on random repeats it always has a value"
    panel.repeats.click()
    assert "random" not in panel.subtitle.text()
    assert "not N tokens twice" in panel.why_undefined.text()


def test_a_label_that_nobody_chose_is_chosen_anew_for_another_prompt(
    running: Session, shown: Shown, engine: CannedEngine
) -> None:
    panel = shown(HeadsPanel, running)
    assert panel.view.score == "previous token"
    engine.answers[AskAtlas] = lambda run, asked: replace(canned.reading(run, asked), undefined={})
    running.timeline.step()
    settle(running, panel)
    assert panel.view.score == "previous token"
    running.start(Prompt("a text twice a text twice"))
    settle(running, panel)
    assert panel.view.score == "induction"


# Sorted heads ---------------------------------------------------------------------------------------------------------


def test_heads_that_do_not_reach_a_score_are_left_out_of_the_sorted_ones(running: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    assert not panel.sorting.isVisible(), "in the order of layers every head has its place"
    panel.sort_box.setCurrentText("sink")
    assert panel.sorting.isVisible()
    scores = canned.reading(run_on(running), AskAtlas()).scores["sink"]
    panel.least.setValue(0.5)
    assert {(p.layer, p.head) for p in panel.view.plan.places} == set(zip(*np.nonzero(scores >= 0.5), strict=True))
    left = int((scores >= 0.5).sum())
    assert 0 < left < scores.size
    assert f"· {left} of them · by sink" in panel.subtitle.text()
    panel.least.setValue(2)
    assert panel.view.plan.places == ()
    assert "No head reaches that" in panel.why_undefined.text()
    panel.sort_box.setCurrentText(LAYER_ORDER)
    assert len(panel.view.plan.places) == scores.size
    assert not panel.why_undefined.text()


def test_a_score_is_offered_by_its_title_and_sorted_as_its_table_says(
    running: Session, shown: Shown, engine: CannedEngine
) -> None:
    engine.answers[AskAtlas] = lambda run, asked: replace(
        canned.reading(run, asked), titles={"sink": "first token"}, smallest_first=("sink",)
    )
    panel = shown(HeadsPanel, running, 760, 420)
    panel.sort_box.setCurrentText("first token")
    scores = canned.reading(run_on(running), AskAtlas()).scores["sink"]
    order = [scores[p.layer, p.head] for p in panel.view.plan.places]
    assert order == sorted(order)
    assert "by first token · label: first token" in panel.subtitle.text()
    assert panel.least.prefix() == "≤ "
    panel.least.setValue(float(np.sort(scores.ravel())[3]) + 1e-3)
    assert len(panel.view.plan.places) == int((scores <= panel.least.value()).sum())


def test_heads_are_sorted_by_how_far_they_moved_from_the_pinned_run(
    running: Session, shown: Shown, engine: CannedEngine
) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    panel.sort_box.setCurrentText("sink")
    assert not panel.changed.isVisible(), "nothing is pinned"
    running.baseline.pin()
    settle(running, panel)
    panel.changed.click()
    settle(running, panel)
    assert engine.asked[-1] == AskScoreChanges()
    moved = canned.reading(run_on(running), AskScoreChanges()).scores["sink"]
    order = [abs(moved[p.layer, p.head]) for p in panel.view.plan.places]
    assert order == sorted(order, reverse=True)
    assert "by change of sink · label: sink, B − A" in panel.subtitle.text()
    running.selection.update(layer=0, head=0)
    assert panel.reading.text() == "L0H0 · kv0 · sink +0.500"
    panel.least.setValue(0.25)
    assert len(panel.view.plan.places) == int((np.abs(moved) >= 0.25).sum())
    panel.least.setValue(0)
    panel.sort_box.setCurrentText("induction")
    assert panel.why_undefined.text() == "induction is not defined here: not in A"
    panel.sort_box.setCurrentText("sink")
    panel.repeats.click()
    settle(running, panel)
    assert not panel.changed.isChecked(), "random repeats have no pinned run"
    panel.changed.click()
    settle(running, panel)
    assert not panel.repeats.isChecked()
    running.timeline.step()
    settle(running, panel)
    assert engine.asked[-1] == AskScoreChanges(), "of the longer run"
    running.baseline.unpin()
    assert not panel.changed.isVisible()
    assert "B − A" not in panel.subtitle.text()


# Pinned heads and notes -----------------------------------------------------------------------------------------------


def test_a_head_is_pinned_and_noted_by_the_menu_of_its_thumbnail(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    wanted = QSignalSpy(panel.note_wanted)

    def chosen(starts: str) -> None:
        event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place(panel, 2, 5), QPoint(0, 0))
        QApplication.sendEvent(panel.view, event)
        menu = panel.findChildren(QMenu, "head")[-1]
        next(one for one in menu.actions() if one.text().startswith(starts)).trigger()
        menu.close()

    chosen("Pin L2H5 to the board")
    assert running.board.now.heads == ((2, 5),)
    chosen("Write a note to L2H5")
    assert wanted.at(0) == [2, 5]
    running.board.note(2, 5, "odd")
    chosen("Change the note to L2H5")
    chosen("Take L2H5 off the board")
    assert not running.board.now.heads


def test_pinned_and_noted_heads_are_marked_and_the_note_of_the_selected_one_is_read(
    running: Session, shown: Shown
) -> None:
    panel = shown(HeadsPanel, running, 760, 420)
    assert not panel.note.isVisible()
    running.board.pin(2, 5)
    running.board.note(3, 1, "looks\nback")
    panel.view.lay_out()
    image, now, side = panel.view.grab().toImage(), theme.current(), theme.current().grid(1)
    pinned, noted = panel.view.plan.of(2, 5).square, panel.view.plan.of(3, 1).square
    assert image.pixelColor(noted.right() - 1, noted.top() + 2).rgb() == now.text.rgb()
    assert image.pixelColor(pinned.right() - side - side // 2, pinned.top() + side // 2).rgb() == now.accent.rgb()
    other = panel.view.plan.of(1, 1).square
    assert image.pixelColor(other.right() - 1, other.top() + 2).rgb() == now.masked_ground.rgb()
    running.selection.update(layer=3, head=1)
    assert (panel.note.text(), panel.note.isVisible()) == ("L3H1: looks back", True)
    running.selection.update(layer=3, head=2)
    assert panel.note.text() == ""


def test_what_heads_are_sorted_by_is_whole_before_qt_arranges_anything(running: Session, shown: Shown) -> None:
    panel = shown(HeadsPanel, running)
    answered = panel.readings["atlas"]
    panel.sort_box.clear()
    settle(running, panel)
    empty = panel.sort_box.width()
    assert running.run is not None
    panel.show_answer(running.run, running.selection.now, answered)
    assert panel.sort_box.width() == panel.sort_box.sizeHint().width() > empty
