"""How high the row of tokens is: as many lines as the run needs, up to a few, until a person drags its edge.

So it is while the strip has the row on top of the panels to itself; elsewhere (in a lesson, alone on the screen,
floating) its height is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QLayout, QMainWindow, QStyle

from ropewalk.views.panels.panel_dock import PanelDock
from ropewalk.views.panels.tokens import TokensPanel

if TYPE_CHECKING:
    from ropewalk.app.settings import SettingsStore

FEWEST: Final = 2
"""Lines that a run which needs them gets in any window: one alone may hold the last token only."""

MOST: Final = 3
"""Lines from which on the strip scrolls."""

SHARE: Final = 5
"""Of the window's height the row takes no more than one part in this many, unless that were less than the fewest."""


UNBOUND: Final = (1 << 24) - 1
"""Qt's own word for no largest height."""

_Area = Qt.DockWidgetArea


class StripHeight(QObject):
    """Gives the tokens their lines.

    Parameters
    ----------
    window, dock
        The window and the dock of the tokens.
    settings
        Where it is remembered that a person chose the height.
    """

    def __init__(self, window: QMainWindow, dock: PanelDock, settings: SettingsStore) -> None:
        super().__init__(window)
        self._window, self._dock, self._settings = window, dock, settings
        self._panel = cast("TokensPanel", dock.panel)
        self._handle: int | None = None
        """Height when the button went down in the window: perhaps on the row's edge."""
        self._in_vain: tuple[int, int] | None = None
        """A height that the layout did not give, in a window of that height: it is not asked for again."""
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self._fit)
        self._panel.strip.placed.connect(self._soon.start)
        window.installEventFilter(self)
        self._panel.body.installEventFilter(self)

    def follow(self) -> None:
        """Follow the run again, whatever a person chose before."""
        self._settings.update(tokens_by_hand=False)
        self._soon.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Notice a new size, and a drag of the row's edge: the window itself hears those."""
        kind = event.type()
        if kind in (QEvent.Type.Resize, QEvent.Type.Show):
            self._soon.start()
        elif watched is self._window and kind == QEvent.Type.MouseButtonPress and self._has_row():
            self._handle = self._dock.height()
        elif watched is self._window and kind == QEvent.Type.MouseButtonRelease and self._handle is not None:
            QTimer.singleShot(0, self, self._let_go)  # the window moves the edge only after this
        return super().eventFilter(watched, event)

    def _let_go(self) -> None:
        if self._handle is not None and self._handle != self._dock.height():
            self._settings.update(tokens_by_hand=True)
        self._handle = None
        self._soon.start()

    def _has_row(self) -> bool:
        """Whether the strip stands on top of the panels; Qt warns of docks that have no place."""
        dock = self._dock
        on_top = self._window.dockWidgetArea(dock) == _Area.TopDockWidgetArea
        return on_top and dock.isVisible() and not dock.isFloating()

    def _fit(self) -> None:
        arranged = self._window.layout()
        by_hand = self._handle is not None or self._settings.now.tokens_by_hand
        if by_hand or arranged is None or not self._has_row():
            return
        arranged.activate()  # what was just restored or shown has its sizes only then
        strip, around = self._panel.strip, self._dock.height() - self._panel.body.height()
        if strip.lines == 0 or around <= 0:
            return
        wanted = around + strip.height_of(min(strip.lines, self._most(around)))
        asked = wanted, self._window.height()
        if wanted != self._dock.height() and asked != self._in_vain:
            self._make(arranged, wanted)
            self._in_vain = None if self._dock.height() == wanted else asked

    def _most(self, around: int) -> int:
        """Lines that there is room for, with that much around them."""
        strip, window = self._panel.strip, self._window
        spare = window.height() - window.minimumHeight()
        share = max(window.height() // SHARE, around + strip.height_of(FEWEST))
        room = min(self._dock.minimumSizeHint().height() + spare, share) - around
        return next((lines for lines in range(MOST, 1, -1) if strip.height_of(lines) <= room), 1)

    def _make(self, arranged: QLayout, height: int) -> None:
        """Make the row that high at the cost of what stands between it and the bottom, and free to be dragged again.

        ``QMainWindow.resizeDocks`` is not exact between areas: Qt then shares out anew what it has not been told, to
        the rows at the bottom and to gaps. While every area is held, there is nothing to share out.
        """
        more = height - self._dock.height()
        middle = [self._standing(area) for area in (_Area.LeftDockWidgetArea, _Area.RightDockWidgetArea)]
        tallest = [max(docks, key=QDockWidget.height) for docks in middle if docks]
        handle = {dock: dock.height() for dock in self._standing(_Area.BottomDockWidgetArea)} | {self._dock: height}
        for dock, exactly in handle.items():
            dock.setFixedHeight(exactly)
        for dock in tallest:
            dock.setMinimumHeight(max(dock.height() - more, 0))
        arranged.activate()
        for dock in (*handle, *tallest):
            dock.setMinimumHeight(0)
            dock.setMaximumHeight(UNBOUND)

    def _standing(self, area: Qt.DockWidgetArea) -> list[QDockWidget]:
        """The docks of an area that can be seen."""
        docks = [dock for dock in self._window.findChildren(QDockWidget) if not dock.visibleRegion().isEmpty()]
        return [dock for dock in docks if not dock.isFloating() and self._window.dockWidgetArea(dock) == area]


class LeastHeight(QObject):
    """Keeps the window as high as its rows and the edges between them.

    Parameters
    ----------
    window
        The window.
    """

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._own: int | None = None
        """The height the window had before it had to grow to ``_grown``."""
        self._grown = 0
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow what the panels need."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._follow()
        return super().eventFilter(watched, event)

    def _follow(self) -> None:
        window = self._window
        edge = window.style().pixelMetric(QStyle.PixelMetric.PM_DockWidgetSeparatorExtent, None, window)
        least, height = window.minimumSizeHint().height() + 2 * edge, window.height()
        window.setMinimumHeight(least)
        if height != self._grown:  # it never grew, or somebody has chosen a height since
            self._own = None
        if height < least:
            self._own, self._grown = self._own or height, least
        elif self._own is not None and height > max(least, self._own):
            self._grown = max(least, self._own)
            window.resize(window.width(), self._grown)
