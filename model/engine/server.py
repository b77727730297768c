"""Serves requests: cooperative jobs on one thread, the most urgent first, each ended at its next pause when cancelled.

A request becomes a generator. Each value it yields is a progress point, a cancel point, and a place where a more urgent
one may go first; what it returns is its result. :meth:`Server.hear` may be called on any thread, so that a cancel is
heard while something computes; everything else belongs to the thread that calls :meth:`Server.advance`.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ropewalk.model.engine.frames import Kind, Message
from ropewalk.model.engine.interface import Engine
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.requests import Failure, Greeting
from ropewalk.model.engine.serving import Handles, Serve
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import Cancelled, RopewalkError, unforeseen
from ropewalk.model.progress import Partial, Progress, Steps

log = logging.getLogger(__name__)

CROSSED = 64
"""Results that the other side may still refuse when they have been sent."""
REPORT_EVERY = 0.033
"""Seconds between two reports of how far a job is."""


class Sending(Protocol):
    """Where a server's messages go."""

    def put(self, message: Message) -> None:
        """Send a message, in its turn."""

    def drop(self, number: int) -> None:
        """Send nothing more for the request of this number, but for what has begun."""

    def holds(self, number: int, *kinds: Kind) -> bool:
        """Whether a message of one of these kinds for the request of this number has not been sent yet."""


@dataclass(eq=False)
class Job:
    """One request, how far it is, and the numbers of what it has made."""

    message: Message
    work: Steps[Any] | None = None
    cancelled: bool = False
    is_told: bool = False
    """Whether it has been said that it has begun."""
    reported: float = 0.0
    made: list[int] = field(default_factory=list)

    @property
    def number(self) -> int:
        """The request's."""
        return self.message.id


