"""The demo that a teacher gives, with real clicks and keys over the bundled model, and the numbers at each stop.

A sentence, its induction head, the mask, the rotation, the cache step by step and back, an ablation, and what became of
the run; then one panel alone, the presentation, and out of both. ``test_the_same_on_an_x_server`` does it all again on
a screen with a window system, where focus is not what Qt's offscreen platform says it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea, QSlider, QStyle, QStyleOptionSlider, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.model.decoder.costs import kv_bytes
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.engine.questions import AskAttribution
from ropewalk.model.readings.records import DirectAttribution
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.cache import CachePanel
from ropewalk.views.panels.compare import ComparePanel
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.interventions import InterventionsPanel
from ropewalk.views.panels.rope import PARTS, RopePanel
from ropewalk.views.panels.scores import STATES, ScoresPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.maps.heatmap import Heatmap
from tests.views.driving import answer, click, opened_window, run_of
from tests.views.twin import Twin

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "hark, who goes there? hark, who goes there?"
STEPS = 8


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    with opened_window(tmp_path, None, "to be or not to be", QSize(1366, 768)) as window:
        yield window


def press(window: MainWindow, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    """Press a key where the focus is, and wait until everything is drawn."""
    QTest.keyClick(QApplication.focusWidget() or window, key, modifier)
    snapshot.wait_until_drawn(window)
    snapshot.settle(window)


def go_to(window: MainWindow, number: int) -> None:
    """Put a workspace on by its key."""
    press(window, Qt.Key(Qt.Key.Key_0 + number), Qt.KeyboardModifier.ControlModifier)


def seen(heatmap: Heatmap, length: int) -> NDArray[np.float64]:
    """The numbers that a map shows, with NaN where it hatches."""
    return np.array(
        [
            [np.nan if heatmap.is_masked(query, key) else heatmap.value(query, key) for key in range(length)]
            for query in range(length)
        ]
    )


def groove(slider: QSlider, value: int) -> QPoint:
    """Where the handle of a slider stands at a value."""
    option = QStyleOptionSlider()
    slider.initStyleOption(option)
    option.sliderPosition = option.sliderValue = value
    style, control = slider.style(), QStyle.ComplexControl.CC_Slider
    return style.subControlRect(control, option, QStyle.SubControl.SC_SliderHandle, slider).center()


def drag(window: MainWindow, slider: QSlider, value: int) -> None:
    """Pull the handle of a slider to a value."""
    button = Qt.MouseButton.LeftButton
    QTest.mousePress(slider, button, pos=groove(slider, slider.value()))
    QTest.mouseMove(slider, groove(slider, value))
    QTest.mouseRelease(slider, button, pos=groove(slider, value))
    snapshot.wait_until_drawn(window)


def type_the_sentence(window: MainWindow) -> None:
    press(window, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.focusWidget() is window.bar.prompt
    QTest.keyClicks(window.bar.prompt, SENTENCE)
    press(window, Qt.Key.Key_Return)
    run = run_of(window)
    assert run.prompt == SENTENCE
    assert run.length == run.prefill
    assert "".join(token.text for token in run.tokens).replace("·", " ") == SENTENCE
    assert QApplication.focusWidget() is window


def find_the_induction_head(window: MainWindow) -> tuple[int, int]:
    """Click the head with the largest induction score, which was computed here once more from the trace's weights."""
    go_to(window, 6)
    panel = cast("HeadsPanel", window.panels["heads"])
    assert panel.atlas is not None
    assert panel.view.score == "induction"
    scores = panel.atlas.scores["induction"]
    layer, head = divmod(int(np.nanargmax(scores)), scores.shape[1])
    place = panel.view.plan.of(layer, head)
    assert place is not None
    click(window, panel.view, place.square.center())
    now = window.session.selection.now
    assert (now.layer, now.head) == (layer, head)
    ids = [token.id for token in run_of(window).tokens]
    weights = Twin(window.session).weights(layer, head)
    looked = [weights[query, ids.index(token) + 1] for query, token in enumerate(ids) if ids.index(token) < query]
    assert np.mean(looked) > 0.4, "it looks at what came after the same token before"
    assert f"{scores[layer, head]:.3f}" in panel.reading.text()
    return layer, head


