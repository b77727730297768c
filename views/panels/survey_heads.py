"""A survey's statistic of every head as a map; what of it is shown, compared, played and run is chosen here."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QProgressBar, QPushButton, QToolButton, QVBoxLayout, QWidget

from ropewalk.app.jobs import JobProgress
from ropewalk.app.session.surveys import SIGNIFICANT
from ropewalk.app.survey_folders import BUNDLED
from ropewalk.model.survey.records import SurveyOverview
from ropewalk.views import keys
from ropewalk.views.panels.panel import ElidedLabel, Mark, TwoLineLabel
from ropewalk.views.panels.survey_panel import StatisticBox, SurveyPanel, told
from ropewalk.views.plots.film_bar import FilmBar
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.plots.survey.statistic_map import StatisticMap
from ropewalk.views.style import theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

LARGEST = 400
"""Side of the largest cell: a model of few heads fills its panel, too."""
ROOMY = 16
"""Lines of text that a panel is high from which on the formula under its map has two of them."""
NOTHING = "A survey measures every head over many texts. Open one, or run one of the model that is open."


class SurveyHeadsPanel(SurveyPanel):
    """The map: click or arrows choose a head.

    Signals
    -------
    open_wanted(), compare_wanted(), run_wanted()
        A person wants to open a survey, to compare this one with another, to run one.
    """

    name: ClassVar[str] = "survey_heads"
    title: ClassVar[str] = "Surveyed heads"
    legend: ClassVar[tuple[Mark, ...]] = (Mark("outline", "accent", "chosen head"),)
    open_wanted = Signal()
    compare_wanted = Signal()
    run_wanted = Signal()

    INTERVAL = 400
    """Milliseconds between two surveys of a series that is played."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.map = StatisticMap()
        self.map.form.largest = LARGEST
        self._shown = ""
        self._filmed: object = None
        self.hear(self.map.chosen, session.surveys.choose_head)
        self.map.entered.connect(session.surveys.pointed)
        session.surveys.pointed.connect(self.map.point)
        self.statistic = StatisticBox("Statistic of the heads")
        self.statistic.wanted.connect(session.surveys.choose_statistic)
        self.more = QToolButton()
        self.more.setText("Survey ▾")
        self.more.setToolTip("Open a survey, run one, or compare this one with another")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.menu = QMenu(self)
        self.more.setMenu(self.menu)
        self.menu.aboutToShow.connect(self._fill)
        self.head_row.addWidget(self.statistic)
        self.head_row.addWidget(self.more)
        self.with_body = (self.statistic, self.more)
        self.surveyed, self.formula = ElidedLabel(), TwoLineLabel()
        self.film = FilmBar("Survey of the series", "Which survey of the series is shown")
        self.film.timer.setInterval(self.INTERVAL)
        self.film.play_button.setToolTip("Play the surveys of the series, one after the other")
        self.film.moved.connect(session.surveys.step_to)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.GRID // 2)
        layout.addWidget(self.map, 1)
        layout.addWidget(self.surveyed)
        layout.addWidget(self.formula)
        layout.addWidget(self.film)
        self._make_start()
        self._make_run()
        self.explain(NOTHING)
        self._show_run(None)

    def _make_start(self) -> None:
        """What is offered where no survey is open."""
        self.start = QWidget()
        self.open_button, self.run_button = QPushButton("Open a survey…"), QPushButton("Run a survey…")
        self.open_button.setToolTip(f"{keys.tip('open_survey')}: its folder, or one that holds several")
        self.run_button.setToolTip(f"{keys.tip('run_survey')}: texts through the model that is open")
        self.open_button.clicked.connect(self.open_wanted)
        self.run_button.clicked.connect(self.run_wanted)
        row = QHBoxLayout(self.start)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self.open_button)
        row.addWidget(self.run_button)
        row.addStretch(1)
        outer = self.layout()
        assert isinstance(outer, QVBoxLayout)
        outer.addWidget(self.start, 1, Qt.AlignmentFlag.AlignTop)

    def _make_run(self) -> None:
        """How far the survey that runs is, and what is done with one that was stopped."""
        self.running = QWidget()
        self.run_label = ElidedLabel()
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("progress of the survey")
        self.bar.setFixedHeight(theme.current().grid(1))
        self.stop_button, self.go_on_button = QPushButton("Stop"), QPushButton("Go on with it")
        self.show_button = QPushButton("Open it")
        self.show_button.setToolTip("Show the survey that is complete, in the place of this one")
        self.show_button.clicked.connect(lambda: self.surveys.open(self.surveys.finished))
        self.stop_button.setToolTip("Stop the survey; what was finished of it stays, and it goes on from there")
        self.stop_button.clicked.connect(self.session.surveys.stop)
        self.go_on_button.setToolTip("Run the texts that are left, with the same settings")
        self.go_on_button.clicked.connect(self.session.surveys.go_on)
        row = QHBoxLayout(self.running)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.run_label, 2)
        row.addWidget(self.bar, 1)
        row.addWidget(self.stop_button)
        row.addWidget(self.go_on_button)
        row.addWidget(self.show_button)
        outer = self.layout()
        assert isinstance(outer, QVBoxLayout)
        outer.addWidget(self.running)
        self.session.surveys.progress.connect(self._show_run)
        self.session.surveys.running_changed.connect(partial(self._show_run, None))

    def _fill(self) -> None:
        """Fill the menu with what can be done now."""
        surveys = self.surveys
        self.menu.clear()
        self.menu.addAction("Open a survey…").triggered.connect(self.open_wanted)
        self.menu.addAction("Run a survey…").triggered.connect(self.run_wanted)
        for name, (what, _) in BUNDLED.items():
            self.menu.addAction(f"Built-in model: {what}").triggered.connect(partial(self._open_bundled, name))
        self.menu.addSeparator()
        self.menu.addAction("Compare with another…").triggered.connect(self.compare_wanted)
        alone = self.menu.addAction("Compare no longer")
        alone.setEnabled(surveys.other is not None)
        alone.triggered.connect(surveys.compare_no_longer)
        if surveys.unfinished is not None and not surveys.is_running:
            self.menu.addAction("Go on with it").triggered.connect(surveys.go_on)
        self.menu.addSeparator()
        self.menu.addAction("Close the survey").triggered.connect(surveys.close_survey)

    def _open_bundled(self, name: str) -> None:
        self.surveys.open(str(BUNDLED[name][1]))

    # Panel ------------------------------------------------------------------------------------------------------------

    def explain(self, why: str, *, lacking: bool = False) -> None:
        """Offer what to do where no survey is open."""
        if hasattr(self, "start"):  # else the base is being made
            nothing = self.surveys.now is None
            self.start.setVisible(nothing and not self.surveys.busy)
            why = NOTHING if why and self.start.isVisibleTo(self) else why
            super().explain(why, lacking=lacking)
            self.notice.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom)
        else:
            super().explain(why, lacking=lacking)

    def show_survey(self) -> None:
        """Draw the map."""
        surveys, name = self.surveys, self.surveys.statistic
        statistic, values, errors = surveys.titled(name), surveys.means(name), surveys.errors(name)
        self._shown = name
        self.statistic.offer(surveys.statistics, name)
        adjusted, significant = surveys.adjusted(name), surveys.significant(name)
        if adjusted is not None and significant is not None:
            self.map.show_difference("B − A", values, errors, statistic.count, adjusted, significant)
        else:
            self.map.show_statistic("mean", values, errors, statistic.count)
            if (steps := surveys.of_series(name)) is not None:
                self.map.set_levels(_levels_of(steps))
        self.map.mark(*surveys.head)
        self.formula.setText(told(statistic))
        self.surveyed.setText(self._surveyed())
        self.describe(self._said())
        self._show_series()
        self._show_run(None)

    def _said(self) -> str:
        """What a head's number is, in words."""
        surveys, now = self.surveys, self.surveys.now
        assert now is not None
        texts = wording.counted(surveys.titled(surveys.statistic).count, "text")
        said = ["mean" if surveys.other is None else "B − A", texts]
        if surveys.other is None and surveys.series is not None:
            said.insert(1, f"after {surveys.series.steps[surveys.step]:,} steps")
        elif not now.complete:
            said.append(f"{now.texts:,} of {now.wanted:,} are finished")
        return " · ".join(said)

    @property
    def figure_caption(self) -> str:
        """Which statistic it is of, which stands in a box here, and what is compared."""
        said = [self.surveys.titled(self.surveys.statistic).title, self._said()]
        return f"{self.title}: {' · '.join([*said, self._surveyed()] if self.surveys.other is not None else said)}"

    def _surveyed(self) -> str:
        """Which survey it is, or which two are compared and how many heads differ."""
        now, other = self.surveys.now, self.surveys.other
        significant = self.surveys.significant(self.surveys.statistic)
        assert now is not None
        if other is None or significant is None:
            return wording.model_name(now.name)
        differ = f"{int(significant.sum()):,} of {significant.size:,} heads differ (q = {SIGNIFICANT:g})"
        return f"{differ} · A: {_named(now, other)}, B: {_named(other, now)}"

    def show_choice(self) -> None:
        """Draw another statistic, or mark another head."""
        if self._shown != self.surveys.statistic:
            self.show_survey()
        else:
            self.map.mark(*self.surveys.head)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the formula a second line where the map can spare it."""
        super().resizeEvent(event)
        self.formula.use_lines(2 if self.height() >= ROOMY * self.fontMetrics().height() else 1)

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        self.map.theme_changed()
        self.film.theme_changed()
        self.bar.setFixedHeight(theme.current().grid(1))

    def close_down(self) -> None:
        """Stop playing."""
        super().close_down()
        self.film.pause()

    # A series ---------------------------------------------------------------------------------------------------------

    def _show_series(self) -> None:
        series, step = self.surveys.series, self.surveys.step
        self.film.setVisible(series is not None)
        if series is None:
            self.film.pause()
        elif self._filmed is not series:
            self._filmed = series
            self.film.blockSignals(True)
            self.film.set_names([f"{one:,}" for one in series.steps])
            self.film.go(step)
            self.film.blockSignals(False)

    # One that runs ----------------------------------------------------------------------------------------------------

    def _show_run(self, progress: JobProgress | None) -> None:
        surveys = self.surveys
        runs, unfinished = surveys.is_running, surveys.unfinished
        finished = "" if runs else surveys.finished
        self.running.setVisible(runs or unfinished is not None or bool(finished))
        self.show_button.setVisible(bool(finished))
        for widget in (self.bar, self.stop_button):
            widget.setVisible(runs)
        self.go_on_button.setVisible(not runs and not finished)
        if runs and progress is not None:
            self.bar.setRange(0, progress.total)
            self.bar.setValue(progress.done)
            of = f": {progress.done:,} of {wording.counted(progress.total, 'text')}" if progress.total > 1 else " …"
            self.run_label.setText(f"{progress.what}{of}")
        elif runs:
            self.bar.setRange(0, 0)
            self.run_label.setText("Opening the model …")
        elif finished:
            self.run_label.setText(f"The survey in {Path(finished).name} is complete.")
        elif unfinished is not None:
            name = Path(unfinished.folder).name
            self.run_label.setText(f"The survey in {name} was stopped; it goes on where it was.")


def _named(one: SurveyOverview, other: SurveyOverview) -> str:
    """A survey by its model, or by its folder where both are of one that is called alike."""
    return Path(one.folder).name if one.model == other.model else wording.model_name(one.model)


def _levels_of(steps: np.ndarray) -> Levels:
    """One scale for all steps of a series, so that a film can be compared."""
    finite = steps[np.isfinite(steps)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    largest = max(abs(low), abs(high)) or 1.0
    return Levels(-largest, largest, "diverging") if low < 0 else Levels(0.0, largest)
