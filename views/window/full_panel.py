"""One panel alone on the whole screen, and everything as it was afterwards."""

from __future__ import annotations

from PySide6.QtCore import QObject, QRect, Qt, Signal
from PySide6.QtWidgets import QMainWindow, QWidget

from ropewalk.views.stage.stage import Stage


class FullPanel(QObject):
    """Gives the whole screen to one panel.

    Signals
    -------
    changed(name, alone)
        A panel is alone, or no longer.

    Parameters
    ----------
    window, stage
        The window and its stage.
    chrome
        What stands around the stage: the bar on top, the line at the bottom.
    """

    changed = Signal(str, bool)

    def __init__(self, window: QMainWindow, stage: Stage, chrome: tuple[QWidget, ...]) -> None:
        super().__init__(window)
        self._window, self._stage, self._chrome = window, stage, chrome
        self._state = Qt.WindowState.WindowNoState
        self._place = QRect()
        self._shown: tuple[QWidget, ...] = ()

    @property
    def name(self) -> str:
        """The panel that is alone on the screen; empty where none is."""
        return self._stage.alone

    def toggle(self, name: str) -> None:
        """Show a panel alone, or everything again."""
        if self.name:
            self.leave()
        else:
            self.enter(name)

    def enter(self, name: str) -> None:
        """Show a panel alone on the whole screen."""
        if self.name:
            return
        self._place, self._state = self._window.geometry(), self._window.windowState()
        self._shown = tuple(part for part in self._chrome if not part.isHidden())
        for part in self._shown:
            part.hide()
        self._stage.show_alone(name)
        self._window.setWindowState(self._state | Qt.WindowState.WindowFullScreen)
        self.changed.emit(name, True)

    def leave(self) -> bool:
        """Bring everything back as it was; says whether there was anything to bring back."""
        if not self.name:
            return False
        for part in self._shown:
            part.show()
        self._window.setWindowState(self._state)
        if self._state == Qt.WindowState.WindowNoState:
            self._window.setGeometry(self._place)
        name = self.name
        self._stage.show_alone("")
        self.changed.emit(name, False)
        return True
