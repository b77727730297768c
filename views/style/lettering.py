"""Lines of text laid out once: finding the shapes and the width of letters takes longer than drawing them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from PySide6.QtCore import Qt, qAddPostRoutine
from PySide6.QtGui import QFont, QFontMetricsF, QStaticText

MOST = 8192
"""Lines that are kept of all fonts together; then all begin anew, for numbers that were never written come for ever."""


Key = TypeVar("Key")


class Line(NamedTuple):
    """One line, ready to be drawn, and its width in pixels."""

    text: QStaticText
    width: float


class Face:
    """What has been written in one font."""

    def __init__(self, font: QFont) -> None:
        self.metrics = QFontMetricsF(font)
        self.height = self.metrics.height()
        self._lines: dict[str, Line] = {}
        self._cut: dict[tuple[str, int, Qt.TextElideMode], Line] = {}

    def line(self, text: str) -> Line:
        """A text on one line."""
        made = self._lines.get(text)
        if made is None:
            made = _keep(self._lines, text, self._made(text))
        return made

    def width(self, text: str) -> float:
        """How wide a text is, in pixels, rounded up."""
        return float(math.ceil(self.line(text).width))

    def fitted(self, text: str, width: float, elide: Qt.TextElideMode) -> Line:
        """A text in no more than ``width`` pixels, with an ellipsis where there is not room for all of it."""
        whole = self.line(text)
        if whole.width <= width + 0.5:
            return whole
        key = text, math.floor(width), elide
        made = self._cut.get(key)
        if made is None:
            made = _keep(self._cut, key, self._made(self.metrics.elidedText(text, elide, key[1])))
        return made

    def __len__(self) -> int:
        return len(self._lines) + len(self._cut)

    def begin_anew(self) -> None:
        """Keep nothing of what has been written."""
        self._lines.clear()
        self._cut.clear()

    def _made(self, text: str) -> Line:
        static = QStaticText(text.replace("\n", " "))
        static.setTextFormat(Qt.TextFormat.PlainText)
        static.setPerformanceHint(QStaticText.PerformanceHint.AggressiveCaching)
        return Line(static, self.metrics.horizontalAdvance(text))


def _keep(kept: dict[Key, Line], key: Key, line: Line) -> Line:
    if sum(len(one) for one in _faces.values()) >= MOST:
        for one in _faces.values():
            one.begin_anew()
    kept[key] = line
    return line


_faces: dict[str, Face] = {}


def face(font: QFont) -> Face:
    """What is kept of a font."""
    name = font.key()
    made = _faces.get(name)
    if made is None:
        if not _faces:
            qAddPostRoutine(forget)  # letters must be gone before the application and its fonts are
        made = _faces[name] = Face(font)
    return made


_named: dict[tuple[str, int], Face] = {}


def named_face(role: str, size: int, font: Callable[[str, int], QFont]) -> Face:
    """The same by a role and its size: to ask a font for its name takes longer than most of what is drawn."""
    made = _named.get((role, size))
    if made is None:
        made = _named[role, size] = face(font(role, size))
    return made


def forget() -> None:
    """Begin anew: a name stands for another font now."""
    _faces.clear()
    _named.clear()
