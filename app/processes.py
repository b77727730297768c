"""A session over processes of its own: the engine, here or by a command, and those that read and write files."""

from __future__ import annotations

import shlex
from functools import cache

from PySide6.QtCore import QObject

from ropewalk.app.engine.connection import Connection
from ropewalk.app.engine.process import ProcessConnection
from ropewalk.app.passing import PASSING
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.child_process import child_command
from ropewalk.model.engine.packing import Packing


@cache
def packing() -> Packing:
    """What passes between a window and its processes."""
    return Packing(PASSING)


def new_session(settings: SettingsStore | None = None) -> Session:
    """A session whose engine runs where the settings say."""
    return Session(settings or SettingsStore(), engine_process, local_process)


def engine_process(parent: QObject, command: str = "") -> Connection:
    """Start an engine that has torch at once: on this machine, or by a command."""
    return _started(parent, command, warm=True)


def local_process(parent: QObject) -> Connection:
    """Start a process on this machine without torch, unless something asked of it needs that."""
    return _started(parent, "", warm=False)


def _started(parent: QObject, command: str, *, warm: bool) -> Connection:
    words = shlex.split(command) if command else child_command("__main__", "engine")
    connection = ProcessConnection(words, packing(), parent)
    connection.greet(warm=warm)
    return connection
