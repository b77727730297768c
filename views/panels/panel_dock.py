"""A dock that is a card: the panel's own heading is the handle by which it is moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QFrame, QMainWindow, QVBoxLayout, QWidget

from ropewalk.views.panels.panel import Panel
from ropewalk.views.style import theme


class PanelDock(QDockWidget):
    """Holds a panel, whose heading row becomes the title bar.

    Parameters
    ----------
    name, title
        Those of the panel.
    make
        Makes the panel; called once.

    Attributes
    ----------
    is_made
        Whether the panel is there.
    """

    def __init__(self, name: str, title: str, make: Callable[[], Panel], parent: QWidget | None = None) -> None:
        super().__init__(title, parent)
        self.name, self.title, self._make = name, title, make
        self._panel: Panel | None = None
        self._welcomes: list[Callable[[Panel], object]] = []
        self._in_front = True
        self.setObjectName(f"dock_{name}")
        self.setAccessibleName(title)
        self.toggleViewAction().setText(title)
        self._top, self._heading = _frame("top", (2 * theme.GRID, theme.GRID, 2 * theme.GRID, 0))
        self._top.setToolTip("Drag to move, double-click to float")
        self._body, self._inside = _frame("bottom", (0, 0, 0, theme.GRID // 2))
        self.setTitleBarWidget(self._top)
        self.setWidget(self._body)
        self.visibilityChanged.connect(self._come_forward)
        self._least = 0
        self._wanted = 0

    # The panel ----------------------------------------------------------------------------------------------------

    @property
    def is_made(self) -> bool:
        """Whether the panel is there."""
        return self._panel is not None

    @property
    def panel(self) -> Panel:
        """The panel, which is made when it is first asked for."""
        return self.make_panel() if self._panel is None else self._panel

    def make_panel(self) -> Panel:
        """Make the panel, unless it is there."""
        if self._panel is None:
            self._panel = self._make()
            self._take_in(self._panel)
            for welcome in self._welcomes:
                welcome(self._panel)
        return self._panel

    def when_made(self, welcome: Callable[[Panel], object]) -> None:
        """Call with the panel: now where it is there, else when it is made."""
        self._welcomes.append(welcome)
        if self._panel is not None:
            welcome(self._panel)

    @property
    def on_screen(self) -> bool:
        """Whether the panel can be seen."""
        return self._panel is not None and self._panel.on_screen

    def _take_in(self, panel: Panel) -> None:
        """Put the panel in, its heading row into the title bar, and both where Tab comes by in reading order."""
        outer = panel.layout()
        if outer is not None:
            outer.removeItem(panel.head_row)
            panel.head_row.setParent(None)
            outer.setContentsMargins(2 * theme.GRID, theme.GRID // 2, 2 * theme.GRID, theme.GRID // 2)
        stops = _stops(panel)
        self._heading.addLayout(panel.head_row)
        self._inside.addWidget(panel)
        self._place_stops(panel, [stop for stop in stops if not panel.isAncestorOf(stop)])
        panel.height_wanted.connect(self._make_room)
        panel.theme_changed()
        panel.come_forward(self._in_front)
        panel.show()

    def _place_stops(self, panel: Panel, in_heading: list[QWidget]) -> None:
        """Let Tab come by where the dock stands among the others: what is made late would be its last stop.

        Qt moves nothing behind a widget that takes no focus, and a whole widget, up to its last child that takes some,
        only where it hands its focus to a child.
        """
        last = QWidget(panel)
        takers = (self._body, panel, last)
        for taker in takers:
            taker.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        for before, after in pairwise((self._body, *in_heading)):
            QWidget.setTabOrder(before, after)
        panel.setFocusProxy(panel.body)
        QWidget.setTabOrder((self._body, *in_heading)[-1], panel)
        panel.setFocusProxy(None)  # type: ignore[arg-type]
        for taker in takers:
            taker.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        last.deleteLater()

    def _come_forward(self, forward: bool) -> None:
        self._in_front = forward
        if self._panel is not None:
            self._panel.come_forward(forward)
        elif forward:  # perhaps only while a layout is brought back: then it is behind again before the next turn
            QTimer.singleShot(0, self, self._make_in_front)

    def _make_in_front(self) -> None:
        if self._in_front and self.isVisible():
            self.make_panel()

    # The frame ----------------------------------------------------------------------------------------------------

    def show_focus(self, has_focus: bool) -> None:
        """Show in the heading whether the focus is in this panel."""
        if self._panel is None:
            return
        heading = self._panel.heading
        if heading.property("focused") != has_focus:
            heading.setProperty("focused", has_focus)
            heading.style().unpolish(heading)
            heading.style().polish(heading)

    def keep(self, height: int) -> None:
        """Never make the panel lower than that, even where the others want its room."""
        self._least = height
        self._body.setMinimumHeight(max(self._least, self._wanted))

    def _make_room(self, least: int, best: int) -> None:
        """Grow for what was unfolded in the panel, and shrink again when it is folded."""
        self._wanted = least
        self._body.setMinimumHeight(max(self._least, least))
        window = self.parentWidget()
        if isinstance(window, QMainWindow) and self.isVisible() and not self.isFloating():
            whole = max(self._body.minimumHeight(), best) + self._top.sizeHint().height()
            window.resizeDocks([self], [whole], Qt.Orientation.Vertical)


class Panels(dict[str, Panel]):
    """The panels that are made, by name asking for another one makes it."""

    def __init__(self, docks: Mapping[str, PanelDock]) -> None:
        super().__init__()
        self._docks = docks
        for name, dock in docks.items():
            dock.when_made(partial(self.__setitem__, name))

    def __missing__(self, name: str) -> Panel:
        """Make the panel."""
        return self._docks[name].panel


def _frame(card: str, margins: tuple[int, int, int, int]) -> tuple[QFrame, QVBoxLayout]:
    """One half of the card, and the layout in it."""
    frame = QFrame()
    frame.setProperty("card", card)
    layout = QVBoxLayout(frame)
    layout.setContentsMargins(*margins)
    return frame, layout


def _stops(panel: Panel) -> list[QWidget]:
    """Where Tab stops in a panel that is still a window of its own, in that order."""
    stops: list[QWidget] = []
    widget = panel.nextInFocusChain()
    while widget is not None and widget is not panel:
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus.value:
            stops.append(widget)
        widget = widget.nextInFocusChain()
    return stops
