"""A dock that is a card: the panel's own heading is the handle by which it is moved.

It owns the frame around a panel. It must not know which panel it holds or where it stands.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QFrame, QMainWindow, QVBoxLayout, QWidget

from views import theme
from views.panel import Panel


class PanelDock(QDockWidget):
    """Holds a panel, whose heading row becomes the title bar."""

    def __init__(self, panel: Panel, parent: QWidget | None = None) -> None:
        super().__init__(panel.title, parent)
        self.panel = panel
        self.setObjectName(f"dock_{panel.name}")
        self.setAccessibleName(panel.title)
        self.toggleViewAction().setText(panel.title)
        self._top = self._title_bar(panel)
        self._body = QFrame()
        self._body.setProperty("card", "bottom")
        inside = QVBoxLayout(self._body)
        inside.setContentsMargins(0, 0, 0, theme.GRID // 2)
        inside.addWidget(panel)
        self.setTitleBarWidget(self._top)
        self.setWidget(self._body)
        self.visibilityChanged.connect(panel.come_forward)
        self._least = 0
        self._wanted = 0
        panel.height_wanted.connect(self._make_room)

    def _title_bar(self, panel: Panel) -> QFrame:
        """Take the heading row out of the panel and make it the title bar."""
        outer = panel.layout()
        bar = QFrame()
        bar.setProperty("card", "top")
        row = QVBoxLayout(bar)
        row.setContentsMargins(2 * theme.GRID, theme.GRID, 2 * theme.GRID, 0)
        if outer is not None:
            outer.removeItem(panel.head_row)
            panel.head_row.setParent(None)
            outer.setContentsMargins(2 * theme.GRID, theme.GRID // 2, 2 * theme.GRID, theme.GRID // 2)
        row.addLayout(panel.head_row)
        bar.setToolTip("Drag to move, double-click to float")
        return bar

    def show_focus(self, has_focus: bool) -> None:
        """Show in the heading whether the focus is in this panel."""
        heading = self.panel.heading
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
