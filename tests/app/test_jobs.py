"""Jobs of the window: one for each slot, what they hear and when, failures, progress, and closing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QTimer
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import CallFailed, Calls, Ended
from ropewalk.app.jobs import JobProgress, Jobs
from ropewalk.model.engine.frames import Kind, Message
from ropewalk.model.engine.packing import Packed
from ropewalk.model.engine.requests import Failure
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import PromptError
from ropewalk.model.progress import Progress
from tests.app.fake_connection import FakeConnection


class Log:
    """What was heard, in order."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self.results: list[Any] = []
        self.failures: list[Failure] = []
        self.parts: list[Any] = []
        self.closed: list[str] = []

    def submit(self, slot: str, work: Calls[Any], urgency: Urgency = Urgency.COARSE, **more: Any) -> None:
        self.jobs.submit(slot, urgency, work, self.results.append, self.failures.append, **more)

    def work(self, other: FakeConnection, *requests: str) -> Calls[str]:
        """Ask for each in turn; the result is all that came back."""
        came = ""
        try:
            for request in requests:
                came += yield other.asking(request)
        except GeneratorExit:
            self.closed.append(" ".join(requests))
            raise
        return came


@pytest.fixture
def jobs(qtbot: QtBot) -> Iterator[Jobs]:
    jobs = Jobs(show_after=60)
    yield jobs
    jobs.close()


@pytest.fixture
def log(jobs: Jobs) -> Log:
    return Log(jobs)


@pytest.fixture
def other(qtbot: QtBot) -> Iterator[FakeConnection]:
    other = FakeConnection()
    yield other
    other.close()


# ----------------------------------------------------------------------------------------------------------------------
# Asking and hearing


def test_a_job_asks_is_sent_the_results_and_returns_its_own(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    log.submit("a", log.work(other, "one", "two"), Urgency.POINTER)
    assert other.asked == ["one"]
    first = other.sent[0]
    assert (first.slot, first.urgency) == ("a", Urgency.POINTER)
    other.say("done", "1")
    assert other.asked == ["one"]  # what has come is heard in a later turn
    qtbot.waitUntil(lambda: other.asked == ["one", "two"])
    assert log.jobs.has("a")
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "2")
    assert (log.results, log.failures) == (["12"], [])
    assert not log.jobs.busy
    assert len(other.acknowledged) == 2


