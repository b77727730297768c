"""A lock on a file that processes of one machine hold one at a time, while they read it and write it anew."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LONGEST = 1.0
"""Seconds to wait for another process, which holds it for milliseconds; then work goes on without it."""
LOOK = 0.01


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file: a file beside it, for the file itself is replaced.

    Where there can be none, as in a folder that cannot be written to, work goes on without it.
    """
    try:
        descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        yield
        return
    try:
        until = time.monotonic() + LONGEST
        while not _taken(descriptor) and time.monotonic() < until:
            time.sleep(LOOK)
        yield
    finally:
        os.close(descriptor)  # which lets it go


def _taken(descriptor: int) -> bool:
    with suppress(OSError):
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