def show_the_mask(window: MainWindow, layer: int, head: int) -> None:
    """One map before the mask, masked, and after softmax; by its key, by its slider, and three maps again."""
    go_to(window, 2)
    panel = cast("ScoresPanel", window.panels["scores"])
    small = panel.weights.plot.width()
    press(window, Qt.Key.Key_O)
    assert panel.triptych.shown == (panel.weights,)
    assert panel.weights.plot.width() > 1.2 * small
    twin, run = Twin(window.session), run_of(window)
    hidden = np.triu(np.ones((run.length, run.length), np.bool_), 1)
    raw, weights = twin.scaled(layer, head), twin.weights(layer, head)
    truths = (raw, np.where(hidden, np.nan, raw), np.where(hidden, np.nan, weights))
    for state in (0, 1, 2):
        press(window, Qt.Key.Key_O, Qt.KeyboardModifier.ShiftModifier)
        (shown,) = panel.triptych.shown
        assert shown is panel.maps[state]
        assert panel.state_name.text() == STATES[state]
        np.testing.assert_allclose(seen(shown, run.length), truths[state], atol=1e-4)
    for state in (0, 2, 1):
        drag(window, panel.state, state)
        assert panel.triptych.shown == (panel.maps[state],)
    press(window, Qt.Key.Key_Right)
    assert panel.triptych.shown == (panel.maps[2],)
    assert run_of(window).steps == 0, "the slider's own keys decode nothing"
    window.setFocus()
    press(window, Qt.Key.Key_O)
    assert len(panel.triptych.shown) == 3


def turn_both(qtbot: QtBot, window: MainWindow) -> None:
    """Query and key turn together: every plane moves, the score stands still."""
    window.session.selection.update(query=14, key=7)
    go_to(window, 3)
    panel = cast("RopePanel", window.panels["rope"])
    before = panel.view.turned
    assert before is not None
    assert before.position == 14
    click(window, panel.both)
    drag(window, panel.slider, 20 * PARTS)
    turned = panel.view.turned
    assert turned is not None
    assert turned.position - turned.key_position == 7
    assert turned.position > 18
    assert not np.allclose(turned.q_after, before.q_after, atol=0.1)
    assert turned.scaled == pytest.approx(before.scaled, abs=1e-6)
    assert f"{turned.scaled:.2f} = scaled score" in panel.sum_label.text()
    QTest.mouseClick(panel.play_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.position > turned.position + 0.5)
    QTest.mouseClick(panel.play_button, Qt.MouseButton.LeftButton)
    played = panel.view.turned
    assert played is not None
    assert not panel.timer.isActive()
    assert played.scaled == pytest.approx(before.scaled, abs=1e-6)
    click(window, panel.query_alone)
    assert panel.position == 14


def decode_and_go_back(window: MainWindow) -> None:
    """Eight steps and back: the cache grows and shrinks by the bytes of a token, and what is said of it too."""
    go_to(window, 4)
    window.setFocus()
    panel = cast("CachePanel", window.panels["cache"])
    first, config = run_of(window).length, run_of(window).config

    def holds(length: int) -> None:
        reading = panel.slabs.reading
        assert reading is not None
        assert (run_of(window).length, reading.length) == (length, length)
        assert reading.bytes_measured == kv_bytes(config, length, "float32")
        assert f"{reading.bytes_measured:,} bytes" in panel.subtitle.text()
        assert panel.slabs.columns == length

    holds(first)
    for length in range(first + 1, first + STEPS + 1):
        press(window, Qt.Key.Key_Right)
        holds(length)
    decoded = [token.id for token in run_of(window).tokens]
    for length in range(first + STEPS - 1, first - 1, -1):
        press(window, Qt.Key.Key_Left)
        holds(length)
    assert [token.id for token in run_of(window).tokens] == decoded, "they are still there"
    assert run_of(window).newest == first + STEPS


