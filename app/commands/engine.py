"""``ropewalk engine``: serves a window over stdin and stdout; started by the window itself, here or elsewhere."""

from __future__ import annotations

import gc
import platform

from ropewalk.app.passing import PASSING
from ropewalk.app.served import SERVED
from ropewalk.model.engine.interface import Engine
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.pipe import serve_pipe
from ropewalk.model.engine.requests import Greeting


def load_engine() -> Engine:
    """Bring the engine in, and torch with it; what that makes lives as long as the process, and looking at it costs."""
    gc.disable()
    try:
        from ropewalk.model.engine import engine

        gc.freeze()
    finally:
        gc.enable()
    return engine


def serve(reading: int, writing: int) -> None:
    """Serve a window until it is gone, over the descriptors that were claimed for frames."""
    from ropewalk import __version__

    greeting = Greeting(__version__, platform.node())
    serve_pipe(reading, writing, SERVED, Packing(PASSING), load_engine, greeting)
