"""An engine at the other end of a connection, but in the same process and on the same thread: stepped by Qt's loop.

Everything but the pipe is real: requests are served by the server, a slice in each turn of the event loop, and
replies come back as messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QTimer

from ropewalk.app.commands.engine import load_engine
from ropewalk.app.engine.connection import ConnectBy, Connection, Ended
from ropewalk.app.processes import packing
from ropewalk.app.served import SERVED
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.engine.frames import Kind, Message
from ropewalk.model.engine.interface import Engine, ModelHandle, RunHandle
from ropewalk.model.engine.packing import Packed, Packing
from ropewalk.model.engine.server import Server


class InProcess(Connection):
    """The way to a server in this process.

    Parameters
    ----------
    load
        Brings the engine in.
    packing
        What makes bytes of records.
    """

    def __init__(self, load: Callable[[], Engine], packing: Packing, parent: QObject | None = None) -> None:
        super().__init__(packing, parent)
        self._greeted = True
        self.server = Server(SERVED, packing, self, load)
        self._serving = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._slice)

    def write(self, message: Message) -> None:
        self.server.hear(message)
        self._timer.start(0)

    def kill(self) -> None:
        self.lose(Ended("The engine was ended.", reason="SIGKILL"))

    @property
    def is_running(self) -> bool:
        return self.gone is None

    def wait(self) -> None:
        """It is gone when it is closed."""

    def _stop(self) -> None:
        self._timer.stop()
        self.server.close()
        self._end_jobs()

    def _end_jobs(self) -> None:
        while not self._serving and self.server.advance():
            pass  # what a job says while it is served may be heard at once, and end the engine

    def _slice(self) -> None:
        self._serving = True
        more = self.server.advance()
        self._serving = False
        if self.gone is not None:
            self._end_jobs()
            self.go_if_unused()
        elif more:
            self._timer.start(0)

    # What the server sends with -----------------------------------------------------------------------------------

    def put(self, message: Message) -> None:
        if self.gone is None:
            self.arrived(message)

    def drop(self, number: int) -> None:
        """Everything was sent at once."""

    def holds(self, number: int, *kinds: Kind) -> bool:
        return False


class Unpacked(Packing):
    """Passes records on as they are, for engines whose answers are no records."""

    def __init__(self) -> None:
        super().__init__(())

    def pack(self, value: Any) -> Packed:
        return Packed(type(value).__name__, value)

    def unpack(self, type: str, data: Any, arrays: Any) -> Any:  # noqa: A002
        return data


def real(parent: QObject, command: str = "") -> InProcess:
    """Start the engine itself, as a session starts one."""
    return InProcess(load_engine, packing(), parent)


def new_session(settings: SettingsStore) -> Session:
    """A session whose processes are all this one."""
    return Session(settings, real, real)


def without_packing(engine: Any) -> tuple[ConnectBy, ConnectBy]:
    """What a session starts its processes by, over an engine that is none."""

    def start(parent: QObject, command: str = "") -> InProcess:
        return InProcess(lambda: engine, Unpacked(), parent)

    return start, start


def trace_of(handle: RunHandle | None) -> Any:
    """The tensors of a run, where its engine is in this process."""
    assert handle is not None
    connection = handle.trace.connection
    assert isinstance(connection, InProcess)
    kept = connection.server.handles.thing(handle.trace.number)
    return kept.trace if handle.run.length == kept.run.newest else kept.trace.at(handle.run.length)


def checkpoint_of(model_handle: ModelHandle | None) -> Any:
    """The checkpoint of a model, where its engine is in this process."""
    assert model_handle is not None
    connection = model_handle.checkpoint.connection
    assert isinstance(connection, InProcess)
    return connection.server.handles.thing(model_handle.checkpoint.number).checkpoint
