"""Every token is visible as itself, where it says it is, tinted by the numbers of the selected row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QTextLayout
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.readings.records import TokenText
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.panels.tokens import TokensPanel
from ropewalk.views.plots.token_strip import AT_ONCE, MOST_ARCS, TokenStrip
from ropewalk.views.style import theme
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle


@pytest.fixture
def panel(running: Session, shown: Callable[..., Any]) -> TokensPanel:
    made: TokensPanel = shown(TokensPanel, running, 900, 110)
    return made


def click(qtbot: QtBot, strip: TokenStrip, position: int, *, shift: bool = False) -> None:
    modifier = Qt.KeyboardModifier.ShiftModifier if shift else Qt.KeyboardModifier.NoModifier
    QTest.mouseClick(strip, Qt.MouseButton.LeftButton, modifier, strip.box_of(position).center().toPoint())


def test_a_click_picks_the_query_and_a_shift_click_the_key(qtbot: QtBot, panel: TokensPanel, running: Session) -> None:
    click(qtbot, panel.strip, 6)
    click(qtbot, panel.strip, 2, shift=True)
    assert (running.selection.now.query, running.selection.now.key) == (6, 2)


def test_tokens_are_tinted_by_the_selected_row(panel: TokensPanel, running: Session) -> None:
    now = running.selection.now
    weights = canned.weights(run_on(running), now.layer, now.head)[now.query]
    for position in range(now.query + 1):
        assert panel.strip.weight_of(position) == pytest.approx(weights[position])
    assert panel.strip.weight_of(now.query + 1) is None
    assert panel.strip.tint(now.query + 1) == theme.current().panel


def test_more_weight_is_more_colour(panel: TokensPanel, running: Session) -> None:
    now = running.selection.now
    weights = canned.weights(run_on(running), now.layer, now.head)[now.query]
    most, least = int(weights.argmax()), int(weights[: now.query + 1].argmin())
    key = theme.current().key
    assert abs(panel.strip.tint(most).blue() - key.blue()) < abs(panel.strip.tint(least).blue() - key.blue())


def test_the_tint_is_on_the_screen(panel: TokensPanel) -> None:
    image = panel.strip.grab().toImage()
    box = panel.strip.box_of(3)
    assert image.pixelColor(round(box.left()) + 4, round(box.center().y())) == panel.strip.tint(3)


def test_query_and_key_are_outlined(panel: TokensPanel, running: Session) -> None:
    now = running.selection.now
    image = panel.strip.grab().toImage()
    for position, colour in ((now.query, theme.current().query), (now.key, theme.current().key)):
        box = panel.strip.box_of(position)
        assert image.pixelColor(round(box.center().x()), round(box.top()) + 1) == colour


def test_a_change_of_key_moves_the_outline_without_a_question(
    panel: TokensPanel, running: Session, engine: CannedEngine
) -> None:
    draws, asked = panel.draws, len(engine.asked)
    running.selection.update(key=1)
    settle(running, panel)
    assert (panel.draws, len(engine.asked)) == (draws, asked)
    assert panel.cell.text() == "query 10 ·sat → key 1 the"


def test_decoded_tokens_stand_apart(qtbot: QtBot, panel: TokensPanel, running: Session) -> None:
    running.timeline.step()
    settle(running, panel)
    strip = panel.strip
    usual = strip.box_of(11).left() - strip.box_of(10).right()
    assert strip.box_of(12).left() - strip.box_of(11).right() > 2 * usual
    assert "1 decoded" in panel.subtitle.text()
    assert "decoded" in strip.tip(12)


def test_markup_and_raw_bytes_are_shown_as_they_are(qtbot: QtBot) -> None:
    strip = TokenStrip()
    qtbot.addWidget(strip)
    strip.resize(300, 60)
    tokens = (
        TokenText(0, "<s>", "special"),
        TokenText(1, "<b>x</b>"),
        TokenText(2, "<E4>", "bytes", 0, "ä"),
        TokenText(3, "<B8>", "bytes", 0),
    )
    strip.set_tokens(tokens, 4)
    assert [look.text for look in strip._looks] == ["<s>", "<b>x</b>", "<E4>", "<B8>"]
    assert "raw bytes of ä" in strip.tip(2)
    assert "special token" in strip.tip(0)
    between = strip.box_of(3).left() - strip.box_of(2).right()
    assert between < strip.box_of(2).left() - strip.box_of(1).right()


def test_tokens_wrap_without_overlap(qtbot: QtBot) -> None:
    strip = TokenStrip()
    qtbot.addWidget(strip)
    strip.resize(260, 60)
    strip.set_tokens(tuple(TokenText(i, f"·word{i}") for i in range(60)), 60)
    boxes = [strip.box_of(i) for i in range(60)]
    assert len({box.top() for box in boxes}) > 5
    assert all(box.left() >= 0 and box.right() <= 260 for box in boxes)
    assert not any(a.intersects(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
    assert strip.minimumHeight() >= boxes[-1].bottom()


def test_a_token_wider_than_the_strip_is_elided(qtbot: QtBot) -> None:
    strip = TokenStrip()
    qtbot.addWidget(strip)
    strip.resize(100, 60)
    strip.set_tokens((TokenText(0, "·" + "long" * 30),), 1)
    assert strip.box_of(0).right() <= 100


def test_the_strip_says_its_selection_to_a_screen_reader(panel: TokensPanel) -> None:
    assert panel.strip.accessibleName() == "tokens of the run; arrow keys select the query"
    assert panel.strip.accessibleDescription() == "query 10 ·sat; key 4 ·on"


def test_pointing_at_a_token_points_at_the_key(qtbot: QtBot, panel: TokensPanel, running: Session) -> None:
    QTest.mouseMove(panel.strip, panel.strip.box_of(5).center().toPoint())
    now = running.selection.now
    assert running.selection.hover == Hover(query=now.query, key=5, layer=now.layer, head=now.head)


def test_a_query_out_of_sight_is_scrolled_to_by_whole_lines(
    long_run: Callable[[int], Session], shown: Callable[..., Any], qtbot: QtBot
) -> None:
    many = long_run(400)
    panel = shown(TokensPanel, many, 600, 90)
    for query in (399, 200, 0):
        many.selection.update(query=query)
        settle(many, panel)
        bar, box = panel.area.verticalScrollBar(), panel.strip.box_of(query)
        assert bar.value() <= box.top()
        assert box.bottom() <= bar.value() + panel.area.viewport().height()


def strip_of(qtbot: QtBot, tokens: tuple[TokenText, ...], prefill: int) -> TokenStrip:
    strip = TokenStrip()
    qtbot.addWidget(strip)
    strip.resize(900, 200)
    strip.show()
    strip.set_tokens(tokens, prefill)
    return strip


def some_tokens(count: int) -> tuple[TokenText, ...]:
    return tuple(TokenText(i % 50, f"word{i % 50}") for i in range(count))


def spans_placed(strip: TokenStrip, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Collects which tokens are given a place from now on."""
    spans: list[tuple[int, int]] = []
    place = strip._place

    def noted(start: int, stop: int) -> None:
        spans.append((start, stop))
        place(start, stop)

    monkeypatch.setattr(strip, "_place", noted)
    return spans


