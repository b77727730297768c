"""How much a lesson's expressions may take: how large a value may be, and how much work all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.expressions import LARGEST
from ropewalk.model.lessons.values import Cell, Head, Quantity, Shape, Value

MOST: Final = 100_000
"""Numbers, texts and letters of one value, and of all arguments of a call."""
MOST_LAYERS, MOST_WIDE = 1_000, 100_000
"""What a config's layers, and its heads and their width, stay at: some counts go over each of them."""
MOST_TOKENS: Final = 4_096
"""Random tokens that something may be measured on."""
MOST_WORK: Final = 1_000_000
"""What all expressions of a file, or of a step, may take together: a value takes its size."""
CALL, MEASURED = 10, 1_000
"""What a call takes besides, and one that runs a model."""
QUOTED: Final = 400
"""Letters of a refusal."""

Bounded = TypeVar("Bounded", bound=Value)


class Work:
    """What has been taken so far."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self, amount: int) -> None:
        """Take some more.

        Raises
        ------
        LessonError
            When that is more than there is.
        """
        self.taken += amount
        if self.taken > MOST_WORK:
            raise LessonError("The expressions here take more work than a lesson may; write fewer, or smaller lists.")


def bounded(value: Bounded, what: str) -> Bounded:
    """A value, unless it is too large.

    Parameters
    ----------
    what
        What it is called in a sentence.

    Raises
    ------
    LessonError
        When it is.
    """
    size_of(value, what)
    return value


def size_of(value: Value, what: str) -> int:
    """How many numbers, texts and letters a value holds, lists included.

    Raises
    ------
    LessonError
        When it holds more than :data:`MOST`, or a number that is too large.
    """
    left, size = [value], 0
    while left:
        one = left.pop()
        size += 1
        if isinstance(one, tuple):
            left += one if size + len(left) + len(one) <= MOST else one[: MOST + 1]
        elif isinstance(one, str):
            size += len(one)
        elif any(abs(number) >= LARGEST for number in _whole_numbers(one)):
            raise LessonError(f"{what} has a whole number of more than 64 bits; write a smaller one.")
        elif isinstance(one, ModelConfig):
            _check_config(one, what)
        if size > MOST:
            raise LessonError(f"{what} has more than {MOST:,} numbers or letters; write a smaller one.")
    return size


def check_tokens(tokens: int, function: str) -> None:
    """Refuse to measure on more random tokens than a lesson may."""
    if not 1 <= tokens <= MOST_TOKENS:
        raise LessonError(f"{function} takes 1 to {MOST_TOKENS:,} tokens, not {tokens:,}.")


def _whole_numbers(value: Value) -> Iterator[int]:
    match value:
        case int():
            yield value
        case Quantity(amount) if isinstance(amount, int):
            yield amount
        case Shape(sides):
            yield from sides
        case Head(one, other) | Cell(one, other):
            yield from (one, other)


def _check_config(config: ModelConfig, what: str) -> None:
    for name, most in (("layers", MOST_LAYERS), ("heads", MOST_WIDE), ("head_width", MOST_WIDE)):
        if getattr(config, name) > most:
            raise LessonError(f"{what} has {name} {getattr(config, name):,}, but a lesson's are at most {most:,}.")
    experts = 0 if config.moe is None else config.moe.experts
    sizes = (config.vocabulary, config.width, config.mlp_width, config.max_position, experts)
    if max(sizes) >= LARGEST:
        raise LessonError(f"{what} has a size of more than 64 bits; write a smaller one.")
