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
from dataclasses import dataclass
from typing import Any, Protocol

from ropewalk.model.engine.frames import Kind, Message
from ropewalk.model.engine.interface import Engine
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.requests import Failure, Greeting
from ropewalk.model.engine.serving import Handles, Serve
from ropewalk.model.errors import Cancelled, RopewalkError, unforeseen
from ropewalk.model.progress import Partial, Progress, Steps

log = logging.getLogger(__name__)

CROSSED = 64
"""Results that may still be cancelled when they have been sent."""
REPORT_EVERY = 0.033
"""Seconds between two reports of how far a job is."""


class Sending(Protocol):
    """Where a server's messages go."""

    def put(self, message: Message) -> None:
        """Send a message, in its turn."""

    def drop(self, number: int) -> None:
        """Send nothing more for the request of this number, but for what has begun."""

    def holds(self, number: int) -> bool:
        """Whether something for the request of this number has not been sent yet."""


@dataclass(eq=False)
class Job:
    """One request, and how far it is."""

    message: Message
    work: Steps[Any] | None = None
    cancelled: bool = False
    reported: float = 0.0

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
        jobs = [job for job in self._queue if job.number == number]
        for job in jobs:
            job.cancelled = True
        self._sending.drop(number)
        if not jobs:  # its result has crossed the cancel, or was dropped just now: whoever cancelled waits to hear
            self._released += self._made.pop(number, ())
            self._sending.put(Message(number, "done", packed=self._packing.pack(None)))

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
            self._end(job)
        else:
            self._advance(job)
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
        ready = [j for j in self._queue if j.cancelled or self._closing or not self._sending.holds(j.number)]
        return min(ready, key=lambda job: (not job.cancelled, job.message.urgency, job.number), default=None)

    def _advance(self, job: Job) -> None:
        try:
            if job.work is None:
                self._begin(job)
                return
            point = next(job.work)
        except StopIteration as stop:
            self._finish(job, "done", stop.value)
        except Cancelled:
            self._end(job)
        except RopewalkError as error:
            self._finish(job, "failed", Failure(error.sentence, error.details, error.offers))
        except Exception as error:  # the server has to survive whatever a job does
            log.exception("A request failed in a way nobody foresaw: %s", job.message.packed.type)
            details = "".join(traceback.format_exception(error))
            self._finish(job, "failed", Failure(unforeseen(error), details, unforeseen=True))
        else:
            if isinstance(point, Partial):
                self._send(job, "part", point.reading)
            self._report(job, point)

    def _greet(self, message: Message) -> None:
        """Have torch there before anything needs it, where the other side wants that."""
        greeting = self._packing.unpack(message.packed.type, message.packed.data, message.packed.arrays)
        if isinstance(greeting, Greeting) and greeting.warm:
            self.handles.load()

    def _begin(self, job: Job) -> None:
        """Read the request, and say so before it holds everything up or ends the process: then it is known at what."""
        packed = job.message.packed
        request = self._packing.unpack(packed.type, packed.data, packed.arrays)
        if type(request) not in self._served:
            raise RopewalkError(f"A {packed.type} is nothing that can be asked.")
        job.work = self._served[type(request)](self.handles, request)
        self._send(job, "progress", Progress(0, 0, ""))
        job.reported = time.monotonic()
        time.sleep(0)  # for the thread that writes

    def _report(self, job: Job, point: Progress) -> None:
        now = time.monotonic()
        if now - job.reported >= REPORT_EVERY:
            if job.reported:
                self._send(job, "progress", Progress(point.done, point.total, point.what))
            job.reported = now

    def _finish(self, job: Job, kind: Kind, value: Any) -> None:
        try:
            self._send(job, kind, value)
        except RopewalkError as error:  # what cannot be packed is a failure of its own
            self._send(job, "failed", Failure(error.sentence, error.details))
        self._made[job.number] = self.handles.made()
        while len(self._made) > CROSSED:
            del self._made[next(iter(self._made))]
        self._forget(job)

    def _end(self, job: Job) -> None:
        """End a job that nobody waits for, and say that it has ended."""
        try:
            if job.work is not None:
                job.work.close()
        except Exception:  # nobody waits for this job any more, and the server has to survive
            log.exception("A cancelled request did not end cleanly: %s", job.message.packed.type)
        self._send(job, "done", None)
        self._forget(job)

    def _send(self, job: Job, kind: Kind, value: Any) -> None:
        self._sending.put(Message(job.number, kind, job.message.slot, job.message.urgency, self._packing.pack(value)))

    def _forget(self, job: Job) -> None:
        with self._condition:
            self._queue.remove(job)
