"""What the panels of surveys draw is of the survey, the step, the statistic and the head that are chosen.

Surveys of equal and of other shapes, comparisons and series are opened, looked at and closed while what was asked
before waits, and what is answered is answered in any order. What is drawn in the end is what panels draw that were
shown nothing else, pixel by pixel; what is drawn on the way is of the head and the statistic that stand above it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.survey.result import Survey, load_survey
from ropewalk.views.panels.panel import Panel
from ropewalk.views.panels.registry import PANELS
from ropewalk.views.panels.survey_examples import SurveyExamplesPanel
from ropewalk.views.panels.survey_head import SurveyHeadPanel
from ropewalk.views.panels.survey_heads import SurveyHeadsPanel
from ropewalk.views.panels.survey_table import SurveyTablePanel
from tests.survey_folders import series_in, survey_in
from tests.views.canned import canned_session
from tests.views.driving import settle

STATISTICS: Final = ("previous", "induction", "sink")
ENTRIES: Final = [entry for entry in PANELS if entry.name.startswith("survey_")]
MOVES: Final = 40
load = cache(load_survey)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Two surveys of one shape, one of another, and a series."""
    under = tmp_path_factory.mktemp("surveys")
    alike = [survey_in(under / str(seed), seed, STATISTICS, str(seed)) for seed in range(2)]
    return (*alike, survey_in(under / "llama", 0, STATISTICS, "l", "llama"), series_in(under / "series"))


