"""Where title, names, cells and colour bar of a map are, so that the cells are as large as they can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from PySide6.QtCore import QRectF, QSize

from ropewalk.views.plots.maps.levels_bar import LevelsBar
from ropewalk.views.plots.maps.token_axis import LEAST_NAMED, SLOPING, TokenAxis
from ropewalk.views.style import ink, theme

LARGEST_CELL = 56
Margins = Callable[[float], tuple[float, int]]
_ROOMY = 280
"""Pixels of a map, in the smaller type, from which on there is room for counts and for titles of the axes."""


@dataclass(frozen=True)
class Places:
    """Where things are, in pixels of the view; ``step`` is the size of one cell where all of them are in view."""

    title: QRectF
    lines: tuple[str, ...]
    plot: QRectF
    names: float
    """Height of the names below the cells."""
    bar: QRectF
    step: float
    beside: bool = False
    """Whether title and colour bar stand beside the cells, where a low map has room to spare."""


NOWHERE = Places(QRectF(), (), QRectF(), 0.0, QRectF(), 0.0)


class MapLayout:
    """Arranges a map of ``extent`` cells.

    Attributes
    ----------
    row_labels, column_labels
        Whether rows and columns have names.
    largest
        Side of the largest cell, in pixels of the smaller type.
    square
        Whether cells are as high as they are wide; else they fill the room below the title. Their names must then want
        the same room whatever their places have.
    gutter
        Width kept left of the cells; None takes what the names of rows need.
    aside
        Width kept for title and colour bar where they stand beside the cells; None takes what they need.
    """

    def __init__(self, rows: TokenAxis, columns: TokenAxis, bar: LevelsBar, whole: Callable[[float], float]) -> None:
        self._rows, self._columns, self._bar, self._whole = rows, columns, bar, whole
        self.row_labels = self.column_labels = True
        self.largest = LARGEST_CELL
        self.square = True
        self.gutter: int | None = None
        self.aside: int | None = None
        self.size = QSize()
        self.extent = QRectF()
        self.heading: Sequence[str] = ()

    @property
    def is_roomy(self) -> bool:
        """Whether there is room for what is not needed."""
        return (
            min(self.size.width() - (self.gutter or 0), self.size.height())
            >= _ROOMY * theme.current().size("number") / 12
        )

    def places(self) -> Places:
        """Title above and colour bar below the cells, or both beside them: whichever leaves the larger cells."""
        margins = cache(self.margins)  # the same for both, and they take the most time
        above, beside = (self.placed(margins, beside=place) for place in (False, True))
        return beside if self.square and beside.step > above.step else above

    def placed(self, margins: Margins, *, beside: bool) -> Places:
        """Where everything is with title and bar beside the cells, or not; ``margins`` is that of this layout."""
        now = theme.current()
        line, gap, thick = now.face("label").height, now.grid(0.5), LevelsBar.thickness(self.is_roomy)
        side = (self.aside_width() if self.aside is None else self.aside) if beside else 0
        top = line + gap if self.heading and not beside else max(now.face("number").height / 2 - 2, 0.0)
        foot = 0.0 if beside else self._foot(thick)
        room = (self.size.width() - side - 1, self.size.height() - top - foot - 1)
        step, gutter, names = self._fitted(margins, *room)
        if step <= 0:
            return NOWHERE
        across, down = (step, step) if self.square else self._steps(room[0] - gutter, room[1] - names)
        plot = QRectF(gutter, self._whole(top), across * self.extent.width(), down * self.extent.height())
        left = plot.right() + now.grid(1) if beside else gutter
        width = self.size.width() - left
        lines = self._broken(width) if beside else [" · ".join(self.heading)]
        title = QRectF(left, 0, width, line * len(lines))
        if beside:
            above = title.bottom() + gap + top
            bar = QRectF(left, above, thick, max(plot.bottom() - above - gap, 1))
        else:
            bar = QRectF(left, plot.bottom() + names + gap, plot.width(), thick)
        return Places(title, tuple(lines), plot, names, bar, step, beside)

    def left_margin(self, pitch: float) -> int:
        """Width left of cells of so many pixels: the row labels, or half of the first column's label."""
        if self.gutter is not None:
            return self.gutter
        if self.row_labels:
            return self._rows.room(pitch)
        return theme.current().size("number") // 2 if self.column_labels else 0

    def aside_width(self) -> int:
        """The width that title and colour bar want at least where they stand beside the cells."""
        font, words = theme.current().font("label"), " ".join(self.heading[:1]).split()
        widest = max((ink.text_width(font, word) for word in words), default=0.0)
        numbers = LevelsBar.thickness(self.is_roomy) + self._bar.wanted()
        return math.ceil(max(widest, numbers) + theme.current().grid(2))

    def height_for(self, side: float) -> int:
        """Height at which the cells fill a width of ``side``; more than that stays empty."""
        now, pitch = theme.current(), side / max(self.extent.width(), 1)
        title = now.face("label").height + now.grid(0.5)
        foot = self._foot(LevelsBar.thickness(side >= _ROOMY))
        return math.ceil(self.extent.height() * pitch + title + self._columns.room(pitch) + foot + now.grid(0.5))

    def _foot(self, thick: float) -> float:
        """Height of the colour bar that lies below the names, and of its numbers."""
        return theme.current().grid(0.5) + thick + 2 + theme.current().face("number").height

    def _fitted(self, margins: Margins, width: float, height: float) -> tuple[float, float, int]:
        """The largest cells for which they and their names fit, and how wide and how high the names are then."""
        line = theme.current().face("number").height
        best = 0.0
        for pitch in (self.largest * line, SLOPING * line, LEAST_NAMED, 0):  # how names are written changes there
            gutter, names = margins(pitch)
            step = self._step(width - gutter, height - names)
            wanted = margins(step)
            if wanted[0] <= gutter and wanted[1] <= names:
                best = max(best, step)
        return best, *margins(best)

    def margins(self, pitch: float) -> tuple[float, int]:
        """Room for names of cells of so many pixels: beside the rows and below the columns."""
        return self._whole(self.left_margin(pitch)), self._columns.room(pitch) if self.column_labels else 0

    def _step(self, width: float, height: float) -> float:
        """The largest cell for which everything fits."""
        return min(self._steps(width, height))

    def _steps(self, width: float, height: float) -> tuple[float, float]:
        """The same across and down by themselves, of whole pixels where they have a few."""
        if self.extent.isEmpty() or width <= 0 or height <= 0:
            return 0.0, 0.0
        largest = float(theme.current().grid(self.largest / theme.GRID))
        across, down = min(width / self.extent.width(), largest), min(height / self.extent.height(), largest)
        return self._whole(across) if across >= 3 else across, self._whole(down) if down >= 3 else down

    def _broken(self, width: float) -> list[str]:
        """Title and notes, each on lines of its own, broken between words."""
        font, lines = theme.current().font("label"), []
        for text in self.heading:
            line, *words = text.split()
            for word in words:
                if ink.text_width(font, f"{line} {word}") <= width:
                    line = f"{line} {word}"
                else:
                    lines.append(line)
                    line = word
            lines.append(line)
        return lines
