"""The look: two palettes, the type scale, the fonts and the colour maps, and the one place that applies them.

A panel reads ``current()`` when it paints and again in ``theme_changed``; labels get their font and colour from their
``role`` property through the stylesheet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontMetrics, QPalette
from PySide6.QtWidgets import QAbstractSlider, QAbstractSpinBox, QApplication, QComboBox, QWidget

from ropewalk.model.readings.bidi import ISOLATES
from ropewalk.resources import resource
from ropewalk.views.style import lettering
from ropewalk.views.style.colour_maps import COLOUR_MAPS, colour_table

ThemeName = Literal["dark", "light"]
Role = Literal["title", "heading", "subtitle", "body", "label", "number", "formula", "notice"]
Table = NDArray[np.uint8]
"""[256, 4] RGBA."""

BY_PALETTE = (QComboBox, QAbstractSlider, QAbstractSpinBox)
"""Controls that Fusion draws from a palette of their own."""

GRID = 8
"""Distances are multiples of this many pixels (half of it inside a control)."""

TIGHT = 2
"""What is left beside the words of buttons that stand close together."""

ZERO = 128
"""The entry of the diverging table that means exactly zero; 1 and 255 are its two ends."""

SANS = "Ropewalk Sans"
MONO = "Ropewalk Mono"

_SIZES: dict[Role, int] = {
    "title": 16,
    "heading": 15,
    "subtitle": 12,
    "body": 13,
    "label": 12,
    "number": 12,
    "formula": 14,
    "notice": 13,
}
_PROJECTED = 2
"""Projector mode doubles the type: the smallest becomes 24 px, 18 points at 96 dots an inch."""
_ENLARGED = 1.4
"""How much larger type and marks are in a panel that has the screen to itself."""


@dataclass(frozen=True, eq=False)
class Theme:
    """Every colour and size in use.

    Attributes
    ----------
    projector, enlarged
        Whether it is for a projector, and whether for one panel alone.
    window, panel, field, hover, chosen
        Grounds: behind the cards, the cards, inputs, what the pointer is on, the chosen row of a table.
    text, faint, line
        Text, secondary text, and separating lines.
    accent, on_accent
        The selection, and text on it.
    query, key, value, masked, masked_ground
        The four things that have a colour of their own everywhere; masked is drawn as hatching on its ground.
    good, bad, undefined
        A check that holds, one that does not, and the mark of NaN.
    colour_map, sequential, diverging
        The name of a map of colours, and [256, 4] lookup tables: that of the map, and one for signs, in which entry
        ``ZERO`` is exactly zero.
    """

    name: ThemeName
    projector: bool
    colour_map: str
    enlarged: bool
    window: QColor
    panel: QColor
    field: QColor
    hover: QColor
    chosen: QColor
    text: QColor
    faint: QColor
    line: QColor
    accent: QColor
    on_accent: QColor
    query: QColor
    key: QColor
    value: QColor
    masked: QColor
    masked_ground: QColor
    good: QColor
    bad: QColor
    undefined: QColor
    sequential: Table
    diverging: Table

    def size(self, role: Role) -> int:
        """Height of the type of a role, in pixels."""
        return round(_SIZES[role] * (_PROJECTED if self.projector else 1) * (_ENLARGED if self.enlarged else 1))

    @property
    def smallest(self) -> int:
        """Height of the smallest type that names are written in, in pixels, where no other has room."""
        return round(self.size("subtitle") * 5 / 6)

    def font(self, role: Role) -> QFont:
        """The font of a role, with tabular figures; the caller's own."""
        return QFont(_font(role, self.size(role)))

    def face(self, role: Role) -> lettering.Face:
        """What is kept of the font of a role: its letters and their sizes."""
        return lettering.named_face(role, self.size(role), _font)

    def grid(self, steps: float) -> int:
        """A distance of so many grid steps, wider where the type is larger."""
        return round(GRID * steps * (1.5 if self.projector else 1) * (1.2 if self.enlarged else 1))

    def ink_on(self, ground: QColor) -> QColor:
        """Black or white, whichever can be read on a colour."""
        dark, light = QColor("#000000"), QColor("#ffffff")
        return dark if contrast(dark, ground) >= contrast(light, ground) else light


