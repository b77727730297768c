"""Bars that carry their numbers, one for each place of an axis; the selected one is outlined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from pyqtgraph import BarGraphItem, mkPen
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.charts.plot import Line, NumberAxis, Plot
from ropewalk.views.plots.maps.token_axis import TokenAxis
from ropewalk.views.plots.plot_view import Painted
from ropewalk.views.style import ink, theme

WIDTH = 0.7
"""A bar, as a share of its place."""
ROOMY = 14
"""Lines of type from which on the axis has room for its title."""
RING = 3
"""Pixels from a bar to the outer edge of its outline; a number stands beyond."""
STUB = 6
"""Height of what stands for the bar of a place that is hidden."""
LEAST = 2
"""Pixels of a place from which on it has a bar of its own."""


class Bars(Plot):
    """Bars over the places 0, 1, 2 and so on.

    Signals
    -------
    picked(place), pointed(place)
        A bar was clicked, or an arrow key went to one; the pointer is over one (−1 when it left).
    """

    title = "plane"
    """What the places are."""
    picked = Signal(int)
    pointed = Signal(int)

    def __init__(self, left: NumberAxis | None = None, parent: QWidget | None = None) -> None:
        self.heights: Doubles = np.zeros(0)
        """How far each bar reaches on the left axis."""
        self.names: tuple[str, ...] = ()
        """What the places are called; their numbers where they have no names, or too little room for them."""
        self.selected = self.pointed_at = -1
        self.base = 0.0
        self.outline = "accent"
        """What colour of the theme is around the selected bar."""
        self._colours: Sequence[QColor] = ()
        self._extent = (0.0, 1.0)
        self._named: tuple[Any, ...] = ()
        self.bars = BarGraphItem(x=np.zeros(0), height=np.zeros(0), width=WIDTH, pen=mkPen(None))
        self.zero = Line(angle=0, movable=False)
        self.marks = BarMarks(self)
        super().__init__(left, TokenAxis("bottom"), parent)
        self.bottom: TokenAxis
        for item in (self.bars, self.zero):
            self.add(item)
        self.scene().addItem(self.marks)
        self.box.sigRangeChanged.connect(lambda *_: self._on_range())
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    # What a subclass says -----------------------------------------------------------------------------------------

    def number(self, place: int) -> str:
        """What is written at a bar; empty where it has nothing to say."""
        return f"{self.heights[place]:.2f}"

    def is_hidden(self, place: int) -> bool:
        """Whether a place is hatched and has no bar."""
        return False

    def is_hatched(self, place: int) -> bool:
        """Whether a bar is hatched."""
        return False

    # What a subclass calls ----------------------------------------------------------------------------------------

    def show_bars(self, heights: Doubles, colours: Sequence[QColor], low: float, high: float) -> None:
        """Draw bars from ``base`` to ``heights`` [N]; one colour is for all of them, else each has its own."""
        self.heights, self._colours = heights, colours
        self._extent = (low, high)
        self._fit()
        self._name()
        self._redraw()

    def mark(self, place: int) -> None:
        """Outline a bar, and no other."""
        if place != self.selected:
            self.selected = place
            self.bottom.choose(place, getattr(theme.current(), self.outline))
            self.marks.update()

    def point(self, place: int) -> None:
        """Mark the bar that is pointed at, here or elsewhere; −1 for none."""
        if place != self.pointed_at:
            self.pointed_at = place
            self.marks.update()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        super().theme_changed()
        now = theme.current()
        self.zero.setPen(mkPen(now.faint))
        self.bottom.choose(self.selected, getattr(now, self.outline))
        self.zero.setValue(self.base)

    # How it is drawn ----------------------------------------------------------------------------------------------

    @property
    def pitch(self) -> float:
        """Pixels of a place."""
        (left, right), _ = self.box.viewRange()
        return float(self.box.width() / (right - left))

    def seen(self) -> range:
        """The places in view."""
        (left, right), _ = self.box.viewRange()
        return range(max(math.floor(left + 0.5), 0), min(math.ceil(right + 0.5), len(self.heights)))

    def bar_of(self, place: int) -> QRectF:
        """Where a bar is in the widget."""
        one = self.at(place - WIDTH / 2, self.base)
        other = self.at(place + WIDTH / 2, float(self.heights[place]))
        return QRectF(one, other).normalized()

    def slot_of(self, place: int) -> QRectF:
        """Everything above and below a bar, in the widget."""
        box = self.box.geometry()
        left, right = self.at(place - 0.5, 0).x(), self.at(place + 0.5, 0).x()
        return QRectF(left, box.top(), right - left, box.height())

    def ring_of(self, place: int) -> QRectF:
        """The outline of a bar, or of what stands for it: around all of it, inside the plot."""
        slot, bar = self.slot_of(place), self.bar_of(place)
        if self.is_hidden(place):
            bar.setTop(bar.bottom() - STUB)
        half = max(bar.width() / 2, 1) + RING - 1
        bottom = min(bar.bottom() + RING - 1, slot.bottom() - 1)
        top = max(min(bar.top() - RING + 1, bottom - STUB), slot.top())
        return QRectF(bar.center().x() - half, top, 2 * half, bottom - top)

    def number_box(self, place: int) -> QRectF:
        """Where the number of a bar is written: beyond its end, inside the sides of the plot."""
        lettering, box = theme.current().face("number"), self.box.geometry()
        line, room = lettering.height, lettering.line(self.number(place)).width + RING
        ring = self.ring_of(place)
        top = ring.top() - 1 - line if self.heights[place] >= self.base else ring.bottom() + 1
        centre = min(max(ring.center().x(), box.left() + room / 2), box.right() - room / 2)
        return QRectF(centre - room / 2, top, room, line)

    def numbered(self) -> dict[int, QRectF]:
        """Places whose numbers are written, and where: the selected one, then the largest that meet none before."""
        seen, kept = self.seen(), dict[int, QRectF]()
        sizes = np.abs(self.heights[seen.start : seen.stop] - self.base)
        largest: list[int] = (np.argsort(-sizes, kind="stable") + seen.start).tolist()
        taken, plot = list[QRectF](), self.box.geometry().adjusted(-RING, -RING, RING, RING)
        if self.selected in seen:
            largest.remove(self.selected)
            largest.insert(0, self.selected)
            taken.append(self.ring_of(self.selected).adjusted(-1, -1, 1, 1))
        for place in largest:
            if not self.number(place):
                continue
            box = self.number_box(place)
            free = not any(box.intersects(other) for other in taken) and not self._on_a_bar(place, box)
            if place == self.selected or (free and plot.contains(box)):
                kept[place] = box
                taken.append(box)
        return kept

    def _on_a_bar(self, place: int, box: QRectF) -> bool:
        """Whether the number of a place would be written over a bar beside it."""
        reach = math.ceil(box.width() / self.pitch)
        beside = range(max(place - reach, 0), min(place + reach + 1, len(self.heights)))
        return any(other != place and self.bar_of(other).intersects(box) for other in beside)

    def _fit(self) -> None:
        """Leave room for the numbers above and, where bars go down, below."""
        low, high = self._extent
        height = max(self.box.height(), 1.0)
        line = min(theme.current().face("number").height + RING, height / 2)
        down = line if low < self.base else 0.0
        unit = (high - low) / max(height - line - down, 1.0)
        self.show_range(-0.5, max(len(self.heights), 1) - 0.5, low - down * unit, high + line * unit)

    def arrange(self) -> None:
        """Leave room for the heading and for the names of places."""
        super().arrange()
        self._name()

    def _name(self) -> None:
        """Name the places, or number them: the bars first, where there is little room.

        It goes by the size of the view, not by that of the plot in it, which is not known yet while that is made.
        """
        (left, right), _ = self.box.viewRange()
        asked, now = (self.names, right - left, self.size(), theme.current()), theme.current()
        if asked == self._named:
            return
        self._named = asked
        pitch = max(self.width() - self.left.width() - theme.GRID, 1) / (right - left)
        self.bottom.title = self.title if self.height() >= ROOMY * now.size("label") else ""
        self.bottom.title_colour = now.faint
        self.bottom.set_names(self.names)
        self.bottom.limit = self.height() / 3
        self.bottom.setHeight(self.bottom.room(pitch))
        self.lay_out()

    def _on_range(self) -> None:
        self._name()
        self._redraw()

    def _redraw(self) -> None:
        """Make the bars in view, or, of more bars than pixels, what every pixel has the largest of."""
        seen, look = self.seen(), theme.current()
        heights = self.heights[seen.start : seen.stop] - self.base
        colours = self._colours or (look.key,)
        brush: dict[str, Any] = {"brush": colours[0], "brushes": None}
        if not len(heights) or self.pitch >= LEAST:
            if len(colours) > 1:
                brush = {"brushes": [QBrush(colour) for colour in colours[seen.start : seen.stop]]}
            middles = np.arange(seen.start, seen.stop)
            self.bars.setOpts(x=middles, x0=None, width=WIDTH, height=heights, y0=self.base, **brush)
        else:
            columns = max(min(int(self.box.width()), len(heights)), 1)
            starts = np.arange(columns) * len(heights) // columns
            each = np.diff(starts, append=len(heights))
            tallest = np.maximum.reduceat(heights, starts)
            self.bars.setOpts(x=None, x0=seen.start + starts - 0.5, width=each, height=tallest, y0=self.base, **brush)
        self.marks.put(self.box.geometry())
        self.marks.update()

    def _resized(self) -> None:
        super()._resized()
        if self.box.height() > 0:
            self._fit()
            self._redraw()

    # What a person does -------------------------------------------------------------------------------------------

    def place_under(self, point: QPointF) -> int:
        """The place whose bar is at a point of the widget, −1 where there is none."""
        at = self.place_at(point)
        place = -1 if at is None else math.floor(at.x() + 0.5)
        return place if 0 <= place < len(self.heights) else -1

    def click_at(self, at: QPointF) -> None:
        """Pick a bar."""
        place = math.floor(at.x() + 0.5)
        if 0 <= place < len(self.heights):
            self.picked.emit(place)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a bar."""
        super().mouseMoveEvent(event)
        place = self.place_under(event.position())
        self.point(place)
        self.pointed.emit(place)

    def viewportEvent(self, event: QEvent) -> bool:
        """Point at nothing any more."""
        if event.type() == QEvent.Type.Leave:
            self.point(-1)
            self.pointed.emit(-1)
        return super().viewportEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Pick the bar beside the selected one."""
        step = arrow_keys.step_of(event, arrow_keys.SIDEWAYS)
        if step is None:
            super().keyPressEvent(event)
        elif 0 <= self.selected + step[0] < len(self.heights):
            self.picked.emit(self.selected + step[0])

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused."""
        return arrow_keys.kept(event, arrow_keys.SIDEWAYS) or bool(super().event(event))


