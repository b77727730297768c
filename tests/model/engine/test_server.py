"""The server: which job goes first, what ends one, what comes back, and what is kept for the other side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest

from ropewalk.model.engine import server as module
from ropewalk.model.engine.frames import FrameError, Kind, Message
from ropewalk.model.engine.interface import Engine
from ropewalk.model.engine.packing import Packed, Packing
from ropewalk.model.engine.requests import Failure, Greeting
from ropewalk.model.engine.server import Server
from ropewalk.model.engine.serving import Handles
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import Cancelled, PromptError
from ropewalk.model.progress import Partial, Progress, Steps


@dataclass(frozen=True)
class Count:
    """Pause so many times, then return the name."""

    name: str
    pauses: int = 1


@dataclass(frozen=True)
class Give:
    """Give so many parts, then return how many there were."""

    parts: int


@dataclass(frozen=True)
class Keep:
    """Keep a thing after so many pauses; returns its number."""

    pauses: int = 0


@dataclass(frozen=True)
class Fail:
    """Fail in one of some ways."""

    how: str


@dataclass(frozen=True)
class Unserved:
    """May pass, but nothing serves it."""


class Panic(BaseException):
    """As pyo3 has one for code of Rust that gives up."""


BEGUN = (1, "progress", Progress(0, 0, ""))
"""What is said first of the first request."""
PACKING = Packing((Count, Give, Keep, Fail, Unserved, Greeting, Failure, Progress, str, int, None))


class Wire:
    """Where a server sends, with nothing behind it.

    ``stuck`` are the requests of which something is unsent, which is of the kinds ``stuck_kinds``.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.dropped: list[int] = []
        self.stuck: set[int] = set()
        self.stuck_kinds: tuple[Kind, ...] = ("part", "progress")
        self.heard: Callable[[Message], None] = lambda message: None
        self.too_large: str = ""

    def put(self, message: Message) -> None:
        if message.packed.type == self.too_large != "":
            raise FrameError("That is more than can be sent.")
        self.messages.append(message)
        self.heard(message)

    def drop(self, number: int) -> None:
        self.dropped.append(number)
        self.stuck.discard(number)

    def holds(self, number: int, *kinds: Kind) -> bool:
        return number in self.stuck and any(kind in kinds for kind in self.stuck_kinds)

    def said(self, *kinds: Kind) -> list[tuple[int, Kind, Any]]:
        """What was said of these kinds; without any, of all but progress."""
        return [
            (one.id, one.kind, PACKING.unpack(one.packed.type, one.packed.data, one.packed.arrays))
            for one in self.messages
            if one.kind in kinds or (not kinds and one.kind != "progress")
        ]


