"""The lesson: chosen here, walked step by step beside the panels that it speaks of, with its questions.

What is on screen for a step it asks of the player and, by a signal, of the window; it touches no other panel.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.files.requests import ReadLesson, ReadShelf
from ropewalk.app.session.selection import Selection
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.lessons.text import FilledText, Paragraph, Span, plain_text
from ropewalk.views import keys
from ropewalk.views.lesson.cards import LessonCards
from ropewalk.views.lesson.text import LessonText, ReadingArea
from ropewalk.views.panels.panel import ENDED, Panel, plain_label
from ropewalk.views.style import theme

if TYPE_CHECKING:
    # reading, playing and judging lessons is loaded when a lesson is first looked at: no start needs it
    from ropewalk.app.lessons.checks import Reply, Verdict
    from ropewalk.app.lessons.plan import Asked, FilledStep, Lesson, Problem, Scene
    from ropewalk.app.lessons.player import LessonPlayer
    from ropewalk.app.lessons.progress import ProgressStore
    from ropewalk.app.lessons.shelf import Shelf
    from ropewalk.app.session.session import Session
    from ropewalk.views.lesson.check import CheckCard


class LessonPanel(Panel):
    """A lesson, or the choice of one.

    Signals
    -------
    scene_wanted(scene, ledger)
        What the window has to bring on screen for the step; a ledger where the scene's model is a config alone.
    lesson_opened(is_open)
        A lesson was opened or closed.
    step_shown()
        Another step is on, or its numbers are there.
    shelf_read()
        The lessons to choose from are there.
    """

    name: ClassVar[str] = "lesson"
    is_figure: ClassVar[bool] = False
    title: ClassVar[str] = "Lesson"
    marks: ClassVar[frozenset[str]] = frozenset({"layer", "head", "query", "key", "plane"})

    scene_wanted = Signal(object, object)
    lesson_opened = Signal(bool)
    step_shown = Signal()
    shelf_read = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.shelf: Shelf | None = None
        self.cards: list[CheckCard] = []
        self._player: LessonPlayer | None = None
        self._records: ProgressStore | None = None
        self._own: list[Lesson] = []
        self.explain("")
        rows = QVBoxLayout(self.body)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.addLayout(self._choice())
        rows.addLayout(self._walk())
        self.look_at = LessonText("What to look at now", "title", strong=True, scale=1.35)
        self.trouble = plain_label("", "body")
        self.trouble.setProperty("tone", "bad")
        self.trouble.setWordWrap(True)
        self.trouble.setAccessibleName("What went wrong")
        rows.addWidget(self.trouble)
        rows.addWidget(self._waiting())
        rows.addWidget(self.look_at)
        rows.addWidget(self._pages(), 1)
        self._show_choice()
        session.recovery.engine_back.connect(self._say_why_empty)

    def _choice(self) -> QHBoxLayout:
        row = QHBoxLayout()
        self.chooser = QComboBox()
        self.chooser.setAccessibleName("Lesson")
        self.chooser.setToolTip("Open another lesson.")
        self.chooser.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.chooser.setMinimumContentsLength(8)
        self.chooser.activated.connect(self._choose)
        self.file_button = self._button("Open…", "Open a lesson file of your own")
        self.file_button.clicked.connect(self._ask_for_file)
        self.leave_button = self._button("Leave", "Leave the lesson and bring back what was open before")
        self.leave_button.clicked.connect(self.leave)
        row.addWidget(self.chooser, 1)
        row.addWidget(self.file_button)
        row.addWidget(self.leave_button)
        return row

    def _walk(self) -> QHBoxLayout:
        row = QHBoxLayout()
        self.back_button = self._button("◂ Back", keys.tip("lesson_back"))
        self.back_button.clicked.connect(self.back)
        self.next_button = self._button("Next ▸", keys.tip("lesson_on"))
        self.next_button.setProperty("kind", "main")
        self.next_button.clicked.connect(self.forward)
        self.notes_button = self._button("Notes", "Show the notes for the teacher")
        self.notes_button.setCheckable(True)
        self.notes_button.toggled.connect(lambda: self.notes.setVisible(self.notes_button.isChecked()))
        self.place = plain_label("", "label")
        row.addWidget(self.back_button)
        row.addWidget(self.next_button)
        row.addWidget(self.place, 1)
        row.addWidget(self.notes_button)
        return row

    def _waiting(self) -> QWidget:
        """What is said while the person looks at a model of their own, with the way back."""
        self.waiting = QWidget()
        self.waiting.hide()
        self.waits = plain_label("", "body")
        self.waits.setWordWrap(True)
        self.resume_button = self._button("Back to the step", "Bring the model and the run of this step back")
        self.resume_button.clicked.connect(self._resume)
        rows = QVBoxLayout(self.waiting)
        rows.setContentsMargins(0, 0, 0, theme.GRID)
        rows.addWidget(self.waits)
        rows.addWidget(self.resume_button)
        return self.waiting

    def _resume(self) -> None:
        self.player.resume()

    def _on_away(self, name: str) -> None:
        self.waits.setText(f"{name} is open now, but this step is about another model; the lesson waits.")
        self.waiting.setVisible(bool(name))

    def _pages(self) -> QScrollArea:
        self.page = QWidget()
        self.step_title = LessonText("Title of the step", "title", strong=True)
        self.text = LessonText("Text of the step")
        self.notes = LessonText("Notes for the teacher", "label")
        self.notes.hide()
        self.reset_button = self._button("Forget progress", "Forget how all lessons and questions went")
        self.reset_button.clicked.connect(self._forget_progress)
        inside = QVBoxLayout(self.page)
        inside.setContentsMargins(0, 0, theme.GRID, 0)
        inside.setSpacing(theme.GRID)
        self.choices = LessonCards()
        self.choices.chosen.connect(self.open)
        for part in (self.step_title, self.choices, self.text, self.notes):
            inside.addWidget(part)
        self._questions = QVBoxLayout()
        inside.addLayout(self._questions)
        inside.addWidget(self.reset_button, 0, Qt.AlignmentFlag.AlignLeft)
        inside.addStretch(1)
        reading = self.reading = ReadingArea("The step; arrows up and down scroll it", self.page)
        self.choices.reached.connect(lambda card: reading.ensureWidgetVisible(card, 0, theme.GRID))
        return reading

    def _button(self, text: str, says: str) -> QPushButton:
        button = QPushButton(text)
        button.setAccessibleName(says)
        button.setToolTip(says)
        button.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        return button

    # Panel --------------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Read the shelf when this panel is first seen, which the start need not wait for."""
        super().showEvent(event)
        QTimer.singleShot(0, self, self._read_shelf_when_seen)

    def _read_shelf_when_seen(self) -> None:
        if self.on_screen:
            self.read_shelf()

    def read_shelf(self) -> None:
        """Have the lessons read, in a process of its own, unless they have been."""
        if self.shelf is None and not self.session.jobs.has("shelf"):
            lessons: list[Lesson] = []
            self.session.jobs.submit(
                "shelf",
                Urgency.COARSE,
                self.session.local.ask(ReadShelf()),
                lambda problems: self._take_lessons(lessons, problems),
                self.session.fail,
                on_part=lessons.append,
            )

    def show_selection(self, selection: Selection) -> None:
        """Tell the questions that are answered by a selection."""
        for card in self.cards:
            card.show_selection(selection)

    def theme_changed(self) -> None:
        """Write everything anew."""
        for text in (self.look_at, self.step_title, self.text, self.notes):
            text.theme_changed()
        for card in self.cards:
            card.theme_changed()
        self.choices.arrange()
        self._make_room(self.lesson is not None)

    def close_down(self) -> None:
        """Stop the clocks."""
        super().close_down()
        for card in self.cards:
            card.close_down()

    # Choosing -----------------------------------------------------------------------------------------------------

    @property
    def player(self) -> LessonPlayer:
        """Who plays the lesson; made when it is first needed."""
        if self._player is None:
            from ropewalk.app.lessons.player import LessonPlayer

            player = LessonPlayer(self.session, self.records(), parent=self)
            player.lesson_changed.connect(self._on_lesson)
            player.step_changed.connect(self._on_step)
            player.step_filled.connect(self._on_filled)
            player.scene_changed.connect(self._on_scene)
            player.check_changed.connect(self._on_check)
            player.away_changed.connect(self._on_away)
            player.failed.connect(self._show_failure)
            self._player = player
        return self._player

    def records(self) -> ProgressStore:
        """What the learner has done; read when it is first needed."""
        if self._records is None:
            from ropewalk.app.lessons.progress import ProgressStore

            self._records = ProgressStore(self.session.settings.path.with_name("progress.json"))
        return self._records

    @property
    def lesson(self) -> Lesson | None:
        """The lesson that is open."""
        return None if self._player is None else self._player.lesson

    @property
    def filled(self) -> FilledStep | None:
        """The step that is on with its numbers; None while no lesson is open or they are on their way."""
        return None if self._player is None or self._player.lesson is None else self._player.filled

    def _take_lessons(self, lessons: list[Lesson], problems: tuple[Problem, ...]) -> None:
        from ropewalk.app.lessons.shelf import Shelf

        self.take_shelf(Shelf.of(lessons, problems))

    def take_shelf(self, shelf: Shelf) -> None:
        """Offer the lessons of a shelf."""
        self.shelf = shelf
        self._fill_chooser()
        if self.lesson is None:
            self._show_choice()
        self.shelf_read.emit()

    def lessons(self) -> tuple[Lesson, ...]:
        """What can be chosen: the shelf, then the files opened from elsewhere."""
        return (*(self.shelf.lessons if self.shelf is not None else ()), *self._own)

    def _fill_chooser(self) -> None:
        self.chooser.clear()
        self.chooser.addItem("All lessons")
        for lesson in self.lessons():
            self.chooser.addItem(f"{lesson.number}  {lesson.title}")
        now = self.lesson
        if now in self.lessons():
            self.chooser.setCurrentIndex(1 + self.lessons().index(now))

    def _choose(self, place: int) -> None:
        if place == 0:
            self.leave()
        else:
            self.open(self.lessons()[place - 1])

    def open(self, lesson: Lesson, step: int | None = None) -> None:
        """Open a lesson where it was left, or at a step."""
        self.player.open(lesson, step)
        self.next_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def open_file(self, path: str) -> None:
        """Open a lesson file from anywhere; what is wrong with it is said in the panel."""
        self.session.jobs.submit(
            "lesson file",
            Urgency.COARSE,
            self.session.local.ask(ReadLesson(Path(path))),
            self._take_own,
            lambda failure: self._show_failure(failure.sentence),
            what=f"Reading {Path(path).name}",
        )

    def _take_own(self, lesson: Lesson) -> None:
        self._own = [*(own for own in self._own if own.path != lesson.path), lesson]
        self._fill_chooser()
        self.open(lesson)

    def _ask_for_file(self) -> None:
        dialog = QFileDialog(self, "Open a lesson", "", "Lessons (*.toml)")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(self.open_file)
        dialog.open()

    def leave(self) -> None:
        """Close the lesson."""
        if self._player is not None:
            self._player.close()
        self.chooser.setCurrentIndex(0)

    def _forget_progress(self) -> None:
        self.records().reset()
        self._show_choice()

    def _show_choice(self) -> None:
        """What there is to choose, and what could not be read."""
        self._clear_cards()
        self._show_walk(False)
        self.describe("")
        self.step_title.show_text((Span("words", "Choose a lesson"),))
        known = self.lessons()
        self.choices.show_lessons([(lesson, self.records().lesson(lesson.id)) for lesson in known])
        problems = () if self.shelf is None else self.shelf.problems
        self.text.show_text(tuple(Paragraph("point", ((Span("missing", bad.sentence),),)) for bad in problems))
        self.reset_button.setEnabled(self.shelf is not None and bool(self.records().now.lessons))

    def _show_walk(self, on: bool) -> None:
        self.reset_button.setVisible(not on)
        self.choices.setVisible(not on)
        self._make_room(on)
        self.trouble.hide()

    def _make_room(self, walking: bool) -> None:
        """Show the controls that are of use; on a projector the window's own line has them, and notes are no one's."""
        alone = walking and theme.current().projector
        for part in (self.back_button, self.next_button, self.place, self.notes_button, self.leave_button):
            part.setVisible(walking and not alone)
        self.chooser.setVisible(not alone)
        self.file_button.setVisible(not alone)
        self.look_at.setVisible(walking and not alone and bool(self.look_at.content))
        self.notes.setVisible(walking and not alone and self.notes_button.isChecked())

    # Walking ------------------------------------------------------------------------------------------------------

    def forward(self) -> None:
        """Go one step on."""
        if self._player is not None:
            self._player.forward()

    def back(self) -> None:
        """Go one step back."""
        if self._player is not None:
            self._player.back()

    def _on_lesson(self, lesson: Lesson | None) -> None:
        self.lesson_opened.emit(lesson is not None)
        self._fill_chooser()
        if lesson is None:
            self._show_choice()
        self.step_shown.emit()

    def _on_step(self, place: int) -> None:
        lesson = self.lesson
        if lesson is None:
            return
        self._show_walk(True)
        count = len(lesson.steps)
        self.describe(f"{lesson.number}  {lesson.title}")
        self.place.setText(f"step {place + 1} of {count}")
        self.back_button.setEnabled(place > 0)
        self.next_button.setEnabled(place < count - 1)
        filled = self.player.filled
        if filled is None:
            self._clear_cards()
            self._say_why_empty()
            for text in (self.text, self.look_at, self.notes):
                text.show_text(())
        else:
            self._show_step(filled)
        self.step_shown.emit()

    def _on_filled(self, place: int, filled: FilledStep) -> None:
        if place == self.player.step:
            self._show_step(filled)
        if place in (self.player.step, self.player.step + 1):
            self.step_shown.emit()

    def _show_step(self, filled: FilledStep) -> None:
        self.step_title.show_text(filled.title)
        self.text.show_text((*filled.text, *_challenge(filled.challenge)))
        self.notes.show_text(filled.notes)
        self.notes_button.setEnabled(bool(filled.notes))
        self.look_at.show_text(filled.look_at)
        self._make_room(True)
        self.reading.verticalScrollBar().setValue(0)
        self._clear_cards()
        for place, asked in enumerate(filled.checks):
            self._questions.addWidget(self._card(place, asked))

    def _on_scene(self, scene: Scene) -> None:
        self.scene_wanted.emit(scene, self.player.ledger)

    def _show_failure(self, sentence: str) -> None:
        self.trouble.setText(sentence)
        self.trouble.setVisible(self.session.engines.gone is None)  # the end of the engine is said by the window
        self._say_why_empty()

    def _say_why_empty(self) -> None:
        """Say in the place of a step that its numbers are on their way, or why they are not."""
        if self.lesson is not None and self.filled is None:
            why = "Reading the numbers of this step …" if self.session.engines.gone is None else ENDED
            self.step_title.show_text((Span("words", why),))

    # Questions ----------------------------------------------------------------------------------------------------

    def _card(self, place: int, asked: Asked) -> CheckCard:
        from ropewalk.app.lessons.progress import CheckRecord
        from ropewalk.views.lesson.check import CheckCard

        lesson = self.lesson
        records = {} if lesson is None else self.records().lesson(lesson.id).checks

        def answer(reply: Reply) -> Verdict:
            return self.player.reply(place, reply)

        card = CheckCard(
            asked, place + 1, records.get(asked.id, CheckRecord()), answer, lambda: self.player.again(place)
        )
        card.show_selection(self.session.selection.now)
        card.answered.connect(lambda: self._bring_up(card))
        self.cards.insert(place, card)
        return card

    def _bring_up(self, card: CheckCard) -> None:
        """Scroll to what came of a reply."""
        for widget in (card, self.page):
            layout = widget.layout()
            if layout is not None:
                layout.activate()
        self.page.adjustSize()
        for part in (card.because, card.verdict):
            if part.isVisible():
                self.reading.ensureWidgetVisible(part, 0, theme.GRID)

    def _on_check(self, place: int, asked: Asked) -> None:
        """Put a question with fresh numbers where it was."""
        if not 0 <= place < len(self.cards):
            return
        old = self.cards.pop(place)
        fresh = self._card(place, asked)
        self._questions.replaceWidget(old, fresh)
        self._drop(old)
        fresh.focus().setFocus(Qt.FocusReason.OtherFocusReason)

    def _clear_cards(self) -> None:
        for card in self.cards:
            self._questions.removeWidget(card)
            self._drop(card)
        self.cards = []

    def _drop(self, card: CheckCard) -> None:
        card.close_down()
        card.hide()
        card.deleteLater()

    @property
    def spoken(self) -> str:
        """The step as plain characters."""
        return plain_text(self.text.content)


def _challenge(name: str) -> FilledText:
    """How to begin the build challenge of a step."""
    if not name:
        return ()
    begin = Span("words", "Build it yourself: ")
    return (Paragraph("paragraph", ((begin, Span("code", f"python main.py challenge {name} --start")),)),)