def ablate_and_compare(window: MainWindow, layer: int, head: int) -> None:
    """Pin the run, set the head to zero, and hold what became of a later layer against numbers of before."""
    run = run_of(window)
    later = layer + 1
    before = Twin(window.session).weights(later, 0)
    go_to(window, 7)
    compare = cast("ComparePanel", window.panels["compare"])
    experiments = cast("InterventionsPanel", window.panels["experiments"])
    click(window, compare.pin_button)
    button = experiments.buttons["zero"]
    assert button.text() == f"L{layer}H{head} → 0"
    scroller = ancestor(button)
    scroller.ensureWidgetVisible(button)
    click(window, button)
    assert window.session.interventions.now == (AblateHeads(layer, (head,)),)
    written = cast("DirectAttribution", answer(window, AskAttribution(run.length - 1, run.tokens[-1].id)))
    assert written.heads[layer, head] == 0
    assert np.count_nonzero(written.heads == 0) == 1
    for number in range(1, 8):
        go_to(window, number)
        assert [chip.text() for chip in window.status.changes.chips] == [f"L{layer}H{head} → 0  ×"]
        assert window.status.changes.chips[0].isVisible()
    go_to(window, 2)
    assert "its scores and weights stay" in cast("ScoresPanel", window.panels["scores"]).unchanged.text()
    window.session.selection.update(layer=later, head=0)
    go_to(window, 7)
    difference = compare.difference
    assert difference is not None
    after = Twin(window.session).weights(later, 0)
    assert np.abs(after - before).max() > 0.01
    hidden = np.triu(np.ones_like(after, np.bool_), 1)
    apart = np.where(hidden, np.nan, after - before)
    np.testing.assert_allclose(seen(compare.weights, run.length), apart, atol=1e-5)
    press(window, Qt.Key.Key_X)
    assert not window.status.changes.chips
    np.testing.assert_allclose(seen(compare.weights, run.length)[~hidden], 0, atol=1e-6)


def ancestor(widget: QWidget | None) -> QScrollArea:
    """What scrolls a widget."""
    while not isinstance(widget, QScrollArea):
        assert widget is not None
        widget = widget.parentWidget()
    return widget


@pytest.mark.slow
def test_a_sentence_its_induction_head_its_rotation_its_cache_and_an_ablation(qtbot: QtBot, window: MainWindow) -> None:
    type_the_sentence(window)
    layer, head = find_the_induction_head(window)
    show_the_mask(window, layer, head)
    turn_both(qtbot, window)
    decode_and_go_back(window)
    ablate_and_compare(window, layer, head)


@pytest.mark.slow  # the teacher's tools have quicker tests of their own; this one is for the X server
def test_one_panel_alone_the_presentation_and_out_of_both(qtbot: QtBot, window: MainWindow) -> None:
    window.setFocus()
    go_to(window, 3)
    press(window, Qt.Key.Key_F)
    assert window.isFullScreen()
    assert window.stage.in_sight == ["rope"]
    press(window, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not window.isFullScreen())
    assert window.stage.in_sight == ["tokens", "scores", "rope", "why"]
    press(window, Qt.Key.Key_F5)
    assert window.presenting
    assert window.isFullScreen()
    go_to(window, 2)
    assert window.stage.workspace == "scores"
    assert window.presenting, "a number changes what is on stage, and nothing else"
    press(window, Qt.Key.Key_F)
    press(window, Qt.Key.Key_Escape)
    assert window.presenting, "the first Esc brings the workspace back"
    press(window, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not window.isFullScreen())
    assert not window.presenting
    press(window, Qt.Key.Key_F5)
    press(window, Qt.Key.Key_F5)
    qtbot.waitUntil(lambda: not window.isFullScreen())
    assert not window.presenting
    assert window.bar.isVisible()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("xvfb-run") is None, reason="there is no xvfb-run")
def test_the_same_on_an_x_server() -> None:
    command = ("xvfb-run", "-a", "-s", "-screen 0 1920x1080x24")
    tests = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not x_server", __file__)
    environment = {**os.environ, "QT_QPA_PLATFORM": "xcb"}
    ended = subprocess.run((*command, *tests), cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout
