"""Every token is visible as itself, where it says it is, tinted by the numbers of the selected row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.selection import Hover
from model.readings import TokenText
from tests.views.fake_session import FakeSession
from views import theme
from views.tokens import TokensPanel, TokenStrip


@pytest.fixture
def panel(running: FakeSession, shown: Callable[..., Any]) -> TokensPanel:
    made: TokensPanel = shown(TokensPanel, running, 900, 110)
    return made


def click(qtbot: QtBot, strip: TokenStrip, position: int, *, shift: bool = False) -> None:
    modifier = Qt.KeyboardModifier.ShiftModifier if shift else Qt.KeyboardModifier.NoModifier
    QTest.mouseClick(strip, Qt.MouseButton.LeftButton, modifier, strip.box_of(position).center().toPoint())


def test_a_click_picks_the_query_and_a_shift_click_the_key(
    qtbot: QtBot, panel: TokensPanel, running: FakeSession
) -> None:
    click(qtbot, panel.strip, 6)
    click(qtbot, panel.strip, 2, shift=True)
    assert (running.selection.now.query, running.selection.now.key) == (6, 2)


def test_tokens_are_tinted_by_the_selected_row(panel: TokensPanel, running: FakeSession) -> None:
    now = running.selection.now
    weights = running.weights(now.layer, now.head)[now.query]
    for position in range(now.query + 1):
        assert panel.strip.weight_of(position) == pytest.approx(weights[position])
    assert panel.strip.weight_of(now.query + 1) is None
    assert panel.strip.tint(now.query + 1) == theme.current().panel


def test_more_weight_is_more_colour(panel: TokensPanel, running: FakeSession) -> None:
    now = running.selection.now
    weights = running.weights(now.layer, now.head)[now.query]
    most, least = int(weights.argmax()), int(weights[: now.query + 1].argmin())
    key = theme.current().key
    assert abs(panel.strip.tint(most).blue() - key.blue()) < abs(panel.strip.tint(least).blue() - key.blue())


def test_the_tint_is_on_the_screen(panel: TokensPanel) -> None:
    image = panel.strip.grab().toImage()
    box = panel.strip.box_of(3)
    assert image.pixelColor(round(box.left()) + 4, round(box.center().y())) == panel.strip.tint(3)


def test_query_and_key_are_outlined(panel: TokensPanel, running: FakeSession) -> None:
    now = running.selection.now
    image = panel.strip.grab().toImage()
    for position, colour in ((now.query, theme.current().query), (now.key, theme.current().key)):
        box = panel.strip.box_of(position)
        assert image.pixelColor(round(box.center().x()), round(box.top()) + 1) == colour


def test_a_change_of_key_moves_the_outline_without_a_question(panel: TokensPanel, running: FakeSession) -> None:
    draws, asked = panel.draws, len(running.asked)
    running.selection.update(key=1)
    assert (panel.draws, len(running.asked)) == (draws, asked)
    assert panel.cell.text() == "query 10 ·sat → key 1 the"


def test_decoded_tokens_stand_apart(qtbot: QtBot, panel: TokensPanel, running: FakeSession) -> None:
    running.step()
    qtbot.waitUntil(lambda: panel.settled)
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
    assert panel.strip.accessibleName() == "tokens of the run"
    assert panel.strip.accessibleDescription() == "query 10 ·sat; key 4 ·on"


def test_pointing_at_a_token_points_at_the_key(qtbot: QtBot, panel: TokensPanel, running: FakeSession) -> None:
    QTest.mouseMove(panel.strip, panel.strip.box_of(5).center().toPoint())
    now = running.selection.now
    assert running.selection.hover == Hover(query=now.query, key=5, layer=now.layer, head=now.head)


def test_a_query_out_of_sight_is_scrolled_to_by_whole_lines(
    session: FakeSession, shown: Callable[..., Any], qtbot: QtBot
) -> None:
    many = FakeSession(session.settings.path, rows=400)
    many.begin()
    many.start("many words", 400)
    panel = shown(TokensPanel, many, 600, 90)
    for query in (399, 200, 0):
        many.selection.update(query=query)
        qtbot.waitUntil(lambda: panel.settled)
        bar, box = panel.area.verticalScrollBar(), panel.strip.box_of(query)
        assert bar.value() <= box.top()
        assert box.bottom() <= bar.value() + panel.area.viewport().height()
    many.close()
