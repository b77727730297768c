"""Where the engine runs: on this machine, or on another one by a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QProgressBar, QPushButton, QVBoxLayout, QWidget

from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.model.readings.records import ModelCard

WHAT = (
    "The engine opens models and runs them. A command starts it on another machine, such as: ssh gpu1 ropewalk engine. "
    "Lessons, sessions and exported files stay on this one."
)


class EngineDialog(QDialog):
    """Type a command, and move to the engine that it starts; until it has opened the bundled model, nothing changes."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.moving = False
        self.setWindowTitle("Engine")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.command = QLineEdit(session.engines.command)
        self.command.setPlaceholderText("On this machine")
        self.command.setAccessibleName("command that starts the engine, empty for this machine")
        self.notice = plain_label("", "notice")
        self.notice.setWordWrap(True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("progress")
        self.bar.setFixedHeight(theme.current().grid(1))
        self.use = QPushButton("Use it")
        self.use.setProperty("kind", "main")
        self.cancel = QPushButton("Cancel")
        self._arrange()
        self.command.returnPressed.connect(self.start)
        self.use.clicked.connect(self.start)
        self.cancel.clicked.connect(self.reject)
        for button in (self.use, self.cancel):
            button.setAutoDefault(False)
        session.model_changed.connect(self._on_model)
        self._set_moving(False)
        self.command.setFocus(Qt.FocusReason.OtherFocusReason)

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(2 * theme.GRID,) * 4)
        layout.setSpacing(theme.GRID)
        what = plain_label(WHAT, "body")
        what.setWordWrap(True)
        last = QHBoxLayout()
        last.addWidget(self.bar, 1)
        last.addWidget(self.cancel)
        last.addWidget(self.use)
        layout.addWidget(what)
        layout.addWidget(self.command)
        layout.addWidget(self.notice)
        layout.addStretch(1)
        layout.addLayout(last)
        self.resize(theme.current().grid(72), theme.current().grid(24))

    def start(self) -> None:
        """Start the engine, unless it is the one in use."""
        if self.moving:
            return
        command = self.command.text().strip()
        if command == self.session.engines.command and self.session.engines.gone is None:
            self.accept()
            return
        self._set_moving(True)
        self.notice.setText("Starting the engine …")
        self.session.opening.move(command, self._on_failed)

    def _set_moving(self, moving: bool) -> None:
        self.moving = moving
        self.bar.setRange(0, 0 if moving else 1)
        self.command.setEnabled(not moving)
        self.use.setEnabled(not moving)

    def _on_model(self, card: ModelCard) -> None:
        if self.moving:
            self.moving = False
            self.accept()

    def _on_failed(self, sentence: str, details: str) -> None:
        """Say why there is no such engine; the one in use stays."""
        if self.moving:
            self._set_moving(False)
            self.notice.setText(sentence)
            self.notice.setToolTip(wording.tooltip(details))

    def done(self, result: int) -> None:
        """Close, and stay with the engine in use where the other is not there yet."""
        if self.moving:
            self.moving = False
            self.session.cancel()
            self.session.engines.dismiss()
        super().done(result)
