"""The descriptors of an engine's process: frames have 0 and 1 to themselves, and its end leaves nothing behind."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from ropewalk.model.child_process import MARK, fork_watcher


def claim() -> tuple[int, int]:
    """Take the standard descriptors for frames: the first act of the process, before anything else is imported.

    Whatever prints from now on (Python, native libraries, children) reaches stderr, whatever reads finds the end of a
    file, and children get neither descriptor. The process leads a session of its own, so that Ctrl-C in a terminal
    is for the window alone, and is watched (``fork_watcher``): when stdin is hung up, it is killed a second later
    if it has not ended. Where there is no ``fork``, only whoever reads can end it.

    Returns
    -------
    tuple of int
        The descriptors from which frames are read and to which they are written.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # one buffer, written out at each line
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (reading, writing):
            msvcrt.setmode(descriptor, os.O_BINARY)
    else:
        with suppress(PermissionError):  # it leads a process group already
            os.setsid()
    fork_watcher(reading, mark=MARK)
    return reading, writing
