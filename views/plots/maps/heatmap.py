"""The one map of a matrix: cells, axes with token labels, colour bar, mask, marks, crosshair, zoom.

It draws a rectangle of a matrix and says what was clicked or pointed at. Coordinates are cells of the whole matrix:
cell (0, 0) is centred on (0, 0).
"""

from __future__ import annotations

import math
from typing import Literal

from PySide6.QtCore import QCoreApplication, QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.records import Bools, Floats, Reduction
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.maps.cells import Cells
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.plots.maps.levels_bar import LevelsBar
from ropewalk.views.plots.maps.map_box import MapBox
from ropewalk.views.plots.maps.map_data import MapData
from ropewalk.views.plots.maps.map_layout import NOWHERE, MapLayout
from ropewalk.views.plots.maps.map_marks import Hatching, Marks
from ropewalk.views.plots.maps.token_axis import TokenAxis
from ropewalk.views.plots.plot_view import PlotView
from ropewalk.views.style import ink, theme
from ropewalk.views.style.theme import Table


def reduction_note(reduction: Reduction, block: int, becoming: str = "") -> str:
    """Say what a pixel stands for, and what it is ``becoming`` while it is refined.

    ``max of 8 × 8``, ``sampled: 1 of 8 × 8`` or ``sampled → max of 8 × 8``; nothing where a pixel is one cell.
    """
    if reduction == "exact":
        return ""
    how = f"{reduction} → {becoming}" if becoming else "sampled: 1" if reduction == "sampled" else reduction
    return f"{how} of {block} × {block}"


