"""The one menu of all maps: what can be done with the cell, the row, the picture and the colours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QAction, QActionGroup, QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget
from shiboken6 import isValid

from ropewalk.views.plots.heatmap import Heatmap
from ropewalk.views.style import theme
from ropewalk.views.style.colour_maps import COLOUR_MAPS


class MapMenu(QMenu):
    """Shared by every map of a window: it is filled for the one that it is opened on.

    Signals
    -------
    coloured(name)
        A map of colours was chosen, for everything.
    exported(map)
        The Export dialog is wanted for what this map is in.
    """

    coloured = Signal(str)
    exported = Signal(object)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setToolTipsVisible(True)
        self._map: Heatmap | None = None
        self._cell: tuple[int, int] | None = None
        offer = self._offer
        self.value = offer("Copy the value", self._copy_value, "The number of this cell, with all its digits")
        self.row = offer("Copy this row", self._copy_row, "Its numbers, parted by tabs; masked cells are empty")
        offer("Copy as a picture", self._copy_picture, "This map on the clipboard")
        offer("Export…", self.exported.emit, "Save this panel as a picture, its numbers, or a film")
        self.addSeparator()
        offer("View all", Heatmap.look_at_all, "Show all cells; a double click does it too")
        offer("Zoom to a box", Heatmap.draw_box, "Drag over the cells to be seen; dragging with Shift does it too")
        self.region = offer(
            "Mean of a region", Heatmap.toggle_region, "Drag a box over cells; their mean stands beside the title"
        )
        self.region.setCheckable(True)
        self.addSeparator()
        self.levels = offer("Reset the levels", Heatmap.reset_levels, "Spread the colours over the numbers there are")
        self.colours = self.addMenu("Colours")
        group = QActionGroup(self.colours)
        for name, text in COLOUR_MAPS.items():
            action = self.colours.addAction(text)
            action.setData(name)
            action.setCheckable(True)
            action.triggered.connect(lambda _=False, name=name: self.coloured.emit(name))
            group.addAction(action)

    def serve(self, part: QWidget) -> None:
        """Open on the maps that are in a part of the window."""
        for heatmap in part.findChildren(Heatmap):
            heatmap.menu_wanted.connect(partial(self._open, heatmap))

    def offer(self, heatmap: Heatmap, cell: tuple[int, int] | None) -> None:
        """Say what can be done with a cell of a map, and with the map."""
        self._map, self._cell = heatmap, cell
        number = heatmap.data.text(*cell) if cell is not None else ""
        note = f" ({heatmap.note})" if heatmap.note else ""
        self.value.setText(f"Copy the value {number}{note}" if number else "Copy the value")
        self.value.setEnabled(bool(number))
        self.row.setEnabled(cell is not None)
        self.region.setChecked(not heatmap.region.isEmpty())
        self.levels.setEnabled(heatmap.levels.by_hand)
        for action in self.colours.actions():
            action.setChecked(action.data() == theme.current().colour_map)

    def _open(self, heatmap: Heatmap, cell: tuple[int, int] | None, at: QPoint) -> None:
        self.offer(heatmap, cell)
        self.popup(at)

    def _offer(self, text: str, act: Callable[[Heatmap], object], tip: str) -> QAction:
        action = self.addAction(text)
        action.setToolTip(tip)
        action.triggered.connect(lambda: self._act(act))
        return action

    def _act(self, act: Callable[[Heatmap], object]) -> None:
        if self._map is not None and isValid(self._map):
            act(self._map)

    def _copy_value(self, heatmap: Heatmap) -> None:
        if self._cell is not None:
            QGuiApplication.clipboard().setText(heatmap.data.text(*self._cell))

    def _copy_row(self, heatmap: Heatmap) -> None:
        if self._cell is not None:
            QGuiApplication.clipboard().setText(heatmap.data.row_text(self._cell[0]))

    @staticmethod
    def _copy_picture(heatmap: Heatmap) -> None:
        QGuiApplication.clipboard().setImage(heatmap.picture())
