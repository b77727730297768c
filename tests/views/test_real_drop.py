"""A real checkpoint, dropped on the real window: progress, cancel, thumbnails of every head, and a correct heatmap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.jobs import JobProgress
from ropewalk.app.processes import new_session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.window.open_dialog import OpenDialog
from tests.model.checkpoints.fetch import FILE
from tests.views.driving import window_over

PATIENCE = 120_000
"""Milliseconds; it takes four seconds where the machine has nothing else to do."""

pytestmark = pytest.mark.skipif(
    not FILE.is_file(), reason="the model is not fetched: python -m tests.model.checkpoints.fetch"
)


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    session = new_session(SettingsStore(tmp_path / "settings.json"))
    made = window_over(session)
    made.resize(1280, 800)
    made.show()
    with qtbot.waitSignal(session.run_changed, timeout=PATIENCE):
        session.opening.begin(None, Prompt("The cat sat on the mat because it was tired."))
    yield made
    made.close()
    made.deleteLater()


def drop(window: MainWindow, path: Path) -> OpenDialog:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    actions, buttons, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(window, QDragEnterEvent(QPoint(300, 300), actions, data, buttons, none))
    QApplication.sendEvent(window, QDropEvent(QPointF(300, 300), actions, data, buttons, none))
    return window.findChildren(OpenDialog)[-1]


@pytest.mark.slow
def test_a_dropped_file_shows_every_head_after_a_first_try_was_cancelled(qtbot: QtBot, window: MainWindow) -> None:
    session = window.session
    before = session.model
    messages: list[JobProgress] = []
    session.progress_changed.connect(lambda progress: messages.append(progress) if progress else None)

    dialog = drop(window, FILE)
    qtbot.waitUntil(lambda: dialog.opening and any(one.total > 1 for one in messages), timeout=PATIENCE)
    QTest.mouseClick(dialog.cancel, Qt.MouseButton.LeftButton)
    assert "stays open" in dialog.notice.text()
    assert session.model is before
    QTest.mouseClick(dialog.cancel, Qt.MouseButton.LeftButton)

    with qtbot.waitSignal(session.run_changed, timeout=PATIENCE):
        drop(window, FILE)
    run = session.run
    assert run is not None
    assert [token.id for token in run.tokens] == [504, 2644, 2643, 335, 260, 1171, 975, 357, 436, 12364, 30]
    panels = window.panels
    qtbot.waitUntil(lambda: not session.busy, timeout=PATIENCE)
    plan = panels["heads"].view.plan  # type: ignore[attr-defined]
    assert {(place.layer, place.head) for place in plan.places} == {(i, j) for i in range(30) for j in range(9)}
    session.selection.update(layer=16, head=0)
    weights = panels["scores"].weights  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: panels["scores"].settled and not session.busy, timeout=PATIENCE)
    picture = np.array([[weights.value(q, k) for k in range(run.length)] for q in range(run.length)])
    assert np.allclose(picture.sum(1), 1, atol=1e-5)
    assert np.allclose(np.triu(picture, 1), 0)
    previous = np.diag(picture, -1).mean()
    assert previous > 0.5, "L16H0 is the head that looks at the token before"
