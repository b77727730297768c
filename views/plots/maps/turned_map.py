"""A matrix whose two axes are not queries and keys, drawn either way round: whichever leaves the larger cells."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRectF, Signal
from PySide6.QtGui import QColor

from ropewalk.model.readings.records import Bools, Floats
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.style import theme


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
        self.rows_axis.letter, self.columns_axis.letter = letters
        self.picked.connect(lambda row, column: self.chosen.emit(*self.turned(row, column)))
        self.pointed.connect(lambda row, column: self.entered.emit(*self.turned(row, column)))

    def show_numbers(self, numbers: Floats, there: Bools) -> None:
        """Draw [A, B] numbers where ``there``; the others are hatched."""
        self._numbers, self._there = numbers, there
        self._turn(anew=True)

    def number(self, a: int, b: int) -> float:
        """The number that is drawn for a place of A and one of B."""
        return self.value(*self.turned(a, b))

    def cell_of(self, a: int, b: int) -> QRectF:
        """Where it is drawn."""
        return self.cell_rect(*self.turned(a, b))

    def mark(self, a: int, b: int) -> None:
        """Mark a cell, or a whole place of A with −1 for ``b``; −1 and −1 for none."""
        self.set_selection(*self.turned(a, b))

    def point(self, a: int, b: int) -> None:
        """Mark what is pointed at here or elsewhere; −1 for none."""
        self.set_hover(*self.turned(a, b))

    @property
    def marked(self) -> tuple[int, int]:
        """What is marked, as (a, b)."""
        return self.turned(*self.selection)

    @property
    def hovered(self) -> tuple[int, int]:
        """What is pointed at, as (a, b)."""
        return self.turned(*self.hover)

    def arrange(self) -> None:
        """Turn where that makes the cells larger."""
        self._turn()
        super().arrange()

    def turned(self, first: int, second: int) -> tuple[int, int]:
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
        axes = (self.columns_axis, self.rows_axis) if turned else (self.rows_axis, self.columns_axis)
        for axis, letter in zip(axes, self.letters, strict=True):
            axis.letter = letter
        numbers, there = (self._numbers.T, self._there.T) if turned else (self._numbers, self._there)
        rows, columns = numbers.shape
        self.set_data(np.ascontiguousarray(numbers), np.ascontiguousarray(there), (0, rows), (0, columns))
        self.mark(*marked)
        self.point(*hovered)

    def mark_colours(self) -> tuple[QColor, QColor]:
        """Tokens have the colour of queries, other places that of what is selected."""
        of_a, of_b = (theme.current().accent if letter else theme.current().query for letter in self.letters)
        return (of_b, of_a) if self.across else (of_a, of_b)
