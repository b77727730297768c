"""What every panel keeps to: it waits for what it asked for as long as that may come, and no longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Selection
from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskAtlas
from ropewalk.model.errors import RopewalkError
from ropewalk.model.readings.records import Run
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.panel import Panel
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
