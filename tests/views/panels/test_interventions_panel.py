"""Which interventions replace which, what is typed, and the arithmetic of turning; then the panel without torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from ropewalk.app.session.session import Session
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    Intervention,
    NoScale,
    PermuteTokens,
    RopeBase,
    RopeOff,
    ScaleScores,
)
from ropewalk.model.engine.questions import AskPlanes
from ropewalk.model.errors import InterventionError
from ropewalk.model.readings.records import RopeRule
from ropewalk.views.panels import interventions as module
from ropewalk.views.panels.interventions import InterventionsPanel, added, numbers_in
from ropewalk.views.pictures.snapshot import wait_until_drawn
from ropewalk.views.plots.rotation.turning import drift, misread, reexpressed, scores_by_distance
from tests.views import canned
from tests.views.canned import PROMPT, CannedEngine
from tests.views.driving import front, opened_window, run_on, settle

Shown = Callable[..., Any]


def test_the_newer_of_a_kind_replaces_the_older_and_the_same_one_leaves() -> None:
    active = added((), ScaleScores(2.0))
    active = added(active, NoScale())
    assert added(active, ScaleScores(3.0)) == (NoScale(), ScaleScores(3.0))
    assert added(active, NoScale()) == (ScaleScores(2.0),)
    assert added((RopeOff(),), RopeBase(500.0)) == (RopeBase(500.0),)
    assert added((AblateHeads(1, (0,)),), AblateHeads(1, (2,))) == (AblateHeads(1, (0,)), AblateHeads(1, (2,)))


def test_numbers_are_typed_with_commas_and_ranges() -> None:
    assert numbers_in("1, 3-5 7") == (1, 3, 4, 5, 7)
    for text in ("", "a", "1;2", "-1"):
        with pytest.raises(InterventionError, match="is not a list of numbers"):
            numbers_in(text)
    for text in ("1-99999999999", "9" * 5000, "0-999999999", ", ".join(["0-1000000"] * 9)):
        with pytest.raises(InterventionError, match="is more than any model has"):
            numbers_in(text)


def test_a_click_composes_and_a_chip_takes_out(running: Session, shown: Shown, engine: CannedEngine) -> None:
    panel = shown(InterventionsPanel, running, 420, 600)
    assert panel.active_chips == ()
    assert not panel.undo_button.isEnabled()

    def click(button: QWidget) -> tuple[Intervention, ...]:
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)
        settle(running, panel)
        return running.interventions.now

    for name in ("no_scale", "zero", "swap"):
        click(panel.buttons[name])
    order = list(range(12))
    order[10], order[4] = 4, 10
    scale, zero, swap = NoScale(), AblateHeads(1, (4,)), PermuteTokens(tuple(order))
    assert running.interventions.now == (scale, zero, swap)
    assert f"run {PROMPT} 4 (1, 4) [{scale.label}] [{zero.label}] [{swap.label}]" in engine.calls
    assert [chip.text() for chip in panel.active_chips][1] == "L1H4 → 0  ×"
    assert click(panel.active_chips[1]) == (scale, swap)
    assert click(panel.undo_button) == (scale, zero, swap)
    assert click(panel.clear_button) == ()


def test_what_a_long_session_keeps_is_bounded(running: Session, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHANGES", 2)
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    panel = shown(InterventionsPanel, running, 420, 600)
    for query in range(6):
        running.selection.update(query=query)
        settle(running, panel)
        assert len(panel._unchanged) <= 3
    for factor in (2.0, 3.0, 4.0, 5.0):
        running.interventions.apply((ScaleScores(factor),))
        settle(running, panel)
    for before in (4.0, 3.0):
        QTest.mouseClick(panel.undo_button, Qt.MouseButton.LeftButton)
        settle(running, panel)
        assert running.interventions.now == (ScaleScores(before),)
    assert not panel.undo_button.isEnabled()


def test_every_control_has_a_name_to_hear(running: Session, shown: Shown) -> None:
    panel = shown(InterventionsPanel, running, 420, 600)
    for box in (panel.factor, panel.base, panel.heads, panel.kv_head, panel.order):
        assert box.accessibleName()
    assert all(button.text() or button.accessibleName() for button in panel.buttons.values())


# Turning ----------------------------------------------------------------------------------------------------------


def test_the_distance_curve_meets_the_run_and_a_rule_with_other_angles(running: Session) -> None:
    now = running.selection.now
    r = canned.reading(run_on(running), AskPlanes(now.layer, now.head, now.query, now.key))
    true = float(r.query_position - r.key_position)
    assert scores_by_distance(r, np.array([true]))[0] == pytest.approx(r.scaled, abs=1e-9)
    slow = RopeRule("linear × 2", r.query_frequencies / 2, 1.0)
    assert scores_by_distance(r, np.array([2 * true]), slow)[0] == pytest.approx(r.scaled, abs=1e-9)
    stretched = RopeRule("twice", r.query_frequencies, 2.0)
    assert scores_by_distance(r, np.array([true]), stretched)[0] == pytest.approx(4 * r.scaled, abs=1e-9)


def test_float32_drifts_with_the_shift_and_pairing_matters(running: Session) -> None:
    now = running.selection.now
    r = canned.reading(run_on(running), AskPlanes(now.layer, now.head, now.query, now.key))
    assert abs(drift(r, 0)) < 1e-5
    assert abs(drift(r, 0)) < abs(drift(r, 1_000_000)) < 1
    assert reexpressed(r) == pytest.approx(r.scaled, abs=1e-9)
    assert abs(misread(r) - r.scaled) > 1e-3


def test_changes_made_faster_than_the_model_runs_compose_and_can_be_undone(tmp_path: Path) -> None:
    with opened_window(tmp_path, None, "Two cats", workspace="compare") as window:
        panel, session = front(window, "experiments"), window.session

        def active() -> list[Intervention]:
            wait_until_drawn(window)
            return list(session.interventions.now)

        def click(*names: str) -> None:
            for name in names:
                QTest.mouseClick(panel.buttons[name], Qt.MouseButton.LeftButton)

        click("no_scale", "rope_off", "mlp")
        assert active() == [NoScale(), RopeOff(), AblateMlp(session.selection.now.layer)]
        panel.undo()  # the three landed as one change, because only the last was run
        assert active() == []
        for name in ("no_scale", "rope_off", "mlp"):
            click(name)
            wait_until_drawn(window)
        panel.undo()
        panel.undo()
        assert active() == [NoScale()]
        click("rope_off")
        panel.undo()  # before it is on screen
        assert active() == [NoScale()]
        panel.undo()
        assert active() == []
