"""A lock on a file that processes of one machine hold one at a time, while they read it and write it anew."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LONGEST = 1.0
"""Seconds to wait for another process, which holds it for milliseconds; then work goes on without it."""
LOOK = 0.01
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""What a file system says that has none."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file: a file beside it, for the file itself is replaced.

    Where there can be none, as in a folder that cannot be written to, work goes on without it.
    """
    descriptor = _opened(path)
    if descriptor is None:
        yield
        return
    try:
        until = time.monotonic() + LONGEST
        while not _taken(descriptor) and time.monotonic() < until:
            time.sleep(LOOK)
        yield
    finally:
        os.close(descriptor)  # which lets it go


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """Hold the lock of a file for as long as one likes; False where another process, or a part of this one, does.

    Where there can be none, as in a folder that cannot be written to, nobody is held off.
    """
    descriptor = _opened(path)
    if descriptor is None:
        yield True
        return
    try:
        yield _taken(descriptor)
    finally:
        os.close(descriptor)


def lock_of(path: Path) -> Path:
    """The file that is locked."""
    return path.with_name(f".{path.name}.lock")


def _opened(path: Path) -> int | None:
    with suppress(OSError):
        return os.open(lock_of(path), os.O_RDWR | os.O_CREAT, 0o600)
    return None


def _taken(descriptor: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in NO_LOCKS
    return True
