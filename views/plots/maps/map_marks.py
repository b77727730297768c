"""What is drawn under and over the cells of a map: hatching, hairlines, marks, numbers, crosshair, rings."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen, QPolygonF

from ropewalk.views.plots.maps.levels import in_cell
from ropewalk.views.plots.maps.map_box import MapBox
from ropewalk.views.plots.maps.map_data import MapData
from ropewalk.views.plots.plot_view import Painted
from ropewalk.views.style import highlight, ink, theme

_COUNTABLE = 14
"""Pixels from which on cells are parted by hairlines."""


class Hatching(Painted):
    """The ground of masked cells, which are transparent."""

    def __init__(self, box: MapBox, data: MapData) -> None:
        super().__init__(box.parentItem(), above=False)
        self._box, self._numbers = box, data

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Hatch all that the picture covers."""
        area = self._box.pixels_of(self._numbers.covered).intersected(self.area)
        painter.fillRect(area, theme.current().masked_ground)
        painter.fillRect(area, QBrush(theme.current().masked, Qt.BrushStyle.BDiagPattern))


class Marks(Painted):
    """Everything over the cells, in one item."""

    def __init__(self, box: MapBox, data: MapData) -> None:
        super().__init__(box.parentItem())
        self.box, self.numbers = box, data
        self.selected = self.hovered = (-1, -1)
        """Row and column, −1 for none."""
        self.region = QRectF()
        """Cells that are outlined as one."""
        self.ringed: frozenset[tuple[int, int]] = frozenset()

    def mark(self, selected: tuple[int, int], hovered: tuple[int, int]) -> None:
        """Move the lines of what is selected and of what is pointed at."""
        for line in set(self._lines(self.selected, self.hovered)) ^ set(self._lines(selected, hovered)):
            self.update(self.line(*line).adjusted(-2, -2, 2, 2).intersected(self.area))
        self.selected, self.hovered = selected, hovered

    @staticmethod
    def _lines(selected: tuple[int, int], hovered: tuple[int, int]) -> list[tuple[int, bool, bool]]:
        return [
            (at, row, hover)
            for cell, hover in ((selected, False), (hovered, True))
            for at, row in zip(cell, (True, False), strict=True)
        ]

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Draw what is in view."""
        if self.box.step <= 0:
            return
        painter.save()
        painter.setClipRect(self.area, Qt.ClipOperation.IntersectClip)
        if self.box.step >= _COUNTABLE and self.numbers.block == (1, 1):
            self._draw_gaps(painter)
        self._draw_odd(painter, exposed)
        self.draw_numbers(painter, exposed)
        painter.restore()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        self.draw_lines(painter)
        if not self.region.isEmpty():
            painter.setPen(QPen(theme.current().accent, 2))
            painter.drawRect(self.box.pixels_of(self.region).intersected(self.area.adjusted(1, 1, -1, -1)))
        for cell in self.ringed:
            box = self.box.cell_rect(*cell)
            if self.area.contains(box.center()):
                highlight.ring(painter, box)

    def _draw_gaps(self, painter: QPainter) -> None:
        """Hairlines of the ground between large cells, so that equal neighbours stay countable."""
        painter.setPen(QPen(theme.current().panel, 1))
        view, area = self.box.view, self.area
        for index in range(math.floor(view.left()), math.ceil(view.right()) + 1):
            x = self.box.cell_rect(0, index).left()
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
        for index in range(math.floor(view.top()), math.ceil(view.bottom()) + 1):
            y = self.box.cell_rect(index, 0).top()
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))

    def pixels_in(self, exposed: QRectF) -> tuple[slice, slice]:
        """The rows and columns of pixels in a part of the widget."""
        return self.numbers.pixels_in(self.box.cells_of(exposed.intersected(self.area)))

    def _draw_odd(self, painter: QPainter, exposed: QRectF) -> None:
        """A cross for NaN, a triangle up or down for +∞ and −∞, each in the ink that its ground allows."""
        if self.box.step * min(self.numbers.block) < 5:
            return
        now, part = theme.current(), self.pixels_in(exposed)
        values, top, left = self.numbers.values[part], part[0].start, part[1].start
        for row, column in np.argwhere(~np.isfinite(values) & self.numbers.visible[part]).tolist():
            box = self.box.pixels_of(self.numbers.pixel_place(top + row, left + column))
            box = box.adjusted(*(f * box.width() * 0.25 for f in (1, 1, -1, -1)))
            value = float(values[row, column])
            ground = now.undefined if math.isnan(value) else now.text if value > 0 else now.window
            painter.setPen(QPen(now.ink_on(ground), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            if math.isnan(value):
                painter.drawLine(box.topLeft(), box.bottomRight())
                painter.drawLine(box.topRight(), box.bottomLeft())
                continue
            tip, base = (box.top(), box.bottom()) if value > 0 else (box.bottom(), box.top())
            corners = [QPointF(box.center().x(), tip), QPointF(box.right(), base), QPointF(box.left(), base)]
            painter.drawPolygon(QPolygonF(corners))

    @property
    def numbers_fit(self) -> bool:
        """Whether the cells are large enough for their numbers."""
        font, (across, down) = theme.current().font("number"), self.box.steps
        room = across >= ink.text_width(font, "−0.00") + 6 and down >= ink.line_height(font)
        return room and self.numbers.block == (1, 1)

    def draw_numbers(self, painter: QPainter, exposed: QRectF) -> None:
        """Write the values into cells that are large enough."""
        if not self.numbers_fit:
            return
        font = theme.current().font("number")
        part = self.pixels_in(exposed)
        values, pixels, top, left = (
            self.numbers.values[part],
            self.numbers.colours()[part],
            part[0].start,
            part[1].start,
        )
        told = self.numbers.told[part] & np.isfinite(values)
        for row, column in np.argwhere(told).tolist():
            colour = theme.current().ink_on(QColor(*pixels[row, column, :3].tolist()))
            box = self.box.pixels_of(self.numbers.pixel_place(top + row, left + column))
            ink.draw_text(painter, box, in_cell(float(values[row, column])), font, colour, ink.CENTRE)

    def draw_lines(self, painter: QPainter) -> None:
        """Outline the row and the column of what is pointed at, and of what is selected."""
        now = theme.current()
        hover = QPen(ink.faded(now.text, 0.67), 1, Qt.PenStyle.DotLine)
        (query, key), (over, under) = self.selected, self.hovered
        for index, is_row, pen in (
            (over, True, hover),
            (under, False, hover),
            (key, False, QPen(now.key, 2)),
            (query, True, QPen(now.query, 2)),
        ):
            box = self.line(index, is_row)
            if not box.isEmpty():
                painter.setPen(pen)
                painter.drawRect(box.intersected(self.area.adjusted(1, 1, -1, -1)))  # nothing of it around the cells

    def line(self, index: int, is_row: bool, *_: object) -> QRectF:
        """The rectangle of a whole row or column; empty where it is not in view."""
        area, box = self.area, self.box.cell_rect(index, index)
        if is_row:
            box = QRectF(area.left(), box.top(), area.width(), max(box.height(), 3))
        else:
            box = QRectF(box.left(), area.top(), max(box.width(), 3), area.height())
        return box if index >= 0 and area.adjusted(-1, -1, 1, 1).intersects(box) else QRectF()
