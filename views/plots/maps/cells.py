"""A grid of colours: pyqtgraph's image, sharp on a screen and in a vector file."""

from __future__ import annotations

from typing import Any

from pyqtgraph import ImageItem
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter

from ropewalk.views.plots.plot_view import count_in_pixels
from ropewalk.views.style import ink
from ropewalk.views.style.theme import Table


class Cells(ImageItem):
    """Cells [h, w, 4] RGBA, for a view whose vertical axis goes down."""

    def __init__(self) -> None:
        super().__init__(axisOrder="row-major")
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self._covered = QRectF()

    def show_pixels(self, pixels: Table, place: QRectF, covered: QRectF | None = None) -> None:
        """Draw ``pixels`` at ``place`` in the plot's coordinates, and nothing of them outside of ``covered``.

        They are kept, not copied: :meth:`changed` says that some have been written anew.
        """
        self.setImage(pixels, autoLevels=False, levels=None)
        self.setRect(place)
        self._covered = self.mapRectFromParent(place if covered is None else covered)

    def changed(self, top: int, left: int, height: int, width: int) -> None:
        """Draw a part of the pixels again."""
        self._renderRequired = True
        self.update(QRectF(left, top, width, height))

    def paint(self, painter: QPainter, *args: Any) -> None:
        """Draw each cell in one colour up to its edges."""
        painter.save()
        painter.setClipRect(self._covered, Qt.ClipOperation.IntersectClip)
        if ink.in_vectors(painter) and self.image is not None:
            height, width = self.image.shape[:2]
            across, down = count_in_pixels(painter)  # how large a cell is decides how it is written
            ink.draw_cells(painter, QRectF(0, 0, width * across, height * down), self.image)
        else:
            super().paint(painter, *args)
        painter.restore()

    def mouseClickEvent(self, event: Any) -> None:
        """Leave clicks to the plot."""

    def mouseDragEvent(self, event: Any) -> None:
        """Leave drags to the plot."""
        event.ignore()

    def hoverEvent(self, event: Any) -> None:
        """Leave what is pointed at to the plot."""
