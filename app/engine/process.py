"""A process of our own at the other end of a pipe, by QProcess: started, written to, read, and seen out."""

from __future__ import annotations

import ctypes
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QFileInfo, QObject, QProcess, QProcessEnvironment, QTimer

from ropewalk.app.engine.connection import Connection, Ended
from ropewalk.app.engine.deaths import CRASHED, explained
from ropewalk.model.child_process import MARK
from ropewalk.model.engine.frames import FrameReader, Message, NoMagicError, frames_of
from ropewalk.model.engine.packing import Packing
from ropewalk.model.errors import RopewalkError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's ``malloc.h``."""
DETAILS = 1 << 16
"""Bytes that are kept of what a process wrote to stderr."""
GRACE_MS = 2000
"""How long a process may take to end once it has been told to."""
GREETING_MS = 60_000
"""How long one may take to say that it is there: another machine may ask for a key first."""
LIMIT_STATUS = 1
"""With which a process ends at a limit (``model.limits``)."""
LEAST_CREDIT = 1 << 16
"""Bytes below which it is not worth saying that they were read."""


class ProcessConnection(Connection):
    """The way to a process that was started by a command.

    Parameters
    ----------
    command
        The program and its arguments.
    packing
        The types that pass.
    typed
        The command as a person typed it; empty where nobody did.
    """

    def __init__(
        self, command: Sequence[str], packing: Packing, typed: str = "", parent: QObject | None = None
    ) -> None:
        super().__init__(packing, parent)
        _keep_pages()
        self.command = tuple(command)
        self._typed = typed
        self._what = f"The engine that {typed!r} was to start" if typed else "The engine"
        self._advice = "check the command" if typed else "start it again"
        self._frames = FrameReader(magic=True)
        self._said = bytearray()
        self._told_at = 0.0
        self._granted = 0
        self._unread = 0
        self._process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("PYTHONUNBUFFERED", "1")  # what is said in the moment of a crash is heard
        self._process.setProcessEnvironment(environment)
        self._process.readyReadStandardOutput.connect(self._on_output)
        self._process.readyReadStandardError.connect(self._on_error_output)
        self._process.errorOccurred.connect(self._on_error)
        self._process.finished.connect(self._on_finished)
        self._greeting = QTimer(self)
        self._greeting.setSingleShot(True)
        self._greeting.setInterval(GREETING_MS)
        self._greeting.timeout.connect(self._on_no_greeting)
        self._greeting.start()
        self._process.start(self.command[0], list(self.command[1:]))

    @property
    def pid(self) -> int:
        """The number of the process on this machine; 0 when there is none."""
        return int(self._process.processId())

    @property
    def details(self) -> str:
        """What the process wrote to stderr of late, and to stdout before it spoke as it should."""
        return (self._frames.banner + bytes(self._said)).decode("utf-8", "replace").strip()

    def write(self, message: Message) -> None:
        """Send a message."""
        # in one go: a handle may end while this is under way, and what that says must not come in between
        self._process.write(b"".join(part for frame in frames_of(message) for part in frame))
        if message.kind == "request":  # at once: the loop may paint for long before it would write by itself
            self._process.waitForBytesWritten(0)

    @property
    def is_running(self) -> bool:
        """Whether there is a process at the other end."""
        return self._process.state() != QProcess.ProcessState.NotRunning

    def kill(self) -> None:
        """End the process at once, in the middle of whatever it does; those who wait hear that it ended."""
        self._process.kill()

    def wait(self) -> None:
        """Wait for the end of a process that was told to end; one that has not ended after its time is killed."""
        left = max(GRACE_MS - round(1000 * (time.monotonic() - self._told_at)), 0)
        if self.is_running and not self._process.waitForFinished(left):
            self._process.kill()
            self._process.waitForFinished(GRACE_MS)

    def acknowledge(self, message: Message) -> None:
        """Let the other side send as much more as this message took."""
        self._unread -= _size(message)
        self._grant()

    def _grant(self) -> None:
        more = self._frames.taken - self._unread - self._granted
        if self.gone is None and more >= LEAST_CREDIT:
            self._granted += more
            self._send("credit", more)

    def _stop(self) -> None:
        """Close its stdin, which ends it; a process that does not end is killed."""
        self._greeting.stop()
        self._told_at = time.monotonic()
        if self.is_running:
            self._process.closeWriteChannel()
            QTimer.singleShot(GRACE_MS, self._process, self._process.kill)

    def _on_output(self) -> None:
        data = memoryview(cast("ReadableBuffer", self._process.readAllStandardOutput()))  # bytes would be another copy
        if self.gone is not None:
            return
        try:
            messages = self._frames.feed(data)
        except NoMagicError as error:
            self._on_no_engine(error)
            return
        except RopewalkError as error:
            self.distrust(error)
            return
        self._unread += sum(map(_size, messages))
        self._grant()
        for message in messages:
            if message.kind == "hello":
                self._greeting.stop()
            self.arrived(message)

    def _on_error_output(self) -> None:
        self._said += self._process.readAllStandardError().data()
        del self._said[:-DETAILS]

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            details = self._process.errorString()
            self.lose(Ended(self._why_not_started(details), details, reason="it could not be started", had_begun=False))

    def _why_not_started(self, details: str) -> str:
        program = self.command[0]
        try:
            shlex.split(self._typed)
        except ValueError as error:  # see who split it
            if "quotation" in str(error):
                return "A quotation mark in the command is not closed."
        if self._typed and shutil.which(program) is None and not QFileInfo.exists(program):
            return f"There is no program {program!r} here; check the command."
        return f"{self._what} could not be started: {details.rpartition(': ')[2].rstrip('.')}; {self._advice}."

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._on_error_output()
        if self.gone is None:
            self._on_output()
        sentence = _at_limit(self.details) if code == LIMIT_STATUS else ""
        if self.gone is None and sentence:
            self.lose(Ended(sentence, at_limit=True))
        if self.gone is None:
            reason = _ending(code, status)
            sentence = (
                f"The engine has ended ({reason}); what is on screen stays, "
                f"and nothing is computed until it is started again. {explained(reason)}"
            ).strip()
            has_begun = not self._greeting.isActive()
            if not has_begun:
                last = (self.details.splitlines() or ["it said nothing"])[-1]  # as a rule, why
                sentence = f"{self._what} ended before it had begun ({reason}: {last.rstrip('.')}); {self._advice}."
            self.lose(Ended(sentence, self.details, reason=reason, had_begun=has_begun))
        self.go_if_unused()

    def _on_no_engine(self, error: NoMagicError) -> None:
        sentence = f"{self._what} prints {error.first!r} and so on, as no engine does; {self._advice}."
        self.lose(Ended(sentence, self.details, reason="it is no engine", had_begun=False))
        self.kill()

    def _on_no_greeting(self) -> None:
        self._process.kill()
        self.lose(
            Ended(
                f"{self._what} did not answer for {GREETING_MS // 1000} seconds; {self._advice}.",
                self.details,
                reason="it did not answer",
                had_begun=False,
            )
        )


@cache
def _keep_pages() -> None:
    """Let what a picture took be taken again by the next: pages from the system are slow where they are many."""
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
        if set_option is not None:
            set_option(M_MMAP_THRESHOLD, 32 << 20)
            set_option(M_TRIM_THRESHOLD, 64 << 20)


def _size(message: Message) -> int:
    return len(message.packed.data) + sum(array.nbytes for array in message.packed.arrays)


def _at_limit(said: str) -> str:
    """What a process was ended for by its watcher, in a sentence; empty where it was not."""
    last = (said.splitlines() or [""])[-1]
    return last.removeprefix(MARK) if last.startswith(MARK) else ""


def _ending(code: int, status: QProcess.ExitStatus) -> str:
    """How a process ended, in a word or two."""
    crashed = status == QProcess.ExitStatus.CrashExit
    with suppress(ValueError):
        return signal.Signals(code if crashed else code - 128).name  # a shell adds so much to its command's signal
    return CRASHED if crashed else f"exit status {code}"
