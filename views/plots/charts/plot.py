"""A plot with axes: numbers beside it and below, a heading above, and words for what is pointed at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from pyqtgraph import AxisItem, InfiniteLine, PlotCurveItem, ViewBox, mkPen, setConfigOption
from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPen, QTransform
from PySide6.QtWidgets import QGraphicsGridLayout, QWidget

from ropewalk.views.plots.plot_view import Painted, PlotView
from ropewalk.views.style import ink, theme, wording

setConfigOption("mouseRateLimit", 0)  # Qt compresses moves itself; a drag must not lose its last one

FARTHEST = 1e300
"""No axis goes further: pyqtgraph refuses a range without an end."""

Table = Sequence[tuple[str, Sequence[Any]]]
"""Columns of equal length: their names and what is in them."""
Kind = Literal["real", "whole", "bytes", "decades"]


class NumberAxis(AxisItem):
    """An axis with the numbers of a plot, as few as can be read.

    Parameters
    ----------
    kind
        ``real`` numbers, ``whole`` ones, ``bytes``, or ``decades``: the logarithms of what is written.
    """

    def __init__(self, side: Literal["left", "bottom"], kind: Kind = "real") -> None:
        super().__init__(side)
        self.kind = kind
        self.enableAutoSIPrefix(False)
        self.theme_changed()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        now = theme.current()
        line = math.ceil(now.face("number").height)
        self.setStyle(tickFont=now.font("number"), tickTextHeight=line, autoExpandTextSpace=False)
        self.setStyle(tickLength=-4, maxTickLevel=0, hideOverlappingLabels=False)
        self.setPen(mkPen(now.line))
        self.setTextPen(mkPen(now.faint))
        if self.label.isVisible():
            self.name(self.labelText)

    def name(self, title: str) -> None:
        """Say what is measured along the axis."""
        now = theme.current()
        self.label.setFont(now.font("label"))
        self.setLabel(title, color=now.faint.name())
        self.resizeEvent()  # in the middle of the axis, where the words before may have been longer

    def fit(self) -> None:
        """Be as wide as the numbers of a left axis are."""
        view = self.linkedView()
        if view is not None and view.height() > 0:
            low, high = view.viewRange()[1]
            levels = self.tickValues(low, high, view.height())
            texts = [text for gap, values in levels[:1] for text in self.tickStrings(values, 1, gap)]
            font = theme.current().font("number")
            self.setStyle(tickTextWidth=max((math.ceil(ink.text_width(font, text)) for text in texts), default=0))

    def tickValues(self, minVal: float, maxVal: float, size: float) -> Any:
        """Where numbers stand: at powers of ten, or at whole numbers, where the axis has such."""
        if self.kind == "decades":
            low, high = math.ceil(min(minVal, maxVal) - 1e-6), math.floor(max(minVal, maxVal) + 1e-6)
            apart = 1.5 * theme.current().face("number").height
            step = max(math.ceil(apart * (high - low) / max(size, 1)), 1)
            return [(step, list(range(low, high + 1, step)))]
        unit = 1024.0 ** int(math.log(max(maxVal - minVal, 1), 1024)) if self.kind == "bytes" else 1.0
        levels = [
            (gap * unit, [value * unit for value in values])
            for gap, values in super().tickValues(minVal / unit, maxVal / unit, size)
        ]
        gap, values = next(((gap, values) for gap, values in levels if self.kind == "real" or gap >= 1), levels[-1])
        now = theme.current()
        if self.orientation == "left":
            apart = 1.2 * now.face("number").height
        else:
            texts = self.tickStrings(values, 1, gap)
            apart = max((ink.text_width(now.font("number"), text) for text in texts), default=0.0) + now.grid(1)
        step = max(math.ceil(apart * abs(maxVal - minVal) / (gap * max(size, 1))), 1)  # no two upon each other
        return [(gap * step, [value for value in values if round(value / gap) % step == 0])]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """How numbers so far apart are written."""
        if self.kind == "decades":
            return [f"{10.0 ** min(value, 300.0):,.{max(-round(value), 0)}f}" for value in values]
        if self.kind == "bytes":
            return [wording.byte_size(round(value)) for value in values]
        digits = max(math.ceil(-math.log10(spacing) - 1e-9), 0) if spacing > 0 else 0
        return [f"{value + 0.0:,.{digits}f}".replace("-", wording.MINUS) for value in values]

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw it here and now: a kept picture would be in the type of before."""
        painter.setFont(theme.current().font("number"))
        specs = self.generateDrawSpecs(painter)
        if specs is not None:
            self.drawPicture(painter, *specs)


