"""The logit lens as a map: positions across, places of the stream down, in each cell the token that it says.

Cells are as wide as tokens are, not square: all places are always in view, and of a long run some positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QFocusEvent, QFont, QKeyEvent, QMouseEvent, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.records import Bools, Doubles, LogitLens
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.charts.plot import NumberAxis, Plot, Table
from ropewalk.views.plots.maps.cells import Cells
from ropewalk.views.plots.maps.levels import Levels, in_cell
from ropewalk.views.plots.maps.levels_bar import LevelsBar
from ropewalk.views.plots.maps.map_data import MapData
from ropewalk.views.plots.maps.token_axis import TokenAxis
from ropewalk.views.plots.plot_view import Painted
from ropewalk.views.style import highlight, ink, theme
from ropewalk.views.style.lettering import face

MOST: Final = 512
"""Positions that are seen at once at most, and so are asked for."""
FEWEST: Final = 4
"""Positions that are seen at least."""
READABLE: Final = 7
"""Digits' widths of a cell in which most tokens can be read: so wide they are of a run that does not fit."""
LEGIBLE: Final = 4
"""Digits' widths of a cell down to which a whole run is shown."""
CUT: Final = 2.5
"""Digits' widths that a cell must have for a token, which may be cut."""
SMALLEST: Final = 0.75
"""How small type may become where rows are low, as a share of that of numbers."""
COUNTABLE: Final = 12
"""Pixels from which on cells are parted by hairlines."""
EMBEDDING: Final = "embedding"


@dataclass(frozen=True)
class Quantity:
    """One of the numbers of a cell, which is its colour.

    Attributes
    ----------
    name, title, tip
        What it is called where it is chosen and above the map, and what a person learns of it.
    """

    name: str
    title: str
    tip: str

    def of(self, lens: LogitLens) -> Doubles:
        """The numbers [L + 1, n]; NaN where there is none."""
        if self.name == "top":
            return lens.probabilities[:, :, 0]
        if self.name == "rank":
            return np.where(lens.rank > 0, lens.rank, np.nan)
        numbers: Doubles = getattr(lens, self.name)
        return numbers

    def written(self, number: float) -> str:
        """A number in few characters."""
        return f"{number:.0f}" if self.name == "rank" else in_cell(number)

    def levels(self, vocabulary: int) -> Levels:
        """What its colours are spread over: all that it can be."""
        if self.name == "rank":
            return Levels(1.0, float(max(vocabulary, 2)), "log")
        return Levels(0.0, math.log(max(vocabulary, 2)) if self.name == "entropy" else 1.0)


QUANTITIES: Final = (
    Quantity("top", "probability of the top token", "How sure the stream is of the token that stands in the cell"),
    Quantity("final", "probability of the final token", "When the model comes to the token that it ends with"),
    Quantity("actual", "probability of the next token", "How probable the token is that really follows in the text"),
    Quantity("rank", "rank of the next token", "The place of the token that really follows: 1 where it is the top one"),
    Quantity("entropy", "entropy in nats", "How undecided the stream is: 0 where one token has it all"),
)


class PlaceAxis(NumberAxis):
    """Names the places of the stream: the embedding, then the layers."""

    def theme_changed(self) -> None:
        """Take the colours and the type in use; there are no ticks, which would be in the cells."""
        super().theme_changed()
        self.setStyle(tickLength=0)

    def tickValues(self, minVal: float, maxVal: float, size: float) -> Any:
        """Where names stand, none upon another."""
        low, high = sorted((minVal, maxVal))
        places = round(high - low)
        apart = 1.05 * theme.current().face("number").height
        stride = max(math.ceil(apart * places / max(size, 1)), 1)
        return [(stride, list(range(0, places, stride)))]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """What they are called."""
        return [place_name(int(value)) for value in values]


def place_name(place: int) -> str:
    """What a place of the stream is called."""
    return f"L{place - 1}" if place else EMBEDDING


