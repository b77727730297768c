"""How values are written."""

from __future__ import annotations

import pytest

from ropewalk.views.style import wording


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (0.5134, "0.513"),
        (-1.5384, "−1.538"),
        (42.04, "42.04"),
        (1234.56, "1235"),
        (0.0001234, "1.23e−4"),
        (float("inf"), "∞"),
        (float("-inf"), "−∞"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_keep_what_matters(value: float, text: str) -> None:
    assert wording.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(12.566, "12.6"), (0.031622, "0.0316"), (0.0099999998, "0.0100"), (1.0, "1.00"), (0.0, "0")]
)
def test_angles_keep_three_figures(value: float, text: str) -> None:
    assert wording.significant(value) == text


def test_sizes_are_decimal_as_in_the_look() -> None:
    assert wording.byte_size(11 * 576 * 4) == "25.3 KB"
    assert wording.byte_size(506_880) == "507 KB"
    assert wording.byte_size(999) == "999 B"
    assert wording.byte_size(999_999) == "1.00 MB"
    assert wording.count(0) == ""
    assert wording.count(9_999) == "9,999"
    assert wording.count(14_155_776) == "14.2 M"


def test_a_tooltip_is_never_markup() -> None:
    assert wording.tooltip("q · k") == "q · k"
    assert "&lt;s&gt;" in wording.tooltip("<s>")


def test_heads_and_shapes_are_written_one_way() -> None:
    assert wording.head_name(1, 3) == "L1H3"
    assert wording.shape((1, 8, 12, 12)) == "1×8×12×12"