@contextmanager
def in_pixels(item: Any, painter: QPainter) -> Iterator[QTransform]:
    """Draw an item in pixels of its view: few readers of vector files keep a pen as wide as it is in a scaled item."""
    painter.save()
    to_view = item.sceneTransform()
    painter.setWorldTransform(to_view.inverted()[0] * painter.worldTransform())
    painter.setBrush(Qt.BrushStyle.NoBrush)
    yield to_view
    painter.restore()


class Curve(PlotCurveItem):
    """A line through points."""

    def __init__(self) -> None:
        super().__init__(antialias=True)

    def paint(self, painter: QPainter, *rest: Any) -> None:
        """Draw it; in a vector file what is in view of it, for there is no clip."""
        if not ink.in_vectors(painter):
            super().paint(painter, *rest)
            return
        xs, ys = self.getData()
        (left, right), _ = self.getViewBox().viewRange()
        seen = (xs >= left) & (xs <= right)
        with in_pixels(self, painter) as to_view:
            painter.setPen(QPen(self.opts["pen"].color(), self.opts["pen"].widthF(), self.opts["pen"].style()))
            painter.drawPolyline(to_view.map(ink.polyline(xs[seen], ys[seen])))


class Line(InfiniteLine):
    """A line right across."""

    def paint(self, painter: QPainter, *rest: Any) -> None:
        """Draw it."""
        if not ink.in_vectors(painter):
            super().paint(painter, *rest)
            return
        with in_pixels(self, painter) as to_view:
            painter.setPen(QPen(self.pen.color(), self.pen.widthF(), self.pen.style()))
            left, right = self._endPoints
            painter.drawLine(to_view.map(QLineF(left, 0, right, 0)))


