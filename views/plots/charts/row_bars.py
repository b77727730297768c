"""One query row as bars: a weight for every key, with numbers and token names where they fit."""

from __future__ import annotations

from typing import Literal

import numpy as np
from PySide6.QtCore import QPointF, QSize
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.bidi import isolated
from ropewalk.model.readings.records import Doubles, RowReading
from ropewalk.views.plots.charts.bars import Bars
from ropewalk.views.plots.charts.plot import Table
from ropewalk.views.plots.maps.levels import in_cell
from ropewalk.views.style import ink, theme

FLOOR = 1e-4
"""The smallest weight that a scale of powers of ten tells apart from zero."""
LEAST_MARKED = 0.005
"""A smaller weight has no number of its own, unless its key is selected: it would read 0.00."""


class RowBars(Bars):
    """Bars of the weights of one row; it is the panel that says what is pointed at, here or in a map."""

    title = "key"

    def __init__(self, parent: QWidget | None = None) -> None:
        self._row: RowReading | None = None
        self._labels: tuple[str, ...] = ()
        self._log = self._skip_first = False
        super().__init__(parent=parent)
        self.outline = "key"
        self.setAccessibleName("weights of the selected query; arrow keys select the key")

    def set_row(self, row: RowReading, labels: tuple[str, ...]) -> None:
        """Show a row; ``labels`` are the token texts."""
        self._row, self._labels = row, labels
        self.names = labels
        self.heading.say(self.words())
        self.setAccessibleDescription(self.words())
        self._draw()

    def set_scale(self, scale: Literal["linear", "log"], *, skip_first: bool) -> None:
        """Spread the heights linearly or over powers of ten, with or without the first key in the scale."""
        if (scale == "log", skip_first) != (self._log, self._skip_first):
            self._log, self._skip_first = scale == "log", skip_first
            self.left.kind = "decades" if self._log else "real"
            self.base = float(np.log10(FLOOR)) if self._log else 0.0
            self.zero.setValue(self.base)
            self._draw()

    def words(self) -> str:
        """What is shown, in words."""
        row = self._row
        if row is None:
            return ""
        token = isolated(self._labels[row.query]) if row.query < len(self._labels) else ""
        sink = f" · sink logit {in_cell(row.sink_weight)}" if row.sink_weight else ""
        return f"row of query {row.query} {token} · entropy {in_cell(row.entropy)} nats{sink}"

    @property
    def top(self) -> float:
        """The weight that reaches the top."""
        weights: Doubles = np.zeros(0) if self._row is None else self._row.weights[1 if self._skip_first else 0 :]
        return float(max(weights[np.isfinite(weights)].max(initial=0.0), 10 * FLOOR))

    def _draw(self) -> None:
        if self._row is None:
            return
        weights, top = np.clip(np.nan_to_num(self._row.weights, posinf=np.inf), 0, self.top), self.top
        if self._log:
            weights, top = np.log10(np.maximum(weights, FLOOR)), float(np.log10(top))
        self.show_bars(weights, (ink.faded(theme.current().key, 0.7),), self.base, top)

    def number(self, place: int) -> str:
        """A weight that is not too small."""
        row = self._row
        if row is None or not row.visible[place] or (row.weights[place] < LEAST_MARKED and place != self.selected):
            return ""
        return in_cell(float(row.weights[place]))

    def is_hidden(self, place: int) -> bool:
        """Whether a key is masked."""
        return self._row is not None and not self._row.visible[place]

    def table(self) -> Table:
        """What is drawn, as columns."""
        return () if self._row is None else (("key", self._labels), ("weight", self._row.weights.tolist()))

    def readout(self, at: QPointF) -> str:
        """What the panel says of the cell stays."""
        return self.heading.readout

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        super().theme_changed()
        self._draw()

    def sizeHint(self) -> QSize:
        """Room for a heading, numbers, bars and names."""
        return QSize(300, 9 * theme.current().size("label"))

    def minimumSizeHint(self) -> QSize:
        """The smallest size that still shows bars."""
        return QSize(80, 7 * theme.current().size("label"))
