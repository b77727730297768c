"""Every workspace on every screen in every look: nothing is cut off, squeezed or covered, and pictures are large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Final, cast

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QSize
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QMenu, QPushButton, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.engine.questions import AskHeadDifference, AskNextTokenDifference
from ropewalk.model.readings.records import HeadDifference, NextTokenDifference, Run, TokenChange
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views import keys
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.cache import CachePanel
from ropewalk.views.panels.compare import ComparePanel
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.lens import LensPanel
from ropewalk.views.panels.lines import LinesPanel
from ropewalk.views.panels.panel import ElidedLabel
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.stage.workspaces import NAMED
from ropewalk.views.style import theme
from tests.survey_folders import survey_in
from tests.views.canned import CannedEngine, canned_session, visible, weights, word
from tests.views.driving import settle, window_over
from tests.views.measuring import faults

SIZES: Final = ((1366, 768), (1600, 900), (1920, 1080), (1280, 720), (1024, 768), (2560, 1440), (960, 540))
"""Screens, in pixels of the window: 1280 × 720 and 960 × 540 are 1920 × 1080 at 150 and at 200 per cent."""
LOOKS: Final = ("dark", "light", "projector")
LARGEST_TYPE: Final = (pytest.param("dark", marks=pytest.mark.slow), "projector")
"""Looks with another size of type, of which the ordinary run has the one that leaves less room."""
FEW: Final = (("dark", (960, 540)), ("dark", (1366, 768)), ("projector", (1024, 768)), ("projector", (1366, 768)))
"""Where there is least room for what is written."""
UNNAMED: Final = ("projector", (960, 540))
"""Where the names of workspaces have no room: there are their numbers."""
FILLED: Final = 0.55
"""The least share of its room that a map takes, of the width or of the height; the rest are names and numbers."""


@pytest.fixture
def window(qtbot: QtBot, running: Session) -> Iterator[MainWindow]:
    """A window with an experiment."""
    running.interventions.apply((AblateHeads(1, (4,)),))
    window = window_over(running)
    window.show()
    settle(running)
    yield window
    window.close()
    window.deleteLater()


def dress(window: MainWindow, look: str) -> None:
    window.set_look("light" if look == "light" else "dark", look == "projector")


def put_on(window: MainWindow, name: str, size: tuple[int, int], panel: str = "") -> None:
    """Show a workspace, and in it a panel in front."""
    window.show_workspace(name)
    if panel:
        window.reveal(panel)
    for _ in range(2):
        window.resize(*size)  # once more when nothing is going on any more
        snapshot.wait_until_drawn(window)
        snapshot.settle(window)


def look_through(window: MainWindow, screens: Iterator[tuple[str, tuple[int, int]]]) -> list[str]:
    """What is wrong anywhere, each said with its place; the lessons are read."""
    found = []
    window.reveal("lesson")
    settle(window.session)
    for look, size in screens:
        dress(window, look)
        for name in NAMED:
            put_on(window, name, size)
            assert window.size() == QSize(*size)
            in_bar = [] if (look, size) == UNNAMED else faults_of_bar(window)
            found += [f"{name}, {size}, {look}: {fault}" for fault in (*faults(window), *in_bar)]
    return found


def faults_of_bar(window: MainWindow) -> list[str]:
    """What cannot be read in the bar, or is neither there nor in its menu."""
    tabs, looks = window.bar.tabs.buttons, window.bar.looks
    found = [f"the tab {name} reads {tab.text()}" for name, tab in tabs.items() if not whole(name, tab)]
    offered = {action.text() for action in filled(window.bar.checkpoint.menu()).actions()}
    texts = {"panels": "Show a panel", "theme": keys.tip("theme"), "keys": keys.tip("keys")}
    return found + [
        f"{text} is there twice or not at all"
        for look, text in texts.items()
        if (text in offered) != looks[look].isHidden()
    ]


def whole(name: str, tab: QAbstractButton) -> bool:
    return tab.text().startswith(NAMED[name].title) and tab.width() >= tab.sizeHint().width()


def test_nothing_is_cut_off_or_covered_where_there_is_little_room(window: MainWindow) -> None:
    assert not (found := look_through(window, iter(FEW[::2]))), "\n".join(found)


@pytest.mark.slow
def test_nothing_is_cut_off_or_covered_on_any_screen(window: MainWindow) -> None:
    assert look_through(window, product(LOOKS, SIZES)) == []


def faults_of_survey(window: MainWindow, folder: Path, screens: Iterable[tuple[str, tuple[int, int]]]) -> list[str]:
    """What is wrong where a survey is open, alone and beside another."""
    found = []
    window.session.surveys.open(str(folder))
    for look, size in screens:
        dress(window, look)
        for panel in (name for name in window.cards if name.startswith("survey_")):
            put_on(window, "survey", size, panel)
            found += [f"{panel}, {size}, {look}: {fault}" for fault in faults(window)]
    return found


@pytest.mark.parametrize("screens", [FEW[::2], pytest.param(FEW[1::2], marks=pytest.mark.slow)])
def test_nothing_of_a_survey_is_cut_off_or_covered(
    window: MainWindow, tmp_path: Path, screens: tuple[tuple[str, tuple[int, int]], ...]
) -> None:
    assert not (found := faults_of_survey(window, survey_in(tmp_path / "survey"), screens)), "\n".join(found)


def faults_of_heads(window: MainWindow, screens: Iterable[tuple[str, tuple[int, int]]]) -> list[str]:
    """What is wrong with sorted heads and with the board, where one run is compared with another."""
    session, found = window.session, []
    for head in ((1, 4), (0, 2), (2, 6)):
        session.board.pin(*head)
    session.board.note(1, 4, "what a person has written to a head may be longer than there is room for beside it")
    session.baseline.pin()
    for look, size in screens:
        dress(window, look)
        put_on(window, "heads", size, "board")
        found += [f"board, {size}, {look}: {fault}" for fault in faults(window)]
        heads = cast("HeadsPanel", window.panels["heads"])
        heads.sort_box.setCurrentText("sink")
        for name in ("heads", "scores"):
            put_on(window, name, size, "heads")
            found += [f"sorted, {name}, {size}, {look}: {fault}" for fault in faults(window)]
    return found


def test_sorted_heads_and_the_board_are_whole_where_there_is_little_room(window: MainWindow) -> None:
    assert faults_of_heads(window, (FEW[0], FEW[2])) == []


@pytest.mark.slow
def test_sorted_heads_and_the_board_are_whole_on_any_screen(window: MainWindow) -> None:
    assert not (found := faults_of_heads(window, product(LOOKS, SIZES))), "\n".join(found)


@pytest.mark.parametrize("screens", [FEW[::2], pytest.param(FEW[1::2], marks=pytest.mark.slow)])
def test_nothing_of_the_lines_of_a_layer_is_cut_off_or_covered(
    window: MainWindow, screens: tuple[tuple[str, tuple[int, int]], ...]
) -> None:
    for look, size in screens:
        dress(window, look)
        put_on(window, "heads", size, "lines")
        panel = cast("LinesPanel", window.panels["lines"])
        panel.scope.setCurrentIndex(2)
        put_on(window, "heads", size, "lines")
        assert faults(window) == [], (look, size)
        plot, line = panel.view.plot, theme.current().size("label")
        assert plot.width() >= 4 * line, (look, size)
        assert plot.height() >= 4 * line, (look, size)


def filled(menu: QMenu) -> QMenu:
    menu.aboutToShow.emit()
    return menu


# Pictures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "sparse"),
    [(31, 2), pytest.param(31, 1, marks=pytest.mark.slow), pytest.param(90, 1, marks=pytest.mark.slow)],
)
def test_three_score_maps_are_large_and_no_map_is_a_stamp_in_an_empty_panel(
    qtbot: QtBot, long_run: Callable[[int], Session], tokens: int, sparse: int
) -> None:
    window = window_over(long_run(tokens))
    window.show()
    for size, least in (((1024, 768), 0), ((1280, 800), 220), ((1366, 768), 220), ((1920, 1080), 340))[::sparse]:
        for name in ("overview", "scores", "rope", "lesson"):
            put_on(window, name, size)
            for heatmap in filter(Heatmap.isVisible, window.stage.findChildren(Heatmap)):
                plot = heatmap.plot
                filled = max(plot.width() / heatmap.width(), plot.height() / heatmap.height())
                assert filled >= FILLED, (name, size, heatmap.title, plot.size(), heatmap.size())
                assert plot.width() >= 100, (name, size, heatmap.title)
            panel = cast("ScoresPanel", window.panels["scores"])
            if name == "scores" and least:
                assert panel.one.isVisible()
                assert [one for one in panel.maps if min(one.plot.width(), one.plot.height()) < least] == [], size
    window.close()
    window.deleteLater()


def test_numbers_stand_under_the_heads_of_common_screens(window: MainWindow) -> None:
    for size in ((1366, 768), (1440, 900), (1536, 864), (1600, 900)):
        put_on(window, "overview", size)
        assert cast("HeadsPanel", window.panels["heads"]).view.plan.lines == 1, size


@pytest.mark.parametrize("look", LARGEST_TYPE)
def test_the_maps_of_a_comparison_are_large(window: MainWindow, engine: CannedEngine, look: str) -> None:
    changes = tuple(TokenChange(word(at), 0.1 * at, 0.5) for at in range(8))

    def difference(run: Run, asked: AskHeadDifference) -> HeadDifference:
        moved = np.where(visible(run), weights(run, 1, 0), np.nan).astype(np.float32)
        return HeadDifference(asked.layer, asked.head, moved, moved, tuple((at, at) for at in range(run.length)))

    engine.answers = {
        AskHeadDifference: difference,
        AskNextTokenDifference: lambda run, asked: NextTokenDifference(0.4, 1.7, word(0), word(1), changes),
    }
    dress(window, look)
    window.session.baseline.pin()
    for size in ((1366, 768), (1280, 720), (1024, 768)):
        put_on(window, "compare", size, "compare")
        for heatmap in cast("ComparePanel", window.panels["compare"]).maps:
            assert min(heatmap.plot.width(), heatmap.plot.height()) >= 200, size


@pytest.mark.parametrize("look", LARGEST_TYPE)
def test_the_thumbnails_of_270_heads_are_at_least_24_pixels_and_the_rest_is_scrolled(
    qtbot: QtBot, tmp_path: Path, look: str
) -> None:
    engine = CannedEngine()
    engine.config = engine.config.changed(layers=30, heads=9, kv_heads=3)
    with canned_session(tmp_path / "settings.json", engine) as session:
        session.opening.begin(prompt=Prompt("one two"))
        settle(session)
        window = window_over(session)
        window.show()
        dress(window, look)
        panel = cast("HeadsPanel", window.panels["heads"])
        for size, name in product(((1366, 768), (960, 540)), ("scores", "heads")):
            put_on(window, name, size, "heads")
            plan = panel.view.plan
            assert len(plan.places) == 270
            assert plan.side >= 24, (name, size)
            reach = panel.scroller.verticalScrollBar().maximum() + panel.scroller.viewport().height()
            assert reach >= max(place.square.bottom() for place in plan.places), (name, size)
        window.close()
        window.deleteLater()


@pytest.mark.parametrize("look", [*LARGEST_TYPE, pytest.param("light", marks=pytest.mark.slow)])
def test_64_planes_are_at_least_44_pixels_beside_a_dial_that_is_larger_and_the_rest_is_scrolled(
    qtbot: QtBot, tmp_path: Path, look: str
) -> None:
    engine = CannedEngine()
    engine.config = engine.config.changed(head_width=128)
    with canned_session(tmp_path / "settings.json", engine) as session:
        session.opening.begin(prompt=Prompt("one two"))
        settle(session)
        window = window_over(session)
        window.show()
        dress(window, look)
        for size, name in product(((1366, 768), (1920, 1080), (1024, 768), (960, 540)), ("rope", "overview")):
            put_on(window, name, size, "rope")
            panel = cast("RopePanel", window.panels["rope"])
            circles = [panel.view.circle_of(plane) for plane in range(64)]
            assert min(circle.width() for circle in circles) >= 44, (name, size)
            assert panel.dial.circle.width() >= 1.5 * circles[0].width(), (name, size)
            assert max(circle.right() for circle in circles) <= panel.scroller.viewport().width(), (name, size)
            seen, row = panel.scroller.viewport().height(), panel.view.cell.height()
            reach = panel.scroller.verticalScrollBar().maximum() + seen
            assert reach >= max(panel.view.cell_of(plane).bottom() for plane in range(64)), (name, size)
            assert seen >= panel.view.height() or seen % row == 0 or seen < row, (name, size, "a row is cut in two")
        window.close()
        window.deleteLater()


def test_both_rows_of_8_planes_are_in_sight_where_there_is_room_for_them(window: MainWindow) -> None:
    put_on(window, "rope", (1280, 720))
    panel = cast("RopePanel", window.panels["rope"])
    assert panel.view.height() <= panel.scroller.viewport().height()
    assert panel.shares.isVisible()
    assert panel.shares.height() >= 6 * theme.current().size("label")


def test_a_row_beside_one_map_is_wide_or_not_there(window: MainWindow) -> None:
    seen = set()
    for look, size in (*FEW[::2], ("dark", (1920, 1080))):
        dress(window, look)
        for name in ("heads", "overview"):
            put_on(window, name, size)
            panel = cast("ScoresPanel", window.panels["scores"])
            seen.add(panel.row.isVisible())
            assert panel.row.isHidden() or panel.row.width() >= theme.current().grid(20), (name, look, size)
    assert seen == {True, False}


@pytest.mark.parametrize("look", LARGEST_TYPE)
def test_the_cache_has_most_of_its_panel(window: MainWindow, look: str) -> None:
    dress(window, look)
    panel = cast("CachePanel", window.panels["cache"])
    for size, name in product(((1280, 720), (1024, 768), (960, 540)), ("decode", "shapes")):
        put_on(window, name, size, "cache")
        block, line = panel.slabs.block("K"), theme.current().size("label")
        assert min(block.width(), block.height()) >= 3 * line, (name, size)
        assert block.width() * block.height() >= 0.1 * panel.width() * panel.height(), (name, size)


@pytest.mark.parametrize("look", LARGEST_TYPE)
def test_the_logit_lens_has_most_of_its_panel_and_nothing_in_it_is_cut_off(window: MainWindow, look: str) -> None:
    dress(window, look)
    panel = cast("LensPanel", window.panels["lens"])
    for size in ((1280, 720), (1024, 768), (960, 540)):
        put_on(window, "scores", size, "lens")
        assert panel.on_screen
        assert faults(window) == []
        box = panel.map.box.geometry()
        assert box.width() * box.height() >= 0.3 * panel.width() * panel.height(), size
        first, last = panel.map.sight()
        assert last - first >= 4
        assert panel.map.lettering() is not None, size


# The measure itself ---------------------------------------------------------------------------------------------------


def test_the_measure_finds_what_is_cut_off_squeezed_or_covered(qtbot: QtBot) -> None:
    root = QWidget()
    qtbot.addWidget(root)
    root.resize(400, 300)
    label, button, other, bar, elided = (
        QLabel("a long text", root),
        QPushButton("press this", root),
        QLabel(root),
        QTabBar(root),
        ElidedLabel(),
    )
    elided.setParent(root)
    bar.addTab("one tab")
    bar.setUsesScrollButtons(False)
    label.setGeometry(0, 0, 200, 30)
    button.setGeometry(0, 40, 200, 40)
    other.setGeometry(0, 90, 50, 30)
    bar.setGeometry(0, 130, 200, 40)
    elided.setGeometry(0, 180, 300, 30)
    elided.setText("all of this fits")
    root.show()
    assert faults(root) == []
    for widget, size, says in (
        (label, (20, 30), "the text is"),
        (button, (200, 4), "the button needs"),
        (other, (50, 50), "share"),
        (other, (500, 30), "is outside of"),
        (bar, (20, 40), "tab"),
    ):
        before = widget.size()
        widget.resize(*size)
        QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        assert any(says in fault for fault in faults(root)), says
        widget.resize(before)
        assert faults(root) == []
    elided.resize(20, 30)
    assert elided.toolTip() == elided.text()
    elided.setToolTip("")
    assert any("ellipsis" in fault for fault in faults(root))
