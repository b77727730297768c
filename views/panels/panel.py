"""The contract of a panel: what it depends on, what it asks, and how it draws.

A panel reads the selection and the run, asks one question at a time, and draws the answer. It sends intent through
``session.selection.update`` or the session's own verbs; it never touches another panel. A hidden panel asks nothing
and remembers that it is stale.

An answer is of one run. What a panel keeps of it is :class:`Kept`, which is None once another run is on screen; what a
person does in a picture is heard through :meth:`Panel.hear`, which is deaf while the picture is of another run. So
nothing is computed from an answer about one run and from another run, in the moment before that one is answered. When
the engine has ended, that moment lasts: the picture of another run is then hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar, overload

from PySide6.QtCore import QRectF, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QLabel, QPushButton, QToolTip, QVBoxLayout, QWidget
from shiboken6 import isValid

from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.app.session.step_clock import StepClock
from ropewalk.model.engine.interface import in_no_checkpoint, missing, unanswerable
from ropewalk.model.engine.questions import Capability, Question
from ropewalk.model.readings.records import Run
from ropewalk.views.style import ink, wording
from ropewalk.views.style.highlight import Highlights

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

NOTHING_YET = "Nothing has been run yet: a run may be on its way; else type a prompt and press Run."
"""What a panel says before the first run."""

ENDED = "The engine has ended; start it again to see this."
"""What a panel says that has drawn nothing yet, and that nobody can answer now."""

NOT_READ = "This panel was not read before the engine ended; start it again to see it."
"""What a panel says whose picture is of another run, and that nobody can answer now."""

NO_ENGINE = "The engine has ended; start it again to do this."
"""What the tooltip of a button says that cannot be pressed for that."""

ATTACH = "With its checkpoint the run can be gone on with, and everything can be shown of it (Ctrl+Shift+A)."
"""What attaching a checkpoint is for."""

CHANGES: Final[tuple[Capability, ...]] = ("run", "interventions")
"""What a run is asked for by whatever changes its model."""

T = TypeVar("T")


class Kept(Generic[T]):
    """What a panel keeps of an answer, for as long as the run that it is of is on screen.

    A panel declares it in its class, ``cell = Kept[CellReading]()``, sets it to a :class:`Reading`, and reads a value:
    None once another run, or another length of it, is on screen.
    """

    def __set_name__(self, owner: type[Panel], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, panel: None, owner: type[Panel]) -> Kept[T]: ...

    @overload
    def __get__(self, panel: Panel, owner: type[Panel]) -> T | None: ...

    def __get__(self, panel: Panel | None, owner: type[Panel]) -> Kept[T] | T | None:
        if panel is None:
            return self
        reading = panel.readings.get(self._name)
        return reading.value if reading is not None and reading.run is panel.session.run else None

    def is_shown(self, panel: Panel) -> bool:
        """Whether what was drawn of it is of the run on screen, if of another length of it."""
        reading = panel.readings.get(self._name)
        return reading is not None and _same(reading.run, panel.session.run)

    def __set__(self, panel: Panel, reading: Reading[T] | None) -> None:
        if reading is None:
            panel.readings.pop(self._name, None)
        else:
            panel.readings[self._name] = reading


@dataclass(frozen=True)
class Mark:
    """What a mark in a panel's picture means: how it is drawn, in which colour, and in words.

    The colour is one of the theme, by its name, or any, as ``#rrggbb``.
    """

    kind: Literal["outline", "line", "dash", "hollow", "fill", "hatch"]
    colour: str
    words: str


class Panel(QWidget):
    """Base of all panels.

    A subclass sets ``name`` (unique, used by keys, snapshots and layouts), ``title`` and ``depends`` (the selection
    fields whose change calls for a new question), builds its widgets into ``self.body``, and overrides
    :meth:`question`, :meth:`show_answer` and, where it has cheap marks to move, :meth:`show_selection` and
    :meth:`show_hover`. What it keeps of an answer is :class:`Kept`, and what its pictures announce it hears through
    :meth:`hear`.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    depends: ClassVar[frozenset[str]] = frozenset()
    marks: ClassVar[frozenset[str]] = frozenset()
    """Selection fields that only move a mark: :meth:`show_selection` is called, nothing is asked."""

    legend: ClassVar[tuple[Mark, ...]] = ()
    """The marks of the picture, for where it stands by itself."""

    is_figure: ClassVar[bool] = True
    """Whether it is exported without its controls."""

    streams: ClassVar[bool] = False
    """Whether :meth:`show_part` wants what is ready of a long answer."""

    follows_run: ClassVar[bool] = True
    """Whether it shows the run on screen; else it says itself when it is to be drawn anew, and draws."""

    plotted = Signal(object)
    """A part with maps or plots was added after the panel was made; their menus are wanted."""

    drawn = Signal()
    """An answer has been drawn; a snapshot waits for it."""

    attach_wanted = Signal()
    """The run on screen is to be given the checkpoint that it lacks."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.draws = 0
        """How often an answer was drawn; tests count it."""
        self.readings: dict[str, Reading[Any]] = {}
        """What :class:`Kept` holds, by its name."""
        self._drawn: Run | None = None
        self._stale = True
        self._closed = False
        self._awaited: set[str] = set()
        self.highlighted: Highlights = {}
        self.with_body: tuple[QWidget, ...] = ()
        """Controls in the heading that are gone where the body is."""
        self.setObjectName(self.name)
        self.heading = plain_label(self.title, "heading")
        self.subtitle = ElidedLabel()
        self.notice = plain_label("", "notice")
        self.notice.setWordWrap(True)
        self.attach_button = QPushButton("Attach the checkpoint…")
        self.attach_button.setToolTip(ATTACH)
        self.attach_button.clicked.connect(self.attach_wanted)
        self._under_notice = QWidget()
        under = QVBoxLayout(self._under_notice)
        under.setContentsMargins(0, 0, 0, 0)
        under.addWidget(self.attach_button, 0, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
        self.head_row = QHBoxLayout()
        self.head_row.addWidget(self.heading)
        self.head_row.addWidget(self.subtitle, 1)
        self.body = QWidget()
        outer = QVBoxLayout(self)
        outer.setContentsMargins(16, 12, 16, 12)
        outer.setSpacing(8)
        outer.addLayout(self.head_row)
        outer.addWidget(self.body, 1)
        outer.addWidget(self.notice, 1)
        outer.addWidget(self._under_notice, 1)
        self.explain(NOTHING_YET)
        if self.follows_run:
            session.run_changed.connect(self._on_run)
            session.settled.connect(self._on_settled)
            session.timeline.clock.ticked.connect(self._on_clock)
            session.selection.changed.connect(self._on_selection)
            session.selection.hovered.connect(self._on_hover)

    # What a subclass overrides ------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """What this panel needs to draw; None when the run and selection alone are enough."""
        return None

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw a :class:`Reading` of this run; None when :meth:`question` returned None."""

    def show_part(self, part: Reading[Any]) -> None:
        """Draw what is ready of an answer that is still to come; whoever does says so with :meth:`begin`."""

    def show_selection(self, selection: Selection) -> None:
        """Move marks; called for changes in ``marks`` and after every answer, and never in a picture of another run."""

    def show_hover(self, hover: Hover) -> None:
        """Move the hover mark, or take it away: of another run's picture it is only ever taken away."""

    def show_step(self, clock: StepClock) -> None:
        """Draw a moment of a step that is on its way, or its end."""

    def show_highlights(self) -> None:
        """Mark the places in ``self.highlighted``, which a lesson names; they stay until others are named."""

    def theme_changed(self) -> None:
        """Take new colours and font sizes from ``views.style.theme.current()`` and repaint."""

    def close_down(self) -> None:
        """Stop timers, and ask and draw nothing any more; called when the window closes."""
        self._closed = True
        for slot in tuple(self._awaited):
            self._withdraw(slot)

    # What a subclass calls ----------------------------------------------------------------------------------------

    def explain(self, why: str, *, lacking: bool = False) -> None:
        """Say in the panel why it has nothing to show; an empty string brings the body back.

        ``lacking`` says that the run lacks what its checkpoint has, which can be attached from here.
        """
        attach = bool(why) and lacking and self.session.attaching.origin is not None
        if attach:
            self.attach_button.setToolTip(wording.tooltip(attach_tip(self.session)))
        self._under_notice.setVisible(attach)
        across = Qt.AlignmentFlag.AlignBottom if attach else Qt.AlignmentFlag.AlignVCenter
        self.notice.setAlignment(Qt.AlignmentFlag.AlignHCenter | across)
        self.notice.setText(why)
        self.notice.setVisible(bool(why))
        for widget in self.with_body:
            widget.setVisible(not why)
        self.body.setVisible(not why)

    def highlight(self, highlighted: Highlights) -> None:
        """Mark places, and no others."""
        if highlighted != self.highlighted:
            self.highlighted = highlighted
            self.show_highlights()

    @property
    def figure_caption(self) -> str:
        """What stands under the panel as a figure."""
        return f"{self.title}: {self.subtitle.text()}"

    @property
    def figure_lines(self) -> tuple[tuple[str, str], ...]:
        """What a file says of where its picture comes from, as (name, text), where that is not the run on screen."""
        return ()

    @property
    def figure_legend(self) -> tuple[Mark, ...]:
        """The marks that are explained under it."""
        return self.legend

    def describe(self, subtitle: str) -> None:
        """Set the text beside the title, such as ``L1H3 · 12 × 12 · kv head 1``."""
        self.subtitle.setText(subtitle)
        self.subtitle.setToolTip(wording.tooltip(subtitle))

    def hear(self, signal: SignalInstance, act: Callable[..., object], of: Kept[Any] | None = None) -> None:
        """Do what a person wants in a picture, for as long as it is of the run on screen.

        ``of`` is what the picture shows, where that is asked for after the main answer.
        """

        def heard(*said: Any) -> None:
            if self.is_current and (of is None or of.is_shown(self)):
                act(*said)

        signal.connect(heard)

    def begin(self, run: Run | None) -> None:
        """Say that what is drawn from here on is of this run, or of none."""
        self._drawn = run

    @property
    def is_current(self) -> bool:
        """Whether what is drawn is of the run on screen, if of another length of it: its rows are where they were."""
        return _same(self._drawn, self.session.run)

    def refresh(self) -> None:
        """Ask again now if visible, else remember to."""
        self._stale = True
        if self.on_screen:
            self._ask()
        else:
            self._withdraw(self.name)  # its answer would be drawn among what has changed since

    def ask(
        self,
        question: Question,
        answer: Callable[[Reading[Any]], None],
        part: str = "",
        ready: Callable[[Reading[Any]], None] | None = None,
    ) -> None:
        """Ask a question of this panel's own.

        ``part`` names a second one beside the main picture; ``ready`` hears what is ready before a long answer is.
        """
        if self._closed:
            return
        if part and (why := self.lacks(question)):
            self.session.failed.emit(why, "")
            return
        slot = f"{self.name}.{part}" if part else self.name
        self._awaited.add(slot)

        def arrived(reading: Reading[Any]) -> None:
            self._awaited.discard(slot)
            if self._takes(reading):
                answer(reading)
                self.drawn.emit()

        def part_arrived(reading: Reading[Any]) -> None:
            if ready is not None and self._takes(reading):
                ready(reading)

        self.session.ask(slot, question, arrived, None if ready is None else part_arrived)

    def lacks(self, question: Question) -> str:
        """Why the run on screen has no answer to a question, a sentence; empty where it has one."""
        handle = self.session.handle
        return "" if handle is None else unanswerable(handle, question)

    def _attaching_helps(self, question: Question) -> bool:
        handle = self.session.handle
        return handle is not None and not in_no_checkpoint(missing(handle, question), handle.model_handle)

    def awaits(self, part: str) -> bool:
        """Whether what was asked as ``part`` is still to come."""
        return f"{self.name}.{part}" in self._awaited

    def forget(self, part: str) -> None:
        """Wait no longer for what was asked as ``part``."""
        self._withdraw(f"{self.name}.{part}")

    @property
    def settled(self) -> bool:
        """Whether everything asked for has been drawn, or will not come."""
        return not self._stale and not self._awaited and not self.session.timeline.clock.is_running

    @property
    def on_screen(self) -> bool:
        """Whether it can be seen."""
        return self.isVisible()

    # How it works -------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what was missed while hidden."""
        super().showEvent(event)
        if self._stale:
            self._ask()
        if self.is_current:
            self.show_hover(self.session.selection.hover)

    def _on_run(self, before: Run | None, after: Run | None) -> None:
        if not _same(before, after):
            from ropewalk.views.plots.charts.plot import Plot  # here: a window is painted before plots are loaded

            QToolTip.hideText()
            for plot in self.findChildren(Plot):
                plot.point_away()
        for slot in tuple(self._awaited):
            self._withdraw(slot)  # what was asked is about the run that went, and would be answered to nobody
        self.readings = {name: reading for name, reading in self.readings.items() if _same(reading.run, after)}
        self.refresh()

    def _on_settled(self) -> None:
        """Wait no longer for an answer that cannot come any more: it failed, or somebody cancelled it."""
        if not self.session.busy:
            if self.name in self._awaited:
                self._hide_another_run()
            self._awaited.clear()

    def _on_selection(self, before: Selection, after: Selection) -> None:
        changed = before.differences(after)
        if changed & self.depends:
            self.refresh()
        elif changed & self.marks and self.is_current:
            self.show_selection(after)

    def _on_clock(self) -> None:
        clock = self.session.timeline.clock
        if not self._closed:
            self.show_step(clock)
            if not clock.is_running:
                self.drawn.emit()

    def _on_hover(self, hover: Hover) -> None:
        if self.isVisible() and (self.is_current or hover == Hover()):
            self.show_hover(hover)

    def _ask(self) -> None:
        run = self.session.run
        if run is None or self._closed:
            return
        self._stale = False
        question = self.question(run, self.session.selection.now)
        if question is None:
            self._withdraw(self.name)
            self._draw(None)
            self.drawn.emit()
        elif why := self.lacks(question):
            self._withdraw(self.name)
            self.begin(run)
            self.describe("")
            self.explain(why, lacking=self._attaching_helps(question))
            self.drawn.emit()
        else:
            self.ask(question, self._draw, ready=self.show_part if self.streams else None)
            self._hide_another_run()

    def _hide_another_run(self) -> None:
        """Show no picture of another run beside this one while there is no engine to ask for the right one."""
        if self.session.engines.gone is not None and not self.is_current and not self._closed:
            self.describe("")
            self.explain(ENDED if self._drawn is None else NOT_READ)

    def _withdraw(self, slot: str) -> None:
        self._awaited.discard(slot)
        self.session.forget(slot)

    def _takes(self, reading: Reading[Any]) -> bool:
        """Whether an answer is still wanted here: it is of the run on screen, and there is a panel to draw it in."""
        return isValid(self) and not self._closed and reading.run is self.session.run

    def _draw(self, reading: Reading[Any] | None) -> None:
        run, now = self.session.run, self.session.selection
        if run is None:
            return
        self.explain("")
        self.draws += 1
        self.begin(run)
        self.show_answer(run, now.now, reading)
        self.show_selection(now.now)
        if self.on_screen:
            self.show_hover(now.hover)


