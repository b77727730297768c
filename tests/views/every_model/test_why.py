"""Why a number is what it is, on every model, line by line.

Numbers are checked against ``tests.views.twin``, numpy over the arrays that the session holds.
"""

from __future__ import annotations

import ast
from typing import Any, cast

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.cache import CachePanel
from ropewalk.views.panels.why import WhyPanel, hover_of, panel_of
from ropewalk.views.pictures import snapshot
from tests.views.driving import click, front, press, run_of
from tests.views.every_model.models import HEAD, KEY, LAYER, QUERY, read
from tests.views.shown_numbers import assert_shown
from tests.views.twin import Twin


def test_why(window: MainWindow) -> None:
    front(window, "ledger")
    panel: WhyPanel = front(window, "why")
    twin, spec = Twin(window.session), run_of(window).specs[LAYER]
    score, weight = twin.scores(LAYER, HEAD)[QUERY, KEY], twin.weights(LAYER, HEAD)[QUERY, KEY]
    assert_shown(panel.text.toPlainText(), "{}", weight, digits=4)
    sharing = [f"H{h}" for h in range(spec.heads) if h != HEAD and spec.kv_head_of(h) == spec.kv_head_of(HEAD)]
    assert f"reads kv head {spec.kv_head_of(HEAD)}" in panel.subtitle.text()
    assert all(name in panel.subtitle.text() for name in sharing)
    click(window, panel.fold_q)
    assert_shown(panel.text.toPlainText(), "q = [{}", float(twin.q(LAYER, HEAD)[QUERY, 0]))
    click(window, panel.fold_q)
    click(window, panel.fold_k)
    assert_shown(panel.text.toPlainText(), "k = [{}", float(twin.k(LAYER, HEAD)[KEY, 0]))
    click(window, panel.fold_k)
    click(window, panel.copy_button)
    copied = dict(line.split(" = ") for line in QApplication.clipboard().text().splitlines())
    assert float(copied["weight"]) == pytest.approx(weight, abs=1e-5)

    click(window, panel.fold_levels)
    assert panel.arithmetic is not None
    line, tree = panel.arithmetic.line, panel.tree
    assert tree.topLevelItemCount() == len(panel.arithmetic.stages) == 9
    numbers = {
        "score.dot": twin.dots(LAYER, HEAD)[QUERY, KEY],
        "score.scaled": twin.scaled(LAYER, HEAD)[QUERY, KEY],
        "score.masked": score,
        "softmax.weight": weight,
    }
    for key, number in numbers.items():
        assert line(key).value == pytest.approx(number, abs=1e-4)
        item = tree.item_of(key)
        assert item is not None
        assert read(item.text(2)) == pytest.approx(number, abs=2e-3)
    assert ("score.capped" in [one.key for stage in panel.arithmetic.stages for one in stage.lines]) == bool(spec.cap)
    assert np.allclose(cast("Any", line("softmax.row").vector), twin.weights(LAYER, HEAD)[QUERY], atol=1e-5)
    assert np.allclose(cast("Any", line("softmax.z").vector), twin.z(LAYER, HEAD)[QUERY], atol=1e-4)
    assert line("logit.0").symbol.split()[1] == str(int(twin.logits(QUERY).argmax()))
    click(window, panel.fold_levels)


def test_why_for_a_decoded_row(window: MainWindow) -> None:
    session, prefill = window.session, run_of(window).prefill
    session.timeline.run_to(prefill + 2)
    snapshot.wait_until_drawn(window)
    query, key = prefill + 1, prefill
    session.selection.update(layer=LAYER, head=HEAD, query=query, key=key)
    panel: WhyPanel = front(window, "why")
    click(window, panel.fold_levels)
    assert panel.arithmetic is not None
    twin, line = Twin(session), panel.arithmetic.line
    assert line("score.scaled").value == pytest.approx(twin.scaled(LAYER, HEAD)[query, key], abs=1e-4)
    assert line("softmax.weight").value == pytest.approx(twin.weights(LAYER, HEAD)[query, key], abs=1e-5)
    assert np.allclose(cast("Any", line("softmax.z").vector), twin.z(LAYER, HEAD)[query], atol=1e-4)
    planes = [line(f"score.plane.{i}").value for i in range(len(twin.features(LAYER)))]
    assert np.allclose(cast("Any", planes), twin.shares(LAYER, HEAD, query, key), atol=1e-4)
    assert line("logit.0").symbol.split()[1] == str(int(twin.logits(query).argmax()))
    click(window, panel.fold_levels)


def test_every_line_copies_and_shows_where_it_lives(window: MainWindow) -> None:
    ledger = front(window, "ledger")
    rows = {row.entry.key for row in ledger.model.rows}
    panel: WhyPanel = front(window, "why")
    click(window, panel.fold_levels)
    tree, selection = panel.tree, window.session.selection
    arithmetic = panel.arithmetic
    assert arithmetic is not None
    lines = [line for stage in arithmetic.stages for line in stage.lines]
    assert len({line.key for line in lines}) == len(lines)
    for line in lines:
        item = tree.item_of(line.key)
        assert item is not None
        tree.setCurrentItem(item)
        hover = selection.hover
        assert hover == hover_of(line.place, line.key, selection.now)
        assert hover.operation in rows, line.key
        assert ledger.model.pointed == hover.operation
        assert panel_of(line.place) in window.panels, line.place
        QTest.keyClick(tree, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        name, _, numbers = QApplication.clipboard().text().partition(" = ")
        assert name == line.key
        parts = numbers.split("  ")
        if line.value is not None and np.isfinite(line.value):
            assert ast.literal_eval(parts[0]) == line.value
        if line.vector is not None and np.isfinite(line.vector).all():
            assert np.array_equal(ast.literal_eval(parts[-1]), line.vector)
            assert item.childCount() == -(-len(line.vector) // 8)
            assert not item.isExpanded(), "a long vector is folded"
    place = tree.item_of("softmax.weight")
    assert place is not None
    tree.setCurrentItem(place)
    press(window, tree, Qt.Key.Key_Return)
    assert window.panels["ledger"].on_screen
    slot = tree.item_of("rotate.k")
    assert slot is not None
    tree.setCurrentItem(slot)
    press(window, tree, Qt.Key.Key_Return)
    cache = cast("CachePanel", window.panels["cache"])
    assert cache.on_screen
    assert cache.slabs.slot == ("K", LAYER, run_of(window).specs[LAYER].kv_head_of(HEAD))
    assert cache.slabs.pointed == KEY
    click(window, panel.fold_levels)
