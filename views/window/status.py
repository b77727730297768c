"""The line at the bottom: what is open, the cached-against-full check, and the progress of a job with its cancel.

And the strips over it: what went wrong, in a sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.jobs import JobProgress
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.readings.records import ConsistencyCheck, ModelCard, Run
from ropewalk.views.panels.consistency import NEEDS, conditions, origin, verdict
from ropewalk.views.panels.panel import ElidedLabel, plain_label
from ropewalk.views.style import icons, theme, wording
from ropewalk.views.style.flow import FlowLayout
from ropewalk.views.window.experiment_chips import ExperimentChips

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.model.ledger.ledger import ShapeLedger


class StatusLine(QWidget):
    """Facts on the left, what is going on at the right.

    Signals
    -------
    consistency_wanted(), changes_wanted()
        The check was pressed; all changes of the model are to be shown.
    """

    consistency_wanted = Signal()
    changes_wanted = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.facts = ElidedLabel()
        self.facts.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._checked = False
        self._outline: ShapeLedger | None = None
        self.check = QToolButton()
        self.check.setProperty("kind", "small")
        self.check.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.check.clicked.connect(self.consistency_wanted)
        self.what = plain_label("idle", "subtitle")
        self.changes = ExperimentChips(session)
        self.changes.more_wanted.connect(self.changes_wanted)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("progress")
        self.cancel = QPushButton("Cancel")
        self.cancel.setProperty("kind", "small")
        self.cancel.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.cancel.setToolTip("Stop what is going on; what is on screen stays")
        self.cancel.clicked.connect(session.cancel)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(theme.GRID, 0, theme.GRID, 0)
        layout.setSpacing(2 * theme.GRID)
        layout.addWidget(self.facts, 1)
        for widget in (self.changes, self.check, self.what, self.bar, self.cancel):
            layout.addWidget(widget)
        session.model_changed.connect(self._on_model)
        session.run_changed.connect(self._on_run)
        session.consistency.check_changed.connect(self._on_check)
        session.progress_changed.connect(self._on_progress)
        for signal in (session.recovery.engine_ended, session.recovery.engine_back):
            signal.connect(self._show_facts)
        self._on_progress(None)
        self._on_check(session.consistency.check)
        self._show_facts()
        self.theme_changed()

    def show_message(self, what: str) -> None:
        """Say that something is done, until something else is going on."""
        self.what.setText(what)

    def show_outline(self, ledger: ShapeLedger | None) -> None:
        """Speak of a config alone while the panels do; None goes back to what is open."""
        self._outline = ledger
        self._show_facts()
        self._make_room()

    def theme_changed(self) -> None:
        """Take the sizes of the theme in use."""
        self.bar.setFixedSize(theme.current().grid(15), theme.current().grid(1))
        for button in (self.cancel, self.check):
            button.ensurePolished()
        heights = (self.cancel.sizeHint().height(), self.check.sizeHint().height())
        self.setMinimumHeight(max(heights))  # nothing moves when a job begins or ends, or a check arrives

    def _on_model(self, card: ModelCard) -> None:
        self._show_facts()

    def _on_run(self, before: Run | None, after: Run | None) -> None:
        self._show_facts()
        self._on_check(self._session.consistency.check)

    def _show_facts(self, *_: object) -> None:
        card, run, outline = self._session.model, self._session.run, self._outline
        parts = [] if self._session.engines.gone is None else ["no engine"]
        if outline is not None:
            size = f"{wording.byte_size(outline.model_weight_bytes)} weights, not loaded"
            parts += ["sizes alone", f"{wording.count(outline.model_parameters)} parameters", size]
            card = run = None
        model_handle = self._session.model_handle
        if card is not None and model_handle is not None and model_handle.origin is not None:
            file = Path(card.path).name
            parts += [
                wording.model_name(card.name),
                file if model_handle.origin.name else "a trace; its file does not say of which checkpoint",
            ]
            parts += ["no weights", card.dtype]
        elif card is not None:
            there = f" on {self._session.elsewhere}" if self._session.elsewhere else ""
            parts += [
                wording.model_name(card.name),
                *(["run by transformers"] if model_handle is not None and model_handle.via else []),
                f"{wording.count(card.parameters)} parameters",
                card.dtype,
                f"{card.device}{there}",
                f"{wording.byte_size(card.weight_bytes)} weights",
            ]
        if run is not None:
            parts.append(f"{wording.byte_size(run.trace_bytes)} trace")
        if run is not None and run.seconds:  # of a trace nobody knows
            what = f"prefill of {wording.counted(run.prefill, 'token')}" if run.newest == run.prefill else "last step"
            parts.append(f"{what} in {1000 * run.seconds:.0f} ms")
        self.facts.setText(" · ".join(parts))
        self.facts.setToolTip(wording.tooltip(self.facts.text()))

    def _on_check(self, check: ConsistencyCheck | None) -> None:
        run = self._session.run
        unproved = run is not None and check is None and not self._session.consistency.checks_itself
        self._checked = check is not None or unproved
        if check is not None:
            text, tone = verdict(check)
            tip = f"{conditions(check)} {origin(check)}".strip()
        else:
            text, tone = "cached = full: not proved", ""
            tip = self._session.why_not(*NEEDS["cached"]) or "This run is too large to be proved at every step."
        self.check.setText(text)
        self.check.setToolTip(wording.tooltip(f"{tip} Press for the proofs."))
        self.check.setProperty("tone", tone)
        self.check.style().unpolish(self.check)
        self.check.style().polish(self.check)
        self._make_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show what there is room for."""
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Let the check give way to what is going on where there is no room for both: the window must not grow."""
        going_on = [part for part in (self.changes, self.what, self.bar, self.cancel) if not part.isHidden()]
        parts = [part.minimumSizeHint().expandedTo(part.minimumSize()).width() for part in (*going_on, self.check)]
        room = self.width() - 2 * theme.GRID - 2 * theme.GRID * len(parts)
        shown = self._checked and self._outline is None
        self.check.setVisible(shown and (self.bar.isHidden() or sum(parts) <= room))

    def _on_progress(self, progress: JobProgress | None) -> None:
        busy = progress is not None
        self.bar.setVisible(busy)
        self.cancel.setVisible(progress is not None and progress.cancellable)
        self.what.setText("idle")
        if progress is not None:
            self.bar.setRange(0, progress.total)
            self.bar.setValue(progress.done)
            amount = f" {progress.done} of {progress.total}" if progress.total else ""
            self.what.setText(f"{progress.what}{amount}")
        self._make_room()


class Strip(QFrame):
    """One sentence over the bottom of the window, its details folded.

    Attributes
    ----------
    is_failure
        Whether it says what went wrong; else it says what is going on, and has other colours.

    Signals
    -------
    resized()
        It needs another height, or its place is free.
    """

    resized = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.is_failure = True
        self.setObjectName("strip")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.sentence = plain_label("", "body")
        self.details = plain_label("", "number")
        for label in (self.sentence, self.details):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.unfold = QToolButton()
        self.unfold.setText("details")
        self.unfold.setToolTip("Show what the program itself said of it, for a report")
        self.unfold.setCheckable(True)
        self.unfold.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.unfold.toggled.connect(self._on_unfold)
        self.row = QHBoxLayout()
        self.row.addWidget(self.sentence, 1)
        self.row.addWidget(self.unfold, 0, Qt.AlignmentFlag.AlignTop)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(2 * theme.GRID, theme.GRID, theme.GRID, theme.GRID)
        self.column.addLayout(self.row)
        self.column.addWidget(self.details)
        self.theme_changed()
        self.hide()

    def say(self, sentence: str, details: str, *, is_failure: bool = True) -> None:
        """Show a sentence in the place of the one before."""
        self.is_failure = is_failure
        self.theme_changed()
        self.sentence.setText(sentence)
        self.details.setText(details)
        self.unfold.setVisible(bool(details))
        self.unfold.setChecked(False)
        self.details.hide()
        self.setAccessibleName(sentence)
        self.show()
        self.raise_()
        self.resized.emit()

    def wanted_height(self, width: int) -> int:
        """Height that the words need in a width."""
        return max(self.column.heightForWidth(width), self.column.minimumSize().height())

    def theme_changed(self) -> None:
        """Take the colours of the theme in use."""
        now = theme.current()
        edge = (now.bad if self.is_failure else now.accent).name()
        self.setStyleSheet(
            f"#strip {{ background: {now.panel.name()}; border: 1px solid {edge};"
            f" border-left: {theme.GRID}px solid {edge}; border-radius: 4px; }}"
        )

    def hideEvent(self, event: QHideEvent) -> None:
        """Leave the place to others."""
        super().hideEvent(event)
        self.resized.emit()

    def _on_unfold(self, unfolded: bool) -> None:
        self.details.setVisible(unfolded)
        self.resized.emit()


class FailureStrip(Strip):
    """What went wrong, and what would work instead, until somebody closes it.

    Signals
    -------
    chosen(intervention)
        One of the offers under the sentence was taken.
    """

    chosen = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        self.close_button = QToolButton()
        self.close_button.setAccessibleName("close the message")
        self.close_button.setToolTip("Close the message (Esc)")
        self.close_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.offers = QWidget()
        self.offers.setAccessibleName("What would work instead")
        self._offer_row = FlowLayout(self.offers, theme.GRID)
        super().__init__(parent)
        self.close_button.clicked.connect(self.dismiss)
        self.row.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        self.column.insertWidget(1, self.offers)

    def show_message(self, sentence: str, details: str) -> None:
        """Show a failure; a newer one takes the place of an older one."""
        self.withdraw()
        self.say(sentence, details)

    def show_notice(self, sentence: str) -> None:
        """Say what happened, without anything having gone wrong."""
        self.withdraw()
        self.say(sentence, "", is_failure=False)

    def end_notice(self, *_: object) -> None:
        """Close what was only a notice: the run that it was about has gone on."""
        if not self.is_failure:
            self.dismiss()

    def offer(self, interventions: tuple[Intervention, ...]) -> None:
        """Offer what the refused run could be done with, under the sentence."""
        for intervention in interventions:
            button = QPushButton(intervention.label)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.setToolTip(wording.tooltip(f"Run it with {intervention.label}, until that is taken out again."))
            button.clicked.connect(lambda _=False, intervention=intervention: self._choose(intervention))
            self._offer_row.addWidget(button)
        self.offers.setVisible(bool(interventions))
        self.resized.emit()

    @property
    def offered(self) -> tuple[QPushButton, ...]:
        """The offers on screen."""
        return tuple(button for button in self.offers.findChildren(QPushButton) if not button.isHidden())

    def _choose(self, intervention: Intervention) -> None:
        self.dismiss()
        self.chosen.emit(intervention)

    def withdraw(self, *_: object) -> None:
        """Offer nothing any more, as when another model is open."""
        while (item := self._offer_row.takeAt(0)) is not None:
            button = item.widget()
            if button is not None:
                button.hide()
                button.deleteLater()
        self.offers.hide()

    def dismiss(self) -> None:
        """Close the message."""
        self.withdraw()
        self.hide()

    def theme_changed(self) -> None:
        """Take the colours of the theme in use."""
        super().theme_changed()
        self.close_button.setIcon(icons.icon("close"))
        self.close_button.setIconSize(QSize(icons.side(), icons.side()))
