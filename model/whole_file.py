"""Files that are whole or not there at all: written beside their place, then moved onto it.

What a process that was killed has left of one is removed by the next that writes into that folder on the same machine,
once no process of its number is there any more.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ropewalk.model.limits import NOT_A_FILE

UNFINISHED = ".*.part"
"""What files are called while they are written."""


def obstacle(path: Path) -> str:
    """Why no file can be written there, as a clause; empty where one can.

    A device or a pipe is an obstacle, because moving a file onto it would take its place: ``/dev/null`` would be gone.
    """
    if "\0" in str(path):
        return "a name cannot hold the character NUL"
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return "the name holds half a pair of surrogates, which no file system can keep"
    if path.is_dir():
        return "it is a folder; give a file name"
    if path.exists() and not path.is_file():
        return NOT_A_FILE
    if not path.absolute().parent.is_dir():
        return f"there is no folder {path.absolute().parent}"
    return ""


LEFT = re.compile(r"\.(?P<here>[0-9a-f]{8})-(?P<process>\d{1,10})-[0-9a-f]{8}\.part")
_looked: set[Path] = set()


@cache
def _here() -> str:
    """Where the numbers of processes are those of this one: this machine, and this part of it where it has several."""
    try:
        space = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _remove_left(folder: Path) -> None:
    """Remove what is left of files that a killed process wrote into a folder; looked for once."""
    if folder in _looked:
        return
    _looked.add(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            left = LEFT.fullmatch(entry.name)
            if left is not None and left["here"] == _here() and not _is_there(int(left["process"])):
                with suppress(OSError):
                    os.unlink(entry.path)


def _is_there(process: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(process))


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a name to write to; the file becomes ``path`` at the end, and is gone after any error.

    Raises
    ------
    OSError
        When the file cannot be written.
    """
    why = obstacle(path)
    if why:
        raise OSError(why)
    _remove_left(path.absolute().parent)
    name = f"{_here()}-{os.getpid()}-{secrets.token_hex(4)}"
    part = path.with_name(UNFINISHED.replace("*", name))
    try:
        part.touch(exist_ok=False)
        readable = part.stat().st_mode  # as any new file is; some libraries write a private one in its place
        yield part
        part.chmod(readable)
        with part.open("rb") as written:
            os.fsync(written.fileno())  # else a crash could leave the new name on bytes that never reached the disk
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
