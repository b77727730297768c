"""The compute thread: order, replacement, cancel, errors, closing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QTimer
from pytestqt.qtbot import QtBot

from ropewalk.app.jobs import Failure, JobProgress, Jobs
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import Cancelled, PromptError
from ropewalk.model.progress import Partial, Progress
from tests.fake_engine import Gate


class Log:
    """What happened, in order, on which thread."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.results: list[Any] = []
        self.failures: list[Failure] = []
        self.threads: set[int] = set()

    def work(self, name: str, slices: int, gate: Gate | None = None) -> Generator[Progress, None, str]:
        """Write a line for each slice and one for the end."""
        try:
            for number in range(slices):
                self.lines.append(f"{name}{number}")
                yield Progress(number, slices, name)
                if gate is not None:
                    gate.pass_through()
        except GeneratorExit:
            self.lines.append(f"{name} closed")
            raise
        self.lines.append(f"{name} done")
        self.threads.add(threading.get_ident())
        return name


def submit(jobs: Jobs, log: Log, slot: str, urgency: Urgency, work: Any, **more: Any) -> None:
    jobs.submit(slot, urgency, work, log.results.append, log.failures.append, **more)


def test_a_result_arrives_on_this_thread_and_is_computed_on_another(qtbot: QtBot, jobs: Jobs) -> None:
    log = Log()
    where: list[int] = []
    with qtbot.waitSignal(jobs.settled):
        jobs.submit(
            "a", Urgency.COARSE, log.work("a", 1), lambda _: where.append(threading.get_ident()), log.failures.append
        )
    assert where == [threading.get_ident()]
    assert log.threads.isdisjoint(where)
    assert not jobs.busy


def test_a_more_urgent_job_runs_between_the_slices_of_another(qtbot: QtBot, jobs: Jobs) -> None:
    log, gate = Log(), Gate()
    gate.shut()
    submit(jobs, log, "slow", Urgency.PREFILL, log.work("slow", 3, gate))
    assert gate.reached.wait(10)
    submit(jobs, log, "thumbnails", Urgency.THUMBNAILS, log.work("thumbnails", 1))
    submit(jobs, log, "quick", Urgency.POINTER, log.work("quick", 2))
    with qtbot.waitSignal(jobs.settled):
        gate.open.set()
    assert log.lines == [
        "slow0", "slow1", "quick0", "quick1", "quick done", "slow2", "slow done", "thumbnails0", "thumbnails done",
    ]  # fmt: skip
    assert log.results == ["quick", "slow", "thumbnails"]


def test_jobs_of_one_urgency_keep_their_order(qtbot: QtBot, jobs: Jobs) -> None:
    log, gate = Log(), Gate()
    gate.shut()
    submit(jobs, log, "a", Urgency.COARSE, log.work("a", 2, gate))
    assert gate.reached.wait(10)
    submit(jobs, log, "b", Urgency.COARSE, log.work("b", 1))
    with qtbot.waitSignal(jobs.settled):
        gate.open.set()
    assert log.results == ["a", "b"]


def test_a_newer_request_replaces_the_older(qtbot: QtBot, jobs: Jobs) -> None:
    log, gate = Log(), Gate()
    gate.shut()
    submit(jobs, log, "head", Urgency.COARSE, log.work("old", 5, gate))
    assert gate.reached.wait(10)
    submit(jobs, log, "head", Urgency.COARSE, log.work("never", 1))
    submit(jobs, log, "head", Urgency.COARSE, log.work("new", 1))
    with qtbot.waitSignal(jobs.settled):
        gate.open.set()
    assert log.results == ["new"]
    assert "old closed" in log.lines
    assert "never0" not in log.lines


def test_a_finished_result_that_was_replaced_before_it_arrived_is_dropped(qtbot: QtBot, jobs: Jobs) -> None:
    log = Log()
    ended = threading.Event()

    def work() -> Generator[Progress, None, str]:
        yield Progress(0, 1, "Working")
        return "old"

    def last() -> Generator[Progress, None, None]:
        yield Progress(0, 1, "Working")
        ended.set()

    submit(jobs, log, "head", Urgency.COARSE, work())
    submit(jobs, log, "other", Urgency.THUMBNAILS, last())
    assert ended.wait(10)  # the old result is under way to this thread, which has not looked at its events yet
    with qtbot.waitSignal(jobs.settled):
        submit(jobs, log, "head", Urgency.COARSE, log.work("new", 1))
    assert "old" not in log.results
    assert "new" in log.results


