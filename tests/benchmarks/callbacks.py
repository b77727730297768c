"""How long each callback of the window's thread takes, and what it waited for meanwhile.

Every event that Qt hands to the thread is timed: wall clock, processor time of this thread, and (on Linux) how long the
thread stood in the queue for a core, which is other processes' doing. What is left of the wall clock it was blocked. A
timer of 0 ms notes the gaps between two turns of the event loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication

FRAME_MS = 16.0
NOTED_MS = 1.0
"""Callbacks that take less are not kept."""


@dataclass(frozen=True)
class Callback:
    """One event's milliseconds: in all, at work, waiting for a core, blocked; and who received what."""

    wall: float
    work: float
    queued: float
    receiver: str

    @property
    def blocked(self) -> float:
        """Neither at work nor in the queue: waiting for a file, or for memory."""
        return max(self.wall - self.work - self.queued, 0.0)


@dataclass
class Record:
    """What happened during one action: milliseconds."""

    gaps: list[float] = field(default_factory=list)
    callbacks: list[Callback] = field(default_factory=list)

    @property
    def worst_gap(self) -> float:
        """The longest time between two turns of the event loop."""
        return max(self.gaps, default=0.0)

    @property
    def worst(self) -> Callback:
        """The callback that took the most time in all."""
        return max(self.callbacks, key=lambda one: one.wall, default=Callback(0.0, 0.0, 0.0, ""))

    @property
    def busiest(self) -> Callback:
        """The callback that worked longest: what remains where no other process takes the cores."""
        return max(self.callbacks, key=lambda one: one.work, default=Callback(0.0, 0.0, 0.0, ""))

    @property
    def over(self) -> int:
        """Callbacks that worked for longer than a frame."""
        return sum(one.work > FRAME_MS for one in self.callbacks)


class TimedApplication(QApplication):
    """An application that times what it hands out, while there is a record to keep it in."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(arguments)
        self.record: Record | None = None
        self._inside = False
        self._thread = threading.get_native_id()
        self._last = 0.0
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_timeout)

    def measured(self, action: Callable[[], object]) -> Record:
        """Do something that runs the event loop, and return what happened meanwhile."""
        record = self.record = Record()
        self._last = time.perf_counter()
        self._timer.start(0)
        try:
            action()
        finally:
            self._timer.stop()
            self.record = None
        return record

    def notify(self, receiver: QObject, event: QEvent) -> bool:
        """Hand an event out, and time the outermost one."""
        record = self.record
        if record is None or self._inside or receiver is self._timer:
            return super().notify(receiver, event)
        kind, self._inside = event.type(), True
        queued, work, wall = self._queued(), time.thread_time(), time.perf_counter()
        try:
            return super().notify(receiver, event)
        finally:
            self._inside = False
            wall, work = 1e3 * (time.perf_counter() - wall), 1e3 * (time.thread_time() - work)
            if wall > NOTED_MS:
                name = f"{type(receiver).__name__} {kind.name}"
                record.callbacks.append(Callback(wall, work, self._queued() - queued, name))

    def _on_timeout(self) -> None:
        now = time.perf_counter()
        if self.record is not None:
            self.record.gaps.append(1e3 * (now - self._last))
        self._last = now

    def _queued(self) -> float:
        """Milliseconds that this thread has stood in the queue for a core; 0 where nobody counts them."""
        try:
            return int(Path(f"/proc/self/task/{self._thread}/schedstat").read_text().split()[1]) / 1e6
        except OSError:
            return 0.0
