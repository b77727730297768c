"""What the panels of a survey share: they show what the session's surveys have open, whatever run is on screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QSizePolicy, QWidget

from ropewalk.model.survey.records import SurveyedStatistic
from ropewalk.views.panels.panel import Panel
from ropewalk.views.style import wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.app.session.surveys import Surveys

NO_SURVEY = "No survey is open."
READING = "Reading the survey …"
LETTERS = 11
"""Letters of a statistic's title that are always seen; the whole titles are in the list that falls down."""


class SurveyPanel(Panel):
    """Base of them: a subclass overrides :meth:`show_survey`, and what else of it changes by itself."""

    follows_run: ClassVar[bool] = False

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.explain(NO_SURVEY)
        surveys = session.surveys
        surveys.changed.connect(self.refresh)
        surveys.chosen.connect(self._on_chosen)
        surveys.head_read.connect(self._on_read)
        session.jobs.settled.connect(self._on_settled)

    @property
    def surveys(self) -> Surveys:
        """What is open."""
        return self.session.surveys

    # What a subclass overrides ----------------------------------------------------------------------------------------

    def show_survey(self) -> None:
        """Draw a survey, its statistic and its head."""

    def show_choice(self) -> None:
        """Draw another statistic or head, or other heads of the lasso."""
        self.show_survey()

    def show_read(self) -> None:
        """Draw what there is of the chosen head."""

    @property
    def figure_lines(self) -> tuple[tuple[str, str], ...]:
        """Which survey it is of."""
        return survey_lines(self.surveys)

    # How it works -----------------------------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """A picture here is of no run."""
        return self.surveys.now is not None

    @property
    def settled(self) -> bool:
        """Whether everything has been read and drawn."""
        return not self._stale and not self.surveys.busy

    def _ask(self) -> None:
        if self._closed:
            return
        self._stale = False
        if self.surveys.now is None:
            self.describe("")
            self.explain(READING if self.surveys.open_bundled() else NO_SURVEY)
        else:
            self.explain("")
            self.draws += 1
            self.show_survey()
            self.show_read()
        self.drawn.emit()

    def _on_chosen(self) -> None:
        if self.surveys.now is None or not self.on_screen:
            self._stale = True
        else:
            self.show_choice()

    def _on_read(self) -> None:
        if self.surveys.now is None or not self.on_screen:
            self._stale = True
        else:
            self.show_read()
            self.drawn.emit()

    def _on_settled(self) -> None:
        """Say that there is none, where one could not be read."""
        if self.surveys.now is None and self.on_screen and not self._closed:
            self.refresh()


def survey_lines(surveys: Surveys) -> tuple[tuple[str, str], ...]:
    """What a file says of the survey that is shown, as (name, text)."""
    now, other, statistic = surveys.now, surveys.other, surveys.titled(surveys.statistic)
    if now is None:
        return ()
    texts = f"{now.texts:,} of {now.wanted:,}" + (f", {now.source}" if now.source else "")
    lines = [("Model", wording.model_name(now.model)), ("Fingerprint", now.fingerprint), ("Texts", texts)]
    lines += [("Survey", now.folder), ("Statistic", told(statistic)), ("Head", wording.head_name(*surveys.head))]
    if other is not None:
        lines += [("Compared with", f"{other.model}, {other.folder}"), ("Compared model", other.fingerprint)]
    if surveys.series is not None:
        lines.append(("Step", str(surveys.series.steps[surveys.step])))
    return tuple((name, text) for name, text in lines if text)


class StatisticBox(QComboBox):
    """Chooses a statistic, by its title; its formula and how many texts it is of are in the tooltip.

    Signals
    -------
    wanted(name)
        A person chose one.
    """

    wanted = Signal(str)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setToolTip(name)  # until one is offered
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setMinimumContentsLength(LETTERS)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._offered: Sequence[SurveyedStatistic] = ()
        self.activated.connect(lambda: self.wanted.emit(str(self.currentData())))

    def offer(self, statistics: Sequence[SurveyedStatistic], chosen: str) -> None:
        """Offer these, and show which one is chosen."""
        if statistics != self._offered:
            self._offered = statistics
            self.clear()
            for one in statistics:
                self.addItem(one.title if one.count else f"{one.title} (no text has it)", one.name)
                self.setItemData(self.count() - 1, wording.tooltip(told(one)), Qt.ItemDataRole.ToolTipRole)
        place = self.findData(chosen)
        self.setCurrentIndex(place)
        if place >= 0:
            self.setToolTip(wording.tooltip(told(statistics[place])))


def told(statistic: SurveyedStatistic) -> str:
    """A statistic's formula, and how many texts it is of."""
    formula = f"{statistic.title}: {statistic.formula}" if statistic.formula else statistic.title
    return f"{formula} · n = {wording.counted(statistic.count, 'text')}"
