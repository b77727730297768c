"""The experts panel over canned readings: the map's numbers, the choice, and layers without experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.decoder.config import MoeConfig
from ropewalk.model.engine.questions import AskRouting
from ropewalk.views.panels.routing import RoutingPanel
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle

Shown = Callable[..., Any]
MOE = MoeConfig(experts=4, per_token=2, width=64, layers=(False, True, True, True))


@pytest.fixture
def routed(session: Session, engine: CannedEngine) -> Session:
    """A session that shows a run of a model with experts."""
    engine.config = engine.config.changed(moe=MOE)
    session.opening.begin()
    settle(session)
    return session


def test_each_token_has_its_probabilities_and_its_experts(routed: Session, shown: Shown) -> None:
    panel = shown(RoutingPanel, routed, 500, 420)
    routing = canned.reading(run_on(routed), AskRouting(1))
    assert panel.map.number(3, 2) == pytest.approx(routing.probabilities[3, 2])
    assert {(3, int(one)) for one in routing.chosen[3]} <= panel.map.taken
    assert len(panel.map.taken) == 2 * 12
    counts = np.bincount(routing.chosen.ravel(), minlength=4)
    assert f"0: {counts[0]}, 1: {counts[1]}" in panel.load.text()
    assert "2 of 4 experts" in panel.subtitle.text()
    QTest.mouseClick(panel.map, Qt.MouseButton.LeftButton, pos=panel.map.cell_of(5, 1).center().toPoint())
    assert routed.selection.now.query == 5


def test_a_layer_without_experts_says_which_have_them(routed: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RoutingPanel, routed, 500, 420)
    routed.selection.update(layer=0)
    settle(routed, panel)
    assert panel.notice.text() == "Layer 0 has one MLP for every token; layers 1 to 3 have experts."


def test_tokens_lie_along_the_side_that_leaves_larger_cells(routed: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(RoutingPanel, routed, 700, 260)
    assert panel.map.across
    wide = panel.map.cell_of(5, 1)
    routing = canned.reading(run_on(routed), AskRouting(1))
    assert panel.map.number(5, 1) == pytest.approx(routing.probabilities[5, 1])
    QTest.mouseClick(panel.map, Qt.MouseButton.LeftButton, pos=panel.map.cell_of(7, 2).center().toPoint())
    assert routed.selection.now.query == 7
    QTest.mouseMove(panel.map, panel.map.cell_of(9, 0).center().toPoint())
    assert routed.selection.hover.query == 9
    panel.resize(260, 700)
    qtbot.waitUntil(lambda: not panel.map.across)
    assert panel.map.number(5, 1) == pytest.approx(routing.probabilities[5, 1])
    tall = panel.map.cell_of(5, 1)
    assert min(wide.width(), tall.width()) > 15
    QTest.mouseClick(panel.map, Qt.MouseButton.LeftButton, pos=panel.map.cell_of(3, 0).center().toPoint())
    assert routed.selection.now.query == 3
