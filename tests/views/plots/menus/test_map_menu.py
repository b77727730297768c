"""What the menu of maps offers is done with the very cell, row and map that it was opened on."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.plots.menus.map_menu import MapMenu
from ropewalk.views.style import theme, wording
from ropewalk.views.style.colour_maps import COLOUR_MAPS
from tests.views.plots.hand import drag

N = 6
VALUES = ((np.arange(N * N).reshape(N, N) + 1) / 7).astype(np.float32)
VISIBLE = np.tril(np.ones((N, N), np.bool_))


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    """Two maps in a window."""
    made = QWidget()
    qtbot.addWidget(made)
    made.resize(640, 360)
    for left in (0, 320):
        heatmap = Heatmap("weights", made)
        heatmap.setGeometry(left, 0, 320, 360)
        heatmap.set_data(VALUES, VISIBLE, (0, N), (0, N))
        heatmap.set_levels(Levels(0.0, 5.2))
    made.show()
    made.grab()
    return made


@pytest.fixture
def maps(window: QWidget) -> list[Heatmap]:
    return window.findChildren(Heatmap)


@pytest.fixture
def menu(window: QWidget) -> MapMenu:
    made = MapMenu(window)
    made.serve(window)
    return made


def press_right(heatmap: Heatmap, point: QPointF) -> None:
    at = point.toPoint()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, heatmap.viewport().mapToGlobal(at))
    QApplication.sendEvent(heatmap.viewport(), event)


def do(menu: MapMenu, text: str) -> None:
    next(action for action in menu.actions() if action.text().startswith(text)).trigger()


def copied() -> str:
    return QGuiApplication.clipboard().text()


def test_the_copied_value_and_row_are_those_of_the_run(maps: list[Heatmap], menu: MapMenu) -> None:
    press_right(maps[1], maps[1].cell_rect(4, 2).center())
    assert menu.isVisible()
    assert menu.value.text() == f"Copy the value {VALUES[4, 2]!s}"
    menu.close()
    menu.value.trigger()
    assert np.float32(copied()) == VALUES[4, 2]
    menu.row.trigger()
    cells = copied().split("\t")
    assert [np.float32(cell) for cell in cells[:5]] == VALUES[4, :5].tolist()
    assert cells[5:] == [""]


def test_a_masked_cell_has_no_value_and_no_cell_has_no_row(maps: list[Heatmap], menu: MapMenu) -> None:
    menu.offer(maps[0], (1, 4))
    assert (menu.value.isEnabled(), menu.row.isEnabled()) == (False, True)
    menu.offer(maps[0], maps[0].cell_at(QPointF(1, 1)))
    assert (menu.value.isEnabled(), menu.row.isEnabled()) == (False, False)


def test_the_menu_key_is_about_the_selected_cell(maps: list[Heatmap], menu: MapMenu) -> None:
    maps[0].set_selection(3, 1)
    at = maps[0].rect().center()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, at, maps[0].mapToGlobal(at))
    QApplication.sendEvent(maps[0].viewport(), event)
    menu.close()
    menu.value.trigger()
    assert copied() == str(VALUES[3, 1])


def test_a_reduced_picture_says_what_its_values_are(maps: list[Heatmap], menu: MapMenu) -> None:
    maps[0].set_data(VALUES, np.ones((N, N), np.bool_), (0, 12), (0, 12), reduction="max")
    menu.offer(maps[0], (8, 5))
    assert menu.value.text() == f"Copy the value {VALUES[4, 2]!s} (max of 2 × 2)"
    menu.row.trigger()
    assert len(copied().split("\t")) == N


def test_a_picture_is_copied_with_its_colours(maps: list[Heatmap], menu: MapMenu) -> None:
    menu.offer(maps[0], (0, 0))
    do(menu, "Copy as a picture")
    image = QGuiApplication.clipboard().image()
    assert image.size() == maps[0].size() * 2
    corner = maps[0].cell_rect(4, 2).topLeft() + QPointF(4, 4)
    assert image.pixelColor((corner * 2).toPoint()) == maps[0].data.colour(4, 2)


def test_all_is_viewed_again_and_levels_are_given_back(maps: list[Heatmap], menu: MapMenu) -> None:
    maps[0].look_at(maps[0].view.adjusted(1, 1, -1, -1))
    menu.offer(maps[0], None)
    assert not menu.levels.isEnabled()
    do(menu, "View all")
    assert maps[0].view.width() == N
    maps[0].choose_levels(Levels(0.0, 0.5, by_hand=True))
    menu.offer(maps[0], None)
    menu.levels.trigger()
    assert maps[0].levels == Levels(0.0, 5.2)


def test_a_region_says_the_mean_of_its_cells_that_are_not_masked(maps: list[Heatmap], menu: MapMenu) -> None:
    shown = maps[0]
    menu.offer(shown, None)
    menu.region.trigger()
    view = shown.view
    drag(shown, [shown.cell_rect(2, 1).center(), shown.plot.center(), shown.cell_rect(3, 3).center()])
    assert shown.view == view, "nothing is zoomed"
    assert shown.region == QRectF(0.5, 1.5, 3, 2)
    rows, columns = slice(2, 4), slice(1, 4)
    seen = VALUES[rows, columns][VISIBLE[rows, columns]]
    assert shown.heading == ("weights", f"mean {wording.number(float(seen.mean()))} of 5 cells in 2 × 3")
    image, outline = shown.grab().toImage(), shown.cell_rect(2, 1).topLeft().toPoint()
    assert theme.current().accent in [image.pixelColor(outline + QPoint(d, 20)) for d in (-1, 0, 1)]
    menu.offer(shown, None)
    assert menu.region.isChecked()
    menu.region.trigger()
    assert list(shown.heading) == ["weights"]


def test_a_region_is_of_its_matrix_and_of_single_cells(maps: list[Heatmap], menu: MapMenu) -> None:
    shown = maps[0]

    def mark() -> None:
        shown.toggle_region()
        drag(shown, [shown.cell_rect(2, 1).center(), shown.plot.center(), shown.cell_rect(3, 3).center()])

    mark()
    shown.set_data(VALUES, VISIBLE, (0, 2 * N), (0, 2 * N), reduction="max")
    assert shown.region.isEmpty()
    mark()
    assert "zoom in" in shown.heading[-1]


def test_colours_are_chosen_by_name(qtbot: QtBot, maps: list[Heatmap], menu: MapMenu) -> None:
    menu.offer(maps[0], None)
    chosen = [action.data() for action in menu.colours.actions() if action.isChecked()]
    assert chosen == [theme.current().colour_map]
    assert [action.data() for action in menu.colours.actions()] == list(COLOUR_MAPS)
    with qtbot.waitSignal(menu.coloured) as coloured:
        menu.colours.actions()[2].trigger()
    assert coloured.args == ["magma"]


def test_the_export_is_of_the_map_that_it_was_opened_on(qtbot: QtBot, maps: list[Heatmap], menu: MapMenu) -> None:
    menu.offer(maps[1], None)
    with qtbot.waitSignal(menu.exported) as exported:
        do(menu, "Export")
    assert exported.args == [maps[1]]


def test_a_right_click_neither_picks_nor_moves(maps: list[Heatmap], menu: MapMenu) -> None:
    picked: list[tuple[int, int]] = []
    maps[0].picked.connect(lambda *cell: picked.append(cell))
    QTest.mouseClick(maps[0].viewport(), Qt.MouseButton.RightButton, pos=maps[0].cell_rect(2, 1).center().toPoint())
    assert picked == []
