"""The colour of a signed number, and a map of layers and heads: two things that several panels draw alike.

It must not know sessions or what the numbers mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from model.readings import Doubles
from views import ink, theme, wording
from views.heatmap import Heatmap, Levels


def signed_colour(value: float) -> QColor:
    """Return the colour of a positive or a negative share: an end of the diverging table."""
    table = theme.current().diverging
    red, green, blue = (int(part) for part in table[255 if value >= 0 else 1][:3])
    return QColor(red, green, blue)


class HeadMap(Heatmap):
    """One number for every head: a layer is a row, a head a column; zero is in the middle of the scale."""

    def show_heads(self, values: Doubles) -> None:
        """Draw [L, H] numbers; NaN is hatched."""
        layers, heads = values.shape
        shown = np.isfinite(values)
        largest = float(np.abs(values[shown]).max(initial=0.0)) or 1.0
        self.set_data(np.where(shown, values, 0).astype(np.float32), shown, (0, layers), (0, heads))
        self.set_levels(Levels(-largest, largest, "diverging"))

    def _label(self, index: int, stride: int) -> str:
        return f"L{index}"

    def _names_room(self, *, named: bool) -> int:
        """Heads have short names, which are written level."""
        return theme.current().size("number") + 6

    def _paint_column_labels(self, painter: QPainter, place: Any) -> None:
        look = theme.current()
        font = look.font("number")
        room = ink.text_width(font, f"H{self._values.shape[1]}") + 2
        for head in self._ticks(self._view.left(), self._view.right(), place.step, self._key, room)[0]:
            cell = self.cell_rect(0, head)
            box = QRectF(cell.center().x() - room, place.plot.bottom(), 2 * room, self._names_room(named=True))
            ink.draw_text(painter, box, f"H{head}", font, look.accent if head == self._key else look.faint, ink.CENTRE)

    def set_selection(self, query: int, key: int) -> None:
        """Mark a layer (``query``) and head (``key``)."""
        super().set_selection(query, key)
        if query >= 0 and key >= 0:
            said = wording.number(self.value(query, key))
            self.setAccessibleDescription(f"{wording.head_name(query, key)}: {said}")

    def _paint_crosshair(self, painter: QPainter, place: object) -> None:
        """Mark the selected head, and the one that is pointed at, by a box: rows here are not queries."""
        look = theme.current()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for (layer, head), pen in (
            (self._hover, QPen(look.text, 1, Qt.PenStyle.DotLine)),
            ((self._query, self._key), QPen(look.accent, 2)),
        ):
            if layer >= 0 and head >= 0:
                painter.setPen(pen)
                painter.drawRect(self.cell_rect(layer, head))
