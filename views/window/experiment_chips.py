"""What is changed in the model, as a row of chips in the bar: there in every workspace, and gone with the changes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from ropewalk.model.decoder.interventions import Intervention
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
        self.more.setToolTip("Show every change, in Experiments.")
        self.more.clicked.connect(self.more_wanted)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(theme.GRID)
        self._row.addWidget(self.more)
        self._row.addStretch(1)
        session.interventions.changed.connect(self._show)
        self._show(session.interventions.now)

    def _show(self, interventions: tuple[Intervention, ...]) -> None:
        for chip in self.chips:
            self._row.removeWidget(chip)
            chip.hide()
            chip.deleteLater()
        self.chips = [self._chip(intervention) for intervention in interventions]
        for place, chip in enumerate(self.chips):
            self._row.insertWidget(place, chip)
        self.setVisible(bool(self.chips))
        self.fit()

    def _chip(self, intervention: Intervention) -> QPushButton:
        chip = QPushButton(f"{intervention.label}  ×".replace("&", "&&"))
        chip.setCheckable(True)
        chip.setChecked(True)
        chip.setToolTip(wording.tooltip(f"The model runs with “{intervention.label}”; a click takes it out."))
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
        self.more.setText(f"{len(wide) - shown} more")
        self.more.setVisible(shown < len(wide))

    def _more_width(self) -> int:
        return self.more.sizeHint().width() + 2 * theme.GRID

    def minimumSizeHint(self) -> QSize:
        """As narrow as the bar has to be."""
        return QSize(0, self.more.sizeHint().height())

    def sizeHint(self) -> QSize:
        """One row."""
        return self.minimumSizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show as many as fit."""
        super().resizeEvent(event)
        self.fit()
