"""How heads come into being, over a canned record: maps, lines and words at a checkpoint, and playing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskTraining
from ropewalk.model.readings.records import TrainingHistory
from ropewalk.views.panels.training import NO_HISTORY, TrainingPanel
from ropewalk.views.style import motion, theme
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle

Shown = Callable[..., Any]


@pytest.fixture
def panel(running: Session, shown: Shown) -> TrainingPanel:
    found: TrainingPanel = shown(TrainingPanel, running, 800, 600)
    return found


@pytest.fixture
def history(running: Session) -> TrainingHistory:
    found: TrainingHistory = canned.reading(run_on(running), AskTraining())
    return found


@pytest.fixture(autouse=True)
def moving() -> Iterator[None]:
    motion.choose("full")
    yield
    motion.choose("system")


def shown_weights(panel: TrainingPanel) -> Any:
    return np.array([[panel.map.value(q, k) for k in range(6)] for q in range(6)])


def test_it_begins_with_the_last_checkpoint_of_the_selected_head(
    panel: TrainingPanel, history: TrainingHistory, running: Session
) -> None:
    now = running.selection.now
    assert panel.subtitle.text() == "after 60 steps · 60 in all"
    assert np.array_equal(shown_weights(panel), history.maps[6, now.layer, now.head].astype(np.float32))
    assert panel.map.is_masked(2, 4)
    for layer in range(4):
        for head in range(history.maps.shape[2]):
            value = np.float32(history.scores[panel.chosen][6, layer, head])
            assert panel.all_heads.number(layer, head) == pytest.approx(value)
    assert panel.map.columns_axis.names == ("t3", "t4", "t5", "t3", "t4", "t5")


@pytest.mark.parametrize(("layer", "head"), [(1, 2), (3, 1)])
def test_it_begins_with_the_statistic_in_which_the_selected_head_stands_out(
    running: Session, shown: Shown, history: TrainingHistory, layer: int, head: int
) -> None:
    running.selection.update(layer=layer, head=head)
    panel = shown(TrainingPanel, running, 800, 600)
    assert (running.selection.now.layer, running.selection.now.head) == (layer, head)
    final = {name: scores[-1] for name, scores in history.scores.items()}
    out = {name: (one[layer, head] - one.mean()) / one.std() for name, one in final.items()}
    assert panel.chosen == max(out, key=lambda name: out[name])
    assert panel.sentence.text().startswith(f"L{layer}H{head}, {panel.statistic.currentText()}: ")


def test_the_slider_goes_through_the_checkpoints_and_a_click_into_a_line_goes_there(
    panel: TrainingPanel, history: TrainingHistory, running: Session
) -> None:
    panel.film.slider.setFocus()
    QTest.keyClick(panel.film.slider, Qt.Key.Key_Home)
    assert panel.subtitle.text() == "after 0 steps · 60 in all"
    now = running.selection.now
    assert np.array_equal(shown_weights(panel), history.maps[0, now.layer, now.head].astype(np.float32))
    QTest.keyClick(panel.film.slider, Qt.Key.Key_Right)
    assert panel.losses.now.value() == panel.curves.now.value() == 10
    for plot in (panel.losses, panel.curves):
        panel.film.slider.setValue(0)
        place = plot.at(41.0, plot.whole_range.center().y()).toPoint()
        QTest.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(place))
        assert panel.subtitle.text() == "after 40 steps · 60 in all"


def test_a_statistic_is_followed_by_the_head_that_has_most_of_it_at_the_end(
    panel: TrainingPanel, history: TrainingHistory, running: Session
) -> None:
    panel.watch("previous")
    now = running.selection.now
    assert (now.layer, now.head) == (1, 2)
    assert "L1H2, previous token: 0.850 after 60 steps (0.100 at the start, 0.850 at the end)" in panel.sentence.text()
    name, steps, values = panel.curves.lines[0]
    assert name == "L1H2"
    assert np.array_equal(steps, history.steps)
    assert np.array_equal(values, history.scores["previous"][:, 1, 2])
    panel.watch("sink")
    now = running.selection.now
    final = history.scores["sink"][-1]
    assert final[now.layer, now.head] == final.max()


def test_a_click_on_a_head_selects_it(panel: TrainingPanel, running: Session) -> None:
    place = panel.all_heads.cell_of(3, 1).center().toPoint()
    QTest.mouseClick(panel.all_heads.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert (running.selection.now.layer, running.selection.now.head) == (3, 1)
    assert panel.map.title == panel.map.form.heading[0] == "weights of L3H1"


def test_playing_goes_from_the_first_to_the_last_and_stops(panel: TrainingPanel) -> None:
    QTest.mouseClick(panel.film.play_button, Qt.MouseButton.LeftButton)
    assert panel.subtitle.text() == "after 0 steps · 60 in all"
    seen = list[str]()
    while panel.film.timer.isActive() and len(seen) < 20:
        panel.film.advance()
        seen.append(panel.subtitle.text())
    assert seen == [f"after {step} steps · 60 in all" for step in (10, 20, 30, 40, 50, 60)]
    assert panel.film.play_button.text() == "Play"


def test_where_nothing_shall_move_play_shows_the_last(panel: TrainingPanel) -> None:
    motion.choose("reduced")
    panel.film.slider.setValue(2)
    QTest.mouseClick(panel.film.play_button, Qt.MouseButton.LeftButton)
    assert not panel.film.timer.isActive()
    assert panel.subtitle.text() == "after 60 steps · 60 in all"


def test_losses_are_means_of_steps_and_say_so(panel: TrainingPanel, history: TrainingHistory) -> None:
    lines = {name: (steps, values) for name, steps, values in panel.losses.lines}
    assert lines["text"][0].tolist() == [25, 50]
    assert lines["text"][1] == pytest.approx([history.text_loss[:25].mean(), history.text_loss[25:50].mean()])
    assert "means of 25 steps" in panel.losses.heading.text
    assert lines["unseen text"][1].tolist() == [6.0, 5.0, 4.5]


def test_a_model_without_a_record_says_what_would_show_one(
    running: Session, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(canned.READINGS, AskTraining, lambda run, asked: None)
    found = shown(TrainingPanel, running, 500, 400)
    assert found.notice.text() == NO_HISTORY
    assert found.body.isHidden()


def test_a_record_of_other_statistics_brings_their_names(
    panel: TrainingPanel, history: TrainingHistory, running: Session, engine: CannedEngine
) -> None:
    renamed = replace(
        history,
        scores={f"{name}s": values for name, values in history.scores.items()},
        formulas={f"{name}s": f"<b>of</b> {words}" for name, words in history.formulas.items()},
    )
    engine.answers[AskTraining] = lambda run, asked: renamed
    panel.refresh()
    settle(running, panel)
    assert panel.chosen == f"{next(iter(history.scores))}s"
    assert "&lt;b&gt;of" in panel.sentence.toolTip()
    assert "&lt;b&gt;of" in panel.statistic.itemData(0, Qt.ItemDataRole.ToolTipRole)


def test_a_low_panel_shows_less_whole(running: Session, shown: Shown) -> None:
    theme.apply("dark", projector=True)
    found = shown(TrainingPanel, running, 690, 460)
    assert found.all_heads.isHidden()
    assert found.map.plot.height() > 150
    assert found.losses.box.height() > 60
    found.resize(1200, 1000)
    settle(running, found)
    assert not found.all_heads.isHidden()
