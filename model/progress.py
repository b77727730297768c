"""How far a long computation is: what every generator in the model package yields."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")


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


Steps: TypeAlias = Generator[Progress, None, Result]
"""A computation that yields progress and returns a result."""


def finished(steps: Steps[Result]) -> Result:
    """Run a computation to its end without pausing."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: Result = stop.value
            return result
