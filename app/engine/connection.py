"""Requests to a process, what comes back, and handles of what is kept there.

Signals of Qt's own loop bring everything, so no thread of Python's is needed. How messages get to the other side is for
the subclasses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from PySide6.QtCore import QObject, QTimer, Signal
from shiboken6 import isValid

from ropewalk import __version__
from ropewalk.app.engine.deaths import Deaths
from ropewalk.model.engine.frames import Kind, Message
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.requests import Failure, Greeting, RunPrompt
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import RopewalkError

T = TypeVar("T")

PATIENCE_MS = 2000
"""How long a process has to hear a cancel."""
TICKS = 4
"""That is looked at so often meanwhile: a window that was itself held up for long has not listened for long."""
HURRY_MS = 600
"""How long a process has in which nothing is lost when it is ended."""
STUCK_TICKS = 1
"""After which a process is taken to read what it will never have read, where it has not paused once."""
STUCK = (
    "The engine did not hear that it was cancelled while it read the prompt with the tokenizer of this checkpoint, "
    "which may be made to hold it up."
)


@dataclass(frozen=True)
class Ended(Failure):
    """There is no result because the process that was to give it has ended.

    Attributes
    ----------
    reason
        How, in a word or two; empty where the sentence says all there is to say.
    had_begun
        Whether it had said that it is there; else nothing that was asked of it is at fault.
    at_limit
        Whether what it read took more time or memory than that may (``model.limits``), which the sentence says.
    """

    reason: str = ""
    had_begun: bool = True
    at_limit: bool = False


class CallFailed(RopewalkError):
    """A call that has no result, as whoever waits for it hears of that."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence, failure.details)
        self.failure = failure


@dataclass(frozen=True, eq=False)
class Call:
    """A request and where it goes: what a job yields, to be sent the result."""

    connection: Connection
    request: Any


Calls: TypeAlias = Generator[Call, Any, T]
"""A job of the window: it yields calls, is sent their results, and returns its own."""


Connect: TypeAlias = Callable[[QObject], "Connection"]
"""Starts a process, as the child of a Qt object."""

ConnectBy: TypeAlias = Callable[[QObject, str], "Connection"]
"""Starts an engine's process, as the child of a Qt object, by a command; an empty one is this machine's own."""


class Reply:
    """Something that came back for what was ``asked``: read, or refused, once."""

    def __init__(self, connection: Connection, message: Message, asked: Any = None) -> None:
        self._connection = connection
        self._message = message
        self._asked = asked
        self.kind: Kind = message.kind

    def value(self) -> Any:
        """What it says, or a :class:`Failure` where there is no result."""
        self._connection.acknowledge(self._message)
        try:
            return self._connection.packing.unpack_reply(self._message.packed, self._asked, self.kind)
        except RopewalkError as error:
            return self._connection.distrust(error)

    def refuse(self) -> None:
        """Let it be unread; what the other side keeps for whoever reads it is forgotten there."""
        self._connection.refuse(self._message)


class NoReply(Reply):
    """Stands for the reply of a process that has ended, or that is not asked."""

    def __init__(self, failure: Failure) -> None:
        self.kind = "failed"
        self._failure = failure

    def value(self) -> Any:
        """Why there is no result."""
        return self._failure

    def refuse(self) -> None:
        """Nothing is kept for it."""


@dataclass(eq=False)
class Waiting:
    """A request without a result so far; ``sent`` to the process, which has ``begun`` with it, and ``paused`` since."""

    request: Any
    urgency: Urgency
    heard: Callable[[Reply], None]
    sent: bool
    begun: bool = False
    paused: bool = False

    @property
    def reads(self) -> bool:
        """Whether the process may be at what a stranger has made to hold it up: the first that it does for a run."""
        return self.begun and not self.paused and isinstance(self.request, RunPrompt)


