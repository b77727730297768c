"""A lesson leaves no trace: what was there before comes back, and what it marks is marked for as long as a step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.lessons.plan import Lesson
from ropewalk.app.session.session import Session
from ropewalk.app.survey_folders import BUNDLED
from ropewalk.model.decoder.interventions import NoScale
from ropewalk.model.ledger.ledger import build_ledger
from ropewalk.model.lessons.text import plain_text
from ropewalk.views.lesson.scene import SWITCHES
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.ledger import COLUMNS, LedgerPanel
from ropewalk.views.panels.next_token import NextTokenPanel
from ropewalk.views.panels.panel import NOTHING_YET
from ropewalk.views.panels.training import TrainingPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.atlas import LAYER_ORDER
from ropewalk.views.style import highlight, theme
from tests.app.filled_lessons import SHELF
from tests.views import driving
from tests.views.canned import CONFIG

SIZE = QSize(1280, 800)


@pytest.fixture(scope="module")
def shared(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[driving.Shared]:
    """A window over a real session, with the bundled model and a run."""
    folder = tmp_path_factory.mktemp("window")
    with driving.opened_window(folder, None, "hark, who goes there?", SIZE, workspace=driving.LIGHT) as window:
        window.lesson.take_shelf(SHELF)
        settle(window)
        yield driving.Shared(window)


@pytest.fixture
def own_window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    """A window that no other test has, in which another model may stay open."""
    with driving.opened_window(tmp_path, None, "hark, who goes there?", SIZE, workspace=driving.LIGHT) as window:
        window.lesson.take_shelf(SHELF)
        settle(window)
        yield window


@pytest.fixture
def window(qtbot: QtBot, shared: driving.Shared) -> Iterator[MainWindow]:
    yield shared.put_back()
    shared.clear()


def settle(window: MainWindow) -> None:
    for _ in range(2):
        snapshot.wait_until_drawn(window)
        snapshot.settle(window)


def enter(qtbot: QtBot, window: MainWindow, number: int, step: int) -> Lesson:
    lesson = SHELF.lesson(str(number))
    window.lesson.open(lesson, step)
    player = window.lesson.player
    qtbot.waitUntil(lambda: player.filled is not None and not window.session.busy, timeout=60_000)
    settle(window)
    return lesson


def places(window: MainWindow) -> dict[str, tuple[bool, QRect]]:
    return {name: (card.is_floating, card.geometry()) for name, card in window.cards.items() if card.panel.on_screen}


def everything(window: MainWindow) -> dict[str, Any]:
    """All that a lesson may change."""
    session = window.session
    return {
        "run": session.run,
        "model": session.model_handle,
        "prompt": (session.prompt, window.bar.prompt.text()),
        "experiments": session.interventions.now,
        "selection": session.selection.now,
        "switches": {name: window.lesson_scenes.switch(name).isChecked() for name in SWITCHES},
        "places": places(window),
        "bars": (window.bar.isVisible(), window.statusBar().isVisible(), window.classroom.line.isVisible()),
        "remembered": (session.settings.now.prompt, session.settings.now.recent),
    }


def changed_by_hand(qtbot: QtBot, window: MainWindow) -> None:
    """A run with decoded tokens under an intervention, a cell, a switch, another workspace and a floating panel."""
    session = window.session
    session.timeline.run_to(9)
    settle(window)
    session.interventions.apply([NoScale()])
    qtbot.waitUntil(lambda: session.interventions.now == (NoScale(),) and not session.busy, timeout=60_000)
    session.selection.update(layer=2, head=3, query=6, key=4, plane=2)
    window.lesson_scenes.switch("scores.log").setChecked(True)
    window.show_workspace("decode")
    window.stage.toggle_floating(window.cards["cache"])
    window.cards["cache"].move(200, 200)
    settle(window)
    window.activateWindow()
    window.setFocus()


@pytest.mark.parametrize("number", [3, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 9, 11))])
def test_leaving_brings_back_all_that_was_there(qtbot: QtBot, window: MainWindow, number: int) -> None:
    changed_by_hand(qtbot, window)
    before = everything(window)
    lesson = enter(qtbot, window, number, 0)
    for _ in lesson.steps:
        QTest.keyClick(window, Qt.Key.Key_PageDown)
        qtbot.waitUntil(lambda: window.lesson.filled is not None and not window.session.busy, timeout=60_000)
    assert window.lesson.player.step == len(lesson.steps) - 1
    window.session.timeline.step()
    settle(window)
    assert everything(window) != before
    QTest.keyClick(window, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    settle(window)
    after = everything(window)
    assert after.pop("places") == before.pop("places")
    assert after == before
    assert not any(panel.highlighted for panel in window.panels.values())
    assert cast("LedgerPanel", window.panels["ledger"]).outline is None


def test_nothing_has_to_be_computed_anew(qtbot: QtBot, window: MainWindow) -> None:
    handle = window.session.handle
    enter(qtbot, window, 1, 2)
    assert window.session.handle is not handle
    window.lesson.leave()
    assert window.session.handle is handle


@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_projector_mode_may_come_and_go_during_a_lesson(qtbot: QtBot, window: MainWindow, first: bool) -> None:
    ordinary = places(window)
    window.set_look(projector=first)
    settle(window)
    enter(qtbot, window, 11, 0)
    QTest.keyClick(window, Qt.Key.Key_P)
    settle(window)
    assert window.classroom.line.isVisible() is not first
    window.lesson.leave()
    settle(window)
    assert window.bar.isVisible()
    if not first:
        window.set_look(projector=False)
        settle(window)
    assert places(window) == ordinary


@pytest.mark.slow
def test_a_panel_alone_gives_way_to_the_next_step(qtbot: QtBot, window: MainWindow) -> None:
    enter(qtbot, window, 11, 0)
    window.classroom.full.enter("heads")
    QTest.keyClick(window, Qt.Key.Key_PageDown)
    qtbot.waitUntil(lambda: window.lesson.player.step == 1 and not window.session.busy)
    assert not window.isFullScreen()
    assert window.cards["lesson"].isVisible()


def colour_at(view: Any, point: QPoint) -> QColor:
    return QColor(view.grab().toImage().pixelColor(point))


def test_every_head_that_is_named_has_its_ring(qtbot: QtBot, window: MainWindow) -> None:
    enter(qtbot, window, 2, 3)
    heads = cast("HeadsPanel", window.panels["heads"])
    assert heads.view.highlighted == {(1, 4), (1, 5), (1, 6), (1, 7)}
    for layer, head in heads.view.highlighted:
        place = heads.view.plan.of(layer, head)
        assert place is not None
        edge = QPoint(place.square.center().x(), place.square.top() - round(theme.current().grid(0.25)))
        assert theme.contrast(colour_at(heads.view, edge), theme.current().panel) > 4.5
    QApplication.sendPostedEvents()
    window.session.selection.update(layer=0, head=0)
    assert len(heads.view.highlighted) == 4  # they stay, whatever is selected or pointed at


def test_named_rows_of_the_ledger_are_banded_and_in_sight(qtbot: QtBot, window: MainWindow) -> None:
    enter(qtbot, window, 3, 1)
    ledger = cast("LedgerPanel", window.panels["ledger"])
    assert ledger.model.highlighted == {"q", "k", "v", "o"}
    first = next(place for place, row in enumerate(ledger.model.rows) if row.entry.key == "q")
    box = ledger.table.visualRect(ledger.model.index(first, 1))
    assert ledger.table.viewport().rect().contains(box)
    corner = box.bottomRight() - QPoint(2, box.height() // 2)
    assert colour_at(ledger.table.viewport(), corner) == highlight.band()


def test_a_rank_is_ringed(qtbot: QtBot, window: MainWindow) -> None:
    enter(qtbot, window, 11, 3)
    view = cast("NextTokenPanel", window.panels["next_token"]).candidates
    assert view.highlighted == {0}
    before = view.grab().toImage()
    view.highlight(frozenset())
    assert view.grab().toImage() != before


@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("ink", ["text", "faint", "query", "key", "value"])
def test_a_marked_row_can_be_read(name: theme.ThemeName, ink: str) -> None:
    theme.apply(name)
    assert theme.contrast(getattr(theme.current(), ink), highlight.band()) >= 4.5
    theme.apply("dark")


def test_a_ledger_of_sizes_alone_needs_no_run(qtbot: QtBot, session: Session) -> None:
    panel = LedgerPanel(session)
    qtbot.addWidget(panel)
    panel.show()
    assert panel.notice.text() == NOTHING_YET
    ledger = build_ledger(CONFIG, 0, 1, 3, 5)
    panel.show_outline(ledger)
    assert panel.body.isVisible()
    assert panel.model.rowCount() == len(ledger.entries)
    shapes = next(place for place, column in enumerate(COLUMNS) if column.key == "shape")
    across = Qt.Orientation.Horizontal
    panel.show_outline(build_ledger(CONFIG, 0, 1, 1, 5))
    assert panel.model.headerData(shapes, across) == "Decode"
    panel.show_outline(build_ledger(CONFIG, 0, 1, 3, 5))
    assert panel.model.headerData(shapes, across) == "Prefill"
    panel.show_outline(ledger)
    session.opening.begin()  # a run comes meanwhile: the ledger of the sizes stays
    driving.settle(session)
    assert session.run is not None
    assert panel.model.rowCount() == len(ledger.entries)
    panel.show_outline(None)
    qtbot.waitUntil(lambda: panel.settled and "T = 12" in panel.subtitle.text())


def test_the_notes_follow_the_lesson(qtbot: QtBot, window: MainWindow) -> None:
    window.classroom.toggle_notes()
    notes = window.classroom.presenter
    assert notes is not None
    lesson = enter(qtbot, window, 1, 0)
    assert notes.place.text() == f"1  {lesson.title} · step 1 of {len(lesson.steps)}"
    filled = window.lesson.filled
    assert filled is not None
    assert notes.notes.toPlainText() == plain_text(filled.notes)
    assert notes.after.toPlainText() == plain_text(window.lesson.player.title_of(1))
    QTest.keyClick(notes, Qt.Key.Key_PageDown)
    qtbot.waitUntil(lambda: window.lesson.filled is not None and not window.session.busy)
    assert notes.place.text().endswith(f"step 2 of {len(lesson.steps)}")
    assert not notes.isHidden()


def test_a_long_text_is_scrolled_by_the_arrows(qtbot: QtBot, window: MainWindow) -> None:
    enter(qtbot, window, 7, 9)
    reading, layer = window.lesson.reading, window.session.selection.now.layer
    for focused in (reading, window.lesson.text):
        reading.verticalScrollBar().setValue(0)
        focused.setFocus()
        QTest.keyClick(focused, Qt.Key.Key_Down)
        assert reading.verticalScrollBar().value() > 0
        assert window.session.selection.now.layer == layer


@pytest.mark.parametrize("projector", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_lesson_waits_while_another_model_is_open(qtbot: QtBot, own_window: MainWindow, projector: bool) -> None:
    window = own_window
    enter(qtbot, window, 1, 1)
    window.set_look(projector=projector)
    settle(window)
    lesson, session = window.lesson, window.session
    mine = (session.model_handle, run_of(session), session.selection.now)
    assert not lesson.waiting.isVisible()
    session.opening.open(None, dtype="bfloat16")
    qtbot.waitUntil(lambda: not session.busy and session.model is not None and session.model.dtype == "bfloat16")
    settle(window)
    assert lesson.waiting.isVisible()
    assert lesson.waits.text() == "bundled is open now, but this step is about another model; the lesson waits."
    assert lesson.lesson is not None
    assert window.rect().contains(QRect(lesson.resume_button.mapTo(window, QPoint()), lesson.resume_button.size()))
    QTest.mouseClick(lesson.resume_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: session.model_handle is mine[0] and not session.busy, timeout=60_000)
    settle(window)
    assert not lesson.waiting.isVisible()
    assert run_of(session) == mine[1]
    assert session.selection.now == mine[2]

    session.opening.open(None, dtype="float16")
    qtbot.waitUntil(lambda: lesson.waiting.isVisible() and not session.busy, timeout=60_000)
    QTest.keyClick(window, Qt.Key.Key_PageDown)
    qtbot.waitUntil(lambda: lesson.filled is not None and not session.busy, timeout=60_000)
    assert not lesson.waiting.isVisible(), "going on is coming back"
    theirs = lesson.player._yours
    window.lesson.leave()
    settle(window)
    assert session.model_handle is theirs, "what was opened meanwhile is what is left with"


def run_of(session: Session) -> tuple[Any, ...]:
    assert session.run is not None
    return session.run.prompt, session.run.length, session.run.model.name, session.run.specs


def test_an_order_of_heads_stays_outside_the_lesson(qtbot: QtBot, window: MainWindow) -> None:
    heads: HeadsPanel = driving.front(window, "heads")
    heads.sort_box.setCurrentText("sink")
    assert heads.view.sorted_by == "sink"
    enter(qtbot, window, 11, 0)
    assert heads.view.sorted_by == LAYER_ORDER
    heads.sort_box.setCurrentText("entropy")
    QTest.keyClick(window, Qt.Key.Key_PageDown)
    qtbot.waitUntil(lambda: window.lesson.player.step == 1 and not window.session.busy, timeout=60_000)
    settle(window)
    assert heads.view.sorted_by == LAYER_ORDER
    QTest.keyClick(window, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    settle(window)
    assert heads.view.sorted_by == "sink"


def test_the_line_at_the_bottom_speaks_of_the_sizes_that_are_shown(qtbot: QtBot, window: MainWindow) -> None:
    before = window.status.facts.text()
    enter(qtbot, window, 9, 2)
    assert window.status.facts.text() == "sizes alone · 70.6 G parameters · 131.4 GiB weights, not loaded"
    assert not window.status.check.isVisible()
    window.lesson.leave()
    settle(window)
    assert window.status.facts.text().split(" · ")[:4] == before.split(" · ")[:4]


@pytest.mark.slow
def test_the_record_of_a_training_stands_where_the_step_says(qtbot: QtBot, window: MainWindow) -> None:
    enter(qtbot, window, 17, 2)
    panel, scene = cast("TrainingPanel", window.panels["training"]), window.lesson_scenes.scene
    qtbot.waitUntil(lambda: panel.history is not None)
    settle(window)
    assert scene is not None
    assert panel.history is not None
    assert panel.chosen == scene.statistic == "induction"
    assert panel.history.steps[panel.film.slider.value()] == scene.checkpoint
    scores = panel.history.scores["induction"][panel.film.slider.value()]
    assert scores.max() >= 0.5
    now = window.session.selection.now
    assert scores[now.layer, now.head] == scores.max()
    enter(qtbot, window, 17, 4)
    qtbot.waitUntil(panel.film.timer.isActive)
    panel.film.advance()
    assert panel.film.slider.value() >= 1
    window.lesson.leave()
    assert not panel.film.timer.isActive()


def test_a_step_shows_a_survey_that_comes_along(qtbot: QtBot, window: MainWindow) -> None:
    surveys = window.session.surveys
    surveys.first_sight = True
    lesson = SHELF.lesson("11")
    enter(qtbot, window, 11, next(place for place, step in enumerate(lesson.steps) if step.scene.survey))
    scene = window.lesson_scenes.scene
    assert scene is not None
    assert surveys.now is not None
    assert surveys.now.folder == str(BUNDLED[scene.survey][1])
    assert surveys.statistic == scene.surveyed == "induction"
    assert surveys.is_model
    means = surveys.means("induction")
    assert means[surveys.head] == means.max()
    now = window.session.selection.now
    assert (now.layer, now.head) == surveys.head
    run, step = window.session.run, window.lesson.player.step
    assert surveys.read is not None
    surveys.open_example(surveys.read.examples[0])
    settle(window)
    assert window.stage.workspace == "scores"
    assert window.session.run is not run
    QTest.keyClick(window, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    settle(window)
    assert (window.stage.workspace, window.lesson.player.step) == ("lesson", step)
    assert window.session.run is run
    window.lesson.leave()
    settle(window)
    assert surveys.now is None
    assert surveys.first_sight
    surveys.close_survey()
