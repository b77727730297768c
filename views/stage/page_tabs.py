"""Tabs of panels that share a place: as many as there is room for, the others in a menu beside them."""

from __future__ import annotations

from collections.abc import Mapping

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
        self.more.clicked.connect(self._offer)
        self._titles: dict[str, str] = {}
        self._away: list[str] = []
        """Panels whose tab there is no room for."""

    def show_pages(self, titles: Mapping[str, str], front: str, box: QRect) -> None:
        """Show the tab of each panel, by its name and its title, in no more than a box."""
        self.show()  # first: a row that is hidden does not know how wide it is
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

    def _fit(self, names: list[str], front: str, box: QRect) -> None:
        """Leave out what there is no room for, from the end, and never what is in front."""
        for at in range(len(names)):
            self.bar.setTabVisible(at, True)
        away: list[str] = []
        for name in reversed([name for name in names if name != front]):
            if self._width(away) <= box.width():
                break
            self.bar.setTabVisible(names.index(name), False)
            away.insert(0, name)
        width, more = min(self._width(away), box.width()), self.more.sizeHint().width() if away else 0
        self.setGeometry(box.x(), box.y(), width, box.height())
        self.bar.setGeometry(0, 0, width - more - (theme.GRID // 2 if away else 0), box.height())
        self.more.setGeometry(width - more, 0, more, box.height())

    def _width(self, away: list[str]) -> int:
        """Pixels of the tabs that are left, and of the button for the others."""
        self._tell(away)
        return self.bar.sizeHint().width() + (self.more.sizeHint().width() + theme.GRID // 2 if away else 0)

    def _tell(self, away: list[str]) -> None:
        """Say on the button what has no tab."""
        self._away = away
        self.more.setText(f"{len(away)} more")
        self.more.setVisible(bool(away))
        self.more.setAccessibleName("More panels that share this place")
        others = ", ".join(self._titles[name] for name in away)
        self.more.setToolTip(wording.tooltip(f"Show another panel here: {others}"))

    def _offer(self) -> None:
        """Let one of them be chosen."""
        menu = QMenu(self)
        for name in self._away:
            menu.addAction(self._titles[name]).setData(name)
        menu.triggered.connect(lambda entry: self.turned.emit(entry.data()))
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))

    def _turn(self, tab: int) -> None:
        if tab >= 0:
            self.turned.emit(self.bar.tabData(tab))
