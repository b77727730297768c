"""The current step as one large line across the top, in place of the bar, while a projector shows a lesson."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QToolBar, QVBoxLayout, QWidget

from ropewalk.model.lessons.text import Span
from ropewalk.views import keys
from ropewalk.views.lesson.text import LessonText
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme


class StepLine(QToolBar):
    """Where in the lesson we are, and what to look at.

    Signals
    -------
    forward(), back(), leave()
        A button was pressed.
    """

    forward = Signal()
    back = Signal()
    leave = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__("Current step", parent)
        self.setObjectName("step_line")
        self.setMovable(False)
        self.setFloatable(False)
        self.toggleViewAction().setVisible(False)
        self.place = plain_label("", "title")
        self.line = LessonText("The current step: what to look at", "title", strong=True, scale=1.25)
        self.buttons = {name: self._button(text, name) for name, text in (("lesson_back", "◂"), ("lesson_on", "▸"))}
        self.leave_button = self._button("✕", "lesson_leave")
        for button, signal in (
            (self.buttons["lesson_back"], self.back),
            (self.buttons["lesson_on"], self.forward),
            (self.leave_button, self.leave),
        ):
            button.clicked.connect(signal)
        inside = QWidget()
        row = QHBoxLayout(inside)
        row.setContentsMargins(theme.GRID, 0, theme.GRID, 0)
        row.setSpacing(2 * theme.GRID)
        middle = QVBoxLayout()
        middle.addStretch(1)
        middle.addWidget(self.line)
        middle.addStretch(1)
        row.addWidget(self.place)
        row.addLayout(middle, 1)
        for button in (*self.buttons.values(), self.leave_button):
            row.addWidget(button)
        inside.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.addWidget(inside)
        self.hide()

    def _button(self, text: str, action: str) -> QPushButton:
        button = QPushButton(text)
        button.setAccessibleName(keys.action(action).text)
        button.setToolTip(keys.tip(action))
        return button

    def show_step(self, step: int, count: int, line: tuple[Span, ...]) -> None:
        """Show the place of a step (from 0) among ``count``, and its line."""
        self.place.setText(f"{step + 1} / {count}" if count else "")
        self.line.show_text(line)
        self.buttons["lesson_back"].setEnabled(step > 0)
        self.buttons["lesson_on"].setEnabled(step < count - 1)

    def theme_changed(self) -> None:
        """Write anew in the sizes of the theme in use."""
        self.line.theme_changed()
