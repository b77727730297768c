"""Surveys in a window: one that is open, another that it is compared with, a series of them, and one that runs.

A survey's folder may be a stranger's and large, so it is read in a process of its own, which keeps it while it is
looked at; one that runs has another, so that the engine stays free. Nothing here needs a model to be open.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from ropewalk.app.address import head_name
from ropewalk.app.engine.connection import Call, CallFailed, Calls, Connect, Connection, Ended, Handle
from ropewalk.app.engine.short_lived import of_its_own
from ropewalk.app.survey_folders import BUNDLED, surveys_in
from ropewalk.model.engine.requests import (
    CompareSurveys,
    Failure,
    ListStatistics,
    OpenedSurveyFolder,
    OpenSurvey,
    ReadSeries,
    ReadSurveyHead,
    RunSurvey,
)
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.readings.records import Bools, Doubles
from ropewalk.model.survey.records import (
    SeriesOverview,
    SurveyDifference,
    SurveyedStatistic,
    SurveyExample,
    SurveyHead,
    SurveyOverview,
)
from ropewalk.model.tokens.prompt import Prompt

if TYPE_CHECKING:
    from ropewalk.app.engine.remote import RemoteEngine
    from ropewalk.app.engine.short_lived import ShortLived
    from ropewalk.app.jobs import Jobs
    from ropewalk.app.session.context import SessionContext
    from ropewalk.app.session.selected import Selection
    from ropewalk.app.session.state import Scenes, SessionState
    from ropewalk.model.readings.records import ModelCard, Run

Heads: TypeAlias = frozenset[tuple[int, int]]

FIRST = ("pairs", "induction", "duplicate", "previous")
"""What is looked at first, where a survey has it; the second stands across in the scatter."""
SIGNIFICANT = 0.05
"""The share of false ones among the heads that are said to differ."""
PAUSE_MS = 250
"""After which the survey of a step is opened, where a slider has come to rest."""
JOBS = ("survey", "survey head", "survey model")
OPEN = ("_opened", "_other", "difference", "series", "step", "statistic", "across", "head", "lasso", "_surveyed")
"""The attributes that say what is open, and what of it is chosen."""


@dataclass(frozen=True, eq=False)
class OpenedFolder:
    """A survey that a process keeps."""

    handle: Handle
    overview: SurveyOverview


@dataclass(frozen=True)
class Visit:
    """An example that was opened in the panels of runs, and the run that was on screen before."""

    example: SurveyExample
    head: tuple[int, int]
    run_id: int
    before: SessionState | None


class Surveys(QObject):
    """What the workspace of surveys shows.

    Parameters
    ----------
    connect
        Starts the process that reads, as the child of a Qt object.
    local, runs
        Where a survey runs, and its jobs.

    Signals
    -------
    changed()
        Another survey, another comparison or another step: all of it is drawn anew.
    chosen()
        Another statistic or head, or other heads of the lasso.
    pointed(layer, head)
        The pointer is over a head in one of the pictures; −1 and −1 when it left.
    head_read()
        What there is of the chosen head has come.
    running_changed()
        A survey was begun, or has ended.
    progress(progress)
        How far the survey that runs is: a ``JobProgress``, or None.
    visited(visit), returned()
        An example stands in the panels of runs; a person wants the survey again.
    """

    changed = Signal()
    chosen = Signal()
    pointed = Signal(int, int)
    head_read = Signal()
    running_changed = Signal()
    visited = Signal(object)
    returned = Signal()

    def __init__(
        self,
        session: SessionContext,
        connect: Connect,
        local: ShortLived,
        runs: Jobs,
        scenes: Scenes,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._connect, self._local, self._runs, self._scenes = session, connect, local, runs, scenes
        self._reader: Connection | None = None
        self._opened: OpenedFolder | None = None
        self._other: OpenedFolder | None = None
        self.difference: SurveyDifference | None = None
        self.series: SeriesOverview | None = None
        self.step = 0
        """Which survey of the series is shown."""
        self.statistic, self.across = "", ""
        """What is mapped, sorted by and shown examples of, and what stands across in the scatter."""
        self.head = (0, 0)
        self._surveyed: tuple[object, ...] = ()
        """The model whose head is chosen."""
        self.lasso: Heads = frozenset()
        self.read: SurveyHead | None = None
        """What there is of the chosen head, None until it has come."""
        self.visit: Visit | None = None
        self.first_sight = True
        """Whether the survey that comes along is still to be opened where none is."""
        self._put_by: dict[str, Any] = {}
        """What was open before a lesson showed a survey; nothing where none does."""
        self._lent: Path | None = None
        """The survey that a lesson shows, or has asked for."""
        self._stopped: RunSurvey | None = None
        """What runs, or has run and did not come to its end."""
        self.finished = ""
        """The folder of a survey that has run and was not opened yet, for another one is looked at."""
        self.is_model: bool | None = None
        """Whether the open model is the one that was surveyed; None until that is known."""
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(PAUSE_MS)
        self._rest.timeout.connect(self._open_step)
        self._runs.settled.connect(self.running_changed)
        self.progress = self._runs.progress_changed
        session.selection.changed.connect(self._on_selection)

    # What is open -----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> SurveyOverview | None:
        """The survey that is open."""
        return None if self._opened is None else self._opened.overview

    @property
    def other(self) -> SurveyOverview | None:
        """The survey that is compared with it."""
        return None if self._other is None else self._other.overview

    @property
    def busy(self) -> bool:
        """Whether something of a survey is still to be read."""
        return any(self._session.jobs.has(slot) for slot in JOBS) or self._rest.isActive()

    @property
    def statistics(self) -> tuple[SurveyedStatistic, ...]:
        """What can be chosen of what is shown."""
        shown = self.difference or self.series or self.now
        return () if shown is None else shown.statistics

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        return (0, 0) if self.now is None else self.now.shape

    def titled(self, statistic: str) -> SurveyedStatistic:
        """A statistic with its title and formula."""
        return next(
            (one for one in self.statistics if one.name == statistic), SurveyedStatistic(statistic, statistic, "")
        )

    def means(self, statistic: str) -> Doubles:
        """[L, H] what is shown of a statistic: the mean, or how much that of the second survey differs."""
        return self._shown(statistic, 0)

    def errors(self, statistic: str) -> Doubles:
        """[L, H] its standard error."""
        return self._shown(statistic, 1)

    def adjusted(self, statistic: str) -> Doubles | None:
        """[L, H] the p of a difference, after Benjamini and Hochberg; None where one survey is shown."""
        return None if self.difference is None else self.difference.adjusted[self._place(statistic)]

    def significant(self, statistic: str) -> Bools | None:
        """[L, H] which heads differ between two surveys; None where one is shown."""
        adjusted = self.adjusted(statistic)
        return None if adjusted is None else adjusted <= SIGNIFICANT

    def of_series(self, statistic: str) -> Doubles | None:
        """[S, L, H] the means of a statistic at all steps of a series."""
        if self.series is None or self.difference is not None:
            return None
        found: Doubles = self.series.mean[:, self._place(statistic)]
        return found

    def _place(self, statistic: str) -> int:
        return next(at for at, one in enumerate(self.statistics) if one.name == statistic)

    def _shown(self, statistic: str, part: int) -> Doubles:
        at = self._place(statistic)
        found: Doubles
        if self.difference is not None:
            found = (self.difference.difference, self.difference.error)[part][at]
        elif self.series is not None:
            found = (self.series.mean, self.series.error)[part][self.step, at]
        else:
            assert self.now is not None
            found = (self.now.mean, self.now.error)[part][at]
        return found

    # What a person does -----------------------------------------------------------------------------------------------

    def open(self, *paths: str) -> None:
        """Open a survey's folder; several, or one that holds several, are a series, of which the last is shown."""
        self.finished = ""
        self._put_by, self._lent = {}, None
        folders = [folder for path in paths for folder in surveys_in(path) or (path,)]
        if len(folders) == 1:
            self._submit("survey", self._opening(folders[0]), self._take, f"Reading {Path(folders[0]).name}")
        elif folders:
            self._submit("survey", self._opening_series(folders), self._take_series, "Reading the surveys")

    def open_bundled(self) -> bool:
        """Open the survey that comes with Ropewalk, once, where none is open; says whether one is or will be there."""
        if self.first_sight and self.now is None and not self._session.jobs.has("survey"):
            self.first_sight = False
            self.open(str(next(folder for _, folder in BUNDLED.values())))
        return self.now is not None or self._session.jobs.has("survey")

    def compare(self, folder: str) -> None:
        """Show how a second survey of the same texts differs from the one that is open."""
        if self._opened is None:
            self.open(folder)
            return
        self._submit("survey", self._comparing(self._opened, folder), self._take_comparison, "Comparing the surveys")

    def compare_no_longer(self) -> None:
        """Show the survey by itself."""
        if self._other is not None:
            self._other = self.difference = None
            self._show()

    def choose_statistic(self, statistic: str) -> None:
        """Look at another statistic."""
        if statistic != self.statistic and any(one.name == statistic for one in self.statistics):
            if statistic == self.across:  # else every dot would stand on one line
                self.across = self.statistic
            self.statistic, self.read = statistic, None
            self.chosen.emit()
            self._read_head()

    def choose_across(self, statistic: str) -> None:
        """Have another statistic across in the scatter."""
        if statistic != self.across and any(one.name == statistic for one in self.statistics):
            self.across = statistic
            self.chosen.emit()

    def choose_head(self, layer: int, head: int) -> None:
        """Look at a head; the panels of runs do too, where the open model is the one that was surveyed."""
        layers, heads = self.shape
        if (layer, head) == self.head or not (0 <= layer < layers and 0 <= head < heads):
            return
        self._point(layer, head)
        if self.is_model:
            self._session.selection.update(layer=layer, head=head)

    def choose_heads(self, heads: Heads) -> None:
        """Let the table have these heads alone; none are all."""
        if heads != self.lasso:
            self.lasso = heads
            self.chosen.emit()

    def step_to(self, step: int) -> None:
        """Show another survey of the series."""
        if self.series is not None and step != self.step and 0 <= step < len(self.series.steps):
            for slot in ("survey", "survey head"):  # what is on its way is of another step
                self._session.jobs.cancel(slot)
            self.step, self.read = step, None
            self._other = self.difference = None
            self._rest.start()
            self.changed.emit()

    def close_survey(self) -> None:
        """Have no survey open."""
        self.first_sight = False
        self._put_by, self._lent = {}, None
        for slot in JOBS:
            self._session.jobs.cancel(slot)
        self._rest.stop()
        self._opened = self._other = self.difference = self.series = self.read = self.is_model = None
        self.lasso, self.visit, self._surveyed = frozenset(), None, ()
        self.statistic = self.across = ""
        self.changed.emit()

    # In a lesson ------------------------------------------------------------------------------------------------------

    def lend(self, name: str, statistic: str, head: tuple[int, int] | None) -> None:
        """Show a survey that comes along, at a statistic and a head, until it is taken back."""
        folder = BUNDLED[name][1]
        if not self._put_by:
            self._put_by = {name: getattr(self, name) for name in OPEN}
            self.first_sight |= self.now is None and self._session.jobs.has("survey")  # which now never comes
        if self._lent == folder and self.now is not None and self.now.folder == str(folder) and not self.busy:
            self._choose(statistic, head)
            return

        def take(opened: OpenedFolder) -> None:
            self._take(opened)
            self._choose(statistic, head)

        self._lent = folder
        self._submit("survey", self._opening(str(folder)), take, f"Reading {BUNDLED[name][0]}")

    def take_back(self) -> None:
        """Show what was open before a lesson, unless a person opened another one meanwhile."""
        if not self._put_by:
            return
        for slot in JOBS:
            self._session.jobs.cancel(slot)
        self._rest.stop()
        vars(self).update(self._put_by)
        self._put_by, self._lent = {}, None
        self.visit = self.is_model = None
        if self.now is None:
            self.changed.emit()
        else:
            self._ask_model()
            self._show()

    def _choose(self, statistic: str, head: tuple[int, int] | None) -> None:
        self.choose_statistic(statistic)
        if head is not None:
            self.choose_head(*head)

    # An example in the panels of runs ---------------------------------------------------------------------------------

    def open_example(self, example: SurveyExample) -> None:
        """Run an example's text on the open model and select its cell, where that is the model that was surveyed."""
        now, model_handle = self.now, self._session.model_handle
        if now is None:
            return
        if not now.fingerprint:
            self._say("This survey does not say which checkpoint it is of, so its texts cannot be opened in one.")
        elif model_handle is None or model_handle.origin is not None:
            self._say(self._to_open(now))
        elif self.is_model is None:
            self._ask_model(lambda: self.open_example(example))
        elif not self.is_model:
            self._say(self._to_open(now))
        else:
            (layer, head), before = self.head, self._scenes.keep() if self.visit is None else self.visit.before
            place = {"layer": layer, "head": head, "query": example.query, "key": example.key}
            prompt = Prompt.of_ids(token.id for token in example.tokens)
            visit = Visit(example, self.head, 0, before)
            self._scenes.put(model_handle, prompt, select=place, arrived=lambda: self._on_visit(visit))

    def come_back(self) -> bool:
        """Show the survey again, and what was on screen before an example; says whether one was visited."""
        visit, self.visit = self.visit, None
        if visit is None:
            return False
        run = self._session.run
        if visit.before is not None and run is not None and run.run_id == visit.run_id:
            self._scenes.restore(visit.before)
            layer, head = self.head
            if self.is_model:
                self._session.selection.update(layer=layer, head=head)
        self.returned.emit()
        return True

    def _on_visit(self, visit: Visit) -> None:
        run = self._session.run
        assert run is not None
        self.visit = replace(visit, run_id=run.run_id)
        self.visited.emit(self.visit)

    @staticmethod
    def _to_open(now: SurveyOverview) -> str:
        named = f"{now.model} (fingerprint {now.fingerprint[:12]})"
        return f"This survey is of {named}, which is not open; open it (Ctrl+O), then click again."

    # Running one ------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether a survey runs."""
        return self._runs.has("survey")

    def run(self, asked: RunSurvey) -> None:
        """Run a survey in a process of its own, or go on with it where its folder has some of it."""
        self._session.settings.remember_survey(asked)
        self._stopped, self.finished = asked, ""
        self._runs.submit(
            "survey",
            Urgency.PREFILL,
            self._local.ask(asked),
            lambda texts: self._on_ran(asked),
            self._session.fail,
            what="Opening the model",
        )
        self.running_changed.emit()

    def stop(self) -> None:
        """End the survey that runs; what was committed stays, and the survey goes on from there."""
        self._runs.cancel("survey")

    def begun(self, folder: str) -> RunSurvey | None:
        """How the survey of a folder was begun here, to go on with it; None where it was elsewhere, or is complete."""
        if self.now is not None and self.now.folder == folder and self.now.complete:
            return None
        return next((one for one in self._session.settings.now.surveys if one.folder == folder), None)

    @property
    def unfinished(self) -> RunSurvey | None:
        """What can be gone on with: the survey that was stopped or did not end well, or the open one, begun here."""
        if self._stopped is not None or self.now is None or self.now.complete:
            return self._stopped
        return self.begun(self.now.folder)

    def go_on(self) -> None:
        """Run the texts that are left of it."""
        if (asked := self.unfinished) is not None and not self.is_running:
            self.run(asked)

    def list_statistics(self, answer: Any) -> None:
        """Say what can be measured."""
        self._session.jobs.submit(
            "survey statistics", Urgency.COARSE, self._asked(ListStatistics()), answer, self._session.fail
        )

    def _on_ran(self, asked: RunSurvey) -> None:
        self._stopped, now = None, self.now
        self._session.notice(f"The survey in {Path(asked.folder).name} is complete.")
        if now is None or now.folder == asked.folder:
            self.open(asked.folder)
        else:
            self.finished = asked.folder

    def close(self) -> None:
        """Ask nothing any more."""
        self._rest.stop()
        self._runs.close()

    # Reading ----------------------------------------------------------------------------------------------------------

    def _connection(self) -> Connection:
        """The process that reads surveys; another one where it has ended."""
        if self._reader is None or self._reader.gone is not None:
            self._reader = self._connect(self)
            self._reader.unheard.connect(self._reader.kill)
        return self._reader

    def _asked(self, request: Any, connection: Connection | None = None) -> Calls[Any]:
        """Ask that process, which goes once it keeps nothing."""
        connection = connection or self._connection()
        try:
            return (yield connection.asking(request))
        except CallFailed as error:
            raise CallFailed(of_its_own(error.failure)) from error
        finally:
            connection.retire()

    def _opening(self, folder: str) -> Calls[OpenedFolder]:
        connection = self._connection()
        try:
            opened: OpenedSurveyFolder = yield connection.asking(OpenSurvey(folder))
            return OpenedFolder(connection.keep(opened.number), opened.overview)
        except CallFailed as error:
            raise CallFailed(of_its_own(error.failure)) from error
        finally:
            connection.retire()

    def _again(self, opened: OpenedFolder) -> Calls[OpenedFolder]:
        """The same survey, opened again where the process that kept it has ended."""
        if opened.handle.connection.gone is None:
            return opened
        return (yield from self._opening(opened.overview.folder))

    def _opening_series(self, folders: Sequence[str]) -> Calls[tuple[SeriesOverview, OpenedFolder]]:
        connection = self._connection()
        series: SeriesOverview = yield from self._asked(ReadSeries(tuple(folders)), connection)
        return series, (yield from self._opening(series.folders[-1]))

    def _comparing(
        self, opened: OpenedFolder, folder: str
    ) -> Calls[tuple[OpenedFolder, OpenedFolder, SurveyDifference]]:
        first = yield from self._again(opened)
        second = yield from self._opening(folder)
        asked = CompareSurveys(first.handle.number, second.handle.number)
        return first, second, (yield from self._asked(asked, first.handle.connection))

    def _take(self, opened: OpenedFolder) -> None:
        """Show a survey in the place of what was shown."""
        self._opened, self.series, self.step = opened, None, 0
        self._other = self.difference = None
        self._begin()

    def _take_series(self, read: tuple[SeriesOverview, OpenedFolder]) -> None:
        self.series, self._opened = read
        self.step = len(self.series.steps) - 1
        self._other = self.difference = None
        self._begin()

    def _take_comparison(self, read: tuple[OpenedFolder, OpenedFolder, SurveyDifference]) -> None:
        self._opened, self._other, self.difference = read
        self._show()

    def _begin(self) -> None:
        """Begin with another survey: its own lasso, the same statistic, and the same head of the same model."""
        assert self.now is not None
        surveyed, heads = (self.now.model, self.now.fingerprint, self.shape), self.shape[1]
        self.lasso, self.visit, self.is_model = frozenset(), None, None
        self._ask_model()
        self._name()
        if surveyed != self._surveyed and self.statistics:
            means = np.nan_to_num(self.means(self.statistic), nan=-np.inf)
            self.head = divmod(int(means.argmax()), heads)
        self._surveyed = surveyed
        self._show()

    def _name(self) -> None:
        """Choose statistics that are there."""
        names = [one.name for one in self.statistics if one.count] or [one.name for one in self.statistics]
        if self.statistic not in names:
            self.statistic = next((name for name in FIRST if name in names), names[0] if names else "")
        if self.across not in names:
            others = [name for name in ("previous", *FIRST, *names) if name in names and name != self.statistic]
            self.across = others[0] if others else self.statistic

    def _show(self) -> None:
        self.read = None
        self._name()
        self.changed.emit()
        self._read_head()

    def _open_step(self) -> None:
        """Open the survey of the step that the slider has come to rest at."""
        if self.series is not None:
            folder = self.series.folders[self.step]
            self._submit("survey", self._opening(folder), self._take_step, f"Reading {Path(folder).name}")

    def _take_step(self, opened: OpenedFolder) -> None:
        self._opened = opened
        self._show()

    def _point(self, layer: int, head: int) -> None:
        self.head, self.read = (layer, head), None
        self.chosen.emit()
        self._read_head()

    def _read_head(self) -> None:
        """Ask for what there is of the chosen head."""
        opened, (layer, head), statistic = self._opened, self.head, self.statistic
        if opened is None or self._rest.isActive() or not statistic:
            self._session.jobs.cancel("survey head")
            return

        def work() -> Generator[Call, Any, tuple[OpenedFolder, SurveyHead]]:
            again = yield from self._again(opened)
            asked = ReadSurveyHead(again.handle.number, layer, head, statistic)
            return again, (yield from self._asked(asked, again.handle.connection))

        self._submit("survey head", work(), self._take_head, f"Reading {head_name(layer, head)}")

    def _take_head(self, read: tuple[OpenedFolder, SurveyHead]) -> None:
        self._opened, self.read = read
        self.head_read.emit()

    def _submit(self, slot: str, work: Calls[Any], done: Any, what: str) -> None:
        self._session.jobs.submit(slot, Urgency.COARSE, work, done, self._failed, what=what)

    def _failed(self, failure: Failure) -> None:
        self._session.fail(Failure(failure.sentence, failure.details) if isinstance(failure, Ended) else failure)
        self.head_read.emit()

    # The open model ---------------------------------------------------------------------------------------------------

    def follow_run(self, before: Run | None, after: Run | None) -> None:
        """Hear that another run is on screen: from there nobody goes back."""
        if self.visit is not None and after is not None and after.run_id != self.visit.run_id:
            self.visit = None

    def follow_model(self, card: ModelCard | None = None) -> None:
        """Hear that another model is open."""
        self.is_model = None
        if self.now is not None:
            self._ask_model()

    def _ask_model(self, then: Any = None) -> None:
        """Find out whether the open model is the one that was surveyed."""
        model_handle, now = self._session.model_handle, self.now
        if model_handle is None or now is None or not now.fingerprint or model_handle.toy is not None:
            self.is_model = False
            if then is not None:
                then()
            return

        def work(engine: RemoteEngine) -> Calls[str]:
            return engine.fingerprint(model_handle)

        def answered(fingerprint: str) -> None:
            if self._session.model_handle is model_handle and self.now is not None:
                self.is_model = fingerprint == self.now.fingerprint
                if then is not None:
                    then()

        self._session.submit(
            "survey model", Urgency.COARSE, work, answered, self._session.fail, what="Looking at the model's files"
        )

    def _on_selection(self, before: Selection, after: Selection) -> None:
        """Follow the head that is selected in the panels of runs, where it is of the model that was surveyed."""
        if self.is_model and self.visit is None and (after.layer, after.head) != self.head:
            layers, heads = self.shape
            if after.layer < layers and after.head < heads and {"layer", "head"} & before.differences(after):
                self._point(after.layer, after.head)

    def _say(self, sentence: str) -> None:
        self._session.fail(Failure(sentence))
