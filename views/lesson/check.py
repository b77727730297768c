"""One question of a lesson as a card: what is asked, a way to reply, and at once what came of it and why.

It sends the reply through a function that it is given, and judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QCheckBox, QFrame, QHBoxLayout, QLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from ropewalk.app.lessons.checks import Chosen, Clicked, Entered, Marked, Reply, Verdict
from ropewalk.app.lessons.plan import Asked
from ropewalk.app.lessons.progress import CheckRecord
from ropewalk.app.session.selection import Selection
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.text import FilledText, Paragraph, plain_text
from ropewalk.views.lesson.text import LessonText
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme, wording
from ropewalk.views.style.flow import FlowLayout

Answer = Callable[[Reply], Verdict]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

TRIES = 2
"""Wrong choices after which the right one is shown."""


def button_text(text: str) -> str:
    """Write a text so that a button takes no ampersand for a mnemonic."""
    return text.replace("&", "&&")


def place_text(asked: Asked, now: Selection) -> str:
    """What the selection points at, as far as a question asks for it."""
    return {
        "head": wording.head_name(now.layer, now.head),
        "cell": f"query {now.query}, key {now.key}",
        "query": f"query {now.query}",
        "key": f"key {now.key}",
        "plane": f"plane {now.plane}",
        "layer": f"layer {now.layer}",
    }[asked.target]


class CheckCard(QFrame):
    """A question.

    Parameters
    ----------
    asked
        The question with its numbers.
    number
        What it is called: its place in the step, from 1.
    record
        How it went before.
    answer
        Judges a reply; raises LessonError for one that cannot be read.
    again
        Asks a practice problem once more.

    Signals
    -------
    answered()
        What came of a reply is written.
    """

    answered = Signal()

    def __init__(
        self, asked: Asked, number: int, record: CheckRecord, answer: Answer, again: Callable[[], None]
    ) -> None:
        super().__init__()
        self.asked = asked
        self._answer = answer
        self.replies: list[QPushButton] = []
        self.field: QLineEdit | None = None
        self.points: list[QCheckBox] = []
        self._lines: list[QWidget] = []
        """What each point stands in."""
        self._now = Selection()
        self._misses = 0
        self._seconds = 0
        self._clock = QTimer(self)
        self._clock.setInterval(1000)
        self._clock.timeout.connect(self._tick)
        self.texts: list[LessonText] = []
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, theme.GRID, 0, theme.GRID)
        before = f" · right {record.right} of {record.tries}" if record.tries else ""
        self.title = plain_label(f"Question {number}{before}", "label")
        self._rows.addWidget(self.title)
        self.ask = self._text(f"Question {number}")
        self.ask.show_text(asked.ask)
        if asked.missing:
            self.ask.hide()
            missing = plain_label(asked.missing, "notice")
            missing.setWordWrap(True)
            self._rows.addWidget(missing)
        else:
            self._add_reply()
        self.hint = self._text("Hint")
        self.hint.show_text(asked.hint)
        self.hint.hide()
        self.verdict = plain_label("", "body")
        self.verdict.setWordWrap(True)
        self.verdict.setAccessibleName("What came of it")
        self.verdict.hide()
        self._rows.addWidget(self.verdict)
        self.because = self._text("Why")
        self.because.hide()
        self._add_helps(again)

    def _text(self, name: str) -> LessonText:
        text = LessonText(name)
        self.texts.append(text)
        self._rows.addWidget(text)
        return text

    def _button(self, text: str, name: str, act: Callable[[], None], row: QLayout) -> QPushButton:
        button = QPushButton(button_text(text))
        button.setAccessibleName(name)
        button.clicked.connect(act)
        row.addWidget(button)
        return button

    def _flow(self) -> FlowLayout:
        """A line of buttons, or more of them where it is narrow."""
        row = FlowLayout(spacing=theme.GRID)
        self._rows.addLayout(row)
        return row

    # Ways to reply ------------------------------------------------------------------------------------------------

    def _add_reply(self) -> None:
        {
            "choose": self._add_options,
            "number": self._add_field,
            "shape": self._add_field,
            "click": self._add_click,
            "say": self._add_clock,
        }[self.asked.kind]()

    def _add_options(self) -> None:
        for place, option in enumerate(self.asked.options):
            row = QHBoxLayout()
            letter = LETTERS[place % len(LETTERS)]
            self.replies.append(
                self._button(letter, f"{letter}: {plain_text(option.text)}", self._choosing(place), row)
            )
            text = LessonText(f"Answer {letter}")
            text.show_text(option.text)
            self.texts.append(text)
            row.addWidget(text, 1)
            self._rows.addLayout(row)

    def _choosing(self, place: int) -> Callable[[], None]:
        return lambda: self._reply(Chosen(place))

    def _add_field(self) -> None:
        row = QHBoxLayout()
        shape = self.asked.kind == "shape"
        self.field = QLineEdit()
        unit = f" in {self.asked.unit}" if self.asked.unit else ""
        self.field.setAccessibleName("Your shape" if shape else f"Your number{unit}")
        self.field.setPlaceholderText("a shape, such as 2×5×12" if shape else f"a number{unit}")
        self.field.returnPressed.connect(self._enter)
        row.addWidget(self.field, 1)
        self.replies.append(self._button("Check", "Check your answer", self._enter, row))
        self._rows.addLayout(row)

    def _enter(self) -> None:
        if self.field is not None:
            self._reply(Entered(self.field.text()))

    def _add_click(self) -> None:
        self.replies.append(self._button("", "Answer with the selection", self._click, self._flow()))
        self.show_selection(self._now)

    def show_selection(self, now: Selection) -> None:
        """Say what is selected, where that is how one replies."""
        self._now = now
        if self.asked.kind == "click" and self.replies:
            name = f"Answer: {place_text(self.asked, now)}"
            self.replies[0].setText(name)
            self.replies[0].setAccessibleName(f"{name}. Select another one in its panel, then press this.")
            self.replies[0].setToolTip("Select it in its panel, then press this.")

    def _click(self) -> None:
        now = self._now
        self._reply(Clicked(now.layer, now.head, now.query, now.key, now.plane))

    # Say aloud ----------------------------------------------------------------------------------------------------

    def _add_clock(self) -> None:
        row = self._flow()
        start = self._button("", "Start the clock and say it aloud", self._start, row)
        self.replies = [start, self._button("Reveal", "Stop the clock and reveal a model answer", self._reveal, row)]
        self.model_answer = self._text("A model answer")
        self.model_answer.show_text(self.asked.reveal)
        self.model_answer.hide()
        for point in self.asked.points:
            line = QWidget()
            line.hide()
            row_of_point = QHBoxLayout(line)
            row_of_point.setContentsMargins(0, 0, 0, 0)
            box, said = QCheckBox(), LessonText(plain_text(point))
            box.setAccessibleName(plain_text(point))
            said.show_text(point)
            said.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the box says it too
            self.points.append(box)
            self._lines.append(line)
            self.texts.append(said)
            row_of_point.addWidget(box, 0, Qt.AlignmentFlag.AlignTop)
            row_of_point.addWidget(said, 1)
            self._rows.addWidget(line)
        self.mark = self._button("Mark", "Mark what you said", self._mark, self._flow())
        self.mark.hide()
        self._show_clock()

    def _show_clock(self) -> None:
        limit = f" of {self.asked.seconds} s" if self.asked.seconds else " s"
        running = f"{self._seconds}{limit}"
        self.replies[0].setText(running if self._clock.isActive() else f"Say it aloud ({running})")

    def _start(self) -> None:
        self._seconds = 0
        self._clock.start()
        self._show_clock()

    def _tick(self) -> None:
        self._seconds += 1
        self._show_clock()

    def _reveal(self) -> None:
        self._clock.stop()
        self._show_clock()
        for part in (self.model_answer, self.mark, *self._lines):
            part.show()

    def _mark(self) -> None:
        self._reply(Marked(tuple(box.isChecked() for box in self.points), float(self._seconds)))

    # What came of it ----------------------------------------------------------------------------------------------

    def _add_helps(self, again: Callable[[], None]) -> None:
        row = self._flow()
        if self.asked.hint:
            self._button("Hint", "Show a hint", self.hint.show, row)
        if self.asked.is_practice:
            self._button("Fresh numbers", "Ask again with fresh numbers", again, row)

    def _reply(self, reply: Reply) -> None:
        try:
            verdict = self._answer(reply)
        except LessonError as error:
            self._say(error.sentence, "")
            self.because.hide()
            self.answered.emit()
            return
        self._misses += not verdict.right
        self._say(f"{verdict.sentence}{self._way_out(verdict)}", "good" if verdict.right else "bad")
        if verdict.hint and not verdict.told:
            self.hint.show_text(verdict.hint)
            self.hint.show()
        self.because.show_text(_reasons(verdict))
        self.because.setVisible(bool(verdict.because or verdict.why))
        self.answered.emit()

    def _way_out(self, verdict: Verdict) -> str:
        """After a second wrong choice, which one is right: whoever guesses on learns nothing by it."""
        if verdict.right or self.asked.kind != "choose" or self._misses < TRIES:
            return ""
        right = next(place for place, option in enumerate(self.asked.options) if option.right)
        return f" {LETTERS[right % len(LETTERS)]} is right."

    def _say(self, sentence: str, tone: str) -> None:
        self.verdict.setText(sentence)
        self.verdict.setProperty("tone", tone)
        self.verdict.style().unpolish(self.verdict)
        self.verdict.style().polish(self.verdict)
        self.verdict.show()

    def theme_changed(self) -> None:
        """Write all texts anew."""
        for text in self.texts:
            text.theme_changed()

    def close_down(self) -> None:
        """Stop the clock."""
        self._clock.stop()

    def focus(self) -> QWidget:
        """Where a reply begins."""
        return self.field or (self.replies[0] if self.replies else self.ask)


def _reasons(verdict: Verdict) -> FilledText:
    """What is said to just this reply, then the reason for anyone."""
    own = (Paragraph("paragraph", (verdict.because,)),) if verdict.because else ()
    return (*own, *verdict.why)
