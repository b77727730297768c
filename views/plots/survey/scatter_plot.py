"""Two statistics of every head against each other: each dot is a head, and a line drawn around some chooses them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyqtgraph import ScatterPlotItem, mkBrush, mkPen
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QKeyEvent, QMouseEvent, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QApplication, QStyleOptionGraphicsItem, QWidget

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.charts.plot import Plot, Table, in_pixels
from ropewalk.views.plots.plot_view import Painted
from ropewalk.views.style import ink, theme, wording

AROUND: Final = 0.04
"""How far the plot goes on beyond the outermost dots, as a share of what is between them."""
CLOSEST: Final = 1e-3
"""The least of a side that can be looked at, as a share of all of it."""

ROUND: Final = "o"
DIAMOND: Final = "d"
"""The shapes of dots, by pyqtgraph's names; a diamond is for chosen heads."""
SLIM: Final = 0.8
"""How wide its diamond is, as a share of its height."""

Points = NDArray[np.float64]
"""[N, 2] places in pixels of the widget."""


class Heads(ScatterPlotItem):
    """The dots."""

    def mouseClickEvent(self, event: Any) -> None:
        """Leave clicks to the plot."""
        event.ignore()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget) -> None:
        """Draw them; elsewhere than on the screen as circles, those in view: what is kept of a dot is pixels."""
        if not ink.leaves_the_screen(painter, widget):
            super().paint(painter, option, widget)
            return
        xs, ys = self.getData()
        seen = self.getViewBox().viewRect()
        half, pen, brush = self.opts["size"] / 2, self.opts["pen"], self.opts["brush"]
        with in_pixels(self, painter) as to_view:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(pen)
            painter.setBrush(brush)
            for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
                if not seen.contains(x, y):
                    continue
                at = to_view.map(QPointF(x, y))
                if self.opts["symbol"] == ROUND:
                    painter.drawEllipse(at, half, half)
                else:
                    corners = ((0, -half), (SLIM * half, 0), (0, half), (-SLIM * half, 0))
                    painter.drawPolygon(QPolygonF([at + QPointF(*corner) for corner in corners]))


