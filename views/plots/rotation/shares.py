"""Each plane's share of the score as a signed bar, and the score against the query's position."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pyqtgraph import mkPen
from PySide6.QtCore import QPointF, QSize, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QHBoxLayout, QWidget

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots.charts.bars import Bars
from ropewalk.views.plots.charts.plot import Curve, Line, Plot, Table
from ropewalk.views.plots.maps.signed import signed_colour
from ropewalk.views.plots.rotation import hands
from ropewalk.views.plots.rotation.turning import Moves, Turned
from ropewalk.views.style import theme, wording

LEAST = 1.0
"""How far a curve of the score reaches up and down at least, in products of features: a flat one looks flat."""


class ShareBars(Bars):
    """What each plane adds to the scaled score. The scale is what planes can reach, so it stands while they turn."""

    def __init__(self) -> None:
        self._turned: Turned | None = None
        super().__init__()
        self.heading.say("share of the score, by plane")
        self.setAccessibleName("Share of the score by plane; left and right select one")

    def show_turned(self, turned: Turned) -> None:
        """Draw the shares at a position."""
        if self._turned is None or turned.reading is not self._turned.reading:
            self.point_away()
        self._turned, r = turned, turned.reading
        reach = r.scale * r.factor**2 * float((np.hypot(*r.q_before.T) * np.hypot(*r.k_before.T)).max(initial=0.0))
        reach = max(reach, float(np.abs(turned.shares).max(initial=0.0))) or 1.0
        more, less = signed_colour(1.0), signed_colour(-1.0)
        self.show_bars(turned.shares, [more if share >= 0 else less for share in turned.shares.tolist()], -reach, reach)

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        super().theme_changed()
        if self._turned is not None:
            self.show_turned(self._turned)

    def number(self, place: int) -> str:
        """A share."""
        return hands.share(float(self.heights[place]))

    def table(self) -> Table:
        """What is drawn, as columns."""
        return ("plane", range(len(self.heights))), ("share of the score", self.heights.tolist())

    def readout(self, at: QPointF) -> str:
        """The plane and its share."""
        place = round(at.x())
        return f"plane {place}: {wording.number(float(self.heights[place]))}" if 0 <= place < len(self.heights) else ""


class PositionCurve(Plot):
    """The scaled score with what moves at every position; the line at the position can be dragged."""

    WHAT: ClassVar[dict[Moves, tuple[str, str]]] = {
        "query": ("score by position m", "position m of the query"),
        "key": ("score by position n", "position n of the key"),
        "both": ("score, both moved", "position m of the query, the key moves along"),
    }
    """What it shows, and what is along its axis."""
    ROOMY = 12
    """Lines of type from which on the axes have room for their titles."""

    chosen = Signal(float)

    def __init__(self) -> None:
        self.line = Curve()
        self.here = Line(movable=True)
        self._positions: Doubles = np.zeros(0)
        self._scores: Doubles = np.zeros(0)
        self.moves: Moves = "query"
        super().__init__()
        for item in (self.line, self.here):
            self.add(item)
        self._name()
        self.here.sigDragged.connect(lambda line: self.chosen.emit(float(round(line.value()))))
        self.here.sigPositionChangeFinished.connect(lambda line: line.setValue(round(line.value())))
        self.setAccessibleName("Score by position")

    def show_turned(self, turned: Turned, positions: Doubles, scores: Doubles, moves: Moves) -> None:
        """Draw the curve, and mark the position."""
        if moves != self.moves:
            self.moves = moves
            self._name()
            self.theme_changed()
        here = turned.key_position if moves == "key" else turned.position
        if scores is not self._scores:
            self._positions, self._scores = positions, scores
            self.point_away()
            self.line.setData(positions, scores)
            low, high = float(scores.min(initial=0.0)), float(scores.max(initial=0.0))
            if len(scores):
                low, high = float(scores.min()), float(scores.max())
                margin = max(0.05 * (high - low), LEAST * turned.reading.scale, 1e-3 * abs(high))
                self.here.setBounds((positions[0], positions[-1]))
                self.show_range(float(positions[0]), float(positions[-1]) or 1.0, low - margin, high + margin)
        if not self.here.moving:
            self.here.setValue(here)
        self.dots.show_dots([(here, turned.scaled, self.colour)])

    @property
    def colour(self) -> QColor:
        """That of what moves."""
        return theme.current().key if self.moves == "key" else theme.current().query

    def _name(self) -> None:
        self.heading.say(self.WHAT[self.moves][0])

    def arrange(self) -> None:
        """Name the axes where there is room for it."""
        roomy = self.height() >= self.ROOMY * theme.current().size("label")
        self.bottom.name(self.WHAT[self.moves][1]) if roomy else self.bottom.showLabel(False)
        super().arrange()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        super().theme_changed()
        now = theme.current()
        self.line.setPen(mkPen(now.faint, width=1.5))
        self.here.setPen(mkPen(self.colour, width=1))
        self.here.setHoverPen(mkPen(self.colour, width=3))
        self.dots.show_dots([(x, y, self.colour) for x, y, _ in self.dots.dots])

    def click_at(self, at: QPointF) -> None:
        """Move there."""
        if len(self._positions):
            self.chosen.emit(float(round(at.x())))

    def table(self) -> Table:
        """What is drawn, as columns."""
        what = "n" if self.moves == "key" else "m"
        return (what, self._positions.tolist()), ("scaled score", self._scores.tolist())

    def readout(self, at: QPointF) -> str:
        """The score at a position."""
        if not len(self._positions):
            return ""
        m = round(at.x())
        what = "n" if self.moves == "key" else "m"
        return f"{what} = {m}: {wording.number(float(np.interp(m, self._positions, self._scores)))}"


class SharesView(QWidget):
    """Both, side by side."""

    plane_clicked = Signal(int)
    position_chosen = Signal(float)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.bars, self.curve = ShareBars(), PositionCurve()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2 * theme.GRID)
        for half in (self.bars, self.curve):
            layout.addWidget(half, 1)
        self.bars.picked.connect(self.plane_clicked)
        self.curve.chosen.connect(self.position_chosen)

    def show_turned(self, turned: Turned, positions: Doubles, scores: Doubles, moves: Moves) -> None:
        """Draw the shares at a position, and mark it on the curve."""
        self.bars.show_turned(turned)
        self.curve.show_turned(turned, positions, scores, moves)

    def mark(self, plane: int) -> None:
        """Outline the selected plane."""
        self.bars.mark(plane)

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        self.bars.theme_changed()
        self.curve.theme_changed()
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """A low strip."""
        return QSize(200, 9 * theme.current().size("label"))
