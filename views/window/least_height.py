"""How low the window may be made: Qt forgets the edges above and below the panels, and would lay one over another.

Panels that have just come back need more height for a moment than they do once they know how small they can be. The
window grows meanwhile, and gets its own height back afterwards. This file owns the window's least height and nothing
else.
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
        self._own: int | None = None
        """The height the window had before it had to grow to ``_grown``."""
        self._grown = 0
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow what the panels need."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._follow()
        return super().eventFilter(watched, event)

    def _follow(self) -> None:
        window = self._window
        edge = window.style().pixelMetric(QStyle.PixelMetric.PM_DockWidgetSeparatorExtent, None, window)
        least, height = window.minimumSizeHint().height() + 2 * edge, window.height()
        window.setMinimumHeight(least)
        if height != self._grown:  # it never grew, or somebody has chosen a height since
            self._own = None
        if height < least:
            self._own, self._grown = self._own or height, least
        elif self._own is not None and height > max(least, self._own):
            self._grown = max(least, self._own)
            window.resize(window.width(), self._grown)
