"""Replies to checks are judged: numbers as people type them, shapes, clicks, choices and what is said aloud."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ropewalk.app.lessons.checks import TRIES, Chosen, Clicked, Entered, Marked, Verdict, judge, read_numbers
from ropewalk.app.lessons.filling import fill_check
from ropewalk.app.lessons.plan import Asked, AskedOption, Check
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.text import Paragraph, Span, plain_text
from ropewalk.model.lessons.values import Head, Quantity, Shape, Value, numbers
from tests.app.filled_lessons import IDS, lesson_of
from tests.app.small_lesson import NUMBER_CHECK, SMALL, read


def number(answer: Value, **more: Any) -> Asked:
    return Asked("c", "number", 0, False, (), answer=answer, written="W", **more)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("4", "", 4),
        (" 1,024 ", "", 1024),
        ("1 024", "", 1024),
        ("−0.5", "", -0.5),
        (".25", "", 0.25),
        ("1/3", "", 1 / 3),
        ("½", "", 0.5),
        ("√2", "", math.sqrt(2)),
        ("sqrt(2)", "", math.sqrt(2)),
        ("2√2", "", 2 * math.sqrt(2)),
        ("1/√2", "", None),
        ("√2/2", "", math.sqrt(2) / 2),
        ("1e3", "", 1000),
        ("2×10^3", "", 2000),
        ("320", "KiB", 320 * 1024),
        ("320 KiB", "MiB", 320 * 1024),
        ("320kb", "", 320 * 1024),
        ("1.25 GiB", "GiB", 1.25 * 2**30),
        ("8.8 tflops", "TFLOP", 8.8e12),
        ("176.2 M", "", 176.2e6),
        ("12 million", "", 12e6),
        ("32 %", "", 0.32),
        ("(3)", "", 3),
        ("three", "", None),
        ("", "", None),
        ("3 miles", "", None),
        ("1/0", "", None),
    ],
)
def test_numbers_are_read_as_people_type_them(text: str, unit: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(LessonError):
            read_numbers(text, unit)
    else:
        assert read_numbers(text, unit) == pytest.approx((value,))


def test_several_numbers_are_read_in_any_brackets() -> None:
    for text in ("1, 2, -1, 0", "(1, 2, −1, 0)", "[1 2 -1 0]", "1;2;-1;0"):
        assert read_numbers(text, several=True) == (1, 2, -1, 0)


def test_numbers_are_judged_by_their_kind() -> None:
    assert judge(number(4), Entered("4")).right
    assert not judge(number(1024), Entered("1025")).right
    assert judge(number(math.sqrt(2)), Entered("1.41")).right
    assert not judge(number(math.sqrt(2)), Entered("1.3")).right
    assert judge(number(0.0), Entered("0")).right
    assert not judge(number(0.0), Entered("0.01")).right
    assert judge(number(Quantity(1.25 * 2**30, "bytes"), unit="GiB"), Entered("1.25")).right
    assert judge(number(Quantity(1.25 * 2**30, "bytes"), unit="GiB"), Entered("1280 MiB")).right
    assert not judge(number(Quantity(1.25 * 2**30, "bytes"), unit="GiB"), Entered("1.25 MiB")).right
    assert judge(number(Quantity(6_553_600, "count")), Entered("6.55 M")).right
    assert judge(number(100, tolerance=0.1), Entered("108")).right
    assert judge(number((1, 2, -1, 0)), Entered("1 2 -1 0")).right
    assert not judge(number((1, 2, -1, 0)), Entered("1 2 0 -1")).right
    with pytest.raises(LessonError, match="4 numbers are asked for, but 3"):
        judge(number((1, 2, -1, 0)), Entered("1 2 3"))


def test_a_wrong_number_is_met_with_its_misunderstanding() -> None:
    asked = number(8, mistakes=((64, (Span("words", "That is the variance."),)),))
    assert judge(asked, Entered("64")).text == "Not quite. Try once more. That is the variance."
    assert judge(asked, Entered("64"), TRIES).text == "Not quite. The engine says W. That is the variance."
    assert judge(asked, Entered("63"), TRIES).text == "Not quite. The engine says W."
    assert judge(asked, Entered("8")).text == "Right. The engine says W."


def test_a_wrong_number_is_tried_again_then_hinted_at_then_told() -> None:
    why = (Paragraph("paragraph", ((Span("words", "Because."),),)),)
    asked = replace(number(8), why=why)
    first, second, third = (judge(asked, Entered("7"), misses) for misses in range(3))
    assert (first.told, first.answer, first.why, first.hint) == (False, "", (), ())
    assert (second.told, second.answer, second.why) == (False, "", ())
    assert plain_text(second.hint) == "The number looked for is larger."
    assert plain_text(judge(asked, Entered("9"), 1).hint) == "The number looked for is smaller."
    assert plain_text(judge(number((1, 2)), Entered("1 3"), 1).hint) == "Look at number 2 of 2."
    assert judge(replace(asked, hint=why), Entered("7"), 1).hint == why
    assert (third.told, third.answer, third.why) == (True, "W", why)
    assert "W" not in first.text + second.text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2x3x5x4", "Right."),
        ("[2, 3, 5, 4]", "Right."),
        ("2 5 3 4", "Not quite. The sides are right, but their order is not."),
        ("2×3×5×5", "Not quite. Axis 3 is not 5. Try once more."),
        ("2×3×5", "Not quite. It has 4 axes, yours 3."),
        ("9 9", "Not quite. Try once more. Nine."),
    ],
)
def test_shapes_are_judged_axis_by_axis(text: str, sentence: str) -> None:
    mistakes = ((Shape((9, 9)), (Span("words", "Nine."),)),)
    asked = Asked("c", "shape", 0, False, (), answer=Shape((2, 3, 5, 4)), written="W", mistakes=mistakes)
    assert judge(asked, Entered(text)).text.startswith(sentence)
    with pytest.raises(LessonError, match="Type a shape as numbers"):
        judge(asked, Entered("none"))
    with pytest.raises(LessonError, match="Type a shape as numbers"):
        judge(asked, Entered("2×" + "9" * 5000))


def test_clicks_are_judged_with_the_engines_value_of_both() -> None:
    values = ((0.041, 0.5), (0.2, 0.93))
    asked = Asked(
        "c", "click", 0, False, (), answer=Head(1, 1), written="L1H1", target="head", accepted=((1, 1),), values=values
    )
    assert judge(asked, Clicked(layer=1, head=1)).sentence == "Right. L1H1 has 0.93."
    wrong = judge(asked, Clicked(layer=0, head=0)).sentence
    assert wrong == "Not quite. L0H0 has 0.041; looked for was L1H1 with 0.93."
    assert "L7H7; looked" in judge(asked, Clicked(layer=7, head=7)).sentence
    for target, place in (("query", (3,)), ("key", (4,)), ("plane", (5,)), ("layer", (1,)), ("cell", (3, 4))):
        one = replace(asked, target=target, accepted=(place,), values=())  # type: ignore[arg-type]
        assert judge(one, Clicked(1, 0, 3, 4, 5)).right
        assert not judge(one, Clicked(0, 0, 0, 0, 0)).right


def test_what_was_said_aloud_is_marked_by_oneself() -> None:
    asked = Asked("c", "say", 0, False, (), seconds=60, points=((), ()))
    assert judge(asked, Marked((True, True), 50)).sentence == "2 of 2 points in 50 of 60 seconds."
    assert judge(asked, Marked((True, True))).right
    assert not judge(asked, Marked((True, False), 50)).right
    late = judge(asked, Marked((True, True), 75))
    assert not late.right
    assert "shorter" in late.sentence
    with pytest.raises(LessonError, match="2 points to mark, but 1"):
        judge(asked, Marked((True,)))


def test_a_reply_of_another_kind_is_refused() -> None:
    options = (AskedOption((), True, ()), AskedOption((), False, ()))
    with pytest.raises(LessonError, match="another kind"):
        judge(number(4), Chosen(0))
    with pytest.raises(LessonError, match="no option 3"):
        judge(Asked("c", "choose", 0, False, (), options=options), Chosen(2))


def test_options_come_in_an_order_of_their_own_each_time() -> None:
    lesson = lesson_of(IDS[1])
    check = next(check for check in lesson.checks if check.kind == "choose")
    orders = {tuple(plain_text(o.text) for o in fill_check(lesson, check, None, seed).options) for seed in range(20)}
    assert len(orders) > 5


def test_a_mistake_that_fresh_numbers_make_right_is_no_mistake() -> None:
    lesson = read(
        SMALL + NUMBER_CHECK + 'draw = { n = [2] }\nanswer = "times(n, 2)"\n'
        'mistakes = [{ value = "plus(n, 2)", says = "Sum." }, { value = "n", says = "Half." }]\n'
    )
    asked = fill_check(lesson, lesson.checks[0], None, 0)
    assert [plain_text(says) for _, says in asked.mistakes] == ["Half."]


def test_draws_may_be_lists_and_ranges() -> None:
    lesson = read(
        SMALL
        + NUMBER_CHECK
        + 'answer = "total(x)"\ndraw = { x = { from = -3, to = 3, count = 4 }, n = [1, 2] }\n'
        + 'derive = { m = "times(n, 2)" }\n'
    )
    check: Check = lesson.checks[0]
    assert check.is_practice
    for seed in range(5):
        asked = fill_check(lesson, check, None, seed)
        assert -12 <= numbers(asked.answer)[0] <= 12


def test_verdicts_are_plain_data() -> None:
    verdict = Verdict(True, "Right.", "4", (Span("words", "Yes."),), ())
    assert verdict.text == "Right. Yes."


@pytest.mark.parametrize("text", ["104.9", "95.1"])
def test_a_number_within_its_tolerance_is_right(text: str) -> None:
    assert judge(number(100.5, tolerance=0.06), Entered(text)).right
    assert not judge(number(100.5, tolerance=0.03), Entered(text)).right
