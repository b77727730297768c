"""The real window over canned readings: every panel linked, nothing clipped, and all of it back next time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QAction, QColor, QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLabel, QMenu, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskCell
from ropewalk.model.errors import CheckpointError
from ropewalk.model.readings.records import Run, Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.files.export_dialog import ExportDialog, PicturePage
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels import registry
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.next_token import NextTokenPanel
from ropewalk.views.panels.panel import NO_ENGINE, ElidedLabel, SparedLabel
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.panels.timeline import TimelinePanel
from ropewalk.views.panels.tokens import TokensPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.menus.map_menu import MapMenu
from ropewalk.views.style import theme
from ropewalk.views.style.colour_maps import colour_table
from ropewalk.views.window.open_dialog import OpenDialog
from ropewalk.views.window.prompt_bar import sampling_text
from tests.qt_guards import delete_what_is_due
from tests.views import canned
from tests.views.canned import PROMPT, CannedEngine, canned_session
from tests.views.driving import Shared, run_on, settle, window_over

Make = Callable[..., MainWindow]
Other = Callable[[Path], Session]


@pytest.fixture
def make(qtbot: QtBot) -> Iterator[Make]:
    """Make a window, show it, and wait until it has drawn."""
    windows: list[MainWindow] = []

    def made(session: Session, width: int = 1280, height: int = 800, *, restore: bool = False) -> MainWindow:
        window = window_over(session, restore=restore)
        windows.append(window)
        if not restore:
            window.resize(width, height)
        window.show()
        window.activateWindow()
        if session.run is not None:
            snapshot.wait_until_drawn(window)
        return window

    yield made
    for window in windows:
        window.close()
        window.deleteLater()


@pytest.fixture
def other(qtbot: QtBot) -> Iterator[Other]:
    """Make another session with the same settings, as the next start of the program does."""
    with ExitStack() as sessions:
        yield lambda path: sessions.enter_context(canned_session(path))


@pytest.fixture
def window(qtbot: QtBot, shared: Shared) -> Iterator[MainWindow]:
    yield shared.put_back()
    shared.clear()


@pytest.fixture
def own_window(make: Make, running: Session) -> MainWindow:
    """A window that no other test has, over an engine that can be changed."""
    return make(running)


def draws(window: MainWindow) -> dict[str, int]:
    return {name: panel.draws for name, panel in window.panels.items()}


def box(window: MainWindow, widget: QWidget) -> QRect:
    return QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())


# Panels -----------------------------------------------------------------------------------------------------------


def test_every_panel_is_listed_once_and_has_its_card(window: MainWindow) -> None:
    assert len(set(registry.names())) == len(registry.names())
    assert tuple(window.cards) == registry.names()


def test_the_panels_stand_as_in_the_sketch(make: Make, running: Session) -> None:
    window = make(running, 1920, 1080)
    place = {name: box(window, card) for name, card in window.cards.items()}
    assert place["tokens"].bottom() < place["heads"].top() < place["scores"].top() < place["why"].top()
    assert place["ledger"].right() < place["heads"].left()
    assert place["heads"].right() < place["rope"].left()
    assert place["rope"].bottom() < place["cache"].top() < place["next_token"].top()
    assert place["why"].bottom() < place["timeline"].top()
    visible = [place[name] for name in place if window.panels[name].on_screen]
    assert len(visible) == 9
    assert not any(a.intersects(b) for i, a in enumerate(visible) for b in visible[i + 1 :])


def test_the_menu_of_panels_leads_to_each_and_offers_experts_where_there_are_some(own_window: MainWindow) -> None:
    window = own_window
    offered = {entry.text(): entry for entry in window.bar.looks["panels"].menu().actions() if entry.isVisible()}
    assert set(offered) - {""} == {card.title for card in window.cards.values()} - {"Experts"} | {
        "Panels back in their places"
    }
    for name in ("needs", "ledger", "tokens", "experiments"):
        offered[window.cards[name].title].trigger()
        assert window.panels[name].on_screen
    window.reveal("routing")
    assert window.failure.sentence.text() == "This model is dense: it has no experts to show."
    assert not window.cards["routing"].is_made
    for go, where in ((window.reveal, "rope"), (window.show_workspace, "decode")):
        window.reveal("routing")
        assert window.failure.isVisible()
        go(where)
        assert window.failure.isHidden(), "it would cover what is looked at next"
    window.failure.show_message("The prompt is empty.", "")
    window.show_workspace("rope")
    assert window.failure.isVisible(), "what went wrong stays until it is read"
    window.failure.dismiss()


@pytest.mark.parametrize(
    ("size", "projector"),
    [
        (QSize(1280, 800), True),  # where words have the least room
        pytest.param(QSize(1280, 800), False, marks=pytest.mark.slow),
        pytest.param(QSize(1920, 1080), True, marks=pytest.mark.slow),
        pytest.param(QSize(1920, 1080), False, marks=pytest.mark.slow),
    ],
)
def test_the_window_keeps_its_size_and_no_word_is_cut_off(
    qtbot: QtBot, make: Make, running: Session, size: QSize, projector: bool
) -> None:
    running.timeline.set_sampling(Sampling(temperature=0.8, top_k=40, seed=7))
    window = make(running, size.width(), size.height())
    window.set_look(projector=projector)
    snapshot.picture(window, size)
    assert window.size() == size
    whole = QRect(QPoint(0, 0), size)
    words: list[QLabel | QAbstractButton | QComboBox] = [
        *window.findChildren(QLabel),
        *window.findChildren(QAbstractButton),
        *window.findChildren(QComboBox),
    ]
    for widget in words:
        if not widget.isVisible() or isinstance(widget, ElidedLabel) or widget.visibleRegion().isEmpty():
            continue
        if isinstance(widget, SparedLabel) and widget.width() < widget.sizeHint().width():
            continue  # it is left out whole
        text = widget.currentText() if isinstance(widget, QComboBox) else widget.text()
        if not text or (isinstance(widget, QLabel) and widget.wordWrap()):
            continue
        assert whole.contains(box(window, widget)), text
        assert widget.width() >= widget.fontMetrics().horizontalAdvance(text), text
    for bar in window.findChildren(QTabBar):
        for tab in range(bar.count() if bar.isVisible() else 0):
            text = bar.tabText(tab)
            assert bar.tabRect(tab).width() >= bar.fontMetrics().horizontalAdvance(text) + 2 * theme.GRID, text


# The whole chain --------------------------------------------------------------------------------------------------


def test_type_run_click_step_and_back(qtbot: QtBot, window: MainWindow) -> None:
    running = window.session
    prompt = window.bar.prompt
    prompt.setFocus()
    prompt.selectAll()
    QTest.keyClicks(prompt, "to be or not")
    QTest.keyClick(prompt, Qt.Key.Key_Return)
    snapshot.wait_until_drawn(window)
    assert run_on(running).prompt == "to be or not"

    heads = window.panels["heads"]
    assert isinstance(heads, HeadsPanel)
    heads.view.head_clicked.emit(2, 3)
    snapshot.wait_until_drawn(window)
    scores = window.panels["scores"]
    assert isinstance(scores, ScoresPanel)
    point = scores.weights.cell_rect(9, 3).center().toPoint()
    QTest.mouseClick(scores.weights.viewport(), Qt.MouseButton.LeftButton, pos=point)
    snapshot.wait_until_drawn(window)
    now = running.selection.now
    assert (now.layer, now.head, now.query, now.key) == (2, 3, 9, 3)
    weight = float(canned.weights(run_on(running), 2, 3)[9, 3])
    wanted = theme.current().sequential[round(weight * 255)].tolist()[:3]
    image = scores.weights.grab().toImage()
    corner = scores.weights.cell_rect(9, 3).center().toPoint() + QPoint(1, 1)
    assert image.pixelColor(corner) == QColor(*wanted)
    assert "L2H3" in window.panels["why"].subtitle.text()

    window.setFocus()
    for _ in range(3):
        QTest.keyClick(window, Qt.Key.Key_Right)
    snapshot.wait_until_drawn(window)
    tokens = window.panels["tokens"]
    assert isinstance(tokens, TokensPanel)
    assert running.run is not None
    assert running.run.length == 15
    assert running.selection.now.query == 14
    assert "3 decoded" in tokens.subtitle.text()
    QTest.keyClick(window, Qt.Key.Key_Left)
    snapshot.wait_until_drawn(window)
    assert running.selection.now.query == 13
    assert scores.subtitle.text().startswith("L2H3 · 14 × 14")


def test_a_change_redraws_each_dependent_panel_once_and_no_other(qtbot: QtBot, window: MainWindow) -> None:
    running = window.session
    changes: tuple[tuple[dict[str, int], set[str]], ...] = (
        ({"key": 2}, {"rope", "why"}),
        ({"head": 5}, {"tokens", "scores", "rope", "why"}),
        ({"layer": 3}, {"tokens", "ledger", "scores", "rope", "why"}),
    )
    for change, redrawn in changes:
        before = draws(window)
        running.selection.update(**change)
        snapshot.wait_until_drawn(window)
        after = draws(window)
        seen = {name for name, panel in window.panels.items() if panel.on_screen}
        assert {name: after[name] - before[name] for name in after} == {
            name: int(name in redrawn and name in seen) for name in after
        }, change


def test_keys_walk_layers_and_heads(qtbot: QtBot, window: MainWindow) -> None:
    running = window.session
    for key, field, by in (
        (Qt.Key.Key_Down, "layer", 1),
        (Qt.Key.Key_Up, "layer", -1),
        (Qt.Key.Key_BracketRight, "head", 1),
        (Qt.Key.Key_BracketLeft, "head", -1),
    ):
        window.setFocus()
        before = getattr(running.selection.now, field)
        QTest.keyClick(window, key)
        assert getattr(running.selection.now, field) == before + by
        QTest.keyClick(window, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
        assert getattr(running.selection.now, field) == before


def test_arrows_in_the_prompt_do_not_step(own_window: MainWindow, running: Session, engine: CannedEngine) -> None:
    window = own_window
    running.timeline.step()
    snapshot.wait_until_drawn(window)
    window.bar.prompt.setFocus()
    calls, run = len(engine.calls), running.run
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Space):
        QTest.keyClick(window.bar.prompt, key)
    snapshot.wait_until_drawn(window)
    assert (len(engine.calls), running.timeline.playing) == (calls, False)
    assert running.run is run


def test_arrows_in_a_slider_move_it_and_do_not_step(window: MainWindow) -> None:
    running = window.session
    running.timeline.step()
    snapshot.wait_until_drawn(window)
    slider, run = window.panels["rope"].slider, running.run  # type: ignore[attr-defined]
    slider.setFocus()
    before = slider.value()
    QTest.keyClick(slider, Qt.Key.Key_Left)
    snapshot.wait_until_drawn(window)
    assert slider.value() < before
    assert running.run is run


def test_a_ledger_row_leads_to_the_panel_that_shows_it(window: MainWindow) -> None:
    assert not window.panels["next_token"].on_screen
    window.panels["ledger"].panel_requested.emit("next_token")  # type: ignore[attr-defined]
    assert window.panels["next_token"].on_screen


# The bar and the line at the bottom ---------------------------------------------------------------------------------


def test_a_failure_is_a_sentence_and_the_old_run_stays(qtbot: QtBot, window: MainWindow) -> None:
    running = window.session
    run = running.run
    window.bar.prompt.clear()
    window.bar.run.click()
    assert window.failure.isVisible()
    assert window.failure.sentence.text().startswith("The prompt is empty")
    assert running.run is run
    assert window.panels["scores"].body.isVisible()
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert not window.failure.isVisible()


def test_details_are_folded_until_asked_for(own_window: MainWindow, running: Session, engine: CannedEngine) -> None:
    window = own_window

    def broken(run: Run, asked: AskCell) -> None:
        raise CheckpointError("The file <b>x</b> is not a checkpoint.", "Traceback …")

    engine.answers[AskCell] = broken
    running.selection.update(key=2)
    settle(running)
    assert window.failure.sentence.text() == "The file <b>x</b> is not a checkpoint."
    assert not window.failure.details.isVisible()
    window.failure.unfold.click()
    assert window.failure.details.isVisible()
    assert box(window, window.failure).bottom() < box(window, window.statusBar()).top()
    window.failure.close_button.click()
    assert not window.failure.isVisible()


def test_progress_is_shown_with_a_cancel(
    qtbot: QtBot, own_window: MainWindow, running: Session, engine: CannedEngine
) -> None:
    window = own_window
    assert not window.status.bar.isVisible()
    height = window.statusBar().sizeHint().height()
    before, running.jobs.show_after = running.run, 0.0
    engine.gate.shut()
    running.start(Prompt("a long prompt"))
    qtbot.waitUntil(lambda: window.status.what.text() == "Prefill 0 of 4")
    assert window.status.bar.isVisible()
    assert window.statusBar().sizeHint().height() == height
    assert window.status.bar.maximum() == 4
    window.status.cancel.click()
    assert window.status.what.text() == "idle"
    assert not running.busy
    engine.gate.open.set()
    qtbot.waitUntil(lambda: engine.closed == ["a long prompt"])
    assert running.run is before


def test_the_line_names_what_is_open_and_proves_the_cache(window: MainWindow) -> None:
    for part in ("Bundled (4 layers)", "parameters", "float32", "cpu", "weights", "trace"):
        assert part in window.status.facts.text()
    assert window.status.check.text() == "cached = full within 3e−6 ✓"


def test_device_and_dtype_are_chosen_in_the_bar(own_window: MainWindow, engine: CannedEngine) -> None:
    window = own_window
    menu = window.bar.device.menu()
    menu.aboutToShow.emit()
    choices = {entry.text(): entry for entry in menu.actions()}
    assert choices["cpu"].isChecked()
    choices["cuda"].trigger()
    snapshot.wait_until_drawn(window)
    assert engine.calls.count("open None cuda float32") == 1
    menu.aboutToShow.emit()
    {entry.text(): entry for entry in menu.actions()}["bfloat16"].trigger()
    snapshot.wait_until_drawn(window)
    assert engine.calls.count("open None cuda bfloat16") == 1
    assert window.bar.device.text() == "cuda · bf16"


@pytest.mark.parametrize("name", ["checkpoint", "device"])
def test_a_menu_that_is_filled_anew_leaves_nothing_of_the_old_one(window: MainWindow, name: str) -> None:
    menu = getattr(window.bar, name).menu()
    counts = []
    for _ in range(2):
        menu.aboutToShow.emit()
        delete_what_is_due()
        counts.append(Counter(type(one).__name__ for one in window.findChildren(QObject)))
    assert counts[0] == counts[1]


def test_what_asks_for_more_ends_in_an_ellipsis_without_a_space(qtbot: QtBot, window: MainWindow) -> None:
    for menu in window.findChildren(QMenu):
        menu.aboutToShow.emit()
    opening = OpenDialog(window.session, window)
    qtbot.addWidget(opening)
    everything: tuple[QAction | QAbstractButton, ...]
    everything = (*window.findChildren(QAction), *window.findChildren(QAbstractButton))
    said = {one.text() for one in everything}
    assert {"Open…", "Engine…", "File…", "Folder…"} <= said
    assert [text for text in said if text.endswith((" …", "..."))] == []
    opening.reject()


def test_without_an_engine_nothing_moves_and_buttons_say_why(qtbot: QtBot, window: MainWindow) -> None:
    """Else marks would stand in pictures of another cell, and rows in view under numbers of others."""
    running = window.session
    for name in ("next_token", "timeline"):
        window.reveal(name)
    running.timeline.step()
    snapshot.wait_until_drawn(window)
    next_token, timeline = window.panels["next_token"], window.panels["timeline"]
    assert isinstance(next_token, NextTokenPanel)
    assert isinstance(timeline, TimelinePanel)
    played = (next_token.step_button, next_token.play_button, next_token.run_button, next_token.back_button)
    bar = window.bar.steps.buttons
    buttons: tuple[QAbstractButton, ...] = (*bar.values(), *played, timeline.branch_button)
    before = [(button.isEnabled(), button.toolTip()) for button in buttons]
    assert [enabled for enabled, _ in before] == [button is not bar["to_end"] for button in buttons]
    selected, run = running.selection.now, running.run
    window.setFocus()
    running.engines.current.kill()
    assert {(button.isEnabled(), button.toolTip()) for button in buttons} == {(False, NO_ENGINE)}
    keys = (Qt.Key.Key_Left, Qt.Key.Key_Home, Qt.Key.Key_Space, Qt.Key.Key_Down, Qt.Key.Key_BracketRight)
    for key in keys:
        QTest.keyClick(window, key)
    timeline.steps.length_chosen.emit(run_on(running).prefill)
    assert (running.selection.now, running.run, running.timeline.playing) == (selected, run, False)
    with qtbot.waitSignal(running.recovery.engine_back):
        running.recovery.restart()
    snapshot.wait_until_drawn(window)
    assert [(button.isEnabled(), button.toolTip()) for button in buttons] == before
    QTest.keyClick(window, Qt.Key.Key_Down)
    assert running.selection.now.layer == selected.layer + 1


def test_step_buttons_know_what_is_possible(window: MainWindow) -> None:
    running = window.session
    buttons = window.bar.steps.buttons
    assert not buttons["step_back"].isEnabled()
    buttons["step"].click()
    snapshot.wait_until_drawn(window)
    assert buttons["step_back"].isEnabled()
    assert not buttons["to_end"].isEnabled()
    buttons["to_start"].click()
    assert running.run is not None
    assert running.run.length == running.run.prefill
    assert buttons["to_end"].isEnabled()
    buttons["toggle_play"].click()
    assert buttons["toggle_play"].text() == "pause"


@pytest.mark.parametrize(
    ("sampling", "text"),
    [(Sampling(), "greedy"), (Sampling(0.8, 40, 0.9, 7), "T 0.8 · top-k 40 · top-p 0.9 · seed 7")],
)
def test_sampling_is_summed_up(sampling: Sampling, text: str) -> None:
    assert sampling_text(sampling) == text


# The look ---------------------------------------------------------------------------------------------------------


def test_projector_mode_shows_the_same_workspace_with_fewer_panels_and_the_rest_returns(
    qtbot: QtBot, make: Make, running: Session
) -> None:
    window = make(running, 1920, 1080)
    before = window.stage.in_sight
    QTest.keyClick(window, Qt.Key.Key_P)
    assert theme.current().projector
    assert set(window.stage.in_sight) < set(before)
    assert window.stage.workspace == "overview"
    QTest.keyClick(window, Qt.Key.Key_P)
    assert window.stage.in_sight == before


def test_the_theme_key_turns_light_and_back(qtbot: QtBot, window: MainWindow) -> None:
    running = window.session
    dark = window.grab().toImage()
    QTest.keyClick(window, Qt.Key.Key_T)
    assert theme.current().name == "light"
    assert running.settings.now.theme == "light"
    light = window.grab().toImage()
    assert dark.pixelColor(2, 2) != light.pixelColor(2, 2)
    QTest.keyClick(window, Qt.Key.Key_T)
    assert theme.current().name == "dark"


def test_workspace_theme_and_prompt_come_back(qtbot: QtBot, make: Make, running: Session, other: Other) -> None:
    first = make(running, 1500, 900)
    first.show_workspace("decode")
    first.set_look("light", projector=True)
    first.close()

    again = other(running.settings.path)
    assert again.settings.now.geometry
    second = make(again, restore=True)
    assert second.stage.workspace == "decode"
    assert second.bar.tabs.buttons["decode"].isChecked()
    assert not second.cards["heads"].is_made
    assert (theme.current().name, theme.current().projector) == ("light", True)
    assert second.bar.prompt.text() == PROMPT


def test_colours_that_are_chosen_are_those_of_every_panel_and_come_back(
    make: Make, running: Session, other: Other
) -> None:
    first = make(running)
    panel = first.panels["scores"]
    assert isinstance(panel, ScoresPanel)
    next(one for one in first.map_menu.colours.actions() if one.data() == "magma").trigger()
    index = panel.weights.levels.indices(np.array(panel.weights.value(9, 3), np.float32))
    assert panel.weights.data.colour(9, 3) == QColor(*colour_table("magma")[index].tolist()[:3])
    first.set_look("light")
    assert theme.current().colour_map == "magma"
    first.close()

    theme.colour_in("viridis")
    again = other(running.settings.path)
    make(again, restore=True)
    assert theme.current().colour_map == "magma"
    again.settings.update(colour_map="of a later version")
    theme.colour_in("viridis")
    make(again, restore=True)
    assert theme.current().colour_map == "viridis"


def test_a_right_click_on_a_map_offers_what_can_be_done_with_it(window: MainWindow) -> None:
    panel = window.panels["scores"]
    assert isinstance(panel, ScoresPanel)
    at = panel.weights.cell_rect(9, 3).center().toPoint()
    press = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, panel.weights.viewport().mapToGlobal(at))
    QApplication.sendEvent(panel.weights.viewport(), press)
    menus = [one for one in QApplication.topLevelWidgets() if isinstance(one, MapMenu) and one.isVisible()]
    assert menus == [window.map_menu]
    assert window.map_menu.value.text() == f"Copy the value {np.float32(panel.weights.value(9, 3))!s}"
    window.map_menu.close()
    window.map_menu.exported.emit(panel.weights)
    (dialog,) = window.findChildren(ExportDialog)
    page = dialog.page
    assert isinstance(page, PicturePage)
    assert page.target.currentData() == "scores"
    dialog.close()


@pytest.mark.parametrize("layout", [b"", b"\x00\xff what Qt wrote of docks", b"{}", b"[" * 100_000])
def test_a_layout_of_an_earlier_version_is_passed_over(
    make: Make, running: Session, other: Other, layout: bytes
) -> None:
    running.settings.update(layout=layout)
    window = make(other(running.settings.path), restore=True)
    assert window.stage.workspace == "overview"
    assert window.cards["scores"].isVisible()


def test_closing_the_window_closes_the_session(make: Make, running: Session, engine: CannedEngine) -> None:
    window = make(running)
    window.close()
    assert running.closed
    asked = len(engine.calls)
    running.ask("late", AskCell(0, 0, 0, 0), lambda answer: None)
    assert not running.busy
    assert len(engine.calls) == asked


def test_the_first_step_moves_no_panel(qtbot: QtBot, window: MainWindow) -> None:
    running = window.session
    before = {name: box(window, panel) for name, panel in window.panels.items() if panel.on_screen}
    for _ in range(2):
        running.timeline.step()
        snapshot.wait_until_drawn(window)
        QApplication.processEvents()
        assert {name: box(window, window.panels[name]) for name in before} == before


def test_what_ended_as_it_should_is_told_without_alarm_until_the_run_goes_on(
    window: MainWindow,
) -> None:
    running = window.session
    running.noticed.emit("The text ends here.")
    strip = window.failure
    assert (strip.isVisible(), strip.is_failure, strip.sentence.text()) == (True, False, "The text ends here.")
    running.timeline.step()
    settle(running)
    assert not strip.isVisible()
    running.failed.emit("It could not be done.", "")
    running.timeline.step()
    settle(running)
    assert (strip.isVisible(), strip.is_failure) == (True, True)
    strip.dismiss()