class Heatmap(PlotView):
    """A picture of a matrix with everything that belongs to it.

    Signals
    -------
    picked(query, key)
        A cell was clicked, or reached with the arrow keys while the map has the focus.
    pointed(query, key)
        The pointer is over another cell; (-1, -1) when it left.
    viewed(view)
        A person zoomed or moved the view (a QRectF in cells). Maps that are linked follow without a word.
    levelled(levels)
        A person dragged an end of the colour bar; None gives the levels back to whoever set them.
    """

    picked = Signal(int, int)
    pointed = Signal(int, int)
    viewed = Signal(object)
    levelled = Signal(object)

    def __init__(self, title: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = title
        self.note = ""
        """Words after the title, such as the pooling of a reduced picture; set by :meth:`set_data`, too."""
        self.titles = ("", "")
        """Words beside the rows and below the columns, where there is room for them."""
        self._levels = Levels(0.0, 1.0)
        self._by_hand: Levels | None = None
        self._drawn: Table | None = None
        """The colours that are drawn; others are handed on when somebody looks: levels often follow data at once."""
        self._under = (-1, -1)
        """The cell that was last said to be under the pointer."""
        self._said = self._readout = ""
        self._places = NOWHERE
        self._is_arranged = True
        self.data = self.make_data()
        self.box, self.cells = MapBox(self.centralWidget), Cells()
        self.box.addItem(self.cells, ignoreBounds=True)
        self.hatching, self.marks = Hatching(self.box, self.data), self.make_marks()
        self.rows_axis, self.columns_axis, self.bar = self.make_axis("left"), self.make_axis("bottom"), LevelsBar()
        self.form = MapLayout(self.rows_axis, self.columns_axis, self.bar, self.whole)
        for item in (self.rows_axis, self.columns_axis, self.bar):
            item.setParentItem(self.centralWidget)
        for axis in (self.rows_axis, self.columns_axis):
            axis.linkToView(self.box)
        self.box.sigRangeChanged.connect(self._on_range)
        self.box.looked.connect(lambda: self.viewed.emit(self.view))
        self.box.clicked.connect(self._on_click)
        self.box.boxed.connect(self._take_region)
        self.bar.dragged.connect(self.choose_levels)
        self.bar.dragged.connect(self.levelled)
        self.setAccessibleName(title)

    def make_data(self) -> MapData:
        """The numbers and their colours."""
        return MapData()

    def make_axis(self, side: Literal["left", "bottom"]) -> TokenAxis:
        """What names the rows or the columns."""
        return TokenAxis(side)

    def make_marks(self) -> Marks:
        """What is drawn over the cells."""
        return Marks(self.box, self.data)

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
        self.data.show(values, visible, rows, columns)
        height, width = whole if whole is not None else (rows[1], columns[1])
        extent = QRectF(-0.5, -0.5, width, height)
        self.set_note(reduction_note(reduction, max(self.block)))
        if extent != self.box.extent:
            self._take_region(QRectF())
            self.box.set_extent(extent)
            self.arrange()
        self.bar.count(values, visible)
        self._say_region()
        self.viewport().update()

    def patch(self, top: int, left: int, values: Floats, visible: Bools) -> None:
        """Put a finer part [h, w] into the picture, its first pixel at (``top``, ``left``); levels stay as they are."""
        if self.data.patch(top, left, values, visible):  # else it is of a picture that is no longer shown
            self.cells.changed(top, left, *values.shape)
            self.marks.update(self.box.pixels_of(self.data.pixel_place(top, left, *values.shape)))

    def set_note(self, note: str) -> None:
        """Say something after the title, such as how the picture is reduced."""
        if note != self.note:
            self.note = note
            self.arrange()

    def set_labels(self, labels: tuple[str, ...]) -> None:
        """Set the token texts of both axes, one per row of the matrix."""
        if labels == self.rows_axis.names:
            return
        self.rows_axis.set_names(labels)
        self.columns_axis.set_names(labels)
        self.arrange()

    def set_levels(self, levels: Levels) -> None:
        """Set what the ends of the colour bar mean; levels that a person chose stay while the scale is the same."""
        if self._by_hand is not None and self._by_hand.scale != levels.scale:
            self._by_hand = None
        if levels != self._levels:
            self._levels = levels
            self._recolour()

    def choose_levels(self, levels: Levels | None) -> None:
        """Take levels that a person chose, here or in a map that shares them; None for those of :meth:`set_levels`."""
        if levels != self._by_hand:
            self._by_hand = levels
            self._recolour()

    def say(self, readout: str) -> None:
        """Say what is pointed at, at the right above the cells."""
        if readout != self._readout:
            self._readout = readout
            self.viewport().update(self._places.title.toAlignedRect())

    def set_selection(self, query: int, key: int) -> None:
        """Outline a query row in amber and a key column in blue; -1 for none."""
        if (query, key) != self.selection:
            self.marks.mark((query, key), self.hover)
            self.setAccessibleDescription(f"query {query}, key {key}")
            self._choose_names()

    def set_hover(self, query: int, key: int) -> None:
        """Draw the hover crosshair; -1 for none."""
        self.marks.mark(self.selection, (query, key))
        if query < 0 and key < 0:
            self._under = (-1, -1)  # so that the cell under a pointer that rests is said when it moves again

    def set_highlighted(self, cells: frozenset[tuple[int, int]]) -> None:
        """Ring these cells (query, key)."""
        if cells != self.highlighted:
            self.marks.ringed = cells
            self.marks.update()

    def look_at(self, view: QRectF) -> None:
        """Show a part of the matrix, and say so."""
        self.box.look_at(view)

    def view_all(self) -> None:
        """Show the whole matrix."""
        self.box.look_at_all()

    def draw_box(self) -> None:
        """Let the next drag draw the box that is to be seen."""
        self.box.boxing = "see"

    @property
    def region(self) -> QRectF:
        """The cells whose mean is said beside the title."""
        return self.marks.region

    def toggle_region(self) -> None:
        """Let the next drag draw a box whose cells have their mean beside the title, or take it away."""
        if self.region.isEmpty():
            self.box.boxing = "mean"
        else:
            self._take_region(QRectF())

    def _take_region(self, box: QRectF) -> None:
        left, top = math.floor(box.left() + 0.5), math.floor(box.top() + 0.5)
        width, height = math.ceil(box.right() + 0.5) - left, math.ceil(box.bottom() + 0.5) - top
        self.marks.region = QRectF() if box.isEmpty() else QRectF(left - 0.5, top - 0.5, width, height)
        self._say_region()
        self.marks.update()

    def reset_levels(self) -> None:
        """Give the levels back to whoever set them."""
        self.choose_levels(None)
        self.levelled.emit(None)

    def link(self, other: Heatmap) -> None:
        """Show the same part as another map, whichever of the two is moved."""
        self.box.setXLink(other.box)
        self.box.setYLink(other.box)

    def theme_changed(self) -> None:
        """Take the colours and sizes of the theme in use."""
        for part in (self.box, self.rows_axis, self.columns_axis, self.bar):
            part.theme_changed()
        self._choose_names()
        self.arrange()
        self._recolour()

    # What it can say ----------------------------------------------------------------------------------------------

    @property
    def levels(self) -> Levels:
        """The levels in use."""
        return self._levels if self._by_hand is None else self._by_hand

    @property
    def view(self) -> QRectF:
        """The visible rectangle, in cells."""
        return self.box.view

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns that one pixel stands for."""
        return self.data.block

    @property
    def plot(self) -> QRectF:
        """Where the cells are, in widget coordinates."""
        self._settle()
        return QRectF(self.box.geometry())

    @property
    def selection(self) -> tuple[int, int]:
        """The query and the key that are outlined, −1 for none."""
        return self.marks.selected

    @property
    def hover(self) -> tuple[int, int]:
        """The query and the key of the crosshair, −1 for none."""
        return self.marks.hovered

    @property
    def highlighted(self) -> frozenset[tuple[int, int]]:
        """The cells that are ringed."""
        return self.marks.ringed

    def cell_rect(self, query: int, key: int) -> QRectF:
        """The rectangle of a cell in widget coordinates."""
        self._settle()
        return self.box.cell_rect(query, key)

    def cell_at(self, point: QPointF) -> tuple[int, int] | None:
        """Return (query, key) under a point, None outside the cells."""
        self._settle()
        return self.box.cell_at(point)

    def pixel_of(self, query: int, key: int) -> tuple[int, int] | None:
        """Return the index into the shown values that stands for a cell, None where it is not covered."""
        return self.data.pixel_of(query, key)

    def value(self, query: int, key: int) -> float:
        """The number that stands for a cell; NaN where it is not covered."""
        return self.data.value(query, key)

    def is_masked(self, query: int, key: int) -> bool:
        """Whether a cell is drawn as masked."""
        return self.data.is_masked(query, key)

    @property
    def heading(self) -> tuple[str, ...]:
        """What is written beside or above the cells."""
        return tuple(filter(None, (self.title, self.note, self._said)))

    # Layout -------------------------------------------------------------------------------------------------------

    def sizeHint(self) -> QSize:
        """A size at which a dozen tokens can be read."""
        return QSize(240, 260)

    def minimumSizeHint(self) -> QSize:
        """The smallest size that still shows cells and a colour bar."""
        line = theme.current().size("label")
        return QSize(7 * line, 7 * line)

    def arrange(self) -> None:
        """Give everything its place, once all that is said in this turn has been said and somebody can see it."""
        self.form.extent, self.form.heading = self.box.extent, self.heading
        self.fit_titles(self.size())
        self._is_arranged = False
        if self.isVisible():
            QCoreApplication.postEvent(self, QEvent(QEvent.Type.LayoutRequest))

    def _settle(self) -> None:
        """Give everything its place now."""
        if self._is_arranged:
            return
        self._is_arranged = True
        place = self._places = self.form.places()
        plot, bar = place.plot, place.bar
        self.box.setGeometry(plot if not plot.isEmpty() else QRectF(0, 0, 1, 1))
        self.rows_axis.setWidth(plot.left())
        self.rows_axis.setGeometry(QRectF(0, plot.top(), plot.left(), plot.height()))
        self.columns_axis.spare = plot.left(), self.width() - plot.right()
        self.columns_axis.setHeight(place.names)
        self.columns_axis.setGeometry(QRectF(plot.left(), plot.bottom(), plot.width(), place.names))
        for item in (self.hatching, self.marks):
            item.put(plot)
        self.bar.setVisible(not bar.isEmpty())
        around = QRectF(bar.topLeft(), QPointF(self.width(), self.height()))
        self.bar.stand(around, bar, standing=place.beside)
        self.viewport().update()

    def fit_titles(self, size: QSize) -> None:
        """Name the axes where a map of that size has room for it: it takes some from the cells."""
        form, now = self.form, theme.current()
        form.size = size
        for axis, shown, title, colour in (
            (self.rows_axis, form.row_labels, self.titles[0], now.query),
            (self.columns_axis, form.column_labels, self.titles[1], now.key),
        ):
            axis.title, axis.title_colour = (title if form.is_roomy else ""), colour
            axis.setVisible(shown)

    # Painting -----------------------------------------------------------------------------------------------------

    def _recolour(self) -> None:
        self.data.recolour(self.levels)
        before = self.bar.wanted()
        self.bar.show_levels(self.levels)
        if self.bar.wanted() != before:
            self.arrange()
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what has changed."""
        self._settle()
        if self.data.values.size and self.data.colours() is not self._drawn:
            self._drawn = self.data.colours()
            self.cells.show_pixels(self._drawn, self.data.place, self.data.covered)
        super().paintEvent(event)

    def drawForeground(self, painter: QPainter, rect: QRectF | QRect) -> None:
        """Write the title, and outline the plot that has the keys."""
        place, now = self._places, theme.current()
        if QRectF(rect).intersects(place.title):
            height, font = place.title.height() / max(len(place.lines), 1), now.font("label")
            readout = "" if place.beside else ink.whole_parts(font, self._readout, place.title.width())
            said = ink.text_width(font, readout) + now.grid(1) if readout else 0.0
            spare = max(place.title.width() - said, 0.0)
            for number, text in enumerate(place.lines):
                box = QRectF(place.title.left(), place.title.top() + number * height, spare, height)
                ink.draw_text(painter, box, ink.whole_parts(font, text, spare) if said else text, font, now.faint)
            if said:
                ink.draw_text(painter, place.title, readout, font, now.text, ink.RIGHT)
        if self.hasFocus():
            painter.setPen(QPen(now.accent, 1, Qt.PenStyle.DotLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(place.plot.adjusted(-2, -2, 2, 2))

    def mark_colours(self) -> tuple[QColor, QColor]:
        """The colours of the selected row's and column's names."""
        return theme.current().query, theme.current().key

    def _choose_names(self) -> None:
        row, column = self.mark_colours()
        self.rows_axis.choose(self.selection[0], row)
        self.columns_axis.choose(self.selection[1], column)

    # Input --------------------------------------------------------------------------------------------------------

    def _on_range(self, *_: object) -> None:
        self.marks.update()
        self.hatching.update()
        self._under = (-1, -1)  # another cell may be there now

    def _say_region(self) -> None:
        said = "" if self.region.isEmpty() else self.data.mean_text(self.region)
        if said != self._said:
            self._said = said
            self.arrange()

    def _on_click(self, point: QPointF) -> None:
        cell = self.cell_at(point)
        if cell is not None:
            self.picked.emit(*cell)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Outline the plot."""
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Take the outline away."""
        super().focusOutEvent(event)
        self.viewport().update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a cell, or drag."""
        super().mouseMoveEvent(event)
        if not event.buttons():
            cell = self.cell_at(event.position())
            self._point(cell if cell is not None else (-1, -1))

    def leaveEvent(self, event: QEvent) -> None:
        """Point at nothing."""
        super().leaveEvent(event)
        self._point((-1, -1))

    def _point(self, cell: tuple[int, int]) -> None:
        if cell != self._under:
            self._under = cell
            self.pointed.emit(*cell)

    def cell_asked(self, event: QContextMenuEvent) -> tuple[int, int] | None:
        """The cell under the pointer, or the selected one."""
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        return self.box.inside(*self.selection) if by_key else self.cell_at(QPointF(event.pos()))

    def event(self, event: QEvent) -> bool:
        """Settle; take the arrow keys from the window's shortcuts while this map has the focus."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._settle()
        return arrow_keys.kept(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move the selected cell with the arrow keys."""
        move = arrow_keys.step_of(event)
        if move is None:
            event.ignore()
            return
        cell = self.box.inside(self.selection[0] + move[1], self.selection[1] + move[0])
        if cell is not None:
            self.picked.emit(*cell)
