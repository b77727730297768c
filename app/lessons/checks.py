"""Judges a reply to a check: at once, from what it was filled with, by the engine's own value.

Pure functions of the question and the reply; what a person types is read as generously as it can be without guessing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ropewalk.app.address import head_name
from ropewalk.app.lessons.plan import Asked, CheckKind
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.text import FilledText, Paragraph, Span, plain_text
from ropewalk.model.lessons.values import UNITS, Quantity, Value, numbers, write

TOLERANCE: Final = 0.01
"""Relative error of a typed number that is let pass where the answer is not whole."""
TRIES: Final = 2
"""Wrong numbers after which the right one is told: after the first nothing is, after the second a hint."""
MOST_DIGITS: Final = 18
"""Of a side that is typed; Python refuses to read thousands of them."""
FRACTIONS: Final[Mapping[str, str]] = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅛": "1/8"}
SPELLINGS: Final[Mapping[str, str]] = {
    "b": "B", "byte": "B", "bytes": "B", "kib": "KiB", "kb": "KiB", "mib": "MiB", "mb": "MiB", "gib": "GiB",
    "gb": "GiB", "tib": "TiB", "tb": "TiB", "flop": "FLOP", "flops": "FLOP", "mflop": "MFLOP", "gflop": "GFLOP",
    "tflop": "TFLOP", "tflops": "TFLOP", "pflop": "PFLOP", "k": "K", "thousand": "K", "m": "M", "million": "M",
    "bn": "billion", "billion": "billion", "%": "%", "percent": "%",
}  # fmt: skip
"""How people spell units; the binary ones are meant even where the i is left out."""
FIGURE = r"(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?"
NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<figure>{FIGURE})?(?P<root>(?:√|sqrt)\(?(?P<under>{FIGURE})\)?)?(?:/(?P<below>{FIGURE}))?"
)


@dataclass(frozen=True)
class Entered:
    """A reply to ``number`` or ``shape``."""

    text: str


@dataclass(frozen=True)
class Chosen:
    """A reply to ``choose``: the place of an option in ``Asked.options``."""

    place: int


@dataclass(frozen=True)
class Clicked:
    """A reply to ``click``: the selection after the click."""

    layer: int = 0
    head: int = 0
    query: int = 0
    key: int = 0
    plane: int = 0


@dataclass(frozen=True)
class Marked:
    """A reply to ``say``: for each point, whether it was said; and how long it took."""

    points: tuple[bool, ...]
    seconds: float = 0.0


Reply: TypeAlias = Entered | Chosen | Clicked | Marked


@dataclass(frozen=True)
class Verdict:
    """What came of a reply.

    Attributes
    ----------
    right
        Whether it was right.
    sentence
        What to say first: right, or what was wrong with it, with the engine's value.
    answer
        The engine's own value, or the right option, written.
    because
        What is said to just this reply: about the option, or about the misunderstanding behind a number.
    why
        The reason, to be read once the answer is told.
    remark
        What is wrong with a number or a shape, which does not give it away.
    hint
        What helps before the next try.
    told
        Whether the answer is told; a number is not before it was tried again.
    """

    right: bool
    sentence: str
    answer: str
    because: tuple[Span, ...]
    why: FilledText
    remark: str = ""
    hint: FilledText = ()
    told: bool = True

    @property
    def text(self) -> str:
        """Sentence and because, as plain characters."""
        return " ".join(part for part in (self.sentence, plain_text(self.because)) if part)


def judge(asked: Asked, reply: Reply, misses: int = 0) -> Verdict:
    """Judge a reply, after so many wrong ones to the same numbers.

    Raises
    ------
    LessonError
        When the reply cannot be read, or is of another kind than the question; it then counts as none.
    """
    wanted, judged = JUDGES[asked.kind]
    if asked.missing:
        raise LessonError(asked.missing)
    if not isinstance(reply, wanted):
        raise LessonError(f"This question wants a reply of another kind than {type(reply).__name__.lower()}.")
    verdict = judged(asked, reply)
    if verdict.right or asked.kind not in ("number", "shape") or misses >= TRIES:
        return verdict
    further = "Here is a hint." if misses else "Try once more."
    sentence = " ".join(part for part in (_opening(False), verdict.remark, further) if part)
    return replace(verdict, sentence=sentence, answer="", why=(), hint=verdict.hint if misses else (), told=False)


# ----------------------------------------------------------------------------------------------------------------------
# Each kind


def _judge_choice(asked: Asked, reply: Chosen) -> Verdict:
    if not 0 <= reply.place < len(asked.options):
        raise LessonError(f"There is no option {reply.place + 1}; there are {len(asked.options)}.")
    option = asked.options[reply.place]
    answer = next(plain_text(other.text) for other in asked.options if other.right)
    return Verdict(option.right, _opening(option.right), answer, option.why, asked.why)


def _judge_number(asked: Asked, reply: Entered) -> Verdict:
    wanted = numbers(asked.answer)
    typed = read_numbers(reply.text, asked.unit, several=len(wanted) > 1)
    tolerance = asked.tolerance
    if tolerance is None:
        counted = isinstance(asked.answer, Quantity) or asked.unit
        whole = not counted and all(number.is_integer() for number in wanted)
        tolerance = 0.0 if whole else TOLERANCE
    if _agree(typed, wanted, tolerance):
        return _right(asked)
    because = _matching(asked, lambda value: _agree(typed, numbers(value), tolerance))
    if len(typed) != len(wanted) and not because:
        raise LessonError(f"{len(wanted)} numbers are asked for, but {len(typed)} were typed.")
    return _wrong(asked, "", because, _direction(typed, wanted))


def _direction(typed: tuple[float, ...], wanted: tuple[float, ...]) -> str:
    """What can be said of numbers without telling them."""
    if len(wanted) == 1 == len(typed):
        return f"The number looked for is {'larger' if typed < wanted else 'smaller'}."
    wrong = next((place for place, (a, b) in enumerate(zip(typed, wanted, strict=False)) if abs(a - b) > 1e-9), 0)
    return f"Look at number {wrong + 1} of {len(wanted)}."


def _judge_shape(asked: Asked, reply: Entered) -> Verdict:
    sides = re.findall(r"\d+", reply.text)
    if not sides or max(map(len, sides)) > MOST_DIGITS:
        raise LessonError("Type a shape as numbers, such as 2×5×12 or 2 5 12.")
    typed = tuple(map(int, sides))
    wanted = tuple(round(number) for number in numbers(asked.answer))
    if typed == wanted:
        return _right(asked)
    count = f"{len(wanted)} axis" if len(wanted) == 1 else f"{len(wanted)} axes"
    matched = _matching(asked, lambda value: typed == tuple(round(number) for number in numbers(value)))
    if matched:
        return _wrong(asked, "", matched, f"The shape looked for has {count}.")
    if len(typed) != len(wanted):
        return _wrong(asked, f"It has {count}, yours {len(typed)}.")
    if sorted(typed) == sorted(wanted):
        return _wrong(asked, "The sides are right, but their order is not.")
    place = next(i for i, (a, b) in enumerate(zip(typed, wanted, strict=True)) if a != b)
    return _wrong(asked, f"Axis {place} is not {typed[place]}.", (), f"Axis {place} is the first that is not right.")


def _judge_click(asked: Asked, reply: Clicked) -> Verdict:
    place = {
        "head": (reply.layer, reply.head),
        "cell": (reply.query, reply.key),
        "query": (reply.query,),
        "key": (reply.key,),
        "plane": (reply.plane,),
        "layer": (reply.layer,),
    }[asked.target]
    name = _place_name(asked.target, place)
    worth = _value_at(asked.values, place)
    shown = name if worth is None else f"{name} has {write(worth)}"
    if place in asked.accepted:
        return Verdict(True, f"{_opening(True)} {shown}.", asked.written, (), asked.why)
    best = _value_at(asked.values, asked.accepted[0]) if asked.accepted else None
    looked_for = asked.written if best is None else f"{asked.written} with {write(best)}"
    return Verdict(False, f"{_opening(False)} {shown}; looked for was {looked_for}.", asked.written, (), asked.why)


def _judge_spoken(asked: Asked, reply: Marked) -> Verdict:
    if len(reply.points) != len(asked.points):
        raise LessonError(f"There are {len(asked.points)} points to mark, but {len(reply.points)} were marked.")
    count, late = sum(reply.points), reply.seconds > asked.seconds > 0
    right = all(reply.points) and not late
    took = f" in {reply.seconds:.0f} of {asked.seconds} seconds" if reply.seconds else ""
    sentence = f"{count} of {len(asked.points)} points{took}."
    if all(reply.points) and late:
        sentence += " All of it is there; once more, and shorter."
    return Verdict(right, sentence, plain_text(asked.reveal), (), asked.why)


JUDGES: Final[Mapping[CheckKind, tuple[type, Callable[..., Verdict]]]] = {
    "choose": (Chosen, _judge_choice),
    "number": (Entered, _judge_number),
    "shape": (Entered, _judge_shape),
    "click": (Clicked, _judge_click),
    "say": (Marked, _judge_spoken),
}
"""For each kind of check, the reply it wants and who judges it."""


# ----------------------------------------------------------------------------------------------------------------------
# Wording


def _opening(right: bool) -> str:
    return "Right." if right else "Not quite."


def _right(asked: Asked) -> Verdict:
    return Verdict(True, f"{_opening(True)} The engine says {asked.written}.", asked.written, (), asked.why)


def _wrong(asked: Asked, remark: str, because: tuple[Span, ...] = (), clue: str = "") -> Verdict:
    """A wrong reply, with what was wrong with it, what the engine says, and what would have helped."""
    parts = (_opening(False), remark, f"The engine says {asked.written}.")
    hint = asked.hint or (Paragraph("paragraph", ((Span("words", clue or remark),),)),)
    return Verdict(False, " ".join(part for part in parts if part), asked.written, because, asked.why, remark, hint)


def _matching(asked: Asked, is_it: Callable[[Value], bool]) -> tuple[Span, ...]:
    """What is said to the known mistake that a reply is, empty where it is none."""
    return next((says for value, says in asked.mistakes if is_it(value)), ())


def _place_name(target: str, place: tuple[int, ...]) -> str:
    if target == "head":
        return head_name(*place)
    if target == "cell":
        return f"query {place[0]}, key {place[1]}"
    return f"{target} {place[0]}"


def _value_at(values: Value, place: tuple[int, ...]) -> Value | None:
    """The engine's value of a place, None where there is none."""
    found = values
    for number in place:
        if not isinstance(found, tuple) or not 0 <= number < len(found):
            return None
        found = found[number]
    return None if isinstance(found, tuple) else found


