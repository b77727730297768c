"""Jobs of the window: one for each slot, the newest wanted; they ask processes, and what comes back is heard in turn.

A job is a generator on the window's own thread. It yields calls to a process and is sent their results; what it returns
is its result. Whatever arrives is handed over one in each turn of the event loop, so that what it draws is painted
between, and nothing that is no longer wanted is even read.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from ropewalk.app.engine.connection import Call, CallFailed, Calls, Connection, Reply
from ropewalk.model.engine.requests import Failure
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import RopewalkError, unforeseen
from ropewalk.model.progress import Progress

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobProgress:
    """What the status line shows of a job that takes longer than a moment. ``total`` is 0 where it is not known."""

    what: str
    done: int
    total: int
    cancellable: bool


@dataclass(eq=False)
class Job:
    """One request of the window, and how far it is."""

    slot: str
    urgency: Urgency
    work: Calls[Any]
    on_done: Callable[[Any], None]
    on_failed: Callable[[Failure], None]
    what: str
    cancellable: bool
    on_part: Callable[[Any], None] | None = None
    connection: Connection | None = None
    number: int = 0
    point: Progress | None = None
    advancing: bool = False
    began: float = field(default_factory=time.monotonic)

    def progress(self) -> JobProgress:
        """Where the job stands."""
        if self.point is None:
            return JobProgress(self.what, 0, 0, self.cancellable)
        return JobProgress(self.point.what or self.what, self.point.done, self.point.total, self.cancellable)


@dataclass(frozen=True, eq=False)
class Arrival:
    """Something that a job is to hear in its turn; what nobody wants any more is refused unread."""

    job: Job
    hand_over: Callable[[], None]
    refuse: Callable[[], None] = lambda: None


class Jobs(QObject):
    """The jobs under way.

    Signals
    -------
    progress_changed(progress)
        A :class:`JobProgress` for a job that has been running for longer than ``show_after`` seconds, None when no
        such job is left.
    settled()
        The last job has been delivered, dropped or cancelled.
    """

    progress_changed = Signal(object)
    settled = Signal()

    def __init__(self, parent: QObject | None = None, show_after: float = 0.2) -> None:
        super().__init__(parent)
        self.show_after = show_after
        self._alive: dict[str, Job] = {}
        self._shown: Job | None = None
        self._closed = False
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(round(show_after * 1000))
        self._patience.timeout.connect(self._on_patience)
        self._arrived: deque[Arrival] = deque()
        """Results and parts that wait for their turn, oldest first."""
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.setInterval(0)
        self._turn.timeout.connect(self._on_turn)

    @property
    def busy(self) -> bool:
        """Whether any result is still to come."""
        return bool(self._alive)

    def has(self, slot: str) -> bool:
        """Whether a result of this slot is still to come."""
        return slot in self._alive

    def submit(
        self,
        slot: str,
        urgency: Urgency,
        work: Calls[Any],
        on_done: Callable[[Any], None],
        on_failed: Callable[[Failure], None],
        *,
        what: str = "",
        cancellable: bool = True,
        on_part: Callable[[Any], None] | None = None,
    ) -> None:
        """Begin a job; an older one of the same slot is dropped.

        Parameters
        ----------
        slot
            What kind of request this is; only the newest of a kind is wanted.
        work
            A generator that has not been started; it yields calls and is sent their results.
        on_done, on_failed
            Called in a later turn of the event loop, unless the job is replaced or cancelled before.
        what
            What the progress says until the job says better.
        cancellable
            Whether the person is offered to cancel it.
        on_part
            Called with the reading of every :class:`~model.progress.Partial` of its calls.
        """
        if self._closed:
            return
        while self._drop(slot):
            pass  # whoever heard of that may have begun another
        job = Job(slot, urgency, work, on_done, on_failed, what, cancellable, on_part)
        self._alive[slot] = job
        end = self._advance(job, partial(next, work))
        if end is not None:
            self._queue_turn(Arrival(job, end))
        self._wait_to_show()

    def cancel(self, slot: str) -> None:
        """Drop a job: its result will not be delivered, and whoever works on it is asked to end at its next pause."""
        if self._drop(slot):
            self._settle()

    def cancel_shown(self) -> None:
        """Cancel the job whose progress is shown."""
        if self._shown is not None and self._shown.cancellable:
            self.cancel(self._shown.slot)

    def cancel_all(self) -> None:
        """Cancel every job."""
        had = [self._drop(slot) for slot in list(self._alive)]
        if had:
            self._settle()

    def close(self) -> None:
        """Cancel everything; nothing is delivered afterwards."""
        self._closed = True
        self._patience.stop()
        self._turn.stop()
        for slot in list(self._alive):
            self._drop(slot)
        for arrival in self._arrived:
            arrival.refuse()
        self._arrived.clear()

    # How it works -------------------------------------------------------------------------------------------------

    def _advance(self, job: Job, go: Callable[[], Call]) -> Callable[[], None] | None:
        """Let a job go on to its next call; returns what hands its end over, where it comes to that."""
        job.advancing = True
        try:
            call = go()
        except StopIteration as stop:
            return partial(self._end, job, job.on_done, stop.value)
        except CallFailed as error:
            failure = during(job.what, error.failure) if error.failure.unforeseen else error.failure
        except RopewalkError as error:
            failure = Failure(error.sentence, error.details, error.offers, confirm=error.confirm)
        except BaseException as error:  # whoever waits is owed a sentence, whatever happened
            log.exception("A job failed in a way nobody foresaw: %s", job.what or job.slot)
            failure = unexpected(job.what, error)
        else:
            if self._is_alive(job):
                job.connection = call.connection
                job.number = call.connection.call(call.request, job.slot, job.urgency, partial(self._on_reply, job))
            else:
                close(job)  # what it did has dropped it
            return None
        finally:
            job.advancing = False
        return partial(self._end, job, job.on_failed, failure)

    def _end(self, job: Job, answer: Callable[[Any], None], value: Any) -> None:
        if not self._is_alive(job):
            return
        del self._alive[job.slot]
        self._hide(job)
        try:
            answer(value)
        finally:
            if self._alive:
                self._wait_to_show()
            self._settle()

    def _drop(self, slot: str) -> bool:
        """Disconnect a job first, then have it ended."""
        job = self._alive.pop(slot, None)
        if job is None:
            return False
        if job.connection is not None:
            job.connection.cancel(job.number)
        if not job.advancing:
            close(job)
        self._hide(job)
        return True

    def _settle(self) -> None:
        if not self._alive:
            self._patience.stop()
            self.settled.emit()

    def _hide(self, job: Job) -> None:
        if self._shown is job:
            self._shown = None
            self.progress_changed.emit(None)

    def _wait_to_show(self) -> None:
        if not self._patience.isActive():
            self._patience.start()

    def _on_patience(self) -> None:
        """Show a job that has been under way for long: one that is known to be worked on, else the most urgent."""
        long = [job for job in self._alive.values() if self._is_long(job)]
        if long and self._shown is None:
            self._show(min(long, key=lambda job: (job.point is None, job.urgency)))
        if self._alive:
            self._wait_to_show()

    def _is_long(self, job: Job) -> bool:
        return time.monotonic() - job.began >= self.show_after

    def _show(self, job: Job) -> None:
        self._shown = job
        self.progress_changed.emit(job.progress())

    def _is_alive(self, job: Job) -> bool:
        return self._alive.get(job.slot) is job

    def _on_reply(self, job: Job, reply: Reply) -> None:
        """Take what a process says of a job; all but progress waits for its turn."""
        if reply.kind != "progress":
            self._queue_turn(Arrival(job, partial(self._hear, job, reply), reply.refuse))
            return
        point = reply.value()
        if self._is_alive(job) and isinstance(point, Progress):
            job.point = point
            if self._is_long(job):
                self._show(job)

    def _queue_turn(self, arrival: Arrival) -> None:
        """Let what arrives together be heard in one turn of the event loop each: what it draws is painted between."""
        self._arrived.append(arrival)
        if not self._turn.isActive():
            self._turn.start()

    def _on_turn(self) -> None:
        """Hand over the oldest arrival that is still wanted."""
        while self._arrived:
            arrival = self._arrived.popleft()
            if self._arrived:
                self._turn.start()  # before: what is heard may run an event loop of its own
            if self._is_alive(arrival.job):
                arrival.hand_over()
                return
            arrival.refuse()

    def _hear(self, job: Job, reply: Reply) -> None:
        """Let a job go on with what came for it."""
        value = reply.value()
        end: Callable[[], None] | None = None
        if reply.kind == "part":
            if job.on_part is not None and not isinstance(value, Failure):  # of a failure the job hears by itself
                job.on_part(value)
        elif isinstance(value, Failure):
            end = self._advance(job, partial(_fail, job.work, value))
        else:
            end = self._advance(job, partial(job.work.send, value))
        if end is not None:
            end()


def close(job: Job) -> None:
    """End the generator of a job that nobody waits for any more."""
    try:
        job.work.close()
    except BaseException:  # whoever dropped it has gone on to something else
        log.exception("A job did not end cleanly: %s", job.what or job.slot)


def _fail(work: Calls[Any], failure: Failure) -> Call:
    """Tell a job that its call has no result; the error is nobody's own, for its traceback holds whatever it met."""
    return work.throw(CallFailed(failure))


def during(what: str, failure: Failure) -> Failure:
    """Say what was going on when something happened that nobody foresaw."""
    doing = f"{what[:1].lower()}{what[1:]}"
    sentence = failure.sentence.replace("went wrong:", f"went wrong while {doing}:", 1) if what else failure.sentence
    return replace(failure, sentence=sentence)


def unexpected(what: str, error: BaseException) -> Failure:
    """Put an exception that nobody foresaw into one sentence, with the traceback as details."""
    return Failure(unforeseen(error, what), "".join(traceback.format_exception(error)))