class Bench:
    """A server of the records above; ``lines`` says what its jobs did, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.wire = Wire()
        self.loaded: list[bool] = []
        served: Mapping[type[Any], Any] = {Count: self.count, Give: self.give, Keep: self.keep, Fail: self.fail}
        self.server = Server(served, PACKING, self.wire, self.load)

    def load(self) -> Engine:
        self.loaded.append(True)
        return cast(Engine, None)

    def count(self, handles: Handles, asked: Count) -> Steps[str]:
        try:
            for number in range(asked.pauses):
                self.lines.append(f"{asked.name}{number}")
                yield Progress(number, asked.pauses, asked.name)
        except GeneratorExit:
            self.lines.append(f"{asked.name} closed")
            if asked.name == "stubborn":
                raise RuntimeError("no") from None
            raise
        return asked.name

    def give(self, handles: Handles, asked: Give) -> Steps[int]:
        for number in range(asked.parts):
            self.lines.append(f"gives {number}")
            yield Partial(number, asked.parts, "Giving", f"part {number}")
        return asked.parts

    def keep(self, handles: Handles, asked: Keep) -> Steps[int]:
        number = handles.keep("thing")
        for pause in range(asked.pauses):
            yield Progress(pause, asked.pauses, "Keeping")
        return number

    def fail(self, handles: Handles, asked: Fail) -> Steps[Any]:
        if asked.how == "at once":
            raise PromptError("Too long.", "the details")
        yield Progress(0, 1, "Working")
        if asked.how == "pulse":
            handles.pulse(Progress(1, 2, "before"))
            self.cancel(1)
            handles.pulse(Progress(2, 2, "after"))
            self.lines.append("went on")
        elif asked.how == "strange part":
            try:
                yield Partial(0, 1, "Working", object())
            except GeneratorExit:
                self.lines.append("closed")
                raise
        elif asked.how == "strange result":
            return object()
        elif asked.how == "keeps":
            handles.keep("thing")
        raise {"cancelled": Cancelled(), "panic": Panic("it gave up"), "keeps": PromptError("Kept in vain.")}.get(
            asked.how, KeyError("blocks.0\nmore")
        )

    # What the other side says ---------------------------------------------------------------------------------------

    def ask(self, number: int, request: Any, urgency: Urgency = Urgency.COARSE) -> None:
        self.server.hear(request_of(number, request, urgency))

    def cancel(self, number: int) -> None:
        self.server.hear(Message(number, "cancel"))

    def release(self, number: int) -> None:
        self.server.hear(Message(number, "release"))

    def finish(self) -> None:
        """Serve until there is nothing that can go on."""
        while self.server.advance():
            pass


def request_of(number: int, request: Any, urgency: Urgency = Urgency.COARSE) -> Message:
    return Message(number, "request", "slot", urgency, PACKING.pack(request))


@pytest.fixture
def bench() -> Bench:
    return Bench()


# ----------------------------------------------------------------------------------------------------------------------
# Which goes first


def test_the_most_urgent_of_what_came_together_goes_first(bench: Bench) -> None:
    urgencies = {"late": Urgency.REFINEMENT, "coarse": Urgency.COARSE, "pointer": Urgency.POINTER}
    bench.server.hear(*(request_of(i, Count(name), at) for i, (name, at) in enumerate(urgencies.items(), 1)))
    bench.finish()
    assert bench.lines == ["pointer0", "coarse0", "late0"]
    assert bench.wire.said() == [(3, "done", "pointer"), (2, "done", "coarse"), (1, "done", "late")]


def test_requests_of_one_urgency_keep_their_order(bench: Bench) -> None:
    bench.ask(1, Count("a", 2))
    bench.ask(2, Count("b"))
    bench.finish()
    assert bench.lines == ["a0", "a1", "b0"]


def test_a_more_urgent_request_is_served_between_the_pauses_of_another(bench: Bench) -> None:
    bench.ask(1, Count("slow", 3), Urgency.PREFILL)
    for _ in range(3):
        bench.server.advance()
    bench.ask(2, Count("thumbnails"), Urgency.THUMBNAILS)
    bench.ask(3, Count("quick", 2), Urgency.POINTER)
    bench.finish()
    assert bench.lines == ["slow0", "slow1", "quick0", "quick1", "slow2", "thumbnails0"]
    assert [number for number, *_ in bench.wire.said()] == [3, 1, 2]


def test_a_job_whose_parts_are_unsent_waits_and_others_go_on(bench: Bench) -> None:
    bench.ask(1, Give(3), Urgency.POINTER)
    bench.server.advance()
    bench.server.advance()
    bench.wire.stuck.add(1)
    bench.ask(2, Count("other"), Urgency.THUMBNAILS)
    bench.finish()
    assert bench.lines == ["gives 0", "other0"]
    bench.wire.stuck.clear()
    bench.server.sent()
    bench.finish()
    assert bench.wire.said()[-1] == (1, "done", 3)
    assert bench.wire.said("part") == [(1, "part", f"part {number}") for number in range(3)]


def test_work_begins_once_it_is_sent_that_it_does_and_later_waits_for_no_report(bench: Bench) -> None:
    bench.wire.stuck_kinds = ("progress",)
    bench.ask(1, Count("long", 2), Urgency.DECODE)
    bench.server.advance()
    bench.wire.stuck.add(1)
    assert not bench.server.advance()  # whoever asked would not know at what the process had ended
    assert bench.lines == []
    bench.wire.stuck.clear()
    bench.server.advance()
    bench.wire.stuck.add(1)
    bench.ask(2, Count("less urgent"), Urgency.THUMBNAILS)
    bench.finish()
    assert bench.lines == ["long0", "long1", "less urgent0"]


# ----------------------------------------------------------------------------------------------------------------------
# What ends a job


def test_a_cancelled_job_is_ended_before_anything_else_and_the_other_side_hears_of_its_end(bench: Bench) -> None:
    bench.ask(1, Count("slow", 100), Urgency.THUMBNAILS)
    bench.server.advance()
    bench.server.advance()
    bench.ask(2, Count("quick"), Urgency.POINTER)
    bench.cancel(1)
    bench.finish()
    assert bench.lines == ["slow0", "slow closed", "quick0"]
    assert bench.wire.said() == [(1, "done", None), (2, "done", "quick")]
    assert bench.wire.dropped == [1]


def test_a_job_that_waits_for_its_parts_to_be_sent_hears_a_cancel(bench: Bench) -> None:
    bench.ask(1, Give(3))
    bench.server.advance()
    bench.server.advance()
    bench.wire.stuck.add(1)
    bench.cancel(1)
    bench.wire.stuck.add(1)  # what has begun cannot be taken back
    bench.finish()
    assert bench.wire.said()[-1] == (1, "done", None)


def test_a_request_that_was_cancelled_before_it_began_is_never_begun(bench: Bench) -> None:
    bench.ask(1, Count("never"))
    bench.cancel(1)
    bench.finish()
    assert bench.lines == []
    assert bench.wire.said() == [(1, "done", None)]


def test_a_job_that_resists_its_end_does_not_end_the_server(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.ask(1, Count("stubborn", 5))
    bench.server.advance()
    bench.server.advance()
    bench.cancel(1)
    bench.ask(2, Count("next"))
    bench.finish()
    assert "did not end cleanly" in caplog.text
    assert bench.wire.said() == [(1, "done", None), (2, "done", "next")]


def test_work_that_cannot_pause_ends_at_its_pulse_when_it_was_cancelled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPORT_EVERY", 0.0)
    bench.ask(1, Fail("pulse"))
    bench.finish()
    assert bench.wire.said("progress")[-1] == (1, "progress", Progress(1, 2, "before"))
    assert bench.wire.said() == [(1, "done", None)]
    assert bench.lines == []
    bench.server.pulse(Progress(0, 1, "Nothing is under way"))


def test_nothing_is_said_of_a_job_that_was_cancelled_meanwhile(bench: Bench) -> None:
    bench.ask(1, Give(2))
    bench.server.advance()
    bench.server._queue[0].cancelled = True  # as the reader's thread does in the middle of a slice
    bench.server._advance(bench.server._queue[0])
    assert bench.lines == ["gives 0"]
    assert bench.wire.said("progress") == [BEGUN]
    assert len(bench.wire.messages) == 1


def test_a_cancel_that_crosses_the_result_is_answered_too(bench: Bench) -> None:
    bench.ask(1, Count("a"))
    bench.finish()
    bench.cancel(1)
    bench.cancel(7)
    assert bench.wire.said() == [(1, "done", "a"), (1, "done", None), (7, "done", None)]
    assert bench.wire.dropped == [1, 7]


def test_closing_ends_every_job_and_the_wait(bench: Bench) -> None:
    bench.ask(1, Count("a", 5))
    bench.server.advance()
    bench.server.advance()
    bench.ask(2, Count("b"))
    assert bench.server.wait()
    bench.server.close()
    assert bench.server.wait()  # there are jobs to be ended yet
    bench.finish()
    assert not bench.server.wait()
    assert bench.lines == ["a0", "a closed"]
    with pytest.raises(Cancelled):
        _during(bench, lambda: bench.server.pulse(Progress(0, 1, "")))


def _during(bench: Bench, act: Callable[[], None]) -> None:
    bench.server._running = module.Job(Message(1, "request"))
    act()


def test_the_wait_ends_when_something_is_heard_on_another_thread(bench: Bench) -> None:
    for heard in (request_of(1, Count("a")), Message(1, "release"), Message(0, "hello", packed=PACKING.pack(None))):
        other = threading.Thread(target=bench.server.hear, args=(heard,))
        other.start()
        assert bench.server.wait()
        other.join()
        bench.finish()
    assert bench.wire.said() == [(1, "done", "a")]


# ----------------------------------------------------------------------------------------------------------------------
# What comes back


@pytest.mark.parametrize("how", ["at once", "later"])
def test_what_nobody_foresaw_is_a_sentence_with_the_traceback_and_the_server_lives(
    bench: Bench, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.ask(1, Fail(how))
    bench.ask(2, Count("next"))
    bench.finish()
    (_, kind, failure), after = bench.wire.said()
    assert (kind, after) == ("failed", (2, "done", "next"))
    if how == "at once":
        assert failure == Failure("Too long.", "the details")
        return
    assert failure.unforeseen
    assert failure.sentence.startswith("Something unforeseen went wrong: ")
    assert failure.sentence.endswith("(KeyError).")
    assert "\n" not in failure.sentence
    assert "Traceback" in failure.details
    assert "in fail" in failure.details


def test_what_is_not_served_and_what_is_no_record_are_sentences(bench: Bench) -> None:
    bench.ask(1, Unserved())
    bench.server.hear(Message(2, "request", "slot", Urgency.COARSE, Packed("Unheard", b"\xc0")))
    bench.server.hear(Message(3, "request", "slot", Urgency.COARSE, Packed("Count", b"\xc1")))
    bench.finish()
    failures = [failure for _, kind, failure in bench.wire.said() if kind == "failed"]
    assert failures[0] == Failure("Unserved is nothing that can be asked.")
    assert "say no 'Unheard'" in failures[1].sentence
    assert failures[2].sentence.startswith("Count cannot be read")


@pytest.mark.parametrize("how", ["strange part", "strange result"])
def test_what_cannot_be_said_is_a_failure_of_its_own(bench: Bench, how: str) -> None:
    bench.ask(1, Fail(how))
    bench.finish()
    ((_, kind, failure),) = bench.wire.said()
    assert kind == "failed"
    assert failure.sentence == "The window and the engine say no object to one another."
    assert bench.lines == (["closed"] if how == "strange part" else [])


def test_a_result_that_is_too_large_is_a_failure_and_what_it_names_is_forgotten(bench: Bench) -> None:
    bench.wire.too_large = "int"
    bench.ask(1, Keep())
    bench.finish()
    assert bench.wire.said() == [(1, "failed", Failure("That is more than can be sent."))]
    bench.finish()
    assert len(bench.server.handles) == 0


def test_a_job_that_cancels_itself_says_so(bench: Bench) -> None:
    bench.ask(1, Fail("cancelled"))
    bench.finish()
    assert bench.wire.said() == [(1, "failed", Failure("Cancelled."))]


def test_a_panic_of_a_library_is_told_and_the_next_request_served(bench: Bench) -> None:
    bench.ask(1, Fail("panic"))
    bench.ask(2, Count("next"))
    bench.finish()
    (_, kind, failure), done = bench.wire.said("failed", "done")
    assert (kind, failure.sentence) == ("failed", "Something unforeseen went wrong: it gave up (Panic).")
    assert done == (2, "done", "next")


def test_progress_is_said_now_and_then_and_of_long_work_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    bench.ask(1, Count("long", 3), Urgency.PREFILL)
    bench.server.advance()
    assert bench.wire.said("progress") == [(1, "progress", Progress(0, 0, ""))]
    bench.server.advance()
    assert bench.wire.said("progress")[1:] == [(1, "progress", Progress(0, 3, "long"))]  # it has paused
    now += module.REPORT_EVERY
    bench.server.advance()
    now += module.REPORT_EVERY / 2
    bench.finish()
    assert bench.wire.said("progress")[2:] == [(1, "progress", Progress(1, 3, "long"))]


def test_short_work_says_no_more_than_that_it_has_begun_before_it_has_lasted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    bench.ask(1, Count("short", 3), Urgency.POINTER)
    bench.server.advance()
    bench.server.advance()
    assert bench.wire.said("progress") == [BEGUN]
    assert len(bench.wire.messages) == 1
    now += module.REPORT_EVERY
    bench.finish()
    assert bench.wire.said("progress") == [BEGUN, (1, "progress", Progress(1, 3, "short"))]


def test_replies_are_of_the_slot_and_the_urgency_of_their_request(bench: Bench) -> None:
    bench.ask(1, Give(1), Urgency.REFINEMENT)
    bench.finish()
    assert {(one.slot, one.urgency) for one in bench.wire.messages} == {("slot", Urgency.REFINEMENT)}


def test_a_greeting_brings_the_engine_in_where_that_is_wanted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.server.hear(Message(0, "hello", packed=PACKING.pack(Greeting("1"))))
    bench.server.advance()
    assert bench.loaded == []
    bench.server.hear(Message(0, "hello", packed=PACKING.pack(Greeting("1", warm=True))))
    bench.server.advance()
    assert bench.loaded == [True]
    ready = (0, "hello", Greeting("1", warm=True))
    assert bench.wire.said() == [ready]

    def broken() -> Engine:
        raise ImportError("no torch")

    monkeypatch.setattr(bench.server.handles, "load", broken)
    bench.server.hear(Message(0, "hello", packed=PACKING.pack(Greeting("1", warm=True))))
    bench.ask(1, Count("still served"))
    bench.finish()
    assert "no torch" in caplog.text
    assert bench.wire.said() == [ready, ready, (1, "done", "still served")]


# ----------------------------------------------------------------------------------------------------------------------
# What is kept


def test_what_is_released_is_kept_no_longer(bench: Bench) -> None:
    bench.ask(1, Keep())
    bench.finish()
    ((_, _, number),) = bench.wire.said()
    assert len(bench.server.handles) == 1
    bench.release(number)
    bench.finish()
    assert len(bench.server.handles) == 0
    bench.release(number)
    bench.finish()


def test_a_result_that_crossed_a_cancel_is_released(bench: Bench) -> None:
    bench.ask(1, Keep())
    bench.finish()
    bench.cancel(1)
    bench.finish()
    assert len(bench.server.handles) == 0


def test_a_result_is_released_when_the_cancel_comes_in_its_last_slice(bench: Bench) -> None:
    bench.ask(1, Keep())
    bench.server.advance()
    bench.server._queue[0].cancelled = True  # as the reader's thread does in the middle of a slice
    bench.server._advance(bench.server._queue[0])
    bench.finish()
    assert bench.wire.said() == [(1, "done", None)]
    assert len(bench.server.handles) == 0


def test_what_a_job_kept_that_came_to_nothing_is_released(bench: Bench) -> None:
    bench.ask(1, Fail("keeps"))
    bench.ask(2, Keep(pauses=3))
    bench.server.hear()
    for _ in range(5):
        bench.server.advance()
    assert len(bench.server.handles) == 1
    bench.cancel(2)
    bench.finish()
    assert len(bench.server.handles) == 0


def test_what_a_job_keeps_is_its_own_though_another_ends_meanwhile(bench: Bench) -> None:
    bench.ask(1, Keep(pauses=2), Urgency.PREFILL)
    bench.server.advance()
    bench.server.advance()  # it has kept its thing
    bench.ask(2, Count("quick"), Urgency.POINTER)
    bench.server.advance()
    bench.finish()
    bench.cancel(2)
    bench.finish()
    assert len(bench.server.handles) == 1
    bench.cancel(1)
    bench.finish()
    assert len(bench.server.handles) == 0


def test_only_the_last_results_can_be_refused(bench: Bench) -> None:
    for number in range(1, module.CROSSED + 2):
        bench.ask(number, Keep())
    bench.finish()
    bench.cancel(1)
    bench.finish()
    assert len(bench.server.handles) == module.CROSSED + 1
    bench.cancel(2)
    bench.finish()
    assert len(bench.server.handles) == module.CROSSED