class Handle:
    """Something that a process keeps for the window, by its number, for as long as this object lives."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        connection.kept += 1

    def call(self, request: Any) -> Call:
        """Ask the process that keeps it."""
        return self.connection.asking(request)

    def __del__(self) -> None:
        """Let the process forget it."""
        self.connection.release(self.number)


class Connection(QObject):
    """The way to one process.

    Signals
    -------
    ended(ended)
        The process is gone without having been told to go; an :class:`Ended`.
    unheard()
        A request goes on although it was cancelled two seconds ago.
    heard()
        It has ended at last.

    Attributes
    ----------
    gone
        Why nothing can be asked any more: an :class:`Ended`, else None.
    kept
        How many things the process keeps for the window.
    host
        What the machine is called on which it runs; empty until it has said so.
    deaths
        What is not asked, since it has ended others.
    """

    ended = Signal(object)
    unheard = Signal()
    heard = Signal()

    def __init__(self, packing: Packing, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.packing = packing
        self.version = __version__
        self.gone: Ended | None = None
        self.kept = 0
        self._numbers = itertools.count(1)
        self.deaths = Deaths()
        self._greeted = False
        self._is_loading = False
        """Whether torch is being imported over there, during which nothing can be heard."""
        self._waiting: dict[int, Waiting] = {}
        self._stuck: set[int] = set()
        """What was cancelled while the process read it."""
        self._cancelled: dict[int, int] = {}
        """What was cancelled and goes on, and for how many ticks."""
        self._patience = QTimer(self)
        self._patience.setInterval(PATIENCE_MS // TICKS)
        self._patience.timeout.connect(self._on_patience)
        self._retired = False
        self.host = ""

    # For those who ask --------------------------------------------------------------------------------------------

    def asking(self, request: Any) -> Call:
        """What a job yields to ask this process."""
        return Call(self, request)

    def call(self, request: Any, slot: str, urgency: Urgency, heard: Callable[[Reply], None]) -> int:
        """Send a request; ``heard`` is called with every reply, in a later turn. Returns the request's number."""
        number = next(self._numbers)
        failure = self.gone or self.deaths.refusal(request)
        self._waiting[number] = Waiting(request, urgency, heard, failure is None)
        if failure is None:
            try:
                self._send("request", number, request, slot, urgency)
            except RopewalkError as error:  # it cannot be said, or is too large
                self._waiting[number].sent = False
                failure = Failure(error.sentence, error.details, error.offers)
        if failure is not None:
            QTimer.singleShot(0, partial(self._tell, number, failure))
        return number

    def cancel(self, number: int) -> None:
        """Wait no longer for replies, and have the request ended at its next pause."""
        waiting = self._waiting.pop(number, None)
        if waiting is None or not waiting.sent or self.gone is not None:
            return
        self._cancelled[number] = 0
        if waiting.reads:
            self._stuck.add(number)
        if not self._patience.isActive():
            self._patience.start()
        self._send("cancel", number)

    def refuse(self, message: Message) -> None:
        """Leave a reply unread."""
        self.acknowledge(message)
        if message.kind == "done" and self.gone is None:
            self._send("cancel", message.id)

    def keep(self, number: int) -> Handle:
        """A handle of something that the process keeps by this number."""
        return Handle(self, number)

    def release(self, number: int) -> None:
        """Let the process forget what has this number."""
        self.kept -= 1
        if self.gone is None:
            self._send("release", number)
        self.go_if_unused()

    def hurry(self, *, little: bool) -> None:
        """Say whether little is lost when the process is ended, so that it has less time to hear a cancel."""
        self._patience.setInterval((HURRY_MS if little else PATIENCE_MS) // TICKS)

    def retire(self) -> None:
        """Let the process go as soon as it keeps nothing for the window, and nobody waits for it."""
        self._retired = True
        self.go_if_unused()

    def close(self) -> None:
        """End the process, which is no news; whoever still waits for an answer hears that there will be none."""
        if self.gone is None:
            self._leave(Ended("The engine that was asked has been ended; try again."))
            self._tell_all()

    def kill(self) -> None:
        """End the process at once, in the middle of whatever it does; those who wait hear that it ended."""
        raise NotImplementedError

    # For subclasses -----------------------------------------------------------------------------------------------

    def write(self, message: Message) -> None:
        """Send a message."""
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        """Whether there is a process at the other end."""
        raise NotImplementedError

    def _stop(self) -> None:
        """Let the process end by itself, and see to it that it does."""
        raise NotImplementedError

    def wait(self) -> None:
        """Wait for the end of a process that was told to end."""
        raise NotImplementedError

    def acknowledge(self, message: Message) -> None:
        """Let the other side send as much more as this message took."""

    def arrived(self, message: Message) -> None:
        """Take a message of the other side."""
        if message.kind == "hello":
            self._on_greeting(Reply(self, message).value())
            return
        if message.kind in ("progress", "part"):
            waiting = self._waiting.get(message.id)
        elif message.kind in ("done", "failed"):
            waiting = self._waiting.pop(message.id, None)
            self._on_ended(message.id, waiting)
        else:
            self.distrust(RopewalkError(f"A {message.kind} is nothing that an engine says."))
            return
        if waiting is None:
            self._stuck.discard(message.id)
            self.acknowledge(message)
        else:
            waiting.begun, waiting.paused = True, waiting.begun
            waiting.heard(Reply(self, message, waiting.request))
        self.go_if_unused()

    def distrust(self, error: RopewalkError) -> Ended:
        """End a process that said what cannot be understood."""
        ended = Ended(
            "The engine said something that cannot be understood, so it was ended; start it again to go on.",
            f"{error.sentence}\n{error.details}".strip(),
            reason="it said something that cannot be understood",
        )
        self.lose(ended)
        self.kill()
        return ended

    def lose(self, ended: Ended) -> None:
        """Have no other side any more: whoever waits hears why."""
        if self.gone is not None:
            return
        if self._greeted and not self._cancelled:  # else it is no request's fault, or was ended for not hearing
            self.deaths.note(self._suspects())
        self._leave(ended)
        self.ended.emit(ended)
        self._tell_all()

    # How it works -------------------------------------------------------------------------------------------------

    def _send(
        self, kind: Kind, number: int, value: Any = None, slot: str = "", urgency: Urgency = Urgency.PICTURE
    ) -> None:
        packed = self.packing.pack(value)
        self.write(Message(number, kind, slot, urgency, packed))

    def _on_greeting(self, greeting: Any) -> None:
        """Hear who is there; another version does not understand what this one says."""
        if not isinstance(greeting, Greeting):
            return
        if greeting.warm:
            self._is_loading = False
            return
        self.host = greeting.host
        if greeting.version != self.version:
            where = f" on {greeting.host}" if greeting.host else ""
            self.lose(
                Ended(
                    f"The engine{where} is Ropewalk {greeting.version}, but this window is {self.version}; install the "
                    "same version on both machines."
                )
            )
        self._greeted = True

    def greet(self, *, warm: bool) -> None:
        """Say who is here, and whether torch is to be there before anything needs it."""
        self._is_loading = warm
        self._send("hello", 0, Greeting(self.version, warm=warm))

    def _leave(self, ended: Ended) -> None:
        """Ask nothing any more, and let the process end."""
        self.gone = ended
        self._patience.stop()
        self._cancelled.clear()
        self._stop()

    def _tell_all(self) -> None:
        """Let everybody who waits hear why nothing comes any more."""
        assert self.gone is not None
        for number in tuple(self._waiting):
            self._tell(number, self.gone)

    def _tell(self, number: int, failure: Failure) -> None:
        """Let whoever waits for a request hear why it has no result."""
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting.heard(NoReply(failure))

    def _suspects(self) -> list[Any]:
        """What the process may have been at: what it had begun with, else the most urgent."""
        waiting = sorted((one for one in self._waiting.values() if one.sent), key=lambda one: one.urgency)
        begun = [one for one in waiting if one.begun]
        return [one.request for one in begun or waiting[:1]]

    def _on_ended(self, number: int, waiting: Waiting | None) -> None:
        """Hear that the process is done with a request, one that was cancelled or another."""
        if waiting is not None:
            self.deaths.survived(waiting.request)
        if self._cancelled.pop(number, None) is not None and not self._cancelled:
            self._patience.stop()
            self.heard.emit()

    def _on_patience(self) -> None:
        if self._is_loading:
            return
        self._cancelled = {number: ticks + 1 for number, ticks in self._cancelled.items()}
        if any(self._cancelled.get(number, 0) > STUCK_TICKS for number in self._stuck):
            self.lose(Ended(STUCK, at_limit=True))
            self.kill()
        elif TICKS + 1 in self._cancelled.values():
            self.unheard.emit()

    def go_if_unused(self) -> None:
        """Let a retired process go, and this object after it."""
        if self._retired and self.kept <= 0 and not self._waiting:
            self.close()
            if isValid(self) and not self.is_running:
                self.deleteLater()
