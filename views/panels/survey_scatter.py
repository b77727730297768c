"""Two statistics of a survey against each other: each dot is a head, and a line drawn around some chooses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from PySide6.QtWidgets import QVBoxLayout, QWidget

from ropewalk.views.panels.panel import Mark, plain_label
from ropewalk.views.panels.survey_panel import StatisticBox, SurveyPanel
from ropewalk.views.plots.survey.scatter_plot import ScatterPlot
from ropewalk.views.style import wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session


class SurveyScatterPanel(SurveyPanel):
    """Every head by two numbers."""

    name: ClassVar[str] = "survey_scatter"
    title: ClassVar[str] = "Scatter"
    legend: ClassVar[tuple[Mark, ...]] = (Mark("outline", "accent", "chosen head"),)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.plot = ScatterPlot()
        self._shown = "", ""
        self.plot.setToolTip("Each dot is a head. Click one to choose it; drag around some to see them in the table.")
        self.hear(self.plot.picked, self._pick)
        self.hear(self.plot.lassoed, self._lasso)
        self.hear(self.plot.pointed, lambda place: session.surveys.pointed.emit(*self._head_of(place)))
        session.surveys.pointed.connect(self._point)
        self.up, self.across = StatisticBox("Statistic that goes up"), StatisticBox("Statistic that goes across")
        self.up.wanted.connect(session.surveys.choose_statistic)
        self.across.wanted.connect(session.surveys.choose_across)
        self.versus = plain_label("over", "label")
        for widget in (self.up, self.versus, self.across):
            self.head_row.addWidget(widget)
        self.with_body = (self.up, self.versus, self.across)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.plot)

    def show_survey(self) -> None:
        """Draw the dots."""
        surveys = self.surveys
        layers, heads = surveys.shape
        self._shown = surveys.across, surveys.statistic
        self.up.offer(surveys.statistics, surveys.statistic)
        self.across.offer(surveys.statistics, surveys.across)
        names = [wording.head_name(layer, head) for layer in range(layers) for head in range(heads)]
        titles = [surveys.titled(name).title for name in (surveys.across, surveys.statistic)]
        if surveys.other is not None:
            titles = [f"{title}, B − A" for title in titles]
        xs, ys = (surveys.means(name).ravel() for name in (surveys.across, surveys.statistic))
        self.plot.show_heads(names, xs, ys, *titles)
        self._mark()

    def show_choice(self) -> None:
        """Draw other statistics, or mark another head or others of the lasso."""
        if self._shown != (self.surveys.across, self.surveys.statistic):
            self.show_survey()
        else:
            self._mark()

    def _mark(self) -> None:
        surveys, across = self.surveys, self.surveys.shape[1]
        self.plot.mark(surveys.head[0] * across + surveys.head[1])
        self.plot.choose([layer * across + head for layer, head in surveys.lasso])
        chosen = f"{wording.counted(len(surveys.lasso), 'head')} chosen · " if surveys.lasso else ""
        self.describe(f"{chosen}each dot a head · a drag around some selects")

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        self.plot.theme_changed()

    def _head_of(self, place: int) -> tuple[int, int]:
        return divmod(place, self.surveys.shape[1]) if place >= 0 else (-1, -1)

    def _pick(self, place: int) -> None:
        self.surveys.choose_head(*self._head_of(place))

    def _lasso(self, places: list[int]) -> None:
        self.surveys.choose_heads(frozenset(map(self._head_of, places)))

    def _point(self, layer: int, head: int) -> None:
        """Mark the head that is pointed at in the map."""
        self.plot.point(layer * self.surveys.shape[1] + head if layer >= 0 else -1)
