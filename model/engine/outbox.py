"""Messages on their way out: the most urgent first, never more than the other side has given credit for.

Without credit nothing is sent, however much there is to say: a reader that does not read would else gather it all in
memory. A message goes out piece by piece; one that nobody wants any more is not begun, or given up between two pieces.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from ropewalk.model.engine.frames import HEAD, Kind, Message, Piece, abandoned, frames_of

CREDIT = 4 << 20
"""Bytes that may be on their way without having been acknowledged."""


class Outgoing:
    """A message, as far as it has been sent."""

    def __init__(self, message: Message, place: int) -> None:
        self.message = message
        self.order = (message.urgency, place)
        self.begun = False
        self._frames: Iterator[Piece] = frames_of(message)
        self._next: Piece | None = next(self._frames)

    @property
    def size(self) -> int:
        """Bytes of the next piece; 0 when there is none."""
        return 0 if self._next is None else sum(map(len, self._next))

    def take(self) -> Piece:
        """The next piece."""
        piece, self._next = self._next, next(self._frames, None)
        self.begun = True
        assert piece is not None
        return piece


class Outbox:
    """The messages that wait; every method may be called on any thread.

    Attributes
    ----------
    sent
        Called when a message has gone out whole.
    """

    def __init__(self) -> None:
        self.sent: Callable[[], None] = lambda: None
        self._waiting: list[Outgoing] = []
        self._given_up: list[int] = []
        self._credit = CREDIT
        self._placed = 0
        self._closed = False
        self._condition = threading.Condition()

    def put(self, message: Message) -> None:
        """Send a message when its turn comes.

        Raises
        ------
        FrameError
            When it is too large to be sent.
        """
        with self._condition:
            self._placed += 1
            self._waiting.append(Outgoing(message, self._placed))
            self._condition.notify()

    def drop(self, number: int) -> None:
        """Send nothing more for the request of this number: what has begun is given up, the rest is not begun."""
        with self._condition:
            mine = [one for one in self._waiting if one.message.id == number]
            self._waiting = [one for one in self._waiting if one.message.id != number]
            self._given_up += [number for one in mine if one.begun]
            self._condition.notify()

    def holds(self, number: int, *kinds: Kind) -> bool:
        """Whether a message of one of these kinds for the request of this number has not gone out yet."""
        with self._condition:
            return any(one.message.id == number and one.message.kind in kinds for one in self._waiting)

    def grant(self, size: int) -> None:
        """Have so many bytes acknowledged by the other side."""
        with self._condition:
            self._credit += size
            self._condition.notify()

    def close(self) -> None:
        """Send nothing more."""
        with self._condition:
            self._closed = True
            self._condition.notify()

    def next(self) -> Piece | None:
        """Wait for the next piece that may go out; None when there will be none."""
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._given_up or self._is_ready())
            if self._closed:
                return None
            if self._given_up:
                self._credit -= HEAD.size
                return (abandoned(self._given_up.pop(0)),)
            outgoing = min(self._waiting, key=lambda one: one.order)
            self._credit -= outgoing.size
            piece = outgoing.take()
            done = not outgoing.size
            if done:
                self._waiting.remove(outgoing)
        if done:
            self.sent()
        return piece

    def _is_ready(self) -> bool:
        """Whether the most urgent message may go on."""
        if not self._waiting:
            return False
        return min(self._waiting, key=lambda one: one.order).size <= self._credit
