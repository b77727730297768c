"""Files that are whole or not there at all: written beside their place, then moved onto it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
        return "it is a device or a pipe, not a file"
    if not path.absolute().parent.is_dir():
        return f"there is no folder {path.absolute().parent}"
    return ""


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
    part = path.with_name(UNFINISHED.replace("*", secrets.token_hex(8)))
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
