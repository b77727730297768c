"""Modules that have been imported, kept from the garbage collector: they stay until the end.

Torch and transformers make hundreds of thousands of objects; to look at all of them after every test with Qt took most
of the time of a run.
"""

from __future__ import annotations

import gc
import sys

_seen = 0


def set_aside() -> None:
    """Freeze what is alive, if anything was imported since the last time.

    Whatever else is alive is frozen too, and never collected should it end in a cycle. Hence this is for moments at
    which no test runs and no fixture keeps a window or a model.
    """
    global _seen  # noqa: PLW0603 - one process, one heap
    if len(sys.modules) > _seen:
        gc.collect()
        gc.freeze()
        _seen = len(sys.modules)
