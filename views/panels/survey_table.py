"""The heads of a survey as a table, sorted by any column: all of them, or those that the lasso chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from ropewalk.views.panels.survey_panel import SurveyPanel
from ropewalk.views.plots.survey.error_table import ErrorTable
from ropewalk.views.style import wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


class SurveyTablePanel(SurveyPanel):
    """A row for each head: the statistic's mean, its standard error, n, and a bar."""

    name: ClassVar[str] = "survey_table"
    title: ClassVar[str] = "Table"

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.table = ErrorTable()
        self.hear(self.table.picked, self._pick)
        self.all_button = QPushButton("all heads")
        self.all_button.setToolTip("Show all heads again, not only those that the lasso chose")
        self.all_button.clicked.connect(lambda: session.surveys.choose_heads(frozenset()))
        self.head_row.addWidget(self.all_button)
        self.with_body = (self.all_button,)
        self._places: list[tuple[int, int]] = []
        self._shown: tuple[object, ...] = ()
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.table)

    def show_survey(self) -> None:
        """List the heads."""
        surveys, name = self.surveys, self.surveys.statistic
        statistic, (layers, heads) = surveys.titled(name), surveys.shape
        self._shown = name, surveys.lasso
        self._places = sorted(surveys.lasso) or [(layer, head) for layer in range(layers) for head in range(heads)]
        chosen = np.array([layer * heads + head for layer, head in self._places], np.intp)
        names = [wording.head_name(*place) for place in self._places]
        differs = surveys.other is not None
        means, errors = (numbers.ravel()[chosen] for numbers in (surveys.means(name), surveys.errors(name)))
        self.table.show_heads(names, means, errors, statistic.count, "difference" if differs else "mean")
        self.all_button.setVisible(bool(surveys.lasso))
        of = f"{len(self._places):,} of {layers * heads:,} heads" if surveys.lasso else "all heads"
        what = "B − A ± standard error" if differs else "mean ± standard error"
        self.describe(f"{statistic.title} · {what} · {of}")
        self._mark()

    def show_choice(self) -> None:
        """List by another statistic or other heads, or mark another head."""
        if self._shown != (self.surveys.statistic, self.surveys.lasso):
            self.show_survey()
        else:
            self._mark()

    def _mark(self) -> None:
        head = self.surveys.head
        self.table.mark(self._places.index(head) if head in self._places else -1)

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        self.table.theme_changed()

    def _pick(self, place: int) -> None:
        self.surveys.choose_head(*self._places[place])
