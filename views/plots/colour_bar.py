"""A colour bar with its numbers, lying below what it explains or standing beside it."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from ropewalk.views.style import ink, theme
from ropewalk.views.style.ink import Bytes
from ropewalk.views.style.lettering import face

THICK = 8
APART = 8
"""Least room between two numbers."""


def lying(painter: QPainter, bar: QRectF, table: Bytes, numbers: tuple[str, str, str], right: float) -> None:
    """Draw the table [256, 4] from left to right, the lowest, middle and highest number below it, up to ``right``."""
    ink.draw_cells(painter, bar, table[None])
    font, colour = theme.current().font("number"), theme.current().faint
    low, middle, high = (ink.text_width(font, text) for text in numbers)
    box = QRectF(bar.left(), bar.bottom() + 1, bar.width(), face(font).height)
    ink.draw_text(painter, QRectF(box.left(), box.top(), low + 1, box.height()), numbers[0], font, colour)
    if low + high + APART <= box.width():
        ink.draw_text(painter, box, numbers[2], font, colour, ink.RIGHT)
    else:
        left = box.left() + low + APART
        ink.draw_text(painter, QRectF(left, box.top(), right - left, box.height()), numbers[2], font, colour)
    if 2 * max(low, high) + middle + 2 * APART <= box.width():
        ink.draw_text(painter, box, numbers[1], font, colour, ink.CENTRE)


def standing(painter: QPainter, bar: QRectF, table: Bytes, numbers: tuple[str, str, str], right: float) -> None:
    """Draw the table [256, 4] from the bottom up, the numbers to its right, up to ``right``."""
    ink.draw_cells(painter, bar, table[::-1, None])
    font, colour = theme.current().font("number"), theme.current().faint
    line, left = face(font).height, bar.right() + APART / 2
    tops = {2: bar.top(), 0: bar.bottom() - line}
    if bar.height() >= 3 * line + APART:
        tops[1] = bar.center().y() - line / 2
    for which, top in tops.items():
        ink.draw_text(painter, QRectF(left, top, right - left, line), numbers[which], font, colour)
