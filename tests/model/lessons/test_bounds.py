"""Whatever a lesson's expressions say, they have a value, or are refused in a sentence, and take little of either."""

from __future__ import annotations

import pytest

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.bounds import MOST_WORK
from ropewalk.model.lessons.evaluation import Scope, check, evaluate
from ropewalk.model.lessons.expressions import read_expression
from ropewalk.model.lessons.table import TABLE
from ropewalk.model.lessons.text import read_text
from ropewalk.model.lessons.values import FORMS, UNITS, latex, write
from tests.model.lessons.random_expressions import random_expressions

FORMATS = ("", ".0f", ".9f", *FORMS, *UNITS)
COMPUTED = tuple(name for name, entry in TABLE.items() if not entry.measured)


def worth(source: str, scope: Scope | None = None) -> object:
    return evaluate(read_expression(source), scope or Scope())


def test_random_expressions_are_worth_something_or_refused_in_a_short_sentence() -> None:
    known, refused = 0, list[str]()
    for number, source in enumerate(random_expressions(7, 4_000, COMPUTED)):
        scope = Scope({"much": (1, 2, 3.5)})
        try:
            expression = read_expression(source)
            check(expression, scope)
            value = evaluate(expression, scope)
            known += 1
            write(value, FORMATS[number % len(FORMATS)])
            latex(value, FORMATS[number % len(FORMATS)])
        except LessonError as error:
            refused.append(error.sentence)
    assert known > 500
    assert max(map(len, refused)) < 600
    assert not [sentence for sentence in refused if "gives nothing for what it is given here" in sentence]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("largest([])", "has no largest"),
        ("smallest('a')", "has no largest and no smallest"),
        ("largest_place([[]])", "has no largest"),
        ("share(1, 0)", "A share is taken of 0"),
        ("whole(1e999)", "∞ is no number that can be rounded"),
        ("whole(minus(1e999, 1e999))", "not a number is no number that can be rounded"),
        ("whole(1e300)", "more than 64 bits"),
        ("made_of(9223372036854775807, whole(1e300))", "more than 64 bits"),
        ("kv_bytes(llama3_8b, tokens=9000000000000000000)", "more than 64 bits"),
        ("sharing(decoder(64, 1000000000000, head_width=2), 0)", "at most 100,000"),
        ("weight_bytes(decoder(64, 8, layers=1000000000000))", "at most 1,000"),
        ("'\\ud800'", "half a character"),
        ("[" * 60 + "]" * 60, "lie in one another"),
        ("-" * 300 + "1", "lie in one another"),
    ],
)
def test_what_has_no_value_is_refused_by_name(source: str, why: str) -> None:
    with pytest.raises(LessonError, match=why):
        worth(source)


@pytest.mark.parametrize(("source", "sum_"), [("plus(1e999, -1e999)", "nan"), ("total([1e308, 1e308])", "inf")])
def test_sums_without_an_end_are_what_floats_come_to(source: str, sum_: str) -> None:
    assert str(worth(source)) == sum_


@pytest.mark.parametrize("form", ["exact", "bytes", "flops", "count"])
def test_what_has_no_end_is_not_written_as_a_whole_number(form: str) -> None:
    with pytest.raises(LessonError, match="can be rounded"):
        write(float("inf"), form)


def named(count: int, first: str, following: str) -> Scope:
    """Names of which each stands for an expression of the one before."""
    known = {"l0": read_expression(first)}
    known |= {f"l{n}": read_expression(following.replace("_", f"l{n - 1}")) for n in range(1, count)}
    return Scope(lets=known)


def test_a_name_is_worked_out_once_however_often_it_is_used() -> None:
    scope = named(40, "plus(1, 1)", "plus(_, _)")
    check(read_expression("l39"), scope)
    assert worth("l39", scope) == 2**40
    assert scope.work.taken < 1_000


def test_what_is_inside_is_worked_out_once_for_all_that_is_inside() -> None:
    scope = named(3, "plus(1, 1)", "plus(_, _)")
    inner = scope.inside({"drawn": 3}, {"answer": read_expression("plus(l2, drawn)")})
    assert worth("answer", inner) == 11
    before = scope.work.taken
    assert worth("plus(answer, l2)", inner) == 19
    assert worth("l2", scope) == 8
    assert scope.work.taken - before < 20  # one call more


def test_a_name_means_what_it_meant_where_it_was_given() -> None:
    scope = Scope(
        {"one": 1}, lets={"answer": read_expression("plus(one, 1)"), "twice": read_expression("plus(answer, 0)")}
    )
    inner = scope.inside(lets={"answer": read_expression("40")})
    assert worth("answer", inner) == 40
    assert worth("twice", inner) == 2


def test_lists_of_lists_of_lists_are_refused_before_they_are_made() -> None:
    with pytest.raises(LessonError, match="more than 100,000 numbers"):
        worth("count(l19)", named(20, "[1, 1, 1, 1, 1, 1, 1, 1]", "[_, _, _, _]"))


def test_texts_of_texts_are_refused() -> None:
    with pytest.raises(LessonError, match="letters to write"):
        worth("l19", named(20, "'aaaaaaaaaaaa'", "text([_, _, _, _, _, _, _])"))


def test_names_of_names_are_refused_before_python_gives_up() -> None:
    scope = named(81, "1", "plus(_, 1)")
    for number in range(80):
        check(read_expression(f"l{number}"), scope)
    assert worth("l79", scope) == 80
    with pytest.raises(LessonError, match="stand for one another"):
        check(read_expression("l80"), scope)


def test_all_expressions_together_take_no_more_than_they_may() -> None:
    scope = Scope({"big": tuple(range(90_000))})
    scope.work.take(MOST_WORK - 100_000)
    assert worth("total(big)", scope) == 4_049_955_000
    with pytest.raises(LessonError, match="take more work"):
        worth("total(big)", scope)


@pytest.mark.parametrize(
    "formula", [r"\frac{" * 5 + "1" + "}{2}" * 5, r"\left(" * 5 + "x" + r"\right)" * 5, r"\sqrt{" * 30 + "}" * 30]
)
def test_a_formula_that_takes_for_ever_to_draw_is_refused(formula: str) -> None:
    with pytest.raises(LessonError, match="lie in one another"):
        read_text(f"${formula}$")


def test_so_is_a_text_full_of_formulas() -> None:
    read_text("$x_{i}$ " * 400)
    with pytest.raises(LessonError, match="The formulas of a text"):
        read_text("$x_{i}+x_{i}$ " * 400)
