"""A box over the cells of a map that a person moves and stretches, to read the mean of what is in it."""

from __future__ import annotations

import numpy as np
from pyqtgraph import Point, RectROI, mkPen
from PySide6.QtCore import QPointF, QRectF

from ropewalk.views.plots.map_data import MapData
from ropewalk.views.style import theme, wording


class Region(RectROI):
    """Whole cells of a matrix, inside ``extent``."""

    def __init__(self, data: MapData, place: QRectF, extent: QRectF) -> None:
        self._data = data
        look = theme.current()
        super().__init__(
            (place.left(), place.top()),
            (place.width(), place.height()),
            maxBounds=extent,
            snapSize=1.0,
            scaleSnap=True,
            translateSnap=True,
            pen=mkPen(look.accent, width=2),
            hoverPen=mkPen(look.text, width=2),
            handlePen=mkPen(look.accent, width=2),
            handleHoverPen=mkPen(look.text, width=2),
        )
        self.setZValue(20)

    def getSnapPosition(self, pos: QPointF, snap: object = None) -> Point:
        """The nearest corner of a cell."""
        return Point(round(pos.x() + 0.5) - 0.5, round(pos.y() + 0.5) - 0.5)

    def cells(self) -> tuple[slice, slice]:
        """The rows and columns that are in it."""
        (x, y), (width, height) = self.pos(), self.size()
        top, left = round(y + 0.5), round(x + 0.5)
        return slice(top, top + max(round(height), 1)), slice(left, left + max(round(width), 1))

    def sentence(self) -> str:
        """The mean of its cells that are not masked, or why there is none."""
        data, (rows, columns) = self._data, self.cells()
        if data.block != (1, 1):
            return "zoom in for a mean: a pixel is many cells here"
        inside = slice(max(rows.start - data.rows[0], 0), max(rows.stop - data.rows[0], 0))
        across = slice(max(columns.start - data.columns[0], 0), max(columns.stop - data.columns[0], 0))
        values = data.values[inside, across]
        seen = values[data.visible[inside, across] & np.isfinite(values)]
        if not seen.size:
            return "all masked"
        of = f"{rows.stop - rows.start} × {columns.stop - columns.start}"
        return f"mean {wording.number(float(seen.mean(dtype=np.float64)))} of {seen.size} cells in {of}"
