"""What a lesson's prose claims: which of its words need a number, which have one, and which are contradicted by it.

A claim stands beside the text in the file: a quoted piece of it, and an expression that has to be true for the piece to
be so. :func:`unclaimed` finds the numbers and the comparing words that nobody has written a claim for;
:func:`contradicted` evaluates those that are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ropewalk.app.lessons.filling import Worth, worth_in
from ropewalk.app.lessons.plan import Claim, Lesson
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.expressions import Call, Constant, Expression, Items, Name
from ropewalk.model.lessons.values import write

if TYPE_CHECKING:
    from ropewalk.model.lessons.runs import Runs

COUNTING: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fifteen sixteen twenty thirty forty "
    "fifty sixty seventy eighty ninety hundred hundreds thousand thousands million millions billion half halves third "
    "thirds quarter quarters fifth sixth eighth ninth tenth tenths double doubled twice once both pair pairs dozen"
)
COMPARING: Final = (
    "more less fewer larger largest smaller smallest greater greatest most least longer longest shorter shortest wider "
    "widest narrower faster fastest slower slowest sharper sharpest softer softest higher highest lower lowest better "
    "best worse worst heavier cheaper dearer louder quieter simpler nearer nearest further likelier likeliest earlier "
    "later newer older than strongest stronger weaker weakest commonest brightest"
)
QUANTIFYING: Final = (
    "only every each all none no nothing nobody never always cannot nowhere equal equals equally same alike different "
    "differ differs exactly exact nearly almost hardly alone whole neither nor everything everybody even soft sharp "
    "one-hot not many few little much several identical unchanged untouched"
)
"""Words that somebody has to decide by a number, besides digits."""
WORD: Final = re.compile(
    rf"(?<![\w\-–])(?:{'|'.join((QUANTIFYING, COUNTING, COMPARING)).replace(' ', '|')}|\d[\d,.]*(?<=\d))(?!\w)",
    re.IGNORECASE,
)
UNREAD: Final = re.compile(r"\$\$.*?\$\$|(?<!\\)\$.*?(?<!\\)\$|(?<!\\)\{.*?\}|`.*?`|\[[^\]]*\]")
"""What the linter passes over: formulas, numbers that are filled in, code, and shapes in letters."""
SENTENCE: Final = re.compile(r"\S.*?(?:[.!?](?=\s)|\Z)")


def tidy(text: str) -> str:
    """A text with one space for every stretch of them, as pieces of it are compared."""
    return " ".join(text.split())


def unclaimed(text: str, quotes: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every sentence of a text with numbers and comparing words that no quoted piece covers, and those words.

    Questions state nothing and are passed over.
    """
    whole = tidy(text)
    covered = [False] * len(whole)
    for quote in map(tidy, quotes):
        at = whole.find(quote)
        while at >= 0:
            covered[at : at + len(quote)] = [True] * len(quote)
            at = whole.find(quote, at + 1)
    read = UNREAD.sub(lambda unread: "_" * len(unread[0]), whole)
    for sentence in SENTENCE.finditer(read):
        words = (word for word in WORD.finditer(read, *sentence.span()) if not covered[word.start()])
        found = tuple(word[0] for word in words)
        if found and not sentence[0].endswith("?"):
            yield whole[sentence.start() : sentence.end()], found


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
    """Evaluate every claim of a lesson; give those that are not so, and those that nobody can decide."""
    worth = worth_in(lesson, runs)
    for step in lesson.steps:
        for claim in step.claims:
            yield from _contradicted(claim, worth)


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
