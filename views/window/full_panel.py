"""One panel alone on the whole screen, and everything exactly as it was afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QByteArray, QEvent, QObject, QRect, Qt, Signal
from PySide6.QtWidgets import QMainWindow, QWidget

from ropewalk.views.panels.panel_dock import PanelDock
from ropewalk.views.window.layout_memory import VERSION


class FullPanel(QObject):
    """Shows one dock alone.

    Signals
    -------
    changed(name)
        Another panel is alone on the screen; an empty name when none is any more.

    Attributes
    ----------
    name
        The panel that is alone on the screen; empty where none is.
    layout_behind
        The layout that comes back.

    Parameters
    ----------
    window, docks
        The window and its panels by name.
    chrome
        What stands around the docks: the bar on top, the line at the bottom.
    """

    changed = Signal(str)

    def __init__(self, window: QMainWindow, docks: Mapping[str, PanelDock], chrome: tuple[QWidget, ...]) -> None:
        super().__init__(window)
        self.name = ""
        self._window, self._docks, self._chrome = window, docks, chrome
        self.layout_behind = QByteArray()
        self._state = Qt.WindowState.WindowNoState
        self._place = QRect()
        self._shown: tuple[QWidget, ...] = ()
        self._restoring = False
        window.installEventFilter(self)

    def toggle(self, name: str) -> None:
        """Show a panel alone, or everything again."""
        if self.name:
            self.leave()
        else:
            self.enter(name)

    def enter(self, name: str) -> None:
        """Show a panel alone on the whole screen."""
        if self.name or name not in self._docks:
            return
        self._restoring = False
        arranged = self._window.layout()
        if arranged is not None:
            arranged.activate()  # what was just restored has its sizes only then
        self.layout_behind, self._place = self._window.saveState(VERSION), self._window.geometry()
        self._state = self._window.windowState()
        self._shown = tuple(part for part in self._chrome if part.isVisible())
        self.name = name
        for part in self._shown:
            part.hide()
        dock = self._docks[name]
        dock.setFloating(False)
        self._window.removeDockWidget(dock)
        self._window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock)  # there it takes the whole height
        dock.show()
        for other in self._docks.values():
            if other is not dock:
                other.hide()
        self._window.setWindowState(self._state | Qt.WindowState.WindowFullScreen)
        self.changed.emit(name)

    def leave(self) -> bool:
        """Bring everything back as it was; says whether there was anything to bring back."""
        if not self.name:
            return False
        self.name = ""
        for part in self._shown:
            part.show()
        self._window.setWindowState(self._state)
        if self._state == Qt.WindowState.WindowNoState:
            self._window.setGeometry(self._place)
        self._window.restoreState(self.layout_behind, VERSION)
        # a window system may give the old size later, and panels squeezed or stretched meanwhile would keep that
        self._restoring = self._window.size() != self._place.size()
        self.changed.emit("")
        return True

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Put the layout right once the window has its old size again."""
        if self._restoring and event.type() == QEvent.Type.Resize and self._window.size() == self._place.size():
            self._restoring = False
            self._window.restoreState(self.layout_behind, VERSION)
        return super().eventFilter(watched, event)