class BarMarks(Painted):
    """What is drawn upon bars: their numbers, hatching, and the outline of the selected one."""

    def __init__(self, plot: Bars) -> None:
        super().__init__()
        self.plot = plot

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Draw them for the bars in view."""
        plot, now = self.plot, theme.current()
        seen = plot.seen()
        if plot.pitch >= LEAST:
            self._hatch(painter)
        for place, colour, style in (
            (plot.pointed_at, now.faint, Qt.PenStyle.DotLine),
            (plot.selected, getattr(now, plot.outline), Qt.PenStyle.SolidLine),
        ):
            if place in seen:
                painter.setPen(QPen(colour, 2 if place == plot.selected else 1, style))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(plot.ring_of(place))
        if plot.pitch >= LEAST:
            self._write(painter)

    def _hatch(self, painter: QPainter) -> None:
        plot, now = self.plot, theme.current()
        for place in plot.seen():
            if plot.is_hidden(place):
                slot = plot.slot_of(place)
                stub = QRectF(plot.bar_of(place).left(), slot.bottom() - STUB, slot.width() * WIDTH, STUB)
                painter.fillRect(stub, now.masked_ground)
                painter.fillRect(stub, QBrush(now.masked, Qt.BrushStyle.BDiagPattern))
            elif plot.is_hatched(place):
                painter.fillRect(plot.bar_of(place), QBrush(now.panel, Qt.BrushStyle.BDiagPattern))

    def _write(self, painter: QPainter) -> None:
        """Write the numbers at the ends of bars."""
        now = theme.current()
        for place, box in self.plot.numbered().items():
            painter.fillRect(box, ink.faded(now.panel, 0.9))
            ink.draw_text(painter, box, self.plot.number(place), now.font("number"), now.text, ink.CENTRE)