class Heading(Painted):
    """What a plot shows, left, and what is pointed at, right."""

    def __init__(self) -> None:
        super().__init__()
        self.text = self.readout = ""

    def say(self, text: str | None = None, readout: str | None = None) -> None:
        """Write something else."""
        before = self.text, self.readout
        self.text, self.readout = self.text if text is None else text, self.readout if readout is None else readout
        if before != (self.text, self.readout):
            self.update()

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Write both; where there is not room for both, the end of each is left out, by whole parts."""
        now, box = theme.current(), self.area
        font = now.font("label")
        first = self.text.partition(ink.PART)[0]
        room = max(0.65 * box.width(), box.width() - ink.text_width(font, first) - now.grid(1))
        readout = ink.whole_parts(font, self.readout, room)
        right = min(ink.text_width(font, readout) + 1, room) if readout else 0.0
        spare = box.adjusted(0, 0, -right - (now.grid(1) if right else 0), 0)
        line = ink.line_height(font)
        for i, text in enumerate(self.text.splitlines()):
            said = ink.whole_parts(font, text, spare.width())
            ink.draw_text(painter, QRectF(spare.left(), i * line, spare.width(), line), said, font, now.faint)
        if right:
            place = QRectF(box.right() - right, box.bottom() - line, right, line)
            ink.draw_text(painter, place, readout, font, now.text, ink.RIGHT)


class Dots(Painted):
    """Dots at places of a plot."""

    def __init__(self, plot: Plot) -> None:
        super().__init__()
        self.plot = plot
        self.dots: Sequence[tuple[float, float, QColor]] = ()

    def show_dots(self, dots: Sequence[tuple[float, float, QColor]]) -> None:
        """Draw others."""
        self.dots = dots
        self.update()

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Draw those in view."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        radius = theme.current().grid(0.5)
        for x, y, colour in self.dots:
            at = self.plot.at(x, y)
            if self.area.contains(at):
                painter.setBrush(colour)
                painter.drawEllipse(at, radius, radius)


class EndNames(Painted):
    """The names of lines beside their right ends, none upon another."""

    def __init__(self, plot: Plot) -> None:
        super().__init__()
        self.plot = plot
        self.ends: Sequence[tuple[float, str, QColor]] = ()

    def width(self) -> float:
        """The room that the longest name wants."""
        font = theme.current().font("label")
        return max((ink.text_width(font, name) + theme.GRID for _, name, _ in self.ends), default=0.0)

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Write them from the highest to the lowest."""
        font, box, plot = theme.current().font("label"), self.area, self.plot
        line = ink.line_height(font)
        ends = sorted(((plot.at(0, value).y(), name, colour) for value, name, colour in self.ends), key=itemgetter(0))
        top = box.top() - line / 2
        for i, (y, name, colour) in enumerate(ends):
            top = max(min(y - line / 2, box.bottom() - (len(ends) - i - 0.5) * line), top)
            ink.draw_text(painter, QRectF(box.left() + 4, top, box.width() - 4, line), name, font, colour)
            top += line


