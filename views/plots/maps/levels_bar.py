"""The colour bar of a map: what its colours stand for, how many cells have them, and two ends to drag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from pyqtgraph import BarGraphItem, InfiniteLine, ViewBox, mkBrush, mkPen
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter

from ropewalk.model.readings.records import Bools, Doubles, Floats
from ropewalk.views.plots.maps.cells import Cells
from ropewalk.views.plots.maps.levels import BY_HAND, Levels, brief
from ropewalk.views.plots.plot_view import Painted
from ropewalk.views.style import ink, theme
from ropewalk.views.style.lettering import face

RAMP = 10
"""Pixels across the colours."""
COUNTS = 12
"""Pixels across the bars that say how many cells there are, where there is room for them."""
BEYOND = 0.06
"""How far the bar goes on beyond its ends, as a share of what is between them: they can be dragged there."""
CLOSEST = 0.02
"""The least that is left between the ends, as a share of what was."""
BINS = 40
SAMPLES = 4096
"""Cells that are counted: a bar says no more of a million."""
APART = 8
"""Least room between two numbers."""


class LevelsBar(Painted):
    """A bar that stands beside a map or lies below it; it draws the numbers at its ends itself.

    Signals
    -------
    dragged(levels)
        A person pulls at an end.
    """

    dragged = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.levels = Levels(0.0, 1.0)
        self._span = self.levels
        """The levels that the whole bar is for: those of before, while an end is dragged."""
        self._shares: Doubles = np.zeros(0)
        self._standing = False
        self._thick = float(RAMP)
        self.write: Callable[[float], str] = brief
        """How a number is written beside it."""
        self.box = ViewBox(parent=self, enableMenu=False, enableMouse=False, defaultPadding=0, invertY=True)
        self.box.disableAutoRange()
        self.box.setFlag(self.GraphicsItemFlag.ItemStacksBehindParent)  # the ends are drawn here, over the colours
        self.ramp = Cells()
        self.counts = BarGraphItem(x0=[0.0], width=[0.0], y0=[0.0], height=[0.0], pen=mkPen(None))
        none = mkPen(None)
        self.ends = tuple(InfiniteLine(share, movable=True, pen=none, hoverPen=none) for share in (0.0, 1.0))
        for item in (self.ramp, self.counts, *self.ends):
            self.box.addItem(item, ignoreBounds=True)
        for number, end in enumerate(self.ends):
            end.setZValue(5)
            end.sigDragged.connect(lambda _, number=number: self._drag(number))
            end.sigPositionChangeFinished.connect(self._settle)
        self.setToolTip("Drag an end to give the colours to other numbers")
        self.theme_changed()

    @staticmethod
    def thickness(counted: bool) -> int:
        """Pixels across, with or without the bars of counts."""
        return RAMP + COUNTS if counted else RAMP

    def stand(self, area: QRectF, bar: QRectF, *, standing: bool) -> None:
        """Stand or lie in ``bar``; the numbers find room in the rest of ``area``."""
        self.put(area)
        self.box.setGeometry(bar)
        self._standing, self._thick = standing, bar.width() if standing else bar.height()
        along, across = (-BEYOND, 1 + BEYOND), (0.0, 1.0)
        self.box.setRange(
            xRange=across if standing else along,
            yRange=along if standing else across,
            padding=0,
            disableAutoRange=False,
        )
        for end in self.ends:
            end.setAngle(0 if standing else 90)
            end.setCursor(Qt.CursorShape.SizeVerCursor if standing else Qt.CursorShape.SizeHorCursor)
        self._settle()

    def show_levels(self, levels: Levels) -> None:
        """Draw other levels."""
        if levels != self.levels:
            self.levels = levels
            if any(end.moving for end in self.ends):
                self._draw_ramp()
            else:
                self._settle()

    def count(self, values: Floats, visible: Bools) -> None:
        """Say how many cells have each colour, where there is room for that, now or once there is."""
        step = (values.size // SAMPLES) | 1
        some = values.ravel()[::step][visible.ravel()[::step]]
        self._shares = np.asarray(some[np.isfinite(some)], np.float64)
        self._draw_counts()

    def theme_changed(self) -> None:
        """Take the colours in use."""
        self.counts.setOpts(brush=mkBrush(theme.current().faint))
        self._settle()

    # How it is drawn ----------------------------------------------------------------------------------------------

    def _at(self, share: float) -> float:
        """Where a share of the bar is along it: a bar that stands begins below."""
        return 1 - share if self._standing else share

    def _settle(self) -> None:
        """Fill the bar with the levels in use, and put the ends to its ends."""
        self._span = self.levels
        for end, share in zip(self.ends, (0.0, 1.0), strict=True):
            end.setValue(self._at(share))
        self._draw_ramp()
        self._draw_counts()

    def _draw_ramp(self) -> None:
        shares = np.linspace(-BEYOND, 1 + BEYOND, 256)
        values = self._span.values_at(shares)
        pixels = self.levels.table()[self.levels.indices(values.astype(np.float32))]
        part, length = RAMP / max(self._thick, RAMP), 1 + 2 * BEYOND
        if self._standing:
            self.ramp.show_pixels(np.ascontiguousarray(pixels[::-1, None]), QRectF(0, -BEYOND, part, length))
        else:
            self.ramp.show_pixels(np.ascontiguousarray(pixels[None]), QRectF(-BEYOND, 1 - part, length, part))
        self.update()

    def _draw_counts(self) -> None:
        room = 1 - RAMP / max(self._thick, RAMP)
        self.counts.setVisible(room > 0)
        if room <= 0:
            return
        edges = np.linspace(-BEYOND, 1 + BEYOND, BINS + 1)
        shares = np.clip(self._span.shares(self._shares), edges[0], edges[-1])
        sizes = np.sqrt(np.histogram(shares, edges)[0])  # so that few cells are seen beside many
        sizes = sizes / max(sizes.max(), 1.0) * room
        each = np.full(BINS, edges[1] - edges[0])
        if self._standing:
            self.counts.setOpts(x0=np.full(BINS, 1 - room), width=sizes, y0=1 - edges[1:], height=each)
        else:
            self.counts.setOpts(x0=edges[:-1], width=each, y0=room - sizes, height=sizes)

    def _drag(self, number: int) -> None:
        """Give the colours to what is between the ends now."""
        at = [self._at(end.value()) for end in self.ends]
        mirrored = self._span.scale == "diverging"
        low, high = (0.5 - CLOSEST, 0.5 + CLOSEST) if mirrored else (at[1] - CLOSEST, at[0] + CLOSEST)
        share = min(at[0], low) if number == 0 else max(at[1], high)
        share = min(max(share, -BEYOND), 1 + BEYOND)
        at[number] = share
        if mirrored:
            at[1 - number] = 1 - share
        for end, place in zip(self.ends, at, strict=True):
            end.setValue(self._at(place))
        low, high = (self._span.value_at(place) for place in at)
        self.dragged.emit(replace(self._span, low=low, high=high, share=1.0, by_hand=True))

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Draw the ends, write the lowest, middle and highest number, and what else must be said of the scale."""
        self._draw_ends(painter)
        numbers = tuple(self.write(self.levels.value_at(share)) for share in (0.0, 0.5, 1.0))
        if self._standing:
            self._write_standing(painter, numbers)
        else:
            self._write_lying(painter, numbers)

    def _draw_ends(self, painter: QPainter) -> None:
        bar, inner = self.box.geometry(), self._inner()
        for end in self.ends:
            width = 4 if end.mouseHovering else 2
            if self._standing:
                place = QRectF(bar.left(), inner.top() + end.value() * inner.height() - width / 2, bar.width(), width)
            else:
                place = QRectF(inner.left() + end.value() * inner.width() - width / 2, bar.top(), width, bar.height())
            painter.fillRect(place, theme.current().accent)

    def _inner(self) -> QRectF:
        """Where the shares from 0 to 1 are."""
        bar: QRectF = self.box.geometry()
        beyond = BEYOND / (1 + 2 * BEYOND)
        across, down = (0.0, beyond * bar.height()) if self._standing else (beyond * bar.width(), 0.0)
        return bar.adjusted(across, down, -across, -down)

    def _write_lying(self, painter: QPainter, numbers: tuple[str, ...]) -> None:
        font, colour, bar = theme.current().font("number"), theme.current().faint, self._inner()
        low, high = ink.text_width(font, numbers[0]), ink.text_width(font, numbers[2])
        box = QRectF(bar.left(), bar.bottom() + 1, bar.width(), face(font).height)
        ink.draw_text(painter, QRectF(box.left(), box.top(), low + 1, box.height()), numbers[0], font, colour)
        if low + high + APART <= box.width():
            ink.draw_text(painter, box, numbers[2], font, colour, ink.RIGHT)
        else:
            left = box.left() + low + APART
            ink.draw_text(
                painter, QRectF(left, box.top(), self.area.right() - left, box.height()), numbers[2], font, colour
            )
        text = self.levels.note() or numbers[1]
        if 2 * max(low, high) + ink.text_width(font, text) + 2 * APART <= box.width():
            ink.draw_text(painter, box, text, font, colour, ink.CENTRE)

    def _write_standing(self, painter: QPainter, numbers: tuple[str, ...]) -> None:
        font, colour, bar = theme.current().font("number"), theme.current().faint, self._inner()
        line, left = face(font).height, bar.right() + APART / 2
        tops = {numbers[2]: bar.top() - line / 2, numbers[0]: bar.bottom() - line / 2}
        if bar.height() >= 5 * line and numbers[1] not in tops:
            tops[numbers[1]] = bar.center().y() - line / 2
        note = self.levels.note()
        if note and bar.height() >= 3 * line:
            tops[note] = bar.top() + line / 2
        for text, top in tops.items():
            ink.draw_text(painter, QRectF(left, top, self.area.right() - left, line), text, font, colour)

    def wanted(self) -> float:
        """The width that the numbers want where it stands."""
        font = theme.current().font("number")
        texts = ("-00.00", BY_HAND, self.levels.note())
        return APART / 2 + max(ink.text_width(font, text) for text in texts)
