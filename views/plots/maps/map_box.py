"""What can be seen of a matrix: pyqtgraph's view, kept inside the matrix, and its cells in their shape."""

from __future__ import annotations

import math
from typing import Any, Literal

from pyqtgraph import ViewBox, mkBrush, mkPen
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QGraphicsItem, QGraphicsRectItem

from ropewalk.views.style import ink, theme

_FEWEST_CELLS = 4


class MapBox(ViewBox):
    """The wheel zooms, dragging moves, dragging with Shift draws the box that is shown next.

    Signals
    -------
    clicked(point)
        Where, in pixels of the widget.
    looked()
        A person has changed the view.
    boxed(cells)
        A person drew the box that was asked for by ``boxing = "mean"``.
    """

    clicked = Signal(QPointF)
    looked = Signal()
    boxed = Signal(QRectF)

    def __init__(self, parent: QGraphicsItem) -> None:
        super().__init__(enableMenu=False, invertY=True, defaultPadding=0)
        self.setParentItem(parent)  # not earlier: it would not hear that it has come into a scene
        self.disableAutoRange()
        self.extent = QRectF()
        """All cells."""
        self.boxing: Literal["", "see", "mean"] = ""
        """What the next drag draws a box for, even without Shift."""
        self._drawing = ""
        self._seen = QRectF()
        self.sigRangeChangedManually.connect(self._say)
        self.theme_changed()

    def set_extent(self, extent: QRectF) -> None:
        """Show a matrix of another size, all of it."""
        self.extent = QRectF(extent)
        width, height = extent.width(), extent.height()
        share = min(_FEWEST_CELLS / max(min(width, height), 1), 1.0)
        self.setLimits(
            xMin=extent.left(), xMax=extent.right(), minXRange=width * share, maxXRange=width,
            yMin=extent.top(), yMax=extent.bottom(), minYRange=height * share, maxYRange=height,
        )  # fmt: skip
        self.setRange(extent, padding=0, disableAutoRange=False)
        self._seen = self.view

    @property
    def view(self) -> QRectF:
        """What can be seen, in cells."""
        rect: QRectF = self.viewRect()
        return rect

    @property
    def is_whole(self) -> bool:
        """Whether all can be seen."""
        return self.view == self.extent

    # Cells and pixels of the widget -------------------------------------------------------------------------------

    @property
    def steps(self) -> tuple[float, float]:
        """Pixels of a cell, across and down."""
        plot, view = self.geometry(), self.view
        return (
            (float(plot.width() / view.width()), float(plot.height() / view.height())) if view.width() else (0.0, 0.0)
        )

    @property
    def step(self) -> float:
        """Pixels of a cell along its shorter side; cells are square in most maps."""
        return min(self.steps)

    def pixels_of(self, cells: QRectF) -> QRectF:
        """Where a rectangle of cells is drawn."""
        plot, view, (across, down) = self.geometry(), self.view, self.steps
        return QRectF(
            plot.left() + (cells.left() - view.left()) * across,
            plot.top() + (cells.top() - view.top()) * down,
            cells.width() * across,
            cells.height() * down,
        )

    def cells_of(self, pixels: QRectF) -> QRectF:
        """Which cells are drawn in a rectangle."""
        plot, view, (across, down) = self.geometry(), self.view, self.steps
        left, top = (pixels.left() - plot.left()) / across, (pixels.top() - plot.top()) / down
        return QRectF(view.left() + left, view.top() + top, pixels.width() / across, pixels.height() / down)

    def cell_rect(self, row: int, column: int) -> QRectF:
        """Where a cell is drawn."""
        return self.pixels_of(QRectF(column - 0.5, row - 0.5, 1, 1))

    def cell_at(self, point: QPointF) -> tuple[int, int] | None:
        """Return the row and column under a point, None outside the cells."""
        if self.step <= 0 or not self.geometry().contains(point):
            return None
        place = self.cells_of(QRectF(point, point)).topLeft()
        return self.inside(math.floor(place.y() + 0.5), math.floor(place.x() + 0.5))

    def inside(self, row: int, column: int) -> tuple[int, int] | None:
        """A cell, or None where the matrix has none."""
        return (row, column) if 0 <= row < self.extent.height() and 0 <= column < self.extent.width() else None

    # Looking ------------------------------------------------------------------------------------------------------

    def look_at(self, view: QRectF) -> None:
        """Show a part, or what is nearest to it that has the shape of the whole and lies inside it."""
        full, middle = self.extent, view.center()
        share = min(max(view.width() / full.width(), view.height() / full.height()), 1.0)
        width, height = full.width() * share, full.height() * share
        self.setRange(QRectF(middle.x() - width / 2, middle.y() - height / 2, width, height), padding=0)
        self._say()

    def look_at_all(self) -> None:
        """Show all."""
        self.look_at(self.extent)

    def theme_changed(self) -> None:
        """Draw boxes in the colours in use."""
        box = QGraphicsRectItem(0, 0, 1, 1)
        box.setPen(mkPen(theme.current().accent, width=1))
        box.setBrush(mkBrush(ink.faded(theme.current().accent, 0.2)))
        self.rbScaleBox = box

    def _say(self, *_: object) -> None:
        if self.view != self._seen:
            self._seen = self.view
            self.looked.emit()

    # pyqtgraph's own ----------------------------------------------------------------------------------------------

    def linkedViewChanged(self, view: ViewBox, axis: int) -> None:
        """Show the same part as a linked map, wherever on the screen it is."""
        if not self.linksBlocked and view is not None:
            seen = view.viewRange()[axis]
            view.blockLink(True)
            self.setRange(**{"yRange" if axis else "xRange": seen}, padding=0, disableAutoRange=False)
            view.blockLink(False)

    def showAxRect(self, ax: QRectF, **_: object) -> None:
        """Show the box that was drawn, or say where it is."""
        if self._drawing == "mean":
            self.boxed.emit(ax.normalized().intersected(self.extent))
        else:
            self.look_at(ax.normalized())

    def wheelEvent(self, ev: QWheelEvent, axis: int | None = None) -> None:
        """Zoom about the cell under the pointer."""
        self.updateMatrix()  # several may come before the next painting
        super().wheelEvent(ev)

    def mouseClickEvent(self, ev: Any) -> None:
        """Say what was clicked."""
        if ev.button() == Qt.MouseButton.LeftButton:
            ev.accept()
            self.clicked.emit(QPointF(ev.scenePos()))

    def mouseDragEvent(self, ev: Any, axis: int | None = None) -> None:
        """Move the view, or draw a box."""
        if ev.button() not in (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton):
            ev.ignore()
            return
        if ev.isStart():
            box = self.boxing or ("see" if ev.modifiers() & Qt.KeyboardModifier.ShiftModifier else "")
            self.setMouseMode(self.RectMode if box else self.PanMode)
            self._drawing, self.boxing = box, ""
        self.updateMatrix()
        super().mouseDragEvent(ev)
