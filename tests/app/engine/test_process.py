"""Processes that do not behave, at the other end of a real pipe: what is said of each, and that nothing is left."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from ropewalk import __version__
from ropewalk.app.engine import connection as connecting
from ropewalk.app.engine import process as processing
from ropewalk.app.engine.connection import Ended, Reply
from ropewalk.app.engine.deaths import MOST, REFUSAL, Deaths
from ropewalk.app.engine.process import ProcessConnection
from ropewalk.app.processes import _started, packing
from ropewalk.model.child_process import MARK
from ropewalk.model.engine.frames import MAGIC, Kind, Message, frames_of
from ropewalk.model.engine.packing import Packed
from ropewalk.model.engine.questions import AskRow
from ropewalk.model.engine.requests import AnswerQuestion, Failure, Greeting, OpenModel, RunInView, Tidy
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.progress import Progress

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform == "win32", reason="processes are ended by signals"),
]

SPEAKS = "import os, sys; os.write(1, open(sys.argv[1], 'rb').read()); {then}"
WAITS = "os.read(0, 1 << 20); os.read(0, 1)"
"""Hears what is asked, and waits for the end."""
DEAF = "[os.read(0, 1 << 16) for _ in iter(int, 1)]"
"""Hears everything and acts on nothing, not even on the end."""

Talk = Callable[..., ProcessConnection]


def said(kind: Kind, value: Any, number: int = 0, packed: Packed | None = None) -> bytes:
    """One message of an engine, as it comes."""
    message = Message(number, kind, packed=packed or packing().pack(value))
    return b"".join(bytes(part) for frame in frames_of(message) for part in frame)


HELLO = MAGIC + said("hello", Greeting(__version__, "afar"))


@pytest.fixture
def talk(qtbot: QtBot, tmp_path: Path) -> Iterator[Talk]:
    """Start a program that says these bytes and then does something; ended at the end."""
    around = QObject()
    started: list[ProcessConnection] = []

    def start(says: bytes = HELLO, then: str = WAITS, command: Sequence[str] = ()) -> ProcessConnection:
        words = tmp_path / f"said {len(started)}"
        words.write_bytes(says)
        own = [sys.executable, "-S", "-E", "-c", SPEAKS.format(then=then), str(words)]
        made = ProcessConnection(command or own, packing(), parent=around)
        started.append(made)
        return made

    yield start
    for made in started:
        made.close()
    for made in started:
        made.kill()
        made.wait()
    around.deleteLater()


STOPPED = "Reading the text took long, and was stopped."


class Asked:
    """A request, and what came of it."""

    def __init__(self, connection: ProcessConnection, urgency: Urgency = Urgency.PREFILL, request: Any = None) -> None:
        self.values: list[Any] = []
        self.number = connection.call(Tidy() if request is None else request, "slot", urgency, self._hear)

    def _hear(self, reply: Reply) -> None:
        self.values.append(reply.value())

    @property
    def failure(self) -> Failure:
        (value,) = self.values
        assert isinstance(value, Failure)
        return value


def end_of(qtbot: QtBot, connection: ProcessConnection) -> Failure:
    """How a process ended, which whoever waits hears too."""
    asked = Asked(connection)
    qtbot.waitUntil(lambda: bool(asked.values), timeout=30_000)
    later = Asked(connection)
    qtbot.waitUntil(lambda: bool(later.values), timeout=30_000)
    assert connection.gone is asked.failure is later.failure
    qtbot.waitUntil(lambda: not connection.is_running, timeout=30_000)
    return asked.failure


@pytest.mark.parametrize(
    "rubbish",
    [b"rubbish" * 9, HELLO[len(MAGIC) :][:20] + b"\xff" * 99, said("hello", None, packed=Packed("Nothing", b"\xc0"))],
    ids=["no frame", "a damaged frame", "an unknown type"],
)
def test_what_cannot_be_understood_ends_a_process(qtbot: QtBot, talk: Talk, rubbish: bytes) -> None:
    failure = end_of(qtbot, talk(MAGIC + rubbish, DEAF))
    assert failure.sentence == (
        "The engine said something that cannot be understood, so it was ended; start it again to go on."
    )
    assert failure.details


def test_a_reply_that_cannot_be_understood_ends_a_process(qtbot: QtBot, talk: Talk) -> None:
    connection = talk(
        HELLO, f"os.read(0, 1 << 20); os.write(1, {said('done', None, 1, Packed('int', b'xx'))!r}); {DEAF}"
    )
    assert "cannot be understood" in end_of(qtbot, connection).sentence


def test_half_a_frame_and_an_end(qtbot: QtBot, talk: Talk) -> None:
    failure = end_of(qtbot, talk(HELLO + HELLO[len(MAGIC) :][:30], "sys.exit('no more room')"))
    assert failure.sentence == (
        "The engine has ended (exit status 1); what is on screen stays, "
        "and nothing is computed until it is started again."
    )
    assert failure.details == "no more room"
    assert isinstance(failure, Ended)
    assert failure.had_begun


@pytest.mark.parametrize(
    ("end", "name", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", "As a rule SIGKILL means that memory ran out: "),
        ("os._exit(128 + signal.SIGBUS)", "SIGBUS", "As a rule SIGBUS means that a file was cut short or replaced "),
        ("os.kill(os.getpid(), signal.SIGFPE)", "SIGFPE", "As a rule this is a fault of a library: "),
    ],
    ids=["a signal", "a shell's child", "another signal"],
)
def test_an_end_by_a_signal_is_named_and_explained(qtbot: QtBot, talk: Talk, end: str, name: str, why: str) -> None:
    failure = end_of(qtbot, talk(HELLO, f"import signal; {end}"))
    assert failure.sentence.startswith(
        f"The engine has ended ({name}); what is on screen stays, and nothing is computed until it is started again. "
        f"{why}"
    )
    assert failure.sentence.endswith(".")


def test_one_that_ends_before_it_has_begun_says_why(qtbot: QtBot, talk: Talk) -> None:
    failure = end_of(qtbot, talk(b"Welcome!\n", "sys.exit('ropewalk: not found')"))
    assert failure.sentence == (
        "The engine ended before it had begun (exit status 1: ropewalk: not found); start it again."
    )
    assert failure.details == "Welcome!\nropewalk: not found"
    assert isinstance(failure, Ended)
    assert not failure.had_begun


def test_a_command_that_is_not_there(qtbot: QtBot, talk: Talk) -> None:
    failure = end_of(qtbot, talk(command=["/no/such/ssh", "gpu 1"]))
    assert failure.sentence == "The engine could not be started: No such file or directory; start it again."


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("nosuch engine", "There is no program 'nosuch' here; check the command."),
        ("'unclosed", "A quotation mark in the command is not closed."),
        (f"{ROOT / 'tests'} engine", "could not be started: Permission denied; check the command."),
    ],
)
def test_a_typed_command_that_cannot_be_started(qtbot: QtBot, typed: str, sentence: str) -> None:
    around = QObject()
    connection = _started(around, typed, warm=False)
    qtbot.waitUntil(lambda: connection.gone is not None, timeout=30_000)
    assert connection.gone is not None
    assert connection.gone.sentence.endswith(sentence)
    assert "execve" in connection.gone.details  # what Qt says is folded under it


@pytest.mark.parametrize("says", [b"", b"a banner that is no greeting", MAGIC])
def test_one_that_never_says_that_it_is_there(
    qtbot: QtBot, talk: Talk, monkeypatch: pytest.MonkeyPatch, says: bytes
) -> None:
    monkeypatch.setattr(processing, "GREETING_MS", 200)
    failure = end_of(qtbot, talk(says, DEAF))
    assert "did not answer for 0 seconds; start it again." in failure.sentence
    assert failure.details == ("" if says == MAGIC else says.decode())


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_endless_output_is_not_kept(qtbot: QtBot, talk: Talk, monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    monkeypatch.setattr(processing, "GREETING_MS", 300 if stream else 600_000)
    failure = end_of(qtbot, talk(command=["sh", "-c", f"exec yes 'Usage: yes'{stream}"]))
    assert 0 < len(failure.details) <= 2 * processing.DETAILS
    if not stream:
        assert failure.sentence == "The engine prints 'Usage: yes' and so on, as no engine does; start it again."


def test_what_a_shell_says_first_is_kept_apart(qtbot: QtBot, talk: Talk) -> None:
    one = talk(said("hello", Greeting(__version__, "afar")))
    words = shlex.join(one.command)
    shell = talk(command=["sh", "-c", f"echo 'Last login: today'; printf '%b' '{escaped(MAGIC)}'; exec {words}"])
    qtbot.waitUntil(lambda: shell.host == "afar", timeout=30_000)
    assert shell.details == "Last login: today"
    assert shell.gone is None


def escaped(data: bytes) -> str:
    """Bytes for ``printf %b``."""
    return "".join(f"\\0{byte:03o}" for byte in data)


def test_another_version_is_a_sentence(qtbot: QtBot, talk: Talk) -> None:
    failure = end_of(qtbot, talk(MAGIC + said("hello", Greeting("0.0.1", "afar"))))
    assert failure.sentence == (
        f"The engine on afar is Ropewalk 0.0.1, but this window is {__version__}; install the same version on both "
        "machines."
    )


# Cancels --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a cancel be heard soon or never."""
    monkeypatch.setattr(connecting, "PATIENCE_MS", 80)


