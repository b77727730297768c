"""The comparisons that claims are made of, and what they refuse."""

from __future__ import annotations

import math

import pytest

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.evaluation import Scope, evaluate
from ropewalk.model.lessons.expressions import read_expression


def worth(source: str) -> object:
    return evaluate(read_expression(source), Scope({"nan": math.nan, "v": (1.0, 2.0, 3.0)}))


@pytest.mark.parametrize(
    ("source", "is_so"),
    [
        ("less(1, 2, 3)", True),
        ("less(1, 3, 2)", False),
        ("less(1, 1)", False),
        ("more(3, 2, 1)", True),
        ("more(kv_bytes(llama3_70b), kv_bytes(llama3_8b))", True),
        ("at_least(2, 2)", True),
        ("at_least(1, 2)", False),
        ("at_most(2, 2)", True),
        ("at_most(3, 2)", False),
        ("between(2, 1, 3)", True),
        ("between(4, 1, 3)", False),
        ("close(100, 101)", True),
        ("close(100, 102)", False),
        ("close([1, 0], [1, 0.001], 0.01)", True),
        ("close([1, 0], [1, 0.1], 0.01)", False),
        ("equal(1, 1.0, 1)", True),
        ("equal(1, true)", False),
        ("equal([1, 2], [1, 3])", False),
        ('equal(shape(llama3_8b, "q"), made_of(1, 1, 4096))', True),
        ("differ(1, 2, 1)", False),
        ("differ(1, 2, 3)", True),
        ("is_in(2, v)", True),
        ("is_in(4, v)", False),
        ("all_of(equal(1, 1), equal(1, 2))", False),
        ("none_of(equal(1, 3), equal(1, 2))", True),
        ("rising(v)", True),
        ("falling(v)", False),
        ('in_order(llama3_8b, "q", "rope_q", "scores")', True),
        ('in_order(llama3_8b, "scores", "q")', False),
        ("equal(ranked([2, 3, 1]), [3, 2, 1])", True),
        ("equal(nucleus([0.2, 0.5, 0.3], 0.6), 2)", True),
        ("close(entropy_of([0.5, 0.5]), log(2))", True),
    ],
)
def test_comparisons(source: str, is_so: bool) -> None:
    assert worth(source) is is_so


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("less(1)", "less compares two numbers or more"),
        ("more()", "more compares two numbers or more"),
        ("less(nan, 1)", "is not a number"),
        ("less(v, 1)", "is not one number"),
        ("close([1], [1, 2])", "1 stand against 2"),
        ("equal(1)", "equal compares two values"),
        ("differ(1)", "differ compares two values"),
        ("is_in(1, 2)", "is no list"),
        ("all_of(1)", "all_of takes comparisons"),
        ("none_of(v)", "none_of takes comparisons"),
        ('in_order(llama3_8b, "q", "nothing")', "nothing"),
    ],
)
def test_what_they_refuse(source: str, why: str) -> None:
    with pytest.raises(LessonError, match=why):
        worth(source)
