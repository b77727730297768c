"""The cache over time, its bytes, the experts, and the consistency checks of a run, on every model.

Numbers are checked against ``tests.views.twin``, numpy over the arrays that the session holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt

from ropewalk.model.decoder import attention
from ropewalk.model.decoder.costs import kv_bytes, kv_bytes_at_bits
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.cache import CachePanel
from ropewalk.views.panels.routing import RoutingPanel
from ropewalk.views.panels.timeline import TimelinePanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.slabs import SIDES
from ropewalk.views.style import wording
from tests.in_process import trace_of
from tests.views.driving import click, front, press, run_of
from tests.views.every_model.models import HEAD, LAYER, QUERY, arithmetic_of
from tests.views.twin import Twin

# The cache over time ----------------------------------------------------------------------------------------------


def test_timeline(window: MainWindow) -> None:
    session, prefill = window.session, run_of(window).prefill
    session.timeline.run_to(prefill + 4)
    snapshot.wait_until_drawn(window)
    front(window, "scores")
    panel: TimelinePanel = front(window, "timeline")
    tokens = [token.id for token in run_of(window).tokens]
    whole = Twin(session)
    click(window, panel.steps, panel.steps.cell_of(prefill + 2).center().toPoint())
    assert run_of(window).length == prefill + 2
    for name in ("tokens", "scores"):
        assert f"{prefill + 2}" in front(window, name).subtitle.text()
    front(window, "timeline")
    assert np.allclose(
        Twin(session).weights(LAYER, HEAD), whole.weights(LAYER, HEAD)[: prefill + 2, : prefill + 2], atol=1e-9
    )
    size = kv_bytes(run_of(window).config, prefill + 2, "float32")
    assert f"{size:,} bytes" in panel.subtitle.text()
    panel.steps.setFocus()
    press(window, panel.steps, Qt.Key.Key_Left)
    assert run_of(window).length == prefill + 1
    expected = np.argsort(-Twin(session).probabilities(prefill - 1))
    offered = [int(panel.token.itemData(i)) for i in range(panel.token.count())]
    assert offered[:3] == [int(one) for one in expected if one != tokens[prefill]][:3]
    panel.token.setCurrentIndex(1)
    click(window, panel.branch_button)
    run = run_of(window)
    assert (run.length, run.newest) == (prefill + 1, prefill + 1)
    assert [token.id for token in run.tokens] == [*tokens[:prefill], offered[1]]
    assert session.consistency.check is not None
    assert session.consistency.check.holds
    press(window, window, Qt.Key.Key_Right)
    assert run_of(window).length == prefill + 2
    click(window, panel.steps, panel.steps.cell_of(prefill).center().toPoint())
    assert not panel.branch_button.isVisible()


def test_cache(window: MainWindow) -> None:
    panel: CachePanel = front(window, "cache")
    panel.page_box.setCurrentText("contents")
    snapshot.wait_until_drawn(window)
    session, config, slabs = window.session, run_of(window).config, panel.slabs
    prefill = run_of(window).prefill
    for length in (prefill + 1, prefill + 2):
        session.timeline.run_to(length)
        snapshot.wait_until_drawn(window)
    twin = Twin(session)
    for side, kept in zip(SIDES, (twin.trace[LAYER].keys, twin.trace[LAYER].values), strict=True):
        kv_head, position = config.kv_heads - 1, prefill + 1
        centre = slabs.slot_box(side, LAYER, kv_head, position).center()
        point = QPointF(int(centre.x()), int(centre.y()))
        assert slabs.at(point) == (LAYER, position)
        found = slabs.feature_at(point)
        assert found is not None
        assert found[0] == side
        if slabs.slab(side, LAYER).height() >= 8 * config.kv_heads:  # else a pixel stands for several rows
            assert found[1] == kv_head
        value = float(kept.tensor[0, found[1], position, found[2]])
        assert f"feature {found[2]} = {wording.number(value, 4)}" in slabs.description(LAYER, position, found)
    click(window, slabs, slabs.column_box("V", 1, 4).center().toPoint())
    assert (session.selection.now.layer, session.selection.now.key) == (1, 4)
    window_of = config.window_of(LAYER)
    hidden = 0 if window_of is None else prefill + 2 - window_of
    assert int((~slabs.visible(LAYER)).sum()) == hidden
    assert (f"{hidden} rows out of the window" in panel.subtitle.text()) == bool(hidden)

    each = 2 * config.layers * config.kv_heads * config.head_width * 4
    assert panel.growth.measured == {n: n * each for n in (prefill, prefill + 1, prefill + 2)}
    assert f"{(prefill + 2) * each:,} bytes" in panel.subtitle.text()
    panel.page_box.setCurrentText("bytes by step")
    sizes = ", ".join(wording.byte_size((prefill + 2) * each * bits // 32) for bits in (16, 8, 4))
    assert panel.growth.in_bits() == f"in 16, 8 and 4 bits: {sizes}"
    assert panel.growth.in_bits() in panel.growth.accessibleDescription()
    for heads in (1, config.heads):
        assert panel.growth.formula(prefill + 2, heads) == (prefill + 2) * each * heads // config.kv_heads
    panel.page_box.setCurrentText("planner")
    panel.planner.context.setValue(40)
    panel.planner.batch.setValue(3)
    rows = {row.name: row.bytes for row in panel.planner.bars.rows}
    assert next(size for name, size in rows.items() if name.endswith("(here)")) == 3 * 40 * each
    assert rows["4 bits a number"] == kv_bytes_at_bits(config, 40, 4, 3) == 3 * 40 * each // 8
    assert ("within the windows, float32" in rows) == (config.window_of(0) is not None)
    panel.page_box.setCurrentText("contents")


def test_experts(window: MainWindow) -> None:
    config = run_of(window).config
    assert window.menu_entries["routing"].isVisible() == (config.moe is not None)
    if config.moe is None:
        window.reveal("routing")
        assert window.failure.sentence.text().startswith("This model is dense")
        window.failure.dismiss()
        return
    panel: RoutingPanel = front(window, "routing")
    assert panel.routing is not None
    twin, line = Twin(window.session), arithmetic_of(window).line
    router = twin.model.block(LAYER).mlp.router.weight.detach().double().numpy()
    logits = router @ cast("Any", line("mlp.normed").vector)
    share = np.exp(logits - logits.max())
    share /= share.sum()
    chosen = np.argsort(-share)[: config.moe.per_token]
    for expert in range(config.moe.experts):
        assert panel.map.number(QUERY, expert) == pytest.approx(share[expert], abs=1e-5)
        assert ((QUERY, expert) in panel.map.taken) == (expert in chosen)
    assert all(f"expert {expert}" in line("mlp.router").substituted for expert in chosen)
    counts = np.bincount(panel.routing.chosen.ravel(), minlength=config.moe.experts)
    assert counts.sum() == config.moe.per_token * run_of(window).length
    assert f"0: {counts[0]}, 1: {counts[1]}" in panel.load.text()
    click(window, panel.map, panel.map.cell_of(5, 1).center().toPoint())
    assert window.session.selection.now.query == 5


# Consistency ------------------------------------------------------------------------------------------------------


def test_the_checks_hold_and_a_corrupted_row_raises_the_alarm(window: MainWindow) -> None:
    session = window.session
    session.timeline.run_to(run_of(window).prefill + 1)
    snapshot.wait_until_drawn(window)
    click(window, window.status.check)
    panel = cast("CachePanel", window.panels["cache"])
    assert panel.on_screen
    assert panel.page_box.currentText() == "proof"
    for kind, words in (("cached", "cached = full within"), ("branches", "fused = explicit within")):
        click(window, panel.check.buttons[cast("Any", kind)])
        assert panel.check.labels[cast("Any", kind)].text().startswith(words)
    assert session.consistency.branches is not None
    assert session.consistency.branches.holds
    assert session.consistency.branches.past > 0
    assert session.consistency.branches.padded > 0
    assert len(session.consistency.branches.layers) == run_of(window).config.layers
    assert not window.failure.isVisible()

    handle = session.handle
    assert handle is not None
    trace_of(handle)[LAYER].keys.tensor[:, :, 13] += 40.0
    press(window, window, Qt.Key.Key_Right)
    assert session.consistency.check is not None
    assert session.consistency.check.alarms
    assert f"from layer {LAYER} on" in window.status.check.text()
    assert window.failure.isVisible()
    assert f"It begins in layer {LAYER}: the cached K of row 13" in window.failure.sentence.text()
    assert panel.check.labels["cached"].property("tone") == "bad"
    gaps = panel.check.gaps["cached"].check
    assert gaps is not None
    assert all(gap.difference <= gaps.layer_tolerance for gap in gaps.layers[:LAYER])
    window.session.start(Prompt(run_of(window).prompt))
    snapshot.wait_until_drawn(window)
    assert not window.failure.isVisible()
    panel.page_box.setCurrentText("contents")


def test_a_branch_that_is_wrong_raises_the_alarm(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., Any] = attention.BRANCHES["explicit"]

    def wrong(q: Any, k: Any, v: Any, rule: Any, **more: Any) -> Any:
        result = right(q, k, v, rule, **more)
        return replace(result, out=result.out.roll(1, dims=-1)) if rule.layer == LAYER else result

    monkeypatch.setitem(attention.BRANCHES, "explicit", wrong)
    window.show_consistency()
    panel = cast("CachePanel", window.panels["cache"])
    click(window, panel.check.buttons["branches"])
    check = window.session.consistency.branches
    assert check is not None
    assert check.alarms
    assert window.failure.isVisible()
    assert f"It begins in layer {LAYER}: the stream after row" in window.failure.sentence.text()
    assert panel.check.labels["branches"].text().startswith(f"fused ≠ explicit from layer {LAYER} on")
    monkeypatch.setitem(attention.BRANCHES, "explicit", right)
    click(window, panel.check.buttons["branches"])
    assert not window.failure.isVisible()
    panel.page_box.setCurrentText("contents")
