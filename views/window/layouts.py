"""Where the panels stand at first: the arrangement of the sketch, with tabs where the window is too small for it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QMainWindow

from ropewalk.views.panels.panel_dock import PanelDock
from ropewalk.views.panels.registry import PANELS, Area
from ropewalk.views.style import theme

Docks = Mapping[str, PanelDock]

COLUMNS: tuple[Area, ...] = ("left", "centre", "right")

WIDE = 1500
"""From this width on the ledger has a column of its own; below it is a tab of the right one."""

ROOMY = 960
"""From this height on the right column shows its panels under one another instead of in tabs."""


def first_in_sight(size: QSize) -> list[str]:
    """Names of the panels that :func:`arrange` puts in front in a window of that size."""
    projector, narrow = theme.current().projector, size.width() < WIDE
    right = [entry.name for entry in PANELS if entry.area == "right"]
    in_tabs = right[1:] if narrow or size.height() < ROOMY else []
    return [
        entry.name
        for entry in PANELS
        if (entry.projected if projector else not entry.behind)
        and not (narrow and entry.area == "left")
        and entry.name not in in_tabs
    ]


def in_front(window: QMainWindow, docks: Docks) -> list[str]:
    """Names of the panels that are neither hidden nor behind a tab: Qt puts those docks out of the window."""
    layout = window.layout()
    if layout is not None:
        layout.activate()  # what was just restored has its places only then
    return [
        name
        for name, dock in docks.items()
        if not dock.isHidden() and (dock.isFloating() or dock.geometry().right() >= 0)
    ]


def arrange(window: QMainWindow, docks: Docks, size: QSize) -> None:
    """Put every dock in its first place, shown, for a window of that size."""
    for dock in docks.values():
        window.removeDockWidget(dock)
        dock.setFloating(False)
    areas: dict[Area, list[PanelDock]] = {"top": [], "left": [], "centre": [], "right": [], "bottom": []}
    for entry in PANELS:
        if not entry.behind:
            areas[entry.area].append(docks[entry.name])
    if size.width() < WIDE:
        areas["right"] += areas["left"]
        areas["left"] = []
    window.addDockWidget(Qt.DockWidgetArea.TopDockWidgetArea, areas["top"][0])
    window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, areas["bottom"][0])
    columns = [areas[area][0] for area in COLUMNS if areas[area]]
    window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, columns[0])
    for before, after in pairwise(columns):
        window.splitDockWidget(before, after, Qt.Orientation.Horizontal)
    keep_rows(docks)
    _stack(window, areas["centre"], tabbed=False)
    in_tabs = not areas["left"] or size.height() < ROOMY
    _stack(window, areas["right"], tabbed=in_tabs)
    _stack(window, areas["bottom"], tabbed=False)
    _put_behind(window, docks, narrow=not areas["left"])
    if in_tabs:
        areas["right"][0].raise_()
    for dock in docks.values():
        dock.show()
    _proportion(window, areas, size)


def _stack(window: QMainWindow, docks: list[PanelDock], *, tabbed: bool) -> None:
    for above, below in pairwise(docks):
        if tabbed:
            window.tabifyDockWidget(above, below)
        else:
            window.splitDockWidget(above, below, Qt.Orientation.Vertical)
    if tabbed:
        docks[0].raise_()


def _put_behind(window: QMainWindow, docks: Docks, *, narrow: bool) -> None:
    """Give panels that start behind another one a tab of its place.

    In a narrow window what has its place on the left goes to the centre: the right column has no room for more names.
    """
    fronts = {
        entry.name: "scores" if narrow and entry.area == "left" else entry.behind for entry in PANELS if entry.behind
    }
    for name, front in fronts.items():
        window.tabifyDockWidget(docks[front], docks[name])
    for front in fronts.values():
        docks[front].raise_()


def _proportion(window: QMainWindow, areas: Mapping[Area, list[PanelDock]], size: QSize) -> None:
    horizontal, vertical = Qt.Orientation.Horizontal, Qt.Orientation.Vertical
    shares = {"left": 27, "centre": 42, "right": 31} if areas["left"] else {"centre": 66, "right": 34}
    columns = [areas[area][0] for area in COLUMNS if areas[area]]
    window.resizeDocks(columns, [size.width() * share // 100 for share in shares.values()], horizontal)
    heights = (38, 62) if areas["left"] else (33, 67)
    window.resizeDocks(areas["centre"], [size.height() * share // 100 for share in heights], vertical)
    if areas["left"] and size.height() >= ROOMY:
        window.resizeDocks(areas["right"], [size.height() * share // 100 for share in (44, 26, 30)], vertical)


def keep_rows(docks: Docks) -> None:
    """Keep a line of tokens on top and the lines of arithmetic at the bottom, whatever the others want.

    Two lines are enough for ordinary type; a projector's takes three in a small window.
    """
    now = theme.current()
    lines = (3 if now.projector else 2) * 3 * now.size("formula") // 2 + theme.GRID
    for entry in PANELS:
        if entry.area in ("top", "bottom"):
            panel = docks[entry.name].panel
            body = panel.body.minimumSizeHint().height() + theme.GRID  # hidden while there is nothing to show
            least = max(panel.minimumSizeHint().height(), body)
            docks[entry.name].keep(max(least, lines) if entry.area == "bottom" and entry.projected else least)


def project(docks: Docks) -> None:
    """Show only the panels that a projector shows."""
    shown = {entry.name for entry in PANELS if entry.projected}
    for name, dock in docks.items():
        if name in shown:
            dock.setFloating(False)
        dock.setVisible(name in shown)


def place_projected(window: QMainWindow, docks: Docks) -> None:
    """Put the panels that a projector shows in their places, wherever they were, and hide the others first.

    All panels at once in double type would make a window grow.
    """
    sides = {"top": Qt.DockWidgetArea.TopDockWidgetArea, "bottom": Qt.DockWidgetArea.BottomDockWidgetArea}
    for entry in PANELS:
        if not entry.projected:
            docks[entry.name].hide()
    for entry in PANELS:
        if entry.projected:
            dock = docks[entry.name]
            dock.setFloating(False)
            window.removeDockWidget(dock)
            window.addDockWidget(sides.get(entry.area, Qt.DockWidgetArea.LeftDockWidgetArea), dock)
            dock.show()
