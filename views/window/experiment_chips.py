"""What is changed in the model, as a row of chips: there in every workspace, and gone with the changes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from ropewalk.model.decoder.interventions import Intervention, RopeScaling
from ropewalk.views.panels.panel import CHANGES, offer
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


class ExperimentChips(QWidget):
    """A chip for every intervention that there is room for, and how many more there are.

    Signals
    -------
    more_wanted()
        The person asked for all of them.
    """

    more_wanted = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.setAccessibleName("What is changed in the model")
        self.chips: list[QPushButton] = []
        self.more = QPushButton()
        self.more.setProperty("kind", "small")
        self.more.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.more.clicked.connect(self.more_wanted)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(theme.GRID)
        self._row.addWidget(self.more)
        session.interventions.changed.connect(self._show)
        session.run_changed.connect(self._offer)
        self._show(session.interventions.now)

    def _show(self, interventions: tuple[Intervention, ...]) -> None:
        for chip in self.chips:
            self._row.removeWidget(chip)
            chip.hide()
            chip.deleteLater()
        self.chips = [self._chip(intervention) for intervention in interventions]
        for place, chip in enumerate(self.chips):
            self._row.insertWidget(place, chip)
        self._offer()
        self.setVisible(bool(self.chips))
        self.updateGeometry()
        self.fit()

    def _offer(self, *_: object) -> None:
        """Let a change be taken out where the model can be run without it."""
        for chip, intervention in zip(self.chips, self._session.interventions.now, strict=False):
            tip = f"The model runs with “{intervention.label}”; a click takes it out."
            if isinstance(intervention, RopeScaling):
                tip += " It gives this run more positions than the model was trained on."
            offer(chip, self._session, tip, *CHANGES)

    def _chip(self, intervention: Intervention) -> QPushButton:
        chip = QPushButton(f"{intervention.label}  ×".replace("&", "&&"))
        chip.setProperty("kind", "small")
        chip.setCheckable(True)
        chip.setChecked(True)
        chip.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        chip.setAccessibleName(f"Take out: {intervention.label}")
        chip.clicked.connect(partial(self._take_out, intervention))
        return chip

    def _take_out(self, intervention: Intervention) -> None:
        others = [other for other in self._session.interventions.wanted if other != intervention]
        self._session.interventions.apply(others)

    def fit(self) -> None:
        """Show the chips that fit, and the number of the others."""
        room, shown = self.width(), len(self.chips)
        wide = [chip.sizeHint().width() + theme.GRID for chip in self.chips]
        while shown > 0 and sum(wide[:shown]) + (self._more_width() if shown < len(wide) else 0) > room:
            shown -= 1
        for place, chip in enumerate(self.chips):
            chip.setVisible(place < shown)
        rest = ", ".join(one.label for one in self._session.interventions.now[shown:])
        self.more.setText(f"+{len(wide) - shown} more")
        self.more.setToolTip(wording.tooltip(f"Also: {rest}; press to see every change, in Experiments."))
        self.more.setVisible(shown < len(wide))

    def _more_width(self) -> int:
        return self.more.sizeHint().width() + 2 * theme.GRID

    def minimumSizeHint(self) -> QSize:
        """Room for their number."""
        return QSize(self._more_width(), self.more.sizeHint().height())

    def sizeHint(self) -> QSize:
        """Room for all of them."""
        wide = sum(chip.sizeHint().width() + theme.GRID for chip in self.chips)
        return self.minimumSizeHint().expandedTo(QSize(wide, 0))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show as many as fit."""
        super().resizeEvent(event)
        self.fit()
