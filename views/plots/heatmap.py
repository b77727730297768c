"""The one heatmap: cells, axes with token labels, colour bar, mask, marks, crosshair, zoom.

It draws a rectangle of a matrix and says what was clicked or pointed at. Coordinates are cells of the whole matrix:
cell (0, 0) is centred on (0, 0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.records import Bools, Floats, Reduction
from ropewalk.views.plots import colour_bar
from ropewalk.views.style import highlight, ink, theme, wording
from ropewalk.views.style.lettering import face

Scale = Literal["linear", "log", "diverging"]

_LARGEST_CELL = 56
_FEWEST_CELLS = 4
_ARROWS = {Qt.Key.Key_Left: (0, -1), Qt.Key.Key_Right: (0, 1), Qt.Key.Key_Up: (-1, 0), Qt.Key.Key_Down: (1, 0)}


@dataclass(frozen=True)
class Levels:
    """What the two ends of the colour table stand for, and how the numbers between them are spread."""

    low: float
    high: float
    scale: Scale = "linear"

    def indices(self, values: Floats) -> NDArray[np.intp]:
        """Entries of the colour table, clipped to its ends; what is not finite gets an entry that must not be used."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.scale == "diverging":
                largest = max(abs(self.low), abs(self.high)) or 1.0
                share = theme.ZERO + np.rint(values / largest * (255 - theme.ZERO))
                lowest = 2 * theme.ZERO - 255
            elif self.scale == "log":
                span = math.log(self.high / self.low)
                share = np.rint(np.log(np.maximum(values, self.low) / self.low) / span * 255)
                lowest = 0
            else:
                share = np.rint((values - self.low) / ((self.high - self.low) or 1.0) * 255)
                lowest = 0
        indices: NDArray[np.intp] = np.clip(np.nan_to_num(share), lowest, 255).astype(np.intp)
        return indices

    def value_at(self, share: float) -> float:
        """The number at a share (0 to 1) of the colour bar."""
        if self.scale == "diverging":
            largest = max(abs(self.low), abs(self.high))
            return largest * (2 * share - 1)
        if self.scale == "log":
            return float(self.low * (self.high / self.low) ** share)
        return self.low + (self.high - self.low) * share


def brief(value: float) -> str:
    """Write a number in few characters for the colour bar; powers of ten where two decimals would say nothing."""
    size = abs(value)
    if size and math.isfinite(value) and (size < 0.005 or size >= 1e5):
        mantissa, power = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(power)}".replace("-", wording.MINUS)
    return in_cell(value)


def in_cell(value: float) -> str:
    """Write a number in at most five characters or so, for a cell or a bar."""
    return wording.number(round(value, 2), 2) if math.isfinite(value) else wording.number(value)


def reduction_note(reduction: Reduction, block: int, becoming: str = "") -> str:
    """Say what a pixel stands for, and what it is ``becoming`` while it is refined.

    ``max of 8 × 8``, ``sampled: 1 of 8 × 8`` or ``sampled → max of 8 × 8``; nothing where a pixel is one cell.
    """
    if reduction == "exact":
        return ""
    how = f"{reduction} → {becoming}" if becoming else "sampled: 1" if reduction == "sampled" else reduction
    return f"{how} of {block} × {block}"


def _with_border(area: QRectF) -> QRect:
    """The pixels of a part of the cells and of the lines on its border."""
    return area.toAlignedRect().adjusted(-1, -1, 2, 2)


def _label_room() -> int:
    """Height that an axis label needs so that it does not touch the next one."""
    return theme.current().size("number") + 1


@dataclass(frozen=True)
class _Layout:
    """Where things are, in widget coordinates; ``step`` is the size of one cell."""

    title: QRectF
    plot: QRectF
    bar: QRectF
    step: float
    named: bool
    """Whether the columns carry tokens; else positions, which need less room."""
    beside: bool = False
    """Whether title and colour bar stand beside the cells, where a low map has room to spare."""


