"""The row of tokens is as high as its lines want it, until somebody drags its edge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.tokens import TokensPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import theme
from tests.views.canned import CannedEngine, canned_session
from tests.views.driving import window_over

ModelHandle = Callable[..., MainWindow]
SMALL = QSize(1280, 800)


@pytest.fixture
def model_handle(qtbot: QtBot, tmp_path: Path, engine: CannedEngine) -> Iterator[ModelHandle]:
    """Open a window on a run of so many tokens."""
    windows: list[MainWindow] = []
    sessions = ExitStack()

    def made(count: int, size: QSize = SMALL, *, restore: bool = False) -> MainWindow:
        session = sessions.enter_context(canned_session(tmp_path / "settings.json", engine))
        engine.prefill = count
        session.opening.begin(prompt=Prompt("many words"))
        window = window_over(session, restore=restore)
        windows.append(window)
        if not restore:
            window.resize(size)
        window.show()
        drawn(window)
        return window

    yield made
    for window in windows:
        window.close()
        window.deleteLater()
    sessions.close()
    theme.apply("dark")


def tokens(window: MainWindow) -> TokensPanel:
    panel = window.panels["tokens"]
    assert isinstance(panel, TokensPanel)
    return panel


def drawn(window: MainWindow) -> None:
    snapshot.wait_until_drawn(window)
    snapshot.settle(window)


def run(window: MainWindow, engine: CannedEngine, count: int) -> None:
    engine.prefill = count
    window.session.start(Prompt("many words"))
    drawn(window)


def lines_in_sight(window: MainWindow) -> int:
    panel = tokens(window)
    hidden = panel.strip.out_of_sight(panel.area.verticalScrollBar().value())
    seen = range(hidden[0], len(panel.strip._tokens) - hidden[1])
    return len({panel.strip.box_of(position).top() for position in seen})


def drag_edge(window: MainWindow, by: int) -> None:
    """Drag the lower edge of the row of tokens, as a hand does."""
    dock = window.docks["tokens"]
    edge = dock.mapTo(window, QPoint(dock.width() // 2, dock.height() + 2))
    QTest.mouseMove(window, edge)
    QTest.mousePress(window, Qt.MouseButton.LeftButton, pos=edge)
    QTest.mouseMove(window, edge + QPoint(0, by))
    drawn(window)
    QTest.mouseRelease(window, Qt.MouseButton.LeftButton, pos=edge + QPoint(0, by))
    drawn(window)


@pytest.mark.parametrize(
    ("size", "projector", "name"),
    [
        (SMALL, False, "dark"),
        (SMALL, False, "light"),
        (SMALL, True, "dark"),
        (QSize(1920, 1080), True, "light"),
    ],
)
def test_a_run_of_two_lines_is_all_in_sight(
    model_handle: ModelHandle, engine: CannedEngine, size: QSize, projector: bool, name: theme.ThemeName
) -> None:
    window = model_handle(12, size)
    window.set_look(name, projector=projector)
    drawn(window)
    assert tokens(window).strip.lines == lines_in_sight(window) == 1
    others = {name: window.docks[name].height() for name in ("scores", "why")}
    count = 12
    while tokens(window).strip.lines < 2:
        count += 3
        run(window, engine, count)
    assert lines_in_sight(window) == 2
    assert tokens(window).more.text() == ""
    run(window, engine, 12)
    after = {name: window.docks[name].height() for name in others}
    assert after["why"] == others["why"], "the row of tokens gives and takes where the maps are"
    assert after["scores"] == others["scores"]


@pytest.mark.parametrize("projector", [False, True])
def test_of_a_long_run_the_end_is_in_sight_and_the_rest_is_counted(model_handle: ModelHandle, projector: bool) -> None:
    window = model_handle(300)
    window.set_look(projector=projector)
    drawn(window)
    panel = tokens(window)
    assert lines_in_sight(window) == 2
    first = panel.strip.out_of_sight(panel.area.verticalScrollBar().value())[0]
    assert first > 0
    assert panel.more.text() == f"more: {first} above"
    window.session.selection.update(query=0)
    drawn(window)
    above, below = panel.strip.out_of_sight(panel.area.verticalScrollBar().value())
    assert (above, panel.more.text()) == (0, f"more: {below} below")
    panel.area.verticalScrollBar().setValue(panel.strip.scroll_for(panel.strip.line_height()))
    above, below = panel.strip.out_of_sight(panel.area.verticalScrollBar().value())
    assert panel.more.text() == f"more: {above} above, {below} below"
    assert above == sum(panel.strip.box_of(position).top() <= 1 for position in range(300))


def test_a_step_that_begins_a_line_brings_it_into_sight(model_handle: ModelHandle) -> None:
    window = model_handle(12)
    while tokens(window).strip.lines < 2:
        window.session.timeline.step()
        drawn(window)
        assert lines_in_sight(window) == tokens(window).strip.lines
    assert window.docks["tokens"].height() > tokens(window).strip.height_of(2)


def test_the_hand_that_drags_the_edge_wins_for_good(model_handle: ModelHandle, engine: CannedEngine) -> None:
    window = model_handle(12)
    drag_edge(window, 60)
    chosen = window.docks["tokens"].height()
    assert window.session.settings.now.tokens_by_hand
    for count in (300, 12):
        run(window, engine, count)
        assert window.docks["tokens"].height() == chosen
    window.close()

    again = model_handle(12, restore=True)
    restored = again.docks["tokens"].height()  # the window itself may be smaller: it has to fit the screen
    run(again, engine, 300)
    assert again.docks["tokens"].height() == restored
    again.reset_layout()
    drawn(again)
    assert not again.session.settings.now.tokens_by_hand
    assert tokens(again).strip.height_of(2) <= tokens(again).area.height() < tokens(again).strip.height_of(3)


def test_a_click_beside_the_panels_chooses_nothing(model_handle: ModelHandle) -> None:
    window = model_handle(12)
    drag_edge(window, 0)
    assert not window.session.settings.now.tokens_by_hand


def test_one_panel_alone_and_back(model_handle: ModelHandle) -> None:
    window = model_handle(300)
    before = {name: dock.geometry() for name, dock in window.docks.items() if dock.panel.on_screen}
    for name in ("tokens", "scores"):
        window.classroom.full.enter(name)
        drawn(window)
        window.session.timeline.step()
        drawn(window)
        window.classroom.full.leave()
        drawn(window)
        assert {other: window.docks[other].geometry() for other in before} == before
