"""Tabs of panels that share a place: those that fit, and the others in a menu."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.views.stage.page_tabs import PageTabs
from ropewalk.views.style import theme

TITLES = {"heads": "Heads", "lines": "Lines", "needs": "Heads that matter", "training": "Heads being born"}


@pytest.fixture
def tabs(qtbot: QtBot) -> Iterator[PageTabs]:
    theme.apply("dark")
    ground = QWidget()
    qtbot.addWidget(ground)
    ground.resize(700, 100)
    ground.show()
    yield PageTabs(ground)
    ground.hide()  # until here somebody has to know it


def seen(tabs: PageTabs) -> list[str]:
    return [tabs.bar.tabData(at) for at in range(tabs.bar.count()) if tabs.bar.isTabVisible(at)]


def test_where_there_is_room_every_panel_has_its_tab(tabs: PageTabs) -> None:
    tabs.show_pages(TITLES, "lines", QRect(0, 0, 700, 28))
    assert seen(tabs) == list(TITLES)
    assert tabs.more.isHidden()
    assert tabs.bar.tabData(tabs.bar.currentIndex()) == "lines"


@pytest.mark.parametrize("front", list(TITLES))
@pytest.mark.parametrize("width", [160, 240, 330])
def test_what_does_not_fit_is_in_a_menu_and_what_is_in_front_has_its_tab(
    tabs: PageTabs, front: str, width: int
) -> None:
    tabs.show_pages(TITLES, front, QRect(5, 3, width, 28))
    away = [name for name in TITLES if name not in seen(tabs)]
    assert away
    assert front in seen(tabs)
    assert tabs.more.text() == f"{len(away)} more"
    for name in away:
        assert TITLES[name] in tabs.more.toolTip()
    assert tabs.geometry().right() <= 5 + width
    assert tabs.more.geometry().left() >= tabs.bar.geometry().right()
    if len(seen(tabs)) > 1:
        assert tabs.bar.sizeHint().width() <= tabs.bar.width()


def test_a_panel_is_chosen_from_the_menu_and_has_its_tab_then(tabs: PageTabs) -> None:
    turned: list[str] = []
    tabs.turned.connect(turned.append)
    tabs.show_pages(TITLES, "heads", QRect(0, 0, 240, 28))
    hidden = [name for name in TITLES if name not in seen(tabs)]
    QTest.mouseClick(tabs.more, Qt.MouseButton.LeftButton)
    (menu,) = (menu for menu in tabs.findChildren(QMenu) if menu.isVisible())
    assert [entry.data() for entry in menu.actions()] == hidden
    QTest.keyClick(menu, Qt.Key.Key_Up)
    QTest.keyClick(menu, Qt.Key.Key_Return)
    assert turned == [hidden[-1]]
    tabs.show_pages(TITLES, hidden[-1], QRect(0, 0, 240, 28))
    assert hidden[-1] in seen(tabs)


def test_a_click_turns_to_a_panel_once(tabs: PageTabs) -> None:
    turned: list[str] = []
    tabs.turned.connect(turned.append)
    tabs.show_pages(TITLES, "heads", QRect(0, 0, 700, 28))
    QTest.mouseClick(tabs.bar, Qt.MouseButton.LeftButton, pos=tabs.bar.tabRect(2).center())
    assert turned == ["needs"]
