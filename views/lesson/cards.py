"""The lessons to choose from, a card each: what it is about, how long it takes, and how far it was walked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from ropewalk.views.plots import arrow_keys
from ropewalk.views.style import ink, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.lessons.plan import Lesson
    from ropewalk.app.lessons.progress import LessonRecord
    from ropewalk.views.style.theme import Role

NARROWEST: Final = 36
"""Grid units that a card is wide at least, so that no word of it stands alone in a line."""

WRAPPED: Final = int(Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)


class LessonCard(QAbstractButton):
    """One lesson: a click, or Enter, opens it where it was left."""

    stepped = Signal(int, int)
    """An arrow: how many cards to the right and down."""

    def __init__(self, lesson: Lesson, record: LessonRecord, parent: QWidget) -> None:
        super().__init__(parent)
        self.lesson, self.record = lesson, record
        self.title = f"{lesson.number}  {lesson.title}"
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setAccessibleName(
            f"Lesson {lesson.number}: {lesson.title}. {lesson.about} {lesson.minutes} minutes. {self.said}"
        )
        self.setToolTip(
            wording.tooltip(f"{'Go on with' if self.walked else 'Begin'} lesson {lesson.number}. {self.said}")
        )

    @property
    def walked(self) -> int:
        """Steps that have been on screen."""
        if self.record.finished:
            return len(self.lesson.steps)
        return self.record.furthest + 1 if self.record.furthest or self.record.checks else 0

    @property
    def said(self) -> str:
        """How far it was walked, in words."""
        if not self.walked:
            return "Not begun."
        way = (
            "Walked to the end" if self.record.finished else f"Walked to step {self.walked} of {len(self.lesson.steps)}"
        )
        return f"{way}; {self.record.passed} of {len(self.lesson.checks)} questions right."

    # Where things are ---------------------------------------------------------------------------------------------

    def parts(self, width: int) -> tuple[QRect, QRect, QRect]:
        """Where the title, the sentence and the progress stand in a card of that width."""
        look = theme.current()
        pad = look.grid(1.5)
        inner, line = width - 2 * pad, round(ink.line_height(look.font("label")))
        title = QRect(pad, pad, inner, self._height("heading", self.title, inner))
        about = QRect(pad, title.bottom() + 1 + look.grid(0.5), inner, self._height("body", self.lesson.about, inner))
        under = max(about.bottom() + 1 + look.grid(1), self.height() - pad - line if width == self.width() else 0)
        return title, about, QRect(pad, under, inner, line)  # at the bottom of a card that is higher than it must be

    def _height(self, role: Role, text: str, width: int) -> int:
        return (
            theme.current()
            .face(role)
            .metrics.boundingRect(QRectF(0, 0, width, 10_000), WRAPPED, text)
            .toAlignedRect()
            .height()
        )

    def height_for(self, width: int) -> int:
        """How high a card of that width is."""
        look = theme.current()
        return round(self.parts(width)[1].bottom() + 1 + ink.line_height(look.font("label")) + look.grid(2.5))

    @property
    def bar(self) -> QRectF:
        """The whole length that stands for all steps."""
        look, row = theme.current(), self.parts(self.width())[2]
        right = ink.text_width(look.font("label"), self._minutes) + look.grid(1)
        ticks = self._tick * len(self.lesson.checks) + look.grid(1)
        width = max(row.width() - right - ticks, look.grid(4))
        return QRectF(row.left(), row.center().y() - look.grid(0.375), width, look.grid(0.75))

    @property
    def _tick(self) -> float:
        look, row = theme.current(), self.parts(self.width())[2]
        room = row.width() - ink.text_width(look.font("label"), self._minutes) - look.grid(7)
        return min(look.grid(2), room / max(len(self.lesson.checks), 1))

    @property
    def ticks(self) -> list[QRectF]:
        """A place for every question."""
        bar, side = self.bar, self._tick
        start, middle = bar.right() + theme.current().grid(1), bar.center().y()
        return [QRectF(start + place * side, middle - side / 2, side, side) for place in range(len(self.lesson.checks))]

    @property
    def _minutes(self) -> str:
        return f"{self.lesson.minutes} min"

    # Painting -----------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the card."""
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(look.accent if self.hasFocus() else look.line, 2 if self.hasFocus() else 1))
        painter.setBrush(look.hover if self.underMouse() or self.isDown() else look.field)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), look.grid(0.75), look.grid(0.75))
        title, about, row = self.parts(self.width())
        for box, font, colour, text in (
            (title, look.font("heading"), look.text, self.title),
            (about, look.font("body"), look.faint, self.lesson.about),
        ):
            painter.setFont(font)
            painter.setPen(colour)
            painter.drawText(box, WRAPPED, text)
        ink.draw_text(painter, QRectF(row), self._minutes, look.font("label"), look.faint, ink.RIGHT)
        self._paint_progress(painter)
        painter.end()

    def _paint_progress(self, painter: QPainter) -> None:
        look, bar = theme.current(), self.bar
        ink.draw_bar(painter, bar, ink.faded(look.masked, 0.5))
        if self.walked:
            done = QRectF(
                bar.topLeft(), QSize(round(bar.width() * self.walked / len(self.lesson.steps)), round(bar.height()))
            )
            ink.draw_bar(painter, done, look.good if self.record.finished else look.accent)
        for box, check in zip(self.ticks, self.lesson.checks, strict=True):
            known = self.record.checks.get(check.id)
            if known is not None and known.right:
                ink.draw_tick(painter, box, True, look)
            else:
                painter.setPen(QPen(look.faint, 1))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawEllipse(box.center(), box.width() / 8, box.width() / 8)

    # Hands --------------------------------------------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Keep the arrows from the window's shortcuts."""
        return arrow_keys.kept(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens it; an arrow goes to the card beside it."""
        step = arrow_keys.step_of(event)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        elif step is not None:
            self.stepped.emit(*step)
        else:
            super().keyPressEvent(event)


class LessonCards(QWidget):
    """All of them, in as many columns as there is room for."""

    chosen = Signal(object)
    """The lesson of a card that was clicked."""
    reached = Signal(object)
    """The card that an arrow went to."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cards: list[LessonCard] = []
        self.columns = 1
        self.setAccessibleName("Lessons to choose from; arrow keys go from one to the next, Enter opens it")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_lessons(self, lessons: Sequence[tuple[Lesson, LessonRecord]]) -> None:
        """Offer these, with how far each was walked."""
        if [(card.lesson, card.record) for card in self.cards] == list(lessons):
            return
        for card in self.cards:
            card.hide()
            card.deleteLater()
        self.cards = [LessonCard(lesson, record, self) for lesson, record in lessons]
        for place, card in enumerate(self.cards):
            card.clicked.connect(lambda _=False, lesson=card.lesson: self.chosen.emit(lesson))
            card.stepped.connect(lambda right, down, place=place: self._step(place, right, down))
            card.show()
        self.arrange()

    def arrange(self) -> None:
        """Place the cards in the width there is."""
        look = theme.current()
        gap, width = look.grid(1), max(self.width(), 1)
        self.columns = max((width + gap) // (look.grid(NARROWEST) + gap), 1)
        wide, top = (width - gap * (self.columns - 1)) // self.columns, 0
        for start in range(0, len(self.cards), self.columns):
            row = self.cards[start : start + self.columns]
            height = max(card.height_for(wide) for card in row)
            for column, card in enumerate(row):
                card.setGeometry(column * (wide + gap), top, wide, height)
                card.update()
            top += height + gap
        self.setFixedHeight(max(top - gap, 0))

    def minimumSizeHint(self) -> QSize:
        """As narrow as the panel must be."""
        return QSize(120, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Place them anew."""
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self.arrange()

    def _step(self, place: int, right: int, down: int) -> None:
        beside = place + right + down * self.columns
        if 0 <= beside < len(self.cards):
            self.cards[beside].setFocus(Qt.FocusReason.OtherFocusReason)
            self.reached.emit(self.cards[beside])
