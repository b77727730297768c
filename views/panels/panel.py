"""The contract of a panel: what it depends on, what it asks, and how it draws.

A panel reads the selection and the run, asks one question at a time, and draws the answer. It sends intent through
``session.selection.update`` or the session's own verbs; it never touches another panel. A hidden panel asks nothing
and remembers that it is stale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import Question
from ropewalk.model.readings.records import Run
from ropewalk.views.style import ink, wording
from ropewalk.views.style.highlight import Highlights

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

NOTHING_YET = "Nothing has been run yet: a run may be on its way; else type a prompt and press Run."
"""What a panel says before the first run."""


class Panel(QWidget):
    """Base of all panels.

    A subclass sets ``name`` (unique, used by keys, snapshots and layouts), ``title`` and ``depends`` (the selection
    fields whose change calls for a new question), builds its widgets into ``self.body``, and overrides
    :meth:`question`, :meth:`show_answer` and, where it has cheap marks to move, :meth:`show_selection` and
    :meth:`show_hover`.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    depends: ClassVar[frozenset[str]] = frozenset()
    marks: ClassVar[frozenset[str]] = frozenset()
    """Selection fields that only move a mark: :meth:`show_selection` is called, nothing is asked."""

    height_wanted = Signal(int, int)
    """Something was unfolded: the least and the best height in pixels, 0 and 0 for no more than usual."""

    streams: ClassVar[bool] = False
    """Whether :meth:`show_part` wants what is ready of a long answer."""

    drawn = Signal()
    """An answer has been drawn; a snapshot waits for it."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.draws = 0
        """How often an answer was drawn; tests count it."""
        self._stale = True
        self._behind = False
        self._awaited: set[str] = set()
        self.highlighted: Highlights = {}
        self.setObjectName(self.name)
        self.heading = plain_label(self.title, "heading")
        self.subtitle = ElidedLabel()
        self.notice = plain_label("", "notice")
        self.notice.setWordWrap(True)
        self.notice.setAlignment(Qt.AlignmentFlag.AlignCenter)
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
        self.explain(NOTHING_YET)
        session.run_changed.connect(self._on_run)
        session.settled.connect(self._on_settled)
        session.selection.changed.connect(self._on_selection)
        session.selection.hovered.connect(self._on_hover)

    # What a subclass overrides ------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """What this panel needs to draw; None when the run and selection alone are enough."""
        return None

    def show_answer(self, run: Run, selection: Selection, answer: Any) -> None:
        """Draw. ``answer`` is None when :meth:`question` returned None."""

    def show_part(self, part: Any) -> None:
        """Draw what is ready of an answer that is still to come."""

    def show_selection(self, selection: Selection) -> None:
        """Move marks; called for changes in ``marks`` and after every answer."""

    def show_hover(self, hover: Hover) -> None:
        """Move the hover mark."""

    def show_highlights(self) -> None:
        """Mark the places in ``self.highlighted``, which a lesson names; they stay until others are named."""

    def theme_changed(self) -> None:
        """Take new colours and font sizes from ``views.style.theme.current()`` and repaint."""

    def close_down(self) -> None:
        """Stop timers; called when the window closes."""

    # What a subclass calls ----------------------------------------------------------------------------------------

    def explain(self, why: str) -> None:
        """Say in the panel why it has nothing to show; an empty string brings the body back."""
        self.notice.setText(why)
        self.notice.setVisible(bool(why))
        self.body.setVisible(not why)

    def highlight(self, highlighted: Highlights) -> None:
        """Mark places, and no others."""
        if highlighted != self.highlighted:
            self.highlighted = highlighted
            self.show_highlights()

    def describe(self, subtitle: str) -> None:
        """Set the text beside the title, such as ``L1H3 · 12 × 12 · kv head 1``."""
        self.subtitle.setText(subtitle)
        self.subtitle.setToolTip(wording.tooltip(subtitle))

    def refresh(self) -> None:
        """Ask again now if visible, else remember to."""
        self._stale = True
        if self.on_screen:
            self._ask()
        else:
            self._awaited.clear()  # what was asked before may be about a run that is gone, and is then never answered

    def ask(
        self,
        question: Question,
        answer: Callable[[Any], None],
        part: str = "",
        ready: Callable[[Any], None] | None = None,
    ) -> None:
        """Ask a question of this panel's own.

        ``part`` names a second one beside the main picture; ``ready`` hears what is ready before a long answer is.
        """
        slot = f"{self.name}.{part}" if part else self.name
        self._awaited.add(slot)

        def arrived(reading: Any) -> None:
            self._awaited.discard(slot)
            answer(reading)
            self.drawn.emit()

        if ready is None:
            self.session.ask(slot, question, arrived)
        else:
            self.session.ask(slot, question, arrived, ready)

    def forget(self, part: str) -> None:
        """Wait no longer for what was asked as ``part``."""
        slot = f"{self.name}.{part}"
        self._awaited.discard(slot)
        self.session.forget(slot)

    @property
    def settled(self) -> bool:
        """Whether everything asked for has been drawn, or will not come."""
        return (self._behind or not self._stale) and not self._awaited

    @property
    def on_screen(self) -> bool:
        """Whether it can be seen; a panel behind another tab cannot, though Qt calls it visible."""
        return self.isVisible() and not self._behind

    def come_forward(self, forward: bool) -> None:
        """Hear from the dock whether this panel is in front or behind another tab; what was missed is caught up."""
        self._behind = not forward
        if self._stale and self.on_screen:
            self._ask()
        if self.on_screen and self.session.run is not None:
            self.show_hover(self.session.selection.hover)

    # How it works -------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what was missed while hidden."""
        super().showEvent(event)
        if self._stale and not self._behind:
            self._ask()

    def _on_run(self, before: Run | None, after: Run | None) -> None:
        self.refresh()

    def _on_settled(self) -> None:
        """Wait no longer for an answer that cannot come any more: it failed, or somebody cancelled it."""
        if not self.session.busy:
            self._awaited.clear()

    def _on_selection(self, before: Selection, after: Selection) -> None:
        changed = before.differences(after)
        if changed & self.depends:
            self.refresh()
        elif changed & self.marks and self.session.run is not None:
            self.show_selection(after)

    def _on_hover(self, hover: Hover) -> None:
        if self.isVisible() and self.session.run is not None:
            self.show_hover(hover)

    def _ask(self) -> None:
        run = self.session.run
        if run is None:
            return
        self._stale = False
        question = self.question(run, self.session.selection.now)
        if question is None:
            self._draw(None)
            self.drawn.emit()
        else:
            self.ask(question, self._draw, ready=self.show_part if self.streams else None)

    def _draw(self, answer: Any) -> None:
        run = self.session.run
        if run is None:
            return
        self.explain("")
        self.draws += 1
        self.show_answer(run, self.session.selection.now, answer)
        self.show_selection(self.session.selection.now)


class ElidedLabel(QLabel):
    """A subtitle that ends in an ellipsis where it does not fit.

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
            self.update()

    def sizeHint(self) -> QSize:
        """As wide as the row lets it be."""
        return QSize(0, self.fontMetrics().height())

    def minimumSizeHint(self) -> QSize:
        """Let the row be as narrow as it must."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as much as fits."""
        painter = QPainter(self)
        colour = self.palette().color(QPalette.ColorRole.WindowText)
        ink.draw_text(painter, QRectF(self.rect()), self._text, self.font(), colour)
        painter.end()


def plain_label(text: str, role: str = "body") -> QLabel:
    """Make a label that never takes its text for markup; ``role`` picks its place in the type scale."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setProperty("role", role)
    return label
