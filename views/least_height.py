"""How low the window may be made: Qt forgets the edges above and below the panels, and would lay one over another.

It owns the window's least height and nothing else.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QMainWindow, QStyle


class LeastHeight(QObject):
    """Keeps the window as high as its rows and the edges between them.

    Parameters
    ----------
    window
        The window.
    """

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow what the panels need."""
        if event.type() == QEvent.Type.LayoutRequest:
            window = self._window
            edge = window.style().pixelMetric(QStyle.PixelMetric.PM_DockWidgetSeparatorExtent, None, window)
            window.setMinimumHeight(window.minimumSizeHint().height() + 2 * edge)
        return super().eventFilter(watched, event)
