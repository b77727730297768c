"""The colours as eyes with deuteranopia and protanopia see them, and every pair of text and ground in both themes.

Colour vision deficiency is simulated by the matrices of Machado, Oliveira and Fernandes, "A Physiologically-based Model
for Simulation of Color Vision Deficiency", IEEE TVCG 15 (6), 2009, severity 1.0, applied to linear RGB.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.records import TokenText
from ropewalk.views.plots.token_strip import TokenStrip
from ropewalk.views.style import highlight, ink, theme

Colours = NDArray[np.float64]
"""[..., 3], each part between 0 and 1."""

EYES: dict[str, Colours] = {
    "all colours": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
XYZ: Colours = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""From linear sRGB (IEC 61966-2-1, white D65)."""
WHITE: Colours = XYZ.sum(axis=1)


def linear(colours: Colours) -> Colours:
    """From sRGB to linear RGB."""
    result: Colours = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    return result


def lab(colours: Colours, eyes: str) -> Colours:
    """CIE L*a*b* [..., 3] of sRGB colours as some eyes see them."""
    seen = np.clip(linear(colours) @ EYES[eyes].T, 0, 1)
    xyz = seen @ XYZ.T / WHITE
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    result: Colours = np.stack(
        [116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], axis=-1
    )
    return result


def parts(colour: QColor) -> Colours:
    return np.array([colour.redF(), colour.greenF(), colour.blueF()])


def apart(one: QColor, other: QColor, eyes: str) -> float:
    """CIE76 distance of two colours as some eyes see them; about 2.3 is just noticed."""
    return float(np.linalg.norm(lab(parts(one), eyes) - lab(parts(other), eyes)))


def table(colours: theme.Table) -> Colours:
    return colours[:, :3].astype(np.float64) / 255


# The simulation itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eyes", EYES)
def test_greys_stay_what_they_are(eyes: str) -> None:
    for level in (0.0, 0.25, 0.5, 1.0):
        lightness, a, b = lab(np.full(3, level), eyes)
        assert abs(a) < 0.2
        assert abs(b) < 0.2
        assert lightness == pytest.approx(lab(np.full(3, level), "all colours")[0], abs=0.1)


@pytest.mark.parametrize("eyes", ["protanopia", "deuteranopia"])
def test_red_and_green_come_closer(eyes: str) -> None:
    red, green = QColor("#b03030"), QColor("#3f7a30")
    assert apart(red, green, eyes) < 0.5 * apart(red, green, "all colours")


# Colour maps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("name", ["dark", "light"])
def test_the_sequential_map_grows_lighter_for_all_eyes(name: theme.ThemeName, eyes: str) -> None:
    lightness = lab(table(theme.themed(name).sequential), eyes)[:, 0]
    assert np.all(np.diff(lightness[::4]) > 0)
    assert lightness[-1] - lightness[0] > 60


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("name", ["dark", "light"])
def test_both_ends_of_the_diverging_map_and_its_centre_are_told_apart(name: theme.ThemeName, eyes: str) -> None:
    seen = lab(table(theme.themed(name).diverging), eyes)
    low, centre, high = seen[1], seen[theme.ZERO], seen[255]
    for one, other in ((low, centre), (centre, high), (low, high)):
        assert np.linalg.norm(one - other) > 25
    away = np.linalg.norm(seen - centre, axis=1)  # and strength can be read: every step is farther from zero
    assert np.all(np.diff(away[theme.ZERO :: 4]) > 0)
    assert np.all(np.diff(away[theme.ZERO : 0 : -4]) > 0)


# Categories -----------------------------------------------------------------------------------------------------------

