"""Numbers in sentences: the digits that a sentence may have when a number was computed twice, in two ways."""

from __future__ import annotations

import itertools

from ropewalk.views.style import wording

OFF = 1e-5
"""How far two float32 ways to a number near 1 lie apart at most: some hundred roundings of 2⁻²⁴."""


def spellings(value: float, digits: int = 3, off: float = OFF) -> list[str]:
    """A number as it may be written: where it lies at the edge between two last digits, it has two spellings."""
    slack = off * max(1.0, abs(value))
    return list(dict.fromkeys(wording.number(near, digits) for near in (value, value - slack, value + slack)))


def assert_shown(text: str, phrase: str, *values: float, digits: int = 3, off: float = OFF) -> None:
    """Hold a text to a phrase whose every ``{}`` is a number, rounded to what the text shows of it."""
    possible = [phrase.format(*spelled) for spelled in itertools.product(*(spellings(v, digits, off) for v in values))]
    assert any(one in text for one in possible), f"none of {possible} in {text!r}"
