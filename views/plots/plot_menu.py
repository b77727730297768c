"""The one menu of all plots with axes: the numbers, the picture, and everything in view."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget
from shiboken6 import isValid

from ropewalk.views.plots.plot import Plot


class PlotMenu(QMenu):
    """Shared by every plot of a window: it acts on the one that it is opened on.

    Signals
    -------
    exported(plot)
        The Export dialog is wanted for what this plot is in.
    """

    exported = Signal(object)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setToolTipsVisible(True)
        self._plot: Plot | None = None
        self._offer("Copy the numbers", _copy_numbers, "What is drawn as a table, parted by tabs")
        self._offer("Copy as a picture", _copy_picture, "This plot on the clipboard")
        self._offer("Export…", self.exported.emit, "Save this panel as a picture, its numbers, or a film")
        self.addSeparator()
        self._offer("View all", Plot.view_all, "Show all that there is; a double click does it too")

    def serve(self, part: QWidget) -> None:
        """Open on the plots that are in a part of the window."""
        for plot in part.findChildren(Plot):
            plot.menu_wanted.connect(partial(self._open, plot))

    def _open(self, plot: Plot, at: QPoint) -> None:
        self._plot = plot
        self.popup(at)

    def _offer(self, text: str, act: Callable[[Plot], object], tip: str) -> None:
        action = self.addAction(text)
        action.setToolTip(tip)
        action.triggered.connect(lambda: self._act(act))

    def _act(self, act: Callable[[Plot], object]) -> None:
        if self._plot is not None and isValid(self._plot):
            act(self._plot)


def _copy_numbers(plot: Plot) -> None:
    table = plot.table()
    rows = zip(*(column for _, column in table), strict=True)
    lines = ["\t".join(name for name, _ in table), *("\t".join(map(str, row)) for row in rows)]
    QGuiApplication.clipboard().setText("\n".join(lines))


def _copy_picture(plot: Plot) -> None:
    QGuiApplication.clipboard().setImage(plot.picture())
