"""Processes for one request each, on this machine: what reads a stranger's file, or encodes one, holds nothing up."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject

from ropewalk.app.engine.connection import Calls, Connect, Connection


class ShortLived(QObject):
    """Starts them, and sees them out.

    Parameters
    ----------
    connect
        Starts a process, as the child of a Qt object.
    """

    def __init__(self, connect: Connect, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._connect = connect

    def ask(self, request: Any) -> Calls[Any]:
        """Ask a process of its own, which ends with the answer, with a cancel, or when it does not hear one."""
        connection = self._connect(self)
        connection.unheard.connect(connection.kill)
        try:
            return (yield connection.asking(request))
        finally:
            connection.retire()

    def close(self) -> None:
        """End them all, and wait for that."""
        for connection in self.findChildren(Connection):
            connection.close()
        for connection in self.findChildren(Connection):
            connection.wait()
