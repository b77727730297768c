"""The icons of the bar, drawn as strokes in the theme's text colour, so that they are one set in every theme."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap

from ropewalk.views.style import theme

_POLYGONS: Final[dict[str, tuple[tuple[tuple[float, float], ...], ...]]] = {
    "to_start": (((18, 5), (18, 19), (8, 12)), ((5, 5), (7, 5), (7, 19), (5, 19))),
    "step_back": (((17, 5), (17, 19), (7, 12)),),
    "step": (((7, 5), (7, 19), (17, 12)),),
    "to_end": (((6, 5), (6, 19), (16, 12)), ((17, 5), (19, 5), (19, 19), (17, 19))),
}


def icon(name: str) -> QIcon:
    """Return an icon in the colours of the theme in use; a disabled button gets it faint."""
    now = theme.current()
    result = QIcon()
    result.addPixmap(_pixmap(name, now.text), QIcon.Mode.Normal)
    result.addPixmap(_pixmap(name, now.line), QIcon.Mode.Disabled)
    return result


def side() -> int:
    """Width and height of an icon, in pixels."""
    return theme.current().size("body") + 5


def _pixmap(name: str, colour: QColor) -> QPixmap:
    ratio = 2
    pixmap = QPixmap(side() * ratio, side() * ratio)
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(side() / 24, side() / 24)
    painter.setPen(QPen(colour, 1.8, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin))
    if name in _POLYGONS:
        painter.setBrush(colour)
        for corners in _POLYGONS[name]:
            painter.drawPolygon([QPointF(x, y) for x, y in corners])
    else:
        _strokes(painter, name, colour)
    painter.end()
    return pixmap


def _strokes(painter: QPainter, name: str, colour: QColor) -> None:
    if name == "theme":
        painter.drawEllipse(QRectF(4, 4, 16, 16))
        half = QPainterPath(QPointF(12, 4))
        half.arcTo(QRectF(4, 4, 16, 16), 90, 180)
        painter.fillPath(half, colour)
    elif name == "projector":
        painter.drawRoundedRect(QRectF(3, 4, 18, 12), 1.5, 1.5)
        painter.drawLine(QPointF(12, 16), QPointF(12, 20))
        painter.drawLine(QPointF(8, 20), QPointF(16, 20))
    elif name == "panels":
        painter.drawRoundedRect(QRectF(3, 4, 18, 16), 1.5, 1.5)
        painter.drawLine(QPointF(9, 4), QPointF(9, 20))
        painter.drawLine(QPointF(9, 12), QPointF(21, 12))
    elif name == "close":
        painter.drawLine(QPointF(6, 6), QPointF(18, 18))
        painter.drawLine(QPointF(18, 6), QPointF(6, 18))
    elif name == "note":
        painter.drawLine(QPointF(5, 19), QPointF(7, 14))
        painter.drawLine(QPointF(7, 14), QPointF(16, 5))
        painter.drawLine(QPointF(16, 5), QPointF(19, 8))
        painter.drawLine(QPointF(19, 8), QPointF(10, 17))
        painter.drawLine(QPointF(10, 17), QPointF(5, 19))
    elif name == "keys":
        painter.drawRoundedRect(QRectF(2, 6, 20, 13), 2, 2)
        for x, y in ((6, 10), (10, 10), (14, 10), (18, 10)):
            painter.drawPoint(QPointF(x, y))
        painter.drawLine(QPointF(8, 15), QPointF(16, 15))
    elif name == "down":
        painter.drawLine(QPointF(7, 10), QPointF(12, 15))
        painter.drawLine(QPointF(12, 15), QPointF(17, 10))
    else:
        raise KeyError(name)