class ScatterPlot(Plot):
    """A dot for every head.

    A click selects a head, ← → and ↑ ↓ go to the next one across and up, a drag draws a line around heads that are
    chosen, with Shift beside those chosen before, and Escape lets all of them go. The wheel looks closer.

    Signals
    -------
    picked(head)
        The place of a head among those shown: it was clicked, or reached with an arrow key.
    lassoed(heads)
        The list of chosen places is another one.
    pointed(head)
        The pointer is over a head; −1 when it left.
    """

    picked = Signal(int)
    lassoed = Signal(list)
    pointed = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.names: Sequence[str] = ()
        self.xs: Doubles = np.zeros(0)
        self.ys: Doubles = np.zeros(0)
        self.shown: NDArray[np.intp] = np.zeros(0, np.intp)
        """The places of the heads that have a dot."""
        self.selected = self.pointed_at = -1
        self.chosen: frozenset[int] = frozenset()
        self.lasso: list[QPointF] = []
        """Where a drag has been, in pixels of the widget; a press alone is one point."""
        self._titles = ("", "")
        self.heads, self.diamonds = Heads(symbol=ROUND), Heads(symbol=DIAMOND)
        self.marks: HeadMarks | None = None
        super().__init__(parent=parent)
        for item in (self.heads, self.diamonds):
            self.add(item)
        self.marks = HeadMarks(self)
        self.scene().addItem(self.marks)
        self.box.setMouseEnabled(x=True, y=True)
        self.box.sigRangeChanged.connect(lambda *_: self._redraw())
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("two statistics of every head; arrow keys go from head to head")
        self.theme_changed()

    def show_heads(self, names: Sequence[str], xs: Doubles, ys: Doubles, across: str, up: str) -> None:
        """Draw heads [N] at two numbers each, whose axes are called ``across`` and ``up``.

        One of which a number is not finite is left out, which is said above the plot.
        """
        others = len(names) != len(self.names) or (across, up) != self._titles
        self.names, self.xs, self.ys, self._titles = names, xs, ys, (across, up)
        self.shown = np.flatnonzero(np.isfinite(xs) & np.isfinite(ys))
        if others:
            self.selected, self.pointed_at, self.chosen, self.lasso = -1, -1, frozenset(), []
        self.left.name(up)
        self.bottom.name(across)
        spans = [_span(numbers[self.shown]) for numbers in (xs, ys)]
        self.show_range(*spans[0], *spans[1])
        self.box.setLimits(minXRange=CLOSEST * self.whole_range.width(), minYRange=CLOSEST * self.whole_range.height())
        self.arrange()
        self.lay_out()
        self._draw_dots()
        self._say()

    def mark(self, head: int) -> None:
        """Mark the selected head; −1 for none."""
        if head != self.selected:
            self.selected = head
            self._bring_in_sight(head)
            self._redraw()
            self._say()

    def point(self, head: int) -> None:
        """Mark the head that is pointed at, here or elsewhere; −1 for none."""
        if head != self.pointed_at:
            self.pointed_at = head
            self._redraw()
            self._say()

    def choose(self, heads: Collection[int]) -> None:
        """Mark some heads, and no others."""
        if frozenset(heads) != self.chosen:
            self.chosen = frozenset(heads)
            self._draw_dots()
            self._say()

    # What it can say ----------------------------------------------------------------------------------------------

    def words(self, head: int) -> str:
        """The name of a head and both its numbers; empty for none."""
        if not 0 <= head < len(self.names):
            return ""
        x, y = (wording.number(float(numbers[head])) for numbers in (self.xs, self.ys))
        return ink.PART.join((self.names[head], f"{self._titles[0]} {x}", f"{self._titles[1]} {y}"))

    def head_at(self, point: QPointF) -> int:
        """The head whose dot is nearest to a point of the widget, −1 where none is near."""
        if not len(self.shown) or not self.box.geometry().contains(point):
            return -1
        far = np.square(self.points() - (point.x(), point.y())).sum(axis=1)
        nearest = int(far.argmin())
        return int(self.shown[nearest]) if far[nearest] <= (2 * self.radius) ** 2 else -1

    def points(self) -> Points:
        """Where the dots are, those out of view too."""
        (left, right), (low, high) = self.box.viewRange()
        box = self.box.geometry()
        across = box.left() + (self.xs[self.shown] - left) / (right - left) * box.width()
        down = box.bottom() - (self.ys[self.shown] - low) / (high - low) * box.height()
        return np.stack((across, down), axis=1)

    def heads_within(self, corners: Sequence[QPointF]) -> list[int]:
        """The places of the heads inside a line that is closed from its end to its start."""
        if len(corners) < 3:
            return []
        shape = np.array([(corner.x(), corner.y()) for corner in corners])
        found: list[int] = self.shown[_inside(self.points(), shape)].tolist()
        return found

    def table(self) -> Table:
        """What is drawn, as columns."""
        chosen = [head in self.chosen for head in range(len(self.names))]
        columns = ("head", self.names), (self._titles[0], self.xs.tolist()), (self._titles[1], self.ys.tolist())
        return (*columns, ("chosen", chosen)) if self.chosen else columns

    # How it is drawn ----------------------------------------------------------------------------------------------

    @property
    def radius(self) -> float:
        """Of a dot, in pixels: smaller where there are thousands."""
        return theme.current().grid(0.5) * (1.0 if len(self.shown) < 1000 else 0.7)

    def _draw_dots(self) -> None:
        """Give the dots their places and looks, each in one call: it takes a while where there are thousands."""
        now, alpha = theme.current(), 0.6 if len(self.shown) < 1000 else 0.35
        brush = mkBrush(ink.faded(now.key, 0.6 * alpha if self.chosen else alpha))
        chosen = self.shown[np.isin(self.shown, np.fromiter(self.chosen, np.intp))]
        for item, places, size, pen, fill in (
            (self.heads, self.shown, 2 * self.radius, mkPen(None), brush),
            (self.diamonds, chosen, 3.2 * self.radius, mkPen(now.panel), mkBrush(now.text)),
        ):
            item.setData(self.xs[places], self.ys[places], size=size, pen=pen, brush=fill)
        self._redraw()

    def _redraw(self) -> None:
        if self.marks is not None:
            self.marks.put(QRectF(self.box.geometry()))
            self.marks.update()

    def _resized(self) -> None:
        super()._resized()
        self._redraw()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        super().theme_changed()
        self._draw_dots()

    def _say(self) -> None:
        missing = len(self.names) - len(self.shown)
        parts = [wording.counted(len(self.shown), "head")]
        if self.chosen:
            parts.append(f"{len(self.chosen):,} chosen")
        if missing:
            parts.append(f"{missing:,} without a value")
        self.heading.say(ink.PART.join(parts), self.words(self.pointed_at) or self.words(self.selected))
        self.setAccessibleDescription(self.words(self.selected))

    def _bring_in_sight(self, head: int) -> None:
        """Bring a head that is out of view into the middle."""
        if head not in self.shown:
            return
        at, view = QPointF(float(self.xs[head]), float(self.ys[head])), self.box.viewRect()
        if not view.contains(at):
            view.moveCenter(at)
            self.box.setRange(view, padding=0, disableAutoRange=False)

    # What a person does -------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a click or a line around heads."""
        if event.button() == Qt.MouseButton.LeftButton:  # anywhere: dots at an edge are encircled from outside
            self.lasso = [event.position()]
            event.accept()
        else:
            super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Draw on, or point at a head."""
        if self.lasso and event.buttons() & Qt.MouseButton.LeftButton:
            self.lasso.append(event.position())
            self._redraw()
            return
        self.lasso = []
        super().mouseMoveEvent(event)
        head = self.head_at(event.position())
        if head != self.pointed_at:
            self.pointed.emit(head)
        self.point(head)
        self._say()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Choose what the line is around, or select what was clicked."""
        if event.button() != Qt.MouseButton.LeftButton or not self.lasso:
            super().mouseReleaseEvent(event)
            return
        line, self.lasso = self.lasso, []
        event.accept()
        self._redraw()
        far = max((point - line[0]).manhattanLength() for point in (*line, event.position()))
        if far >= QApplication.startDragDistance():
            within = set(self.heads_within(line))
            adds = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            self._take(within | self.chosen if adds else within)
        elif (head := self.head_at(event.position())) >= 0:
            self.picked.emit(head)

    def _take(self, heads: Collection[int]) -> None:
        """Choose heads, and say so."""
        if frozenset(heads) != self.chosen:
            self.choose(heads)
            self.lassoed.emit(sorted(self.chosen))

    def viewportEvent(self, event: QEvent) -> bool:
        """Point at nothing any more."""
        done = super().viewportEvent(event)
        if event.type() == QEvent.Type.Leave:
            self.pointed.emit(-1)
            self.point(-1)
            self._say()
        return done

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go to the next head, or let the chosen ones go."""
        step = arrow_keys.step_of(event)
        if self._lets_go(event):
            self.lasso = []
            self._take(())
            self._redraw()
        elif step is None:
            super().keyPressEvent(event)
        elif (head := self.beside(*step)) >= 0:
            self.picked.emit(head)

    def beside(self, across: int, down: int) -> int:
        """The head after or before the selected one in the order of an axis, −1 where there is none."""
        numbers = self.xs if across else self.ys
        order = self.shown[np.lexsort((self.shown, numbers[self.shown]))]
        at = np.flatnonzero(order == self.selected)
        if not at.size:
            return int(order[0]) if order.size else -1
        place = int(at[0]) + (across or -down)
        return int(order[place]) if 0 <= place < len(order) else -1

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused, and Escape while there is something to let go."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and self._lets_go(event):
            event.accept()
            return True
        return arrow_keys.kept(event) or bool(super().event(event))

    def _lets_go(self, event: QKeyEvent) -> bool:
        return event.key() == Qt.Key.Key_Escape and bool(self.chosen or self.lasso)

    def sizeHint(self) -> QSize:
        """Room for a cloud that can be read."""
        line = theme.current().size("label")
        return QSize(26 * line, 20 * line)

    def minimumSizeHint(self) -> QSize:
        """The smallest size that still shows where dots are."""
        line = theme.current().size("label")
        return QSize(11 * line, 9 * line)


def _span(numbers: Doubles) -> tuple[float, float]:
    """From where to where an axis goes so that no dot stands on its end; zero is in it where that is near."""
    if not numbers.size:
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    if low > 0 and low < high / 2:
        low = 0.0
    apart = (high - low) or abs(high) or 1.0
    return low - AROUND * apart, high + AROUND * apart


def _inside(points: Points, shape: Points) -> NDArray[np.bool_]:
    """Which points are inside a polygon: a ray from each crosses its sides an odd number of times."""
    inside = np.zeros(len(points), np.bool_)
    xs, ys = points[:, 0], points[:, 1]
    for (x0, y0), (x1, y1) in zip(shape, np.roll(shape, -1, axis=0), strict=True):
        if y0 == y1:
            continue
        crosses = (ys < y0) != (ys < y1)
        inside ^= crosses & (xs < x0 + (ys - y0) / (y1 - y0) * (x1 - x0))
    return inside


class HeadMarks(Painted):
    """What is drawn upon dots: rings around the selected head and another, their names, and the line of a drag."""

    def __init__(self, plot: ScatterPlot) -> None:
        super().__init__()
        self.plot = plot

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Draw them."""
        plot, now = self.plot, theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setClipRect(self.area)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for head, style in ((plot.pointed_at, Qt.PenStyle.DotLine), (plot.selected, Qt.PenStyle.SolidLine)):
            if head in plot.shown:
                self._ring(painter, head, style)
        if len(plot.lasso) > 1:
            painter.setPen(QPen(now.accent, max(now.grid(0.125), 1), Qt.PenStyle.DashLine))
            painter.setBrush(QBrush(ink.faded(now.accent, 0.15)))
            painter.drawPolygon(QPolygonF(plot.lasso))

    def _ring(self, painter: QPainter, head: int, style: Qt.PenStyle) -> None:
        """Draw a ring around a head, and its name beside it where there is room."""
        plot, now = self.plot, theme.current()
        at = plot.at(float(plot.xs[head]), float(plot.ys[head]))
        solid = style == Qt.PenStyle.SolidLine
        radius = plot.radius + now.grid(0.5)
        wide = now.grid(0.25)
        for pen in (QPen(now.panel, wide + 3), QPen(now.accent, wide) if solid else QPen(now.text, 1.5, style)):
            painter.setPen(pen)
            painter.drawEllipse(at, radius, radius)
        font = now.font("number")
        width, line = ink.text_width(font, plot.names[head]) + 2, ink.line_height(font)
        left = at.x() + radius + now.grid(0.5)
        if left + width > self.area.right():
            left = at.x() - radius - now.grid(0.5) - width
        top = min(max(at.y() - line / 2, self.area.top()), self.area.bottom() - line)
        box = QRectF(left, top, width, line)
        painter.fillRect(box, ink.faded(now.panel, 0.85))
        ink.draw_text(painter, box, plot.names[head], font, now.text, ink.CENTRE)
