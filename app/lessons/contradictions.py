"""Which claims of a lesson its numbers contradict, and which nobody can decide."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from ropewalk.app.lessons.checks import Entered, judge
from ropewalk.app.lessons.claims import counts
from ropewalk.app.lessons.filling import Worth, answered, fill_check, worth_in
from ropewalk.app.lessons.plan import Check, Claim, Counted, Lesson
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.expressions import Call, Constant, Expression, Items, Name, parts
from ropewalk.model.lessons.values import numbers, write

if TYPE_CHECKING:
    from ropewalk.model.lessons.runs import Runs

DRAWS: Final = 8
"""Draws of fresh numbers that a claim about a check has to hold for."""
SEVERAL: Final = frozenset(("all_of", "none_of", "differ"))
"""Comparisons that say of how many things they are."""
CHAINED: Final = frozenset(("equal", "less", "more", "in_order"))
"""Comparisons that say so from three on: the first two are the comparison itself."""
NEAR: Final = 0.02
"""How far what a claim comes to may be from the part of a whole that is said: what is measured is never a third."""
MOST_COUNTED: Final = 64
"""Numbers of a list that what is counted may be one of; a longer list has every number."""


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

    What is claimed of a check has to hold for several draws of its fresh numbers. What a sentence counts has to be
    among the numbers that its claims come to, and a known mistake must not pass for the answer.
    """
    for step in lesson.steps:
        worth = worth_in(lesson, runs, lets=step.scene.named(lesson.models))
        decides = {id(claim): worth for claim in step.claims}
        for claim in step.claims:
            yield from _contradicted(claim, worth)
        for check in step.checks:
            seeds = range(DRAWS if check.draws else 1)
            worths = [answered(lesson, check, runs, seed) for seed in seeds]
            decides |= {id(claim): worths[0] for claim in check.claims}
            for claim in check.claims:
                yield from islice(chain.from_iterable(_contradicted(claim, worth) for worth in worths), 1)
            yield from islice(chain.from_iterable(_misjudged(lesson, check, runs, seed) for seed in seeds), 1)
        for counted in step.counted:
            yield from _miscounted(counted, decides)


def _miscounted(counted: Counted, decides: Mapping[int, Worth]) -> Iterator[Contradiction]:
    inside = [(part, decides[id(claim)]) for claim in counted.claims for one in claim.holds for part in parts(one)]
    missing = set(counted.numbers) - {number for part, _ in inside for number in _written_in(part)}
    for part, worth in inside:
        if not missing:
            return
        found = _come_to(part, worth)
        missing = {number for number in missing - found if number > 1 or not _is_near(number, found)}
    if missing:
        why = f"no claim on it comes to {' or '.join(map(write, sorted(missing)))}."
        yield Contradiction(counted.line, counted.says, why)


def _is_near(share: float, found: set[float]) -> bool:
    return any(math.isclose(share, one, rel_tol=NEAR) for one in found)


def _written_in(part: Expression) -> Iterator[float]:
    """The numbers that stand in a part of a claim: its own, and how many things it compares."""
    match part:
        case Constant(str() as said):
            yield from counts(said)
        case Constant(int() | float() as number):
            yield float(number)
        case Items(items):
            yield float(len(items))
        case Call(function, arguments, _):
            compared = len(arguments) - (function == "in_order")
            if function in SEVERAL or (function in CHAINED and compared > 2):
                yield float(compared)


def _come_to(part: Expression, worth: Worth) -> set[float]:
    """The numbers that a part of a claim comes to, and how many there are."""
    try:
        value = worth(part)
        found = set() if isinstance(value, bool) else set(numbers(value)[:MOST_COUNTED])
    except LessonError:
        return set()
    return found | ({float(len(value))} if isinstance(value, tuple) else set())


def _misjudged(lesson: Lesson, check: Check, runs: Runs | None, seed: int) -> Iterator[Contradiction]:
    """The answer as it is written has to pass, and no known mistake may."""
    asked = fill_check(lesson, check, runs, seed)
    if check.kind != "number" or asked.missing:
        return
    line, says = check.claims[0].line if check.claims else 1, check.id
    if not judge(asked, Entered(asked.written)).right:
        yield Contradiction(line, says, f"the answer as it is written, {asked.written}, does not pass.")
    for value, _ in asked.mistakes:
        if judge(asked, Entered(write(value, check.unit))).right:
            yield Contradiction(line, says, f"a known mistake, {write(value, check.unit)}, passes for {asked.written}.")


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
