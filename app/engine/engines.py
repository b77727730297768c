"""The engines of a window: the one in use, and a fresh one in which the next checkpoint is opened.

A checkpoint is opened in a process of its own, so that whatever is wrong with the file leaves what is on screen alone.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from ropewalk.app.engine.connection import ConnectBy, Connection, Ended
from ropewalk.app.engine.deaths import Deaths
from ropewalk.app.engine.remote import RemoteEngine


class Engines(QObject):
    """Which process is asked.

    Parameters
    ----------
    connect
        Starts an engine process, as the child of a Qt object.
    tile_bytes
        What refined pictures of a run may keep.
    command
        What the engine is started by; empty on this machine.

    Signals
    -------
    ended(ended)
        The engine in use is gone; an :class:`Ended`.
    unheard(), heard()
        The engine in use goes on with what was cancelled two seconds ago; it has heard that at last.
    opener_killed()
        The fresh engine went on with what was cancelled two seconds ago, so it was ended: nothing is lost with it.

    Attributes
    ----------
    command
        What the engine in use is started by.
    deaths
        What engines have ended at.
    """

    ended = Signal(object)
    unheard = Signal()
    heard = Signal()
    opener_killed = Signal()

    def __init__(
        self, connect: ConnectBy, tile_bytes: Callable[[], int], command: str = "", parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.command = command
        self._connect = connect
        self._tile_bytes = tile_bytes
        self._current: Connection | None = None
        self._fresh: Connection | None = None
        self._fresh_command = command
        self._used = False
        self.deaths = Deaths()

    @property
    def current(self) -> Connection:
        """The engine in use, started when it is first asked for."""
        if self._current is None:
            self._take(self._start(self.command))
        assert self._current is not None
        return self._current

    @property
    def gone(self) -> Ended | None:
        """Why there is no engine any more, None where there is one."""
        return None if self._current is None else self._current.gone

    @property
    def elsewhere(self) -> str:
        """What the other machine is called where the engine is not on this one, by its command until it has said so."""
        host = "" if self._current is None else self._current.host
        return self.command and (host or self.command)

    def remote(self, connection: Connection | None = None) -> RemoteEngine:
        """The engine in use, or the one behind a connection, as the session asks it."""
        return RemoteEngine(connection or self.current, self._tile_bytes)

    def prepare(self, command: str | None = None) -> Connection:
        """Have an engine ready in which a checkpoint can be opened: the one in use while nothing is open in it.

        ``command`` is what to start it by, where that is not as the one in use.
        """
        command = self.command if command is None else command
        if not self._used and self.gone is None and command == self.command:
            return self.current
        if command != self._fresh_command or (self._fresh is not None and self._fresh.gone is not None):
            self.dismiss()
        if self._fresh is None:
            self._fresh, self._fresh_command = self._start(command), command
            self._fresh.unheard.connect(self._kill_fresh)
            self._fresh.hurry(little=True)
        return self._fresh

    def adopt(self, connection: Connection) -> bool:
        """Use an engine from now on, in which a model is open; the one before goes when nothing of it is needed.

        Says whether another command has started it.
        """
        self._used = True
        before = self.command
        if connection is self._current:
            return False
        if connection is self._fresh:
            self._fresh, self.command = None, self._fresh_command
            connection.unheard.disconnect(self._kill_fresh)
            connection.hurry(little=False)
        self._take(connection)
        return self.command != before

    def dismiss(self) -> None:
        """Have no engine ready any more."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.close()
            fresh.retire()

    def _start(self, command: str) -> Connection:
        connection = self._connect(self, command)
        connection.deaths = self.deaths
        return connection

    def _kill_fresh(self) -> None:
        if self._fresh is not None:
            self._fresh.kill()
            self.opener_killed.emit()

    def _take(self, connection: Connection) -> None:
        before, self._current = self._current, connection
        connection.ended.connect(self.ended)
        connection.unheard.connect(self.unheard)
        connection.heard.connect(self.heard)
        if before is not None:
            before.ended.disconnect(self.ended)
            before.unheard.disconnect(self.unheard)
            before.heard.disconnect(self.heard)
            before.retire()