def _same(one: Run | None, other: Run | None) -> bool:
    """Whether these are one run, if of two lengths."""
    return one is not None and other is not None and one.run_id == other.run_id


PART: Final = " · "
"""What stands between the parts of a subtitle."""
MOST_LETTERS: Final = 1_000
"""Letters that are looked at: more are never seen in a line."""
FEWEST: Final = 8
"""Letters that say something before an ellipsis."""


class ElidedLabel(QLabel):
    """A subtitle of parts: those that do not fit are left out, and a first one that does not ends in an ellipsis.

    Its size does not depend on its text, so another text never makes the window arrange itself anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", "subtitle")
        self._text = ""

    def text(self) -> str:
        """All of it, whether it fits or not."""
        return self._text

    def setText(self, text: str) -> None:
        """Say something else."""
        if text != self._text:
            self._text = text
            self.setAccessibleName(text)
            self._tell()
            self.update()

    @property
    def seen(self) -> str:
        """What is written in the width there is; nothing where that would be a letter or two."""
        metrics, parts = self.fontMetrics(), self._text[:MOST_LETTERS].split(PART)
        starts = (PART.join(parts[:count]) for count in range(len(parts), 0, -1))
        whole = next((start for start in starts if metrics.horizontalAdvance(start) <= self.width()), "")
        return whole or (parts[0] if self.width() >= FEWEST * metrics.averageCharWidth() else "")

    def sizeHint(self) -> QSize:
        """As wide as the row lets it be."""
        return QSize(0, self.fontMetrics().height())

    def minimumSizeHint(self) -> QSize:
        """Let the row be as narrow as it must."""
        return self.sizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Say in a tooltip what does not fit."""
        super().resizeEvent(event)
        self._tell()

    def _tell(self) -> None:
        text = self._text
        fits = len(text) <= MOST_LETTERS and self.fontMetrics().horizontalAdvance(text) <= self.width()
        self.setToolTip("" if fits else wording.tooltip(self._text))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as much as fits."""
        painter = QPainter(self)
        colour = self.palette().color(QPalette.ColorRole.WindowText)
        ink.draw_text(painter, QRectF(self.rect()), self.seen, self.font(), colour)
        painter.end()


class TwoLineLabel(ElidedLabel):
    """The same in two lines where it is given room for them: the first is filled, and the second may end early."""

    lines = 2

    def sizeHint(self) -> QSize:
        """As wide as the row lets it be, and as high as its lines."""
        return QSize(0, self.lines * self.fontMetrics().height())

    def use_lines(self, lines: int) -> None:
        """Take one line or two."""
        if lines != self.lines:
            self.lines = lines
            self.updateGeometry()
            self.update()

    @property
    def written(self) -> tuple[str, ...]:
        """What stands in each line."""
        text, metrics, width = self._text[:MOST_LETTERS], self.fontMetrics(), self.width()
        if self.lines == 1 or metrics.horizontalAdvance(text) <= width:
            return (self.seen,)
        last = text.rfind(PART)
        if 0 < metrics.horizontalAdvance(text[: max(last, 0)]) <= width:  # whole parts in each
            return text[:last], text[last + len(PART) :]
        ends = (at for at, letter in enumerate(text) if letter == " ")
        end = max((end for end in ends if metrics.horizontalAdvance(text[:end]) <= width), default=0)
        return text[:end], metrics.elidedText(text[end:].strip(), Qt.TextElideMode.ElideRight, width)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the lines from the top."""
        painter, height = QPainter(self), self.fontMetrics().height()
        colour = self.palette().color(QPalette.ColorRole.WindowText)
        for place, line in enumerate(self.written):
            ink.draw_text(painter, QRectF(0, place * height, self.width(), height), line, self.font(), colour)
        painter.end()


class SparedLabel(QLabel):
    """A text that is left out where there is no room for all of it, so that a panel may be narrower than its words."""

    def __init__(self, role: str) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)

    def minimumSizeHint(self) -> QSize:
        """Let the row be as narrow as it must."""
        return QSize(0, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw all of it or nothing."""
        if self.width() >= self.sizeHint().width():
            super().paintEvent(event)


def offer(button: QAbstractButton, session: Session, tip: str, *needs: Capability, on: bool = True) -> None:
    """Let a button be pressed where it is ``on``, and an engine and the run let it be done; else say why not."""
    why = session.why_not(*needs) if session.engines.gone is None else NO_ENGINE
    button.setEnabled(not why and on)
    button.setToolTip(wording.tooltip(why or tip))


def attach_tip(session: Session) -> str:
    """What attaching a checkpoint is for, and which one it is."""
    origin = session.attaching.origin
    name = "" if origin is None else wording.model_name(origin.name)
    made = f"This run was made with {name}." if name else "The file does not say what this run was made with."
    return f"{made} {ATTACH}"


def plain_label(text: str, role: str = "body") -> QLabel:
    """Make a label that never takes its text for markup; ``role`` picks its place in the type scale."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setProperty("role", role)
    return label
