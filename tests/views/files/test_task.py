"""A task lets the window live between its turns, says how far it is, and ends in every way it can with one word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.errors import RopewalkError
from ropewalk.model.progress import Progress
from ropewalk.views.files.task import Task, Turns


@pytest.fixture
def task(qtbot: QtBot, session: Session) -> Iterator[Task]:
    made = Task(session)
    yield made
    made.stop()


@pytest.fixture
def heard(session: Session) -> list[str]:
    """What the progress line was told, empty for nothing."""
    lines: list[str] = []
    session.progress_changed.connect(
        lambda p: lines.append("" if p is None else f"{p.what} {p.done}/{p.total}{' cancel' if p.cancellable else ''}")
    )
    return lines


def ended(qtbot: QtBot, task: Task, turns: Turns) -> tuple[list[Any], list[str]]:
    done: list[Any] = []
    failed: list[str] = []
    task.run(turns, done.append, failed.append)
    qtbot.waitUntil(lambda: not task.busy)
    return done, failed


def test_each_turn_is_a_turn_of_the_event_loop(qtbot: QtBot, task: Task, session: Session, heard: list[str]) -> None:
    def turns() -> Turns:
        for place in range(3):
            yield Progress(place, 3, "Working")
        return "result"

    assert ended(qtbot, task, turns()) == (["result"], [])
    assert heard == ["Working 0/3 cancel", "Working 1/3 cancel", "Working 2/3 cancel", ""]


def test_it_waits_until_something_is_there(qtbot: QtBot, task: Task) -> None:
    asked = iter([False, False, True])
    looked: list[bool] = []

    def is_there() -> bool:
        looked.append(next(asked))
        return looked[-1]

    def turns() -> Turns:
        yield is_there
        return list(looked)

    assert ended(qtbot, task, turns()) == ([[False, False, True]], [])


@pytest.mark.parametrize("where", ["turn", "wait"])
@pytest.mark.parametrize(
    ("error", "says"),
    [(RopewalkError("It is not there."), "It is not there."), (ZeroDivisionError("oops"), "oops")],
)
def test_what_goes_wrong_is_reported_once_and_put_back(
    qtbot: QtBot, task: Task, heard: list[str], where: str, error: Exception, says: str
) -> None:
    back: list[bool] = []

    def never() -> bool:
        raise error

    def turns() -> Turns:
        try:
            yield Progress(0, 1, "Working")
            if where == "turn":
                raise error
            yield never
        finally:
            back.append(True)

    done, failed = ended(qtbot, task, turns())
    assert (done, back) == ([], [True])
    assert len(failed) == 1
    assert says in failed[0]
    assert heard[-1] == ""


def test_a_cancel_puts_back_and_tells_nobody(qtbot: QtBot, task: Task, session: Session) -> None:
    back: list[bool] = []
    messages: list[Any] = []

    def turns() -> Turns:
        try:
            while True:
                yield Progress(0, 0, "Working")
        finally:
            back.append(True)

    with qtbot.waitSignal(session.progress_changed):
        task.run(turns(), messages.append, messages.append)
    session.cancel()
    assert not task.busy
    assert (messages, back) == ([], [True])


def test_a_failure_of_the_session_ends_it(qtbot: QtBot, task: Task, session: Session) -> None:
    failed: list[str] = []

    def turns() -> Turns:
        yield lambda: False

    task.run(turns(), failed.append, failed.append)
    session.timeline.step()
    assert failed == ["There is nothing to step through yet; run a prompt first."]
    assert not task.busy


def test_the_engines_end_ends_it_and_another_engine_does_not(qtbot: QtBot, task: Task, running: Session) -> None:
    failed: list[str] = []

    def turns() -> Turns:
        yield lambda: False

    task.run(turns(), failed.append, failed.append)
    running.engines.current.kill()
    assert failed == ["Nothing was exported: the engine has ended meanwhile; start it again."]
    assert not task.busy
    with qtbot.waitSignal(running.recovery.engine_back):
        running.recovery.restart()
    assert len(failed) == 1


def test_a_newer_task_ends_the_one_before(qtbot: QtBot, task: Task) -> None:
    messages: list[str] = []

    def forever() -> Turns:
        while True:
            yield Progress(0, 0, "Working")

    def short() -> Turns:
        yield Progress(0, 0, "Working")
        return "second"

    task.run(forever(), messages.append, messages.append)
    task.run(short(), messages.append, messages.append)
    qtbot.waitUntil(lambda: not task.busy)
    assert messages == ["second"]
