"""Panels that are made when they are first in sight or asked for: they must be as if they had always been there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.lessons.plan import Scene
from ropewalk.app.session.session import Session
from ropewalk.model.decoder.interventions import NoScale, RopeOff
from ropewalk.model.readings.records import Sampling
from ropewalk.views.commands import commands
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.registry import PANELS
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import theme
from ropewalk.views.verbs import verbs
from ropewalk.views.window.palette import Command
from tests.views.canned import canned_session
from tests.views.driving import settle, window_over

IN_SIGHT = {"tokens", "heads", "scores", "rope", "why"}
"""What a window of 1280 × 800 shows at first."""


def opened_window(session: Session, *, restore: bool = False) -> MainWindow:
    """A window that has drawn what is in sight."""
    window = window_over(session, restore=restore)
    if not restore:
        window.resize(1280, 800)
    window.show()
    window.activateWindow()
    if session.run is not None:
        snapshot.wait_until_drawn(window)
    return window


@pytest.fixture
def window(qtbot: QtBot, running: Session) -> Iterator[MainWindow]:
    window = opened_window(running)
    yield window
    window.close()
    window.deleteLater()


class Windows(QObject):
    """Hears of every window that is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            self.shown.append(f"{type(watched).__name__} {watched.accessibleName()}")
        return False


@pytest.mark.parametrize("projector", [False, True])
def test_no_panel_shows_a_window_for_a_moment_while_it_is_made(qtbot: QtBot, running: Session, projector: bool) -> None:
    """Part of a panel that is shown before it has a parent is a window, and takes the keyboard away for good."""
    app, windows = QApplication.instance(), Windows()
    assert app is not None
    theme.apply("dark", projector=projector)
    app.installEventFilter(windows)
    try:
        for entry in PANELS:
            panel = entry.make(running)
            assert windows.shown == [], entry.name
            panel.close_down()
            panel.deleteLater()
    finally:
        app.removeEventFilter(windows)
        theme.apply("dark")


def click_tab(window: MainWindow, title: str) -> None:
    """Click the tab of that title."""
    for bar in window.findChildren(QTabBar):
        for place in range(bar.count()):
            if bar.tabText(place) == title:
                QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(place).center())
                return
    raise AssertionError(f"there is no tab {title}")


def stops(window: MainWindow) -> list[str]:
    """Where Tab stops, each stop by its card and its words; bars and menus aside."""
    found, widget = [], window.nextInFocusChain()
    while widget is not None and widget is not window:
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus.value:
            card = next((name for name, card in window.cards.items() if card.isAncestorOf(widget)), "")
            if card:
                found.append(f"{card} {type(widget).__name__} {widget.accessibleName()}")
        widget = widget.nextInFocusChain()
    return found


def test_only_what_is_in_sight_is_made(window: MainWindow) -> None:
    assert set(window.panels) == IN_SIGHT
    assert not window.cards["needs"].is_made


def test_a_click_on_a_tab_makes_the_panel_and_it_draws(qtbot: QtBot, window: MainWindow, running: Session) -> None:
    running.selection.update(layer=1, head=2, query=5)
    click_tab(window, "KV cache")
    qtbot.waitUntil(lambda: "cache" in window.panels)
    assert set(window.panels) == IN_SIGHT | {"cache"}
    panel = window.panels["cache"]
    settle(running, panel)
    assert panel.on_screen
    assert panel.draws == 1
    assert not window.panels["rope"].on_screen
    assert "12 positions" in panel.subtitle.text()


def test_a_key_makes_the_panel_and_gives_it_the_focus(window: MainWindow) -> None:
    window.setFocus()
    window.reveal("ledger", focus=True)
    focused = QApplication.focusWidget()
    assert focused is not None
    assert window.cards["ledger"].isAncestorOf(focused)
    assert window.classroom.walk.current == "ledger"
    heading = window.panels["ledger"].heading
    assert heading.property("focused")


def test_tab_walks_a_late_panel_where_it_stands(qtbot: QtBot, window: MainWindow, running: Session) -> None:
    for name in sorted(window.cards, key=lambda name: name[::-1]):  # in another order than they stand in
        window.cards[name].make_panel()
    late = stops(window)
    at_once = MainWindow(running, restore=False)
    for card in at_once.cards.values():
        card.make_panel()
    in_order = [name for name in window.cards if any(stop.startswith(f"{name} ") for stop in late)]
    assert list(dict.fromkeys(stop.split()[0] for stop in late)) == in_order
    assert late == stops(at_once)
    at_once.deleteLater()


