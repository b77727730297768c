"""Maps fill the panels that they are in, on every screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.plots.maps.heatmap import Heatmap
from tests.views import driving

SIZES = ((1024, 768), (1280, 800), (1920, 1080))
FILLED = 0.55
"""The least share of its room that a map takes, of the width or of the height; the rest are names and numbers."""


@pytest.fixture
def window(qtbot: QtBot, long_run: Callable[[int], Session]) -> Iterator[MainWindow]:
    made = driving.window_over(long_run(31))
    yield made
    made.close()
    made.deleteLater()


def look(window: MainWindow, workspace: str, size: tuple[int, int]) -> None:
    window.resize(*size)
    window.show()
    window.show_workspace(workspace)
    driving.settle(window.session)
    driving.settle(window.session)


def test_three_score_maps_stand_side_by_side_where_they_are_large(window: MainWindow) -> None:
    for size, least in (((1280, 800), 220), ((1366, 768), 220), ((1920, 1080), 340)):
        look(window, "scores", size)
        panel = window.panels["scores"]
        assert isinstance(panel, ScoresPanel)
        assert panel.one.isVisible()
        assert [one.plot.width() for one in panel.maps if one.plot.width() < least] == [], size


def test_no_map_is_a_stamp_in_an_empty_panel(window: MainWindow) -> None:
    for workspace in ("overview", "scores", "rope", "lesson"):
        for size in SIZES:
            look(window, workspace, size)
            for shown in filter(Heatmap.isVisible, window.stage.findChildren(Heatmap)):
                plot = shown.plot
                filled = max(plot.width() / shown.width(), plot.height() / shown.height())
                assert filled >= FILLED, (workspace, size, shown.title, plot.size(), shown.size())
                assert plot.width() >= 100, (workspace, size, shown.title)
