"""The colour of a signed number, and a map of layers and heads: two things that several panels draw alike."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPen

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots.heatmap import Levels
from ropewalk.views.plots.turned_map import TurnedMap
from ropewalk.views.style import theme, wording


def signed_colour(value: float) -> QColor:
    """Return the colour of a positive or a negative share: an end of the diverging table."""
    table = theme.current().diverging
    red, green, blue = (int(part) for part in table[255 if value >= 0 else 1][:3])
    return QColor(red, green, blue)


class HeadMap(TurnedMap):
    """One number for every layer and head; zero is in the middle of the scale."""

    def __init__(self, title: str) -> None:
        super().__init__(title, ("L", "H"))

    def show_heads(self, values: Doubles) -> None:
        """Draw [L, H] numbers; NaN is hatched."""
        shown = np.isfinite(values)
        largest = float(np.abs(values[shown]).max(initial=0.0)) or 1.0
        self.show_numbers(np.where(shown, values, 0).astype(np.float32), shown)
        self.set_levels(Levels(-largest, largest, "diverging"))

    def mark(self, a: int, b: int) -> None:
        """Mark a layer and head."""
        super().mark(a, b)
        if a >= 0 and b >= 0 and self._values.size:
            self.setAccessibleDescription(f"{wording.head_name(a, b)}: {wording.number(self.number(a, b))}")

    def _paint_crosshair(self, painter: QPainter, place: object) -> None:
        """Mark the selected head, and the one that is pointed at, by a box: rows here are not queries."""
        look = theme.current()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for (layer, head), pen in (
            (self.hovered, QPen(look.text, 1, Qt.PenStyle.DotLine)),
            (self.marked, QPen(look.accent, 2)),
        ):
            if layer >= 0 and head >= 0:
                painter.setPen(pen)
                painter.drawRect(self.cell_of(layer, head))
