"""How values are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ropewalk.model.lessons.values import Quantity, write
from ropewalk.model.options import ADAPTER, TRANSFORMERS, VIA
from ropewalk.views.style import wording

ROOT = Path(__file__).resolve().parents[3]


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


def test_memory_is_in_binary_units_and_counts_are_in_decimal_ones() -> None:
    assert wording.byte_size(11 * 576 * 4) == "24.75 KiB"
    assert wording.byte_size(320 * 1024) == write(Quantity(320 * 1024, "bytes")) == "320 KiB"
    assert wording.byte_size(999) == "999 B"
    assert wording.byte_size(2**20 - 1) == "1 MiB"
    assert wording.count(0) == ""
    assert wording.count(9_999) == "9,999"
    assert wording.count(14_155_776) == "14.2 M"


def test_memory_is_in_binary_units_in_every_text() -> None:
    texts = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("resources/lessons/*.toml")]
    for path in texts:
        assert not re.findall(r"\d ?[kKMGT]B\b", path.read_text(encoding="utf-8")), path.name


def test_a_tooltip_is_never_markup() -> None:
    assert wording.tooltip("q · k") == "q · k"
    assert "&lt;s&gt;" in wording.tooltip("<s>")
    assert wording.tooltip("a" * 1_000_000) == f"{'a' * wording.LONGEST_TIP}…"


def test_heads_and_shapes_are_written_one_way() -> None:
    assert wording.head_name(1, 3) == "L1H3"
    assert wording.shape((1, 8, 12, 12)) == "1×8×12×12"


def test_what_was_opened_is_named_with_how() -> None:
    assert wording.opened_as("tiny", {}) == "tiny"
    assert wording.opened_as("tiny", {ADAPTER: "/adapters/mine"}) == "tiny + mine"
    assert wording.opened_as("opt", {VIA: TRANSFORMERS}) == "opt, via transformers"
