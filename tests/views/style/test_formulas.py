"""Formulas are drawn as they are read."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from ropewalk.views.style.formulas import formula_picture


def width(latex: str) -> int:
    picture = formula_picture(latex, 40, "#000000", True)
    assert picture is not None
    return picture.width()


def test_mod_stands_between_spaces(qtbot: QtBot) -> None:
    assert width(r"H \bmod K") >= width(r"H \mathrm{mod} K") + 2 * 40 * 0.25
