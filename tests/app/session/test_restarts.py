"""What a restart brings back where more than one thing went wrong, and what a person may do without an engine."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import CallFailed, Connection, Ended
from ropewalk.app.engine.deaths import REFUSAL
from ropewalk.app.engine.short_lived import ShortLived
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.engine.requests import Tidy
from ropewalk.model.tokens.prompt import Prompt
from tests.fake_engine import FakeEngine
from tests.in_process import without_packing


def test_a_restart_that_was_cancelled_goes_on_with_what_was_to_be_brought_back(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    own = running.scenes.keep()
    assert own is not None
    with qtbot.waitSignal(running.settled):
        running.start(Prompt("toy"))
    engine.gate.shut()
    running.engines.current.kill()
    running.scenes.restore(own)  # as when a lesson is left
    running.cancel()
    assert running.run is not None
    assert running.run.prompt == "toy"
    engine.gate.open.set()
    with qtbot.waitSignal(running.recovery.engine_back):
        running.recovery.restart()
    assert running.run.prompt == "abc"
    assert running.scenes.owed is None


def test_a_death_while_a_run_is_made_again_leaves_it_to_the_restart(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    own = running.scenes.keep()
    assert own is not None
    running.engines.current.kill()
    with qtbot.waitSignal(running.recovery.engine_back):
        running.start(Prompt("toy"))
    qtbot.waitUntil(lambda: not running.busy)
    assert running.run is not None
    assert running.run.prompt == "toy"
    engine.gate.shut()
    running.scenes.restore(own)  # of the engine before, so that it is run again in this one
    assert engine.gate.reached.wait(10)
    running.engines.current.kill()
    engine.gate.open.set()
    with qtbot.waitSignal(running.recovery.engine_back):
        running.recovery.restart()
    assert running.run.prompt == "abc"


def test_run_starts_another_engine_where_the_first_ended_before_there_was_a_run(qtbot: QtBot, session: Session) -> None:
    session.engines.current.kill()
    with qtbot.waitSignals([session.recovery.engine_starting, session.run_changed]):
        session.start(Prompt(""))
    assert session.run is not None


def test_what_is_offered_after_two_deaths_is_tried(qtbot: QtBot, running: Session) -> None:
    running.engines.deaths.note([running.opening.asked])
    running.engines.deaths.note([running.opening.asked])
    running.recovery.is_lost = True
    running.engines.current.kill()
    with qtbot.waitSignal(running.recovery.engine_back):
        running.recovery.restart()
    assert running.engines.deaths.refusal(running.opening.asked) is not REFUSAL


def test_whoever_waits_for_a_fresh_engine_that_is_dismissed_hears_of_it(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    failed: list[str] = []
    running.failed.connect(lambda sentence, details: failed.append(sentence))
    engine.gate.shut()
    running.opening.open("other")
    assert engine.gate.reached.wait(10)
    with qtbot.assertNotEmitted(running.recovery.engine_ended):
        running.engines.dismiss()
        qtbot.waitUntil(lambda: not running.busy)
    engine.gate.open.set()
    assert failed == ["The engine that was asked has been ended; try again."]
    assert running.model is not None
    assert running.model.name == "bundled"


def test_a_command_that_starts_no_engine_is_said_once_and_blames_no_file(
    qtbot: QtBot, store: SettingsStore, engine: FakeEngine
) -> None:
    sentence = "There is no program 'nosuch' here; check the command."
    said: list[str] = []

    def start(parent: QObject, command: str = "") -> Connection:
        connection = without_packing(engine)[0](parent, command)
        connection.lose(Ended(sentence, reason="it could not be started", had_begun=False))
        return connection

    session = Session(store, start, start, command="nosuch engine")
    session.failed.connect(lambda sentence, details: said.append(sentence))
    session.recovery.engine_ended.connect(lambda sentence, details: said.append(sentence))
    session.engines.ended.emit(session.engines.prepare().gone)  # as it ends while the window is built
    session.opening.begin()
    qtbot.waitUntil(lambda: not session.busy)
    assert said == [sentence]
    failed: list[str] = []
    session.opening.open("model", failed=failed.append)
    qtbot.waitUntil(lambda: not session.busy)
    assert (said, failed) == ([sentence], [sentence])
    session.close()


def test_the_end_of_a_short_lived_process_is_not_the_engines(qtbot: QtBot, engine: FakeEngine) -> None:
    others = ShortLived(lambda parent: without_packing(engine)[1](parent, ""))
    work = others.ask(Tidy())
    call = next(work)
    with pytest.raises(CallFailed) as told:
        work.throw(CallFailed(Ended("The engine has ended.", "folded", reason="SIGKILL")))
    failure = told.value.failure
    assert failure.sentence == "The process that was to do this has ended (SIGKILL); try again."
    assert failure.details == "folded"
    assert not isinstance(failure, Ended)
    call.connection.close()
