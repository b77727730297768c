"""A card that holds a panel: the panel's own heading is the handle by which it is moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

from PySide6.QtCore import QMargins, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QFrame, QLayout, QVBoxLayout, QWidget

from ropewalk.views.panels.panel import Panel
from ropewalk.views.style import theme


class PanelCard(QFrame):
    """Holds a panel, whose heading row becomes the handle.

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
    handle
        The heading.

    Signals
    -------
    dragged(card, where), dropped(card, where)
        The heading is pulled to a point of the screen, and let go there.
    float_wanted(card)
        The heading was double-clicked, or the card was closed while it was a window of its own.
    """

    dragged = Signal(object, QPoint)
    dropped = Signal(object, QPoint)
    float_wanted = Signal(object)

    def __init__(self, name: str, title: str, make: Callable[[], Panel], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name, self.title, self._make = name, title, make
        self._panel: Panel | None = None
        self._welcomes: list[Callable[[Panel], object]] = []
        self.setObjectName(f"card_{name}")
        self.setAccessibleName(title)
        self.setWindowTitle(title)
        self.setProperty("card", "whole")
        self.handle = _Handle(self)
        self._heading = QVBoxLayout(self.handle)
        self._heading.setContentsMargins(2 * theme.GRID, theme.GRID, 2 * theme.GRID, 0)
        self._body = QWidget()
        self._inside = QVBoxLayout(self._body)
        self._inside.setContentsMargins(0, 0, 0, theme.GRID // 2)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self.handle)
        outer.addWidget(self._body, 1)

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
        """Put the panel in, its heading row into the handle, and both where Tab comes by in reading order."""
        outer = panel.layout()
        if outer is not None:
            outer.removeItem(panel.head_row)
            panel.head_row.setParent(None)
            outer.setContentsMargins(2 * theme.GRID, theme.GRID // 2, 2 * theme.GRID, theme.GRID // 2)
        stops = _stops(panel)
        self._heading.addLayout(panel.head_row)
        self._inside.addWidget(panel)
        self._place_stops(panel, [stop for stop in stops if not panel.isAncestorOf(stop)])
        panel.theme_changed()
        panel.show()

    def _place_stops(self, panel: Panel, in_heading: list[QWidget]) -> None:
        """Let Tab come by where the card stands among the others: what is made late would be its last stop.

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
        last.hide()  # until Qt comes to it, it would stand over the panel
        last.deleteLater()

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

    def fold_heading(self, folded: bool) -> None:
        """Show the panel without its heading, or with it."""
        self.handle.setVisible(not folded)
        top = theme.GRID // 2 if folded else 0
        self._inside.setContentsMargins(0, top, 0, theme.GRID // 2)

    @property
    def around(self) -> int:
        """How much higher the card is than what its panel shows."""
        top = 0 if self.handle.isHidden() else self.handle.sizeHint().height()
        return top + _upright(self._inside) + _upright(self.panel.layout())

    @property
    def is_floating(self) -> bool:
        """Whether it is a window of its own."""
        return self.isWindow()

    def float_out(self, over: QWidget) -> None:
        """Become a window of its own, where it stood; a tool window, so that the keys go on working in it."""
        at, size = self.mapToGlobal(QPoint(2 * theme.GRID, 2 * theme.GRID)), self.size()
        self.setParent(over, Qt.WindowType.Tool)
        self.move(at)
        self.resize(size.expandedTo(QSize(320, 240)))
        self.show()

    def put_in(self, over: QWidget) -> None:
        """Become a part of the window again."""
        self.setParent(over, Qt.WindowType.Widget)
        over.window().activateWindow()  # the keys were this card's

    def closeEvent(self, event: QCloseEvent) -> None:
        """Go back to the stage instead."""
        if self.is_floating:
            event.ignore()
            self.float_wanted.emit(self)
        else:
            super().closeEvent(event)


class _Handle(QFrame):
    """The heading of a card."""

    def __init__(self, card: PanelCard) -> None:
        super().__init__(card)
        self._card = card
        self._pressed: QPoint | None = None
        self._pulled = False
        self.setToolTip("Drag to move, double-click for a window of its own")

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Remember where the button went down."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed, self._pulled = event.position().toPoint(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Say where the card is pulled."""
        if self._pressed is None or self._card.is_floating:
            return
        way = (event.position().toPoint() - self._pressed).manhattanLength()
        self._pulled = self._pulled or way >= QApplication.startDragDistance()
        if self._pulled:
            self._card.dragged.emit(self._card, event.globalPosition().toPoint())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Say where it is let go."""
        pulled, self._pressed, self._pulled = self._pulled, None, False
        if pulled:
            self._card.dropped.emit(self._card, event.globalPosition().toPoint())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Ask for a window of its own, or for its place."""
        self._card.float_wanted.emit(self._card)


class Panels(dict[str, Panel]):
    """The panels that are made, by name; asking for another one makes it."""

    def __init__(self, cards: Mapping[str, PanelCard]) -> None:
        super().__init__()
        self._cards = cards
        for name, card in cards.items():
            card.when_made(partial(self.__setitem__, name))

    def __missing__(self, name: str) -> Panel:
        """Make the panel."""
        return self._cards[name].panel


def _upright(layout: QLayout | None) -> int:
    """The margins above and below."""
    margins = QMargins() if layout is None else layout.contentsMargins()
    return margins.top() + margins.bottom()


def _stops(panel: Panel) -> list[QWidget]:
    """Where Tab stops in a panel that is still a window of its own, in that order."""
    stops: list[QWidget] = []
    widget = panel.nextInFocusChain()
    while widget is not None and widget is not panel:
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus.value:
            stops.append(widget)
        widget = widget.nextInFocusChain()
    return stops
