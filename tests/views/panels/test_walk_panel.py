"""The walk: its matrices against their numbers, its flow frame by frame, and what keys and clicks do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.app.lessons.loading import load_lesson
from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskWalk
from ropewalk.model.ledger.walk import plan_of
from ropewalk.model.readings.records import WalkReading
from ropewalk.views.panels.ledger import LedgerPanel
from ropewalk.views.panels.walk import WalkPanel
from ropewalk.views.panels.walk_words import SENTENCES
from ropewalk.views.pictures import snapshot
from ropewalk.views.plots.block_layout import Place
from ropewalk.views.plots.block_view import BlockView, Spot
from ropewalk.views.style import motion, theme, wording
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import LIGHT, answer, opened_window, run_on, settle

Shown = Callable[..., Any]
LESSONS = Path(__file__).parents[3] / "resources" / "lessons"


@pytest.fixture(autouse=True)
def moving() -> Iterator[None]:
    """Let things move."""
    motion.choose("full")
    yield
    motion.choose("system")


@pytest.fixture
def panel(running: Session, shown: Shown) -> WalkPanel:
    made: WalkPanel = shown(WalkPanel, running, 820, 560)
    return made


def reading(session: Session) -> WalkReading:
    now = session.selection.now
    read: WalkReading = canned.reading(run_on(session), AskWalk(now.layer, now.head, now.query))
    return read


def stand(panel: WalkPanel, key: str) -> BlockView:
    """Show a step as it stands."""
    panel.session.walk.put(key)
    view = panel.view
    view.timer.stop()
    view.advance(view.DURATION)
    return view


def place_of(view: BlockView, key: str) -> Place:
    return next(place for place in view.picture.places if place.key == key)


def middle(view: BlockView, spot: Spot) -> QPoint:
    """Where a cell is painted."""
    assert view.reading is not None
    box, (height, width) = place_of(view, spot.key).box, view.reading.matrices[spot.key].values.shape
    point = QPointF(
        box.x() + (spot.column + 0.5) * box.width() / width, box.y() + (spot.row + 0.5) * box.height() / height
    )
    return point.toPoint()


def test_every_step_shows_all_its_matrices_apart_and_a_sentence(panel: WalkPanel, running: Session) -> None:
    for step in running.walk.steps:
        view = stand(panel, step.key)
        wanted = {key for one in step.equations for key in (*one.operands, one.result)} or {"x"}
        assert {place.key for place in view.picture.places} == wanted
        boxes = [place.box for place in view.picture.places]
        assert all(view.rect().contains(box.toAlignedRect()) for box in boxes), step.key
        assert not any(a.intersects(b) for n, a in enumerate(boxes) for b in boxes[:n]), step.key
        assert panel.words.text().endswith(".")
        assert step.title in panel.subtitle.text()


def test_each_family_of_steps_has_its_sentence() -> None:
    from ropewalk.model.ledger.walk import STEPS

    assert set(SENTENCES) == set(STEPS)


@pytest.mark.parametrize("name", ["dark", "light"])
def test_a_cell_has_the_colour_of_its_number(panel: WalkPanel, running: Session, name: theme.ThemeName) -> None:
    theme.apply(name)
    panel.theme_changed()
    view, walk = stand(panel, "q"), reading(running)
    image = view.grab().toImage()
    for key in ("normed", "w_q", "q_all"):
        values = walk.matrices[key].values
        sizes = np.abs(values)
        high = float(np.quantile(sizes, 0.99))
        spot = Spot(key, 2, 77)
        entry = theme.ZERO + round(float(values[2, 77]) / high * (255 - theme.ZERO))
        colour = theme.current().diverging[min(max(entry, 1), 255)]
        assert image.pixelColor(middle(view, spot)) == QColor(*(int(part) for part in colour[:3])), key


def test_weights_are_coloured_from_0_to_1_and_masked_cells_are_hatched(panel: WalkPanel, running: Session) -> None:
    view, walk = stand(panel, "softmax"), reading(running)
    image = view.grab().toImage()
    weight = float(walk.matrices["weights"].values[9, 4])
    colour = theme.current().sequential[round(weight * 255)]
    assert image.pixelColor(middle(view, Spot("weights", 9, 4))) == QColor(*(int(part) for part in colour[:3]))
    look = theme.current()
    box = place_of(view, "weights").box
    corner = [image.pixelColor(int(box.right()) - x, int(box.top()) + 3).name() for x in range(3, 12)]
    assert set(corner) <= {look.masked.name(), look.masked_ground.name()}


def test_a_product_stands_under_its_second_and_beside_its_first_factor(panel: WalkPanel) -> None:
    view = stand(panel, "scores")
    left, above, product = (place_of(view, key).box for key in ("q_turned", "keys", "dots"))
    assert (product.top(), product.height()) == (left.top(), left.height())
    assert (product.left(), product.width()) == (above.left(), above.width())
    assert left.right() < product.left()
    assert above.bottom() < product.top()


def test_the_sum_in_the_corner_is_the_number(panel: WalkPanel, running: Session) -> None:
    view, walk, now = stand(panel, "scores"), reading(running), running.selection.now
    focus = view.focus
    assert focus == Spot("dots", now.query, now.key)
    terms, count = view.terms(focus, 99)
    assert count == run_on(running).config.head_width
    assert sum(a * b for a, b in terms) == pytest.approx(view.value(focus), abs=1e-4)
    assert view.value(focus) == walk.matrices["dots"].values[now.query, now.key]
    largest, _ = view.terms(focus, 3)
    assert [abs(a * b) for a, b in largest] == sorted((abs(a * b) for a, b in terms), reverse=True)[:3]
    assert wording.number(view.value(focus)) in panel.words.text()


# Flowing --------------------------------------------------------------------------------------------------------------


def test_a_result_moves_to_be_the_next_operand_and_the_next_result_grows(panel: WalkPanel, running: Session) -> None:
    view = stand(panel, "attn_norm")
    before = place_of(view, "normed").box
    running.walk.move(1)
    view.timer.stop()
    assert view.progress == 0.0
    place, result = place_of(view, "normed"), place_of(view, "q_all")
    assert view.box_now(place) == before
    ground = view.grab().toImage().pixelColor(middle(view, Spot("q_all", 5, 100)))
    view.advance(int(view.DURATION * 0.2))
    moving = view.box_now(place)
    assert before.left() != place.box.left()
    assert min(before.left(), place.box.left()) < moving.left() < max(before.left(), place.box.left())
    assert view.grown == 0.0
    view.advance(int(view.DURATION * 0.5))
    assert view.box_now(place) == place.box
    assert 0.4 < view.grown < 0.6
    image = view.grab().toImage()
    assert image.pixelColor(middle(view, Spot("q_all", 5, 100))) == ground
    view.advance(view.DURATION)
    assert view.progress == 1.0
    assert view.grab().toImage().pixelColor(middle(view, Spot("q_all", 5, 100))) != ground
    assert result.box == view.box_now(result)


def test_a_head_flies_out_of_all_heads_and_back_among_them(panel: WalkPanel, running: Session) -> None:
    view = stand(panel, "v")
    running.walk.move(1)
    view.timer.stop()
    view.advance(int(view.DURATION * 0.41))
    head, width = running.selection.now.head, run_on(running).config.head_width
    band, box = view.band_box("q_all", place_of(view, "q_all").box), place_of(view, "q_all").box
    assert band.left() == pytest.approx(box.left() + box.width() * head * width / 128)
    assert band.width() == pytest.approx(box.width() * width / 128)
    first = view.grab().toImage()
    view.advance(view.DURATION)
    assert view.grab().toImage() != first


def test_small_results_grow_one_number_at_a_time(panel: WalkPanel) -> None:
    view = panel.view
    box = place_of(stand(panel, "scores"), "dots").box
    region = view.revealed(box, 4, 4, 0.5)
    assert region.boundingRect().height() == pytest.approx(box.height() / 2, abs=2)
    half = view.revealed(box, 12, 12, 0.5)
    assert half.boundingRect().width() == pytest.approx(box.width() / 2, abs=2)


def test_where_nothing_shall_move_a_step_stands_at_once(panel: WalkPanel, running: Session) -> None:
    stand(panel, "attn_norm")
    motion.choose("reduced")
    running.walk.move(1)
    assert panel.view.progress == 1.0
    assert not panel.view.timer.isActive()


def test_a_key_never_waits_for_a_flow(panel: WalkPanel, running: Session) -> None:
    stand(panel, "stream")
    for place in range(1, 6):
        QTest.mouseClick(panel.buttons["walk_on"], Qt.MouseButton.LeftButton)
        assert running.walk.place == place
        assert panel.view.step == running.walk.steps[place]
    assert panel.view.timer.isActive()
    panel.hide()
    assert not panel.view.timer.isActive()
    assert panel.view.progress == 1.0


def test_a_block_of_another_kind_may_come_while_something_flows(panel: WalkPanel, running: Session) -> None:
    view, walk = stand(panel, "down"), reading(running)
    running.walk.move(1)
    view.advance(view.DURATION // 5)
    fewer = {key: matrix for key, matrix in walk.matrices.items() if key not in ("hidden", "w_down", "mlp")}
    view.show_reading(replace(walk, matrices=fewer), panel.view.tokens, 16)
    assert view.picture.places == []
    view.show_step(running.walk.steps[0], flows=True)
    view.advance(view.DURATION // 5)
    view.grab()
    assert {place.key for place in view.picture.places} == {"x"}


def test_a_key_while_another_block_is_on_its_way_shows_that_block_at_its_step(
    panel: WalkPanel, running: Session
) -> None:
    stand(panel, "q")
    running.selection.update(layer=running.selection.now.layer + 1)
    running.walk.move(1)
    assert panel.view.step == running.walk.steps[running.walk.place - 1]
    settle(running, panel)
    assert panel.view.step == running.walk.steps[running.walk.place]
    assert panel.walked is not None
    assert panel.walked.layer == running.selection.now.layer


def test_going_back_shows_the_step_at_once(panel: WalkPanel, running: Session) -> None:
    stand(panel, "scores")
    QTest.mouseClick(panel.buttons["walk_back"], Qt.MouseButton.LeftButton)
    assert panel.view.progress == 1.0
    QTest.mouseClick(panel.buttons["walk_start"], Qt.MouseButton.LeftButton)
    assert running.walk.place == 0
    assert not panel.buttons["walk_back"].isEnabled()
    QTest.mouseClick(panel.buttons["walk_end"], Qt.MouseButton.LeftButton)
    assert running.walk.place == len(running.walk.steps) - 1
    assert not panel.buttons["walk_on"].isEnabled()


# Hands ----------------------------------------------------------------------------------------------------------------


def test_a_click_selects_token_and_key_and_the_sentence_follows(panel: WalkPanel, running: Session) -> None:
    view = stand(panel, "scores")
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=middle(view, Spot("dots", 7, 3)))
    settle(running, panel)
    assert (running.selection.now.query, running.selection.now.key) == (7, 3)
    number = wording.number(float(reading(running).matrices["dots"].values[7, 3]))
    assert number in panel.words.text()
    assert "Query 7" in panel.words.text()


def test_a_click_in_a_weight_picks_its_column(panel: WalkPanel, running: Session) -> None:
    view, head = stand(panel, "o"), running.selection.now.head
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=middle(view, Spot("w_o", 40, 90)))
    settle(running, panel)
    assert view.focus == Spot("attn", running.selection.now.query, 90)
    assert running.selection.now.head == head
    view = stand(panel, "q")
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=middle(view, Spot("w_q", 3, 2 * 16 + 5)))
    settle(running, panel)
    assert running.selection.now.head == 2
    assert view.focus == Spot("q_all", running.selection.now.query, 37)


def test_arrows_go_to_the_next_token_key_and_feature(panel: WalkPanel, running: Session) -> None:
    view, now = stand(panel, "mask"), running.selection.now
    QTest.keyClick(view, Qt.Key.Key_Left)
    QTest.keyClick(view, Qt.Key.Key_Up)
    settle(running, panel)
    assert (running.selection.now.query, running.selection.now.key) == (now.query - 1, max(now.key - 1, 0))
    view = stand(panel, "down")
    QTest.keyClick(view, Qt.Key.Key_Right)
    focus = view.focus
    assert focus is not None
    assert focus.column == 1


def test_what_is_pointed_at_is_told_with_its_number_and_shown_elsewhere(panel: WalkPanel, running: Session) -> None:
    view, walk = stand(panel, "softmax"), reading(running)
    spot = view.spot_at(QPointF(middle(view, Spot("weights", 8, 2))))
    assert spot == Spot("weights", 8, 2)
    QTest.mouseMove(view, middle(view, spot))
    view.point_at(spot)
    assert (running.selection.hover.query, running.selection.hover.key) == (8, 2)
    number = wording.number(float(walk.matrices["weights"].values[8, 2]), 4)
    assert number in view.description(spot)
    assert "key 2" in view.description(spot)
    assert "masked" in view.description(Spot("weights", 2, 8))
    assert "struck out" in _sentence_at(panel, Spot("weights", 2, 8))
    view.point_at(None)
    assert running.selection.hover.query is None


def _sentence_at(panel: WalkPanel, spot: Spot) -> str:
    panel.view.point_at(spot)
    return panel.words.text()


def test_the_rail_names_steps_and_goes_to_them(panel: WalkPanel, running: Session) -> None:
    rail = panel.rail
    QTest.mouseClick(rail, Qt.MouseButton.LeftButton, pos=rail.box(8).center().toPoint())
    assert running.walk.place == 8
    assert rail.text(8) == f"9 of {len(running.walk.steps)}: {running.walk.steps[8].title}"
    assert rail.at(-5.0) == -1


# The ledger -----------------------------------------------------------------------------------------------------------


def test_the_ledger_frames_the_operation_and_leads_to_another(
    panel: WalkPanel, running: Session, shown: Shown, qtbot: QtBot
) -> None:
    ledger: LedgerPanel = shown(LedgerPanel, running, 560, 420)
    stand(panel, "mask")
    assert ledger.model.walked == {"mask"}
    keys = [row.entry.key for row in ledger.model.rows]
    box = ledger.table.visualRect(ledger.model.index(keys.index("mask"), 0))
    image = ledger.table.viewport().grab().toImage()
    assert image.pixelColor(box.center().x(), box.top() + 1) == theme.current().accent
    with qtbot.assertNotEmitted(ledger.panel_requested):
        ledger.table.row_chosen.emit(keys.index("split_k"))
    assert running.walk.steps[running.walk.place].key == "split_q"
    assert ledger.model.walked == {"split_q", "split_k", "split_v"}
    with qtbot.waitSignal(ledger.panel_requested):
        ledger.table.row_chosen.emit(keys.index("lm_head"))
    panel.hide()
    assert ledger.model.walked == frozenset()
    with qtbot.waitSignal(ledger.panel_requested):
        ledger.table.row_chosen.emit(keys.index("q"))


def test_another_run_is_not_walked_with_the_numbers_of_this_one(panel: WalkPanel, running: Session) -> None:
    stand(panel, "scores")
    running.timeline.step()
    settle(running, panel)
    assert panel.walked is not None
    assert panel.walked.rows == (0, 13)
    assert panel.view.step is not None
    assert panel.view.step.key == "scores"


def test_a_long_run_is_walked_by_its_query_alone(
    engine: CannedEngine, long_run: Callable[[int], Session], shown: Shown
) -> None:
    session = long_run(90)
    panel: WalkPanel = shown(WalkPanel, session, 820, 560)
    for step in plan_of(run_on(session).config, session.selection.now.layer):
        view = stand(panel, step.key)
        assert all(view.rect().contains(place.box.toAlignedRect()) for place in view.picture.places), step.key
    assert view.reading is not None
    assert view.reading.matrices["x"].values.shape == (1, 128)


def test_a_lesson_goes_through_the_walk_with_every_number_of_its_toy_written(tmp_path: Path) -> None:
    with opened_window(tmp_path, None, "hark", QSize(1366, 768), workspace=LIGHT) as window:
        lesson = load_lesson(LESSONS / "07-walk-one-block.toml")
        window.reveal("lesson")
        window.lesson.open(lesson, 0)
        snapshot.wait_until_drawn(window)
        walk = window.session.walk
        view = cast("WalkPanel", window.panels["walk"]).view
        for place in (0, 2, 5):
            step = lesson.steps[place]
            window.lesson.player.go(place)
            snapshot.wait_until_drawn(window)
            assert window.panels["walk"].on_screen
            assert walk.steps[walk.place].key == step.scene.walk
            view.advance(view.DURATION)
            for one in view.picture.places:
                assert view.number_size(one.key, one.box), (step.scene.walk, one.key)


def test_the_keys_bring_the_walk_in_sight_and_then_walk_it(tmp_path: Path) -> None:
    with opened_window(tmp_path, None, "hark hark", QSize(1280, 800)) as window:
        QTest.keyClick(window, Qt.Key.Key_D)
        snapshot.wait_until_drawn(window)
        walk = window.session.walk
        assert window.panels["walk"].on_screen
        assert window.panels["ledger"].on_screen
        assert walk.place == 0
        QTest.keyClick(window, Qt.Key.Key_D)
        QTest.keyClick(window, Qt.Key.Key_D)
        assert walk.place == 2
        QTest.keyClick(window, Qt.Key.Key_D, Qt.KeyboardModifier.ShiftModifier)
        assert walk.place == 1
        QTest.keyClick(window, Qt.Key.Key_End, Qt.KeyboardModifier.ControlModifier)
        assert walk.place == len(walk.steps) - 1
        QTest.keyClick(window, Qt.Key.Key_Home, Qt.KeyboardModifier.ControlModifier)
        assert walk.place == 0
        numbers = answer(window, AskWalk(1, 2, 1))
        assert np.isfinite(numbers.matrices["after"].values).all()
