"""Opening with progress and cancel, outlines, ids, and what stays when an opening fails."""

from __future__ import annotations

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import Connection
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.engine.interface import CheckpointOutline
from ropewalk.model.tokens.prompt import Prompt
from tests.fake_engine import FakeEngine
from tests.in_process import without_packing


def test_an_outline_says_what_a_path_is_and_a_broken_one_why_not(qtbot: QtBot, session: Session) -> None:
    outlines: list[CheckpointOutline] = []
    refused: list[str] = []
    with qtbot.waitSignal(session.settled):
        session.checkpoints.outline("some", outlines.append, refused.append)
    with qtbot.waitSignal(session.settled):
        session.checkpoints.outline("broken", outlines.append, refused.append)
    assert [one.name for one in outlines] == ["some"]
    assert refused == ["broken is not a checkpoint."]


def test_options_reach_the_engine(qtbot: QtBot, session: Session, engine: FakeEngine) -> None:
    with qtbot.waitSignal(session.model_changed):
        session.opening.open("mini", options={"heads": 4})
    assert "open mini cpu float32 {'heads': 4}" in engine.calls


def test_opening_the_same_file_otherwise_keeps_the_answers_it_was_opened_with(
    qtbot: QtBot, session: Session, engine: FakeEngine
) -> None:
    with qtbot.waitSignal(session.model_changed):
        session.opening.open("mini", options={"heads": 4})
    with qtbot.waitSignal(session.model_changed):
        session.opening.open("mini", dtype="bfloat16")
    with qtbot.waitSignal(session.model_changed):
        session.opening.open("other")
    opened = [call for call in engine.calls if call.startswith("open")]
    assert opened[1:] == ["open mini cpu bfloat16 {'heads': 4}", "open other cpu bfloat16"]


def test_an_opening_ends_at_its_next_pause_when_cancelled(qtbot: QtBot, session: Session, engine: FakeEngine) -> None:
    with qtbot.waitSignal(session.run_changed):
        session.opening.begin(None, Prompt("abc"))
    before = session.model
    engine.gate.shut()
    session.opening.open("other")
    assert engine.gate.reached.wait(10)
    session.cancel()
    engine.gate.open.set()
    with qtbot.waitSignal(session.run_changed):
        session.start(Prompt("abcd"))
    assert session.model is before
    assert "loading other" in engine.closed


def test_decoding_goes_on_while_another_engine_opens_a_model(qtbot: QtBot, store: SettingsStore) -> None:
    first, second = FakeEngine(), FakeEngine()
    starts = iter((without_packing(first)[0], without_packing(second)[0]))

    def start(parent: QObject, command: str = "") -> Connection:
        return next(starts)(parent, command)

    session = Session(store, start, start)
    with qtbot.waitSignal(session.run_changed):
        session.opening.begin(None, Prompt("abc"))
    qtbot.waitUntil(lambda: not session.busy)
    second.gate.shut()
    session.opening.open("other")
    assert second.gate.reached.wait(10)
    with qtbot.waitSignal(session.run_changed):
        session.timeline.step()
    assert session.run is not None
    assert session.run.length == 4
    assert session.model is not None
    assert session.model.name == "bundled"
    with qtbot.waitSignal(session.run_changed):
        second.gate.open.set()
    assert session.model.name == "other"
    session.close()


def test_a_step_of_the_old_run_does_not_come_after_a_new_one(qtbot: QtBot, session: Session) -> None:
    with qtbot.waitSignal(session.run_changed):
        session.opening.begin(None, Prompt("abc"))
    qtbot.waitUntil(lambda: not session.busy)
    handle = session.handle
    assert handle is not None
    session.timeline.step()
    session._on_run(handle, ())  # a run that was asked for before arrives before the step does
    qtbot.waitUntil(lambda: not session.busy)
    assert session.run is not None
    assert (session.run.length, session.run.newest) == (3, 3)


def test_shapes_alone_leave_open_what_was_open(qtbot: QtBot, session: Session) -> None:
    with qtbot.waitSignal(session.run_changed):
        session.opening.begin(None, Prompt("abc"))
    before = session.model
    with qtbot.waitSignal(session.failed) as failed:
        session.opening.open("shapes")
    assert failed.args is not None
    assert "holds no weights" in failed.args[0]
    assert session.model is before


def test_ids_reach_the_engine_and_are_not_remembered_as_text(
    qtbot: QtBot, session: Session, engine: FakeEngine
) -> None:
    with qtbot.waitSignal(session.run_changed):
        session.opening.begin(None, Prompt("abc"))
    with qtbot.waitSignal(session.run_changed):
        session.start(Prompt("1 2 3", as_ids=True))
    assert any("as_ids=True" in call for call in engine.calls)
    assert session.settings.now.prompt == "abc"