# ----------------------------------------------------------------------------------------------------------------------
# Reading what was typed


def read_numbers(text: str, unit: str = "", several: bool = False) -> tuple[float, ...]:
    """Numbers from what a person typed: ``1,024``, ``√2``, ``1/3``, ``−0.5``, ``1.25 GiB``, ``(1, 2, −1, 0)``.

    Parameters
    ----------
    unit
        What a number without a unit is in; the result is in the plain unit.
    several
        Whether commas stand between numbers instead of in them.

    Raises
    ------
    LessonError
        When a part of it is no number.
    """
    cleaned = text.strip().replace("−", "-").replace("·", "*").replace("×10^", "e").replace("x10^", "e")
    for sign, spelled in FRACTIONS.items():
        cleaned = cleaned.replace(sign, spelled)
    if not several:
        return (_read_number(cleaned.strip("()[]"), unit),)
    parts = [part for part in re.split(r"[\s,;()\[\]]+", cleaned) if part]
    return tuple(_read_number(part, unit) for part in parts)


def _read_number(text: str, unit: str) -> float:
    compact = re.sub(r"(?<=\d)\s+(?=\d{3}\b)", "", text.strip().lower()).replace(" ", "")
    match = NUMBER.match(compact)
    if match is None or not (match["figure"] or match["root"]):
        raise LessonError(f"{text.strip()!r} is no number; type one such as 0.25, 1/4, √2 or 1.25 GiB.")
    rest = compact[match.end() :].strip("/")
    named = unit if not rest else SPELLINGS.get(rest)
    if named is None:
        raise LessonError(
            f"{rest!r} is no unit that is known here; leave it out, or write one such as {unit or 'GiB'}."
        )
    number = _figure(match["figure"]) if match["figure"] else 1.0
    if match["root"]:
        number *= math.sqrt(_figure(match["under"]))
    if match["below"]:
        below = _figure(match["below"])
        if below == 0:
            raise LessonError("Nothing can be divided by 0.")
        number /= below
    factor = UNITS[named][1] if named else 1.0
    return (-number if match["sign"] == "-" else number) * factor


