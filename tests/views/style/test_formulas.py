"""Formulas are drawn as they are read."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.views.style.formulas import formula_picture


def width(latex: str) -> int:
    picture = formula_picture(latex, 40, "#000000", True)
    assert picture is not None
    return picture.width()


def test_mod_stands_between_spaces(qtbot: QtBot) -> None:
    assert width(r"H \bmod K") >= width(r"H \mathrm{mod} K") + 2 * 40 * 0.25


@pytest.mark.parametrize(
    "latex",
    [
        "{" * 300 + "x" + "}" * 300,
        r"\def\a{\a}\a",
        "a & b < c",
        "x\x1b\x00",
        r"\rule{100000em}{100000em}",
    ],
    ids=["too deep", "itself in itself", "no XML", "control characters", "too large"],
)
def test_what_cannot_be_drawn_is_shown_as_it_is_written(qtbot: QtBot, latex: str) -> None:
    assert formula_picture(latex, 16, "#000000", True) is None
