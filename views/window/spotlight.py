"""A spotlight: everything dark but a circle around the pointer, or the panel that the pointer is over.

It lets every click through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QCursor, QPainter, QPainterPath, QPaintEvent, QRegion
from PySide6.QtWidgets import QWidget

Shape = Literal["", "circle", "panel"]

SHARE = 6
"""The circle's radius is one part of so many of the window's height."""

DARK = 175
"""Opacity of the darkness, of 255."""

INTERVAL = 33
"""Milliseconds between two looks at the pointer."""


class Spotlight(QWidget):
    """Darkness with a hole that follows the pointer.

    Parameters
    ----------
    window
        What it lies over.
    panel_at
        The rectangle of the panel at a point of the window; empty where there is none.
    """

    def __init__(self, window: QWidget, panel_at: Callable[[QPoint], QRect]) -> None:
        super().__init__(window)
        self._window = window
        self.shape_now: Shape = ""
        self.hole = QRect()
        self._panel_at = panel_at
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL)
        self._timer.timeout.connect(self.follow)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.setAccessibleName("Spotlight")
        self.hide()
        window.installEventFilter(self)

    def toggle(self, shape: Shape) -> None:
        """Put the spotlight on as a circle or on whole panels, or put it out."""
        self.put_out() if self.shape_now == shape else self.put_on(shape)

    def put_on(self, shape: Shape) -> None:
        """Darken everything but what is pointed at."""
        self.shape_now = shape
        self.setGeometry(self._window.rect())
        self.show()
        self.raise_()
        self.follow()
        self.update()
        self._timer.start()

    def put_out(self) -> bool:
        """Take the darkness away; says whether there was any."""
        self._timer.stop()
        was, self.shape_now = self.shape_now, ""
        self.hide()
        return bool(was)

    def follow(self) -> None:
        """Move the hole to where the pointer is."""
        self.point_at(self.mapFromGlobal(QCursor.pos()))

    def point_at(self, point: QPoint) -> None:
        """Move the hole to a point of the window; a panel stays lit until another one is pointed at."""
        if self.shape_now == "panel":
            hole = self._panel_at(point)
            hole = hole if not hole.isEmpty() else self.hole
        else:
            radius = self.height() // SHARE
            hole = QRect(point.x() - radius, point.y() - radius, 2 * radius, 2 * radius)
        if hole != self.hole:
            dirty = QRegion(self.hole).united(QRegion(hole))
            self.hole = hole
            self.update(dirty)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the darkness around the hole."""
        darkness, hole = QPainterPath(), QPainterPath()
        darkness.addRect(QRectF(self.rect()))
        if self.shape_now == "panel":
            hole.addRoundedRect(QRectF(self.hole), 8, 8)
        else:
            hole.addEllipse(QRectF(self.hole))
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillPath(darkness.subtracted(hole), QColor(0, 0, 0, DARK))
        painter.end()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the window, and over what is shown later."""
        if event.type() == QEvent.Type.Resize and self.shape_now:
            self.setGeometry(self._window.rect())
        if event.type() == QEvent.Type.ChildPolished and self.shape_now:
            self.raise_()
        return super().eventFilter(watched, event)
