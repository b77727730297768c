"""The engine as the session asks it: what the window knows of a run is what its process knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import Calls
from ropewalk.app.engine.remote import RemoteEngine
from ropewalk.app.jobs import Jobs
from ropewalk.model.decoder.interventions import RopeScaling
from ropewalk.model.decoder.spec import reaching
from ropewalk.model.engine import engine
from ropewalk.model.engine.interface import Engine, ModelHandle, RunHandle
from ropewalk.model.engine.questions import EVERYTHING, AskNextTokenDifference, AskRow, Capability
from ropewalk.model.engine.requests import AnswerQuestion
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.records import Run, Sampling
from ropewalk.model.tokens.prompt import Prompt
from tests.in_process import InProcess, real

GREEDY = Sampling(temperature=0.0)


class Asking:
    """Jobs over an engine in this process, one at a time."""

    def __init__(self, qtbot: QtBot, path: Path) -> None:
        self.qtbot = qtbot
        self.parent, self.jobs = QObject(), Jobs()
        self.connection = real(self.parent)
        self.engine = RemoteEngine(self.connection, lambda: 12_345)
        self.model: ModelHandle = self.ask(self.engine.open_model(str(path), "cpu", "float32"))
        self.handle: RunHandle = self.ask(self.engine.run(self.model, Prompt("abcdef"), 1, None))

    def ask(self, work: Calls[Any]) -> Any:
        results: list[Any] = []
        with self.qtbot.waitSignal(self.jobs.settled, timeout=60_000):
            self.jobs.submit("a", Urgency.COARSE, work, results.append, results.append)
        return results[0]

    def kept(self, number: int) -> Any:
        return self.connection.server.handles.thing(number)

    def close(self) -> None:
        self.jobs.close()
        self.connection.close()


@pytest.fixture
def asking(qtbot: QtBot, tiny: Path) -> Iterator[Asking]:
    asking = Asking(qtbot, tiny)
    yield asking
    asking.close()


def alike(ours: Run, theirs: Run) -> bool:
    """Whether two descriptions of a run say the same."""
    names = ("length", "newest", "prefill", "seconds", "trace_bytes", "specs", "run_id", "prompt", "extended_limit")
    same = all(getattr(ours, name) == getattr(theirs, name) for name in names)
    return same and list(ours.tokens) == list(theirs.tokens)


def test_a_run_is_what_its_process_says(asking: Asking) -> None:
    theirs = asking.kept(asking.handle.trace.number)
    assert alike(asking.handle.run, theirs.run)
    assert (asking.handle.cell, asking.handle.can) == (theirs.cell, theirs.can)
    assert asking.handle.model_handle is asking.model
    assert theirs.tiles.limit == 12_345
    assert asking.ask(asking.engine.length_of(asking.model, Prompt("abc"))) == 3


def test_what_may_be_done_with_a_model_is_said_of_it_and_of_its_runs(asking: Asking) -> None:
    handles, can = asking.connection.server.handles, frozenset[Capability]({"run", "attention"})
    narrow = replace(asking.kept(asking.model.checkpoint.number), can=can)
    handles.load = lambda: cast(Engine, SimpleNamespace(open_model=lambda *_, **__: done(narrow), run=engine.run))
    opened = asking.ask(asking.engine.open_model(None, "cpu", "float32"))
    assert (asking.model.can, opened.can) == (EVERYTHING, can)
    assert asking.ask(asking.engine.run(opened, Prompt("abc"), 2, None)).can == can


def done(value: ModelHandle) -> Steps[ModelHandle]:
    """A job that has its result."""
    yield Progress(0, 1, "Opening")
    return value


def test_a_run_that_grows_is_put_together_here_as_it_is_there(asking: Asking) -> None:
    grown = asking.ask(asking.engine.step(asking.handle, 3, GREEDY))
    assert alike(grown.run, asking.kept(grown.trace.number).run)
    assert grown.run.length == 9
    earlier = replace(grown, run=replace(grown.run, length=7))
    other = asking.ask(asking.engine.branch(earlier, 6, 65))
    assert alike(other.run, asking.kept(other.trace.number).run)
    assert [token.id for token in other.run.tokens[5:]] == [grown.run.tokens[5].id, 65]
    again = asking.ask(asking.engine.step(earlier, 1, GREEDY))
    assert alike(again.run, asking.kept(again.trace.number).run)
    assert again.run.length == 8
    assert alike(asking.handle.run, asking.kept(asking.handle.trace.number).run)


def test_what_every_layer_was_told_comes_along_where_it_changes_with_the_length(asking: Asking) -> None:
    dynamic = RopeScaling("dynamic", 2.0)
    handle = asking.ask(asking.engine.run(asking.model, Prompt("abcd" * 16), 2, None, interventions=(dynamic,)))
    grown = asking.ask(asking.engine.step(handle, 2, GREEDY))
    assert alike(grown.run, asking.kept(grown.trace.number).run)
    assert grown.run.specs != reaching(handle.run.specs, grown.run.length)


def test_a_question_is_about_the_rows_in_view_of_a_run_and_of_the_one_it_is_compared_with(
    asking: Asking, qtbot: QtBot, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = asking.ask(asking.engine.step(asking.handle, 2, GREEDY))
    reading = asking.ask(asking.engine.answer(replace(grown, run=replace(grown.run, length=7)), AskRow(0, 0, 6)))
    assert len(reading.weights) == 7
    compared = replace(grown, baseline=grown)
    assert asking.ask(asking.engine.answer(compared, AskNextTokenDifference())) is not None
    elsewhere = InProcess(lambda: None, asking.connection.packing, asking.parent)  # type: ignore[arg-type, return-value]
    strange = replace(grown, trace=elsewhere.keep(grown.trace.number))
    asked = next(asking.engine.answer(replace(grown, baseline=strange), AskNextTokenDifference())).request
    assert isinstance(asked, AnswerQuestion)
    assert asked.baseline is None  # the process does not know it
    elsewhere.close()


def test_what_nothing_points_to_any_more_is_forgotten_there(asking: Asking, qtbot: QtBot) -> None:
    assert asking.connection.kept == len(asking.connection.server.handles) == 2
    asking.handle = asking.ask(asking.engine.step(asking.handle, 1, GREEDY))
    asking.ask(asking.engine.tidy())
    assert asking.connection.kept == len(asking.connection.server.handles) == 2


def test_what_was_made_and_is_not_heard_any_more_is_forgotten_there(asking: Asking, qtbot: QtBot) -> None:
    heard: list[Any] = []
    make = asking.engine.run(asking.model, Prompt("abc"), 2, None)
    asking.jobs.submit("run", Urgency.COARSE, make, heard.append, heard.append)
    while len(asking.connection.server.handles) == 2:
        asking.connection._slice()
    asking.jobs.cancel("run")  # its result has come, and waits for its turn
    asking.ask(asking.engine.tidy())
    assert heard == []
    assert len(asking.connection.server.handles) == 2