KINDS = ("text", "query", "key", "value")


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("pair", list(combinations(KINDS, 2)), ids="-".join)
def test_query_key_and_value_stay_apart(name: theme.ThemeName, eyes: str, pair: tuple[str, str]) -> None:
    look = theme.themed(name)
    one, other = (ink.kind_colour(kind, look) for kind in pair)
    assert apart(one, other, eyes) > 15


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("name", ["dark", "light"])
def test_masked_cells_are_no_colour_of_the_map(name: theme.ThemeName, eyes: str) -> None:
    """Hatching tells them as well; their ground alone differs from the smallest weights too."""
    look = theme.themed(name)
    smallest = QColor(*look.sequential[0].tolist()[:3])
    assert apart(look.masked_ground, smallest, eyes) > 15


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("name", ["dark", "light"])
def test_what_holds_and_what_does_not_are_apart_beside_their_shapes(name: theme.ThemeName, eyes: str) -> None:
    look = theme.themed(name)
    assert apart(look.good, look.bad, eyes) > 15


# Text on its ground ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dark", "light"])
def test_tokens_can_be_read_on_every_tint(qtbot: QtBot, name: theme.ThemeName) -> None:
    theme.apply(name)
    strip = TokenStrip()
    qtbot.addWidget(strip)
    count = 101
    strip.set_tokens(tuple(TokenText(i, "a") for i in range(count)), count)
    strip.set_weights(np.linspace(0, 1, count), np.ones(count, np.bool_))
    for position in range(count):
        ground = strip.tint(position)
        assert theme.contrast(theme.current().ink_on(ground), ground) >= 4.5
    theme.apply("dark")


@pytest.mark.parametrize("name", ["dark", "light"])
def test_the_palette_of_the_application_can_be_read(qtbot: QtBot, name: theme.ThemeName) -> None:
    theme.apply(name)
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    palette, role, group = app.palette(), QPalette.ColorRole, QPalette.ColorGroup
    pairs = [
        (role.WindowText, role.Window), (role.Text, role.Base), (role.Text, role.AlternateBase),
        (role.ButtonText, role.Button), (role.ToolTipText, role.ToolTipBase), (role.HighlightedText, role.Highlight),
        (role.PlaceholderText, role.Base), (role.Link, role.Base), (role.Link, role.Window),
    ]  # fmt: skip
    for which in (group.Active, group.Inactive, group.Disabled):
        for above, below in pairs:
            found = theme.contrast(palette.color(which, above), palette.color(which, below))
            assert found >= 4.5, f"{above.name} on {below.name}, {which.name}: {found:.2f}"
    theme.apply("dark")


RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
COLOUR = re.compile(r"(?:^|;)\s*(color|background|selection-color|selection-background-color):\s*(#[0-9a-f]{6})")


@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("projector", [False, True])
def test_every_rule_of_the_stylesheet_can_be_read(name: theme.ThemeName, projector: bool) -> None:
    look = theme.themed(name, projector)
    grounds = (look.window, look.panel)
    found = 0
    for selector, body in RULE.findall(theme._stylesheet(look)):
        colours = {key: QColor(value) for key, value in COLOUR.findall(body.replace("\n", " "))}
        for text, ground in (("color", "background"), ("selection-color", "selection-background-color")):
            if text not in colours:
                continue
            for below in [colours[ground]] if ground in colours else grounds:
                found += 1
                assert theme.contrast(colours[text], below) >= 4.5, f"{selector.strip()}: {text}"
    assert found > 25


@pytest.mark.parametrize("name", ["dark", "light"])
def test_marks_can_be_seen_on_every_ground(name: theme.ThemeName) -> None:
    """A ring is a line of text's colour between two of the ground's, so one of the two differs from any cell."""
    theme.apply(name)
    look = theme.current()
    for row in look.sequential[::8].tolist():
        cell = QColor(*row[:3])
        assert max(theme.contrast(look.text, cell), theme.contrast(look.panel, cell)) >= 3
    assert theme.contrast(look.text, highlight.band()) >= 4.5
    theme.apply("dark")


def test_contrast_is_symmetric_and_finds_what_cannot_be_read() -> None:
    grey: Any = QColor("#808080")
    assert theme.contrast(grey, QColor("#777777")) < 1.2
    assert theme.contrast(grey, QColor("black")) == theme.contrast(QColor("black"), grey)
