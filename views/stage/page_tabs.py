"""Tabs of panels that share a place: as many as there is room for, the others in a menu beside them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QRect, Signal
from PySide6.QtWidgets import QMenu, QTabBar, QToolButton, QWidget

from ropewalk.views.style import theme, wording


class PageTabs(QWidget):
    """A row of tabs.

    Signals
    -------
    turned(name)
        Somebody wants to see another panel.
    """

    turned = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.bar, self.more = QTabBar(self), QToolButton(self)
        self.bar.setDrawBase(False)
        self.bar.setExpanding(False)
        self.bar.setUsesScrollButtons(False)
        self.bar.setAccessibleName("Panels that share a place")
        self.bar.currentChanged.connect(self._turn)
        self.more.setProperty("kind", "small")
        self.more.setMenu(QMenu(self.more))
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._titles: dict[str, str] = {}

    def show_pages(self, titles: Mapping[str, str], front: str, box: QRect) -> None:
        """Show the tab of each panel, by its name and its title, in no more than a box."""
        blocked = self.bar.blockSignals(True)
        if self._titles != titles:
            self._titles = dict(titles)
            while self.bar.count():
                self.bar.removeTab(0)
            for name, title in titles.items():
                self.bar.setTabData(self.bar.addTab(title), name)
        names = list(titles)
        self.bar.setCurrentIndex(names.index(front))
        self._fit(names, front, box)
        self.bar.blockSignals(blocked)
        self.show()

    def _fit(self, names: list[str], front: str, box: QRect) -> None:
        """Leave out what there is no room for, from the end, and never what is in front."""
        for at in range(len(names)):
            self.bar.setTabVisible(at, True)
        away: list[str] = []
        for name in reversed(names):
            if self._width(len(away)) <= box.width():
                break
            if name != front:
                self.bar.setTabVisible(names.index(name), False)
                away.insert(0, name)
        self._offer(away)
        width = min(self._width(len(away)), box.width())
        more = self.more.sizeHint().width() if away else 0
        self.setGeometry(box.x(), box.y(), width, box.height())
        self.bar.setGeometry(0, 0, width - more - (theme.GRID // 2 if away else 0), box.height())
        self.more.setGeometry(width - more, 0, more, box.height())

    def _width(self, away: int) -> int:
        more = self.more.sizeHint().width() + theme.GRID // 2 if away else 0
        return self.bar.sizeHint().width() + more

    def _offer(self, away: list[str]) -> None:
        """Have the panels without a tab in the menu."""
        menu = self.more.menu()
        menu.clear()
        for name in away:
            menu.addAction(self._titles[name]).triggered.connect(partial(self.turned.emit, name))
        text = f"{len(away)} more"
        self.more.setText(text)
        self.more.setVisible(bool(away))
        self.more.setAccessibleName("More panels that share this place")
        self.more.setToolTip(
            wording.tooltip(f"Show another panel here: {', '.join(self._titles[name] for name in away)}")
        )

    def _turn(self, tab: int) -> None:
        if tab >= 0:
            self.turned.emit(self.bar.tabData(tab))
