"""A server at the end of a real pipe: what it says first, how much without credit, what it hears meanwhile, its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from ropewalk.model.engine.frames import MAGIC, FrameReader, Kind, Message, frames_of
from ropewalk.model.engine.outbox import CREDIT
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.requests import Failure, Greeting, Tidy
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.progress import Progress
from tests.processes import family, python, started, staying

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs descriptors of processes")

PACKING = Packing((Greeting, Failure, Progress, Tidy, str, int, bytes, None))
PART = 1 << 20
ENGINE = f"""
from ropewalk.model.engine.stdio import claim
reading, writing = claim()
import sys
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.pipe import serve_pipe
from ropewalk.model.engine.requests import Failure, Greeting, Tidy
from ropewalk.model.progress import Partial, Progress

made, closed = 0, 0

def give(handles, asked):
    global made, closed
    try:
        for number in range(asked):
            made += 1
            yield Partial(number, asked, "Giving", bytes({PART}))
        return asked
    except GeneratorExit:
        closed += 1
        raise

def tell(handles, asked):
    yield Progress(0, 1, "Telling")
    return 1000 * closed + made

def hang(handles, asked):
    print("hangs", file=sys.stderr, flush=True)
    while True:
        pass
    yield

print("printed meanwhile")
packing = Packing((Greeting, Failure, Progress, Tidy, str, int, bytes, None))
serve_pipe(reading, writing, {{int: give, Tidy: tell, str: hang}}, packing, lambda: None, Greeting("1.2.3", "here"))
"""


class Window:
    """The other end of the pipe."""

    def __init__(self, engine: subprocess.Popen[bytes]) -> None:
        self.engine = engine
        self.frames = FrameReader(magic=True)
        self.heard: list[Message] = []

    def say(self, number: int, kind: Kind, value: Any = None, urgency: Urgency = Urgency.PICTURE) -> None:
        assert self.engine.stdin is not None
        for frame in frames_of(Message(number, kind, "slot", urgency, PACKING.pack(value))):
            self.engine.stdin.write(b"".join(frame))
        self.engine.stdin.flush()

    def next(self, number: int, kind: Kind) -> Any:
        """Read on to a message of a request; what it says."""
        while True:
            for place, message in enumerate(self.heard):
                if (message.id, message.kind) == (number, kind):
                    del self.heard[place]
                    return PACKING.unpack(message.packed.type, message.packed.data, message.packed.arrays)
            assert self.engine.stdout is not None
            data = os.read(self.engine.stdout.fileno(), 1 << 16)
            assert data, "the engine has ended"
            self.heard += self.frames.feed(data)


@pytest.fixture
def window() -> Iterator[Window]:
    with started(python(ENGINE)) as engine:
        yield Window(engine)


def test_it_says_who_it_is_and_nothing_else_stands_between(window: Window) -> None:
    assert window.next(0, "hello") == Greeting("1.2.3", "here")
    assert window.frames.banner == b""
    assert len(MAGIC) == 16
    window.say(1, "request", Tidy())
    assert window.next(1, "done") == 0


def test_without_credit_no_more_is_made_than_may_be_sent_and_a_cancel_is_heard(window: Window) -> None:
    window.say(1, "request", 40, Urgency.REFINEMENT)
    for _ in range(3):
        window.next(1, "part")
    window.say(2, "request", Tidy(), Urgency.POINTER)
    assert window.next(2, "done") in (3, 4)  # the fourth waits for credit, and a fifth is not made before that
    assert window.frames.taken < CREDIT
    window.say(1, "cancel")
    assert window.next(1, "done") is None
    window.say(3, "request", Tidy(), Urgency.POINTER)
    assert window.next(3, "done") in (1003, 1004)
    assert window.frames.taken < CREDIT


def test_with_credit_all_of_it_comes(window: Window) -> None:
    window.say(1, "request", 10, Urgency.REFINEMENT)
    granted = 0
    for _ in range(10):
        assert window.next(1, "part") == bytes(PART)
        window.say(window.frames.taken - granted, "credit")
        granted = window.frames.taken
    assert window.next(1, "done") == 10


def test_what_holds_the_interpreter_ends_with_the_window(window: Window) -> None:
    window.say(1, "request", "for ever", Urgency.POINTER)
    assert window.engine.stderr is not None
    assert window.engine.stderr.readline() == b"printed meanwhile\n"
    assert window.engine.stderr.readline() == b"hangs\n"
    processes = family(window.engine.pid)
    assert window.engine.stdin is not None
    window.engine.stdin.close()
    assert staying(processes) == 0


def test_rubbish_ends_it(window: Window) -> None:
    window.next(0, "hello")
    processes = family(window.engine.pid)
    assert window.engine.stdin is not None
    window.engine.stdin.write(b"rubbish that is long enough to be the head of a frame")
    window.engine.stdin.flush()
    assert staying(processes) == 0
    assert window.engine.wait() == 0


@pytest.mark.parametrize("fails", ["FrameReader.feed", "Outbox.next"])
def test_a_thread_that_fails_unforeseen_takes_the_process_with_it(fails: str) -> None:
    """Else the window would wait for ever."""
    fault = (
        "from ropewalk.model.engine import pipe\n"
        f"def fault(*args): raise KeyError('unforeseen')\npipe.{fails} = fault\n"
    )
    with started(python(ENGINE.replace("\nserve_pipe(", f"\n{fault}serve_pipe("))) as engine:
        assert engine.stdin is not None
        engine.stdin.write(b"anything")
        engine.stdin.flush()
        assert engine.stderr is not None
        said = engine.stderr.read()  # with stdin left open: its end would be another reason to go
        engine.wait()
    assert engine.returncode == 1
    assert b"KeyError: 'unforeseen'" in said
