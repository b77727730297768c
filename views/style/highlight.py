"""How a place that a lesson names is marked: a ring that can be seen on any ground, while the step is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from ropewalk.views.style import ink, theme

Highlights = Mapping[str, frozenset[Any]]
"""What is marked, by kind: ``rows`` by key, ``heads`` (layer, head), ``cells`` (query, key), ``predictions``
(layer, position), other places by number."""

LEAST = 12.0
"""A place smaller than this many pixels gets a ring of this size around it."""

SHARE = 0.16
"""How much of the accent is in the ground of a marked row."""


def ring(painter: QPainter, box: QRectF) -> None:
    """Draw a ring around a place, in the colour of text, between two lines of the ground's."""
    look = theme.current()
    width = look.grid(0.25)
    grown = box.adjusted(
        -max(LEAST - box.width(), 0) / 2,
        -max(LEAST - box.height(), 0) / 2,
        max(LEAST - box.width(), 0) / 2,
        max(LEAST - box.height(), 0) / 2,
    )
    around = grown.adjusted(-width, -width, width, width)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for colour, stroke in ((look.panel, width + 4), (look.text, width)):
        painter.setPen(QPen(colour, stroke, Qt.PenStyle.SolidLine, Qt.PenCapStyle.SquareCap, Qt.PenJoinStyle.RoundJoin))
        painter.drawRoundedRect(around, width, width)
    painter.restore()


def band() -> QColor:
    """The ground of a marked row of a table."""
    look = theme.current()
    return ink.mixed(look.panel, look.accent, SHARE)


def draw_band(painter: QPainter, box: QRectF) -> None:
    """Paint a cell of a marked row: its ground, and lines above and below it."""
    painter.fillRect(box, band())
    line = theme.current().grid(0.25)
    for top in (box.top(), box.bottom() - line):
        painter.fillRect(QRectF(box.left(), top, box.width(), line), theme.current().text)


def numbers(highlighted: Highlights, what: str) -> frozenset[int]:
    """The marked places of a kind that are single numbers, such as tokens or planes."""
    return frozenset(
        int(place[0]) if isinstance(place, tuple) else int(place) for place in highlighted.get(what, frozenset())
    )
