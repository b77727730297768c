"""Limits of time and memory for reading what may be a stranger's, held by a process beside the one that reads.

A file can take any time and any memory without running code: a key that takes for ever to hash, a replacement that
doubles a text forty times, an expression that tries every way to match. The library that reads may hold the
interpreter meanwhile, so nothing inside the process can end it; its watcher (``model.child_process``) does. A window
reads in processes that may be ended, and a command may be. A notebook's own process has no watcher and is never ended.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ropewalk.model.child_process import is_watched, tell_watcher
from ropewalk.model.errors import quoted

MEBI: Final = 1 << 20


@dataclass(frozen=True)
class Limit:
    """What a reader may take.

    Attributes
    ----------
    what
        What is read, with its article, for a sentence.
    seconds
        By the clock, and as many again for each MiB that is said to be read.
    mebibytes
        By which the process may grow, and ``times`` what is said to be read beside that.
    """

    what: str
    seconds: float
    mebibytes: int
    times: int = 0


LIMITS: Final[Mapping[str, Limit]] = MappingProxyType(
    {
        "checkpoint": Limit("the description", 180, 2048),
        "tokenizer": Limit("the tokenizer", 120, 2048),
        "text": Limit("a text with its tokenizer", 20, 1024, 1024),
        "trace": Limit("the trace", 60, 2048),
        "survey": Limit("the survey", 60, 2048),
        "session": Limit("the session", 20, 512),
        "lesson": Limit("the lesson", 20, 512),
    }
)
"""By reader; weights are read under the budget of memory instead, and may take any time."""

NOT_A_FILE: Final = "it is a device or a pipe, not a file"
HANDED_OVER: Final = frozenset(map(Path, ("/dev/stdin", "/dev/fd", "/proc/self/fd")))
"""What a shell has open for a command lies there, or is it."""

_NUMBERS: Final = count(1)
_LOCK: Final = threading.Lock()
_BEFORE: Final[list[Any]] = []
"""What SIGHUP did to this process before each thing that is being read."""


def regular(path: Path, *, piped: bool = False) -> Path:
    """The path, unless something is there that would be waited for: a pipe, a socket or a device.

    Parameters
    ----------
    piped
        Whether a pipe may be read that a shell hands over, as by ``<(…)``.

    Raises
    ------
    OSError
        With a clause that says what it is.
    """
    is_other = path.exists() and not (path.is_file() or path.is_dir())
    if is_other and not (piped and HANDED_OVER & {path, path.parent}):
        raise OSError(NOT_A_FILE)
    return path


@contextmanager
def limited(reader: str, name: str, size: int = 0) -> Iterator[None]:
    """Hold what is done inside to the limits of a reader, where this process has a watcher.

    Parameters
    ----------
    reader
        One of ``LIMITS``.
    name
        What to call the file.
    size
        Its bytes.
    """
    if not is_watched():
        yield
        return
    limit, number = LIMITS[reader], next(_NUMBERS)
    most, seconds = limit.mebibytes * MEBI + limit.times * size, limit.seconds * (1 + size // MEBI)
    place = quoted(name)
    late = f"Reading {limit.what} of {place} took more than {seconds:g} seconds"
    large = f"Reading {limit.what} of {place} took more than {most // MEBI:,} MiB of memory"
    end = "and was stopped; it is damaged, or made to hold up whoever reads it."
    _hang_up_ends(begins=True)
    tell_watcher(f"+{number}\t{seconds}\t{most}\t{late}, {end}\t{large}, {end}")
    try:
        yield
    finally:
        tell_watcher(f"-{number}")
        _hang_up_ends(begins=False)


def _hang_up_ends(*, begins: bool) -> None:
    """Have SIGHUP end this process with exit status 1, whatever holds the interpreter, while something is read.

    The C library's ``_exit`` is called with the number of the signal, which is 1: so a command that was ended at a
    limit fails like any other, and no shell says a word of its own.
    """
    if sys.platform == "win32":
        return
    with _LOCK:
        library = _library()
        if begins:
            _BEFORE.append(library.signal(int(signal.SIGHUP), ctypes.cast(library._exit, ctypes.c_void_p)))
        else:
            library.signal(int(signal.SIGHUP), _BEFORE.pop())


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.signal.restype = ctypes.c_void_p
    library.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    return library
