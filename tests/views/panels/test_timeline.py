"""The timeline's cells and the strip of tokens: where they say that the text ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.readings.records import Run
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.panels.timeline import StepsView
from ropewalk.views.panels.tokens import TokensPanel
from tests.views.canned import PROMPT, CannedEngine
from tests.views.driving import settle


def test_the_cell_that_ends_the_text_says_so_and_is_marked(qtbot: QtBot, running: Session) -> None:
    prefill = 12
    running.timeline.run_to(prefill + 2)
    settle(running)
    run = running.run
    assert run is not None
    assert run.prefill == prefill
    ending = replace(run, model=replace(run.model, ends=(run.tokens[-1].id, run.tokens[0].id)))
    steps = StepsView()
    qtbot.addWidget(steps)
    steps.resize(400, 24)

    def drawn(shown: Run) -> QImage:
        steps.show_run(shown)
        return steps.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)

    plain = drawn(run)
    marked = drawn(ending)
    said = [steps.description(length) for length in (1, prefill + 1, prefill + 2)]
    assert [("which ends the text" in sentence) for sentence in said] == [False, False, True]
    changed = {x for x in range(400) for y in range(24) if marked.pixel(x, y) != plain.pixel(x, y)}
    cell = steps.cell_of(prefill + 2)
    assert changed
    assert cell.right() - 4 <= min(changed) <= max(changed) <= cell.right()


def test_the_strip_says_that_the_text_ends_here(
    session: Session, engine: CannedEngine, shown: Callable[..., TokensPanel]
) -> None:
    engine.known["ends"] = (engine.text(13).id,)
    session.opening.begin(prompt=Prompt(PROMPT))
    settle(session)
    panel = shown(TokensPanel, session, 900, 110)
    said = []
    for length in (13, 14, 15):
        session.timeline.run_to(length)
        settle(session, panel)
        said.append("the text ends here" in panel.subtitle.text())
    assert said == [False, True, False]
