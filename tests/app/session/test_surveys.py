"""Surveys in a session: opened without any model, compared, stepped through, run in a process of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtTest import QSignalSpy
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.app.survey_folders import BUNDLED
from ropewalk.model.engine.requests import RunSurvey
from ropewalk.model.survey.result import load_survey
from tests.fake_engine import FakeEngine
from tests.survey_folders import series_in, survey_in


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return survey_in(tmp_path_factory.mktemp("survey") / "first")


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return survey_in(tmp_path_factory.mktemp("survey") / "second", seed=1, fingerprint="g")


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return series_in(tmp_path_factory.mktemp("series"))


def idle(qtbot: QtBot, session: Session) -> None:
    """Wait until everything of surveys has been read."""
    qtbot.waitUntil(lambda: not session.surveys.busy and not session.busy and not session.surveys.is_running)


def opened(qtbot: QtBot, session: Session, *folders: Path) -> None:
    session.surveys.open(*map(str, folders))
    idle(qtbot, session)


def test_a_survey_is_open_without_any_model(qtbot: QtBot, session: Session, folder: Path) -> None:
    opened(qtbot, session, folder)
    surveys, truth = session.surveys, load_survey(folder)
    assert session.model is None
    assert surveys.now is not None
    assert surveys.now.model == "plain"
    assert surveys.now.texts == 12
    for name in truth.names:
        assert np.array_equal(surveys.means(name), truth.mean(name), equal_nan=True)
        assert np.array_equal(surveys.errors(name), truth.error(name), equal_nan=True)
        assert surveys.titled(name).count == truth.count(name)
        assert surveys.titled(name).formula
    assert surveys.statistic == "induction"
    means = truth.mean("induction")
    strongest = divmod(int(np.nanargmax(means)), means.shape[1])
    assert surveys.head == strongest
    assert surveys.read is not None
    assert (surveys.read.layer, surveys.read.head) == strongest
    assert np.array_equal(surveys.read.share, truth.mean_map(surveys.head).share)
    assert [one.value for one in surveys.read.examples] == [
        one.value for one in truth.top_examples(surveys.head, "induction")
    ]


def test_a_head_and_a_statistic_are_chosen(qtbot: QtBot, session: Session, folder: Path) -> None:
    opened(qtbot, session, folder)
    surveys, chosen = session.surveys, QSignalSpy(session.surveys.chosen)
    surveys.choose_head(1, 2)
    assert surveys.read is None
    idle(qtbot, session)
    assert surveys.read is not None
    assert (surveys.read.layer, surveys.read.head) == (1, 2)
    surveys.choose_statistic("previous")
    surveys.choose_statistic("no such")
    idle(qtbot, session)
    assert surveys.read is not None
    assert surveys.read.statistic == "previous"
    surveys.choose_head(99, 0)
    surveys.choose_heads(frozenset({(0, 1)}))
    assert (surveys.head, surveys.lasso) == ((1, 2), {(0, 1)})
    assert chosen.count() == 3


def test_two_surveys_are_compared_and_one_is_left(qtbot: QtBot, session: Session, folder: Path, second: Path) -> None:
    opened(qtbot, session, folder)
    surveys, truth = session.surveys, load_survey(folder).compare(load_survey(second))
    assert surveys.significant("induction") is None
    surveys.compare(str(second))
    idle(qtbot, session)
    at = truth.names.index("induction")
    assert np.array_equal(surveys.means("induction"), truth.difference[at], equal_nan=True)
    assert np.array_equal(surveys.errors("induction"), truth.error[at], equal_nan=True)
    significant = surveys.significant("induction")
    assert significant is not None
    assert np.array_equal(significant, truth.significant("induction"))
    adjusted = surveys.adjusted("induction")
    assert adjusted is not None
    assert np.array_equal(adjusted, truth.adjusted("induction"))
    surveys.compare_no_longer()
    idle(qtbot, session)
    assert surveys.other is None
    assert np.array_equal(surveys.means("induction"), load_survey(folder).mean("induction"), equal_nan=True)


def test_what_cannot_be_compared_is_said_and_the_first_stays(
    qtbot: QtBot, session: Session, folder: Path, series: Path, tmp_path: Path
) -> None:
    opened(qtbot, session, folder)
    failed = QSignalSpy(session.failed)
    session.surveys.compare(str(tmp_path / "none"))
    idle(qtbot, session)
    assert "holds no survey" in failed.at(0)[0]
    assert session.surveys.now is not None
    assert session.surveys.other is None


def test_a_folder_of_surveys_is_a_series(qtbot: QtBot, session: Session, series: Path) -> None:
    opened(qtbot, session, series)
    surveys = session.surveys
    assert surveys.series is not None
    assert surveys.series.steps == (0, 100, 200)
    assert surveys.step == 2
    of_steps = surveys.of_series("previous")
    assert of_steps is not None
    assert of_steps.shape[0] == 3
    surveys.step_to(0)
    assert np.array_equal(surveys.means("previous"), load_survey(series / "step-0").mean("previous"))
    assert surveys.read is None, "an example of another step would be shown"
    idle(qtbot, session)
    assert surveys.now is not None
    assert surveys.now.folder == str(series / "step-0")
    assert surveys.read is not None


def test_the_head_is_that_of_the_window_where_the_model_is_the_one_surveyed(
    qtbot: QtBot, running: Session, engine: FakeEngine, folder: Path
) -> None:
    opened(qtbot, running, folder)
    surveys = running.surveys
    assert surveys.is_model is False
    head = surveys.head
    running.selection.update(layer=0, head=1 if head != (0, 1) else 2)
    assert surveys.head == head
    engine.hash = "f"
    surveys.follow_model()
    idle(qtbot, running)
    assert surveys.is_model
    surveys.choose_head(1, 2)
    assert (running.selection.now.layer, running.selection.now.head) == (1, 2)
    running.selection.update(head=3)
    assert surveys.head == (1, 3)


def test_an_ended_reader_is_started_again(qtbot: QtBot, session: Session, folder: Path) -> None:
    opened(qtbot, session, folder)
    first = session.surveys._reader
    assert first is not None
    first.kill()
    session.surveys.choose_head(0, 1)
    idle(qtbot, session)
    assert session.surveys._reader is not first
    assert session.surveys.read is not None
    assert session.surveys.read.head == 1


def test_a_survey_that_is_not_there_is_a_sentence(qtbot: QtBot, session: Session, tmp_path: Path) -> None:
    failed = QSignalSpy(session.failed)
    opened(qtbot, session, tmp_path)
    assert failed.at(0)[0].endswith("its manifest.json cannot be read.")
    assert session.surveys.now is None


def test_one_that_runs_is_stopped_and_goes_on(qtbot: QtBot, session: Session, tmp_path: Path) -> None:
    texts, out = tmp_path / "texts.txt", tmp_path / "out"
    texts.write_text("\n".join(f"the cat {n} sat on the mat and the dog sat on the cat" for n in range(6)))
    asked = RunSurvey(None, "cpu", "float32", (str(texts),), str(out), tokens=16, statistics=("previous", "duplicate"))
    surveys = session.surveys
    surveys.run(asked)
    assert surveys.is_running
    qtbot.waitUntil((out / "manifest.json").exists)
    surveys.stop()
    assert not surveys.is_running
    assert surveys.begun(str(out)) == asked
    noticed = QSignalSpy(session.noticed)
    surveys.run(asked)
    idle(qtbot, session)
    assert noticed.at(0)[0] == "The survey in out is complete."
    assert surveys.now is not None
    assert surveys.now.complete
    assert surveys.now.texts == 6
    assert surveys.begun(str(out)) is None
    assert session.settings.now.surveys[0] == asked


def test_texts_that_are_not_there_are_a_sentence(qtbot: QtBot, session: Session, tmp_path: Path) -> None:
    failed = QSignalSpy(session.failed)
    session.surveys.run(RunSurvey(None, "cpu", "float32", ("gone.txt",), str(tmp_path / "out")))
    idle(qtbot, session)
    assert failed.at(0)[0] == "There is no file gone.txt; check the path of the texts."


def test_a_lesson_shows_a_survey_and_gives_back_what_was_open(
    qtbot: QtBot, session: Session, folder: Path, second: Path
) -> None:
    opened(qtbot, session, folder)
    surveys = session.surveys
    surveys.compare(str(second))
    idle(qtbot, session)
    surveys.choose_statistic("sink")
    surveys.choose_head(2, 1)
    surveys.choose_heads(frozenset({(2, 1)}))
    idle(qtbot, session)
    before = (surveys.now, surveys.other, surveys.statistic, surveys.across, surveys.head, surveys.lasso)
    for name, statistic, head in (("text", "line_break", (2, 2)), ("text", "self", (0, 6)), ("repeats", "self", None)):
        surveys.lend(name, statistic, head)
        idle(qtbot, session)
        truth = load_survey(BUNDLED[name][1])
        assert surveys.now is not None
        assert (surveys.now.folder, surveys.other, surveys.statistic) == (str(BUNDLED[name][1]), None, statistic)
        assert surveys.head == (head or (0, 6))
        assert np.array_equal(surveys.means(statistic), truth.mean(statistic))
    surveys.take_back()
    idle(qtbot, session)
    assert (surveys.now, surveys.other, surveys.statistic, surveys.across, surveys.head, surveys.lasso) == before
    assert surveys.read is not None
    assert (surveys.read.layer, surveys.read.head) == (2, 1)


def test_what_a_person_opens_in_a_lesson_stays(qtbot: QtBot, session: Session, folder: Path) -> None:
    surveys = session.surveys
    surveys.lend("text", "induction", None)
    idle(qtbot, session)
    opened(qtbot, session, folder)
    surveys.take_back()
    idle(qtbot, session)
    assert surveys.now is not None
    assert surveys.now.folder == str(folder)
    surveys.close_survey()
    surveys.lend("text", "induction", None)
    surveys.take_back()
    idle(qtbot, session)
    assert surveys.now is None, "what a lesson asked for is not opened once it was left"


def test_the_first_sight_is_not_lost_to_a_lesson(qtbot: QtBot, session: Session) -> None:
    surveys = session.surveys
    assert surveys.open_bundled()
    surveys.lend("repeats", "induction", None)
    idle(qtbot, session)
    surveys.take_back()
    assert surveys.now is None
    assert surveys.open_bundled()
    idle(qtbot, session)
    assert surveys.now is not None
    assert surveys.now.source == BUNDLED["text"][0]
