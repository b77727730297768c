"""A dock that is a card: the panel's own heading is the handle by which it is moved.

It owns the frame around a panel. It must not know which panel it holds or where it stands.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QFrame, QScrollArea, QVBoxLayout, QWidget

from views import theme
from views.panel import Panel


class PanelDock(QDockWidget):
    """Holds a panel; what does not fit scrolls instead of being cut off."""

    def __init__(self, panel: Panel, parent: QWidget | None = None) -> None:
        super().__init__(panel.title, parent)
        self.panel = panel
        self.setObjectName(f"dock_{panel.name}")
        self.setAccessibleName(panel.title)
        self.toggleViewAction().setText(panel.title)
        self._top = self._title_bar(panel)
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setWidget(panel)
        self._area.viewport().setAutoFillBackground(False)
        panel.setAutoFillBackground(False)
        body = QFrame()
        body.setProperty("card", "bottom")
        inside = QVBoxLayout(body)
        inside.setContentsMargins(0, 0, 0, theme.GRID // 2)
        inside.addWidget(self._area)
        self.setTitleBarWidget(self._top)
        self.setWidget(body)

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

    def wanted_height(self) -> int:
        """Height at which the panel need not scroll."""
        panel = max(self.panel.minimumSizeHint().height(), self.panel.sizeHint().height())
        return self._top.sizeHint().height() + panel + theme.GRID
