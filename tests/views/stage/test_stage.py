"""The stage in the real window over canned readings: what is shown where, what a person moves, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, cycle, islice
from pathlib import Path
from typing import cast

import pytest
from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLabel, QScrollArea, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.decoder.config import MoeConfig
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.commands import commands
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.panel import ElidedLabel, SparedLabel
from ropewalk.views.panels.tokens import TokensPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.rotation.planes import PlanesView
from ropewalk.views.stage.stage import Stage
from ropewalk.views.stage.tree import row
from ropewalk.views.stage.workspaces import NAMED, WORKSPACES
from ropewalk.views.style import theme
from ropewalk.views.verbs import verbs
from tests.qt_guards import delete_what_is_due
from tests.views.canned import CannedEngine, canned_session
from tests.views.driving import Shared, settle, window_over

SIZES = ((1366, 768), (1920, 1080), (1280, 720), (960, 540), (1024, 768), (2560, 1440))
"""Screens, in pixels of the window: two of them are 1920 × 1080 at 150 and at 200 per cent."""


def opened(session: Session, size: QSize, *, restore: bool = False) -> MainWindow:
    window = window_over(session, restore=restore)
    if not restore:
        window.resize(size)
    window.show()
    window.activateWindow()
    snapshot.wait_until_drawn(window)
    settled()
    return window


def settled() -> None:
    for _ in range(3):
        QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        QApplication.processEvents()


@pytest.fixture
def window(qtbot: QtBot, shared: Shared) -> Iterator[MainWindow]:
    shared.size = QSize(1366, 768)
    window = shared.put_back()
    settled()
    yield window
    shared.clear()


@pytest.fixture
def own_window(qtbot: QtBot, running: Session) -> Iterator[MainWindow]:
    """A window that no other test has, over an engine that can be changed."""
    window = opened(running, QSize(1366, 768))
    window.setFocus()
    yield window
    window.close()
    window.deleteLater()


def places(window: MainWindow) -> dict[str, QRect]:
    return {name: window.cards[name].geometry() for name in window.stage.in_sight}


def pull(widget: QWidget, start: QPoint, end: QPoint) -> None:
    """Press, move and let go; ``end`` is a point of the screen."""
    QTest.mousePress(widget, Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseMove(widget, widget.mapFromGlobal(end))
    QTest.mouseMove(widget, widget.mapFromGlobal(end) + QPoint(1, 1))
    QTest.mouseRelease(widget, Qt.MouseButton.LeftButton, pos=widget.mapFromGlobal(end))
    settled()


def drag(window: MainWindow, name: str, onto: str, share: tuple[float, float]) -> None:
    """Drag a card by its heading to a point of another one, given in parts of its width and height."""
    other = window.cards[onto]
    point = QPoint(round(other.width() * share[0]), round(other.height() * share[1]))
    pull(window.cards[name].handle, QPoint(30, 10), other.mapToGlobal(point))


# Workspaces -----------------------------------------------------------------------------------------------------------


def test_a_number_and_a_click_put_each_workspace_on(window: MainWindow) -> None:
    for workspace in reversed(WORKSPACES):
        QTest.keyClick(window, Qt.Key(Qt.Key.Key_0 + workspace.number), Qt.KeyboardModifier.ControlModifier)
        assert window.stage.workspace == workspace.name
        assert [name for name, tab in window.bar.tabs.buttons.items() if tab.isChecked()] == [workspace.name]
        assert ("tokens" in window.stage.in_sight) == (workspace.strip != "none")
        assert 3 <= len(window.stage.in_sight) <= 5
    for name, tab in window.bar.tabs.buttons.items():
        for _ in range(2):  # once more changes nothing
            QTest.mouseClick(tab, Qt.MouseButton.LeftButton)
            assert window.stage.workspace == name
            assert tab.isChecked()


def test_a_number_replaces_what_is_on_stage_also_a_panel_that_is_alone(window: MainWindow) -> None:
    window.classroom.full.enter("scores")
    QTest.keyClick(window, Qt.Key.Key_4, Qt.KeyboardModifier.ControlModifier)
    assert window.stage.in_sight == ["tokens", "cache", "next_token", "timeline"]
    assert window.bar.isVisible()
    assert not window.isFullScreen()


@pytest.mark.parametrize("kind", [PlanesView, QTabBar])
def test_the_keys_go_to_the_window_when_what_has_them_leaves(window: MainWindow, kind: type[QWidget]) -> None:
    window.show_workspace("overview")
    window.reveal("rope")
    settled()
    part = next(one for one in window.stage.findChildren(kind) if one.isVisible())
    part.setFocus()
    before = window.session.run
    QTest.keyClick(part, Qt.Key.Key_4, Qt.KeyboardModifier.ControlModifier)
    assert not part.isVisible()
    assert window.focusWidget() is window
    QTest.keyClick(window, Qt.Key.Key_Right)
    settle(window.session)
    assert window.session.run is not before


def test_the_number_of_widgets_is_flat(window: MainWindow) -> None:
    names = [workspace.name for workspace in WORKSPACES]
    for name in names:
        window.show_workspace(name)
    snapshot.wait_until_drawn(window)
    delete_what_is_due()
    before = len(window.findChildren(QWidget)), len(QApplication.topLevelWidgets())
    for name in islice(cycle(names), 50):
        window.show_workspace(name)
    snapshot.wait_until_drawn(window)
    delete_what_is_due()
    assert (len(window.findChildren(QWidget)), len(QApplication.topLevelWidgets())) == before


def test_coming_back_to_a_workspace_changes_nothing_in_it(window: MainWindow) -> None:
    before = places(window)
    for name in ("compare", "rope", "overview"):
        window.show_workspace(name)
        settled()
    assert places(window) == before


def test_a_line_of_tokens_or_the_whole_panel_stands_above(window: MainWindow) -> None:
    tokens = window.cards["tokens"]
    for workspace in WORKSPACES:
        window.show_workspace(workspace.name)
        assert tokens.isVisible() == (workspace.strip != "none")
        if not tokens.isVisible():
            continue
        assert tokens.handle.isVisible() == (workspace.strip != "line")
        assert tokens.y() == 0
        assert tokens.width() == window.stage.width() - 2 * theme.GRID


def test_tokens_get_the_lines_they_need_up_to_two(
    own_window: MainWindow, running: Session, engine: CannedEngine
) -> None:
    window = own_window
    strip = cast("TokensPanel", window.panels["tokens"]).strip
    window.resize(1366, 900)
    window.show_workspace("decode")  # its panels are drawn in less time than those of the Overview
    heights = []
    for count in (6, 40, 120):
        engine.prefill = count
        running.start(Prompt(f"{count} words"))
        snapshot.wait_until_drawn(window)
        settled()
        heights.append(window.cards["tokens"].height() - window.cards["tokens"].around)
        assert strip.is_placed
    assert heights == [strip.height_of(1), strip.height_of(2), strip.height_of(2)]


def test_no_second_line_of_tokens_is_nearly_empty(
    own_window: MainWindow, running: Session, engine: CannedEngine
) -> None:
    window = own_window
    strip = cast("TokensPanel", window.panels["tokens"]).strip
    filled = []
    for count in range(26, 44, 2):
        engine.prefill = count
        running.start(Prompt(f"{count} words"))
        snapshot.wait_until_drawn(window)
        settled()
        wrapped = strip.lines == 2
        filled.append(strip.box_of(count - 1).right() / strip.width() if wrapped else 0.0)
        assert not wrapped or filled[-1] >= 0.1, count
    assert filled[0] == 0.0 < filled[-1]


def test_a_larger_window_shows_more_and_a_smaller_one_less(window: MainWindow) -> None:
    before = places(window)
    window.resize(1920, 1080)
    settled()
    assert len(window.stage.in_sight) == 9
    window.resize(960, 540)
    settled()
    assert len(window.stage.in_sight) == 3
    window.resize(1366, 768)
    settled()
    assert places(window) == before


# A panel that is asked for --------------------------------------------------------------------------------------------


def test_a_panel_of_this_workspace_is_shown_here_and_another_in_its_own(window: MainWindow) -> None:
    window.show_workspace("rope")
    window.reveal("why")
    assert window.stage.workspace == "rope"
    window.reveal("timeline")
    assert window.stage.workspace == "decode"
    window.reveal("needs")
    assert window.stage.workspace == "heads"
    assert window.panels["needs"].on_screen
    assert not window.panels["heads"].on_screen


@pytest.mark.parametrize(
    ("size", "projector"),
    [
        (QSize(960, 540), True),  # the least room; with more there are more places
        pytest.param(QSize(960, 540), False, marks=pytest.mark.slow),
        pytest.param(QSize(1366, 768), True, marks=pytest.mark.slow),
        pytest.param(QSize(1366, 768), False, marks=pytest.mark.slow),
    ],
)
def test_every_panel_comes_in_sight_when_asked_for(window: MainWindow, size: QSize, projector: bool) -> None:
    window.set_look(projector=projector)
    window.resize(size)
    for name in [*window.cards, *reversed(window.cards)]:
        if name != "routing":
            window.reveal(name)
            assert window.panels[name].on_screen, name


def test_a_panel_that_is_asked_for_before_anything_is_shown_stands_where_it_belongs(running: Session) -> None:
    early, late = (window_over(running) for _ in range(2))
    early.reveal("rope")
    for one in (early, late):
        one.resize(QSize(1366, 768))
        one.show()
    late.reveal("rope")
    snapshot.wait_until_drawn(early)
    settled()
    assert early.cards["rope"].isVisible()
    assert early.stage._moved == late.stage._moved == {}
    for one in (early, late):
        one.close()
        one.deleteLater()


def test_a_tab_turns_to_the_panel_behind(window: MainWindow) -> None:
    (bar,) = (bar for bar in window.stage.findChildren(QTabBar) if bar.isVisible() and bar.tabText(0) == "RoPE")
    tabs = bar.parentWidget()
    assert tabs is not None
    for tab, name in enumerate(("rope", "cache", "next_token", "ledger")):
        QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(tab).center())
        assert window.panels[name].on_screen
        assert window.cards[name].y() == tabs.geometry().bottom() + 1


def test_experts_appear_with_experts(qtbot: QtBot, tmp_path: Path) -> None:
    engine = CannedEngine()
    engine.config = engine.config.changed(moe=MoeConfig(experts=4, per_token=2, width=64))
    with canned_session(tmp_path / "settings.json", engine) as session:
        session.opening.begin(prompt=Prompt("one two"))
        settle(session)
        window = opened(session, QSize(1366, 768))
        window.show_workspace("heads")
        assert window.menu_entries["routing"].isVisible()
        assert "Show Experts" in {one.text for one in commands(window, verbs(window, window.files))}
        window.reveal("routing")
        assert window.panels["routing"].on_screen
        window.close()
        window.deleteLater()


# What a person moves --------------------------------------------------------------------------------------------------


def test_a_card_dropped_on_the_middle_of_another_changes_places_with_it(window: MainWindow) -> None:
    window.show_workspace("scores")
    before = places(window)
    drag(window, "heads", "scores", (0.5, 0.5))
    after = places(window)
    assert after["heads"].topLeft() == before["scores"].topLeft()  # as wide as what stands there has to be
    assert (after["scores"].right(), after["scores"].top()) == (before["heads"].right(), before["heads"].top())
    assert after["why"].right() == before["why"].right()
    QTest.keyClick(window, Qt.Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    assert places(window) == before


@pytest.mark.parametrize(
    ("share", "side"),
    [
        ((0.1, 0.5), "left"),
        ((0.5, 0.95), "below"),
        pytest.param((0.9, 0.5), "right", marks=pytest.mark.slow),
        pytest.param((0.5, 0.1), "above", marks=pytest.mark.slow),
    ],
)
def test_a_card_dropped_on_a_side_stands_there(window: MainWindow, share: tuple[float, float], side: str) -> None:
    window.resize(1920, 1080)
    window.show_workspace("rope")
    drag(window, "why", "rope", share)
    after = places(window)
    why, rope = after["why"], after["rope"]
    assert {
        "left": why.right() < rope.left(),
        "right": why.left() > rope.right(),
        "above": why.bottom() < rope.top(),
        "below": why.top() > rope.bottom(),
    }[side]
    assert not any(one.intersects(other) for one, other in combinations(after.values(), 2))


def test_there_is_an_edge_between_any_two_parts_and_no_other(window: MainWindow) -> None:
    resizes = (Qt.CursorShape.SplitHCursor, Qt.CursorShape.SplitVCursor)
    for workspace, count in (("rope", 2), ("decode", 2), ("compare", 2), ("heads", 2), ("overview", 3)):
        window.show_workspace(workspace)
        edges = [part for part in window.stage.children() if isinstance(part, QWidget) and part.isVisible()]
        assert sum(part.cursor().shape() in resizes for part in edges) == count, workspace
    window.classroom.full.enter("heads")
    assert not any(part.isVisible() for part in edges if part.cursor().shape() in resizes)


def test_a_lesson_turns_no_panel_for_good(window: MainWindow) -> None:
    before = window.stage.in_sight
    window.stage.show_scene(row((1, "lesson"), (1, "scores why timeline cache")), ("cache", "timeline"))
    assert window.stage.in_sight == ["cache", "lesson"]
    window.stage.show_scene(None)
    window.show_workspace("overview")
    assert window.stage.in_sight == before


def test_what_has_no_room_beside_the_others_shares_the_place_of_one(window: MainWindow) -> None:
    names = ("scores", "rope", "cache", "heads", "why", "ledger")
    window.stage.show_scene(row(*((1, name) for name in names)))
    settled()
    seen = [window.cards[name] for name in names if window.cards[name].isVisible()]
    assert 1 < len(seen) < len(names)
    assert all(card.width() >= card.minimumSizeHint().width() for card in seen)
    assert not any(one.geometry().intersects(other.geometry()) for one, other in combinations(seen, 2))
    window.stage.show_scene(None)


def test_a_card_dropped_nowhere_stays(window: MainWindow) -> None:
    before = places(window)
    drag(window, "heads", "heads", (0.5, 0.5))
    pull(window.cards["heads"].handle, QPoint(30, 10), window.mapToGlobal(QPoint(5, 5)))
    assert places(window) == before


def test_an_edge_is_pulled_and_the_sizes_come_back_next_time(qtbot: QtBot, running: Session) -> None:
    first = opened(running, QSize(1366, 768))
    first.show_workspace("rope")
    rope = first.cards["rope"]
    width = rope.width()
    edge = next(
        part
        for part in first.stage.children()
        if isinstance(part, QWidget) and part.isVisible() and part.cursor().shape() == Qt.CursorShape.SplitHCursor
    )
    pull(edge, edge.rect().center(), edge.mapToGlobal(edge.rect().center()) - QPoint(60, 0))
    assert width - 62 <= rope.width() <= width - 58
    pull(edge, edge.rect().center(), edge.mapToGlobal(edge.rect().center()) - QPoint(3000, 0))
    assert rope.width() >= rope.minimumSizeHint().width()
    kept = places(first)
    first.show_workspace("decode")
    first.close()
    first.deleteLater()
    with canned_session(running.settings.path) as again:
        again.opening.begin(prompt=Prompt("one two three"))
        settle(again)
        second = opened(again, QSize(), restore=True)
        assert second.stage.workspace == "decode"
        second.resize(1366, 768)
        second.show_workspace("rope")
        settled()
        assert places(second) == kept
        second.close()
        second.deleteLater()


def test_a_double_click_floats_a_card_and_another_puts_it_back(qtbot: QtBot, own_window: MainWindow) -> None:
    window = own_window
    window.show_workspace("decode")
    before = places(window)
    card = window.cards["cache"]
    card.handle.customContextMenuRequested.disconnect()
    QTest.mouseDClick(card.handle, Qt.MouseButton.LeftButton)
    settled()
    assert card.is_floating
    assert card.isVisible()
    assert window.cards["next_token"].width() > before["next_token"].width()
    QTest.keyClick(window, Qt.Key.Key_2, Qt.KeyboardModifier.ControlModifier)
    assert card.isVisible()
    window.reveal("cache")
    assert window.stage.workspace == "scores"
    QTest.mouseDClick(card.handle, Qt.MouseButton.LeftButton)
    assert not card.is_floating
    window.show_workspace("decode")
    settled()
    assert places(window) == before


def test_a_key_floats_the_panel_in_focus_and_puts_it_back(window: MainWindow) -> None:
    window.reveal("heads", focus=True)
    for floats in (True, False):
        focused = QApplication.focusWidget()
        assert focused is not None
        QTest.keyClick(focused, Qt.Key.Key_F, Qt.KeyboardModifier.ShiftModifier)
        settled()
        assert window.cards["heads"].is_floating == floats
        window.classroom.walk.enter("heads")


def test_a_floating_card_goes_back_when_it_is_closed_or_everything_is_put_back(window: MainWindow) -> None:
    card, stage = window.cards["heads"], window.stage
    for put_back in (lambda: QApplication.sendEvent(card, QCloseEvent()), window.reset_layout):
        stage.toggle_floating(card)
        assert card.is_floating
        put_back()
        assert not card.is_floating
        assert card.parent() is stage
        assert card.isVisible()


# Nothing is a sliver --------------------------------------------------------------------------------------------------


def cut(window: MainWindow) -> list[str]:
    """Words that have too little room where they stand, or stand outside of the window."""
    found = []
    kinds: tuple[type[QLabel | QAbstractButton | QComboBox], ...] = (QLabel, QAbstractButton, QComboBox)
    for kind in kinds:
        for widget in window.findChildren(kind):
            text = widget.currentText() if isinstance(widget, QComboBox) else widget.text()
            wraps = isinstance(widget, QLabel) and (isinstance(widget, ElidedLabel | SparedLabel) or widget.wordWrap())
            if not text or wraps or widget.visibleRegion().isEmpty() or widget.objectName().startswith("qt_"):
                continue
            box = QRect(widget.mapTo(window, QPoint()), widget.size())
            scrolled = any(isinstance(above, QScrollArea) for above in parents(widget))
            wide = widget.fontMetrics().horizontalAdvance(text.replace("&&", "&"))
            if (
                box.width() < wide
                or box.height() < widget.fontMetrics().ascent()
                or not (scrolled or window.rect().contains(box))
            ):
                found.append(text)
    return found


def placed_again(window: MainWindow) -> bool:
    """Whether the stage goes on to place what stands already."""
    stage, again = window.stage, False

    def arrange() -> None:
        nonlocal again
        again = True
        Stage.arrange(stage)

    stage.arrange = arrange  # type: ignore[method-assign]
    settled()
    del stage.arrange
    return again


def parents(widget: QWidget) -> Iterator[QWidget]:
    above = widget.parentWidget()
    while above is not None:
        yield above
        above = above.parentWidget()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("projector", [False, True], ids=["ordinary", "projector"])
def test_every_card_is_whole_in_every_workspace_on_every_screen(
    window: MainWindow, name: theme.ThemeName, projector: bool
) -> None:
    window.set_look(name, projector=projector)
    for size in SIZES if name == "dark" else SIZES[:1]:  # colours change no size
        window.resize(*size)
        for workspace in NAMED:
            window.show_workspace(workspace)
            snapshot.wait_until_drawn(window)
            settled()
            at = f"{workspace} at {size}"
            assert window.size() == QSize(*size), at
            standing = places(window)
            for one, box in standing.items():
                card = window.cards[one]
                assert window.stage.rect().contains(box), (at, one)
                assert box.size() == box.size().expandedTo(card.minimumSizeHint()), (at, one)
            assert not any(one.intersects(other) for one, other in combinations(standing.values(), 2)), at
            assert cut(window) == [], at
            settled()
            assert not placed_again(window), at


# The keyboard ---------------------------------------------------------------------------------------------------------


def test_after_enter_the_keyboard_belongs_to_the_window(own_window: MainWindow, running: Session) -> None:
    window = own_window
    prompt = window.bar.prompt
    prompt.setFocus()
    QTest.keyClicks(prompt, "x")
    QTest.keyClick(prompt, Qt.Key.Key_Return)
    snapshot.wait_until_drawn(window)
    assert QApplication.focusWidget() is window
    QTest.keyClick(window, Qt.Key.Key_Right)
    snapshot.wait_until_drawn(window)
    assert running.run is not None
    assert running.run.steps == 1
    QTest.keyClick(window, Qt.Key.Key_Space)
    assert running.timeline.playing
    running.timeline.pause()


def test_the_first_window_fits_its_screen(qtbot: QtBot, running: Session) -> None:
    window = window_over(running)
    room = window.screen().availableGeometry().size()
    assert window.size().boundedTo(room) == window.size()
    window.close()
    window.deleteLater()


def test_no_floating_card_outlives_the_window(own_window: MainWindow) -> None:
    window = own_window
    cards = [window.cards[name] for name in ("scores", "heads", "why")]
    for card in cards:
        window.stage.toggle_floating(card)
    window.close()
    assert not any(card.isVisible() or card.is_floating for card in cards)


def test_without_a_focus_the_panel_meant_is_what_the_workspace_is_about(own_window: MainWindow) -> None:
    window = own_window
    meant = {}
    for workspace in NAMED:
        window.show_workspace(workspace)
        window.setFocus()
        meant[workspace] = window.classroom.panel_in_focus()
    assert meant == {
        "overview": "scores", "scores": "scores", "rope": "rope", "decode": "cache", "shapes": "ledger",
        "heads": "heads", "compare": "compare", "survey": "survey_heads", "lesson": "lesson",
    }  # fmt: skip