def test_a_job_may_ask_several_processes(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    third = FakeConnection(other)

    def work() -> Calls[str]:
        one: str = yield other.asking("here")
        two: str = yield third.asking("there")
        return one + two

    log.submit("a", work())
    other.say("done", "1")
    qtbot.waitUntil(lambda: bool(third.asked))
    log.jobs.cancel("a")
    assert (other.of("cancel"), third.of("cancel")) == ([], [1])


def test_a_job_that_ends_at_once_is_heard_in_a_later_turn(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    with qtbot.waitSignal(log.jobs.settled):
        log.submit("a", log.work(other))
        assert log.results == []
        assert log.jobs.has("a")
    assert log.results == [""]
    log.submit("b", log.work(other))
    log.jobs.cancel("b")
    with qtbot.waitSignal(log.jobs.settled):
        log.submit("c", log.work(other))
    assert log.results == ["", ""]


def test_parts_arrive_before_the_result_and_not_after_a_cancel(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    heard: list[Any] = []
    log.jobs.submit("a", Urgency.COARSE, log.work(other, "x"), heard.append, heard.append, on_part=heard.append)
    for part in range(2):
        other.say("part", f"part {part}")
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "whole")
    assert heard == ["part 0", "part 1", "whole"]
    log.jobs.submit("b", Urgency.COARSE, log.work(other, "y"), heard.append, heard.append, on_part=heard.append)
    other.say("part", "waits for its turn")
    log.jobs.cancel("b")
    other.say("part", "came late", 2)
    other.say("done", None, 2)
    with qtbot.waitSignal(log.jobs.settled):
        log.submit("c", log.work(other))
    assert heard == ["part 0", "part 1", "whole"]
    assert len(other.acknowledged) == 6


def test_a_part_that_nobody_listens_for_is_let_go_by(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    log.submit("a", log.work(other, "x"))
    other.say("part", "part")
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "whole")
    assert log.results == ["whole"]
    assert len(other.acknowledged) == 2


def test_what_arrives_together_is_heard_in_one_turn_each(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    counts: list[int] = []
    turns = QTimer()
    turns.timeout.connect(lambda: counts.append(len(log.results)))
    for slot in ("a", "b", "c"):
        log.submit(slot, log.work(other, slot))
    for number in (1, 2, 3):
        other.say("done", f"{number}", number)
    with qtbot.waitSignal(log.jobs.settled):
        turns.start(0)
    turns.stop()
    assert log.results == ["1", "2", "3"]
    assert {1, 2} <= set(counts)  # the window had a turn between one and the next


def test_the_last_answer_is_the_one_that_settles(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    settled: list[list[Any]] = []
    log.jobs.settled.connect(lambda: settled.append(list(log.results)))
    log.submit("a", log.work(other, "x"))
    log.submit("b", log.work(other, "y"))
    other.say("done", "1", 1)
    other.say("done", "2", 2)
    qtbot.waitUntil(lambda: bool(settled))
    assert settled == [["1", "2"]]


# ----------------------------------------------------------------------------------------------------------------------
# Replacing and cancelling


def test_a_newer_job_of_a_slot_replaces_the_older(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    for name in ("old", "never", "new"):
        log.submit("head", log.work(other, name))
    assert log.closed == ["old", "never"]
    assert (other.of("request"), other.of("cancel")) == ([1, 2, 3], [1, 2])
    for number in (1, 2):
        other.say("done", None, number)
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "new")
    assert log.results == ["new"]


def test_a_result_that_was_replaced_before_its_turn_is_refused_unread(
    qtbot: QtBot, log: Log, other: FakeConnection
) -> None:
    log.submit("head", log.work(other, "old"))
    unread = Message(1, "done", packed=Packed("nothing that is known", b"\xc1"))
    other.arrived(unread)
    log.submit("head", log.work(other, "new"))
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "new")
    assert log.results == ["new"]
    assert other.gone is None  # nobody has read what cannot be understood
    assert unread in other.acknowledged
    assert other.of("cancel") == [1]  # so that what it names is not kept for the window


def test_a_cancel_closes_the_generator_and_asks_the_process_to_end_it(
    qtbot: QtBot, log: Log, other: FakeConnection
) -> None:
    log.submit("slow", log.work(other, "x"))
    with qtbot.waitSignal(log.jobs.settled):
        log.jobs.cancel("slow")
    assert (log.closed, other.of("cancel")) == (["x"], [1])
    other.say("done", "late", 1)
    assert log.results == []
    assert len(other.acknowledged) == 1
    with qtbot.assertNotEmitted(log.jobs.settled):
        log.jobs.cancel("slow")  # nothing left to cancel


def test_everything_can_be_cancelled(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    with qtbot.assertNotEmitted(log.jobs.settled):
        log.jobs.cancel_all()
    log.submit("a", log.work(other, "x"))
    log.submit("b", log.work(other, "y"))
    with qtbot.waitSignal(log.jobs.settled):
        log.jobs.cancel_all()
    assert log.closed == ["x", "y"]
    assert not log.jobs.busy


def test_a_job_that_drops_itself_ends_where_it_stands(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    """Starting a process that is not there tells the session, which drops whatever was to be asked."""

    def work(drop: Callable[[], None]) -> Calls[str]:
        drop()
        came: str = yield other.asking("never")
        return came

    with qtbot.waitSignal(log.jobs.settled):
        log.submit("a", work(lambda: log.jobs.cancel("a")))
    log.submit("a", work(lambda: log.submit("a", log.work(other, "instead"))))
    assert other.asked == ["instead"]
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "1")
    assert log.results == ["1"]


def test_a_job_that_is_dropped_while_it_goes_on_is_ended_then(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    closed: list[bool] = []

    def work() -> Calls[None]:
        yield other.asking("first")
        log.jobs.cancel("a")
        try:
            yield other.asking("never")
        finally:
            closed.append(True)

    log.submit("a", work())
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "1")
    qtbot.waitUntil(lambda: closed == [True])
    assert other.asked == ["first"]


def test_a_job_that_resists_its_end_stops_nobody(
    qtbot: QtBot, log: Log, other: FakeConnection, caplog: pytest.LogCaptureFixture
) -> None:
    def stubborn() -> Calls[None]:
        try:
            yield other.asking("x")
        except GeneratorExit:
            raise RuntimeError("no") from None

    log.submit("a", stubborn())
    with caplog.at_level(logging.ERROR):
        log.submit("a", log.work(other, "next"))
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "next")
    assert log.results == ["next"]
    assert "did not end cleanly" in caplog.text


def test_whoever_hears_that_nothing_is_shown_any_more_may_begin_another(
    qtbot: QtBot, log: Log, other: FakeConnection
) -> None:
    jobs = log.jobs
    jobs.show_after = 0
    log.submit("a", log.work(other, "old"))
    other.say("progress", Progress(1, 2, "Working"))

    def begin(progress: JobProgress | None) -> None:
        if progress is None:
            jobs.progress_changed.disconnect(begin)
            log.submit("a", log.work(other, "meanwhile"))

    jobs.progress_changed.connect(begin)
    log.submit("a", log.work(other, "new"))
    assert log.closed == ["old", "meanwhile"]
    with qtbot.waitSignal(jobs.settled):
        other.say("done", "1")
    assert log.results == ["1"]


# ----------------------------------------------------------------------------------------------------------------------
# Failing


def test_a_failure_of_the_process_arrives_as_it_is(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    log.submit("a", log.work(other, "x"))
    with qtbot.waitSignal(log.jobs.settled):
        other.say("failed", Failure("Too long.", "the details"))
    assert log.failures == [Failure("Too long.", "the details")]


def test_what_nobody_foresaw_in_the_process_says_what_was_going_on(
    qtbot: QtBot, log: Log, other: FakeConnection
) -> None:
    for what in ("Reading heads", ""):
        log.submit("a", log.work(other, "x"), what=what)
        with qtbot.waitSignal(log.jobs.settled):
            other.say("failed", Failure("Something unforeseen went wrong: x (KeyError).", "Traceback", unforeseen=True))
    assert [failure.sentence for failure in log.failures] == [
        "Something unforeseen went wrong while reading heads: x (KeyError).",
        "Something unforeseen went wrong: x (KeyError).",
    ]
    assert log.failures[0].details == "Traceback"


def test_a_job_may_go_on_after_a_failure(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    def work() -> Calls[str]:
        try:
            yield other.asking("first")
        except CallFailed as error:
            again: str = yield other.asking(f"after {error.failure.sentence}")
        return again

    log.submit("a", work())
    other.say("failed", Failure("Too long."))
    qtbot.waitUntil(lambda: other.asked == ["first", "after Too long."])
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "2")
    assert (log.results, log.failures) == (["2"], [])


@pytest.mark.parametrize("asks", [True, False])
def test_a_job_that_fails_itself_is_a_failure_too(qtbot: QtBot, log: Log, other: FakeConnection, asks: bool) -> None:
    def work(error: Exception) -> Calls[None]:
        if asks:
            yield other.asking("x")
        raise error

    for error in (PromptError("Too long.", "the details"), KeyError("blocks.0\nmore")):
        with qtbot.waitSignal(log.jobs.settled):
            log.submit("a", work(error), what="Reading heads")
            if asks:
                other.say("done", None)
            assert len(log.failures) == isinstance(error, KeyError)  # heard in a later turn
    first, second = log.failures
    assert first == Failure("Too long.", "the details")
    assert second.sentence.startswith("Something unforeseen went wrong while reading heads: ")
    assert second.sentence.endswith("(KeyError).")
    assert "\n" not in second.sentence
    assert "Traceback" in second.details
    log.submit("b", log.work(other, "next"))
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "next")
    assert log.results == ["next"]


def test_a_request_that_cannot_be_said_is_a_failure_of_its_job(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    def work() -> Calls[None]:
        yield other.asking(object())

    with qtbot.waitSignal(log.jobs.settled):
        log.submit("a", work())
        assert log.failures == []
    assert [failure.sentence for failure in log.failures] == ["The window and the engine say no object to one another."]
    assert other.sent == []


def test_the_end_of_a_process_is_what_its_jobs_hear(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    log.submit("a", log.work(other, "x"))
    log.submit("b", log.work(other, "y"))
    with qtbot.waitSignal(log.jobs.settled), qtbot.waitSignal(other.ended):
        other.kill()
    ended = Ended("It is gone.", reason="SIGKILL")
    assert log.failures == [ended, ended]
    with qtbot.waitSignal(log.jobs.settled):
        log.submit("c", log.work(other, "asked of a process that is gone"))
        assert len(log.failures) == 2
    assert log.failures == [ended, ended, ended]
    assert len(other.sent) == 2


@pytest.mark.parametrize("kind", ["part", "done", "progress"])
def test_what_cannot_be_understood_ends_the_process(qtbot: QtBot, log: Log, other: FakeConnection, kind: Kind) -> None:
    log.submit("a", log.work(other, "x"), on_part=log.parts.append)
    with qtbot.waitSignal(log.jobs.settled):
        other.arrived(Message(1, kind, packed=Packed("str", b"\xc1")))
    ((failure,), parts) = (log.failures, log.parts)
    assert isinstance(failure, Ended)
    assert failure.sentence.startswith("The engine said something that cannot be understood")
    assert failure.details.startswith("str cannot be read")
    assert parts == []
    assert other.stopped == 1


def test_a_handler_that_fails_leaves_the_others_their_turns(qtbot: QtBot, log: Log, other: FakeConnection) -> None:
    def broken(result: Any) -> None:
        raise ZeroDivisionError("broken handler")

    log.jobs.submit("a", Urgency.COARSE, log.work(other, "x"), broken, broken, on_part=broken)
    log.submit("b", log.work(other, "y"))
    other.say("part", "part", 1)
    other.say("done", "1", 1)
    with qtbot.capture_exceptions() as caught, qtbot.waitSignal(log.jobs.settled):
        other.say("done", "2", 2)
    assert [error[0] for error in caught] == [ZeroDivisionError] * 2
    assert log.results == ["2"]
    log.jobs.submit("a", Urgency.COARSE, log.work(other, "x"), broken, broken)
    with qtbot.capture_exceptions() as caught, qtbot.waitSignal(log.jobs.settled):
        other.say("done", "3")
    assert len(caught) == 1


# ----------------------------------------------------------------------------------------------------------------------
# Progress


@pytest.fixture
def seen(jobs: Jobs) -> list[JobProgress | None]:
    """What was shown."""
    seen: list[JobProgress | None] = []
    jobs.progress_changed.connect(seen.append)
    return seen


def test_progress_is_shown_and_taken_away(
    qtbot: QtBot, log: Log, other: FakeConnection, seen: list[JobProgress | None]
) -> None:
    log.jobs.show_after = 0
    log.submit("slow", log.work(other, "x"), what="Slow", cancellable=False)
    other.say("progress", Progress(0, 2, "Working"))
    other.say("progress", Progress(1, 2, ""))
    log.jobs.cancel_shown()
    assert log.jobs.has("slow")
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "1")
    assert seen == [
        JobProgress("Working", 0, 2, cancellable=False),
        JobProgress("Slow", 1, 2, cancellable=False),
        None,
    ]
    assert len(other.acknowledged) == 3


def test_short_jobs_show_no_progress(
    qtbot: QtBot, log: Log, other: FakeConnection, seen: list[JobProgress | None]
) -> None:
    log.submit("a", log.work(other, "x"))
    other.say("progress", Progress(0, 2, "Working"))
    with qtbot.waitSignal(log.jobs.settled):
        other.say("done", "1")
    assert seen == []


def test_a_job_that_says_nothing_is_shown_all_the_same(qtbot: QtBot, other: FakeConnection) -> None:
    jobs = Jobs(show_after=0.0)
    seen: list[JobProgress | None] = []
    jobs.progress_changed.connect(seen.append)
    log = Log(jobs)
    log.submit("open", log.work(other, "x"), Urgency.PREFILL, what="Opening")
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [JobProgress("Opening", 0, 0, cancellable=True)]
    jobs.cancel_shown()
    assert not jobs.busy
    assert seen[-1] is None
    jobs.close()


def test_progress_that_comes_late_is_acknowledged_and_not_shown(
    log: Log, other: FakeConnection, seen: list[JobProgress | None]
) -> None:
    log.jobs.show_after = 0
    log.submit("a", log.work(other, "x"))
    log.jobs.cancel("a")
    late = other.say("progress", Progress(0, 2, "Working"), 1)
    assert seen == []
    assert other.acknowledged == [late]


# ----------------------------------------------------------------------------------------------------------------------
# Closing


def test_closing_cancels_everything_and_nothing_is_heard_afterwards(qtbot: QtBot, other: FakeConnection) -> None:
    jobs = Jobs()
    log = Log(jobs)
    log.submit("slow", log.work(other, "x"))
    log.submit("done", log.work(other, "y"))
    unheard = other.say("done", "y")
    jobs.close()
    assert (log.closed, other.of("cancel")) == (["x", "y"], [1, 2])
    assert other.acknowledged == [unheard]
    log.submit("late", log.work(other, "z"))
    assert not jobs.busy
    assert len(other.asked) == 2
    jobs.close()
    QCoreApplication.processEvents()
    assert (log.results, log.failures) == ([], [])
