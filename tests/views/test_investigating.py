"""The real window over the real session and the bundled model: real clicks, and the numbers they bring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.questions import AskCell, AskPlanes
from app.session import Session
from app.settings import SettingsStore
from model.readings import CellReading, PlaneReading, Run
from views import snapshot
from views.main_window import MainWindow
from views.why import WhyPanel

PROMPT = " hark, who goes there? hark, who goes there?"


@pytest.fixture(scope="module")
def whole(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MainWindow]:
    """One window for every test here: opening the model takes longer than they do."""
    session = Session(SettingsStore(tmp_path_factory.mktemp("settings") / "settings.json"))
    window = MainWindow(session, restore=False)
    window.resize(1600, 1000)
    window.show()
    session.begin(prompt=PROMPT)
    snapshot.wait_until_drawn(window)
    kept = qapp.topLevelWidgets()  # held, so that the guard knows Qt's own frames again
    yield window
    kept.clear()
    window.close()
    window.deleteLater()


@pytest.fixture
def window(whole: MainWindow) -> MainWindow:
    """The window with the prompt on screen, nothing changed in the model and the last row selected."""
    session = whole.session
    session.unpin()
    if session.experiments:
        session.set_experiments(())
        snapshot.wait_until_drawn(whole)
    session.start(PROMPT)
    snapshot.wait_until_drawn(whole)
    session.selection.update(layer=2, head=1, query=15, key=8)
    snapshot.wait_until_drawn(whole)
    return whole


def front(window: MainWindow, name: str) -> Any:
    """A panel, brought to the front and drawn."""
    window.reveal(name)
    snapshot.wait_until_drawn(window)
    return window.panels[name]


def click(window: MainWindow, widget: QWidget, at: QPoint | None = None) -> None:
    """Click, and wait until everything is drawn."""
    if at is None:
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton)
    else:
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton, pos=at)
    snapshot.wait_until_drawn(window)


def run_of(window: MainWindow) -> Run:
    run = window.session.run
    assert run is not None
    return run


def answer(window: MainWindow, question: Any) -> Any:
    """What the engine says to a question."""
    answers: list[Any] = []
    window.session.ask("test", question, answers.append)
    snapshot.wait_until_drawn(window)
    return answers[0]


def cell_of(window: MainWindow) -> CellReading:
    now = window.session.selection.now
    return cast("CellReading", answer(window, AskCell(now.layer, now.head, now.query, now.key)))


def planes_of(window: MainWindow) -> PlaneReading:
    now = window.session.selection.now
    return cast("PlaneReading", answer(window, AskPlanes(now.layer, now.head, now.query, now.key)))


# Why this number --------------------------------------------------------------------------------------------------


def test_every_step_unfolds_down_to_the_planes_and_copies(window: MainWindow) -> None:
    panel: WhyPanel = front(window, "why")
    click(window, panel.fold_levels)
    levels = panel.levels
    assert levels.isVisible()
    assert levels.topLevelItemCount() == 9
    cell = cell_of(window)
    assert panel.arithmetic is not None
    line = panel.arithmetic.line
    planes = [line(f"score.plane.{i}").value for i in range(8)]
    assert sum(cast("list[float]", planes)) == pytest.approx(cell.scaled, abs=1e-4)
    assert line("softmax.weight").value == pytest.approx(cell.weight, abs=1e-6)
    assert line("logit.0").symbol.split()[-1] != line("logit.0").symbol.split()[1], "a token is named"

    score = levels.topLevelItem(3)
    assert score is not None
    levels.scrollToItem(score)
    click(window, levels.viewport(), levels.visualItemRect(score).center())
    assert score.isExpanded()
    weight = levels.item_of("score.scaled")
    assert weight is not None
    assert float(weight.text(2).replace("−", "-")) == pytest.approx(cell.scaled, abs=1e-3)
    levels.setCurrentItem(weight)
    QTest.keyClick(levels, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert float(QApplication.clipboard().text().split(" = ")[1]) == cell.scaled
    click(window, panel.fold_levels)
    assert not levels.isVisible()
    assert "weight = exp(" in panel.text.toPlainText()


def test_a_line_lights_where_its_number_lives(window: MainWindow) -> None:
    panel: WhyPanel = front(window, "why")
    click(window, panel.fold_levels)
    levels, selection = panel.levels, window.session.selection
    plane = levels.item_of("score.plane.3")
    assert plane is not None
    levels.setCurrentItem(plane)
    assert selection.hover.plane == 3
    levels.setCurrentItem(cast("Any", levels.item_of("rotate.k")))
    assert selection.hover.key == selection.now.key
    levels.setCurrentItem(cast("Any", levels.item_of("score.dot")))
    assert (selection.hover.query, selection.hover.key) == (15, 8)
    levels.setCurrentItem(plane)
    levels.setFocus()
    QTest.keyClick(levels, Qt.Key.Key_Return)
    assert selection.now.plane == 3
    assert window.panels["rope"].on_screen
    vector = levels.item_of("norm.query.stream")
    assert vector is not None
    assert vector.childCount() == 16
    chunk = vector.child(0)
    assert chunk is not None
    first = [float(text) for text in chunk.text(1).replace("−", "-").split()]
    line = levels.line_of(vector)
    assert line is not None
    assert line.vector is not None
    assert np.allclose(first, line.vector[:8], atol=5e-3)
    click(window, panel.fold_levels)
