"""The real window over the real session and the bundled model: real clicks, and the numbers they bring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from ropewalk.model.decoder.costs import kv_bytes, kv_bytes_at_bits
from ropewalk.model.decoder.interventions import AblateHeads, NoCausalMask, NoScale, PermuteTokens, RopeBase
from ropewalk.model.engine.questions import AskCell, AskNextToken, AskPlanes, AskRow
from ropewalk.model.readings.records import CellReading, NextTokenReading, PlaneReading, RowReading, Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.cache import CachePanel
from ropewalk.views.panels.compare import ComparePanel
from ropewalk.views.panels.interventions import InterventionsPanel
from ropewalk.views.panels.needs import NeedsPanel
from ropewalk.views.panels.rope import PARTS, RopePanel
from ropewalk.views.panels.timeline import TimelinePanel
from ropewalk.views.panels.why import WhyPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.rotation.turning import scores_by_distance
from tests.views.driving import answer, click, front, opened_window, run_of
from tests.views.shown_numbers import assert_shown

PROMPT = " hark, who goes there? hark, who goes there?"


@pytest.fixture(scope="module")
def whole(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MainWindow]:
    """One window for every test here: opening the model takes longer than they do."""
    with opened_window(tmp_path_factory.mktemp("settings"), None, PROMPT, QSize(1280, 800)) as window:
        for card in window.cards.values():
            card.make_panel()  # here, for their menus live as long as this window, and not as one test
        yield window


@pytest.fixture
def window(whole: MainWindow) -> MainWindow:
    """The window with the prompt on screen, nothing changed in the model and the last row selected."""
    session = whole.session
    session.baseline.unpin()
    if session.interventions.now:
        session.interventions.apply(())
        snapshot.wait_until_drawn(whole)
    run = run_of(whole)
    if (run.prompt, run.length, run.newest) != (PROMPT, run.prefill, run.prefill):
        session.start(Prompt(PROMPT))
        snapshot.wait_until_drawn(whole)
    session.selection.update(layer=2, head=1, query=15, key=8)
    snapshot.wait_until_drawn(whole)
    return whole


def cell_of(window: MainWindow) -> CellReading:
    now = window.session.selection.now
    return cast("CellReading", answer(window, AskCell(now.layer, now.head, now.query, now.key)))


def planes_of(window: MainWindow) -> PlaneReading:
    now = window.session.selection.now
    return cast("PlaneReading", answer(window, AskPlanes(now.layer, now.head, now.query, now.key)))


# Why this number --------------------------------------------------------------------------------------------------


def test_every_step_unfolds_down_to_the_planes_and_copies(window: MainWindow) -> None:
    panel: WhyPanel = front(window, "why")
    click(window, panel.fold_levels)
    tree = panel.tree
    assert tree.isVisible()
    assert tree.topLevelItemCount() == 9
    cell = cell_of(window)
    assert panel.arithmetic is not None
    line = panel.arithmetic.line
    planes = [line(f"score.plane.{i}").value for i in range(8)]
    assert sum(cast("list[float]", planes)) == pytest.approx(cell.scaled, abs=1e-4)
    assert line("softmax.weight").value == pytest.approx(cell.weight, abs=1e-6)
    assert line("logit.0").symbol.split()[-1] != line("logit.0").symbol.split()[1], "a token is named"

    score = tree.topLevelItem(3)
    assert score is not None
    tree.scrollToItem(score)
    click(window, tree.viewport(), tree.visualItemRect(score).center())
    assert score.isExpanded()
    weight = tree.item_of("score.scaled")
    assert weight is not None
    assert float(weight.text(2).replace("−", "-")) == pytest.approx(cell.scaled, abs=1e-3)
    tree.setCurrentItem(weight)
    QTest.keyClick(tree, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert float(QApplication.clipboard().text().split(" = ")[1]) == cell.scaled
    click(window, panel.fold_levels)
    assert not tree.isVisible()
    assert "weight = exp(" in panel.text.toPlainText()


def test_a_line_lights_where_its_number_lives(window: MainWindow) -> None:
    panel: WhyPanel = front(window, "why")
    click(window, panel.fold_levels)
    tree, selection = panel.tree, window.session.selection
    plane = tree.item_of("score.plane.3")
    assert plane is not None
    tree.setCurrentItem(plane)
    assert selection.hover.plane == 3
    tree.setCurrentItem(cast("Any", tree.item_of("rotate.k")))
    assert selection.hover.key == selection.now.key
    tree.setCurrentItem(cast("Any", tree.item_of("score.dot")))
    assert (selection.hover.query, selection.hover.key) == (15, 8)
    tree.setCurrentItem(plane)
    tree.setFocus()
    QTest.keyClick(tree, Qt.Key.Key_Return)
    assert selection.now.plane == 3
    assert window.panels["rope"].on_screen
    vector = tree.item_of("norm.query.stream")
    assert vector is not None
    assert vector.childCount() == 16
    chunk = vector.child(0)
    assert chunk is not None
    first = [float(text) for text in chunk.text(1).replace("−", "-").split()]
    line = tree.line_of(vector)
    assert line is not None
    assert line.vector is not None
    assert np.allclose(first, line.vector[:8], atol=5e-3)
    click(window, panel.fold_levels)


# Interventions ------------------------------------------------------------------------------------------------------


def row_of(window: MainWindow) -> RowReading:
    now = window.session.selection.now
    return cast("RowReading", answer(window, AskRow(now.layer, now.head, now.query)))


def test_leaving_the_scale_out_multiplies_the_score_and_sharpens_the_row(window: MainWindow) -> None:
    before, entropy = cell_of(window), row_of(window).entropy
    panel: InterventionsPanel = front(window, "experiments")
    click(window, panel.buttons["no_scale"])
    after = cell_of(window)
    if run_of(window).specs[0].scale == 1.0:
        assert window.session.interventions.now == (NoScale(),)
    assert after.scale == 1.0
    assert row_of(window).entropy < entropy
    assert_shown(panel.effect.text(), "(unchanged model {})", entropy)
    assert [chip.text() for chip in panel.active_chips] == ["no 1/√Dh  ×"]
    click(window, panel.active_chips[0])
    assert not window.session.interventions.now
    assert cell_of(window).score == pytest.approx(before.score, abs=1e-6)
    click(window, panel.undo_button)
    assert window.session.interventions.now == (NoScale(),)
    click(window, panel.clear_button)
    assert panel.active_chips == ()


def test_interventions_compose_and_the_newer_of_a_kind_replaces_the_older(window: MainWindow) -> None:
    scaled = cell_of(window).scaled
    panel: InterventionsPanel = front(window, "experiments")
    panel.factor.setValue(3.0)
    click(window, panel.buttons["factor"])
    panel.factor.setValue(2.0)
    click(window, panel.buttons["factor"])
    click(window, panel.buttons["zero"])
    assert len(window.session.interventions.now) == 2
    assert window.session.interventions.now[1] == AblateHeads(2, (1,))
    now = window.session.selection.now
    window.session.selection.update(layer=0)
    snapshot.wait_until_drawn(window)
    doubled = cell_of(window).scaled
    click(window, panel.clear_button)
    assert doubled == pytest.approx(2 * cell_of(window).scaled, rel=1e-5)
    window.session.selection.update(layer=now.layer)
    snapshot.wait_until_drawn(window)
    assert cell_of(window).scaled == pytest.approx(scaled, abs=1e-6)


def test_a_head_to_its_mean_and_another_base_are_one_click(window: MainWindow) -> None:
    panel: InterventionsPanel = front(window, "experiments")
    click(window, panel.buttons["mean"])
    (made,) = window.session.interventions.now
    assert isinstance(made, AblateHeads)
    assert (made.layer, made.heads, len(made.means[0])) == (2, (1,), 16)
    panel.base.setValue(500.0)
    click(window, panel.buttons["base"])
    assert window.session.interventions.now == (made, RopeBase(500.0))
    frequencies = planes_of(window).query_frequencies
    assert np.allclose(frequencies, 500.0 ** (-np.arange(8) / 8), atol=1e-6)


def test_without_the_causal_mask_the_cache_says_why_it_is_empty(window: MainWindow) -> None:
    panel: InterventionsPanel = front(window, "experiments")
    click(window, panel.buttons["no_mask"])
    assert window.session.interventions.now == (NoCausalMask(),)
    window.session.selection.update(query=3, key=9)
    snapshot.wait_until_drawn(window)
    assert cell_of(window).weight > 0
    cache = front(window, "cache")
    assert cache.notice.isVisible()
    assert "Nothing can be cached" in cache.notice.text()


def test_tokens_change_places_and_what_is_refused_is_a_sentence(window: MainWindow) -> None:
    run = run_of(window)
    panel: InterventionsPanel = front(window, "experiments")
    click(window, panel.buttons["reverse"])
    assert window.session.interventions.now == (PermuteTokens(tuple(range(15, -1, -1))),)
    assert [t.id for t in run_of(window).tokens] == [t.id for t in reversed(run.tokens)]
    panel.order.setText("0, 0, 1")
    failures: list[str] = []
    window.session.failed.connect(lambda sentence, details: failures.append(sentence))
    QTest.mouseClick(panel.buttons["order"], Qt.MouseButton.LeftButton)
    while window.session.busy:
        QApplication.processEvents()
    assert failures == ["The order [0, 0, 1] does not name each row from 0 exactly once."]
    panel.heads.setText("two")
    QTest.mouseClick(panel.buttons["heads"], Qt.MouseButton.LeftButton)
    assert failures[1].startswith("'two' is not a list of numbers")
    assert len(window.session.interventions.now) == 1
    window.failure.dismiss()


# Compare ----------------------------------------------------------------------------------------------------------


def test_a_baseline_is_compared_cell_by_cell_and_in_its_next_token(window: MainWindow) -> None:
    panel: ComparePanel = front(window, "compare")
    assert "Nothing is pinned" in panel.notice.text()
    before = cell_of(window)
    click(window, panel.pin_button)
    assert np.nanmax(np.abs(cast("Any", panel.difference).scores)) == 0
    assert panel.changes.changes == ()
    window.session.interventions.apply((NoScale(),))
    snapshot.wait_until_drawn(window)
    after = cell_of(window)
    difference = panel.difference
    assert difference is not None
    assert difference.scores[15, 8] == pytest.approx(after.score - before.score, abs=1e-4)
    assert difference.weights[15, 8] == pytest.approx(after.weight - before.weight, abs=1e-5)
    assert panel.scores.is_masked(3, 9)
    levels = panel.weights.levels
    assert levels.low == -levels.high
    panel.scores.look_at(QRectF(3.5, 3.5, 6, 6))
    assert panel.weights.view == panel.scores.view != panel.scores.box.extent
    panel.weights.view_all()
    assert panel.scores.view == panel.scores.box.extent
    moved = panel.next_token
    assert moved is not None
    assert moved.kl_forward > 0
    reading = cast("NextTokenReading", answer(window, AskNextToken(15, 40, Sampling())))
    likelihood = {c.token.id: c.probability for c in reading.candidates}
    for change in moved.changes:
        if change.token.id in likelihood:
            assert change.after == pytest.approx(likelihood[change.token.id], abs=1e-5)
    assert "KL(A‖B)" in panel.sentence.text()
    window.session.interventions.apply(())
    snapshot.wait_until_drawn(window)
    window.session.start(Prompt(" hark, who goes? hark, who goes there?"))
    snapshot.wait_until_drawn(window)
    rows = cast("Any", panel.difference).rows
    assert sum(b is None for _, b in rows) >= 1
    assert "no partner" in panel.subtitle.text()
    assert any(label.startswith("−") for label in panel.scores.rows_axis.names)
    click(window, panel.unpin_button)
    assert "Nothing is pinned" in panel.notice.text()


def test_the_heads_that_a_token_needs(window: MainWindow) -> None:
    panel: NeedsPanel = front(window, "needs")
    reading = cast("NextTokenReading", answer(window, AskNextToken(15, 40, Sampling())))
    assert panel.token_id == reading.candidates[0].token.id
    assert panel.attribution is not None
    assert panel.attribution.logit == pytest.approx(reading.candidates[0].logit, abs=1e-3)
    QTest.mouseClick(panel.run_button, Qt.MouseButton.LeftButton)
    assert panel.run_button.text() == "Cancel"
    click(window, panel.run_button)
    assert panel.run_button.text() == "Ablate each head"
    assert panel.needs is None
    click(window, panel.run_button)
    needs = panel.needs
    assert needs is not None
    assert needs.change.shape == (4, 8)
    assert panel.run_button.text() == "Ablate each head"
    layer, head = divmod(int(needs.change.argmin()), 8)
    click(window, panel.ablated.viewport(), panel.ablated.cell_of(layer, head).center().toPoint())
    now = window.session.selection.now
    assert (now.layer, now.head) == (layer, head)
    window.session.interventions.apply((AblateHeads(layer, (head,)),))
    snapshot.wait_until_drawn(window)
    without = cast("NextTokenReading", answer(window, AskNextToken(15, 1024, Sampling())))
    logit = {c.token.id: c.logit for c in without.candidates}[needs.token]
    assert logit - needs.logit == pytest.approx(needs.change[layer, head], abs=1e-3)


# RoPE -------------------------------------------------------------------------------------------------------------


def test_shifting_both_turns_everything_and_leaves_the_score(window: MainWindow) -> None:
    panel: RopePanel = front(window, "rope")
    reading = planes_of(window)
    assert panel.page_box.currentText() == "planes"
    click(window, panel.both)
    assert panel.slider.minimum() == (15 - 8) * PARTS
    panel.slider.setFocus()
    for _ in range(5):
        QTest.keyClick(panel.slider, Qt.Key.Key_Right)
    turned = panel.view.turned
    assert turned is not None
    assert (turned.position, turned.key_position) == (20, 13)
    assert not np.allclose(turned.q_after, reading.q_after, atol=0.1)
    assert turned.scaled == pytest.approx(reading.scaled, abs=1e-6)
    assert "m = 20, n = 13" in panel.position_label.text()
    assert "at a shift of 32,000" in panel.sum_label.text()
    panel.speed.setCurrentIndex(1)
    click(window, panel.loop)
    panel.slider.setValue(panel.slider.maximum())
    panel.play_button.click()
    panel.slider.setValue(panel.slider.maximum())
    panel.timer.timeout.emit()
    assert panel.slider.value() == panel.slider.minimum()
    panel.timer.timeout.emit()
    assert panel.slider.value() == panel.slider.minimum() + 2
    window.show_workspace("decode")
    assert not panel.timer.isActive(), "it costs nothing when it is hidden"
    front(window, "rope")
    click(window, panel.loop)
    click(window, panel.query_alone)


def test_the_distance_curve_and_the_rules_laid_over_it(window: MainWindow) -> None:
    panel: RopePanel = front(window, "rope")
    panel.page_box.setCurrentText("distance")
    snapshot.wait_until_drawn(window)
    reading, page = planes_of(window), panel.curves
    assert [name for name, *_ in page.view.curves] == ["the run"]
    own = page.view.curves[0][3]
    assert own[7] == pytest.approx(reading.scaled, abs=1e-4)
    assert page.view.true == (7.0, reading.scaled)
    names = [rule.name for rule in page.rules]
    assert names[1] == "none"
    linear = next(i for i, name in enumerate(names) if name.startswith("linear"))
    click(window, page.buttons[linear - 1])
    assert len(page.view.curves) == 2
    rule = page.rules[linear]
    assert np.allclose(page.view.curves[1][3], scores_by_distance(reading, page.view.distances, rule))
    assert np.allclose(rule.frequencies, reading.query_frequencies / 4)
    click(window, page.wide)
    assert page.view.distances[-1] == 511
    panel.page_box.setCurrentText("planes")


def test_the_spectrum_names_the_planes_that_never_finish_a_turn(window: MainWindow) -> None:
    panel: RopePanel = front(window, "rope")
    panel.page_box.setCurrentText("spectrum")
    snapshot.wait_until_drawn(window)
    theta = planes_of(window).query_frequencies
    assert panel.spectrum.unfinished == int((2 * np.pi / theta > 512).sum()) == 4
    assert panel.sum_label.text().startswith("4 of 8 planes never finish a turn")
    click(window, panel.spectrum, panel.spectrum.bar_of(6).center().toPoint())
    assert window.session.selection.now.plane == 6
    QTest.keyClick(panel.spectrum, Qt.Key.Key_Left)
    assert window.session.selection.now.plane == 5
    panel.page_box.setCurrentText("planes")


def test_reading_the_other_pairing_breaks_the_score(window: MainWindow) -> None:
    panel: RopePanel = front(window, "rope")
    panel.page_box.setCurrentText("pairing")
    snapshot.wait_until_drawn(window)
    r = planes_of(window)
    assert not panel.pairing.adjacent
    q, k = np.zeros(16), np.zeros(16)
    q[r.features.ravel()], k[r.features.ravel()] = r.q_before.ravel(), r.k_before.ravel()
    angle = (r.query_position * r.query_frequencies, r.key_position * r.key_frequencies)
    turned = [(v[0::2] + 1j * v[1::2]) * np.exp(1j * a) for v, a in ((q, angle[0]), (k, angle[1]))]
    wrong = r.scale * float((turned[0] * turned[1].conj()).real.sum())
    text = panel.sum_label.text()
    assert_shown(text, "Read as adjacent: {}", wrong)
    assert_shown(text, "reordered for adjacent: {}, the same", r.scaled)
    panel.page_box.setCurrentText("planes")


# The cache over time ----------------------------------------------------------------------------------------------


def test_the_timeline_scrubs_and_a_step_can_be_branched(window: MainWindow) -> None:
    session = window.session
    session.timeline.run_to(20)
    snapshot.wait_until_drawn(window)
    panel: TimelinePanel = front(window, "timeline")
    tokens = [token.id for token in run_of(window).tokens]
    click(window, panel.steps, panel.steps.cell_of(18).center().toPoint())
    assert run_of(window).length == 18
    assert window.panels["tokens"].subtitle.text().startswith("18 tokens")
    assert f"{kv_bytes(run_of(window).config, 18, 'float32'):,} bytes" in panel.subtitle.text()
    panel.steps.setFocus()
    QTest.keyClick(panel.steps, Qt.Key.Key_Right)
    snapshot.wait_until_drawn(window)
    assert run_of(window).length == 19
    click(window, panel.steps, panel.steps.cell_of(17).center().toPoint())
    other = int(panel.token.itemData(0))
    assert other != tokens[16]
    click(window, panel.branch_button)
    run = run_of(window)
    assert (run.length, run.newest) == (17, 17)
    assert [token.id for token in run.tokens] == [*tokens[:16], other]
    click(window, panel.steps, panel.steps.cell_of(16).center().toPoint())
    assert run_of(window).length == 16
    assert not panel.branch_button.isVisible()


def test_bytes_at_every_step_are_those_of_the_formula_and_the_planner_plans(window: MainWindow) -> None:
    panel: CachePanel = front(window, "cache")
    for length in (17, 18, 19):
        window.session.timeline.run_to(length)
        snapshot.wait_until_drawn(window)
    config = run_of(window).config
    assert panel.growth.measured == {n: 2 * n * 4 * 2 * 16 * 4 for n in (16, 17, 18, 19)}
    assert panel.growth.sentence().startswith("measured = formula at 4 steps; 19,456 bytes at 19")
    panel.page_box.setCurrentText("planner")
    panel.planner.context.setValue(4096)
    panel.planner.batch.setValue(8)
    rows = {row.name: row.bytes for row in panel.planner.bars.rows}
    assert rows["GQA, 2 kv heads, float32 (here)"] == kv_bytes(config, 4096, "float32", 8)
    assert rows["Hkv = H = 8, float32"] == 4 * kv_bytes(config, 4096, "float32", 8)
    assert rows["Hkv = 1, float32"] == kv_bytes(config, 4096, "float32", 8) // 2
    assert rows["4 bits a number"] == kv_bytes_at_bits(config, 4096, 4, 8)
    assert rows["16 bits a number"] == 2 * rows["8 bits a number"]
    panel.page_box.setCurrentText("contents")


def test_a_dense_model_says_why_nothing_is_routed(window: MainWindow) -> None:
    window.reveal("routing")
    assert window.failure.sentence.text().startswith("This model is dense")
    assert not window.cards["routing"].isVisible()
    window.failure.dismiss()