def test_cancel_in_the_middle_closes_the_generator_and_delivers_nothing(qtbot: QtBot, jobs: Jobs) -> None:
    log, gate = Log(), Gate()
    gate.shut()
    submit(jobs, log, "slow", Urgency.PREFILL, log.work("slow", 100, gate))
    assert gate.reached.wait(10)
    with qtbot.waitSignal(jobs.settled):
        jobs.cancel("slow")
    gate.open.set()
    with qtbot.waitSignal(jobs.settled):
        submit(jobs, log, "next", Urgency.THUMBNAILS, log.work("next", 1))
    assert log.results == ["next"]
    assert "slow closed" in log.lines
    jobs.cancel("slow")  # nothing left to cancel


def test_a_job_that_resists_its_end_does_not_stop_the_thread(
    qtbot: QtBot, jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    log, gate = Log(), Gate()

    def stubborn() -> Generator[Progress, None, None]:
        try:
            yield Progress(0, 1, "Working")
            gate.pass_through()
            yield Progress(1, 2, "Working")
        except GeneratorExit:
            raise RuntimeError("no") from None

    gate.shut()
    submit(jobs, log, "stubborn", Urgency.COARSE, stubborn())
    assert gate.reached.wait(10)
    jobs.cancel_all()
    gate.open.set()
    with caplog.at_level(logging.ERROR), qtbot.waitSignal(jobs.settled):
        submit(jobs, log, "next", Urgency.COARSE, log.work("next", 1))
    assert log.results == ["next"]
    assert "did not end cleanly" in caplog.text


def failing(error: Exception) -> Generator[Progress, None, None]:
    """Fail after one point."""
    yield Progress(0, 1, "Working")
    raise error


def test_an_error_of_the_model_arrives_as_its_sentence(qtbot: QtBot, jobs: Jobs) -> None:
    log = Log()
    with qtbot.waitSignal(jobs.settled):
        submit(jobs, log, "a", Urgency.COARSE, failing(PromptError("Too long.", "the details")))
    assert log.failures == [Failure("Too long.", "the details")]


def test_an_unforeseen_error_is_one_sentence_with_the_traceback_folded_and_the_thread_lives(
    qtbot: QtBot, jobs: Jobs
) -> None:
    log = Log()
    with qtbot.waitSignal(jobs.settled):
        submit(jobs, log, "a", Urgency.COARSE, failing(KeyError("blocks.0\nmore")), what="Reading heads")
    (failure,) = log.failures
    assert failure.sentence.startswith("Something unforeseen went wrong while reading heads: ")
    assert failure.sentence.endswith("(KeyError).")
    assert "\n" not in failure.sentence
    assert "Traceback" in failure.details
    with qtbot.waitSignal(jobs.settled):
        submit(jobs, log, "b", Urgency.COARSE, log.work("b", 1))
    assert log.results == ["b"]


def test_a_job_that_cancels_itself_delivers_nothing(qtbot: QtBot, jobs: Jobs) -> None:
    log = Log()
    with qtbot.waitSignal(jobs.settled):
        submit(jobs, log, "a", Urgency.COARSE, failing(Cancelled()))
    assert (log.results, log.failures) == ([], [])


def test_progress_is_shown_and_taken_away(qtbot: QtBot, jobs: Jobs) -> None:
    log, gate = Log(), Gate()
    seen: list[JobProgress | None] = []
    jobs.progress_changed.connect(seen.append)
    gate.shut()
    submit(jobs, log, "slow", Urgency.PREFILL, log.work("slow", 2, gate), cancellable=False)
    qtbot.waitUntil(lambda: bool(seen))
    jobs.cancel_shown()
    assert jobs.has("slow")
    with qtbot.waitSignal(jobs.settled):
        gate.open.set()
    assert seen[0] == JobProgress("slow", 0, 2, cancellable=False)
    assert seen[-1] is None


def test_a_job_that_says_nothing_is_shown_all_the_same(qtbot: QtBot, jobs: Jobs) -> None:
    gate, log = Gate(), Log()
    seen: list[JobProgress | None] = []
    gate.shut()

    def silent() -> Generator[Progress, None, None]:
        gate.pass_through()
        yield Progress(0, 1, "Working")

    jobs.progress_changed.connect(seen.append)
    submit(jobs, log, "open", Urgency.PREFILL, silent(), what="Opening")
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [JobProgress("Opening", 0, 0, cancellable=True)]
    jobs.cancel_shown()
    assert not jobs.busy
    assert seen[-1] is None
    gate.open.set()


def test_short_jobs_show_no_progress(qtbot: QtBot) -> None:
    jobs, log = Jobs(show_after=60), Log()
    seen: list[JobProgress | None] = []
    jobs.progress_changed.connect(seen.append)
    with qtbot.waitSignal(jobs.settled):
        submit(jobs, log, "a", Urgency.POINTER, log.work("a", 3))
    jobs.close()
    assert seen == []


def test_close_while_running_waits_for_the_thread_and_delivers_nothing(qtbot: QtBot) -> None:
    jobs, log, gate = Jobs(), Log(), Gate()
    gate.shut()
    submit(jobs, log, "slow", Urgency.PREFILL, log.work("slow", 10**9, gate))
    submit(jobs, log, "next", Urgency.PREFILL, log.work("next", 1))
    assert gate.reached.wait(10)
    threading.Timer(0, gate.open.set).start()
    jobs.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "ropewalk-compute"]
    assert log.lines[-1] == "slow closed"
    assert log.results == []
    submit(jobs, log, "late", Urgency.PREFILL, log.work("late", 1))
    assert not jobs.busy
    jobs.close()


