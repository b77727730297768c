"""A process of our own at the other end of a pipe, by QProcess: started, written to, read, and seen out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from PySide6.QtCore import QByteArray, QCoreApplication, QObject, QProcess, QTimer

from ropewalk.app.engine.connection import Connection, Ended
from ropewalk.model.child_process import child_command
from ropewalk.model.engine.frames import FrameReader, Message, frames_of
from ropewalk.model.engine.packing import Packing
from ropewalk.model.errors import RopewalkError

DETAILS = 1 << 16
"""Bytes that are kept of what a process wrote to stderr."""
GRACE_MS = 2000
"""How long a process may take to end once it has been told to."""


def own_command() -> list[str]:
    """The command of an engine on this machine, by the Python and the package that run here."""
    return child_command("__main__", "engine")


class ProcessConnection(Connection):
    """The way to a process that was started by a command.

    Parameters
    ----------
    command
        The program and its arguments.
    packing
        The types that pass.
    what
        What the process is called in a sentence.
    """

    def __init__(
        self, command: Sequence[str], packing: Packing, what: str = "The engine", parent: QObject | None = None
    ) -> None:
        super().__init__(packing, parent)
        self.command = tuple(command)
        self.what = what
        self._frames = FrameReader(magic=True)
        self._said = bytearray()
        self._process = QProcess(self)
        self._process.readyReadStandardOutput.connect(self._on_output)
        self._process.readyReadStandardError.connect(self._on_error_output)
        self._process.errorOccurred.connect(self._on_error)
        self._process.finished.connect(self._on_finished)
        self._process.start(self.command[0], list(self.command[1:]))

    @property
    def pid(self) -> int:
        """The number of the process on this machine; 0 when there is none."""
        return int(self._process.processId())

    @property
    def unsent(self) -> int:
        """Bytes that wait to be written to the process."""
        return int(self._process.bytesToWrite())

    def write(self, message: Message) -> None:
        """Send a message."""
        for frame in frames_of(message):
            self._process.write(QByteArray(frame))

    def kill(self) -> None:
        """End the process at once, in the middle of whatever it does; those who wait hear that it ended."""
        self._process.kill()

    def _stop(self) -> None:
        """Close its stdin, which ends it; a process that does not end is killed. It outlives this object if it must."""
        process = self._process
        process.readyReadStandardOutput.disconnect(self._on_output)
        ...