def test_a_cancel_that_is_not_heard_is_told_once(qtbot: QtBot, talk: Talk, impatient: None) -> None:
    connection = talk(HELLO, DEAF)
    told: list[str] = []
    connection.unheard.connect(lambda: told.append("unheard"))
    asked = Asked(connection)
    with qtbot.waitSignal(connection.unheard, timeout=30_000):
        connection.cancel(asked.number)
    with qtbot.waitSignal(connection.ended, timeout=30_000):
        connection.kill()
    assert told == ["unheard"]
    assert asked.values == []
    assert connection.deaths.refusal(Tidy()) is None


def test_a_cancel_that_is_heard_late_is_told_too(qtbot: QtBot, talk: Talk, impatient: None) -> None:
    hears = "heard = b''\nwhile b'late' not in heard: heard += os.read(0, 1 << 20)"
    connection = talk(HELLO, f"\n{hears}\nos.write(1, {said('done', None, 1)!r})\n{WAITS}")
    asked = Asked(connection)
    with qtbot.waitSignal(connection.unheard, timeout=30_000):
        connection.cancel(asked.number)
    with qtbot.waitSignal(connection.heard, timeout=30_000):
        connection.call(Tidy(), "late", Urgency.PREFILL, lambda reply: None)
    assert asked.values == []


