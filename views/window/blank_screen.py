"""A pause: the whole window black, so that a class looks at the teacher."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget


class BlankScreen(QWidget):
    """Black over everything in a window.

    Signals
    -------
    drawn(is_down)
        It came down, or went up.
    """

    drawn = Signal(bool)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.setAccessibleName("The screen is blank: a pause")
        self.setCursor(Qt.CursorShape.BlankCursor)
        self.hide()
        window.installEventFilter(self)

    @property
    def is_down(self) -> bool:
        """Whether the screen is blank."""
        return not self.isHidden()

    def toggle(self) -> None:
        """Blank the screen, or show it again."""
        self.lift() if self.is_down else self.drop()

    def drop(self) -> None:
        """Blank the screen."""
        self.setGeometry(self._window.rect())
        self.show()
        self.raise_()
        self.drawn.emit(True)

    def lift(self) -> bool:
        """Show the screen again; says whether it was blank."""
        if not self.is_down:
            return False
        self.hide()
        self.drawn.emit(False)
        return True

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it black."""
        painter = QPainter(self)
        painter.fillRect(event.rect(), Qt.GlobalColor.black)
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Show the screen again."""
        self.lift()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the window."""
        if event.type() == QEvent.Type.Resize and self.is_down:
            self.setGeometry(self._window.rect())
        return super().eventFilter(watched, event)