_COLOURS: dict[ThemeName, dict[str, str]] = {
    "dark": {
        "window": "#121318",
        "panel": "#1c1e26",
        "field": "#14151b",
        "hover": "#272a35",
        "chosen": "#2b3550",
        "text": "#e9ebf1",
        "faint": "#9aa1b1",
        "line": "#31343f",
        "accent": "#7ea2ff",
        "on_accent": "#0c1020",
        "query": "#f5b13d",
        "key": "#4da3f5",
        "value": "#4ec98b",
        "masked": "#4a4e5c",
        "masked_ground": "#262933",
        "good": "#4ec98b",
        "bad": "#ff7c70",
        "undefined": "#ff5fd2",
    },
    "light": {
        "window": "#f2f3f6",
        "panel": "#ffffff",
        "field": "#f2f3f6",
        "hover": "#e8ebf2",
        "chosen": "#e1e9fc",
        "text": "#171a21",
        "faint": "#5b6270",
        "line": "#d9dce3",
        "accent": "#2a58d8",
        "on_accent": "#ffffff",
        "query": "#8a5600",
        "key": "#0f62c6",
        "value": "#0f7040",
        "masked": "#b9bec9",
        "masked_ground": "#e9ebf0",
        "good": "#0f7040",
        "bad": "#b21a33",
        "undefined": "#c2008f",
    },
}


@lru_cache(maxsize=64)
def _font(role: Role, size: int) -> QFont:
    """Make a font once: a cell of a table is painted in less time than a font is made."""
    font = QFont(MONO if role in ("number", "formula") else SANS)
    font.setPixelSize(size)
    font.setFeature(QFont.Tag("tnum"), 1)
    if role in ("title", "heading"):
        font.setWeight(QFont.Weight.DemiBold)
    return font


def contrast(one: QColor, other: QColor) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2, relative luminance)."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: QColor) -> float:
    parts = (colour.redF(), colour.greenF(), colour.blueF())
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _diverging(neutral: QColor, low: QColor, high: QColor) -> Table:
    """Mix ``low`` and ``high`` with a neutral colour; entry ``ZERO`` is the neutral colour itself."""
    share = (np.arange(256) - ZERO) / (255 - ZERO)
    middle, below, above = (_rgb(c) for c in (neutral, low, high))
    strength = np.clip(np.abs(share), 0, 1)[:, None] ** 0.85
    ends = np.where(share[:, None] < 0, below, above)
    table = np.full((256, 4), 255, dtype=np.uint8)
    table[:, :3] = np.rint(middle * (1 - strength) + ends * strength).astype(np.uint8)
    table.setflags(write=False)
    return table


def _rgb(colour: QColor) -> NDArray[np.float64]:
    return np.array([colour.red(), colour.green(), colour.blue()], dtype=np.float64)


@lru_cache(maxsize=8 * len(COLOUR_MAPS))
def themed(name: ThemeName, projector: bool = False, colour_map: str = "viridis", enlarged: bool = False) -> Theme:
    """Return the theme of that name; ``colour_map`` is one of ``COLOUR_MAPS``."""
    colours = {key: QColor(value) for key, value in _COLOURS[name].items()}
    ends = ("#b07cff", "#2fd6c3") if name == "dark" else ("#6a2fc0", "#00796d")
    neutral = QColor("#2a2d37") if name == "dark" else QColor("#f4f4f6")
    diverging = _diverging(neutral, QColor(ends[0]), QColor(ends[1]))
    sequential = colour_table(colour_map)
    return Theme(name, projector, colour_map, enlarged, sequential=sequential, diverging=diverging, **colours)


