"""The timeline under all panels: the prompt as one block, then a cell for every decoded token.

A click or a drag looks at another step, and another token can be put into the place of the one in view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QShowEvent
from PySide6.QtWidgets import QComboBox, QPushButton, QToolTip, QWidget

from ropewalk.app.session.selection import Selection
from ropewalk.model.decoder.costs import kv_bytes
from ropewalk.model.engine.questions import AskNextToken, Question
from ropewalk.model.readings.records import NextTokenReading, Run
from ropewalk.views.panels.panel import Kept, Panel, offer, plain_label
from ropewalk.views.style import ink, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


BRANCH = "Put this token in the place of the last one in view, and go on from there."


class StepsView(QWidget):
    """Cells of the steps of a run: the one in view is marked, later ones are faint, a bar closes a text."""

    length_chosen = Signal(int)
    """A step was clicked or dragged to: how many tokens are to be in view."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.run: Run | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Steps of the run; left and right look at another one")

    def show_run(self, run: Run) -> None:
        """Take another run, or another length of it."""
        self.run = run
        self.setAccessibleDescription(self.description(run.length))
        self.update()

    def sizeHint(self) -> QSize:
        """One line."""
        return QSize(200, round(ink.line_height(theme.current().font("number"))) + theme.GRID)

    def minimumSizeHint(self) -> QSize:
        """One line, however narrow."""
        return QSize(80, self.sizeHint().height())

    def cell_of(self, length: int) -> QRectF:
        """The cell that ends at a length: the prompt's block, or a decoded token."""
        run = self.run
        if run is None:
            return QRectF()
        steps = run.newest - run.prefill
        prompt = self.width() if steps == 0 else max(self.width() * 0.15, self.width() - 72 * steps)
        width = 0.0 if steps == 0 else (self.width() - prompt) / steps
        if length <= run.prefill:
            return QRectF(0, 0, prompt - 2, self.height())
        return QRectF(prompt + (length - run.prefill - 1) * width, 0, max(width - 2, 1), self.height())

    def length_at(self, x: float) -> int:
        """The length whose cell is at an x; the nearest one outside."""
        run = self.run
        if run is None:
            return 0
        if x < self.cell_of(run.prefill).right() + 1 or run.newest == run.prefill:
            return run.prefill
        width = self.cell_of(run.prefill + 1).width() + 2
        step = int((x - self.cell_of(run.prefill + 1).left()) / width)
        return min(max(run.prefill + 1 + step, run.prefill), run.newest)

    def description(self, length: int) -> str:
        """Say what a step is."""
        run = self.run
        if run is None:
            return ""
        if length <= run.prefill:
            return f"the prompt: {wording.counted(run.prefill, 'token')}"
        end = ", which ends the text" if run.ends_at(length) else ""
        return f"step {length - run.prefill}: {run.tokens[length - 1].inline}{end}, {wording.counted(length, 'token')}"

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the cells."""
        run = self.run
        if run is None:
            return
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for length in range(run.prefill, run.newest + 1):
            box = self.cell_of(length)
            here, later = length == run.length, length > run.length
            painter.setPen(QPen(look.accent, 2) if here else Qt.PenStyle.NoPen)
            painter.setBrush(look.chosen if here else look.field if later else look.hover)
            painter.drawRoundedRect(box.adjusted(1, 1, -1, -1), 3, 3)
            text = (
                f"prompt, {wording.counted(run.prefill, 'token')}"
                if length == run.prefill
                else theme.drawable(run.tokens[length - 1].text)
            )
            colour = look.faint if later else look.text
            ink.draw_text(painter, box.adjusted(4, 0, -4, 0), text, look.font("number"), colour, ink.CENTRE)
            if run.ends_at(length):
                painter.fillRect(QRectF(box.right() - 3, 2, 2, box.height() - 4), colour)
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Look at a step."""
        if event.button() == Qt.MouseButton.LeftButton and self.run is not None:
            self.length_chosen.emit(self.length_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Scrub."""
        if event.buttons() & Qt.MouseButton.LeftButton and self.run is not None:
            self.length_chosen.emit(self.length_at(event.position().x()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Look at the step before or after, never beyond what was decoded."""
        run = self.run
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if run is None or step is None:
            super().keyPressEvent(event)
        elif run.prefill <= run.length + step <= run.newest:
            self.length_chosen.emit(run.length + step)

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused, and answer for tooltips."""
        arrows = (Qt.Key.Key_Left, Qt.Key.Key_Right)
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and event.key() in arrows:
            event.accept()
            return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            text = self.description(self.length_at(QPointF(event.pos()).x()))
            QToolTip.showText(event.globalPos(), wording.tooltip(text), self)
            return True
        return super().event(event)


class TimelinePanel(Panel):
    """Scrubs through the steps, and branches one."""

    name: ClassVar[str] = "timeline"
    title: ClassVar[str] = "Timeline"
    offered = Kept[NextTokenReading]()
    """What else could stand in the place of the token in view."""

    COUNT = 12
    """Other tokens on offer."""
    LETTERS = 14
    """Letters that a token on offer and its probability have room for."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.steps = StepsView()
        self.hear(self.steps.length_chosen, self._look_at)
        self.caption = plain_label("instead", "label")
        self.token = QComboBox()
        self.token.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.token.setMinimumContentsLength(self.LETTERS)  # of one width, so that a step moves nothing
        self.token.setAccessibleName("Token to put in the place of the newest one in view")
        self.token.setToolTip("The token that Branch puts in the place of the newest one in view.")
        self.branch_button = QPushButton("Branch")
        self.branch_button.clicked.connect(self._branch)
        for widget in (self.caption, self.token, self.branch_button):
            widget.hide()
        self.head_row.setStretchFactor(self.subtitle, 2)
        self.head_row.addWidget(self.steps, 5)  # beside the title: a strip under everything has to be low
        for widget in (self.caption, self.token, self.branch_button):
            self.head_row.addWidget(widget)
        self.body.setFixedHeight(0)
        for signal in (session.recovery.engine_ended, session.recovery.engine_back):
            signal.connect(self._offer_branch)
        self._offer_branch()
        self.explain("")
        self.describe("Nothing has been run yet.")
        outer = self.layout()
        if outer is not None:
            outer.setSpacing(0)

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask what else could have been decoded; the prompt's own tokens are not replaced."""
        return AskNextToken(run.length - 2, self.COUNT, self.session.timeline.sampling) if run.steps > 0 else None

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Draw the steps, and offer other tokens for the one in view."""
        self.offered = reading
        self.steps.show_run(run)
        size = kv_bytes(run.config, run.length, run.model.dtype)
        self.describe(f"{self.steps.description(run.length)} · {size:,} bytes")
        newest, offered = run.tokens[run.length - 1].id, self.offered
        others = [] if offered is None else [c for c in offered.candidates if c.token.id != newest]
        self.token.clear()
        self.token.addItems([f"{theme.drawable(c.token.inline)}  {c.probability:.3f}" for c in others])
        for place, candidate in enumerate(others):
            self.token.setItemData(place, candidate.token.id)
        self._offer_branch()
        for widget in (self.caption, self.token, self.branch_button):
            widget.setVisible(offered is not None)

    def showEvent(self, event: QShowEvent) -> None:
        """Take the height that the row will have."""
        super().showEvent(event)
        self._keep_height()

    def _keep_height(self) -> None:
        """Be as high before the first step as after it, so that nothing else in the window moves then."""
        self.steps.setMinimumHeight(max(self.token.sizeHint().height(), self.branch_button.sizeHint().height()))

    def minimumSizeHint(self) -> QSize:
        """Ask for no more than a margin under the title."""
        return QSize(0, theme.GRID)

    def theme_changed(self) -> None:
        """Paint anew."""
        self._keep_height()
        self.steps.updateGeometry()
        self.steps.update()

    def _look_at(self, length: int) -> None:
        run = self.session.run
        if run is not None and length != run.length and self.session.engines.gone is None:
            self.session.timeline.run_to(length)

    def _offer_branch(self, *_: object) -> None:
        offer(self.branch_button, self.session, BRANCH, "decode")

    def _branch(self) -> None:
        run, token = self.session.run, self.token.currentData()
        if run is not None and self.offered is not None and token is not None:
            self.session.timeline.branch(run.length - 1, int(token))