def unit_of(word: str) -> str:
    """The unit that a word names, in one or in many; empty for none."""
    small = word.lower()
    return word if word in UNITS else SPELLINGS.get(small, SPELLINGS.get(small.removesuffix("s"), ""))


def _figure(text: str) -> float:
    return float(text.replace(",", ""))


def _agree(typed: tuple[float, ...], wanted: tuple[float, ...], tolerance: float) -> bool:
    """Whether all numbers agree, within the tolerance of the largest for those that are 0 but for rounding."""
    if len(typed) != len(wanted):
        return False
    largest = max((abs(number) for number in wanted), default=0.0)
    floor = min(largest * max(tolerance, 1e-6) + 1e-9, 1e-3)
    return all(
        math.isfinite(a) and abs(a - b) <= max(tolerance * abs(b), floor if abs(b) <= 1e-6 * largest else 1e-9)
        for a, b in zip(typed, wanted, strict=True)
    )


def example_reply(asked: Asked, right: bool) -> Reply:
    """A reply that is right, or one that is wrong: what a scripted walk answers with."""
    if asked.kind == "choose":
        return Chosen(next(place for place, option in enumerate(asked.options) if option.right == right))
    if asked.kind == "say":
        return Marked(tuple(right for _ in asked.points))
    if asked.kind == "click":
        place = asked.accepted[0] if right else tuple(number + 1000 for number in asked.accepted[0])
        names = {"head": ("layer", "head"), "cell": ("query", "key")}.get(asked.target, (asked.target,))
        return Clicked(**dict(zip(names, place, strict=True)))
    values = [number if right else 2 * number + 1 for number in numbers(asked.answer)]
    if asked.kind == "shape":
        return Entered("×".join(str(round(number)) for number in values))
    scale = UNITS[asked.unit][1] if asked.unit else 1.0
    return Entered(", ".join(repr(number / scale) for number in values))
