"""The one menu of all plots with axes; that of maps is made of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget
from shiboken6 import isValid

from ropewalk.views.plots.charts.plot import Plot
from ropewalk.views.plots.lines import LinesView
from ropewalk.views.plots.plot_view import PlotView
from ropewalk.views.plots.survey.error_table import ErrorTable
from ropewalk.views.plots.survey.example_list import ExampleList

Cell = tuple[int, int] | None
Served = PlotView | ErrorTable | ExampleList


class PlotMenu(QMenu):
    """Shared by every plot of a window: it acts on the one that it is opened on.

    Signals
    -------
    exported(plot)
        The Export dialog is wanted for what this plot is in.
    """

    exported = Signal(object)
    kinds: tuple[type[Served], ...] = (Plot, LinesView, ErrorTable, ExampleList)
    """What it is the menu of."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setToolTipsVisible(True)
        self._plot: Served | None = None
        self.begin()
        self.add("Copy as a picture", _copy_picture, "What is seen here on the clipboard")
        self.add("Export…", self.exported.emit, "Save this panel as a picture, its numbers, or a film")
        self.addSeparator()
        self.all_seen = self.add(
            "View all", lambda plot: plot.view_all(), "Show all that there is; in a plot a double click does it too"
        )

    def begin(self) -> None:
        """Add what stands before the picture: what can be copied as numbers."""
        self.add("Copy the numbers", _copy_numbers, "What is drawn as a table, parted by tabs")

    def add(self, text: str, act: Callable[[Any], object], tip: str) -> QAction:
        """Add something that is done with the plot."""
        action = self.addAction(text)
        action.setToolTip(tip)
        action.triggered.connect(lambda: self._act(act))
        return action

    def serve(self, part: QWidget) -> None:
        """Open on the plots that are in a part of the window."""
        for kind in self.kinds:
            for plot in part.findChildren(kind):
                plot.menu_wanted.connect(partial(self._open, plot))

    def offer(self, plot: Any, cell: Cell = None) -> None:
        """Say what can be done with a plot."""
        self._plot = plot
        self.all_seen.setVisible(isinstance(plot, PlotView))  # a list is scrolled

    def _open(self, plot: Served, cell: Cell, at: QPoint) -> None:
        self.offer(plot, cell)
        self.popup(at)

    def _act(self, act: Callable[[Any], object]) -> None:
        if self._plot is not None and isValid(self._plot):
            act(self._plot)


def _copy_numbers(plot: Plot | LinesView | ErrorTable | ExampleList) -> None:
    table = plot.table()
    rows = zip(*(column for _, column in table), strict=True)
    lines = ["\t".join(name for name, _ in table), *("\t".join(map(str, row)) for row in rows)]
    QGuiApplication.clipboard().setText("\n".join(lines))


def _copy_picture(plot: Served) -> None:
    QGuiApplication.clipboard().setImage(plot.picture())
