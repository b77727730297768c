"""What is changed in the model is said in every workspace, and can be taken back there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.model.decoder.interventions import AblateHeads, NoScale, RopeOff
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures import snapshot
from ropewalk.views.stage.workspaces import NAMED
from tests.views.driving import window_over

CHANGES = (NoScale(), AblateHeads(1, (6,)), RopeOff())


@pytest.fixture
def window(qtbot: QtBot, running: Session) -> Iterator[MainWindow]:
    window = window_over(running)
    snapshot.picture(window, QSize(1366, 768))
    yield window
    window.close()
    window.deleteLater()


def texts(window: MainWindow) -> list[str]:
    return [chip.text() for chip in window.status.changes.chips if chip.isVisible()]


def test_every_change_has_its_chip_in_every_workspace_until_it_is_taken_out(window: MainWindow) -> None:
    chips, height = window.status.changes, window.stage.height()
    assert not chips.isVisible()
    window.session.interventions.apply(CHANGES)
    snapshot.wait_until_drawn(window)
    labels = [f"{change.label}  ×" for change in CHANGES]
    for workspace in NAMED:
        window.show_workspace(workspace)
        assert texts(window) == labels
        assert not chips.more.isVisible()
    QTest.mouseClick(chips.chips[1], Qt.MouseButton.LeftButton)
    snapshot.wait_until_drawn(window)
    assert window.session.interventions.now == (CHANGES[0], CHANGES[2])
    assert texts(window) == [labels[0], labels[2]]
    window.session.interventions.apply(())
    snapshot.wait_until_drawn(window)
    snapshot.settle(window)
    assert not chips.isVisible()
    assert window.stage.height() == height


def test_those_that_do_not_fit_are_counted(window: MainWindow) -> None:
    heads = tuple(AblateHeads(layer, tuple(range(layer, 8))) for layer in range(4))
    window.session.interventions.apply((*CHANGES, *heads))
    snapshot.picture(window, QSize(900, 700))
    shown, chips = len(texts(window)), window.status.changes
    assert 0 < shown < len(window.session.interventions.now)
    assert chips.more.text() == f"+{len(window.session.interventions.now) - shown} more"
    assert f"Also: {window.session.interventions.now[shown].label}, " in chips.more.toolTip()
    assert chips.more.geometry().right() <= chips.rect().right()
    QTest.mouseClick(chips.more, Qt.MouseButton.LeftButton)
    assert window.panels["experiments"].on_screen