_in_use: list[Theme] = [themed("dark")]


def current() -> Theme:
    """The theme in use."""
    return _in_use[0]


def colour_in(colour_map: str) -> None:
    """Draw numbers without a sign in another map of colours. What paints itself must then repaint.

    Raises
    ------
    KeyError
        When there is no map of that name.
    """
    now = current()
    _in_use[0] = themed(now.name, now.projector, colour_map, now.enlarged)


@lru_cache(maxsize=1)
def register_fonts() -> tuple[str, ...]:
    """Register the bundled fonts, so that pictures are the same on every machine, and return their families."""
    families: list[str] = []
    for entry in sorted(resource("fonts").iterdir()):
        if entry.name.endswith((".otf", ".ttf")):
            number = QFontDatabase.addApplicationFontFromData(QByteArray(entry.read_bytes()))
            families.extend(QFontDatabase.applicationFontFamilies(number))
    _font.cache_clear()
    lettering.forget()
    return tuple(dict.fromkeys(families))


def drawable(text: str, role: Role = "number") -> str:
    """Return a text in which every character that no font can draw is its code point, such as ``U+4E2D``.

    The marks that isolate a direction are not drawn and stay.
    """
    if text.isascii():
        return text
    metrics = _metrics(role)
    return "".join(c if c in ISOLATES or metrics.inFontUcs4(ord(c)) else f"U+{ord(c):04X}" for c in text)


@lru_cache(maxsize=16)
def _metrics(role: Role) -> QFontMetrics:
    register_fonts()
    return QFontMetrics(themed("dark").font(role))


def apply(name: ThemeName, projector: bool = False) -> Theme:
    """Put a theme on the whole application and return it. Widgets that paint themselves must then repaint.

    Raises
    ------
    KeyError
        When there is no theme of that name.
    """
    now = wear(name, projector)
    dress()
    return now


def wear(name: ThemeName, projector: bool = False) -> Theme:
    """The same without the style sheet, under which every widget that is made takes half as long again.

    Raises
    ------
    KeyError
        When there is no theme of that name.
    """
    app = QApplication.instance()
    now = _in_use[0] = themed(name, projector, _in_use[0].colour_map)
    if isinstance(app, QApplication):
        register_fonts()
        if app.property("ropewalk_style") is None:
            app.setStyle("fusion")
            app.setProperty("ropewalk_style", "fusion")
        app.setPalette(_palette(now))
        app.setFont(now.font("body"))
        scheme = Qt.ColorScheme.Dark if name == "dark" else Qt.ColorScheme.Light
        app.styleHints().setColorScheme(scheme)
    return now


def dress() -> None:
    """Put the style sheet of the theme in use on every widget there is, and on those to come.

    Also where it is on already: widgets that were made under it take their typeface only when they are polished again.
    The one before is taken off first: in the place of another one, a style sheet takes Qt four times as long.
    """
    app = QApplication.instance()
    if isinstance(app, QApplication):
        app.setStyleSheet("")
        app.setStyleSheet(_stylesheet(current()))


def enlarge(widget: QWidget, enlarged: bool) -> None:
    """Let one widget wear the theme in use with larger type, or as all do; what paints itself must be told."""
    before = _in_use[0]
    now = _in_use[0] = themed(before.name, before.projector, before.colour_map, enlarged)
    type_size = f"QWidget {{ font-size: {now.size('body')}px; }}"  # a widget's own font does not reach its buttons
    widget.setStyleSheet(type_size + _stylesheet(now) if enlarged else "")