class Waiting:
    """Panels of surveys whose questions wait; a test says which is answered."""

    def __init__(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session, self.surveys = session, session.surveys
        self.asked: dict[str, tuple[Any, ...]] = {}
        jobs = session.jobs
        self._submit, drop, alive = jobs.submit, jobs.cancel, jobs.has

        def submit(slot: str, *rest: Any, what: str) -> None:
            drop(slot)
            self.asked[slot] = rest

        def cancel(slot: str) -> None:
            self.asked.pop(slot, None)
            drop(slot)

        monkeypatch.setattr(jobs, "submit", submit)
        monkeypatch.setattr(jobs, "cancel", cancel)
        monkeypatch.setattr(jobs, "has", lambda slot: slot in self.asked or alive(slot))
        self.panels = shown(session)

    def answer(self, slot: str) -> None:
        """Answer what is asked there, if anything is."""
        if slot in self.asked:
            self._submit(slot, *self.asked.pop(slot))
            settle(self.session)

    def rest(self) -> None:
        """Let the slider have come to rest."""
        if self.surveys._rest.isActive():
            self.surveys._rest.stop()
            self.surveys._rest.timeout.emit()

    def answer_all(self) -> None:
        """Answer everything, and what is asked because of that."""
        self.rest()
        while self.asked:
            self.answer(next(iter(self.asked)))

    def move(self, draw: random.Random, folders: tuple[Path, ...]) -> None:
        """Do one of the things that a person does, or answer one question."""
        surveys, (layers, heads) = self.surveys, self.surveys.shape
        name = draw.choice([one.name for one in surveys.statistics] or [""])
        place = draw.randrange(max(layers, 1)), draw.randrange(max(heads, 1))
        lasso = frozenset((draw.randrange(layers), draw.randrange(heads)) for _ in range(3)) if layers else frozenset()
        panel = self.panels[draw.choice(sorted(self.panels))]
        doing: dict[str, Callable[[], object]] = {
            "open": lambda: surveys.open(str(draw.choice(folders))),
            "compare": lambda: surveys.compare(str(draw.choice(folders[:2]))),
            "compare no longer": surveys.compare_no_longer,
            "statistic": lambda: surveys.choose_statistic(name),
            "across": lambda: surveys.choose_across(name),
            "head": lambda: surveys.choose_head(*place),
            "lasso": lambda: surveys.choose_heads(lasso if draw.random() < 0.7 else frozenset()),
            "step": lambda: surveys.step_to(draw.randrange(3)),
            "rest": self.rest,
            "close": surveys.close_survey,
            "hide": lambda: panel.setVisible(not panel.isVisible()),
            "answer": lambda: self.answer("survey"),
            "answer for the head": lambda: self.answer("survey head"),
        }
        often = {"open": 3, "compare": 3, "head": 6, "statistic": 4, "step": 4, "answer": 8, "answer for the head": 5}
        doing[draw.choices(list(doing), [often.get(what, 1) for what in doing])[0]]()

    def check(self) -> None:
        """Whether what is drawn is of what stands above it, and of what is open."""
        now, surveys = self.surveys.now, self.surveys
        if now is None:
            return
        head = cast("SurveyHeadPanel", self.panels["survey_head"])
        if head.bars.isVisible():
            truth = of_open(surveys).mean_map(head_in(head)).share
            assert np.array_equal(head.bars.heights, truth[: len(head.bars.heights)])
        examples = cast("SurveyExamplesPanel", self.panels["survey_examples"])
        listed = examples.list.rows.examples
        if examples.body.isVisible() and listed:
            titled = examples.subtitle.text()
            name = next(one.name for one in surveys.statistics if f"largest {one.title} in" in titled)
            known = of_open(surveys).top_examples(head_in(examples), name)
            assert [one.value for one in listed] == [one.value for one in known][: len(listed)]
        heads = cast("SurveyHeadsPanel", self.panels["survey_heads"])
        if heads.map.isVisible():
            assert heads.map.number(0, 1) == pytest.approx(surveys.means(surveys.statistic)[0, 1], nan_ok=True)


def of_open(surveys: Any) -> Survey:
    """The survey on screen, as its folder has it."""
    return load(surveys.series.folders[surveys.step] if surveys.series is not None else surveys.now.folder)


def head_in(panel: Panel) -> tuple[int, int]:
    """The head that a panel's title names."""
    layer, head = panel.subtitle.text().split(" ")[0].removeprefix("L").split("H")
    return int(layer), int(head)


def shown(session: Session) -> dict[str, Panel]:
    """All of the panels, on screen."""
    panels = {entry.name: entry.make(session) for entry in ENTRIES}
    for panel in panels.values():
        panel.resize(420, 320)
        panel.show()
    return panels


@contextmanager
def ended(panels: dict[str, Panel]) -> Iterator[None]:
    """End them at last."""
    try:
        yield
    finally:
        for panel in panels.values():
            panel.close_down()
            panel.deleteLater()
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def drawn(panel: Panel) -> QImage:
    """A panel as it is in the end, with everything in its place."""
    for width, height in ((400, 300), (420, 320)):
        panel.resize(width, height)
        panel.grab()
        QApplication.processEvents()
    if isinstance(panel, SurveyTablePanel):
        panel.table.scrollToTop()  # a row is brought into sight from wherever the rows stood
    return panel.grab().toImage()


def alone(path: Path, surveys: Any) -> dict[str, QImage]:
    """What panels draw that were shown nothing but what is open."""
    with canned_session(path) as session:
        other, panels = session.surveys, shown(session)
        with ended(panels):
            other.open(*(surveys.series.folders if surveys.series is not None else (surveys.now.folder,)))
            settle(session)
            other.step_to(surveys.step)
            other._rest.stop()
            other._rest.timeout.emit()
            settle(session)
            if surveys.other is not None:
                other.compare(surveys.other.folder)
                settle(session)
            other.choose_across(surveys.across)
            other.choose_statistic(surveys.statistic)
            other.choose_across(surveys.across)
            other.choose_head(*surveys.head)
            other.choose_heads(surveys.lasso)
            settle(session, *panels.values())
            return {name: drawn(panel) for name, panel in panels.items()}


def attack(waiting: Waiting, folders: tuple[Path, ...], seed: int, alone_in: Path) -> None:
    """Do things in a random order, and look at what is drawn on the way and in the end."""
    draw = random.Random(seed)
    with ended(waiting.panels):
        for _ in range(MOVES):
            waiting.move(draw, folders)
            waiting.check()
        for panel in waiting.panels.values():
            panel.show()
        waiting.answer_all()
        waiting.check()
        if waiting.surveys.now is None:
            waiting.surveys.open(str(folders[0]))
            waiting.answer_all()
        right = alone(alone_in, waiting.surveys)
        for name, panel in waiting.panels.items():
            assert drawn(panel) == right[name], name


@pytest.mark.parametrize(
    "seed", [2, 22, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40) if seed != 22)]
)
def test_what_is_drawn_is_of_what_is_chosen(
    qtbot: QtBot,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    folders: tuple[Path, ...],
    tmp_path: Path,
    seed: int,
) -> None:
    attack(Waiting(session, monkeypatch), folders, seed, tmp_path / "alone.json")


def test_what_is_asked_about_a_step_is_not_shown_at_another(
    qtbot: QtBot, session: Session, monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, ...]
) -> None:
    waiting, surveys = Waiting(session, monkeypatch), session.surveys
    with ended(waiting.panels):
        surveys.open(str(folders[3]))
        waiting.answer_all()
        asks: tuple[Callable[[], object], ...] = (
            lambda: surveys.compare(str(folders[0])),
            lambda: surveys.choose_head(1, 1 + surveys.head[1] % 2),
        )
        for ask in asks:
            surveys.step_to(2)
            waiting.answer_all()
            ask()
            surveys.step_to(1)
            for slot in ("survey", "survey head"):
                waiting.answer(slot)
                waiting.check()
            waiting.answer_all()
            waiting.check()
            assert (surveys.other, surveys.difference) == (None, None)
            assert surveys.now is not None
            assert surveys.now.folder.endswith("step-100")
