"""Heads side by side as a figure for a paper: maps with axis titles, no buttons, and room for a line of words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QCoreApplication, QEvent, QSize, Qt
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from ropewalk.model.readings.records import HeadPicture, Run, Tile, TileKind, token_strings
from ropewalk.views.panels.board import shared_levels
from ropewalk.views.panels.head_cards import CardGrid, CardMap
from ropewalk.views.style import theme, wording

SIDE = 340
"""Pixels that the cells of a map have, along a side: room for titles of the axes."""
MOST = 4
"""Maps in a row."""


@contextmanager
def heads_on_paper(pictures: tuple[HeadPicture, ...], run: Run, kind: TileKind, *, tokens: bool) -> Iterator[QWidget]:
    """Maps of heads, dark on white, for as long as drawing them takes.

    Parameters
    ----------
    kind
        What is drawn of each head.
    tokens
        Whether the axes name tokens; else they number them.
    """
    sheet, grid = QFrame(), CardGrid()
    sheet.setProperty("card", "whole")
    sheet.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    layout = QVBoxLayout(sheet)
    margin = 2 * theme.GRID
    layout.setContentsMargins(margin, margin, margin, 0)
    layout.addWidget(grid)
    try:
        with theme.worn_by(sheet, "light"):
            grid.theme_changed()
            grid.setFixedSize(_arranged(grid, pictures, run, kind, tokens=tokens))
            sheet.adjustSize()
            sheet.show()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
            yield sheet
    finally:
        sheet.close()
        sheet.deleteLater()


def _arranged(grid: CardGrid, pictures: tuple[HeadPicture, ...], run: Run, kind: TileKind, *, tokens: bool) -> QSize:
    """Fill a grid; return the size that its maps need."""

    def tile(picture: HeadPicture) -> Tile:
        return picture.scores if kind == "scores" else picture.weights

    levels = shared_levels([tile(one) for one in pictures], run.length)
    names = tuple(map(theme.drawable, token_strings(run.tokens[: run.length]))) if tokens else ()
    maps = [
        CardMap(wording.head_name(one.layer, one.head), tile(one), levels, (one.layer, one.head)) for one in pictures
    ]
    grid.show_maps(maps, names, run.length)
    rows = math.ceil(len(maps) / MOST)
    return grid.size_for(rows, math.ceil(len(maps) / rows), SIDE)
