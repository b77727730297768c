"""The first experiment of a teacher's hour in the real window: sizes, another draw, and the entropy that is shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.random_layer import random_layers
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.interventions import InterventionsPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import wording
from tests.views.driving import click, front, opened_window
from tests.views.plots.hand import point_at


@pytest.fixture(scope="module")
def window(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MainWindow]:
    with opened_window(tmp_path_factory.mktemp("settings"), None, " hark, who goes there?") as window:
        window.cards["experiments"].make_panel()  # here, for its menus live as long as this window, and not as one test
        yield window


def test_the_entropy_of_both_ways_of_drawing_is_shown_with_the_reason(window: MainWindow, qtbot: QtBot) -> None:
    panel: InterventionsPanel = front(window, "experiments")
    panel.page_box.setFocus()
    QTest.keyClick(panel.page_box, Qt.Key.Key_Down)
    snapshot.wait_until_drawn(window)
    page = panel.random
    assert page.isVisible()
    assert not panel.undo_button.isVisible()
    assert [page.boxes[letter].value() for letter in "BTDH"] == [2, 16, 128, 4]
    normal, raw, library, library_raw = random_layers(2, 16, 128, 4, seed=0)
    description, words = page.view.accessibleDescription(), page.words.text()
    for layer, name in ((normal, "N(0, 1/D), ÷ √Dh"), (raw, "N(0, 1/D), no scale")):
        assert f"{name}: entropy {wording.number(layer.entropy)} nats" in description
    for layer, name in ((library, "÷ √Dh"), (library_raw, "no scale")):
        assert f"U(±1/√D), {name}: entropy {wording.number(layer.entropy)} nats" in description
    assert f"N(0, 1/D) falls to {wording.number(raw.entropy)}" in words
    assert f"only to {wording.number(library_raw.entropy)}" in words
    assert "variance 1/(3D)" in words
    shown = page.view.maps[1]
    hot = max(range(16), key=lambda key: float(raw.weights[15, key]))
    assert shown.value(15, hot) == raw.weights[15, hot]
    assert shown.is_masked(3, 4)
    point_at(shown, shown.cell_rect(15, hot).center())
    said = page.view.words[1].text()
    assert said == f"query 15 → key {hot}\nweight {wording.number(float(raw.weights[15, hot]))}\n"
    point_at(shown, shown.cell_rect(3, 9).center())
    assert page.view.words[1].text().startswith("entropy ")

    click(window, page.again)
    assert f"falls to {wording.number(random_layers(seed=1)[1].entropy)}" in page.words.text()
    page.boxes["D"].setValue(64)
    page.boxes["T"].setValue(8)
    snapshot.wait_until_drawn(window)
    again = random_layers(2, 8, 64, 4, seed=1)
    assert f"An even row would have {wording.number(again[0].even)} nats" in page.words.text()
    assert f"falls to {wording.number(again[1].entropy)}" in page.words.text()
    failures: list[str] = []
    window.session.failed.connect(lambda sentence, details: failures.append(sentence))
    page.boxes["H"].setValue(5)
    qtbot.waitUntil(lambda: bool(failures))
    assert failures[0].startswith("D = 64 features cannot be split into 5 heads")
    window.failure.dismiss()
    page.boxes["H"].setValue(8)
    snapshot.wait_until_drawn(window)
    panel.page_box.setFocus()
    QTest.keyClick(panel.page_box, Qt.Key.Key_Up)
    assert panel.undo_button.isVisible()
