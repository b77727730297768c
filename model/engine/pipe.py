"""A server at the end of a pipe: one thread reads, one writes, and the main thread serves.

The reader hears cancels while something computes, and ends the process when the other side is gone; the writer waits
for credit. What children need to end with the process is in ``model.child_process``.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from ropewalk.model.engine.frames import MAGIC, PIECE, FrameReader, Message, Piece
from ropewalk.model.engine.interface import Engine
from ropewalk.model.engine.outbox import Outbox
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.requests import Greeting
from ropewalk.model.engine.server import Server
from ropewalk.model.engine.serving import Serve
from ropewalk.model.errors import RopewalkError

if sys.platform == "linux":
    from fcntl import F_SETPIPE_SZ, fcntl

AT_ONCE = 1 << 16
"""Bytes that are read or written at a time: a reader that finds more sets aside pages for it that are new each time."""
GRACE = 0.5
"""Seconds that what is going on has to end cleanly in when the other side is gone."""


def serve_pipe(
    reading: int,
    writing: int,
    served: Mapping[type[Any], Serve],
    packing: Packing,
    load: Callable[[], Engine],
    greeting: Greeting,
) -> None:
    """Serve until the other side is gone.

    Parameters
    ----------
    reading, writing
        Descriptors, which nobody else uses.
    served, packing, load
        As a ``Server`` takes them.
    greeting
        What is said first.
    """
    _widen(writing)
    outbox = Outbox()
    server = Server(served, packing, outbox, load)
    outbox.sent = server.sent
    ended = threading.Event()
    outbox.put(Message(0, "hello", packed=packing.pack(greeting)))
    for target, descriptor in ((_read, reading), (_write, writing)):
        threading.Thread(target=target, args=(descriptor, server, outbox, ended), daemon=True).start()
    while server.wait():
        server.advance()
    ended.set()


def _widen(writing: int) -> None:
    """Let the pipe hold a megabyte where the system has that, so that a picture is not handed over in 50 mouthfuls."""
    if sys.platform == "linux":
        with suppress(OSError):  # it is no pipe, or the user has enough of them
            fcntl(writing, F_SETPIPE_SZ, PIECE)


def _read(reading: int, server: Server, outbox: Outbox, ended: threading.Event) -> None:
    """Hand on what the other side says, until it says no more."""
    frames = FrameReader()
    try:
        while data := os.read(reading, AT_ONCE):
            messages = frames.feed(data)
            for message in messages:
                if message.kind == "credit":
                    outbox.grant(message.id)
            server.hear(*messages)
    except (OSError, RopewalkError):
        pass  # nothing can be heard any more
    except BaseException:  # noqa: BLE001 - whatever it is, nobody is to wait for what this thread does
        _give_up()
    outbox.close()
    server.close()
    ended.wait(GRACE)
    os._exit(0)


def _write(writing: int, server: Server, outbox: Outbox, ended: threading.Event) -> None:
    """Say what there is to say."""
    piece: Piece | None = (MAGIC,)
    try:
        while piece is not None:
            for part in piece:
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(writing, rest[:AT_ONCE]) :]
            piece = outbox.next()
    except OSError:
        server.close()  # nobody listens
    except BaseException:  # noqa: BLE001 - whatever it is, nobody is to wait for what this thread does
        _give_up()


def _give_up() -> NoReturn:
    """End a process that can hear or say nothing any more: whoever waits for it hears of the end."""
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)
