"""A connection with nothing behind it: it remembers what was written, and answers what a test has it answer."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject

from ropewalk.app.engine.connection import Connection, Ended
from ropewalk.model.engine.frames import Kind, Message
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.requests import Failure, Greeting, RunPrompt
from ropewalk.model.progress import Progress

PACKING = Packing((str, int, Failure, Progress, Greeting, RunPrompt, None))


class FakeConnection(Connection):
    """A process that says what the test has it say.

    Attributes
    ----------
    sent, acknowledged
        What was written to it, and which of its messages were read or refused.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(PACKING, parent)
        self.sent: list[Message] = []
        self.acknowledged: list[Message] = []
        self.stopped = 0

    def write(self, message: Message) -> None:
        self.sent.append(message)

    def acknowledge(self, message: Message) -> None:
        assert message not in self.acknowledged
        self.acknowledged.append(message)

    def kill(self) -> None:
        self.lose(Ended("It is gone.", reason="SIGKILL"))

    def wait(self) -> None:
        """There is nothing to wait for."""

    @property
    def is_running(self) -> bool:
        return self.stopped == 0

    def _stop(self) -> None:
        self.stopped += 1

    # What the test says -------------------------------------------------------------------------------------------

    def of(self, kind: Kind) -> list[int]:
        """The ids of what was written of a kind."""
        return [message.id for message in self.sent if message.kind == kind]

    @property
    def asked(self) -> list[Any]:
        """The requests, read."""
        return [unpacked(message) for message in self.sent if message.kind == "request"]

    def say(self, kind: Kind, value: Any, number: int = 0) -> Message:
        """Answer a request, the newest unless one is named."""
        message = Message(number or self.of("request")[-1], kind, packed=PACKING.pack(value))
        self.arrived(message)
        return message


def unpacked(message: Message) -> Any:
    return PACKING.unpack(message.packed.type, message.packed.data, message.packed.arrays)
