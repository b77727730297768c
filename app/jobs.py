"""Cooperative jobs on one compute thread: urgency, replacement, progress and cancel.

A job is a generator. Each value it yields is a progress point, a cancel point, and a place where a more urgent job may
run; what it returns is its result. The thread is owned and awaited by :class:`Jobs`; results and errors arrive on the
thread of the :class:`Jobs` object, one in each turn of its event loop.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.errors import Cancelled, RopewalkError, unforeseen
from ropewalk.model.progress import Partial, Progress

log = logging.getLogger(__name__)


Work: TypeAlias = Generator[Progress, None, Any]


@dataclass(frozen=True)
class JobProgress:
    """What the status line shows of a job that takes longer than a moment. ``total`` is 0 where it is not known."""

    what: str
    done: int
    total: int
    cancellable: bool


@dataclass(frozen=True)
class Failure:
    """Why a job has no result: one sentence for the person, what is folded under it, and what would work instead."""

    sentence: str
    details: str = ""
    offers: tuple[Intervention, ...] = ()


@dataclass(eq=False)
class Job:
    """One request, and how far it is."""

    slot: str
    urgency: Urgency
    work: Work
    on_done: Callable[[Any], None]
    on_failed: Callable[[Failure], None]
    what: str
    cancellable: bool
    number: int
    cancelled: bool = False
    started: float = 0.0
    reported: float = 0.0
    point: Progress | None = None
    on_part: Callable[[Any], None] | None = None

    def progress(self) -> JobProgress:
        """Where the job stands."""
        if self.point is None:
            return JobProgress(self.what, 0, 0, self.cancellable)
        return JobProgress(self.point.what or self.what, self.point.done, self.point.total, self.cancellable)


class Jobs(QObject):
    """The compute thread and its queue. Every method is for the thread that made the object.

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
    _finished = Signal(object, object)
    _advanced = Signal(object)
    _parted = Signal(object, object)

    REPORT_EVERY = 0.033
    GATHER = 0.003
    """Seconds in which an idle thread lets all who hear of a change ask, so that it begins with the most urgent."""

    def __init__(self, parent: QObject | None = None, show_after: float = 0.2) -> None:
        super().__init__(parent)
        self.show_after = show_after
        self._alive: dict[str, Job] = {}
        self._shown: Job | None = None
        self._queue: list[Job] = []
        self._running: Job | None = None
        self._closing = False
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._numbers = itertools.count()
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.timeout.connect(self._on_patience)
        self._arrived: deque[Callable[[], bool]] = deque()
        """Results and parts that wait for their turn, oldest first; each says whether anybody heard it."""
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.setInterval(0)
        self._turn.timeout.connect(self._on_turn)
        self._finished.connect(self._on_finished, Qt.ConnectionType.QueuedConnection)
        self._advanced.connect(self._on_advanced, Qt.ConnectionType.QueuedConnection)
        self._parted.connect(self._on_parted, Qt.ConnectionType.QueuedConnection)

    # For the owner's thread ---------------------------------------------------------------------------------------

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
        work: Work,
        on_done: Callable[[Any], None],
        on_failed: Callable[[Failure], None],
        *,
        what: str = "",
        cancellable: bool = True,
        on_part: Callable[[Any], None] | None = None,
    ) -> None:
        """Queue a job; an older one of the same slot is dropped.

        Parameters
        ----------
        slot
            What kind of request this is; only the newest of a kind is wanted.
        work
            A generator that has not been started; it runs and is closed on the compute thread.
        on_done, on_failed
            Called on this object's thread, unless the job is replaced or cancelled before.
        what
            What the progress says until the job says better.
        cancellable
            Whether the person is offered to cancel it.
        on_part
            Called on this object's thread with the reading of every :class:`~model.progress.Partial`.
        """
        if self._closing:
            return
        self._drop(slot)
        job = Job(slot, urgency, work, on_done, on_failed, what, cancellable, next(self._numbers), on_part=on_part)
        self._alive[slot] = job
        with self._condition:
            self._queue.append(job)
            self._condition.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ropewalk-compute")
            self._thread.start()
        self._wait_to_show()

    def cancel(self, slot: str) -> None:
        """Drop a job: its result will not be delivered, and the thread is asked to end it at its next point."""
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

    def pulse(self, point: Progress) -> None:
        """Hear, on the compute thread, how far work is that cannot pause, and end it there when it was cancelled.

        Raises
        ------
        Cancelled
            When nobody waits for the result any more.
        """
        job = self._running
        if job is None:
            return
        if job.cancelled or self._closing:
            raise Cancelled
        job.point = point
        self._report(job)

    def close(self) -> None:
        """Cancel everything and wait for the thread; nothing is delivered afterwards."""
        self._patience.stop()
        self._turn.stop()
        self._arrived.clear()
        with self._condition:
            self._closing = True
            self._condition.notify()
        for slot in list(self._alive):
            self._drop(slot)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _drop(self, slot: str) -> bool:
        """Disconnect a job first, then ask the thread to end it."""
        job = self._alive.pop(slot, None)
        if job is None:
            return False
        self._hide(job)
        with self._condition:
            job.cancelled = True
            self._condition.notify()
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
            self._patience.start(round(self.show_after * 1000))

    def _on_patience(self) -> None:
        """Show a job that has run for long without saying anything."""
        job = self._running
        if job is not None and self._alive.get(job.slot) is job and self._is_long(job):
            self._on_advanced(job)
        elif self._alive:
            self._wait_to_show()

    def _is_long(self, job: Job) -> bool:
        return job.started > 0 and time.monotonic() - job.started >= self.show_after

    def _on_advanced(self, job: Job) -> None:
        if self._alive.get(job.slot) is job:
            self._shown = job
            self.progress_changed.emit(job.progress())

    def _on_parted(self, job: Job, reading: Any) -> None:
        self._queue_turn(partial(self._hand_part, job, reading))

    def _on_finished(self, job: Job, outcome: Any) -> None:
        self._queue_turn(partial(self._hand_over, job, outcome))

    def _queue_turn(self, hand: Callable[[], bool]) -> None:
        """Let what arrives together be heard in one turn of the event loop each: what it draws is painted between."""
        self._arrived.append(hand)
        if not self._turn.isActive():
            self._turn.start()

    def _on_turn(self) -> None:
        """Hand over the oldest result that is still wanted."""
        while self._arrived:
            hand = self._arrived.popleft()
            if self._arrived:
                self._turn.start()  # before: what is heard may run an event loop of its own
            if hand():
                return

    def _hand_part(self, job: Job, reading: Any) -> bool:
        if self._alive.get(job.slot) is not job or job.on_part is None:
            return False
        job.on_part(reading)
        return True

    def _hand_over(self, job: Job, outcome: Any) -> bool:
        if self._alive.get(job.slot) is not job:
            return False
        del self._alive[job.slot]
        self._hide(job)
        if isinstance(outcome, Failure):
            job.on_failed(outcome)
        elif not isinstance(outcome, Cancelled):
            job.on_done(outcome)
        if self._alive:
            self._wait_to_show()
        self._settle()
        return True

    # On the compute thread ----------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._condition:
                if not self._queue:
                    self._condition.wait_for(lambda: self._queue or self._closing)
                    self._condition.wait_for(lambda: self._closing, self.GATHER)
                if not self._queue:
                    return
                job = self._most_urgent()
                ended = job.cancelled or self._closing
            self._running = job
            if ended:
                self._end(job)
            else:
                self._advance(job)
            self._running = None
            del job  # a finished job may hold large results; do not keep it while waiting

    def _most_urgent(self) -> Job:
        """The next job to advance: a cancelled one first (to end it), then by urgency, then by age."""
        return min(self._queue, key=lambda job: (not job.cancelled, job.urgency, job.number))

    def _advance(self, job: Job) -> None:
        job.started = job.started or time.monotonic()
        try:
            job.point = next(job.work)
        except StopIteration as stop:
            self._deliver(job, stop.value)
        except Cancelled as cancelled:
            self._deliver(job, cancelled)
        except RopewalkError as error:
            self._deliver(job, Failure(error.sentence, error.details, error.offers))
        except Exception as error:  # the thread has to survive whatever a job does
            log.exception("A job failed in a way nobody foresaw: %s", job.what or job.slot)
            self._deliver(job, unexpected(job.what, error))
        else:
            if isinstance(job.point, Partial) and job.on_part is not None:
                self._parted.emit(job, job.point.reading)
            self._report(job)

    def _report(self, job: Job) -> None:
        """Let the owner's thread know how far a job is, now and then."""
        now = time.monotonic()
        if now - job.started >= self.show_after and now - job.reported >= self.REPORT_EVERY:
            job.reported = now
            self._advanced.emit(job)

    def _deliver(self, job: Job, outcome: Any) -> None:
        self._forget(job)
        self._finished.emit(job, outcome)

    def _end(self, job: Job) -> None:
        try:
            job.work.close()
        except Exception:  # nobody waits for this job any more, and the thread has to survive
            log.exception("A cancelled job did not end cleanly: %s", job.what or job.slot)
        self._forget(job)

    def _forget(self, job: Job) -> None:
        with self._condition:
            self._queue.remove(job)


def unexpected(what: str, error: Exception) -> Failure:
    """Put an exception that nobody foresaw into one sentence, with the traceback as details."""
    return Failure(unforeseen(error, what), "".join(traceback.format_exception(error)))


class Exports:
    """Makes files beside everything else."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def make(
        self,
        slot: str,
        work: Generator[Progress, None, Any],
        on_done: Callable[[Any], None],
        on_failed: Callable[[str], None],
        *,
        what: str,
    ) -> None:
        """Make a file; a newer one of the same slot replaces an older one, and ``on_failed`` hears a sentence."""
        self._jobs.submit(slot, Urgency.PREFILL, work, on_done, lambda failure: on_failed(failure.sentence), what=what)

    @property
    def pulse(self) -> Callable[[Progress], None]:
        """What work that cannot pause tells its progress to, on its own thread; raises when it is to end."""
        return self._jobs.pulse

    def cancel(self) -> None:
        """End what is being made."""
        self._jobs.cancel_all()

    def close(self) -> None:
        """Cancel everything and wait for the thread."""
        self._jobs.close()
