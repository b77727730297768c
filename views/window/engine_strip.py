"""What is said while there is no engine, or while it does not hear, with the one thing that can be done about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QPushButton, QWidget

from ropewalk.views.window.status import Strip

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

UNHEARD = "The engine goes on with what was cancelled two seconds ago; wait for it, or end it and start another."
LINES = 12
"""Lines of what an engine wrote last that are shown."""
PRESSING = (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)
AGAIN = "Start the engine again"
STARTING = "Another engine is being started; what is on screen stays until it is there."


class StripButton(QPushButton):
    """Takes Space and Return, which are the window's elsewhere, while it has the focus."""

    def event(self, event: QEvent) -> bool:
        """Keep these keys from the window."""
        if isinstance(event, QKeyEvent) and event.key() in PRESSING:
            if event.type() == QEvent.Type.ShortcutOverride:
                event.accept()
                return True
            if event.type() == QEvent.Type.KeyPress:
                self.click()
                return True
        return super().event(event)


class EngineStrip(Strip):
    """Stays for as long as what it says is so: other messages are shown above it."""

    def __init__(self, session: Session, parent: QWidget) -> None:
        super().__init__(parent)
        self._session = session
        self._ended = ("", "")
        self._recovery = session.recovery
        self._act: Callable[[], None] = self._recovery.restart
        self.button = StripButton(AGAIN)
        self.button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.button.clicked.connect(self._on_button)
        self.row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignTop)
        self._recovery.engine_ended.connect(self._on_ended)
        self._recovery.engine_starting.connect(self._on_starting)
        self._recovery.engine_back.connect(self.hide)
        self._recovery.engine_unheard.connect(self._on_unheard)
        self._recovery.engine_heard.connect(self.hide)
        session.settled.connect(self._on_settled)

    def _on_ended(self, sentence: str, details: str) -> None:
        self._ended = (sentence, details)
        self._offer("Open the bundled model" if self._recovery.is_lost else AGAIN, self._recovery.restart)
        self.say(sentence, "\n".join(details.splitlines()[-LINES:]))

    def _on_unheard(self) -> None:
        self._offer("End the engine", self._recovery.end_engine)
        self.say(UNHEARD, "")

    def _on_starting(self) -> None:
        self._offer("Cancel", self._session.cancel)
        self.say(STARTING, "", is_failure=False)

    def _on_settled(self) -> None:
        """Offer it again where another engine was being started and that was cancelled."""
        if self._session.engines.gone is not None and not self._session.busy:
            self._on_ended(*self._ended)

    def _on_button(self) -> None:
        self._act()

    def _offer(self, what: str, act: Callable[[], None]) -> None:
        self._act = act
        self.button.setText(what)
        self.button.setProperty("kind", "" if act == self._session.cancel else "main")
        self.button.style().unpolish(self.button)
        self.button.style().polish(self.button)
