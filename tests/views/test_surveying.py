"""The workspace of surveys: opened, looked at by clicks and keys, compared, played, run, stopped and gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QFileDialog, QPushButton
from pytestqt.qtbot import QtBot

from ropewalk.app.files import survey_numbers
from ropewalk.app.survey_folders import BUNDLED
from ropewalk.model.engine.requests import RunSurvey
from ropewalk.model.survey.result import load_survey
from ropewalk.views.files import pictures
from ropewalk.views.files.export_dialog import SurveyPage
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.survey_examples import SurveyExamplesPanel
from ropewalk.views.panels.survey_head import SurveyHeadPanel
from ropewalk.views.panels.survey_heads import NOTHING, SurveyHeadsPanel
from ropewalk.views.panels.survey_scatter import SurveyScatterPanel
from ropewalk.views.panels.survey_table import SurveyTablePanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import motion
from ropewalk.views.window import survey_dialog
from ropewalk.views.window.survey_dialog import SurveyDialog
from tests.survey_folders import series_in, survey_in
from tests.views.driving import Shared, opened_window, run_of
from tests.views.plots import hand


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return survey_in(tmp_path_factory.mktemp("survey") / "first")


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return survey_in(tmp_path_factory.mktemp("survey") / "second", seed=1, fingerprint="g")


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return series_in(tmp_path_factory.mktemp("series"))


@pytest.fixture
def window(shared: Shared) -> Iterator[MainWindow]:
    window = shared.put_back()
    window.session.surveys.first_sight = False
    QTest.keyClick(window, Qt.Key.Key_8, Qt.KeyboardModifier.ControlModifier)
    snapshot.wait_until_drawn(window)
    assert window.stage.workspace == "survey"
    yield window
    window.session.surveys.close_survey()
    window.session.surveys.stop()


Show = Callable[[Path], SurveyHeadsPanel]


@pytest.fixture
def show(window: MainWindow) -> Show:
    """Open a survey, and draw it."""

    def opened(folder: Path) -> SurveyHeadsPanel:
        window.open_survey(str(folder))
        snapshot.wait_until_drawn(window)
        return heads_of(window)

    return opened


def heads_of(window: MainWindow) -> SurveyHeadsPanel:
    return cast("SurveyHeadsPanel", window.panels["survey_heads"])


def choose(box: QComboBox, name: str) -> None:
    """Choose an entry, as a person does in the list that falls down."""
    place = box.findData(name)
    assert place >= 0
    box.setCurrentIndex(place)
    box.activated.emit(place)


def button(panel: SurveyHeadsPanel, text: str) -> QPushButton:
    return next(one for one in panel.findChildren(QPushButton) if one.text() == text)


def test_without_a_survey_it_is_said_how_to_come_by_one(window: MainWindow, folder: Path) -> None:
    panel = heads_of(window)
    assert panel.notice.text() == NOTHING
    QTest.mouseClick(button(panel, "Open a survey…"), Qt.MouseButton.LeftButton)
    dialog = window.findChild(QFileDialog, "surveys")
    assert dialog is not None
    dialog.fileSelected.emit(str(folder))
    dialog.close()
    snapshot.wait_until_drawn(window)
    assert panel.body.isVisible()
    assert panel.start.isHidden()
    assert panel.map.isVisible()


def test_a_click_on_the_map_chooses_a_head_everywhere(window: MainWindow, show: Show, folder: Path) -> None:
    panel, truth = show(folder), load_survey(folder)
    scatter = cast("SurveyScatterPanel", window.panels["survey_scatter"])
    head = cast("SurveyHeadPanel", window.panels["survey_head"])
    hand.click(panel.map, panel.map.cell_of(1, 3).center())
    snapshot.wait_until_drawn(window)
    assert window.session.surveys.head == (1, 3)
    assert panel.map.marked == (1, 3)
    assert scatter.plot.selected == 1 * 4 + 3
    assert head.subtitle.text().startswith("L1H3 · ")
    share = truth.mean_map((1, 3)).share
    assert np.array_equal(head.bars.heights, share[share > 0]), "no text is as long as what is left out"
    assert panel.map.number(1, 3) == pytest.approx(truth.mean("induction")[1, 3])
    QTest.keyClick(panel.map, Qt.Key.Key_Up)
    snapshot.wait_until_drawn(window)
    assert window.session.surveys.head in ((0, 3), (1, 2)), "which way is up depends on how the map is turned"


def test_a_dot_is_clicked_and_some_are_lassoed(window: MainWindow, show: Show, folder: Path) -> None:
    panel = show(folder)
    scatter, surveys = cast("SurveyScatterPanel", window.panels["survey_scatter"]), window.session.surveys
    plot = scatter.plot
    hand.click(plot, plot.at(float(plot.xs[2]), float(plot.ys[2])))
    snapshot.wait_until_drawn(window)
    assert surveys.head == (0, 2)
    assert panel.map.marked == (0, 2)
    box = plot.box.geometry()
    hand.drag(plot, [box.topLeft(), box.topRight(), box.bottomRight(), box.bottomLeft()])
    assert len(surveys.lasso) == np.prod(surveys.shape)
    assert scatter.subtitle.text().startswith("12 heads chosen")
    QTest.keyClick(plot, Qt.Key.Key_Escape)
    assert not surveys.lasso


def test_another_statistic_is_drawn_with_its_formula(window: MainWindow, show: Show, folder: Path) -> None:
    panel, truth = show(folder), load_survey(folder)
    scatter = cast("SurveyScatterPanel", window.panels["survey_scatter"])
    choose(panel.statistic, "sink")
    choose(scatter.across, "entropy")
    snapshot.wait_until_drawn(window)
    assert panel.map.number(2, 1) == pytest.approx(truth.mean("sink")[2, 1])
    assert "w[q, 0]" in panel.formula.text()
    assert f"n = {truth.count('sink')} texts" in panel.formula.text()
    assert scatter.up.currentData() == "sink"
    assert np.array_equal(scatter.plot.xs, truth.mean("entropy").ravel())
    choose(scatter.up, "self")
    assert panel.statistic.currentData() == "self"


def test_two_surveys_are_compared_from_the_menu(window: MainWindow, show: Show, folder: Path, second: Path) -> None:
    panel, truth = show(folder), load_survey(folder).compare(load_survey(second))
    panel.menu.aboutToShow.emit()
    next(one for one in panel.menu.actions() if one.text().startswith("Compare with")).trigger()
    dialog = window.findChildren(QFileDialog, "surveys")[-1]
    dialog.fileSelected.emit(str(second))
    dialog.close()
    snapshot.wait_until_drawn(window)
    at = truth.names.index("induction")
    assert panel.map.number(0, 1) == pytest.approx(truth.difference[at, 0, 1])
    differ = int(truth.significant("induction").sum())
    assert panel.surveyed.text() == f"{differ} of 12 heads differ (q = 0.05) · A: first, B: second"
    panel.menu.aboutToShow.emit()
    next(one for one in panel.menu.actions() if one.text() == "Compare no longer").trigger()
    snapshot.wait_until_drawn(window)
    assert panel.surveyed.text() == "plain"


def test_a_series_has_a_slider_and_plays(window: MainWindow, show: Show, series: Path) -> None:
    panel = show(series)
    motion.choose("full")
    film = panel.film
    assert film.isVisible()
    assert film.label.text() == "200"
    QTest.keyClick(film.slider, Qt.Key.Key_Left)
    snapshot.wait_until_drawn(window)
    truth = load_survey(series / "step-100").mean(panel.surveys.statistic)
    assert panel.map.number(1, 1) == pytest.approx(truth[1, 1])
    levels = panel.map.levels
    film.go(2)
    assert panel.map.levels == levels, "all steps have one scale"
    QTest.mouseClick(film.play_button, Qt.MouseButton.LeftButton)
    assert (panel.surveys.step, film.play_button.text()) == (0, "Pause")
    film.timer.timeout.emit()
    film.timer.timeout.emit()
    assert (panel.surveys.step, film.play_button.text()) == (2, "Play")
    snapshot.wait_until_drawn(window)


def test_surveys_are_dropped_on_the_window(window: MainWindow, folder: Path, series: Path) -> None:
    actions, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier

    def drop(*paths: Path) -> None:
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
        QApplication.sendEvent(window, QDragEnterEvent(QPoint(300, 300), actions, data, left, none))
        QApplication.sendEvent(window, QDropEvent(QPointF(300, 300), actions, data, left, none))
        snapshot.wait_until_drawn(window)

    window.show_workspace("overview")
    drop(folder)
    now = window.session.surveys.now
    assert now is not None
    assert now.folder == str(folder)
    assert window.stage.workspace == "survey"
    drop(series / "step-0", series / "step-200")
    assert window.session.surveys.series is not None
    assert window.session.surveys.series.steps == (0, 200)


def test_the_survey_that_comes_along_is_open_at_first_sight(window: MainWindow) -> None:
    panel, surveys = heads_of(window), window.session.surveys
    window.show_workspace("overview")
    surveys.first_sight = True
    window.show_workspace("survey")
    panel.refresh()
    snapshot.wait_until_drawn(window)
    assert panel.surveyed.text() == "built-in model: validation text"
    assert not surveys.first_sight, "it is not opened again once it was closed"
    panel.menu.aboutToShow.emit()
    next(one for one in panel.menu.actions() if one.text() == "Built-in model: random tokens twice").trigger()
    snapshot.wait_until_drawn(window)
    assert panel.surveyed.text() == "built-in model: random tokens twice"
    truth = load_survey(BUNDLED["repeats"][1]).mean("induction")
    assert panel.map.number(*surveys.head) == pytest.approx(truth[surveys.head])


def test_examples_count_the_texts_that_have_a_value(window: MainWindow, show: Show) -> None:
    folder = BUNDLED["repeats"][1]
    choose(show(folder).statistic, "digit")
    snapshot.wait_until_drawn(window)
    count, texts = load_survey(folder).count("digit"), load_survey(folder).texts
    assert count < texts
    assert f"largest digits in {count} texts" in window.panels["survey_examples"].subtitle.text()


def test_a_start_with_a_folder_shows_that_survey(window: MainWindow, folder: Path) -> None:
    window.show_workspace("overview")
    window.files.begin(str(folder))
    snapshot.wait_until_drawn(window)
    assert window.stage.workspace == "survey"
    assert window.session.surveys.now is not None


def test_one_that_ends_while_another_is_looked_at_waits_to_be_opened(
    qtbot: QtBot, window: MainWindow, show: Show, folder: Path, second: Path
) -> None:
    panel, surveys = show(folder), window.session.surveys
    surveys._on_ran(RunSurvey(None, "cpu", "float32", (), str(second)))
    surveys.running_changed.emit()
    assert surveys.now is not None
    assert surveys.now.folder == str(folder)
    assert panel.run_label.text() == "The survey in second is complete."
    QTest.mouseClick(panel.show_button, Qt.MouseButton.LeftButton)
    snapshot.wait_until_drawn(window)
    assert surveys.now.folder == str(second)
    assert panel.running.isHidden()


def test_one_is_run_from_the_window_stopped_and_gone_on_with(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_dialog, "is_bundled", lambda card: True)  # what is open here has no weights
    texts, out = tmp_path / "texts.txt", tmp_path / "out"
    texts.write_text("\n".join(f"the cat {n} sat on the mat and the dog sat on the cat" for n in range(4)))
    panel, surveys = heads_of(window), window.session.surveys
    window.session.settings.update(surveys=())
    QTest.mouseClick(button(panel, "Run a survey…"), Qt.MouseButton.LeftButton)
    dialog = window.findChildren(SurveyDialog)[-1]
    qtbot.waitUntil(lambda: dialog.statistics.count() > 0)
    assert not dialog.run_button.isEnabled()
    assert dialog.notice.text().startswith("Say which texts")
    QTest.keyClicks(dialog.texts, str(texts))
    QTest.keyClicks(dialog.folder, str(out))
    for row in range(dialog.statistics.count()):
        item = dialog.statistics.item(row)
        if item.text() not in ("previous token", "induction"):
            item.setCheckState(Qt.CheckState.Unchecked)
    dialog.tokens.setValue(16)
    assert dialog.run_button.isEnabled(), dialog.notice.text()
    QTest.mouseClick(dialog.run_button, Qt.MouseButton.LeftButton)
    assert surveys.is_running
    assert panel.stop_button.isVisible()
    qtbot.waitUntil((out / "manifest.json").exists)
    QTest.mouseClick(panel.stop_button, Qt.MouseButton.LeftButton)
    assert not surveys.is_running
    assert panel.run_label.text() == "The survey in out was stopped; it goes on where it was."
    QTest.mouseClick(panel.go_on_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not surveys.is_running and surveys.now is not None)
    snapshot.wait_until_drawn(window)
    now = surveys.now
    assert now is not None
    assert (now.texts, now.complete) == (4, True)
    assert [one.name for one in now.statistics] == ["previous", "induction"]
    assert panel.running.isHidden()


def test_a_dialog_that_was_closed_hears_no_statistics(qtbot: QtBot, window: MainWindow) -> None:
    QTest.mouseClick(button(heads_of(window), "Run a survey…"), Qt.MouseButton.LeftButton)
    assert window.session.jobs.has("survey statistics")
    window.findChildren(SurveyDialog)[-1].reject()
    assert not window.session.jobs.has("survey statistics")
    snapshot.wait_until_drawn(window)


def test_the_table_sorts_and_lists_what_the_lasso_chose(window: MainWindow, show: Show, folder: Path) -> None:
    show(folder)
    panel, surveys = cast("SurveyTablePanel", window.panels["survey_table"]), window.session.surveys
    truth = load_survey(folder).mean("induction")
    names = panel.table.table()[0][1]
    assert names[0] == "L{}H{}".format(*divmod(int(truth.argmax()), truth.shape[1]))
    panel.table.sort_by(0)
    assert panel.table.table()[0][1][:2] == ["L0H0", "L0H1"]
    row = panel.table.visualRect(panel.table.model().index(5, 0))
    QTest.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=row.center())
    snapshot.wait_until_drawn(window)
    assert surveys.head == (1, 1)
    surveys.choose_heads(frozenset({(2, 1), (0, 3)}))
    assert sorted(panel.table.table()[0][1]) == ["L0H3", "L2H1"]
    assert "2 of 12 heads" in panel.subtitle.text()
    assert panel.table.selected == -1
    surveys.choose_head(2, 1)
    assert panel.table.heads.names[panel.table.selected] == "L2H1"
    QTest.mouseClick(panel.all_button, Qt.MouseButton.LeftButton)
    assert len(panel.table.table()[0][1]) == 12


def test_an_example_of_another_model_says_what_is_to_be_opened(window: MainWindow, show: Show, folder: Path) -> None:
    show(folder)
    panel = cast("SurveyExamplesPanel", window.panels["survey_examples"])
    first = load_survey(folder).top_examples(window.session.surveys.head, "induction")[0]
    assert panel.list.rows.examples[0].value == first.value
    row = panel.list.visualRect(panel.list.model().index(0, 0))
    QTest.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=row.center())
    assert window.failure.sentence.text() == (
        "This survey is of plain (fingerprint f), which is not open; open it (Ctrl+O), then click again."
    )
    assert window.stage.workspace == "survey"


def test_an_example_opens_at_its_cell_and_back_returns(tmp_path: Path) -> None:
    bundled_survey = BUNDLED["repeats"][1]
    with opened_window(tmp_path, None, "the cat sat on the cat") as window:
        session, surveys = window.session, window.session.surveys
        before = run_of(window)
        window.open_survey(str(bundled_survey))
        snapshot.wait_until_drawn(window)
        assert surveys.is_model
        surveys.choose_head(1, 2)
        surveys.choose_heads(frozenset({(1, 2), (0, 0)}))
        snapshot.wait_until_drawn(window)
        panel = cast("SurveyExamplesPanel", window.panels["survey_examples"])
        for place, key, modifier in (
            (1, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier),
            (2, Qt.Key.Key_Escape, Qt.KeyboardModifier.NoModifier),
            (0, Qt.Key.Key_8, Qt.KeyboardModifier.ControlModifier),
        ):
            example = load_survey(bundled_survey).top_examples((1, 2), surveys.statistic)[place]
            row = panel.list.visualRect(panel.list.model().index(place, 0))
            QTest.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=row.center())
            snapshot.wait_until_drawn(window)
            now = session.selection.now
            assert window.stage.workspace == "scores"
            assert [token.id for token in run_of(window).tokens] == example.of.ids.tolist()
            assert (now.layer, now.head, now.query, now.key) == (1, 2, example.query, example.key)
            assert "goes back to the survey" in window.failure.sentence.text()
            session.selection.update(layer=2)
            QTest.keyClick(window, key, modifier)
            snapshot.wait_until_drawn(window)
            assert window.stage.workspace == "survey"
            assert window.failure.isHidden()
            assert run_of(window).run_id == before.run_id
            assert (surveys.head, surveys.lasso) == ((1, 2), frozenset({(1, 2), (0, 0)}))
            assert (session.selection.now.layer, session.selection.now.head) == (1, 2)


def test_a_figure_and_its_numbers_say_which_survey_they_are_of(
    qtbot: QtBot, window: MainWindow, show: Show, folder: Path, tmp_path: Path
) -> None:
    show(folder)
    exporter, saved = window.files.exporter, list[Path]()
    exporter.saved.connect(saved.append)
    about = exporter.about("survey_heads")
    assert dict(about.lines)["Fingerprint"] == "f"
    assert "Prompt" not in dict(about.lines), "the run on screen has nothing to do with it"
    figure = exporter.figure("survey_heads")
    assert figure is not None
    assert figure.caption == "Surveyed heads: induction · mean · 12 texts · plain · Ropewalk"
    svg = next(one for one in pictures.FORMATS if one.name == "svg")
    exporter.picture("survey_scatter", svg, tmp_path / "scatter.svg")
    qtbot.waitUntil(lambda: len(saved) == 1)
    assert "induction" in (tmp_path / "scatter.svg").read_text(encoding="utf-8")
    dialog = window.files.export("survey_table")
    dialog.what.setCurrentIndex(dialog.what.findText("Numbers of the survey"))
    page = cast("SurveyPage", dialog.page)
    truth = load_survey(folder)
    lengths = {"statistic": 12, "heads": 12 * len(truth.names), "map": 32 * 33 // 2, "examples": 5}
    for place, one in enumerate(survey_numbers.TABLES):
        page.table.setCurrentIndex(place)
        path = tmp_path / f"{page.stem()}.csv"
        page.save(dialog.chosen(), path)
        qtbot.waitUntil(path.exists)
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("# ")]
        assert lines[0].replace('"', "").split(",") == list(one.columns)
        assert len(lines) - 1 == lengths.get(one.name, len(truth.mean_map((0, 0)).ranges))
    dialog.close()
    first = (tmp_path / "survey_statistic.csv").read_text(encoding="utf-8").splitlines()[-12].split(",")
    assert float(first[3]) == truth.mean("induction")[0, 0]


def test_no_panel_of_a_survey_follows_the_run(window: MainWindow) -> None:
    """Those of runs have races with a change of run to stand; these are told apart by their names there."""
    for name, panel in window.panels.items():
        assert panel.follows_run != name.startswith("survey_")
