"""The two palettes can be read, differ, and are applied to the whole application."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from PySide6.QtGui import QFontInfo, QPalette
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme
from tests.views.conftest import spread

GROUNDS = ("window", "panel", "field", "hover", "chosen")
INKS = ("text", "faint", "accent", "query", "key", "value", "good", "bad")


@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("ink", INKS)
@pytest.mark.parametrize("ground", GROUNDS)
def test_text_can_be_read(name: theme.ThemeName, ink: str, ground: str) -> None:
    look = theme.themed(name)
    assert theme.contrast(getattr(look, ink), getattr(look, ground)) >= 4.5


@pytest.mark.parametrize("name", ["dark", "light"])
def test_text_on_the_accent_can_be_read(name: theme.ThemeName) -> None:
    look = theme.themed(name)
    assert theme.contrast(look.on_accent, look.accent) >= 4.5


def test_contrast_of_black_and_white_is_21() -> None:
    look = theme.themed("light")
    assert theme.contrast(look.panel, look.panel) == pytest.approx(1.0)
    black, white = QPalette().color(QPalette.ColorRole.Text), QPalette().color(QPalette.ColorRole.Base)
    black.setRgb(0, 0, 0)
    white.setRgb(255, 255, 255)
    assert theme.contrast(black, white) == pytest.approx(21.0)


@pytest.mark.parametrize("name", ["dark", "light"])
def test_ink_is_readable_on_every_colour_of_the_maps(name: theme.ThemeName) -> None:
    look = theme.themed(name)
    for table in (look.sequential, look.diverging[1:]):
        for red, green, blue, _ in table[::5].tolist():
            ground = look.text.fromRgb(red, green, blue)
            assert theme.contrast(look.ink_on(ground), ground) >= 4.5


def test_the_maps_are_tables_of_256_with_an_exact_zero() -> None:
    look = theme.themed("light")
    assert look.sequential.shape == look.diverging.shape == (256, 4)
    assert look.sequential[0].tolist()[:3] == [68, 1, 84]  # viridis begins here
    red, green, blue, _ = look.diverging[theme.ZERO].tolist()
    assert max(red, green, blue) - min(red, green, blue) <= 2


def test_the_sequential_map_grows_lighter_all_the_way() -> None:
    look = theme.themed("dark")
    ends = [look.text.fromRgb(*row[:3]) for row in look.sequential[::8].tolist()]
    lightness = [theme.contrast(c, look.text.fromRgb(0, 0, 0)) for c in ends]
    assert np.all(np.diff(lightness) > 0)


def test_light_and_dark_differ_on_the_screen(qtbot: QtBot) -> None:
    label = plain_label("L1H3", "heading")
    qtbot.addWidget(label)
    label.show()
    pictures = []
    for name in ("dark", "light"):
        theme.apply(name)
        pictures.append(spread(label))
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        assert app.palette().color(QPalette.ColorRole.Window) == theme.current().window
    assert pictures[0] != pictures[1]


def test_projector_mode_doubles_the_type_to_18_points_and_more() -> None:
    small, large = theme.themed("dark"), theme.themed("dark", projector=True)
    for role in get_args(theme.Role):
        assert large.size(role) == 2 * small.size(role)
        assert large.size(role) * 72 / 96 >= 18
    assert [small.grid(2), large.grid(2)] == [2 * theme.GRID, 3 * theme.GRID]


def test_the_bundled_fonts_are_used(qtbot: QtBot) -> None:
    assert {"Ropewalk Sans", "Ropewalk Mono"} <= set(theme.register_fonts())
    assert QFontInfo(theme.current().font("number")).family() == "Ropewalk Mono"
    assert QFontInfo(theme.current().font("body")).family().startswith("Ropewalk Sans")


@pytest.mark.parametrize("role", ["body", "number"])
def test_figures_are_tabular(qtbot: QtBot, role: theme.Role) -> None:
    label = QLabel()
    qtbot.addWidget(label)
    label.setFont(theme.current().font(role))
    widths = {label.fontMetrics().horizontalAdvance(digit * 10) for digit in "0123456789"}
    assert len(widths) == 1


def test_a_label_takes_markup_for_what_it_is(qtbot: QtBot) -> None:
    label = plain_label("<s> a<b>c</b>")
    qtbot.addWidget(label)
    assert label.text() == "<s> a<b>c</b>"
    plain = label.sizeHint().width()
    label.setText("a")
    assert plain > 5 * label.sizeHint().width()


def test_a_character_without_a_glyph_becomes_its_code_point(qtbot: QtBot) -> None:
    assert theme.drawable("cat·⏎") == "cat·⏎"
    assert theme.drawable("\U0010fffd") == "U+10FFFD"
