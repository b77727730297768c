"""The numbers that a map shows, where in the matrix they are, and their colours."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor

from ropewalk.model.readings.records import Bools, Floats
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.style import theme, wording
from ropewalk.views.style.theme import Table


class MapData:
    """Pixels [h, w] that cover half-open ranges of the rows and columns of a matrix; a pixel may stand for a block.

    Cell (0, 0) of the matrix is centred on (0, 0).
    """

    def __init__(self) -> None:
        self.values: Floats = np.zeros((0, 0), np.float32)
        self.visible: Bools = np.zeros((0, 0), np.bool_)
        self.rows = self.columns = (0, 0)
        self.block = (1, 1)
        """Rows and columns that one pixel stands for."""
        self.levels = Levels(0.0, 1.0)
        self._colours: Table | None = None
        self._own = False
        """Whether the arrays are this map's own, so that a part may be written into them."""

    def show(self, values: Floats, visible: Bools, rows: tuple[int, int], columns: tuple[int, int]) -> None:
        """Take other numbers."""
        self.values, self.visible, self.rows, self.columns = values, visible, rows, columns
        height, width = values.shape
        self.block = (
            math.ceil((rows[1] - rows[0]) / max(height, 1)),
            math.ceil((columns[1] - columns[0]) / max(width, 1)),
        )
        self._colours, self._own = None, False

    def patch(self, top: int, left: int, values: Floats, visible: Bools) -> bool:
        """Write a part anew, its first pixel at (``top``, ``left``); whether it is of what is shown."""
        part = slice(top, top + values.shape[0]), slice(left, left + values.shape[1])
        if self.values[part].shape != values.shape:
            return False
        if not self._own:
            self.values, self.visible, self._own = self.values.copy(), self.visible.copy(), True
        self.values[part], self.visible[part] = values, visible
        if self._colours is not None:
            self._colours[part] = self._coloured(values, visible)
        return True

    def recolour(self, levels: Levels) -> None:
        """Take other levels, or the colours of another theme."""
        self.levels, self._colours = levels, None

    def colours(self) -> Table:
        """[h, w, 4] RGBA of every pixel, transparent where masked; the same array until they are all made anew."""
        if self._colours is None:
            self._colours = self._coloured(self.values, self.visible)
        return self._colours

    def _coloured(self, values: Floats, visible: Bools) -> Table:
        now = theme.current()
        table = self.levels.table().view(np.uint32)[:, 0]  # four bytes at once: a colour is one number
        pixels = table[self.levels.indices(values)]
        if not np.isfinite(values).all():
            for where, colour in (
                (np.isnan(values), now.undefined),
                (np.isposinf(values), now.text),
                (np.isneginf(values), now.window),
            ):
                rgba = np.array([colour.red(), colour.green(), colour.blue(), 255], np.uint8)
                pixels[where] = rgba.view(np.uint32)[0]
        pixels[~visible] = 0
        return pixels.view(np.uint8).reshape(*values.shape, 4)

    # Where it is --------------------------------------------------------------------------------------------------

    @property
    def covered(self) -> QRectF:
        """The cells that there are numbers for."""
        (top, bottom), (left, right) = self.rows, self.columns
        return QRectF(left - 0.5, top - 0.5, right - left, bottom - top)

    @property
    def place(self) -> QRectF:
        """The cells that the pixels take: blocks at an edge may stand out."""
        (down, across), (height, width) = self.block, self.values.shape
        return QRectF(self.columns[0] - 0.5, self.rows[0] - 0.5, width * across, height * down)

    def pixel_place(self, row: int, column: int, rows: int = 1, columns: int = 1) -> QRectF:
        """The cells that one pixel stands for, or several."""
        down, across = self.block
        top, left = self.rows[0] + row * down - 0.5, self.columns[0] + column * across - 0.5
        return QRectF(left, top, columns * across, rows * down)

    def pixels_in(self, view: QRectF) -> tuple[slice, slice]:
        """The rows and columns of pixels that a rectangle of cells touches."""
        down, across = self.block
        height, width = self.values.shape

        def inside(low: float, high: float, start: int, block: int, count: int) -> slice:
            first = max(math.floor((low + 0.5 - start) / block), 0)
            return slice(first, max(min(math.ceil((high + 0.5 - start) / block), count), first))

        return (
            inside(view.top(), view.bottom(), self.rows[0], down, height),
            inside(view.left(), view.right(), self.columns[0], across, width),
        )

    @property
    def told(self) -> Bools:
        """[h, w] the pixels whose numbers are written where there is room."""
        return self.visible

    # What it can say ----------------------------------------------------------------------------------------------

    def pixel_of(self, row: int, column: int) -> tuple[int, int] | None:
        """Return the pixel that stands for a cell, None where it is not covered."""
        if not (self.rows[0] <= row < self.rows[1] and self.columns[0] <= column < self.columns[1]):
            return None
        down, across = self.block
        return (row - self.rows[0]) // down, (column - self.columns[0]) // across

    def value(self, row: int, column: int) -> float:
        """The number that stands for a cell; NaN where it is not covered."""
        index = self.pixel_of(row, column)
        return math.nan if index is None else float(self.values[index])

    def is_masked(self, row: int, column: int) -> bool:
        """Whether a cell is drawn as masked."""
        index = self.pixel_of(row, column)
        return index is not None and not self.visible[index]

    def text(self, row: int, column: int) -> str:
        """The number of a cell with all its digits; empty where it is masked or not covered."""
        index = self.pixel_of(row, column)
        return "" if index is None or not self.visible[index] else str(self.values[index])

    def row_text(self, row: int) -> str:
        """The numbers of a row, parted by tabs."""
        return "\t".join(self.text(row, column) for column in range(*self.columns)[:: self.block[1]])

    def mean_text(self, region: QRectF) -> str:
        """The mean of the cells of a region that are not masked, or why there is none."""
        if self.block != (1, 1):
            return "zoom in for a mean: a pixel is many cells here"
        part = self.pixels_in(region)
        values = self.values[part]
        seen = values[self.visible[part] & np.isfinite(values)]
        if not seen.size:
            return "all masked"
        of = f"{seen.size} cells in {region.height():.0f} × {region.width():.0f}"
        return f"mean {wording.number(float(seen.mean(dtype=np.float64)))} of {of}"

    def colour(self, row: int, column: int) -> QColor | None:
        """The colour that a cell is filled with; None where it is masked or not covered."""
        index = self.pixel_of(row, column)
        if index is None or not self.visible[index]:
            return None
        return QColor(*(int(part) for part in self.colours()[index][:3]))