def test_close_without_a_job_is_quiet() -> None:
    Jobs().close()


def test_parts_arrive_before_the_result_and_not_after_a_cancel(qtbot: QtBot, jobs: Jobs) -> None:
    def parts(gate: Gate | None = None) -> Generator[Progress, None, str]:
        for number in range(2):
            yield Partial(number, 2, "part", f"part {number}")
            if gate is not None:
                gate.pass_through()
        return "whole"

    heard: list[Any] = []
    with qtbot.waitSignal(jobs.settled):
        jobs.submit("a", Urgency.REFINEMENT, parts(), heard.append, heard.append, on_part=heard.append)
    assert heard == ["part 0", "part 1", "whole"]
    gate = Gate()
    gate.shut()
    jobs.submit("b", Urgency.REFINEMENT, parts(gate), heard.append, heard.append, on_part=heard.append)
    assert gate.reached.wait(10)
    jobs.cancel("b")
    gate.open.set()
    with qtbot.waitSignal(jobs.settled):
        jobs.submit("c", Urgency.REFINEMENT, Log().work("c", 1), lambda _: None, heard.append)
    assert heard == ["part 0", "part 1", "whole"]


def test_work_that_cannot_pause_says_how_far_it_is_and_ends_when_cancelled(qtbot: QtBot, jobs: Jobs) -> None:
    gate, ended = Gate(), threading.Event()
    messages: list[JobProgress | None] = []
    jobs.progress_changed.connect(messages.append)

    def work() -> Generator[Progress, None, str]:
        yield Progress(0, 1, "begun")
        jobs.pulse(Progress(3, 30, "Loading layer 3"))
        gate.pass_through()
        try:
            jobs.pulse(Progress(4, 30, "Loading layer 4"))
        except Cancelled:
            ended.set()
            raise
        return "loaded"

    gate.shut()
    jobs.REPORT_EVERY = 0.0
    jobs.submit("open", Urgency.PREFILL, work(), lambda _: None, lambda _: None)
    qtbot.waitUntil(lambda: any(one is not None and one.done == 3 for one in messages))
    jobs.cancel("open")
    gate.open.set()
    assert ended.wait(10)


def test_an_idle_thread_begins_with_the_most_urgent_of_what_is_asked_together(
    qtbot: QtBot, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    with qtbot.waitSignal(jobs.settled):
        submit(jobs, log, "first", Urgency.COARSE, log.work("first", 1))
    log.lines.clear()
    monkeypatch.setattr(jobs, "GATHER", 0.5)  # however slow this machine is
    with qtbot.waitSignal(jobs.settled):
        for slot, urgency in (("late", Urgency.REFINEMENT), ("coarse", Urgency.COARSE), ("pointer", Urgency.POINTER)):
            submit(jobs, log, slot, urgency, log.work(slot, 1))
    assert [line for line in log.lines if line.endswith("0")] == ["pointer0", "coarse0", "late0"]


def test_answers_that_arrive_together_are_heard_in_one_turn_each(qtbot: QtBot, jobs: Jobs) -> None:
    log = Log()
    counts: list[int] = []
    turns = QTimer()
    turns.timeout.connect(lambda: counts.append(len(log.results)))
    for slot in ("a", "b", "c"):
        submit(jobs, log, slot, Urgency.COARSE, log.work(slot, 1))
    while len(jobs._arrived) < 3:  # all of them are there before any is heard
        QCoreApplication.sendPostedEvents(jobs)
    with qtbot.waitSignal(jobs.settled):
        turns.start(0)
    turns.stop()
    assert log.results == ["a", "b", "c"]
    assert {1, 2} <= set(counts)  # the window had a turn between one and the next
