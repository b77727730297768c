"""The lines panel over canned readings: what is asked and drawn, the sentence, hands and keys, many tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolButton
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.engine.questions import AskStrongWeights
from ropewalk.model.readings.records import Run, StrongWeights
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.files.figure import Figure
from ropewalk.views.panels.lines import AUTOMATIC, MOST, SCOPES, THRESHOLDS, LinesPanel, sentence
from ropewalk.views.plots.lines import MOST_IN_SIGHT
from ropewalk.views.plots.menus.plot_menu import PlotMenu
from ropewalk.views.style import theme
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle
from tests.views.plots.hand import click, point_at

Shown = Callable[..., Any]
Drawn = dict[tuple[int, int, int], float]


def drawn(panel: LinesPanel) -> Drawn:
    """The weight of every line, by head, query and key."""
    (_, head), (_, query), (_, key), (_, weight) = panel.view.table()
    return dict(zip(zip(head, query, key, strict=True), weight, strict=True))


def expected(run: Run, layer: int, heads: tuple[int, ...], least: float) -> Drawn:
    found: Drawn = {}
    for head in heads:
        weights = np.where(canned.visible(run), canned.weights(run, layer, head), -1)
        found |= {
            (head, int(q), int(k)): float(weights[q, k]) for q, k in zip(*np.nonzero(weights >= least), strict=True)
        }
    return found


def token(panel: LinesPanel, side: str, place: int) -> QPointF:
    """A point on the name of a token."""
    return panel.view.centre(side, place) + QPointF(-30 if side == "query" else 30, 0)


def press(panel: LinesPanel, button: QToolButton) -> None:
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    settle(panel.session, panel)


def choose(panel: LinesPanel, scope: str) -> None:
    panel.scope.setCurrentIndex(SCOPES.index(scope))
    settle(panel.session, panel)


def turn(panel: LinesPanel, at: QPointF, notches: int, *, control: bool = False) -> None:
    """Turn the wheel over a point, away from the person."""
    held = Qt.KeyboardModifier.ControlModifier if control else Qt.KeyboardModifier.NoModifier
    none, still = Qt.MouseButton.NoButton, Qt.ScrollPhase.NoScrollPhase
    view, delta = panel.view, QPoint(0, 120 * notches)
    outside = QPointF(view.viewport().mapToGlobal(at.toPoint()))
    QApplication.sendEvent(view.viewport(), QWheelEvent(at, outside, QPoint(), delta, none, held, still, False))
    settle(panel.session, panel)


# What is drawn --------------------------------------------------------------------------------------------------------


def test_a_line_stands_for_each_weight_of_the_selected_head(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    run, now = run_on(running), running.selection.now
    found, wanted = drawn(panel), expected(run, now.layer, (now.head,), AUTOMATIC[0])
    assert found == pytest.approx(wanted)
    assert panel.sentence.text() == f"{len(wanted)} of 78 weights drawn: those of 0.01 and more."
    assert panel.subtitle.text() == "L1H4 · kv head 1"
    running.selection.update(layer=2, head=6)
    settle(running, panel)
    assert drawn(panel) == pytest.approx(expected(run, 2, (6,), AUTOMATIC[0]))
    assert panel.subtitle.text() == "L2H6 · kv head 1"


def test_a_kv_group_and_a_layer_have_the_lines_of_all_their_heads(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    assert not panel.heads_area.isVisible()
    for scope, heads, words in (
        ("kv group", (4, 5, 6, 7), "layer 1 · kv head 1 · 4 heads"),
        ("layer", tuple(range(8)), "layer 1 · 8 heads"),
    ):
        choose(panel, scope)
        wanted = expected(run_on(running), 1, heads, AUTOMATIC[0])
        assert drawn(panel) == pytest.approx(wanted)
        assert panel.subtitle.text() == words
        assert f"{len(wanted)} of {78 * len(heads)} weights" in panel.sentence.text()
        assert panel.heads_area.isVisible()
        assert [mark.words for mark in panel.figure_legend[2:]] == [f"H{head}" for head in heads]
    assert [mark.words for mark in LinesPanel.legend] == ["selected query", "selected key"]


def test_another_head_of_the_layer_is_marked_and_nothing_is_asked_again(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    choose(panel, "layer")
    draws, icons = panel.draws, [button.icon().cacheKey() for button in panel._buttons()[1:]]
    running.selection.update(head=2)
    settle(running, panel)
    assert panel.draws == draws
    assert [button.icon().cacheKey() for button in panel._buttons()[1:]] != icons
    choose(panel, "kv group")
    assert set(panel._asked.heads) == {0, 1, 2, 3}
    running.selection.update(head=5)
    settle(running, panel)
    assert set(panel._asked.heads) == {4, 5, 6, 7}


def test_a_click_in_the_legend_switches_a_head_off_and_on(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    choose(panel, "layer")
    three, every = panel._buttons()[4], panel._buttons()[0]
    press(panel, three)
    assert not three.isChecked()
    others = tuple(head for head in range(8) if head != 3)
    assert drawn(panel) == pytest.approx(expected(run_on(running), 1, others, AUTOMATIC[0]))
    assert f"of {7 * 78} weights" in panel.sentence.text()
    press(panel, every)  # all are on again
    assert three.isChecked()
    assert f"of {8 * 78} weights" in panel.sentence.text()
    press(panel, every)
    assert panel.sentence.text() == "No head is switched on; click one above."
    assert panel.view.weights is None
    press(panel, three)
    assert drawn(panel) == pytest.approx(expected(run_on(running), 1, (3,), AUTOMATIC[0]))
    choose(panel, "head")  # the selected one is drawn, whatever was switched off beside others
    assert {head for head, *_ in drawn(panel)} == {4}


def test_each_head_has_the_colour_of_its_button(running: Session, engine: CannedEngine, shown: Shown) -> None:
    engine.answers[AskStrongWeights] = lambda run, asked: lines_of(asked, [(h, h + 2, h + 2, 1.0) for h in asked.heads])
    panel = shown(LinesPanel, running, 700, 500)
    choose(panel, "layer")
    image = panel.view.grab().toImage()
    for head, button in enumerate(panel._buttons()[1:]):
        at = panel.view.centre("query", head + 2)
        seen = [image.pixelColor(round(at.x()) + 40, round(at.y()) + down) for down in (-1, 0, 1)]
        colour = panel.view.colours[head]
        assert colour in seen
        side = theme.current().size("label")
        assert button.icon().pixmap(side).toImage().pixelColor(side // 2, side // 2) == colour


def lines_of(asked: AskStrongWeights, found: list[tuple[int, int, int, float]]) -> StrongWeights:
    """An answer with just these lines: head, query, key, weight."""
    head, query, key = (np.array([line[part] for line in found], np.int32) for part in range(3))
    rows, columns, weight = asked.rows or (0, 1), asked.columns or (0, 1), np.array([line[3] for line in found])
    return StrongWeights(
        asked.layer,
        asked.heads,
        rows,
        columns,
        asked.thresholds[0],
        len(found),
        1 << 20,
        head,
        query,
        key,
        weight.astype(np.float32),
    )


def test_a_figure_of_several_heads_says_whose_lines_have_which_colour(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    choose(panel, "kv group")
    figure = Figure(panel, "four heads", panel.figure_legend)
    image = QImage(figure.size, QImage.Format.Format_RGB32)
    image.fill(theme.current().panel)
    painter = QPainter(image)
    figure.paint_foot(painter)
    painter.end()
    painted = set(np.unique(np.frombuffer(image.constBits(), np.uint32)).tolist())
    assert {panel.view.colours[head].rgb() for head in (4, 5, 6, 7)} <= painted


def test_the_menu_copies_the_weights_that_are_drawn(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    menu = PlotMenu(panel)
    menu.serve(panel)
    menu.offer(panel.view)
    next(action for action in menu.actions() if action.text() == "Copy the numbers").trigger()
    title, *rows = QGuiApplication.clipboard().text().splitlines()
    assert title.split("\t") == ["head", "query", "key", "weight"]
    copied = [row.split("\t") for row in rows]
    found = {(int(head), int(query), int(key)): float(weight) for head, query, key, weight in copied}
    assert found == pytest.approx(drawn(panel))


def test_the_run_under_an_experiment_is_what_is_asked(running: Session, engine: CannedEngine, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    runs: list[Run] = []

    def answer(run: Run, asked: AskStrongWeights) -> StrongWeights:
        runs.append(run)
        return lines_of(asked, [(4, 5, 3, 0.75)])

    engine.answers[AskStrongWeights] = answer
    running.interventions.apply((AblateHeads(0, (1,)),))
    settle(running, panel)
    assert runs == [run_on(running)]
    assert drawn(panel) == {(4, 5, 3): 0.75}


# Hands and keys -------------------------------------------------------------------------------------------------------


def test_a_click_selects_a_query_on_the_left_and_a_key_on_the_right(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    click(panel.view, token(panel, "query", 7))
    click(panel.view, token(panel, "key", 2))
    assert (running.selection.now.query, running.selection.now.key) == (7, 2)
    before = running.selection.now
    click(panel.view, panel.view.plot.center())
    assert running.selection.now == before
    image, look = panel.view.grab().toImage(), theme.current()
    for side, place, colour in (("query", 7, look.query), ("key", 2, look.key), ("query", 8, None)):
        at = token(panel, side, place).toPoint()
        near = {image.pixelColor(at.x(), y).name() for y in range(at.y() - 12, at.y() + 13)}
        assert (colour.name() if colour else look.query.name()) in near or colour is None
        assert colour is not None or look.query.name() not in near


def test_arrows_move_on_a_side_and_go_over_to_the_other(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    running.selection.update(query=5, key=3)
    panel.view.setFocus()
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Left, Qt.Key.Key_Up):
        QTest.keyClick(panel.view, key)
    assert (running.selection.now.query, running.selection.now.key) == (6, 2)
    for _ in range(20):
        QTest.keyClick(panel.view, Qt.Key.Key_Up)
    assert (running.selection.now.query, running.selection.now.key) == (0, 2)


def test_the_token_that_is_pointed_at_has_its_lines_alone_with_their_weights(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    run = run_on(running)
    running.selection.update(head=6)
    settle(running, panel)
    weights = expected(run, 1, (6,), AUTOMATIC[0])
    point_at(panel.view, token(panel, "query", 9))
    assert running.selection.hover == Hover(query=9)
    own = {key: [(6, pytest.approx(weight))] for (_, query, key), weight in weights.items() if query == 9}
    assert panel.view.beside("key") == own
    assert len(own) > 1
    whole = sum(said[0][1] for said in panel.view.beside("key").values())
    assert panel.view.readout().endswith(f"{len(own)} weights, together {whole:.2f}")
    point_at(panel.view, token(panel, "key", 0))
    assert running.selection.hover == Hover(key=0)
    assert set(panel.view.beside("query")) == {query for _, query, key in weights if key == 0}
    running.selection.point_at(Hover(query=3, key=2))  # in another panel
    assert panel.view.only == ("query", 3)
    running.selection.point_at(Hover())
    assert panel.view.readout() == ""


def test_the_slider_says_the_least_weight_until_it_is_automatic_again(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    assert panel.least_label.text() == "≥ 0.01"
    panel.least.setValue(THRESHOLDS.index(0.2))
    settle(running, panel)
    assert not panel.automatic.isChecked()
    wanted = expected(run_on(running), 1, (4,), 0.2)
    assert drawn(panel) == pytest.approx(wanted)
    assert panel.sentence.text() == f"{len(wanted)} of 78 weights drawn: those of 0.2 and more."
    panel.least.setValue(0)
    settle(running, panel)
    assert panel.sentence.text() == "All 78 weights drawn."
    press(panel, panel.automatic)
    assert panel.least_label.text() == "≥ 0.01"
    assert THRESHOLDS[panel.least.value()] == 0.01


# Many tokens ----------------------------------------------------------------------------------------------------------


def test_of_512_tokens_those_in_sight_are_drawn_and_the_sentence_says_so(
    long_run: Callable[[int], Session], shown: Shown
) -> None:
    session = long_run(512)
    panel = shown(LinesPanel, session, 700, 500)
    run, (rows, columns) = run_on(session), (panel.view.sight.rows, panel.view.sight.columns)
    assert rows[1] - rows[0] < 60
    whole = expected(run, 1, (4,), AUTOMATIC[0])
    wanted = {at: w for at, w in whole.items() if at[1] in range(*rows) and at[2] in range(*columns)}
    assert drawn(panel) == pytest.approx(wanted)
    text = f"{len(wanted)} of 131,328 weights drawn: those of 0.01 and more, of the tokens in sight."
    assert panel.sentence.text() == text
    panel.tokens.setValue(panel.tokens.maximum())
    settle(session, panel)
    assert panel.view.sight.rows == (0, 512)
    assert panel.tokens_label.text() == "512 tokens"
    assert not panel.bars["query"].isVisible()
    least = panel.view.weights.threshold
    assert least in AUTOMATIC[1:]
    many = expected(run, 1, (4,), least)
    assert drawn(panel) == pytest.approx(many)
    assert len(many) <= 1000 < len(expected(run, 1, (4,), AUTOMATIC[AUTOMATIC.index(least) - 1]))
    assert panel.sentence.text() == f"{len(many)} of 131,328 weights drawn: those of {least:g} and more."
    point_at(panel.view, token(panel, "query", 400))
    settle(session, panel)
    assert {(4, 400, key): said[0][1] for key, said in panel.view.beside("key").items()} == pytest.approx(
        {at: weight for at, weight in whole.items() if at[1] == 400}  # those that are too small for all, too
    )
    assert drawn(panel) == pytest.approx(many)


@pytest.fixture
def far(session: Session, engine: CannedEngine, long_run: Callable[[int], Session]) -> Session:
    """A run of 4,096 tokens, of which every query reads itself, the first key, and the one a thousand before."""

    def answer(run: Run, asked: AskStrongWeights) -> StrongWeights:
        rows, columns = range(*(asked.rows or (0, 0))), range(*(asked.columns or (0, 0)))
        cells = {(q, key): weight for q in rows for key, weight in ((q, 0.5), (0, 0.25), (q - 1000, 0.125))}
        return lines_of(asked, [(asked.heads[0], q, k, weight) for (q, k), weight in cells.items() if k in columns])

    engine.answers[AskStrongWeights] = answer
    return long_run(4096)


def test_of_4096_tokens_what_is_selected_is_in_sight_on_either_side(far: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, far, 700, 500)
    far.selection.update(query=3000, key=2000)
    settle(far, panel)
    sight = panel.view.sight
    assert 3000 in panel.view.in_sight("query")
    assert 2000 in panel.view.in_sight("key")
    asked = panel._asked
    assert (asked.rows, asked.columns) == (sight.rows, sight.columns)
    assert (4, 3000, 2000) in drawn(panel)
    assert len(drawn(panel)) == min(sight.rows[1], sight.columns[1] + 1000) - max(
        sight.rows[0], sight.columns[0] + 1000
    )
    for side, bar in panel.bars.items():
        assert bar.isVisible()
        assert (bar.value(), bar.maximum()) == (getattr(sight, side), 4096 - sight.count)
    panel.view.view_all()
    settle(far, panel)
    assert panel.view.sight.count == MOST_IN_SIGHT
    assert 3000 in panel.view.in_sight("query")


def test_the_wheel_scrolls_the_side_it_is_over_and_both_between_them(far: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, far, 700, 500)
    far.selection.update(query=3000, key=2000)
    settle(far, panel)
    view, before = panel.view, panel.view.sight
    step = round(before.count * 0.1)
    turn(panel, QPointF(10, 200), -10)
    assert abs(view.sight.query - before.query - 10 * step) <= step
    assert view.sight.key == before.key
    turn(panel, QPointF(view.width() - 10, 200), 10)
    assert abs(view.sight.key - before.key + 10 * step) <= step
    both = view.sight
    turn(panel, view.plot.center(), -10)
    assert view.sight.query - both.query == view.sight.key - both.key > 0
    assert panel._asked.rows == view.sight.rows
    assert far.selection.now.query == 3000  # it is out of sight now, and stays there when something else is asked
    panel.least.setValue(3)
    settle(far, panel)
    assert panel._asked.rows == view.sight.rows
    count = view.sight.count
    turn(panel, view.plot.center(), -1, control=True)
    assert view.sight.count == round(count * 1.25)
    turn(panel, view.plot.center(), 1, control=True)
    assert view.sight.count == count
    panel.bars["key"].setValue(77)
    settle(far, panel)
    assert view.sight.key == 77
    assert panel._asked.columns == view.sight.columns


def test_another_prompt_is_drawn_from_its_own_weights_alone(
    far: Session, engine: CannedEngine, shown: Shown, qtbot: QtBot
) -> None:
    panel = shown(LinesPanel, far, 700, 500)
    del engine.answers[AskStrongWeights]
    engine.prefill = 9
    far.start(Prompt("nine words"))
    settle(far, panel)
    assert panel.view.sight.rows == (0, 9)
    assert drawn(panel) == pytest.approx(expected(run_on(far), 1, (4,), AUTOMATIC[0]))
    assert not panel.bars["query"].isVisible()


# The sentence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "reached", "total", "threshold", "seen", "says"),
    [
        (78, 78, 78, 0.0, 12, "All 78 weights drawn."),
        (1, 1, 1, 0.01, 12, "All 1 weight drawn."),
        (60, 60, 78, 0.02, 12, "60 of 78 weights drawn: those of 0.02 and more."),
        (60, 60, 78, 0.0, 8, "60 of 78 weights drawn: those of the tokens in sight."),
        (
            1234,
            1234,
            131_328,
            0.02,
            8,
            "1,234 of 131,328 weights drawn: those of 0.02 and more, of the tokens in sight.",
        ),
        (5, 60, 78, 0.02, 12, "5 of 78 weights drawn: the strongest of the 60 of 0.02 and more."),
        (5, 60, 78, 0.0, 8, "5 of 78 weights drawn: the strongest of the 60, of the tokens in sight."),
        (0, 0, 78, 0.9, 12, "0 of 78 weights drawn: those of 0.9 and more."),
    ],
)
def test_the_sentence_says_how_many_are_drawn_and_which(
    count: int, reached: int, total: int, threshold: float, seen: int, says: str
) -> None:
    none, weight = np.zeros(count, np.int32), np.zeros(count, np.float32)
    span = (0, seen)
    weights = StrongWeights(0, (0,), span, span, threshold, reached, total, none, none, none, weight)
    assert sentence(weights, 12) == says


def test_more_lines_than_a_screen_can_take_are_asked_for_by_hand_alone(running: Session, shown: Shown) -> None:
    panel = shown(LinesPanel, running, 700, 500)
    assert panel._asked.most == 1000
    choose(panel, "layer")
    assert panel._asked.most == 4000
    panel.least.setValue(0)
    settle(running, panel)
    assert (panel._asked.most, panel._asked.thresholds) == (MOST, (0.0,))