@contextmanager
def worn_by(widget: QWidget, name: ThemeName) -> Iterator[Theme]:
    """Let one widget wear another theme for as long as a picture of it takes; what paints itself must be told."""
    before = _in_use[0]
    now = _in_use[0] = themed(name, before.projector, before.colour_map, before.enlarged)
    kept, palette = widget.styleSheet(), _palette(now)
    wearers = [widget, *(part for part in widget.findChildren(QWidget) if isinstance(part, BY_PALETTE))]
    widget.setStyleSheet(_stylesheet(now))
    for part in wearers:  # afterwards: a style sheet brings the palette of before with it
        part.setPalette(palette)
    try:
        yield now
    finally:
        _in_use[0] = before
        widget.setStyleSheet(kept)
        for part in wearers:
            part.setPalette(QPalette())


def _palette(theme: Theme) -> QPalette:
    palette = QPalette()
    roles = {
        QPalette.ColorRole.Window: theme.window,
        QPalette.ColorRole.Base: theme.field,
        QPalette.ColorRole.AlternateBase: theme.panel,
        QPalette.ColorRole.Button: theme.panel,
        QPalette.ColorRole.ToolTipBase: theme.panel,
        QPalette.ColorRole.Mid: theme.line,
        QPalette.ColorRole.Dark: theme.line,
        QPalette.ColorRole.Light: theme.hover,
        QPalette.ColorRole.Highlight: theme.accent,
        QPalette.ColorRole.HighlightedText: theme.on_accent,
        QPalette.ColorRole.Link: theme.accent,
        QPalette.ColorRole.Accent: theme.accent,
        QPalette.ColorRole.PlaceholderText: theme.faint,
    }
    for text in ("WindowText", "Text", "ButtonText", "ToolTipText", "BrightText"):
        roles[QPalette.ColorRole[text]] = theme.text
    for role, colour in roles.items():
        palette.setColor(role, colour)
    for text in ("WindowText", "Text", "ButtonText"):
        palette.setColor(QPalette.ColorGroup.Disabled, QPalette.ColorRole[text], theme.faint)
    return palette


