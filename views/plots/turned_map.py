"""A matrix whose two axes are not queries and keys, drawn either way round: whichever leaves the larger cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import QRectF, Signal
from PySide6.QtGui import QColor, QPainter, QResizeEvent

from ropewalk.model.readings.records import Bools, Floats
from ropewalk.views.plots.heatmap import Heatmap
from ropewalk.views.style import ink, theme


class TurnedMap(Heatmap):
    """Numbers [A, B].

    Signals
    -------
    chosen(a, b)
        A cell was clicked, or reached by key.
    entered(a, b)
        The pointer is over a cell; (-1, -1) when it left.

    Parameters
    ----------
    letters
        What the places of A and of B are called, such as ``L`` and ``H``; empty for the tokens of :meth:`set_labels`.
    """

    chosen = Signal(int, int)
    entered = Signal(int, int)

    def __init__(self, title: str, letters: tuple[str, str]) -> None:
        super().__init__(title)
        self.letters = letters
        self.across = False
        """Whether A goes across and B down."""
        self._numbers: Floats = np.zeros((0, 0), np.float32)
        self._there: Bools = np.zeros((0, 0), np.bool_)
        self._axis = 0
        """The axis whose places are being named."""
        self.picked.connect(lambda row, column: self.chosen.emit(*self._turned(row, column)))
        self.pointed.connect(lambda row, column: self.entered.emit(*self._turned(row, column)))

    def show_numbers(self, numbers: Floats, there: Bools) -> None:
        """Draw [A, B] numbers where ``there``; the others are hatched."""
        self._numbers, self._there = numbers, there
        self._turn(anew=True)

    def number(self, a: int, b: int) -> float:
        """The number that is drawn for a place of A and one of B."""
        return self.value(*self._turned(a, b))

    def cell_of(self, a: int, b: int) -> QRectF:
        """Where it is drawn."""
        return self.cell_rect(*self._turned(a, b))

    def mark(self, a: int, b: int) -> None:
        """Mark a cell, or a whole place of A with −1 for ``b``; −1 and −1 for none."""
        self.set_selection(*self._turned(a, b))

    def point(self, a: int, b: int) -> None:
        """Mark what is pointed at here or elsewhere; −1 for none."""
        self.set_hover(*self._turned(a, b))

    @property
    def marked(self) -> tuple[int, int]:
        """What is marked, as (a, b)."""
        return self._turned(self._query, self._key)

    @property
    def hovered(self) -> tuple[int, int]:
        """What is pointed at, as (a, b)."""
        return self._turned(*self._hover)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Turn where that makes the cells larger."""
        super().resizeEvent(event)
        self._turn()

    def _turned(self, first: int, second: int) -> tuple[int, int]:
        """(a, b) as (row, column), and back."""
        return (second, first) if self.across else (first, second)

    def _turn(self, *, anew: bool = False) -> None:
        down, across = self._numbers.shape
        if not down or not across:
            return
        turned = min(self.width() / down, self.height() / across) > min(self.width() / across, self.height() / down)
        if turned == self.across and not anew:
            return
        marked, hovered = self.marked, self.hovered
        self.across = turned
        numbers, there = (self._numbers.T, self._there.T) if turned else (self._numbers, self._there)
        rows, columns = numbers.shape
        self.set_data(np.ascontiguousarray(numbers), np.ascontiguousarray(there), (0, rows), (0, columns))
        self.mark(*marked)
        self.point(*hovered)

    # Names --------------------------------------------------------------------------------------------------------

    def _label(self, index: int, stride: int) -> str:
        letter = self.letters[self._axis]
        return f"{letter}{index}" if letter else super()._label(index, stride)

    def _names_room(self, *, named: bool) -> int:
        """Places with a letter have short names, which are written level; tokens stand upright."""
        if self.letters[0 if self.across else 1]:
            return theme.current().size("number") + 6
        return super()._names_room(named=named)

    def _mark_colour(self, *, row: bool) -> QColor:
        axis = int(row == self.across)
        return theme.current().accent if self.letters[axis] else theme.current().query

    def _paint_row_labels(self, painter: QPainter, place: Any) -> None:
        self._axis = 1 if self.across else 0
        super()._paint_row_labels(painter, place)

    def _paint_column_labels(self, painter: QPainter, place: Any) -> None:
        self._axis = 0 if self.across else 1
        letter = self.letters[self._axis]
        if not letter:
            super()._paint_column_labels(painter, place)
            return
        look = theme.current()
        font, marked = look.font("number"), self._key
        room = ink.text_width(font, f"{letter}{self._values.shape[1]}") + 2
        for index in self._ticks(self._view.left(), self._view.right(), place.step, marked, room)[0]:
            middle = self.cell_rect(0, index).center().x()
            box = QRectF(middle - room, place.plot.bottom(), 2 * room, self._names_room(named=True))
            colour = self._mark_colour(row=False) if index == marked else look.faint
            ink.draw_text(painter, box, f"{letter}{index}", font, colour, ink.CENTRE)