def boxes(strip: TokenStrip) -> list[tuple[float, float, float]]:
    return [(look.left, look.top, look.width) for look in strip._looks]


def test_a_step_places_one_token(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = some_tokens(100)
    strip = strip_of(qtbot, tokens[:90], 90)
    spans = spans_placed(strip, monkeypatch)
    for count in range(91, 101):
        strip.set_tokens(tokens[:count], 90)
    strip.set_tokens(tokens[:95], 90)
    strip.set_tokens(tokens[:96], 90)
    assert spans == [(n, n + 1) for n in range(90, 100)] + [(95, 95), (95, 96)]
    strip.set_tokens(tokens, 90)
    assert boxes(strip) == boxes(strip_of(qtbot, tokens, 90))


def test_a_token_that_reads_otherwise_is_placed_again(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = some_tokens(20)
    strip = strip_of(qtbot, (*tokens, TokenText(7, "<E4>", "bytes")), 20)
    spans = spans_placed(strip, monkeypatch)
    whole = (*tokens, TokenText(7, "<E4>", "bytes", 0, "ä"), TokenText(8, "<A4>", "bytes", 0))
    strip.set_tokens(whole, 20)
    assert spans == [(20, 22)]
    assert boxes(strip) == boxes(strip_of(qtbot, whole, 20))


def test_ten_thousands_of_tokens_are_placed_over_several_turns(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    strip = strip_of(qtbot, (), 0)
    spans = spans_placed(strip, monkeypatch)
    tokens = some_tokens(3 * AT_ONCE + 5)
    strip.set_tokens(tokens, len(tokens))
    assert (spans, strip.is_placed) == ([(0, AT_ONCE)], False)
    assert strip.box_of(len(tokens) - 1).isEmpty()
    qtbot.waitUntil(lambda: strip.is_placed, timeout=60_000)
    assert spans == [(n, min(n + AT_ONCE, len(tokens))) for n in range(0, len(tokens), AT_ONCE)]
    for position in (0, AT_ONCE, len(tokens) - 1):
        assert strip.token_at(strip.box_of(position).center()) == position
    assert strip.token_at(strip.box_of(9).center() + QPointF(0, strip.line_height() / 2 - 2)) == 9  # its number counts
    assert strip.token_at(QPointF(5, strip.minimumHeight() + 50)) == -1


def test_another_key_repaints_two_tokens_and_no_more(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    strip = strip_of(qtbot, some_tokens(60), 60)
    strip.set_selection(59, 3)
    qtbot.waitExposed(strip)
    strip.repaint()
    QApplication.processEvents()
    painted: list[int] = []
    monkeypatch.setattr(strip, "_paint_token", lambda painter, position, box, kind: painted.append(position))
    strip.set_selection(59, 20)
    QApplication.processEvents()
    assert {3, 20} <= set(painted)
    assert len(set(painted)) <= 16  # and those that stand around them


def test_other_weights_repaint_the_tokens_whose_tint_they_change(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    strip = strip_of(qtbot, some_tokens(60), 60)
    weights, visible = np.full(60, 0.001), np.ones(60, np.bool_)
    strip.set_weights(weights, visible)
    qtbot.waitExposed(strip)
    strip.repaint()
    QApplication.processEvents()
    painted: set[int] = set()
    monkeypatch.setattr(strip, "_paint_token", lambda painter, position, box, kind: painted.add(position))
    strip.set_weights(weights * 1.001, visible)
    QApplication.processEvents()
    assert painted == set()
    strip.set_weights(np.where(np.arange(60) == 30, 0.5, 0.001), visible)
    QApplication.processEvents()
    assert painted == {29, 30, 31}  # the positions under its neighbours reach below it
    painted.clear()
    strip.set_weights(weights, np.zeros(60, np.bool_))
    QApplication.processEvents()
    assert painted == set(range(60))


def test_a_token_from_right_to_left_does_not_reorder_the_sentence_around_it(qtbot: QtBot) -> None:
    strip = TokenStrip()
    qtbot.addWidget(strip)
    strip.resize(300, 60)
    strip.set_tokens((TokenText(0, "שלום"), TokenText(1, "<D7>", "bytes", 0, "ש"), TokenText(2, "cat")), 3)
    assert strip.describe(0, "key") == "key 0 \u2068שלום\u2069"
    assert strip.describe(2, "key") == "key 2 cat"
    assert "raw bytes of \u2068ש\u2069\n" in strip.tip(1)
    assert theme.drawable(strip.describe(0, "key")) == strip.describe(0, "key")


@pytest.mark.parametrize("kept", [True, False])
def test_isolation_keeps_numbers_where_they_are_written(qtbot: QtBot, kept: bool) -> None:
    token = TokenText(0, "שלום")
    text = f"{token.inline if kept else token.text} 0.32 → 0.40"
    layout = QTextLayout(text, theme.current().font("number"))
    layout.beginLayout()
    line = layout.createLine()
    layout.endLayout()
    places: list[Any] = [line.cursorToX(text.index(number)) for number in ("0.32", "0.40")]
    (before, _), (after, _) = places
    assert (before < after) is kept, "without isolation the paragraph would run from right to left"


def test_the_last_line_is_never_cut_by_the_one_before(
    long_run: Callable[[int], Session], shown: Callable[..., Any], qtbot: QtBot
) -> None:
    many = long_run(400)
    panel = shown(TokensPanel, many, 600, 90)
    bar = panel.area.verticalScrollBar()
    for height in (90, 100, 110, 130):
        panel.resize(600, height)
        many.selection.update(query=0)
        many.selection.update(query=399)
        qtbot.waitUntil(lambda: panel.settled and bar.value() > 0)
        under = panel.strip._small_height()
        boxes = [panel.strip.box_of(position) for position in range(400)]
        cut = [box for box in boxes if box.top() < bar.value() < box.bottom() + under]
        assert not cut, (height, bar.value(), bar.maximum(), panel.strip._room, cut)
        assert panel.strip.box_of(399).bottom() <= bar.value() + panel.area.viewport().height()


def test_a_query_stays_in_sight_when_the_type_grows(
    long_run: Callable[[int], Session], shown: Callable[..., Any]
) -> None:
    many = long_run(400)
    panel = shown(TokensPanel, many, 900, 130)
    many.selection.update(query=399)
    theme.apply("light", projector=True)
    try:
        panel.theme_changed()
        panel.resize(900, 150)
        QApplication.processEvents()
        box, bar = panel.strip.box_of(399), panel.area.verticalScrollBar()
        assert bar.value() <= box.top()
        assert box.bottom() <= bar.value() + panel.area.viewport().height()
    finally:
        theme.apply("dark")


def test_the_panel_says_that_a_chat_template_was_applied(
    qtbot: QtBot, panel: TokensPanel, running: Session, engine: CannedEngine
) -> None:
    assert "chat template" not in panel.subtitle.text()
    engine.rendered = "<s>hi"
    running.start(Prompt("hi"))
    settle(running, panel)
    assert "12 tokens · in the chat template ·" in panel.subtitle.text()


def test_scripts_of_the_world_are_drawn_and_what_no_font_has_is_its_code_point(qtbot: QtBot) -> None:
    assert theme.drawable("שלום", "formula") == "שלום"
    assert theme.drawable("e\u0301", "formula") == "e\u0301"
    missing = "\U0010fffd"  # private use: in no font
    assert theme.drawable(f"a{missing}b", "formula") == "aU+10FFFDb"
    strip = TokenStrip()
    qtbot.addWidget(strip)
    strip.resize(300, 60)
    strip.set_tokens((TokenText(0, f"x{missing}"),), 1)
    assert strip._looks[0].text == "xU+10FFFD"


def test_a_click_beside_the_tokens_picks_none(qtbot: QtBot) -> None:
    strip = strip_of(qtbot, tuple(TokenText(i, f"t{i}") for i in range(3)), 3)
    with qtbot.assertNotEmitted(strip.query_picked):
        QTest.mouseClick(strip, Qt.MouseButton.LeftButton, pos=QPoint(strip.width() - 5, strip.height() - 5))


def test_a_single_line_draws_whole_tokens_and_says_where_it_goes_on(
    long_run: Callable[[int], Session], shown: Callable[..., Any]
) -> None:
    many = long_run(60)
    panel = shown(TokensPanel, many, 400, 90)
    strip = panel.strip
    strip.wrap(False)
    for query, ends in ((0, (False, True)), (30, (True, True)), (59, (True, False))):
        many.selection.update(query=query)
        settle(many, panel)
        left, right = strip._seen
        image = panel.area.viewport().grab().toImage()
        whole = [n for n in range(60) if strip.box_of(n).left() >= left and strip.box_of(n).right() <= right]
        before, after = strip.out_of_sight(0)
        assert whole[0] <= before <= query < 60 - after <= whole[-1] + 1
        assert ((before > 0), (after > 0)) == ends
        assert panel.more.text() == "more: " + ", ".join(
            f"{count} {where}" for count, where in ((before, "before"), (after, "after")) if count
        )
        height = round(strip.box_of(0).height())
        for edge, hidden in ((0, before), (right - left - strip.aside, after)):
            columns = [{image.pixelColor(x, y).name() for y in range(height)} for x in range(edge, edge + strip.aside)]
            if hidden:
                assert len(set().union(*columns)) > 1, "a sign"
                assert len(columns[0]) == len(columns[-1]) == 1, "and no part of a token"


def test_a_row_of_a_damaged_file_has_no_more_arcs_than_a_row_can_have(qtbot: QtBot) -> None:
    strip = strip_of(qtbot, some_tokens(400), 400)
    strip.arch(20)
    weights = np.full(400, 0.5)
    weights[100:130] = 1.0
    strip.set_selection(399, 0)
    strip.set_weights(weights, np.ones(400, np.bool_), 399)
    assert strip.arcs == [*range(MOST_ARCS - 30), *range(100, 130)]
