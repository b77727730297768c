"""Where in a text the queries of a head look: mean weights on a grid of places that are shares of the text."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots.charts.plot import Table
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.maps.levels import Levels, Scale
from ropewalk.views.plots.maps.token_axis import TokenAxis
from ropewalk.views.style import ink, theme, wording

FAINTEST: Final = 1e-3
"""The smallest share of its largest cell that a map over powers of ten tells apart."""
STRIDES: Final = (1, 2, 5, 10, 20, 25, 50, 100)
"""How many percent there may be from one number of an axis to the next."""


class ShareAxis(TokenAxis):
    """Says how far into the text the edges of the cells are, in percent."""

    def __init__(self, side: Literal["left", "bottom"]) -> None:
        super().__init__(side, letter="%")
        self.parts = 1
        """Cells that all of a text is cut into."""

    def _widest(self, names: tuple[str, ...]) -> float:
        return theme.current().face("number").width("100 %")

    def tickValues(self, minVal: float, maxVal: float, size: float) -> Any:
        """The edges that are numbered, none of them touching another."""
        low, high = sorted((minVal, maxVal))
        if high <= low or size <= 0:
            return [(1, [])]
        apart = self.extent() + theme.current().grid(0.75) if self.orientation == "bottom" else self._line * 1.5
        percent = 100 / self.parts  # of a cell
        stride = next((one for one in STRIDES if one / percent * size / (high - low) >= apart), STRIDES[-1])
        shares = range(0, 101, stride)
        places = [share / percent - 0.5 for share in shares]
        return [(stride, [place for place in places if low - 1e-6 <= place <= high + 1e-6])]

    def tickStrings(self, values: Any, scale: float, spacing: float) -> list[str]:
        """The percents of some edges."""
        return [f"{round((value + 0.5) * 100 / self.parts)} %" for value in values]

    @property
    def _line(self) -> float:
        return theme.current().face("number").height

    def _write_below(
        self, painter: QPainter, at: QPointF, text: str, colour: QColor, pitch: float, place: int, apart: float
    ) -> None:
        """Write the first and the last inside the axis where there is no room beside it."""
        font = theme.current().font("number")
        width = ink.text_width(font, text) + 1
        left = min(max(at.x() - width / 2, -self.spare[0]), self.size().width() + self.spare[1] - width)
        ink.draw_text(painter, QRectF(left, at.y() + 2, width, self._line), text, font, colour)


class MeanMap(Heatmap):
    """The share of weight that the queries in one part of a text give to the keys in another.

    Its parts are equal, so that texts of all lengths count alike.
    """

    rows_axis: ShareAxis
    columns_axis: ShareAxis

    def __init__(self, title: str = "") -> None:
        super().__init__(title)
        self.titles = ("query", "key")
        self._grid: Doubles = np.zeros((0, 0))
        self.pointed.connect(self.set_hover)
        self.picked.connect(self.set_selection)
        self.setAccessibleName("mean weights by place in the text; arrow keys move over its parts")

    def make_axis(self, side: Literal["left", "bottom"]) -> TokenAxis:
        """Parts of a text have no names."""
        return ShareAxis(side)

    def show_map(self, title: str, grid: Doubles, scale: Scale = "linear") -> None:
        """Draw a grid [G, G], a row for a part's queries; NaN is hatched, and so is what is after a query."""
        parts = len(grid)
        self.title, self._grid = title, grid
        for axis in (self.rows_axis, self.columns_axis):
            axis.parts = parts
        shown = np.isfinite(grid) & np.tri(parts, dtype=np.bool_)
        highest = float(grid[shown].max(initial=0.0)) or 1.0
        self.set_data(grid.astype(np.float32), shown, (0, parts), (0, parts))
        self.set_levels(Levels(FAINTEST * highest if scale == "log" else 0.0, highest, scale))
        self.arrange()
        self._say()

    def words(self, query: int, key: int) -> str:
        """What a cell says; empty where there is none."""
        parts = len(self._grid)
        if not (0 <= query < parts and 0 <= key < parts):
            return ""
        queries, keys = (f"{100 * at / parts:.0f}–{100 * (at + 1) / parts:.0f} %" for at in (query, key))
        value = float(self._grid[query, key])
        after = key > query
        said = "after the query" if after else "no text" if np.isnan(value) else wording.number(value)
        return f"queries at {queries}, keys at {keys}: {said}"

    def set_hover(self, query: int, key: int) -> None:
        """Mark what is pointed at, and say it; −1 for none."""
        super().set_hover(query, key)
        self._say()

    def set_selection(self, query: int, key: int) -> None:
        """Outline a row and a column, and say their cell; −1 for none."""
        super().set_selection(query, key)
        self._say()

    def _say(self) -> None:
        self.say(self.words(*self.hover) or self.words(*self.selection))
        self.setAccessibleDescription(self.words(*self.selection))

    def table(self) -> Table:
        """What is drawn, as columns."""
        parts = len(self._grid)
        queries, keys = (places.ravel() / max(parts, 1) for places in np.indices(self._grid.shape))
        return ("query from", queries.tolist()), ("key from", keys.tolist()), ("share", self._grid.ravel().tolist())