class Heatmap(QWidget):
    """A matrix picture with everything that belongs to it.

    Signals
    -------
    picked(query, key)
        A cell was clicked, or reached with the arrow keys while the map has the focus.
    pointed(query, key)
        The pointer is over a cell; (-1, -1) when it left.
    viewed(view)
        The visible rectangle changed by zooming or dragging (a QRectF in cells).
    """

    picked = Signal(int, int)
    pointed = Signal(int, int)
    viewed = Signal(object)

    def __init__(self, title: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = title
        self.note = ""
        """Words after the title, such as the pooling of a reduced picture; set by :meth:`set_data`."""
        self.row_labels = True
        self.column_labels = True
        self.gutter: int | None = None
        """Width kept for the row labels; None takes what they need."""
        self.aside: int | None = None
        """Width kept for title and colour bar where they stand beside the cells; None takes what they need."""
        self._values: Floats = np.zeros((0, 0), np.float32)
        self._visible: Bools = np.zeros((0, 0), np.bool_)
        self._patched = False
        """Whether the arrays are this map's own, so that a part may be written into them."""
        self._rows = (0, 0)
        self._columns = (0, 0)
        self._extent = QRectF()
        self._view = QRectF()
        self._labels: tuple[str, ...] = ()
        self._label_width = 0
        """What :meth:`label_width` found, 0 before it has looked: there may be thousands of labels."""
        self._levels = Levels(0.0, 1.0)
        self._query = -1
        self._key = -1
        self._hover = (-1, -1)
        self.highlighted: frozenset[tuple[int, int]] = frozenset()
        self._pixels: NDArray[np.uint8] | None = None
        self._layout_now: _Layout | None = None
        self._pressed: QPointF | None = None
        self._dragged = False
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(title)

    # What is shown ------------------------------------------------------------------------------------------------

    def set_data(
        self,
        values: Floats,
        visible: Bools,
        rows: tuple[int, int],
        columns: tuple[int, int],
        *,
        reduction: Reduction = "exact",
        whole: tuple[int, int] | None = None,
    ) -> None:
        """Show a rectangle.

        Parameters
        ----------
        values, visible
            [h, w]; a cell that is not visible is hatched as masked, whatever its value.
        rows, columns
            The half-open ranges of the matrix that the rectangle covers; more of them than h or w means that one
            pixel stands for a block of cells.
        reduction
            How a pixel stands for its block.
        whole
            Rows and columns of the whole matrix, when the rectangle is a part of it.
        """
        self._values, self._visible, self._patched = values, visible, False
        self._rows, self._columns = rows, columns
        height, width = whole if whole is not None else (rows[1], columns[1])
        extent = QRectF(-0.5, -0.5, width, height)
        if extent != self._extent:
            self._extent = extent
            self._view = QRectF(extent)
        self.note = reduction_note(reduction, max(self.block))
        self._forget()

    def patch(self, top: int, left: int, values: Floats, visible: Bools) -> None:
        """Put a finer part [h, w] into the picture, its first pixel at (``top``, ``left``); levels stay as they are."""
        part = slice(top, top + values.shape[0]), slice(left, left + values.shape[1])
        if self._values[part].shape != values.shape:
            return  # of a picture that is no longer shown
        if not self._patched:
            self._values, self._visible, self._patched = self._values.copy(), self._visible.copy(), True
        self._values[part], self._visible[part] = values, visible
        if self._pixels is not None:
            self._pixels[part] = self._colours(values, visible)
        first = self._pixel_rect(top, left)
        self._repaint_cells(QRectF(first.topLeft(), self._pixel_rect(part[0].stop, part[1].stop).topLeft()))

    def set_labels(self, labels: tuple[str, ...]) -> None:
        """Set the token texts of both axes, one per row of the matrix."""
        if labels == self._labels:
            return
        before, self._labels = self._labels, labels
        shared = min(len(before), len(labels))
        if before[:shared] != labels[:shared]:
            self._label_width = 0
        elif self._label_width:  # a run that goes on: only what is new is measured
            self._label_width = max(self._label_width, self._width_of(labels[shared:]))
        self._forget()

    def set_levels(self, levels: Levels) -> None:
        """Set what the ends of the colour bar mean."""
        if levels != self._levels:
            self._levels = levels
            self._forget()

    def set_selection(self, query: int, key: int) -> None:
        """Outline a query row in amber and a key column in blue; -1 for none."""
        if (query, key) != (self._query, self._key):
            self._query, self._key = query, key
            self.setAccessibleDescription(f"query {query}, key {key}")
            self.update()

    def set_hover(self, query: int, key: int) -> None:
        """Draw the hover crosshair; -1 for none."""
        if (query, key) != self._hover:
            self._hover = (query, key)
            self._repaint_cells(self._layout().plot)

    def set_highlighted(self, cells: frozenset[tuple[int, int]]) -> None:
        """Ring these cells (query, key)."""
        if cells != self.highlighted:
            self.highlighted = cells
            self.update()

    def _repaint_cells(self, area: QRectF) -> None:
        """Paint a part of the cells anew; what is written around them stays."""
        seen = area.intersected(self._layout().plot)
        if not seen.isEmpty():
            self.update(_with_border(seen))

    def set_view(self, view: QRectF) -> None:
        """Show a part of the matrix, as another map does."""
        if view != self._view:
            self._view = QRectF(view)
            self._forget()

    def theme_changed(self) -> None:
        """Take the colours and sizes of the theme in use."""
        self._label_width = 0
        self._forget()

    # What it can say ----------------------------------------------------------------------------------------------

    @property
    def levels(self) -> Levels:
        """The levels in use."""
        return self._levels

    @property
    def view(self) -> QRectF:
        """The visible rectangle, in cells."""
        return QRectF(self._view)

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns that one pixel stands for."""
        height, width = self._values.shape
        rows, columns = self._rows[1] - self._rows[0], self._columns[1] - self._columns[0]
        return math.ceil(rows / height) if height else 1, math.ceil(columns / width) if width else 1

    @property
    def plot(self) -> QRectF:
        """Where the cells are, in widget coordinates."""
        return QRectF(self._layout().plot)

    def cell_rect(self, query: int, key: int) -> QRectF:
        """The rectangle of a cell in widget coordinates."""
        place = self._layout()
        return QRectF(
            place.plot.left() + (key - 0.5 - self._view.left()) * place.step,
            place.plot.top() + (query - 0.5 - self._view.top()) * place.step,
            place.step,
            place.step,
        )

    def cell_at(self, point: QPointF) -> tuple[int, int] | None:
        """Return (query, key) under a point, None outside the cells."""
        place = self._layout()
        if place.step <= 0 or not place.plot.contains(point):
            return None
        key = math.floor((point.x() - place.plot.left()) / place.step + self._view.left() + 0.5)
        query = math.floor((point.y() - place.plot.top()) / place.step + self._view.top() + 0.5)
        inside = 0 <= query < self._extent.height() and 0 <= key < self._extent.width()
        return (query, key) if inside else None

    def pixel_of(self, query: int, key: int) -> tuple[int, int] | None:
        """Return the index into the shown values that stands for a cell, None where it is not covered."""
        if not (self._rows[0] <= query < self._rows[1] and self._columns[0] <= key < self._columns[1]):
            return None
        down, across = self.block
        return (query - self._rows[0]) // down, (key - self._columns[0]) // across

    def cell_color(self, query: int, key: int) -> QColor | None:
        """The colour that a cell is filled with; None where it is masked or not covered."""
        index = self.pixel_of(query, key)
        if index is None or not self._visible[index]:
            return None
        red, green, blue, _ = (int(c) for c in self._coloured()[index])
        return QColor(red, green, blue)

    def value(self, query: int, key: int) -> float:
        """The number that stands for a cell; NaN where it is not covered."""
        index = self.pixel_of(query, key)
        return math.nan if index is None else float(self._values[index])

    def is_masked(self, query: int, key: int) -> bool:
        """Whether a cell is drawn as masked."""
        index = self.pixel_of(query, key)
        return index is not None and not self._visible[index]

    # Layout -------------------------------------------------------------------------------------------------------

    def sizeHint(self) -> QSize:
        """A size at which a dozen tokens can be read."""
        return QSize(240, 260)

    def minimumSizeHint(self) -> QSize:
        """The smallest size that still shows cells and a colour bar."""
        line = theme.current().size("label")
        return QSize(7 * line, 7 * line)

    def label_width(self) -> int:
        """The width that the row labels want, at most nine characters."""
        if self._label_width == 0:
            self._label_width = self._width_of(self._labels)
        return self._label_width

    def _width_of(self, labels: tuple[str, ...]) -> int:
        """The width that some labels want, and the positions beside them."""
        metrics = face(theme.current().font("number")).metrics
        most = metrics.horizontalAdvance("0" * 9)
        widest = metrics.horizontalAdvance(self._largest_position())
        for text in sorted(set(labels), key=len, reverse=True):
            widest = max(widest, metrics.horizontalAdvance(text))
            if widest >= most:
                break
        return math.ceil(min(widest, most)) + 6

    def _largest_position(self) -> str:
        """As many digits as a position may need."""
        return "0" * max(len(str(len(self._labels))), 3)

    def left_margin(self) -> int:
        """Width left of the cells: the row labels, or half of the first column's label."""
        if self.row_labels:
            return self.label_width() if self.gutter is None else self.gutter
        return theme.current().size("number") // 2 if self.column_labels else 0

    def height_for(self, side: float) -> int:
        """Height at which the cells fill a width of ``side``; more than that stays empty."""
        now = theme.current()
        line = face(now.font("label")).height
        rest = line + 2 * now.grid(0.5) + colour_bar.THICK + 3 + line + self.label_width()
        return math.ceil(side * self._view.height() / max(self._view.width(), 1) + rest)

    def _forget(self) -> None:
        self._pixels = None
        self._layout_now = None
        self.update()

    def _layout(self) -> _Layout:
        if self._layout_now is None:
            self._layout_now = self._arranged()
        return self._layout_now

    def aside_width(self) -> int:
        """The width that title and colour bar want at least where they stand beside the cells."""
        now = theme.current()
        widest = max((ink.text_width(now.font("label"), word) for word in self.title.split()), default=0.0)
        numbers = colour_bar.THICK + colour_bar.APART / 2 + ink.text_width(now.font("number"), "-00.00")
        return math.ceil(max(widest, numbers) + now.grid(2))

    def _arranged(self) -> _Layout:
        """Title above and colour bar below the cells, or both beside them: whichever leaves the larger cells."""
        above, beside = self._placed(beside=False), self._placed(beside=True)
        return beside if beside.step > above.step else above

    def _placed(self, *, beside: bool) -> _Layout:
        now = theme.current()
        line = face(now.font("label")).height
        gap, gutter = now.grid(0.5), self.left_margin()
        side = (self.aside_width() if self.aside is None else self.aside) if beside else 0
        top = max(face(now.font("number")).height / 2 - 2, 0.0) if beside else line + gap if self.title else 0.0
        foot = 0.0 if beside else gap + colour_bar.THICK + 2 + line
        names = self._names_room(named=True) if self.column_labels else 0
        width, height = self.width() - gutter - side - 1, self.height() - top - foot - 1
        step = self._step(width, height - names)
        named = step >= _label_room()
        if not named and self.column_labels:
            names = self._names_room(named=False)
            step = self._step(width, height - names)
        if step <= 0:
            return _Layout(QRectF(), QRectF(), QRectF(), 0.0, False)
        plot = QRectF(gutter, top, step * self._view.width(), step * self._view.height())
        if not beside:
            title = QRectF(gutter, 0, self.width() - gutter, line)
            bar = QRectF(plot.left(), plot.bottom() + names + gap, plot.width(), colour_bar.THICK)
            return _Layout(title, plot, bar, step, named)
        left = plot.right() + now.grid(1)
        lines = self._title_lines(self.width() - left)
        title = QRectF(left, 0, self.width() - left, line * len(lines))
        bar = QRectF(left, title.bottom() + gap, colour_bar.THICK, max(plot.bottom() - title.bottom() - gap, 0))
        return _Layout(title, plot, bar, step, named, beside=True)

    def _title_lines(self, width: float) -> list[str]:
        """Title and note, each on lines of its own, broken between words."""
        font, lines = theme.current().font("label"), []
        for text in filter(None, (self.title, self.note)):
            line, *words = text.split()
            for word in words:
                if ink.text_width(font, f"{line} {word}") <= width:
                    line = f"{line} {word}"
                else:
                    lines.append(line)
                    line = word
            lines.append(line)
        return lines

    def _names_room(self, *, named: bool) -> int:
        """Height of the column labels: tokens stand upright, positions are written level."""
        return self.label_width() if named else math.ceil(face(theme.current().font("number")).height) + 2

    def _step(self, width: float, height: float) -> float:
        """The largest cell for which all in view fits."""
        if self._view.isEmpty() or width <= 0 or height <= 0:
            return 0.0
        largest = float(theme.current().grid(_LARGEST_CELL / theme.GRID))
        step = min(width / self._view.width(), height / self._view.height(), largest)
        return float(math.floor(step)) if self._view == self._extent and step >= 3 else step

    # Painting -----------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw everything."""
        place = self._layout()
        if place.step <= 0 or self._values.size == 0:
            return
        painter = QPainter(self)
        painter.save()
        painter.setClipRect(place.plot)
        self._paint_cells(painter, place)
        self._paint_marks(painter, place)
        self._paint_numbers(painter, place)
        painter.restore()
        self._paint_crosshair(painter, place)
        self._paint_highlights(painter, place)
        if not _with_border(place.plot).contains(event.rect()):
            self._paint_around(painter, place)
        if self.hasFocus():
            painter.setPen(QPen(theme.current().accent, 1, Qt.PenStyle.DotLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(place.plot.adjusted(-2, -2, 2, 2))
        painter.end()

    def _paint_around(self, painter: QPainter, place: _Layout) -> None:
        """Title, labels and colour bar."""
        self._paint_title(painter, place)
        if self.row_labels:
            self._paint_row_labels(painter, place)
        if self.column_labels:
            self._paint_column_labels(painter, place)
        self._paint_bar(painter, place)

    def _coloured(self) -> NDArray[np.uint8]:
        """[h, w, 4] RGBA of every cell, transparent where masked; kept until the data or the levels change."""
        if self._pixels is None:
            self._pixels = self._colours(self._values, self._visible)
        return self._pixels

    def _colours(self, values: Floats, visible: Bools) -> NDArray[np.uint8]:
        """[h, w, 4] RGBA of some values at the levels in use."""
        now = theme.current()
        table = now.diverging if self._levels.scale == "diverging" else now.sequential
        pixels = np.ascontiguousarray(table[self._levels.indices(values)])
        for where, colour in (
            (np.isnan(values), now.undefined),
            (np.isposinf(values), now.text),
            (np.isneginf(values), now.window),
        ):
            pixels[where] = (colour.red(), colour.green(), colour.blue(), 255)
        pixels[~visible] = 0
        return pixels

    def _paint_title(self, painter: QPainter, place: _Layout) -> None:
        now = theme.current()
        font, whole = now.font("label"), f"{self.title} · {self.note}" if self.note else self.title
        lines = self._title_lines(place.title.width()) if place.beside else [whole]
        for number, text in enumerate(lines):
            box = QRectF(place.title.left(), place.title.top(), place.title.width(), face(font).height)
            ink.draw_text(painter, box.translated(0, number * box.height()), text, font, now.faint)

    def _paint_cells(self, painter: QPainter, place: _Layout) -> None:
        now = theme.current()
        covered = self._span(self._rows[0], self._columns[0], self._rows[1], self._columns[1])
        painter.fillRect(covered, now.masked_ground)
        painter.fillRect(covered, QBrush(now.masked, Qt.BrushStyle.BDiagPattern))
        pixels = self._coloured()
        height, width = self._values.shape
        down, across = self.block
        target = self._span(
            self._rows[0], self._columns[0], self._rows[0] + height * down, self._columns[0] + width * across
        )
        painter.save()
        painter.setClipRect(covered, Qt.ClipOperation.IntersectClip)
        ink.draw_cells(painter, target, pixels)
        painter.restore()
        if place.step >= 14 and down == across == 1:
            self._paint_gaps(painter, place)

    def _paint_gaps(self, painter: QPainter, place: _Layout) -> None:
        """Hairlines of the ground between large cells, so that equal neighbours stay countable."""
        painter.setPen(QPen(theme.current().panel, 1))
        for index in range(math.floor(self._view.left()), math.ceil(self._view.right()) + 1):
            x = place.plot.left() + (index - 0.5 - self._view.left()) * place.step
            painter.drawLine(QPointF(x, place.plot.top()), QPointF(x, place.plot.bottom()))
        for index in range(math.floor(self._view.top()), math.ceil(self._view.bottom()) + 1):
            y = place.plot.top() + (index - 0.5 - self._view.top()) * place.step
            painter.drawLine(QPointF(place.plot.left(), y), QPointF(place.plot.right(), y))

    def _span(self, top: int, left: int, bottom: int, right: int) -> QRectF:
        return QRectF(self.cell_rect(top, left).topLeft(), self.cell_rect(bottom, right).topLeft())

    def _shown(self) -> tuple[range, range]:
        """Rows and columns of the values that are in view."""
        down, across = self.block
        height, width = self._values.shape

        def inside(low: float, high: float, start: int, block: int, count: int) -> range:
            first = max(math.floor((low + 0.5 - start) / block), 0)
            last = min(math.ceil((high + 0.5 - start) / block), count)
            return range(first, max(last, first))

        rows = inside(self._view.top(), self._view.bottom(), self._rows[0], down, height)
        columns = inside(self._view.left(), self._view.right(), self._columns[0], across, width)
        return rows, columns

    def _pixel_rect(self, row: int, column: int) -> QRectF:
        down, across = self.block
        top, left = self._rows[0] + row * down, self._columns[0] + column * across
        return self._span(top, left, top + down, left + across)

    def _paint_marks(self, painter: QPainter, place: _Layout) -> None:
        """A cross for NaN, a triangle up or down for +∞ and −∞, each in the ink that its ground allows."""
        odd = ~np.isfinite(self._values) & self._visible
        if not odd.any() or place.step * min(self.block) < 5:
            return
        now = theme.current()
        rows, columns = self._shown()
        for row, column in np.argwhere(odd):
            if row not in rows or column not in columns:
                continue
            box = self._pixel_rect(int(row), int(column))
            box = box.adjusted(*(f * box.width() * 0.25 for f in (1, 1, -1, -1)))
            value = float(self._values[row, column])
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

    def _paint_numbers(self, painter: QPainter, place: _Layout) -> None:
        """Write the values into cells that are large enough."""
        font = theme.current().font("number")
        metrics = QFontMetricsF(font)
        if self.block != (1, 1) or place.step < metrics.horizontalAdvance("−0.00") + 6:
            return
        painter.setFont(font)
        rows, columns = self._shown()
        pixels = self._coloured()
        for row in rows:
            for column in columns:
                value = float(self._values[row, column])
                if not self._visible[row, column] or not math.isfinite(value):
                    continue
                red, green, blue, _ = (int(c) for c in pixels[row, column])
                painter.setPen(theme.current().ink_on(QColor(red, green, blue)))
                painter.drawText(self._pixel_rect(row, column), Qt.AlignmentFlag.AlignCenter, in_cell(value))

    def _paint_crosshair(self, painter: QPainter, place: _Layout) -> None:
        now = theme.current()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        hover = QColor(now.text)
        hover.setAlpha(170)
        lines = (
            (self._hover[0], True, QPen(hover, 1, Qt.PenStyle.DotLine)),
            (self._hover[1], False, QPen(hover, 1, Qt.PenStyle.DotLine)),
            (self._key, False, QPen(now.key, 2)),
            (self._query, True, QPen(now.query, 2)),
        )
        for index, is_row, pen in lines:
            if index < 0:
                continue
            box = self.cell_rect(index, index)
            if is_row:
                box = QRectF(place.plot.left(), box.top(), place.plot.width(), max(box.height(), 3))
            else:
                box = QRectF(box.left(), place.plot.top(), max(box.width(), 3), place.plot.height())
            if place.plot.adjusted(-1, -1, 1, 1).intersects(box):
                painter.setPen(pen)
                painter.drawRect(box.intersected(place.plot))

    def _paint_highlights(self, painter: QPainter, place: _Layout) -> None:
        for query, key in self.highlighted:
            box = self.cell_rect(query, key)
            if place.plot.contains(box.center()):
                highlight.ring(painter, box)

    def _ticks(self, first: float, last: float, step: float, chosen: int, room: float) -> tuple[list[int], int]:
        """Choose which positions are labelled so that no two labels touch; the selected one always is."""
        stride = max(math.ceil(room / step), 1)
        low, high = max(math.ceil(first), 0), math.ceil(last)
        ticks = list(range(-(-low // stride) * stride, high, stride))
        if low <= chosen < high and chosen not in ticks:
            ticks = [i for i in ticks if abs(i - chosen) * step >= room] + [chosen]
        return ticks, stride

    def _label(self, index: int, stride: int) -> str:
        """The token where every one is labelled, else its position: a few tokens out of many say nothing."""
        return self._labels[index] if stride == 1 and index < len(self._labels) else str(index)

    def _mark_colour(self, *, row: bool) -> QColor:
        """The colour of the selected row's or column's name."""
        return theme.current().query if row else theme.current().key

    def _paint_row_labels(self, painter: QPainter, place: _Layout) -> None:
        now = theme.current()
        font, view = now.font("number"), self._view
        height = face(font).height
        ticks, stride = self._ticks(view.top(), view.bottom(), place.step, self._query, _label_room())
        for index in ticks:
            y = place.plot.top() + (index - view.top()) * place.step
            box = QRectF(0, y - height / 2, place.plot.left() - 6, height)
            colour = self._mark_colour(row=True) if index == self._query else now.faint
            ink.draw_text(painter, box, self._label(index, stride), font, colour, ink.RIGHT)

    def _paint_column_labels(self, painter: QPainter, place: _Layout) -> None:
        if not place.named:
            self._paint_positions(painter, place)
            return
        now = theme.current()
        font, view = now.font("number"), self._view
        height, room = face(font).height, self._names_room(named=True) - 6
        ticks, stride = self._ticks(view.left(), view.right(), place.step, self._key, _label_room())
        painter.save()
        painter.translate(place.plot.left(), place.plot.bottom() + 6)
        painter.rotate(-90)
        for index in ticks:
            x = (index - view.left()) * place.step
            colour = self._mark_colour(row=False) if index == self._key else now.faint
            box = QRectF(-room, x - height / 2, room, height)
            ink.draw_text(painter, box, self._label(index, stride), font, colour, ink.RIGHT)
        painter.restore()

    def _paint_positions(self, painter: QPainter, place: _Layout) -> None:
        """Positions below the cells, as many as can be read."""
        now = theme.current()
        font, view = now.font("number"), self._view
        gap = now.grid(0.75)
        room = ink.text_width(font, "0" * len(str(max(math.floor(view.right()), 0)))) + gap
        ticks, _ = self._ticks(view.left(), view.right(), place.step, self._key, math.ceil(room))
        for index in ticks:
            middle = place.plot.left() + (index - view.left()) * place.step
            width = ink.text_width(font, str(index)) + 1
            left = min(max(middle - width / 2, 0.0), self.width() - width)
            if abs(left - (middle - width / 2)) > gap / 2 and index != self._key:
                continue  # pushed in from the edge it would touch its neighbour
            colour = self._mark_colour(row=False) if index == self._key else now.faint
            ink.draw_text(
                painter, QRectF(left, place.plot.bottom() + 2, width, face(font).height), str(index), font, colour
            )

    def _paint_bar(self, painter: QPainter, place: _Layout) -> None:
        """The colour bar, with numbers at its ends and, where it fits, in the middle."""
        now = theme.current()
        table = now.sequential
        if self._levels.scale == "diverging":
            table = now.diverging[2 * theme.ZERO - 255 :]
        low, middle, high = (brief(self._levels.value_at(share)) for share in (0.0, 0.5, 1.0))
        draw = colour_bar.standing if place.beside else colour_bar.lying
        draw(painter, place.bar, table, (low, middle, high), self.width())

    # Input --------------------------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange again."""
        self._layout_now = None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a click or a drag."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed, self._dragged = event.position(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a cell, or drag a zoomed view."""
        if self._pressed is not None and self._view != self._extent:
            moved = event.position() - self._pressed
            if self._dragged or moved.manhattanLength() > 6:
                self._dragged = True
                step = self._layout().step
                self._pressed = event.position()
                self._look_at(self._view.translated(-moved.x() / step, -moved.y() / step))
                return
        cell = self.cell_at(event.position())
        self.pointed.emit(*(cell if cell is not None else (-1, -1)))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Pick the cell, unless the view was dragged."""
        if event.button() != Qt.MouseButton.LeftButton or self._pressed is None:
            return
        cell = None if self._dragged else self.cell_at(event.position())
        self._pressed = None
        if cell is not None:
            self.picked.emit(*cell)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Show the whole matrix again."""
        self._look_at(QRectF(self._extent))

    def leaveEvent(self, event: QEvent) -> None:
        """Point at nothing."""
        self.pointed.emit(-1, -1)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom about the cell under the pointer."""
        place = self._layout()
        turn = event.angleDelta().y()
        if place.step <= 0 or not place.plot.contains(event.position()) or turn == 0:
            event.ignore()
            return
        factor = 1.25 ** (-turn / 120)
        full = self._extent
        smallest = min(_FEWEST_CELLS / min(full.width(), full.height()), 1.0)
        share = min(max(self._view.width() / full.width() * factor, smallest), 1.0)
        across = (event.position().x() - place.plot.left()) / place.plot.width()
        down = (event.position().y() - place.plot.top()) / place.plot.height()
        width, height = full.width() * share, full.height() * share
        x, y = self._view.left() + across * self._view.width(), self._view.top() + down * self._view.height()
        self._look_at(QRectF(x - across * width, y - down * height, width, height))
        event.accept()

    def event(self, event: QEvent) -> bool:
        """Take the arrow keys from the window's shortcuts while this map has the focus."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and event.key() in _ARROWS:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move the selected cell with the arrow keys."""
        move = _ARROWS.get(Qt.Key(event.key()))
        if move is None:
            super().keyPressEvent(event)
            return
        query, key = self._query + move[0], self._key + move[1]
        if 0 <= query < self._extent.height() and 0 <= key < self._extent.width():
            self.picked.emit(query, key)

    def _look_at(self, view: QRectF) -> None:
        """Move the view, kept inside the matrix, and say so."""
        full = self._extent
        left = min(max(view.left(), full.left()), full.right() - view.width())
        top = min(max(view.top(), full.top()), full.bottom() - view.height())
        wanted = QRectF(left, top, view.width(), view.height())
        if wanted != self._view:
            self._view = wanted
            self._forget()
            self.viewed.emit(QRectF(wanted))
