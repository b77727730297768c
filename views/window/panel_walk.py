"""From panel to panel by keyboard, and which panel has the focus."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from ropewalk.views.panels.panel import Panel
from ropewalk.views.panels.panel_card import PanelCard


class PanelWalk(QObject):
    """Walks the panels that can be seen, in reading order.

    Attributes
    ----------
    current
        The panel that has the focus, or had it last; empty before any had it.
    """

    def __init__(self, window: QMainWindow, cards: Mapping[str, PanelCard]) -> None:
        super().__init__(window)
        self.current = ""
        self._cards = cards
        self._follows = False
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._on_focus)
            self._follows = True

    def forward(self) -> None:
        """Go to the panel after."""
        self._go(1)

    def back(self) -> None:
        """Go to the panel before."""
        self._go(-1)

    def seen(self) -> list[str]:
        """The panels on screen, in reading order."""
        return [name for name, card in self._cards.items() if card.on_screen]

    def enter(self, name: str) -> None:
        """Give the focus to a panel: to its picture, else to its first control; to itself while nothing is there."""
        panel = self._cards[name].panel
        target = first_stop(panel)
        target.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def close_down(self) -> None:
        """Follow the focus no longer; the window closes."""
        app = QApplication.instance()
        if isinstance(app, QApplication) and self._follows:
            self._follows = False
            app.focusChanged.disconnect(self._on_focus)

    def _go(self, by: int) -> None:
        names = self.seen()
        if not names:
            return
        here = names.index(self.current) if self.current in names and self._has_focus() else None
        place = (0 if by > 0 else -1) if here is None else (here + by) % len(names)
        self.enter(names[place])

    def _has_focus(self) -> bool:
        return self._panel_of(QApplication.focusWidget()) == self.current

    def _panel_of(self, widget: QWidget | None) -> str:
        while widget is not None:
            if isinstance(widget, PanelCard):
                return widget.name
            widget = widget.parentWidget()
        return ""

    def _on_focus(self, before: QWidget | None, now: QWidget | None) -> None:
        name = self._panel_of(now)
        for other, card in self._cards.items():
            card.show_focus(other == name)
        if name:
            self.current = name


def first_stop(panel: Panel) -> QWidget:
    """Where the focus goes in a panel."""
    # while there is no picture, controls come and go, and from one that goes Qt gives the focus on, to a field even
    within = (panel.body, panel.heading.parentWidget() or panel) if panel.body.isVisible() else ()
    for part in within:
        for widget in part.findChildren(QWidget):
            takes = widget.focusPolicy() & Qt.FocusPolicy.TabFocus.value
            if takes and widget.isVisible() and widget.isEnabled():
                return widget
    panel.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return panel
