"""Brings the engine in, and torch with it, without holding the window up."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ropewalk.model.engine.interface import Engine


def load_engine() -> Engine:
    """Import the engine, and torch with it.

    Torch's import would hold the interpreter's lock while its libraries load; loading them before it lets the window go
    on drawing. Its hundred thousands of objects stay for good: each full collection would hold up the window for a
    tenth of a second.
    """
    if "ropewalk.model.engine.engine" in sys.modules:
        return sys.modules["ropewalk.model.engine.engine"]
    with for_good():
        _load_torch_without_the_lock()
        from ropewalk.model.engine import engine
    return engine


@contextmanager
def for_good() -> Iterator[None]:
    """Keep what is made meanwhile from the garbage collector: it lives as long as the program, and looking costs."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def _load_torch_without_the_lock() -> None:
    """Load torch's libraries while other threads go on, where that is known to work.

    ``ctypes.CDLL`` holds the lock while it loads a library, and lets go of it while a function of one runs: hence the
    C library's own ``dlopen``. None of what it loads here calls Python.
    """
    if "torch" not in sys.modules and sys.platform == "linux":
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.origin is not None:
            load = ctypes.CDLL(None).dlopen
            load.argtypes, load.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
            load(os.fsencode(Path(spec.origin).parent / "lib" / "libtorch.so"), os.RTLD_NOW)
