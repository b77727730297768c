"""All that a process has started, and what that has started and left behind: known, and ended."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

LONGEST = 5.0
"""Seconds for which what goes on starting others is ended again and again."""
LOOK = 0.05
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def adopt_orphans() -> None:
    """Have whatever a process that this one started leaves behind become a child of this one, where the system can."""
    _set(PR_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Keep other processes of this user from this one's memory and descriptors, where the system can."""
    _set(PR_SET_DUMPABLE, 0)


def _set(what: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def descendants() -> frozenset[int]:
    """The numbers of all that this process has started, directly or not, and that has not ended."""
    return frozenset(one.pid for one in psutil.Process().children(recursive=True) if _lives(one))


def end_descendants(but: frozenset[int] = frozenset()) -> None:
    """End all that this process has started, directly or not, but for some; those that come meanwhile too."""
    until = time.monotonic() + LONGEST
    while (left := descendants() - but) and time.monotonic() < until:
        ended = []
        for number in left:
            with suppress(psutil.Error):
                ended.append(psutil.Process(number))
                ended[-1].kill()
        psutil.wait_procs(ended, timeout=LOOK)


@contextmanager
def nothing_left() -> Iterator[None]:
    """End at the end all that was started meanwhile, and what that has left behind where the system can say so."""
    before = descendants()
    adopt_orphans()
    try:
        yield
    finally:
        end_descendants(before)
        _set(PR_SET_CHILD_SUBREAPER, 0)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def ending(status: int) -> str:
    """How a process ended, in words."""
    if status < 0:
        with suppress(ValueError):
            return signal.Signals(-status).name
    return f"exit status {status}"
