"""What to click first, over the stage of a first start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLayout, QVBoxLayout, QWidget

from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme
from ropewalk.views.window.engine_strip import StripButton

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.model.readings.records import Run

LINES: Final = (
    "Click a token: every panel shows where its heads look.",
    "Click a cell of the scores: Why this number writes it out.",
    "Press → for the next token, or type a prompt and press Run.",
)
WIDEST: Final = 58
"""Grid units that it is wide at most."""


class WelcomeCard(QFrame):
    """Three lines and a way into the first lesson; closed for good by Esc, by a click on it and by any run.

    Signals
    -------
    lesson_wanted()
        The first lesson is to be opened.
    closed()
        It is gone.
    """

    lesson_wanted = Signal()
    closed = Signal()

    def __init__(self, session: Session, parent: QWidget) -> None:
        super().__init__(parent)
        self._session = session
        self.setProperty("card", "whole")
        self.setProperty("welcome", "yes")
        self.setAccessibleName("What to click first")
        self.setToolTip("Click here or press Esc to close this; it does not come back.")
        self.title = plain_label("Three things to click", "heading")
        self.lines = tuple(plain_label(line) for line in LINES)
        self.start_button = StripButton("Start lesson 0")
        self.start_button.setProperty("kind", "main")
        self.start_button.setToolTip("What a model is, from ids to logits, beside the panels that it speaks of.")
        self.close_button = StripButton("Close")
        self.close_button.setToolTip("Close this for good (Esc).")
        self.start_button.clicked.connect(self._start)
        self.close_button.clicked.connect(self.dismiss)
        rows = QVBoxLayout(self)
        pad = 2 * theme.GRID
        rows.setContentsMargins(pad, pad, pad, pad)
        rows.setSpacing(theme.GRID)
        rows.addWidget(self.title)
        for number, label in enumerate(self.lines, 1):
            label.setWordWrap(True)
            row = QHBoxLayout()
            row.addWidget(plain_label(str(number), "heading"), 0, Qt.AlignmentFlag.AlignTop)
            row.addWidget(label, 1)
            rows.addLayout(row)
        buttons = QHBoxLayout()
        buttons.addWidget(self.start_button)
        buttons.addStretch(1)
        buttons.addWidget(self.close_button)
        rows.addLayout(buttons)
        session.run_changed.connect(self._on_run)

    def place(self, stage: QRect) -> None:
        """Stand in the lower right of the stage, where nothing begins."""
        look, layout = theme.current(), self.layout()
        assert layout is not None
        for part in self.findChildren(QWidget):
            part.ensurePolished()  # another theme has another type
        for row in (*layout.findChildren(QLayout), layout):
            row.invalidate()
        room = 2 * look.grid(1.5)
        width = min(look.grid(WIDEST), stage.width() - room)
        height = layout.heightForWidth(width) + look.grid(1)  # a nested row asks for a pixel or two less than it takes
        self.setGeometry(stage.right() - width - room // 2, stage.bottom() - height - room // 2, width, height)
        self.raise_()

    def dismiss(self) -> None:
        """Close for good."""
        self._session.settings.update(welcomed=True)
        self._session.run_changed.disconnect(self._on_run)
        self.hide()
        self.closed.emit()
        self.deleteLater()

    def _start(self) -> None:
        self.dismiss()
        self.lesson_wanted.emit()

    def _on_run(self, before: Run | None, after: Run | None) -> None:
        """Somebody who runs or steps has found the way; the first run of all comes by itself."""
        if before is not None:
            self.dismiss()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click closes it."""
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.dismiss()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take the press, so that what is under the card does not."""
        event.accept()
