"""Which claims of a lesson its numbers contradict, and which nobody can decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from ropewalk.app.lessons.filling import Worth, answered, worth_in
from ropewalk.app.lessons.plan import Claim, Lesson
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.expressions import Call, Constant, Expression, Items, Name
from ropewalk.model.lessons.values import write

if TYPE_CHECKING:
    from ropewalk.model.lessons.runs import Runs

DRAWS: Final = 8
"""Draws of fresh numbers that a claim about a check has to hold for."""


@dataclass(frozen=True)
class Contradiction:
    """A claim that is not so.

    Attributes
    ----------
    line
        Where it stands in the file.
    says
        The piece of the text.
    why
        What the numbers say instead, or why nobody can tell.
    is_sure
        Whether they say so; else they cannot be had here.
    """

    line: int
    says: str
    why: str
    is_sure: bool = True

    @property
    def sentence(self) -> str:
        """For a person."""
        return (
            f"line {self.line}: “{self.says}” {'is contradicted' if self.is_sure else 'cannot be decided'}: {self.why}"
        )


def contradicted(lesson: Lesson, runs: Runs | None) -> Iterator[Contradiction]:
    """Evaluate every claim of a lesson; give those that are not so, and those that nobody can decide.

    What is claimed of a check has to hold for several draws of its fresh numbers.
    """
    for step in lesson.steps:
        worth = worth_in(lesson, runs, lets=step.scene.named(lesson.models))
        for claim in step.claims:
            yield from _contradicted(claim, worth)
        for check in step.checks:
            worths = [answered(lesson, check, runs, seed) for seed in range(DRAWS if check.draws else 1)]
            for claim in check.claims:
                yield from islice(chain.from_iterable(_contradicted(claim, worth) for worth in worths), 1)


def _contradicted(claim: Claim, worth: Worth) -> Iterator[Contradiction]:
    for expression in claim.holds:
        try:
            if worth(expression) is True:
                continue
            yield Contradiction(claim.line, claim.says[0], _why_not(expression, worth))
        except LessonError as error:
            yield Contradiction(claim.line, claim.says[0], error.sentence, is_sure=False)
        return


def _why_not(expression: Expression, worth: Worth) -> str:
    """Which comparison is not so, with the numbers that it compares."""
    if isinstance(expression, Call):
        if expression.function == "all_of":
            return next(_why_not(one, worth) for one in expression.arguments if worth(one) is not True)
        values = [*expression.arguments, *(value for _, value in expression.named)]
        return f"{written(expression)} is not so: {', '.join(write(worth(value)) for value in values)}."
    return f"{written(expression)} is not so."


def written(expression: Expression) -> str:
    """An expression as an author would write it."""
    match expression:
        case Constant(value):
            return f'"{value}"' if isinstance(value, str) else write(value)
        case Name(name):
            return name
        case Items(items):
            return f"[{', '.join(map(written, items))}]"
        case Call(function, arguments, named):
            given = [*map(written, arguments), *(f"{name}={written(value)}" for name, value in named)]
            return f"{function}({', '.join(given)})"
