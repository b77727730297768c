"""The teacher's own window: what this step is for, what comes next, where in the lesson we are, and the time.

It stands on the second screen where there is one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QScreen
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from ropewalk.model.lessons.text import FilledText, Span
from ropewalk.views.lesson.text import LessonText, words
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme

FORWARD: Final = frozenset({Qt.Key.Key_PageDown, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Space})
BACK: Final = frozenset({Qt.Key.Key_PageUp, Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Backspace})
BLANK: Final = frozenset({Qt.Key.Key_B, Qt.Key.Key_Period})
"""What clickers send; here nothing else wants these keys."""

NO_NOTES = "This step has no notes."
NO_LESSON = "No lesson is open. Choose one in the workspace of lessons; its notes appear here."


@dataclass(frozen=True)
class Cue:
    """What the teacher is told about a step; ``after`` is the title of the next one, empty at the end."""

    lesson: str = ""
    step: int = 0
    count: int = 0
    title: tuple[Span, ...] = ()
    look_at: tuple[Span, ...] = ()
    notes: FilledText = ()
    text: FilledText = ()
    after: tuple[Span, ...] = ()


class Presenter(QWidget):
    """Notes for the teacher.

    Signals
    -------
    forward(), back(), blank()
        The teacher wants the next step, the one before, or a blank screen.
    closed()
        The window was closed.
    """

    forward = Signal()
    back = Signal()
    blank = Signal()
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("Ropewalk: notes for the teacher")
        self.setObjectName("presenter")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.cue = Cue()
        self._began = time.monotonic()
        self.place = plain_label("", "title")
        self.clock = plain_label("", "title")
        self.clock.setAccessibleName("The time, and how long this has taken")
        self.step_title = LessonText("Title of the step", "title", strong=True)
        self.look_at = LessonText("What the class looks at", "heading")
        self.notes = LessonText("Notes for the teacher", "title")
        self.text = LessonText("What the class reads", "body")
        self.after = LessonText("The next step", "heading")
        self.texts = (self.step_title, self.look_at, self.notes, self.text, self.after)
        for text in self.texts:
            text.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # else it would take the keys of a clicker for its cursor
        self.buttons = {
            name: self._button(text, says)
            for name, text, says in (
                ("back", "◂ Back", "Step before (←, PageUp)"),
                ("forward", "Next ▸", "Next step (→, PageDown, Space)"),
                ("blank", "Blank", "Blank the screen of the class, or show it again (B)"),
            )
        }
        self.buttons["forward"].setProperty("kind", "main")
        for name, signal in (("back", self.back), ("forward", self.forward), ("blank", self.blank)):
            self.buttons[name].clicked.connect(signal)
        self._arrange()
        self._timer = QTimer(self)
        self._timer.setInterval(1000)
        self._timer.timeout.connect(self._tick)
        self.resize(900, 640)
        self.show_cue(self.cue)

    def _arrange(self) -> None:
        top = QHBoxLayout()
        top.addWidget(self.place)
        top.addStretch(1)
        top.addWidget(self.clock)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setSpacing(2 * theme.GRID)
        column.addWidget(self.step_title)
        for caption, part in (
            ("The class looks at", self.look_at),
            ("Notes", self.notes),
            ("The class reads", self.text),
            ("Next", self.after),
        ):
            column.addWidget(plain_label(caption, "label"))
            column.addWidget(part)
        column.addStretch(1)
        self.area = QScrollArea()
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setWidgetResizable(True)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setAccessibleName("The notes of this step")
        self.area.setWidget(page)
        bottom = QHBoxLayout()
        for button in self.buttons.values():
            bottom.addWidget(button)
        bottom.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(2 * theme.GRID,) * 4)
        layout.addLayout(top)
        layout.addWidget(self.area, 1)
        layout.addLayout(bottom)

    def _button(self, text: str, says: str) -> QPushButton:
        button = QPushButton(text)
        button.setAccessibleName(says)
        button.setToolTip(says)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    # What is shown ------------------------------------------------------------------------------------------------

    def show_cue(self, cue: Cue) -> None:
        """Show the notes of a step."""
        self.cue = cue
        self.place.setText(f"{cue.lesson} · step {cue.step + 1} of {cue.count}" if cue.count else "")
        self.step_title.show_text(cue.title)
        self.look_at.show_text(cue.look_at)
        self.text.show_text(cue.text)
        self.notes.show_text(cue.notes or words(NO_NOTES if cue.count else NO_LESSON))
        self.after.show_text(cue.after or words("This is the last step." if cue.count else ""))
        self.buttons["back"].setEnabled(cue.step > 0)
        self.buttons["forward"].setEnabled(cue.step < cue.count - 1)
        self.setAccessibleDescription(self.notes.toPlainText())
        self.area.verticalScrollBar().setValue(0)

    def show_blank(self, is_blank: bool) -> None:
        """Say that the class sees nothing now."""
        self.buttons["blank"].setText("Show" if is_blank else "Blank")

    def open_on(self, screen: QScreen | None) -> None:
        """Show the window, over the whole of a screen where there is one to spare; the clock begins."""
        if screen is not None:
            self.setScreen(screen)
            self.setGeometry(screen.availableGeometry())
        self._began = time.monotonic()
        self._tick()
        self._timer.start()
        self.show()
        self.raise_()
        self.activateWindow()
        self.setFocus(Qt.FocusReason.OtherFocusReason)

    def theme_changed(self) -> None:
        """Write anew."""
        for text in self.texts:
            text.theme_changed()

    def _tick(self) -> None:
        taken = int(time.monotonic() - self._began)
        self.clock.setText(f"{time.strftime('%H:%M')}  ·  {taken // 60}:{taken % 60:02d}")

    # Hands --------------------------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Take what a clicker sends."""
        key = Qt.Key(event.key())
        for wanted, signal in ((FORWARD, self.forward), (BACK, self.back), (BLANK, self.blank)):
            if key in wanted:
                signal.emit()
                return
        if key == Qt.Key.Key_Escape:
            self.close()
            return
        super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Stop the clock."""
        self._timer.stop()
        self.closed.emit()
        super().closeEvent(event)


def spare_screen(screens: Sequence[QScreen], used: QScreen | None) -> QScreen | None:
    """A screen that the window does not use; None where there is no second one."""
    return next((screen for screen in screens if screen is not used), None)