class Server:
    """Jobs, what they are served by, and what is kept for the other side.

    Parameters
    ----------
    served
        What serves each type of request.
    packing
        The types that pass.
    sending
        Where replies go.
    load
        Brings the engine in.
    """

    def __init__(
        self, served: Mapping[type[Any], Serve], packing: Packing, sending: Sending, load: Callable[[], Engine]
    ) -> None:
        self.handles = Handles(load, self.pulse)
        self._served = served
        self._packing = packing
        self._sending = sending
        self._queue: list[Job] = []
        self._released: list[int] = []
        self._greetings: list[Message] = []
        self._made: dict[int, list[int]] = {}
        self._running: Job | None = None
        self._closing = False
        self._condition = threading.Condition()

    # On any thread ------------------------------------------------------------------------------------------------

    def hear(self, *messages: Message) -> None:
        """Take messages that came together: the most urgent of them is served first."""
        with self._condition:
            for message in messages:
                if message.kind == "request":
                    self._queue.append(Job(message))
                elif message.kind == "cancel":
                    self._cancel(message.id)
                elif message.kind == "release":
                    self._released.append(message.id)
                elif message.kind == "hello":
                    self._greetings.append(message)
            self._condition.notify()

    def close(self) -> None:
        """End every job at its next pause, and let :meth:`wait` return."""
        with self._condition:
            self._closing = True
            self._condition.notify()

    def _cancel(self, number: int) -> None:
        """Let a job be ended, or forget what it has given; the other side hears of its end in any case."""
        self._sending.drop(number)
        mine = [job for job in self._queue if job.number == number]
        for job in mine:
            job.cancelled = True
        if not mine:  # its result is on its way, and nobody takes it
            self._released += self._made.pop(number, ())
            self._sending.put(Message(number, "done"))

    # On the serving thread ----------------------------------------------------------------------------------------

    def wait(self) -> bool:
        """Wait until there is something to do; False when there will be nothing any more."""
        with self._condition:
            self._condition.wait_for(lambda: self._closing or self._released or self._greetings or self._next())
            return not self._closing or bool(self._queue)

    def sent(self) -> None:
        """Hear that something has been sent, so that a job that waited for that may go on."""
        with self._condition:
            self._condition.notify()

    def advance(self) -> bool:
        """Run one slice of the most urgent job; False when there is none that can go on."""
        with self._condition:
            released, self._released = self._released, []
            greetings, self._greetings = self._greetings, []
            job = self._next()
            self._running = job
            ended = job is not None and (job.cancelled or self._closing)
        for number in released:
            self.handles.release(number)
        for message in greetings:
            self._greet(message)
        if job is None:
            return False
        if ended:
            self._end(job, Failure(Cancelled().sentence))
        else:
            self._advance(job)
        job.made += self.handles.made()
        self._running = None
        return True

    def pulse(self, point: Progress) -> None:
        """Say how far work is that cannot pause, and end it when it was cancelled.

        Raises
        ------
        Cancelled
            When nobody waits for the result any more.
        """
        job = self._running
        if job is not None:
            if job.cancelled or self._closing:
                raise Cancelled
            self._report(job, point)

    def _next(self) -> Job | None:
        """The next job: one to be ended, then by urgency, then by age; those with parts still to be sent wait."""
        ready = [j for j in self._queue if j.cancelled or self._closing or not self._waits(j)]
        return min(ready, key=lambda job: (not job.cancelled, job.message.urgency, job.number), default=None)

    def _waits(self, job: Job) -> bool:
        """Whether parts, or at first that it has begun, are still to be sent; how far it is, it may say meanwhile."""
        kinds: tuple[Kind, ...] = ("part",) if job.is_told or job.work is None else ("part", "progress")
        return self._sending.holds(job.number, *kinds)

    def _advance(self, job: Job) -> None:
        try:
            if job.work is None:
                self._begin(job)
                return
            job.is_told = True
            point = next(job.work)
            if isinstance(point, Partial):
                self._send(job, "part", point.reading)
            self._report(job, point)
        except StopIteration as stop:
            self._finish(job, "done", stop.value)
        except RopewalkError as error:
            self._end(job, Failure(error.sentence, error.details, error.offers, confirm=error.confirm))
        except BaseException as error:  # it has to survive whatever a job does, a library's panic too
            log.exception("A request failed in a way nobody foresaw: %s", job.message.packed.type)
            details = "".join(traceback.format_exception(error))
            self._end(job, Failure(unforeseen(error), details, unforeseen=True))

    def _greet(self, message: Message) -> None:
        """Have torch there before anything needs it, where the other side wants that, and say that it is."""
        try:
            greeting = self._packing.unpack(message.packed.type, message.packed.data, message.packed.arrays)
        except RopewalkError:
            log.exception("A greeting could not be understood.")
            return
        if not isinstance(greeting, Greeting) or not greeting.warm:
            return
        try:
            self.handles.load()
        except BaseException:  # what needs it will say so, and the server has to survive
            log.exception("The engine could not be brought in.")
        self._sending.put(Message(0, "hello", packed=self._packing.pack(greeting)))

    def _begin(self, job: Job) -> None:
        """Read the request, and say so; work begins once that is sent, so that it is known what ended the process."""
        packed = job.message.packed
        request = self._packing.unpack(packed.type, packed.data, packed.arrays)
        if type(request) not in self._served:
            raise RopewalkError(f"{packed.type} is nothing that can be asked.")
        job.work = self._served[type(request)](self.handles, request)
        self._send(job, "progress", Progress(0, 0, ""))
        # that what takes long has paused is said at once: until then it may be at a library that never returns
        job.reported = time.monotonic() if job.message.urgency < Urgency.PREFILL else -REPORT_EVERY

    def _report(self, job: Job, point: Progress) -> None:
        now = time.monotonic()
        if now - job.reported >= REPORT_EVERY:
            if job.reported:
                self._send(job, "progress", Progress(point.done, point.total, point.what))
            job.reported = now

    def _finish(self, job: Job, kind: Kind, value: Any) -> None:
        """Give the result; what was made for one that nobody gets is kept no longer."""
        made = job.made + self.handles.made()
        try:
            last = self._message(job, kind, value)
        except RopewalkError as error:  # what cannot be packed is a failure of its own
            last = self._failed(job, error)
        with self._condition:  # a cancel comes before all of this or after it
            if job.cancelled:
                last = Message(job.number, "done")
            try:
                self._sending.put(last)
            except RopewalkError as error:  # it is too large
                last = self._failed(job, error)
                self._sending.put(last)
            if job.cancelled or last.kind == "failed":
                self._released += made
            elif made:
                self._made[job.number] = made
                while len(self._made) > CROSSED:
                    del self._made[next(iter(self._made))]
            self._queue.remove(job)

    def _end(self, job: Job, failure: Failure) -> None:
        """End a job that has no result, and say so."""
        try:
            if job.work is not None:
                job.work.close()
        except BaseException:  # nobody waits for what it does now, and the server has to survive
            log.exception("A request did not end cleanly: %s", job.message.packed.type)
        self._finish(job, "failed", failure)

    def _send(self, job: Job, kind: Kind, value: Any) -> None:
        if not job.cancelled:
            self._sending.put(self._message(job, kind, value))

    def _failed(self, job: Job, error: RopewalkError) -> Message:
        return self._message(job, "failed", Failure(error.sentence, error.details))

    def _message(self, job: Job, kind: Kind, value: Any) -> Message:
        return Message(job.number, kind, job.message.slot, job.message.urgency, self._packing.pack(value))