def _stylesheet(theme: Theme) -> str:
    """Roles of labels, and the few controls that Fusion draws with too many lines."""
    t = theme
    tone: dict[Role, QColor] = dict.fromkeys(get_args(Role), t.text)
    tone |= {"subtitle": t.faint, "label": t.faint, "notice": t.faint}
    roles = "".join(
        f'QLabel[role="{role}"] {{ font-family: "{MONO if role in ("number", "formula") else SANS}"; '
        f"font-size: {t.size(role)}px; color: {tone[role].name()};"
        f"{' font-weight: 600;' if role in ('title', 'heading') else ''} }}\n"
        for role in get_args(Role)
    )
    for name, colour in {"query": t.query, "key": t.key, "value": t.value, "good": t.good, "bad": t.bad}.items():
        roles += f'QLabel[tone="{name}"], QToolButton[tone="{name}"] {{ color: {colour.name()}; }}\n'
    roles += f'QLabel[role="heading"][focused="true"] {{ color: {t.accent.name()}; }}\n'
    pad = t.grid(0.5)
    return (
        roles
        + f"""
QMainWindow, QDialog {{ background: {t.window.name()}; }}
QFrame[target="yes"] {{ background: transparent; border: 2px solid {t.accent.name()}; border-radius: {GRID}px; }}
QToolTip {{ background: {t.panel.name()}; color: {t.text.name()}; border: 1px solid {t.line.name()};
  padding: {pad}px; }}
QToolBar {{ background: {t.window.name()}; border: none; padding: {pad}px {GRID}px; spacing: {GRID}px; }}
QStatusBar {{ background: {t.window.name()}; }}
QStatusBar::item {{ border: none; }}
QWidget[card="whole"] {{ background: {t.panel.name()}; border-radius: {GRID}px; }}
QFrame[welcome="yes"] {{ border: 1px solid {t.accent.name()}; }}
QLineEdit {{ background: {t.field.name()}; border: 1px solid {t.line.name()};
  border-radius: {pad}px; padding: {pad}px {GRID}px; selection-background-color: {t.accent.name()};
  selection-color: {t.on_accent.name()}; }}
QAbstractSpinBox QLineEdit, QComboBox QLineEdit {{ background: transparent; border: none;
  padding: 0 {pad}px; }}
QWidget[bar="yes"] QLineEdit {{ background: {t.panel.name()}; }}
QLineEdit:focus, QAbstractSpinBox:focus {{ border: 1px solid {t.accent.name()}; }}
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{ width: 0; border: none; }}
QPushButton, QToolButton {{ background: transparent; border: 1px solid transparent; border-radius: {pad}px;
  padding: {pad}px {GRID}px; color: {t.text.name()}; }}
QPushButton {{ background: {t.hover.name()}; }}
QPushButton:hover, QToolButton:hover {{ background: {t.hover.name()}; }}
QPushButton:focus, QToolButton:focus {{ border: 1px solid {t.accent.name()}; }}
QPushButton:disabled, QToolButton:disabled {{ color: {t.faint.name()}; }}
QToolButton:checked, QPushButton:checked {{ background: {t.chosen.name()}; color: {t.text.name()}; }}
QPushButton[kind="main"] {{ background: {t.accent.name()}; color: {t.on_accent.name()}; font-weight: 600; }}
QPushButton[kind="main"]:disabled {{ background: {t.hover.name()}; color: {t.faint.name()}; }}
QToolButton[toggle="yes"] {{ border: 1px solid {t.line.name()}; }}
QPushButton[kind="small"] {{ padding: 0 {GRID}px; }}
QToolButton[kind="small"] {{ padding: 0 {GRID}px; font-size: {t.size("subtitle")}px; }}
QToolButton[kind="tight"] {{ padding: {pad}px {TIGHT}px; font-size: {t.size("subtitle")}px; }}
QToolButton[kind="tightest"] {{ padding: {pad}px {TIGHT}px; font-size: {t.smallest}px; }}
QToolButton::menu-indicator {{ image: none; }}
QToolButton[popupMode="1"] {{ padding-right: {t.grid(2.5)}px; }}
QToolButton::menu-button {{ background: transparent; border: none; width: {t.grid(2.5)}px; }}
QMenu {{ background: {t.panel.name()}; border: 1px solid {t.line.name()}; padding: {pad}px; }}
QMenu::item {{ padding: {pad}px {2 * GRID}px; border-radius: {pad}px; }}
QMenu::item:selected {{ background: {t.chosen.name()}; color: {t.text.name()}; }}
QTabBar::tab {{ background: transparent; color: {t.faint.name()}; padding: {pad}px {GRID}px;
  border-bottom: 2px solid transparent; }}
QTabBar::tab:selected {{ color: {t.text.name()}; border-bottom: 2px solid {t.accent.name()}; }}
QTabBar::tab:hover {{ color: {t.text.name()}; }}
QScrollArea {{ background: transparent; border: none; }}
QScrollBar {{ background: transparent; border: none; margin: 0; }}
QScrollBar:vertical {{ width: {GRID}px; }}
QScrollBar:horizontal {{ height: {GRID}px; }}
QScrollBar::handle {{ background: {t.line.name()}; border-radius: 4px; min-width: 24px; min-height: 24px; }}
QScrollBar::handle:hover {{ background: {t.faint.name()}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QTableView, QTreeView, QListView {{ background: {t.panel.name()}; border: none; gridline-color: {t.line.name()};
  selection-background-color: {t.chosen.name()}; selection-color: {t.text.name()}; }}
QHeaderView::section {{ background: {t.panel.name()}; color: {t.faint.name()}; border: none; padding: {pad}px;
  font-family: "{SANS}"; font-size: {t.size("label")}px; }}
QProgressBar {{ background: {t.field.name()}; border: none; border-radius: 4px; text-align: center; }}
QProgressBar::chunk {{ background: {t.accent.name()}; border-radius: 4px; }}
"""
    )
