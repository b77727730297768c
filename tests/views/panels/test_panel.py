"""What every panel keeps to: it waits for what it asked for as long as that may come, and no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Selection
from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskAtlas
from ropewalk.model.errors import RopewalkError
from ropewalk.model.ledger.ledger import build_ledger
from ropewalk.model.readings.records import Run
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.interventions import InterventionsPanel
from ropewalk.views.panels.ledger import LedgerPanel
from ropewalk.views.panels.needs import NeedsPanel
from ropewalk.views.panels.panel import ENDED, NOT_READ, Panel
from ropewalk.views.panels.scores import ScoresPanel
from tests.views.canned import CannedEngine
from tests.views.driving import settle

Shown = Callable[..., Any]


def test_a_question_that_failed_is_waited_for_no_longer(running: Session, shown: Shown, engine: CannedEngine) -> None:
    def too_much(run: Run, asked: AskAtlas) -> None:
        raise RopewalkError("There is not enough memory.")

    failures: list[str] = []
    running.failed.connect(lambda sentence, details: failures.append(sentence))
    engine.answers[AskAtlas] = too_much
    panel = shown(HeadsPanel, running)
    assert failures == ["There is not enough memory."]
    assert (panel.settled, panel.draws) == (True, 0)
    del engine.answers[AskAtlas]
    panel.refresh()
    settle(running, panel)
    assert panel.draws == 1


def test_a_question_that_was_cancelled_is_waited_for_no_longer(
    qtbot: QtBot, running: Session, shown: Shown, engine: CannedEngine
) -> None:
    panel = shown(HeadsPanel, running)
    running.jobs.show_after = 0.0
    engine.gated = AskAtlas
    engine.gate.shut()
    with qtbot.waitSignal(running.progress_changed):
        panel.refresh()
    assert not panel.settled
    running.cancel()
    engine.gate.open.set()
    settle(running, panel)
    assert panel.draws == 1


class Counted(Panel):
    """Asks nothing, depends on the head, and marks the key."""

    name = "counted"
    depends = frozenset({"head"})
    marks = frozenset({"key"})

    def show_selection(self, selection: Selection) -> None:
        self.marked = selection.key


def test_a_panel_is_drawn_anew_for_what_it_depends_on_and_moves_its_mark_for_the_rest(
    running: Session, shown: Shown
) -> None:
    panel = shown(Counted, running)
    running.selection.update(layer=2)
    assert panel.draws == 1
    running.selection.update(key=7)
    assert (panel.draws, panel.marked) == (1, 7)
    running.selection.update(head=3)
    assert panel.draws == 2


def kill(qtbot: QtBot, session: Session) -> None:
    """End the engine, and wait until everybody who waited for it has heard."""
    session.engines.current.kill()
    qtbot.waitUntil(lambda: session.engines.gone is not None and not session.busy)


@pytest.mark.parametrize("kind", [ScoresPanel, InterventionsPanel])
def test_a_picture_of_another_run_is_not_shown_once_the_engine_has_ended(
    qtbot: QtBot, running: Session, shown: Shown, engine: CannedEngine, kind: type[Panel]
) -> None:
    panel = shown(kind, running)
    panel.hide()
    engine.prefill = 9
    running.start(Prompt("another"))
    qtbot.waitUntil(lambda: not running.busy)
    kill(qtbot, running)
    panel.show()
    assert (panel.notice.text(), panel.body.isVisible(), panel.subtitle.text()) == (NOT_READ, False, "")
    qtbot.waitUntil(lambda: panel.settled)
    assert not panel.body.isVisible()
    before = panel.draws
    running.recovery.restart()
    settle(running, panel)
    assert (panel.notice.text(), panel.body.isVisible(), panel.draws) == ("", True, before + 1)


def test_a_picture_of_another_run_goes_with_the_engine_that_was_asked_for_the_right_one(
    qtbot: QtBot, running: Session, shown: Shown, engine: CannedEngine
) -> None:
    panel = shown(HeadsPanel, running)
    engine.gated = AskAtlas
    running.run_changed.connect(lambda before, after: engine.gate.shut())
    running.start(Prompt("another"))
    qtbot.waitUntil(lambda: not engine.gate.open.is_set() and engine.gate.reached.is_set())
    assert panel.body.isVisible()
    kill(qtbot, running)
    assert (panel.notice.text(), panel.body.isVisible()) == (NOT_READ, False)
    engine.gate.open.set()


def test_what_is_of_the_run_on_screen_stays_when_the_engine_ends(qtbot: QtBot, running: Session, shown: Shown) -> None:
    panel = shown(ScoresPanel, running)
    subtitle = panel.subtitle.text()
    kill(qtbot, running)
    for act in (panel.refresh, panel.hide, panel.show, lambda: running.selection.update(head=2)):
        act()
        qtbot.waitUntil(lambda: not running.busy)
    assert (panel.notice.text(), panel.body.isVisible(), panel.subtitle.text()) == ("", True, subtitle)


def test_a_panel_that_has_drawn_nothing_says_that_the_engine_has_ended(
    qtbot: QtBot, running: Session, shown: Shown
) -> None:
    kill(qtbot, running)
    panel = shown(NeedsPanel, running)
    assert panel.notice.text() == ENDED
    running.recovery.restart()
    settle(running, panel)
    assert panel.notice.text() == ""


def test_the_ledger_of_a_config_alone_is_not_left_beside_a_run_once_the_engine_has_ended(
    qtbot: QtBot, running: Session, shown: Shown
) -> None:
    assert running.run is not None
    panel = shown(LedgerPanel, running)
    c = running.run.config
    panel.show_outline(build_ledger(c, 0, 1, 1, 0, "float32", "cpu", "fused"))
    kill(qtbot, running)
    panel.refresh()
    assert panel.body.isVisible()
    panel.show_outline(None)
    assert (panel.notice.text(), panel.body.isVisible()) == (ENDED, False)
