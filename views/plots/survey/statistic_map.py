"""A statistic of every head as a map of layers and heads, or the difference of two: what is significant stands out."""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from ropewalk.model.readings.records import Bools, Doubles, Floats
from ropewalk.views.plots.charts.plot import Table
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.plots.maps.map_data import MapData
from ropewalk.views.plots.maps.map_marks import Marks
from ropewalk.views.plots.maps.signed import BoxMarks, HeadMap
from ropewalk.views.style import ink, theme, wording
from ropewalk.views.style.theme import Table as Pixels

PALE: Final = 0.22
"""How much of its colour a head keeps whose difference may be chance."""
LEAST: Final = 0.005
"""A smaller number is not written."""
DOTTED: Final = 7
"""Pixels from which on a head that differs has a dot, where there is not room for its number."""


def with_error(value: float, error: float) -> str:
    """Write a mean as ``0.769 ± 0.014``; one of a single text has no error."""
    said = wording.number(value)
    return said if np.isnan(error) else f"{said} ± {wording.number(error)}"


LEAST_P = 0.001
"""A probability below it is said to be so, not written as 0.000."""


class PaleData(MapData):
    """Numbers of which some are faded; only the others are written."""

    def __init__(self) -> None:
        super().__init__()
        self.strong: Bools | None = None
        """[h, w] those that are not faded; None for all."""

    @property
    def told(self) -> Bools:
        """The pixels whose numbers are written where there is room: none that would read 0.00."""
        return self.visible & ((np.abs(self.values) >= LEAST) if self.strong is None else self.strong)

    def _coloured(self, values: Floats, visible: Bools) -> Pixels:
        pixels = super()._coloured(values, visible)
        if self.strong is not None:
            ground = theme.current().panel
            panel = np.array([ground.red(), ground.green(), ground.blue()])
            pale = visible & ~self.strong
            pixels[pale, :3] = np.rint(panel + PALE * (pixels[pale, :3].astype(np.float64) - panel)).astype(np.uint8)
        return pixels


class StatisticMarks(BoxMarks):
    """Boxes around heads, and dots in those that differ."""

    numbers: PaleData

    def draw_numbers(self, painter: QPainter, exposed: QRectF) -> None:
        """Write them, or draw dots where there is not room for them."""
        super().draw_numbers(painter, exposed)
        if self.numbers.strong is None or self.numbers_fit or self.box.step < DOTTED:
            return
        part, radius = self.pixels_in(exposed), min(self.box.step / 6, theme.current().grid(0.375))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().text)
        first, (across, down) = self.box.cell_rect(part[0].start, part[1].start).center(), self.box.steps
        for row, column in np.argwhere(self.numbers.told[part]).tolist():
            painter.drawEllipse(first + QPointF(column * across, row * down), radius, radius)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


class StatisticMap(HeadMap):
    """A number for every head with its error; cells fill the room, higher or wider than they are the other way.

    Signals
    -------
    chosen(layer, head)
        A head was clicked, or reached with the arrow keys.
    entered(layer, head)
        The pointer is over a head; (-1, -1) when it left.
    """

    data: PaleData

    def __init__(self, title: str = "") -> None:
        super().__init__(title)
        self.form.square = False
        self._values: Doubles = np.zeros((0, 0))
        self._errors: Doubles = np.zeros((0, 0))
        self._counts: Doubles = np.zeros((0, 0))
        self._adjusted: Doubles | None = None
        self._strong: Bools | None = None
        self.entered.connect(self.point)
        self.setAccessibleName("a statistic of every head; arrow keys select one")

    def make_data(self) -> MapData:
        """Some numbers may be faded."""
        return PaleData()

    def make_marks(self) -> Marks:
        """Boxes and dots."""
        return StatisticMarks(self.box, self.data)

    def show_statistic(self, title: str, means: Doubles, errors: Doubles, counts: Doubles | int) -> None:
        """Draw means [L, H]; ``counts`` are the texts that each is of. NaN is hatched: no text has a value."""
        finite = means[np.isfinite(means)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        largest = max(abs(low), abs(high)) or 1.0
        levels = Levels(-largest, largest, "diverging") if low < 0 else Levels(0.0, largest)
        self._show(title, means, errors, counts, None, None, levels)

    def show_difference(
        self,
        title: str,
        differences: Doubles,
        errors: Doubles,
        counts: Doubles | int,
        adjusted: Doubles,
        significant: Bools,
    ) -> None:
        """Draw differences [L, H], those that are not ``significant`` faded; ``adjusted`` are their p."""
        told = np.isfinite(differences)
        largest = float(np.abs(differences[told]).max(initial=0.0)) or 1.0
        levels = Levels(-largest, largest, "diverging")
        self._show(title, differences, errors, counts, adjusted, significant & told, levels)

    def _show(
        self,
        title: str,
        values: Doubles,
        errors: Doubles,
        counts: Doubles | int,
        adjusted: Doubles | None,
        strong: Bools | None,
        levels: Levels,
    ) -> None:
        self.title = title
        self._values, self._errors, self._adjusted, self._strong = values, errors, adjusted, strong
        self._counts = np.broadcast_to(np.asarray(counts, np.float64), values.shape)
        shown = np.isfinite(values)
        self.show_numbers(np.where(shown, values, np.nan).astype(np.float32), shown)
        self.set_levels(levels)
        self.arrange()
        self._say()

    def set_data(
        self, values: Floats, visible: Bools, rows: tuple[int, int], columns: tuple[int, int], **how: object
    ) -> None:
        """Draw them, turned as the numbers are."""
        turned = self._strong is not None and self.across
        self.data.strong = np.ascontiguousarray(self._strong.T) if turned and self._strong is not None else self._strong
        super().set_data(values, visible, rows, columns)

    def words(self, layer: int, head: int) -> str:
        """Everything about a head in a line; empty where there is none."""
        down, across = self._errors.shape
        if not (0 <= layer < down and 0 <= head < across):
            return ""
        name, value = wording.head_name(layer, head), float(self._values[layer, head])
        if np.isnan(value):
            return f"{name}: no text has a value"
        said = [f"{name}: {with_error(value, float(self._errors[layer, head]))}"]
        if self._adjusted is not None:
            p = float(self._adjusted[layer, head])
            said.append(f"p adjusted < {LEAST_P}" if p < LEAST_P else f"p adjusted {wording.number(p)}")
        return ink.PART.join((*said, f"n = {self._counts[layer, head]:,.0f}"))

    def mark(self, a: int, b: int) -> None:
        """Mark a layer and head, and say its numbers."""
        super().mark(a, b)
        self._say()

    def point(self, a: int, b: int) -> None:
        """Point at a layer and head, here or elsewhere; −1 for none."""
        super().point(a, b)
        self._say()

    def _say(self) -> None:
        """Say what is pointed at, or what is marked."""
        self.say(self.words(*self.hovered) or self.words(*self.marked))
        self.setAccessibleDescription(self.words(*self.marked))

    def table(self) -> Table:
        """What is drawn, as columns."""
        layers, heads = self._values.shape
        columns = [
            ("layer", np.repeat(np.arange(layers), heads)),
            ("head", np.tile(np.arange(heads), layers)),
            ("value", self._values.ravel()),
            ("error", self._errors.ravel()),
            ("n", self._counts.ravel().astype(np.int64)),
        ]
        if self._adjusted is not None:
            columns.append(("p adjusted", self._adjusted.ravel()))
        return tuple((name, column.tolist()) for name, column in columns)