class LensMap(Plot):
    """A map of what the stream says.

    Signals
    -------
    picked(place, position), pointed(place, position)
        A cell was clicked, or an arrow key went to one; the pointer is over one (−1 and −1 when it left).
    viewed()
        Other positions are in sight.
    """

    picked = Signal(int, int)
    pointed = Signal(int, int)
    viewed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        self.lens: LogitLens | None = None
        self.names: tuple[str, ...] = ()
        """What every position of the run is called."""
        self.places = 0
        self.quantity = QUANTITIES[0]
        self.selected = self.hovered = (-1, -1)
        """Place and position, −1 for none."""
        self.ringed: frozenset[tuple[int, int]] = frozenset()
        self.texts: dict[int, str] = {}
        """What the tokens of the lens are called, by their ids."""
        self._vocabulary = 2
        self._by_hand = False
        """Whether a person chose which positions are in sight."""
        self.data, self.cells, self.bar = MapData(), Cells(), LevelsBar()
        self.ground, self.marks = LensGround(self), LensMarks(self)
        super().__init__(PlaceAxis("left"), TokenAxis("bottom"), parent)
        self.bottom: TokenAxis
        self.box.invertY(True)
        self.add(self.cells)
        for item in (self.ground, self.marks):
            self.scene().addItem(item)
        self.bar.setParentItem(self.centralWidget)
        self.bottom.setToolTip(
            "Drag the cells or turn the wheel over them for other positions; a double click shows as many as it can"
        )
        self.bar.dragged.connect(self.spread)
        self.box.sigRangeChanged.connect(lambda *_: self._on_range())
        self.box.sigRangeChangedManually.connect(lambda *_: self._choose())
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Logit lens: what the stream says; arrow keys select layer and position")
        self.colour(self.quantity)

    # What is shown ------------------------------------------------------------------------------------------------

    def show_run(self, names: tuple[str, ...], places: int, vocabulary: int, view: tuple[int, int]) -> None:
        """Show positions called ``names``, those of ``view`` in sight; what is said at them comes with the lens."""
        anew = names[: len(self.names)] != self.names[: len(names)] or places != self.places
        self.names, self.places, self._vocabulary = names, places, vocabulary
        if anew:
            self.lens, self._by_hand, self.hovered = None, False, (-1, -1)
            self.data.show(np.zeros((places, 0), np.float32), np.ones((places, 0), np.bool_), (0, places), (0, 0))
        whole = QRectF(-0.5, -0.5, len(names), places)
        self.whole_range = whole
        self.box.setLimits(
            xMin=whole.left(), xMax=whole.right(), minXRange=min(FEWEST, len(names)), maxXRange=min(MOST, len(names)),
            yMin=whole.top(), yMax=whole.bottom(),
        )  # fmt: skip
        self._see(view)
        self.left.fit()
        self._name()
        self.colour(self.quantity)

    def show_lens(self, lens: LogitLens, texts: dict[int, str]) -> None:
        """Draw what is said at some positions; ``texts`` are the tokens' by their ids."""
        self.lens, self.texts = lens, texts
        self._fill()

    def colour(self, quantity: Quantity) -> None:
        """Colour the cells by another quantity, over all that it can be."""
        self.quantity = quantity
        self.bar.write = quantity.written
        self.heading.say(f"colour: {quantity.title}")
        self._fill()
        self.spread(quantity.levels(self._vocabulary))

    def spread(self, levels: Levels) -> None:
        """Give the colours to other numbers."""
        self.data.recolour(levels)
        self.bar.show_levels(levels)
        self._draw()

    def mark(self, place: int, position: int) -> None:
        """Outline a cell, and bring it in sight where another one was outlined before."""
        before, self.selected = self.selected, (place, position)
        if before[1] != position:
            self.bottom.choose(position, theme.current().query)
            self._bring_in_sight(position)
        if before != self.selected:
            self.setAccessibleDescription(self.words(place, position))
        self.marks.update()

    def point(self, place: int, position: int) -> None:
        """Mark what is pointed at here or elsewhere; −1 and −1 for nothing."""
        if (place, position) != self.hovered:
            self.hovered = place, position
            self.marks.update()

    def ring(self, cells: frozenset[tuple[int, int]]) -> None:
        """Ring these cells."""
        if cells != self.ringed:
            self.ringed = cells
            self.marks.update()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        self.bar.theme_changed()
        self.bottom.theme_changed()
        self.bottom.choose(self.selected[1], theme.current().query)
        self.data.recolour(self.data.levels)
        super().theme_changed()
        self._name()
        self._draw()

    # What it can say ----------------------------------------------------------------------------------------------

    def sight(self) -> tuple[int, int]:
        """The positions in sight, a half-open range."""
        (left, right), _ = self.box.viewRange()
        first = max(math.floor(left + 0.5 + 1e-6), 0)
        return first, max(min(math.ceil(right + 0.5 - 1e-6), len(self.names)), first)

    def sight_of(self, count: int, around: int) -> tuple[int, int]:
        """Which of so many positions would be in sight: all where they can be read, else some around one."""
        if self._by_hand and count == len(self.names):
            return self.sight()
        digit = theme.current().face("number").width("0")
        room = max(self.width() - self.left.width() - self.bar_room(), 1.0)
        if count * LEGIBLE * digit <= room:
            return 0, count
        fitting = max(min(math.floor(room / (READABLE * digit)), count, MOST), min(FEWEST, count))
        first = min(max(around - fitting // 2, 0), count - fitting)
        return first, first + fitting

    def text(self, place: int, position: int) -> str:
        """The token that is said at a cell; empty where it has not been read."""
        at = self._at(place, position)
        return "" if self.lens is None or at is None else self.texts.get(int(self.lens.top[(*at, 0)]), "")

    def number(self, place: int, position: int) -> float:
        """The number that a cell has the colour of; NaN where there is none."""
        return self.data.value(place, position)

    def number_text(self, place: int, position: int) -> str:
        """The same as it is written in a cell."""
        return self.quantity.written(self.number(place, position))

    def words(self, place: int, position: int) -> str:
        """What a cell says, in a few words."""
        said, where = self.text(place, position), f"{place_name(place)}, position {position}"
        return f"{where}: {said} {self.number_text(place, position)}" if said else where

    def cell_rect(self, place: int, position: int) -> QRectF:
        """Where a cell is drawn, in pixels of the widget."""
        box, ((left, right), _) = self.box.geometry(), self.box.viewRange()
        across, down = box.width() / (right - left), box.height() / max(self.places, 1)
        return QRectF(box.left() + (position - 0.5 - left) * across, box.top() + place * down, across, down)

    def cell_at(self, point: QPointF) -> tuple[int, int]:
        """Place and position at a point of the widget, −1 and −1 where there is no cell."""
        at = self.place_at(point)
        return (-1, -1) if at is None else self._inside(math.floor(at.y() + 0.5), math.floor(at.x() + 0.5))

    def table(self) -> Table:
        """What has been read, as columns."""
        lens = self.lens
        if lens is None:
            return ()
        cells = [(place, at) for place in range(len(lens.top)) for at in range(len(lens.top[0]))]
        first, numbers = lens.rows[0], self.quantity.of(lens)
        return (
            ("place", [place_name(place) for place, _ in cells]),
            ("position", [first + at for _, at in cells]),
            ("token", [self.names[first + at] for _, at in cells]),
            ("top token", [self.text(place, first + at) for place, at in cells]),
            (self.quantity.title, [float(numbers[cell]) for cell in cells]),
        )

    def _at(self, place: int, position: int) -> tuple[int, int] | None:
        """Where a cell is in the lens."""
        lens = self.lens
        there = lens is not None and 0 <= place < len(lens.top) and lens.rows[0] <= position < lens.rows[1]
        return (place, position - lens.rows[0]) if lens is not None and there else None

    def _inside(self, place: int, position: int) -> tuple[int, int]:
        return (place, position) if 0 <= place < self.places and 0 <= position < len(self.names) else (-1, -1)

    # How it is drawn ----------------------------------------------------------------------------------------------

    @property
    def cell(self) -> tuple[float, float]:
        """Pixels of a cell, across and down."""
        box = self.cell_rect(0, 0)
        return box.width(), box.height()

    def lettering(self) -> QFont | None:
        """The type of the tokens in the cells; None where there is not room for any."""
        now, (across, down) = theme.current(), self.cell
        font, size = now.font("number"), now.size("number")
        while face(font).height > down and size > SMALLEST * now.size("number"):
            size -= 1
            font.setPixelSize(size)
        fits = face(font).height <= down and across >= CUT * face(font).width("0")
        return font if fits else None

    def bar_room(self) -> float:
        """Pixels that the colour bar takes beside the cells."""
        return theme.GRID + LevelsBar.thickness(counted=False) + self.bar.wanted()

    def arrange(self) -> None:
        """Leave room for the heading, the colour bar, and the names of positions."""
        super().arrange()
        self._grid.setColumnFixedWidth(2, self.bar_room())
        self._name()

    def _name(self) -> None:
        """Name the positions, or number them."""
        (left, right), _ = self.box.viewRange()
        pitch = max(self.width() - self.left.width() - self.bar_room(), 1) / (right - left)
        self.bottom.set_names(self.names)
        self.bottom.limit = self.height() / 4
        self.bottom.setHeight(self.bottom.room(pitch))
        self.lay_out()

    def _resized(self) -> None:
        super()._resized()
        box, line = QRectF(self.box.geometry()), theme.current().face("number").height / 2
        ramp = QRectF(box.right() + theme.GRID, box.top() + line, LevelsBar.thickness(counted=False), box.height())
        ramp.setBottom(max(box.bottom() - line, ramp.top() + 1))
        self.bar.stand(QRectF(ramp.left(), box.top(), self.width() - ramp.left(), box.height()), ramp, standing=True)
        for item in (self.ground, self.marks):
            item.put(box)
            item.update()

    def _fill(self) -> None:
        """Make the numbers of the cells."""
        if self.lens is not None:
            numbers = self.quantity.of(self.lens)
            there: Bools = ~np.isnan(numbers) | np.isnan(self.lens.probabilities[:, :, 0])  # what is broken is shown
            self.data.show(numbers.astype(np.float32), there, (0, self.places), self.lens.rows)
        self._draw()

    def _draw(self) -> None:
        """Draw the cells in sight."""
        start, stop = self.data.columns
        first, last = max(start, self.sight()[0]), min(stop, self.sight()[1])
        self.cells.setVisible(first < last)
        if first < last:
            (left, right), _ = self.box.viewRange()
            pixels = np.ascontiguousarray(self.data.colours()[:, first - start : last - start])
            place = QRectF(first - 0.5, -0.5, last - first, self.places)
            self.cells.show_pixels(pixels, place, place.intersected(QRectF(left, -0.5, right - left, self.places)))
        self.ground.update()
        self.marks.update()

    # Looking ------------------------------------------------------------------------------------------------------

    def view_all(self) -> None:
        """Show as many positions as can be: all, or those around the selected one."""
        self._by_hand = False
        count = len(self.names)
        first = min(max(self.selected[1] - MOST // 2, 0), max(count - MOST, 0))
        self._see((first, min(first + MOST, count)))
        self.colour(self.quantity)

    def look_again(self) -> None:
        """Show what fits into another size, unless a person chose what is in sight."""
        if self.names:
            self._see(self.sight_of(len(self.names), self.selected[1]))

    def _see(self, view: tuple[int, int]) -> None:
        across = view[0] - 0.5, max(view[1], view[0] + 1) - 0.5
        down = -0.5, max(self.places, 1) - 0.5
        if [list(across), list(down)] != self.box.viewRange():
            self.box.setRange(xRange=across, yRange=down, padding=0, disableAutoRange=False)

    def _bring_in_sight(self, position: int) -> None:
        """Move no further than needed to a position at an edge; one that is out of sight comes to the middle."""
        (left, right), _ = self.box.viewRange()
        wide, count = right - left, len(self.names)
        if not 0 <= position < count or left - 1e-6 <= position - 0.5 <= right - 1 + 1e-6:
            return
        start = position - wide / 2
        if left < position + 0.5 and position - 0.5 < right:
            start = position - 0.5 if position - 0.5 < left else position + 0.5 - wide
        start = min(max(start, -0.5), max(count - 0.5 - wide, -0.5))
        self.box.setRange(xRange=(start, start + wide), padding=0, disableAutoRange=False)

    def _choose(self) -> None:
        self._by_hand = True

    def _on_range(self) -> None:
        self._name()
        self._draw()
        self.viewed.emit()

    # What a person does -------------------------------------------------------------------------------------------

    def click_at(self, at: QPointF) -> None:
        """Pick a cell."""
        cell = self._inside(math.floor(at.y() + 0.5), math.floor(at.x() + 0.5))
        if min(cell) >= 0:
            self.picked.emit(*cell)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a cell."""
        super().mouseMoveEvent(event)
        if not event.buttons():
            self.pointed.emit(*self.cell_at(event.position()))

    def viewportEvent(self, event: QEvent) -> bool:
        """Point at nothing any more."""
        if event.type() == QEvent.Type.Leave:
            self.pointed.emit(-1, -1)
        return super().viewportEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Pick the cell beside the selected one."""
        step = arrow_keys.step_of(event)
        if step is None:
            super().keyPressEvent(event)
            return
        cell = self._inside(self.selected[0] + step[1], self.selected[1] + step[0])
        if min(cell) >= 0:
            self.picked.emit(*cell)

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused."""
        return arrow_keys.kept(event) or bool(super().event(event))

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show where the keys go."""
        super().focusInEvent(event)
        self.marks.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Show it no longer."""
        super().focusOutEvent(event)
        self.marks.update()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """Show as many positions as can be read in the new size."""
        super().resizeEvent(event)
        if event is not None:
            self.look_again()

    def sizeHint(self) -> QSize:
        """Room for a dozen tokens and a few layers."""
        return QSize(480, 260)

    def minimumSizeHint(self) -> QSize:
        """The smallest size that still shows cells."""
        line = theme.current().size("label")
        return QSize(12 * line, 8 * line)


class LensGround(Painted):
    """The ground of cells that have not been read, and of those that have no number."""

    def __init__(self, lens_map: LensMap) -> None:
        super().__init__(above=False)
        self._map = lens_map

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Hatch it."""
        if self._map.names:
            painter.fillRect(self.area, theme.current().masked_ground)
            painter.fillRect(self.area, QBrush(theme.current().masked, Qt.BrushStyle.BDiagPattern))


class LensMarks(Painted):
    """Everything over the cells: hairlines, tokens, numbers, outlines, rings."""

    def __init__(self, lens_map: LensMap) -> None:
        super().__init__()
        self._map = lens_map

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Draw what is in sight."""
        shown = self._map
        if not shown.names or self.area.isEmpty():
            return
        painter.save()
        painter.setClipRect(self.area, Qt.ClipOperation.IntersectClip)
        if min(shown.cell) >= COUNTABLE:
            self._draw_gaps(painter)
        self._write(painter)
        painter.restore()
        self._outline(painter)

    def _draw_gaps(self, painter: QPainter) -> None:
        painter.setPen(QPen(theme.current().panel, 1))
        first, last = self._map.sight()
        for position in range(first, last + 1):
            x = self._map.cell_rect(0, position).left()
            painter.drawLine(QPointF(x, self.area.top()), QPointF(x, self.area.bottom()))
        for place in range(1, self._map.places):
            y = self._map.cell_rect(place, 0).top()
            painter.drawLine(QPointF(self.area.left(), y), QPointF(self.area.right(), y))

    def _write(self, painter: QPainter) -> None:
        """Write the token of each cell, and its number under it where there is room for both."""
        shown, font, now = self._map, self._map.lettering(), theme.current()
        if font is None:
            return
        line = face(font).height
        numbered = shown.cell[1] >= 2.2 * line and shown.cell[0] >= face(font).width("00000")
        for place in range(shown.places):
            for position in range(*shown.sight()):
                text = shown.text(place, position)
                if not text:
                    continue
                box = shown.cell_rect(place, position).adjusted(2, 0, -2, 0)
                ground = shown.data.colour(place, position)
                colour = now.text if ground is None else now.ink_on(ground)
                if numbered and ground is not None:
                    middle = box.center().y()
                    number = shown.number_text(place, position)
                    below = QRectF(box.left(), middle, box.width(), line)
                    ink.draw_text(painter, below, number, font, ink.faded(colour, 0.75), ink.CENTRE)
                    box = QRectF(box.left(), middle - line, box.width(), line)
                ink.draw_text(painter, box, text, font, colour, ink.CENTRE)

    def _outline(self, painter: QPainter) -> None:
        """Outline what is pointed at and what is selected, and ring what a lesson names."""
        shown, now = self._map, theme.current()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for cell, beyond, pens in (
            (shown.hovered, 0, (QPen(now.panel, 1), QPen(now.text, 1, Qt.PenStyle.DotLine))),
            (shown.selected, 2, (QPen(now.panel, 5), QPen(now.accent, 3))),  # around the token, which may fill its cell
        ):
            box = shown.cell_rect(*cell).intersected(self.area).adjusted(-beyond, -beyond, beyond, beyond)
            if min(cell) >= 0 and self._is_seen(shown.cell_rect(*cell)):
                for pen in pens:
                    painter.setPen(pen)
                    painter.drawRect(box)
        for cell in shown.ringed:
            if self._is_seen(shown.cell_rect(*cell)):
                highlight.ring(painter, shown.cell_rect(*cell))
        if shown.hasFocus():
            painter.setPen(QPen(now.accent, 1, Qt.PenStyle.DotLine))
            painter.drawRect(self.area.adjusted(-2, -2, 2, 2))

    def _is_seen(self, box: QRectF) -> bool:
        return self.area.left() <= box.center().x() <= self.area.right()
