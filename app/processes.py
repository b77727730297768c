"""A session over processes of its own: the engine, here or by a command, and those that read and write files."""

from __future__ import annotations

import shlex
from functools import cache
from typing import Any

from PySide6.QtCore import QObject

from ropewalk.app.engine.connection import Connection
from ropewalk.app.engine.process import ProcessConnection
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.child_process import child_command
from ropewalk.model.engine.packing import Packed, Packing
from ropewalk.model.engine.requests import Greeting


class LatePacking(Packing):
    """What passes between a window and its processes; a start that only greets need not read all of it."""

    def __init__(self) -> None:
        super().__init__((Greeting,))

    def pack(self, value: Any) -> Packed:
        """Make bytes of a value."""
        return super().pack(value) if isinstance(value, Greeting) else packing().pack(value)

    def unpack_reply(self, packed: Packed, asked: Any, kind: str) -> Any:
        """Make what came for a request again."""
        late = kind != "hello"
        return packing().unpack_reply(packed, asked, kind) if late else super().unpack_reply(packed, asked, kind)


@cache
def packing() -> Packing:
    """All that passes."""
    from ropewalk.app.passing import PASSING, reply_to

    return Packing(PASSING, reply_to)


def new_session(settings: SettingsStore | None = None, engine: str | None = None) -> Session:
    """A session whose engine is started by a command; None is what the settings say, empty is this machine."""
    settings = settings or SettingsStore()
    command = settings.now.engine if engine is None else engine
    return Session(settings, engine_process, light_process, command=command)


def engine_process(parent: QObject, command: str = "") -> Connection:
    """Start an engine that has torch at once: on this machine, or by a command."""
    return _started(parent, command, warm=True)


def light_process(parent: QObject, command: str = "") -> Connection:
    """Start a process without torch, unless something asked of it needs that: on this machine, or by a command."""
    return _started(parent, command, warm=False)


def own_command() -> list[str]:
    """What starts an engine on this machine."""
    return child_command("__main__", "engine")


def _started(parent: QObject, command: str, *, warm: bool) -> Connection:
    try:
        words = shlex.split(command)
    except ValueError:  # a quotation without an end: what cannot be started says so
        words = [command]
    connection = ProcessConnection(words or own_command(), LatePacking(), command, parent)
    connection.greet(warm=warm)
    return connection
