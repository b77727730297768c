"""Arithmetic on numbers, lists and quantities."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.values import Head, Quantity, Shape, Value, Vector, numbers, plain, quoted, rounded, write


def _kept(result: float, *values: Value) -> Value:
    """A result, whole where it is whole, in the unit of the one value that has one."""
    units = [value.unit for value in values if isinstance(value, Quantity)]
    whole = round(result) if float(result).is_integer() and abs(result) < 1e15 else result
    return Quantity(whole, units[0]) if len(units) == 1 else whole


def _sum(terms: Iterable[float]) -> float:
    """The exact sum, rounded once; where there is none, what floats come to: ∞, or no number."""
    known = tuple(terms)
    try:
        return math.fsum(known)
    except (OverflowError, ValueError):
        return sum(known)


def _some(values: Value) -> tuple[float, ...]:
    """The numbers in a list that has some."""
    found = numbers(values)
    if not found:
        raise LessonError("A list without numbers has no largest and no smallest one.")
    return found


def times(*factors: Value) -> Value:
    """The product."""
    return _kept(math.prod(plain(factor) for factor in factors), *factors)


def plus(*terms: Value) -> Value:
    """The sum; of lists of the same length, term by term."""
    if any(isinstance(term, tuple) for term in terms):
        return _term_by_term(terms)
    units = [term.unit for term in terms if isinstance(term, Quantity)]
    return _kept(_sum(plain(term) for term in terms), *([Quantity(0, units[0])] if units else []))


def _term_by_term(terms: tuple[Value, ...]) -> Value:
    lists = [term for term in terms if isinstance(term, tuple)]
    if len(lists) != len(terms) or len({len(term) for term in lists}) != 1:
        raise LessonError("plus adds numbers, or lists that are equally long.")
    return tuple(
        _term_by_term(items) if any(isinstance(item, tuple) for item in items) else _sum(map(plain, items))
        for items in zip(*lists, strict=True)
    )


def minus(first: Value, second: Value) -> Value:
    """The difference."""
    unit = [Quantity(0, first.unit)] if isinstance(first, Quantity) else []
    return _kept(plain(first) - plain(second), *unit)


def divided(first: Value, second: Value) -> Value:
    """The quotient; of two quantities of one unit, a plain number."""
    below = plain(second)
    if below == 0:
        raise LessonError("Something is divided by 0.")
    same = isinstance(first, Quantity) and isinstance(second, Quantity)
    return _kept(plain(first) / below, *(() if same else (first,)))


def power(base: float, exponent: float) -> float:
    """The base to the exponent."""
    try:
        return float(base**exponent)
    except (OverflowError, ZeroDivisionError, TypeError) as error:
        raise LessonError(f"{base} to the power {exponent} is no number.") from error


def root(number: float) -> float:
    """The square root."""
    if number < 0:
        raise LessonError(f"{number} has no square root.")
    return math.sqrt(number)


def log(number: float) -> float:
    """The natural logarithm."""
    if number <= 0:
        raise LessonError(f"{number} has no logarithm.")
    return math.log(number)


def whole(number: Value) -> int:
    """The nearest whole number."""
    return rounded(number)


def share(part: Value, all_of_it: Value) -> Quantity:
    """One number as a share of another, written in percent."""
    below = plain(all_of_it)
    if below == 0:
        raise LessonError("A share is taken of 0.")
    return Quantity(plain(part) / below, "share")


def item(values: Value, place: int) -> Value:
    """The item of a list at a place, counted from 0; −1 is the last."""
    if isinstance(values, Shape):
        values = tuple(values.sides)
    if not isinstance(values, tuple) or not -len(values) <= place < len(values):
        raise LessonError(f"There is no item {place} in {quoted(values)}.")
    return values[place]


def first(values: Value, count: int) -> Value:
    """The first items of a list."""
    if not isinstance(values, tuple):
        raise LessonError(f"{quoted(values)} is no list.")
    return values[:count]


def count(values: Value) -> int:
    """How many items a list has."""
    if not isinstance(values, tuple):
        raise LessonError(f"{quoted(values)} is no list.")
    return len(values)


def largest(values: Value) -> float:
    """The largest number in a list."""
    return max(_some(values))


def largest_place(values: Value) -> int:
    """The place of the largest number in a list, counted from 0."""
    found = _some(values)
    return found.index(max(found))


def smallest(values: Value) -> float:
    """The smallest number in a list."""
    return min(_some(values))


def total(values: Value) -> Value:
    """The sum of a list."""
    return _kept(_sum(numbers(values)))


def joined(rows: Value) -> Vector:
    """The rows of a matrix as one list."""
    return numbers(rows)


def split(vector: Vector, heads: int) -> tuple[Vector, ...]:
    """A projected vector as heads: consecutive features."""
    if heads < 1 or len(vector) % heads:
        raise LessonError(f"{len(vector)} features do not make {heads} heads of one width.")
    width = len(vector) // heads
    return tuple(vector[head * width : (head + 1) * width] for head in range(heads))


def dot(first: Vector, second: Vector) -> Value:
    """The dot product."""
    if len(first) != len(second):
        raise LessonError(f"Vectors of {len(first)} and {len(second)} numbers have no dot product.")
    return _kept(_sum(a * b for a, b in zip(first, second, strict=True)))


def layer_of(head: Head) -> int:
    """The layer of a head."""
    return head.layer


def head_of(head: Head) -> int:
    """The number of a head in its layer."""
    return head.head


def text(value: Value, form: str = "") -> str:
    """A value as it is written, for use inside a list."""
    return write(value, form)


def ranked(values: Value) -> Vector:
    """The numbers of a list, the largest first."""
    return tuple(sorted(numbers(values), reverse=True))


def nucleus(values: Value, share: float) -> int:
    """How many of the largest numbers of a list it takes until their sum reaches so much."""
    reached, found = 0.0, ranked(values)
    for place, value in enumerate(found, start=1):
        reached += value
        if reached >= share:
            return place
    return len(found)


def entropy_of(values: Value) -> float:
    """The entropy of a list of probabilities, in nats."""
    return _sum(-value * math.log(value) for value in numbers(values) if value > 0)