def test_theme_and_projector_of_before_are_worn(qtbot: QtBot, window: MainWindow) -> None:
    window.set_look("light", projector=True)
    late: Any = window.panels["next_token"]
    assert not late.parts.second.isVisibleTo(late)  # a projector has no room for its controls
    window.reveal("next_token")
    snapshot.wait_until_drawn(window)
    assert late.heading.font().pixelSize() == window.panels["scores"].heading.font().pixelSize()
    picture = late.grab().toImage()
    assert picture.pixelColor(2, 2) == theme.themed("light", True).window
    window.set_look("dark", projector=False)
    assert late.parts.second.isVisibleTo(late)


def test_what_a_session_holds_is_shown(window: MainWindow, running: Session) -> None:
    running.timeline.set_sampling(Sampling(temperature=0.7, top_k=9))
    running.baseline.pin()
    late: Any = window.panels["next_token"]
    assert (late.temperature.value(), late.top_k.value()) == (0.7, 9)
    compare: Any = window.panels["compare"]
    assert compare.unpin_button.isEnabled()


def test_every_change_can_be_undone_though_the_panel_came_later(
    qtbot: QtBot, window: MainWindow, running: Session
) -> None:
    assert not window.cards["experiments"].is_made
    running.interventions.apply((NoScale(),))
    settle(running)
    running.interventions.apply((NoScale(), RopeOff()))
    qtbot.waitUntil(lambda: len(running.interventions.now) == 2)
    panel: Any = window.panels["experiments"]
    assert [chip.text() for chip in panel.active_chips] == [f"{one.label}  ×" for one in (NoScale(), RopeOff())]
    panel.undo()
    qtbot.waitUntil(lambda: running.interventions.now == (NoScale(),))
    panel.undo()
    qtbot.waitUntil(lambda: running.interventions.now == ())


def test_a_picture_of_a_hidden_panel_is_that_of_one_made_at_the_start(
    qtbot: QtBot, window: MainWindow, running: Session
) -> None:
    late = snapshot.picture(window, QSize(1280, 800), "needs")
    again = window_over(running)
    for card in again.cards.values():
        card.make_panel()
    at_once = snapshot.picture(again, QSize(1280, 800), "needs")
    assert late == at_once
    again.hide()
    again.deleteLater()


def test_a_workspace_that_comes_back_makes_what_it_shows(qtbot: QtBot, running: Session) -> None:
    first = opened_window(running)
    first.show_workspace("heads")
    click_tab(first, "Heads that matter")
    qtbot.waitUntil(lambda: "needs" in first.panels)
    first.close()
    first.deleteLater()

    with canned_session(running.settings.path) as fresh:
        second = opened_window(fresh, restore=True)
        assert set(second.panels) == {"tokens", "heads", "scores", "why"}
        second.close()
        second.deleteLater()


def test_a_lesson_makes_the_panels_of_its_step_and_no_others(
    qtbot: QtBot, window: MainWindow, running: Session
) -> None:
    window.lesson_scenes.show(Scene("bundled", "", ("cache", "tokens")))
    assert window.cards["cache"].is_made
    assert window.cards["lesson"].is_made
    assert not {"compare", "needs", "routing", "next_token"} & set(window.panels)
    window.lesson_scenes.leave()


def test_one_panel_alone_and_back_makes_no_other(qtbot: QtBot, window: MainWindow) -> None:
    window.classroom.full.enter("scores")
    window.classroom.full.leave()
    snapshot.settle(window)
    assert set(window.panels) == IN_SIGHT


def test_the_palette_offers_the_controls_of_panels_in_sight_alone(window: MainWindow) -> None:
    offered = {command.group for command in commands(window, verbs(window, window.files))}
    assert "RoPE" in offered
    assert "KV cache" not in offered
    assert not window.cards["cache"].is_made


def test_a_card_without_its_panel_has_its_names(window: MainWindow) -> None:
    card = window.cards["routing"]
    assert not card.is_made
    assert (card.windowTitle(), card.accessibleName()) == ("Experts", "Experts")
    assert card.findChildren(QWidget, "routing") == []


def test_the_palette_starts_the_engine_again_while_there_is_none(
    qtbot: QtBot, window: MainWindow, running: Session
) -> None:
    def offered() -> list[Command]:
        every = commands(window, verbs(window, window.files))
        return [command for command in every if command.text == "Start the engine again"]

    assert offered() == []
    running.engines.current.kill()
    qtbot.waitUntil(window.engine.isVisible)
    (again,) = offered()
    again.run()
    qtbot.waitUntil(lambda: running.engines.gone is None and not running.busy)
    assert offered() == []
