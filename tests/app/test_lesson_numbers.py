"""The numbers of the lessons that come along, held to hand values, and what they say of themselves held to be so."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.app.filled_lessons import IDS, lesson_of, plain_text_of, runs_of

GOLDEN: dict[str, tuple[str, ...]] = {
    "00-ids-to-logits": (r"V \times D = 1{,}024 \times 128", "1×16×1024", "D, D, V", "own object? yes"),
    "01-one-token-three-views": (
        r"k = \begin{pmatrix}1 & 2 & -1 & 0\end{pmatrix}",
        r"v = \begin{pmatrix}2 & 2 & 0 & 1\end{pmatrix}",
        "query | (1, 2) | (0, −1)",
        "key | (1, 2) | (−1, 0)",
        "value | (2, 2) | (0, 1)",
        "head 0 finds 5 and head 1 finds 0",
        "(1, 2), (3, 4), (5, 6)",
        "2×5×12",
        "2×3×5×4",
        "So 4 for a width of eight in two heads, and 4 for twelve in three",
        "from (1, 2) to (−2, 1)",
    ),
    "02-fewer-keys": ("320 KiB", "2.5 MiB", "1.25 GiB", "10 GiB", "(4, 5, 6, 7)", "H % Hkv = 0"),
    "03-the-attention-layer": (
        "4096×4096",
        "1024×4096",
        "41.9 M",
        "67.1 M",
        "2048×1024",
        "1×32×10×128",
        "1×8×100×128",
        "1×32×10×100",
        "(0.849, 1.131)",
    ),
    "04-why-divide": ("= 5.657", r"\ln 6 = 1.792"),
    "05-where-am-i": ("Position 8 was asked for", "0 parameters", "128 parameters here (8 positions of 16 features)"),
    "06-rotation-remembers": ("6.283", "19,869", "Only 4 of the 8 planes"),
    "07-walk-one-block": (
        r"Q' = \begin{pmatrix}1 & 1 \\ 1 & 1\end{pmatrix}",
        r"\begin{pmatrix}1.414 & 1.414 \\ 1.414 & 1.414\end{pmatrix}",
        r"P = \begin{pmatrix}1 & 0 \\ 0.5 & 0.5\end{pmatrix}",
        r"PV = \begin{pmatrix}1 & 1 \\ 1 & 0\end{pmatrix}",
        r"X + O = \begin{pmatrix}2 & 2 \\ 2 & -1\end{pmatrix}",
        r"\begin{pmatrix}0.1 & -0.2 \\ 0.3 & 0.1\end{pmatrix}",
        r"\begin{pmatrix}2.1 & 1.8 \\ 2.3 & -0.9\end{pmatrix}",
        "2×3×5×4",
        "2×3×5×5",
        "5×5",
        "2×5×12",
    ),
    "08-norms-and-mlp": ("176.2 M", "41.9 M", "14336×4096", "4096×14336", "(−1.069, −0.535, 0, 1.604)", "1.762"),
    "09-what-grows": ("320 KiB", "1.25 GiB", "2.5 MiB", "10 GiB", "12,288", "4.375 GiB"),
    "10-what-it-costs": ("8.8 TFLOP", "4.4 TFLOP", "32 GiB", "1 GiB", "64 GiB", "2 TiB", "28,628"),
    "11-heads-have-habits": ("q - N + 1".replace(" - ", "-").replace(" + ", "+"), "syntactic"),
    "12-cached-equals-full": ("1×8×1×13",),
    "14-drawing-a-token": ("T | likeliest token",),
    "15-softmax-in-float32": ("9.8 × 10⁻⁴", "0.00781", "0.0625", "bfloat16 | 256", "stands still at 256"),
    "16-attention-and-recurrence": ("8 MiB", "4096 | 512 MiB | 8 MiB", "64 tokens"),
    "17-heads-being-born": ("3,500 steps", "6.93"),
    "13-to-minimind": ("63.9 M", "198.4 M", "12,288 bytes", "1×12×6400", "stores 0"),
}
"""Numbers by hand, from the issue, the papers and the configs, that have to come out of the engine where they stand."""


@pytest.mark.parametrize("lesson_id", IDS)
def test_the_golden_numbers_come_out(lesson_id: str) -> None:
    filled = plain_text_of(lesson_id)
    for golden in GOLDEN[lesson_id]:
        assert golden in filled, golden


def measured(lesson_id: str, expression: str) -> Any:
    from ropewalk.model.lessons.evaluation import Scope, evaluate
    from ropewalk.model.lessons.expressions import read_expression

    lesson = lesson_of(lesson_id)
    scope = Scope(lesson.given, lesson.configs, frozenset(lesson.models), lesson.lets, runs_of(lesson_id))
    return evaluate(read_expression(expression), scope)


def test_rotation_does_what_lesson_6_says() -> None:
    def of(expression: str) -> Any:
        return measured("06-rotation-remembers", expression)

    products = [of(f"turned_product(q, k, {m}, {n}, [theta])") for m, n in ((5, 2), (15, 12), (1005, 1002))]
    angle = 0.5 * (2 - 5)  # q·R(n−m)k by hand
    by_hand = 1.0 * (0.8 * math.cos(angle) + 0.3 * math.sin(angle)) + 0.5 * (
        0.8 * math.sin(angle) - 0.3 * math.cos(angle)
    )
    assert products == pytest.approx([by_hand] * 3)
    assert of("turned_product(q, k, 2, 5, [theta])") != pytest.approx(by_hand)
    assert of("shift_gap(far, 1000)") < 1e-4
    assert of("pairing_gap(main)") > 1
    assert of("total(shares)") == pytest.approx(of("score(main, layer_of(found), head_of(found), -1, seen)"), abs=1e-4)
    slowest = of("item(wavelengths(main), -1)")
    assert of("item(wavelengths(stretched(main, 'linear', factor)), 0)") == pytest.approx(4 * 2 * math.pi)
    for rule in ("dynamic", "yarn", "llama3"):
        assert of(f"item(wavelengths(stretched(main, '{rule}', factor), 2048), 0)") == pytest.approx(2 * math.pi)
        assert of(f"item(wavelengths(stretched(main, '{rule}', factor), 2048), -1)") > 3.9 * slowest


def test_routes_and_tables_of_lesson_13() -> None:
    assert sum(measured("13-to-minimind", "expert_load(routed, 0)")) == 8
    assert measured("13-to-minimind", "table_gap(minimind3)") == 0
    assert measured("13-to-minimind", "tied(small)") is True
