"""How far a long computation is: what every generator in the model package yields."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

LEAST_PIECE = 32
"""Rows below which a piece of work is not worth its overhead."""


@dataclass(frozen=True)
class Progress:
    """``done`` of ``total`` parts of ``what``; the computation may be suspended or given up here."""

    done: int
    total: int
    what: str


@dataclass(frozen=True, eq=False)
class Partial(Progress):
    """Progress that brings a part of the result, to be shown before the rest is there."""

    reading: object


SLICE_SECONDS = 0.02
"""How long a computation should go on before it pauses; the window promises that nothing waits for more than 30 ms."""


class Pace:
    """Sizes pieces of work by how long the last ones took, so that each fills about one slice of time.

    Parameters
    ----------
    size
        Of the first piece.
    most, least
        No piece is larger, none need be smaller.
    seconds
        A slice of time.
    """

    def __init__(
        self, size: int, most: int = sys.maxsize, *, least: int = LEAST_PIECE, seconds: float = SLICE_SECONDS
    ) -> None:
        self.size = size
        self._least, self._most, self._seconds = min(size, least), max(size, most), seconds

    def took(self, seconds: float, size: int = 0) -> None:
        """Say how long a piece of ``size``, or of the present size, took; the next is half to twice the present."""
        change = self._seconds / max(seconds, 1e-9) * (size or self.size) / self.size
        self.size = min(max(round(self.size * min(max(change, 0.5), 2.0)), self._least), self._most)

    @contextmanager
    def timed(self, size: int) -> Iterator[None]:
        """Time a piece of ``size``."""
        watch = Watch()
        yield
        self.took(watch.seconds, size)


class Watch:
    """Says when a slice of time is over."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin a slice: after every pause."""
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the slice began."""
        return time.perf_counter() - self._began

    @property
    def over(self) -> bool:
        """Whether it is time for a pause."""
        return self.seconds > SLICE_SECONDS


Steps: TypeAlias = Generator[Progress, None, Result]
"""A computation that yields progress and returns a result."""


Pulse: TypeAlias = Callable[[Progress], None]
"""What work that cannot pause tells its progress to; it raises ``Cancelled`` when the work is to end."""


Pauses: TypeAlias = Generator[None, None, Result]
"""A part of a computation that pauses, and leaves it to the whole to say how far that is."""


def saying(point: Progress, pauses: Pauses[Result]) -> Steps[Result]:
    """Run a part of a computation; ``point`` is said at each of its pauses."""
    while True:
        try:
            next(pauses)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        yield point


def finished(steps: Generator[object, None, Result]) -> Result:
    """Run a computation to its end without pausing."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: Result = stop.value
            return result
