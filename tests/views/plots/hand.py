"""A hand on a map: clicks, drags, the wheel. Qt's own helpers do not say which button is down while the mouse moves."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from ropewalk.views.plots.plot_view import PlotView


def click(view: PlotView, point: QPointF) -> None:
    """Click with the left button."""
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=point.toPoint())


def point_at(view: PlotView, point: QPointF) -> None:
    """Move the pointer there."""
    _send(view, QEvent.Type.MouseMove, point, Qt.MouseButton.NoButton, Qt.MouseButton.NoButton)


def drag(
    view: PlotView, points: list[QPointF], modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    """Press at the first point, move to the others, and let go at the last."""
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    point_at(view, points[0])
    _send(view, QEvent.Type.MouseButtonPress, points[0], left, left, modifiers)
    scene = view.scene()
    for point in points[1:]:
        scene._lastMoveEventTime = 0  # type: ignore[attr-defined]  # pyqtgraph leaves out moves that come too fast
        _send(view, QEvent.Type.MouseMove, point, none, left, modifiers)
    _send(view, QEvent.Type.MouseButtonRelease, points[-1], left, none, modifiers)


def _send(
    view: PlotView,
    kind: QEvent.Type,
    point: QPointF,
    button: Qt.MouseButton,
    down: Qt.MouseButton,
    modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
) -> None:
    at = QPointF(point.toPoint())
    event = QMouseEvent(kind, at, QPointF(view.viewport().mapToGlobal(at)), button, down, modifiers)
    QApplication.sendEvent(view.viewport(), event)


def wheel(view: PlotView, point: QPointF, notches: int) -> None:
    """Turn the wheel over a point, away from the person to look closer."""
    event = QWheelEvent(
        point,
        QPointF(view.viewport().mapToGlobal(point.toPoint())),
        QPoint(),
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view.viewport(), event)
