"""The colour of a signed number, and a map of layers and heads: two things that several panels draw alike."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPen

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.plots.maps.map_marks import Marks
from ropewalk.views.plots.maps.turned_map import TurnedMap
from ropewalk.views.style import theme, wording


def signed_colour(value: float) -> QColor:
    """Return the colour of a positive or a negative share: an end of the diverging table."""
    table = theme.current().diverging
    red, green, blue = (int(part) for part in table[255 if value >= 0 else 1][:3])
    return QColor(red, green, blue)


LARGEST_HEAD = 96
"""Side of the largest cell: a map of few heads has room for more than its number."""


class HeadMap(TurnedMap):
    """One number for every layer and head; zero is in the middle of the scale."""

    def __init__(self, title: str) -> None:
        super().__init__(title, ("L", "H"))
        self.form.largest = LARGEST_HEAD

    def show_heads(self, values: Doubles) -> None:
        """Draw [L, H] numbers; NaN is hatched."""
        shown = np.isfinite(values)
        largest = float(np.abs(values[shown]).max(initial=0.0)) or 1.0
        self.show_numbers(np.where(shown, values, 0).astype(np.float32), shown)
        self.set_levels(Levels(-largest, largest, "diverging"))

    def mark(self, a: int, b: int) -> None:
        """Mark a layer and head."""
        super().mark(a, b)
        if a >= 0 and b >= 0 and self.data.values.size:
            self.setAccessibleDescription(f"{wording.head_name(a, b)}: {wording.number(self.number(a, b))}")

    def make_marks(self) -> Marks:
        """A head is marked by a box: rows here are not queries."""
        return BoxMarks(self.box, self.data)


class BoxMarks(Marks):
    """Boxes around the selected cell and the one that is pointed at."""

    def mark(self, selected: tuple[int, int], hovered: tuple[int, int]) -> None:
        """Move them."""
        for cell in {self.selected, self.hovered, selected, hovered}:
            self.update(self.box.cell_rect(*cell).adjusted(-3, -3, 3, 3))
        self.selected, self.hovered = selected, hovered

    def draw_lines(self, painter: QPainter) -> None:
        """Draw them."""
        look = theme.current()
        for cell, pen in (
            (self.hovered, QPen(look.text, 1, Qt.PenStyle.DotLine)),
            (self.selected, QPen(look.accent, 2)),
        ):
            if min(cell) >= 0:
                painter.setPen(pen)
                painter.drawRect(self.box.cell_rect(*cell))