def test_cancels_that_are_heard_one_after_the_other_are_heard(qtbot: QtBot, talk: Talk) -> None:
    """One is always on its way, as while somebody drags a selection, and none for long."""
    connection = talk(HELLO, DEAF)
    told: list[str] = []
    connection.unheard.connect(lambda: told.append("unheard"))
    numbers = [Asked(connection).number for _ in range(12)]
    for number, after in pairwise(numbers):
        connection.cancel(number)
        connection._patience.timeout.emit()
        connection.cancel(after)
        connection.arrived(Message(number, "done", packed=packing().pack(None)))
    assert told == []
    for _ in range(connecting.TICKS + 1):
        connection._patience.timeout.emit()
    assert told == ["unheard"]


def test_what_is_not_sent_is_cancelled_without_a_word(qtbot: QtBot, talk: Talk) -> None:
    connection = talk(HELLO, DEAF)
    for _ in range(MOST):
        connection.deaths.note([Tidy()])
    asked = Asked(connection)
    connection.cancel(asked.number)
    assert not connection._patience.isActive()
    refused = Asked(connection)
    qtbot.waitUntil(lambda: bool(refused.values), timeout=30_000)
    assert refused.failure is REFUSAL


# Deaths ---------------------------------------------------------------------------------------------------------------


def test_a_request_that_has_ended_two_in_a_row_is_not_sent_again(qtbot: QtBot, talk: Talk) -> None:
    deaths = Deaths()
    view = RunInView(7, 12)
    deadly, other = AnswerQuestion(view, AskRow(0, 1, 2)), AnswerQuestion(view, AskRow(0, 1, 3))

    def die(number: int, *, after: bytes = b"") -> None:
        connection = talk(HELLO + after, "os.read(0, 1 << 20); os._exit(1)")
        connection.deaths = deaths
        Asked(connection, Urgency.THUMBNAILS, other)
        again = replace(deadly, run=replace(view, number=number))
        Asked(connection, Urgency.PICTURE, again)
        qtbot.waitUntil(lambda: connection.gone is not None, timeout=30_000)

    die(7)
    assert deaths.refusal(deadly) is None
    die(3)
    assert deaths.refusal(deadly) is REFUSAL
    assert deaths.refusal(other) is None  # it only waited, as the less urgent
    assert deaths.refusal(AnswerQuestion(RunInView(7, 13), deadly.question)) is None
    deaths.survived(other)
    die(4, after=said("progress", Progress(0, 1, ""), 1))  # now the process says that it has begun with the other
    die(5, after=said("progress", Progress(0, 1, ""), 1))
    assert deaths.refusal(other) is REFUSAL
    deaths.forget()
    assert deaths.refusal(deadly) is None


def test_one_that_lives_in_between_counts_from_the_start(qtbot: QtBot) -> None:
    deaths = Deaths()
    opening = OpenModel("a", "cpu", "float32", {"layers": 2})
    deaths.note([opening])
    deaths.survived(opening)
    deaths.note([opening])
    assert deaths.refusal(opening) is None
    deaths.note([])  # another death, at nothing
    deaths.note([opening])
    assert deaths.refusal(opening) is None
    deaths.note([opening])
    assert deaths.refusal(opening) is REFUSAL


def test_a_death_before_the_greeting_is_no_requests_fault(qtbot: QtBot, talk: Talk) -> None:
    deaths = Deaths()
    for _ in range(MOST):
        connection = talk(b"", "sys.exit(1)")
        connection.deaths = deaths
        end_of(qtbot, connection)
    assert deaths.refusal(Tidy()) is None


def test_a_process_that_was_ended_at_a_limit_says_at_which(talk: Talk, qtbot: QtBot) -> None:
    for status, last, expected in (
        (1, STOPPED, Ended(STOPPED, at_limit=True)),
        (0, STOPPED, None),
        (1, "", None),
    ):
        said = f"noise\n{MARK + last if last else 'Traceback'}\n"
        connection = talk(then=f"os.write(2, {said!r}.encode()); os._exit({status})")
        with qtbot.waitSignal(connection.ended) as signal:
            pass
        assert signal.args is not None
        found = signal.args[0]
        assert found.at_limit == (expected is not None)
        assert (found.sentence == STOPPED) == (expected is not None)
