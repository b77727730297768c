"""The ground of every plot: a view of pyqtgraph's scene in the look of the window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QImage, QMouseEvent, QPainter, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGraphicsItem, QGraphicsView, QGraphicsWidget, QStyleOptionGraphicsItem, QWidget

from ropewalk.views.style import theme

if TYPE_CHECKING:  # what pyqtgraph's classes are to Qt: they have no types of their own
    from PySide6.QtWidgets import QGraphicsObject as GraphicsObject
    from PySide6.QtWidgets import QGraphicsView as GraphicsView
else:
    from pyqtgraph import GraphicsObject, GraphicsView


class PlotView(GraphicsView):
    """A view without a frame, a ground or a menu of its own. One pixel of its scene is one of the widget's."""

    menu_wanted = Signal(object, QPoint)
    """The right button or the Menu key was pressed: on a cell or None, and where on the screen."""
    sceneObj: Any  # noqa: N815 - pyqtgraph's own name
    centralWidget: QGraphicsWidget  # noqa: N815 - pyqtgraph's own name
    """What fills the view; everything is put into it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        while self.sceneObj.contextMenu:  # pyqtgraph's own menu
            self.sceneObj.contextMenu.pop().deleteLater()
        self.setBackgroundBrush(Qt.BrushStyle.NoBrush)
        self.centralWidget.setLayout(None)  # type: ignore[arg-type]  # places are given here; a layout makes a widget more
        self.setCacheMode(QGraphicsView.CacheModeFlag(0))  # a kept ground would be pixels in a vector file
        self.viewport().setAutoFillBackground(False)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def arrange(self) -> None:
        """Give everything its place; called for every size."""

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """Arrange anew."""
        super().resizeEvent(event)  # type: ignore[arg-type]
        if event is not None:  # else it is pyqtgraph's own call, before there is anything
            self.arrange()

    def showEvent(self, event: QShowEvent) -> None:
        """Arrange for the screen that it is shown on."""
        super().showEvent(event)
        self.arrange()

    def picture(self) -> QImage:
        """The plot as pixels, twice as fine as on an ordinary screen."""
        image = QImage(self.size() * 2, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(2)
        image.fill(theme.current().panel)
        QWidget.render(self, image)
        return image

    def close(self) -> bool:
        """Close as any widget: pyqtgraph's own takes the view's surface away, and Qt does not survive that."""
        return QWidget.close(self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a click or a drag; the right button is the menu's."""
        if event.button() != Qt.MouseButton.RightButton:
            super().mousePressEvent(event)
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End it."""
        super().mouseReleaseEvent(event)
        event.accept()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Show everything."""
        self.view_all()
        event.accept()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of plots of this kind."""
        self.menu_wanted.emit(self.cell_asked(event), event.globalPos())

    def cell_asked(self, event: QContextMenuEvent) -> tuple[int, int] | None:
        """What of the plot a menu is asked for; None for no cell."""
        return None

    def view_all(self) -> None:
        """Show everything."""

    def whole(self, length: float) -> float:
        """The longest length up to this one that is made of whole pixels of the screen."""
        ratio = self.devicePixelRatioF()
        return math.floor(length * ratio + 1e-6) / ratio


def count_in_pixels(painter: QPainter) -> tuple[float, float]:
    """Let a painter in a plot's coordinates count in pixels; return how many there were to one of the plot, each way.

    A pen that stays thin however a plot is stretched is one on a screen only: in a vector file it is stretched along.
    """
    across, down = painter.worldTransform().m11(), painter.worldTransform().m22()
    painter.scale(1 / across, 1 / down)
    return across, down


class Painted(GraphicsObject):
    """One item that draws all of a kind in a plot; where it is, is in pixels of the view.

    A subclass overrides :meth:`draw`.
    """

    def __init__(self, parent: QGraphicsItem | None = None, *, above: bool = True) -> None:
        super().__init__(parent)
        self.area = QRectF()
        self.setZValue(10 if above else -200)  # pyqtgraph's views are at −100
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemUsesExtendedStyleOption)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)

    def put(self, area: QRectF) -> None:
        """Draw here from now on."""
        if area != self.area:
            self.prepareGeometryChange()
            self.area = QRectF(area)

    def boundingRect(self) -> QRectF:
        """Where something may be drawn: rings and outlines stand out a little."""
        return self.area.adjusted(-8, -8, 8, 8)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Draw what has to be drawn again."""
        painter.save()
        self.draw(painter, option.exposedRect)
        painter.restore()

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Draw at least what is in ``exposed``."""
