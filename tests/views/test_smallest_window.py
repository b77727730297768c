"""The window fits a projector of 1024 × 768, whatever is open, and nothing of it is covered or cut off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.jobs import JobProgress
from ropewalk.app.session.session import Session
from ropewalk.views.main_window import MainWindow
from ropewalk.views.stage.page_tabs import PageTabs
from ropewalk.views.style import theme
from tests.views import driving
from tests.views.canned import CannedEngine

SMALL = QSize(1024, 768)


@pytest.fixture(params=["bundled", "SmolLM2-135M-Instruct.Q4_1.gguf"])
def window(
    request: pytest.FixtureRequest, qtbot: QtBot, session: Session, engine: CannedEngine
) -> Iterator[MainWindow]:
    """A small window on the bundled model, or on one with a long name, special tokens and a template."""
    if request.param != "bundled":
        engine.known = {"name": request.param, "bos": "<|im_start|>", "chats": ("default",)}
    session.opening.begin()
    driving.settle(session)
    made = driving.window_over(session)
    made.resize(SMALL)
    made.show()
    settle()
    yield made
    made.close()
    made.deleteLater()
    theme.apply("dark")


def settle() -> None:
    for _ in range(6):
        QApplication.processEvents()


def box(window: MainWindow, widget: QWidget) -> QRect:
    return QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())


def rows_of_tabs(window: MainWindow) -> list[QTabBar]:
    return [bar for bar in window.stage.findChildren(QTabBar) if bar.isVisible() and isinstance(bar.parent(), PageTabs)]


@pytest.mark.slow
def test_projector_mode_and_back_leaves_the_window_as_high_as_it_was(window: MainWindow) -> None:
    for projector in (True, False, True, False):
        window.set_look(projector=projector)
        settle()
        assert window.size() == SMALL


@pytest.mark.parametrize("projector", [False, True])
def test_it_is_no_larger_than_a_small_projector(window: MainWindow, projector: bool) -> None:
    window.set_look(projector=projector)
    settle()
    window.resize(SMALL)
    settle()
    assert window.size() == SMALL
    for button in window.bar.findChildren(QAbstractButton):
        if button.isVisible():
            assert window.rect().contains(box(window, button)), button.accessibleName()
            assert button.width() >= button.minimumSizeHint().width(), button.text()
    assert window.bar.prompt.width() >= 100
    standing = [card for card in window.cards.values() if card.isVisible()]
    assert len(standing) >= 2
    for card in standing:
        assert window.rect().contains(box(window, card)), card.name
        for other in standing:
            assert card is other or not box(window, card).intersects(box(window, other))


def test_what_is_going_on_makes_the_window_no_wider(window: MainWindow) -> None:
    window.set_look(projector=True)
    settle()
    window.resize(SMALL)
    settle()
    assert window.status.check.isVisible()
    window.session.progress_changed.emit(JobProgress("Ablating one head after another", 1, 32, True))
    settle()
    assert window.size() == SMALL
    assert window.minimumSizeHint().width() <= SMALL.width()
    assert window.status.what.width() >= window.status.what.sizeHint().width()
    assert not window.status.check.isVisible()
    window.session.progress_changed.emit(None)
    settle()
    assert window.status.check.isVisible()


@pytest.mark.slow
@pytest.mark.parametrize("low", [False, True])
def test_every_tab_is_whole_and_can_be_clicked(window: MainWindow, low: bool) -> None:
    if low:
        window.resize(0, 0)
        settle()
        assert window.height() < SMALL.height()
    window.show_workspace("overview")
    settle()
    bars = rows_of_tabs(window)
    assert len(bars) == (1 if low else 2)
    for bar in bars:
        assert window.rect().contains(box(window, bar))
        for index in range(bar.count()):
            assert bar.rect().contains(bar.tabRect(index)), bar.tabText(index)
            QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(index).center())
            settle()
            assert bar.currentIndex() == index
            front = [window.cards[name] for name in window.stage.in_sight]
            assert bar.tabText(index) in {card.title for card in front}
            for card in front:
                assert not box(window, bar).intersects(box(window, card)), (bar.tabText(index), card.title)