class Plot(PlotView):
    """One view box with an axis at its left and one below it.

    The wheel zooms and a drag moves along the axis below; a double click shows all again. A subclass says what a click
    means, :meth:`click_at`, and what is pointed at, :meth:`readout`.
    """

    def __init__(
        self, left: NumberAxis | None = None, bottom: AxisItem | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.left, self.bottom = left or NumberAxis("left"), bottom or NumberAxis("bottom")
        self.box = ViewBox(enableMenu=False, defaultPadding=0)
        self.box.setMouseEnabled(x=True, y=False)
        self.box.disableAutoRange()
        self.whole_range = QRectF(0, 0, 1, 1)
        """All there is to see, in the plot's own numbers, upwards."""
        self.heading = Heading()
        self.ends, self.dots = EndNames(self), Dots(self)
        self.pointer = Line(movable=False)
        self.pointer.hide()
        self.add(self.pointer)
        self._grid = QGraphicsGridLayout(self.centralWidget)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(0)
        for item, row, column in ((self.left, 1, 0), (self.box, 1, 1), (self.bottom, 2, 1)):
            self._grid.addItem(item, row, column)
        for axis in (self.left, self.bottom):
            axis.linkToView(self.box)
        scene: Any = self.scene()  # pyqtgraph's own: it tells clicks from drags
        scene.addItem(self.heading)
        for painted in (self.ends, self.dots):
            scene.addItem(painted)
            self.box.sigRangeChanged.connect(lambda *_, painted=painted: painted.update())
        self.box.sigResized.connect(self._resized)
        scene.sigMouseClicked.connect(self._clicked)
        self.theme_changed()

    # What a subclass says -----------------------------------------------------------------------------------------

    def click_at(self, at: QPointF) -> None:
        """Somebody clicked, at a place in the plot's own numbers."""

    def readout(self, at: QPointF) -> str:
        """Say in words what is at a place; empty for nothing."""
        return ""

    def table(self) -> Table:
        """What is drawn, as columns."""
        return ()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        now = theme.current()
        for axis in (self.left, self.bottom):
            axis.theme_changed()
        self.pointer.setPen(mkPen(now.faint, style=Qt.PenStyle.DotLine))
        self.arrange()
        self.updateGeometry()
        self._resized()
        self.viewport().update()

    # What a subclass calls ----------------------------------------------------------------------------------------

    def add(self, item: Any) -> None:
        """Draw an item among the others, wherever it reaches to."""
        self.box.addItem(item, ignoreBounds=True)

    def show_range(self, left: float, right: float, low: float, high: float) -> None:
        """Say how far the plot reaches; what a person sees closer stays, unless there is less or more to see."""
        low, high = float(np.clip(low, -FARTHEST, FARTHEST)), float(np.clip(high, -FARTHEST, FARTHEST))
        if math.isnan(low + high):
            low, high = 0.0, 1.0  # nothing that is drawn has a height
        whole = QRectF(left, low, right - left, high - low)
        if whole != self.whole_range:
            self.whole_range = whole
            self.box.setLimits(xMin=left, xMax=right, yMin=low, yMax=high)
            self.view_all()

    def name_ends(self, ends: Sequence[tuple[float, str, QColor]]) -> None:
        """Name lines by what they reach at the right: values, names and colours."""
        self.ends.ends = ends
        self.arrange()
        self.lay_out()
        self.ends.update()

    def view_all(self) -> None:
        """Show everything."""
        whole = self.whole_range
        across, up = (whole.left(), whole.right()), (whole.top(), whole.bottom())
        self.box.setRange(xRange=across, yRange=up, padding=0, disableAutoRange=True)
        self.left.fit()
        self.lay_out()

    def lay_out(self) -> None:
        """Share the room out at once: a picture may be taken before Qt comes to it."""
        self.centralWidget.setGeometry(QRectF(self.rect()))  # it could not be as small as before
        self._grid.activate()

    def point_away(self) -> None:
        """Say nothing any more about what was pointed at."""
        self.pointer.hide()
        self.heading.say(readout="")

    def at(self, x: float, y: float) -> QPointF:
        """Where in the widget a place is."""
        (left, right), (low, high) = self.box.viewRange()
        box = self.box.geometry()
        across, up = (x - left) / (right - left), (y - low) / (high - low)
        return QPointF(box.left() + across * box.width(), box.bottom() - up * box.height())

    def place_at(self, point: QPointF) -> QPointF | None:
        """What is at a point of the widget, in the plot's own numbers; None outside."""
        box = self.box.geometry()
        return self.box.mapSceneToView(point) if box.contains(point) else None

    # How it works -------------------------------------------------------------------------------------------------

    def arrange(self) -> None:
        """Leave room for the heading and for the names of lines."""
        lines = max(self.heading.text.count("\n") + 1, 1)
        self._grid.setRowFixedHeight(0, lines * ink.line_height(theme.current().font("label")) + self._below_heading)
        self._grid.setColumnFixedWidth(2, max(min(self.ends.width(), 0.4 * self.width()), theme.GRID))

    @property
    def _below_heading(self) -> int:
        """Pixels between the heading and the plot: half of the number at the top of the left axis stands there."""
        return math.ceil(theme.current().size("number") / 2)

    def _resized(self) -> None:
        box = self.box.geometry()
        self.dots.put(box)
        self.ends.put(QRectF(box.right(), box.top(), self.width() - box.right(), box.height()))
        self.heading.put(QRectF(0, 0, self.width(), box.top() - self._below_heading))
        if box.height() > 0:
            self.left.fit()

    def _clicked(self, event: Any) -> None:
        at = self.place_at(event.scenePos())
        if at is not None and event.button() == Qt.MouseButton.LeftButton and not event.double():
            self.click_at(at)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Say what is pointed at."""
        super().mouseMoveEvent(event)
        at = self.place_at(event.position())
        words = "" if at is None else self.readout(at)
        self.pointer.setVisible(bool(words))
        if at is not None and words:
            self.pointer.setValue(at.x())
        self.heading.say(readout=words)

    def viewportEvent(self, event: QEvent) -> bool:
        """Say nothing once nothing is pointed at."""
        if event.type() == QEvent.Type.Leave:
            self.point_away()
        return bool(super().viewportEvent(event))
