"""The one menu of all maps: what can be done with the cell, the row, the picture and the colours."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QActionGroup, QGuiApplication
from PySide6.QtWidgets import QWidget

from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.menus.plot_menu import Cell, PlotMenu
from ropewalk.views.style import theme
from ropewalk.views.style.colour_maps import COLOUR_MAPS


class MapMenu(PlotMenu):
    """Shared by every map of a window: it is filled for the one that it is opened on.

    Signals
    -------
    coloured(name)
        A map of colours was chosen, for everything.
    """

    coloured = Signal(str)
    kinds = (Heatmap,)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._cell: Cell = None
        self.add("Zoom to a box", Heatmap.draw_box, "Drag over the cells to be seen; dragging with Shift does it too")
        self.region = self.add(
            "Mean of a region", Heatmap.toggle_region, "Drag a box over cells; their mean stands beside the title"
        )
        self.region.setCheckable(True)
        self.addSeparator()
        self.levels = self.add("Reset the levels", Heatmap.reset_levels, "Spread the colours over all numbers")
        self.colours = self.addMenu("Colour map")
        group = QActionGroup(self.colours)
        for name, text in COLOUR_MAPS.items():
            action = self.colours.addAction(text)
            action.setData(name)
            action.setCheckable(True)
            action.triggered.connect(lambda _=False, name=name: self.coloured.emit(name))
            group.addAction(action)

    def begin(self) -> None:
        """Add what can be copied of a cell and its row."""
        self.value = self.add("Copy the value", self._copy_value, "The number of this cell, with all its digits")
        self.row = self.add("Copy this row", self._copy_row, "Its numbers, parted by tabs; masked cells are empty")

    def offer(self, plot: Heatmap, cell: Cell = None) -> None:
        """Say what can be done with a cell of a map, and with the map."""
        super().offer(plot, cell)
        self._cell = cell
        number = plot.data.text(*cell) if cell is not None else ""
        note = f" ({plot.note})" if plot.note else ""
        self.value.setText(f"Copy the value {number}{note}" if number else "Copy the value")
        self.value.setEnabled(bool(number))
        self.row.setEnabled(cell is not None)
        self.region.setChecked(not plot.region.isEmpty())
        self.levels.setEnabled(plot.levels.by_hand)
        for action in self.colours.actions():
            action.setChecked(action.data() == theme.current().colour_map)

    def _copy_value(self, heatmap: Heatmap) -> None:
        if self._cell is not None:
            QGuiApplication.clipboard().setText(heatmap.data.text(*self._cell))

    def _copy_row(self, heatmap: Heatmap) -> None:
        if self._cell is not None:
            QGuiApplication.clipboard().setText(heatmap.data.row_text(self._cell[0]))
