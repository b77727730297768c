"""Comparisons of numbers, lists and heads: what a lesson's claims are decided by. Each gives true or false."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.values import Value, numbers, plain, quoted


def less(*values: Value) -> bool:
    """Whether each number is less than the next one."""
    return all(first < second for first, second in pairwise(_several("less", values)))


def more(*values: Value) -> bool:
    """Whether each number is more than the next one."""
    return all(first > second for first, second in pairwise(_several("more", values)))


def at_least(first: Value, second: Value) -> bool:
    """Whether a number is another one or more."""
    return plain(first) >= plain(second)


def at_most(first: Value, second: Value) -> bool:
    """Whether a number is another one or less."""
    return plain(first) <= plain(second)


def between(number: Value, low: Value, high: Value) -> bool:
    """Whether a number lies between two others, or is one of them."""
    return plain(low) <= plain(number) <= plain(high)


def close(first: Value, second: Value, within: float = 0.01) -> bool:
    """Whether numbers, or all numbers of two lists, differ by no more than a share of the largest of them."""
    here, there = numbers(first), numbers(second)
    if not here or len(here) != len(there):
        raise LessonError(f"close compares numbers one by one, but {len(here)} stand against {len(there)}.")
    bound = within * max(map(abs, (*here, *there)))
    return all(abs(a - b) <= bound for a, b in zip(here, there, strict=True))


def equal(*values: Value) -> bool:
    """Whether values are all the same, to the last digit; numbers, lists, shapes, heads or texts."""
    if len(values) < 2:
        raise LessonError("equal compares two values or more.")
    return all(_same(first, second) for first, second in pairwise(map(_likeness, values)))


def differ(*values: Value) -> bool:
    """Whether no two of some values are the same."""
    if len(values) < 2:
        raise LessonError("differ compares two values or more.")
    return not any(_same(one, other) for one, other in combinations(map(_likeness, values), 2))


def is_in(value: Value, values: Value) -> bool:
    """Whether a value is one of a list."""
    if not isinstance(values, tuple):
        raise LessonError(f"{quoted(values)} is no list.")
    wanted = _likeness(value)
    return any(_same(wanted, _likeness(one)) for one in values)


def all_of(*claims: Value) -> bool:
    """Whether every one of some comparisons is true."""
    return all(_truths("all_of", claims))


def none_of(*claims: Value) -> bool:
    """Whether no one of some comparisons is true."""
    return not any(_truths("none_of", claims))


def rising(values: Value) -> bool:
    """Whether each number of a list is more than the one before it."""
    return less(*numbers(values))


def falling(values: Value) -> bool:
    """Whether each number of a list is less than the one before it."""
    return more(*numbers(values))


def _several(name: str, values: tuple[Value, ...]) -> tuple[float, ...]:
    if len(values) < 2:
        raise LessonError(f"{name} compares two numbers or more.")
    found = tuple(plain(value) for value in values)
    if any(map(math.isnan, found)):
        raise LessonError(f"{name} compares numbers, and one of these is not a number.")
    return found


def _likeness(value: Value) -> tuple[bool, Value, tuple[float, ...]]:
    """What a value is compared by: whether it is true or false, itself, and its numbers."""
    return isinstance(value, bool), value, numbers(value)


def _same(first: tuple[bool, Value, tuple[float, ...]], second: tuple[bool, Value, tuple[float, ...]]) -> bool:
    """Equal in kind and value; 1 and 1.0 are one number, 1 and true are not."""
    return first[0] == second[0] and (first[1] == second[1] or (bool(first[2]) and first[2] == second[2]))


def _truths(name: str, claims: tuple[Value, ...]) -> tuple[bool, ...]:
    for claim in claims:
        if not isinstance(claim, bool):
            raise LessonError(f"{name} takes comparisons, but {quoted(claim)} is none.")
    return tuple(claim for claim in claims if isinstance(claim, bool))
