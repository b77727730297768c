"""Heads silenced by clicking, in the real window on a real model: the bars, their ghosts, the crosses, and the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from PySide6.QtCore import QSize, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.model.checkpoints import open_checkpoint
from ropewalk.model.engine.questions import AskNextTokenUnder
from ropewalk.model.readings.records import Candidate
from ropewalk.resources import resource
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.next_token import NextTokenPanel
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import theme
from tests.views import driving

PROMPT = "the cat sat on the mat. the cat"
FIRST, SECOND = (0, 1), (2, 3)


@pytest.fixture(scope="module")
def window(qapp: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MainWindow]:
    driving.start_dark()
    with driving.opened_window(tmp_path_factory.mktemp("w"), None, PROMPT, QSize(1366, 768)) as window:
        window.show_workspace("heads")
        window.reveal("next_token")  # what a test makes first would be counted as left over by it
        window.session.interventions.silence({FIRST})
        snapshot.wait_until_drawn(window)
        window.session.interventions.apply(())
        snapshot.wait_until_drawn(window)
        yield window


@pytest.fixture(autouse=True)
def everything_speaks(window: MainWindow) -> Iterator[None]:
    yield
    heads_of(window).silence.setChecked(False)
    window.session.interventions.apply(())
    snapshot.wait_until_drawn(window)


def heads_of(window: MainWindow) -> HeadsPanel:
    found = window.panels["heads"]
    assert isinstance(found, HeadsPanel)
    return found


def bars_of(window: MainWindow) -> NextTokenPanel:
    found = window.panels["next_token"]
    assert isinstance(found, NextTokenPanel)
    return found


def click_head(window: MainWindow, layer: int, head: int) -> None:
    view = heads_of(window).view
    place = view.plan.of(layer, head)
    assert place is not None
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=place.square.center())


def chances(window: MainWindow, silent: set[tuple[int, int]]) -> torch.Tensor:
    """The distribution after the selected row of a copy of the model without those heads' columns of W_O."""
    model = open_checkpoint(resource("bundled")).model
    width = model.config.head_width
    query = window.session.selection.now.query
    with torch.no_grad():
        for layer, head in silent:
            model.block(layer).attn.output.weight[:, head * width : (head + 1) * width] = 0
        ids = torch.tensor([[token.id for token in driving.run_of(window).tokens[: query + 1]]])
        found: torch.Tensor = model(ids)[0, -1].double().softmax(-1)
    return found


def test_clicks_silence_heads_and_the_bars_say_what_the_model_says_without_them(window: MainWindow) -> None:
    heads, plain = heads_of(window), chances(window, set())
    selected = window.session.selection.now
    driving.press(window, window, Qt.Key.Key_Z)
    assert heads.silence.isChecked()
    bars = bars_of(window)
    assert bars.on_screen
    for silent in ({FIRST}, {FIRST, SECOND}):
        click_head(window, *max(silent, key=lambda one: one == (FIRST if len(silent) == 1 else SECOND)))
        assert heads.view.silent == silent, "crossed out before anything is computed"
        snapshot.wait_until_drawn(window)
        expected = chances(window, silent)
        for candidate in bars.candidates.rows[:10]:
            at = candidate.token.id
            assert candidate.probability == pytest.approx(float(expected[at]), abs=1e-4)
            if at in bars.candidates.ghosts:
                assert bars.candidates.ghosts[at] == pytest.approx(float(plain[at]), abs=1e-4)
        assert {candidate.token.id for candidate in bars.candidates.rows} <= bars.candidates.ghosts.keys()
        assert int(plain.argmax()) in {candidate.token.id for candidate in bars.candidates.shown()}, "what fell is seen"
    assert window.session.selection.now == selected, "silencing selects nothing"
    assert [chip.text() for chip in window.findChildren(type(bars.step_button)) if "→ 0" in chip.text()]
    driving.click(window, heads.back_button)
    assert heads.back_button.isHidden()
    assert not heads.view.silent
    assert not bars.candidates.ghosts
    assert window.session.interventions.now == ()


def test_the_bars_move_before_the_run_is_made_again(qtbot: QtBot, window: MainWindow) -> None:
    heads = heads_of(window)
    heads.silence.setChecked(True)
    snapshot.wait_until_drawn(window)
    bars, run = bars_of(window), driving.run_of(window)
    before = bars.candidates.rows
    seen: list[tuple[tuple[Candidate, ...], Any]] = []
    bars.drawn.connect(lambda: seen.append((bars.candidates.rows, window.session.run)))
    asked: list[Any] = []
    ask = window.session.ask

    def heard(slot: str, question: Any, *listeners: Any) -> None:
        asked.append(question)
        ask(slot, question, *listeners)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window.session, "ask", heard)
        click_head(window, *FIRST)
        click_head(window, *SECOND)
    assert [type(question) for question in asked] == [AskNextTokenUnder, AskNextTokenUnder]
    qtbot.waitUntil(lambda: bool(seen))
    rows, shown = seen[0]
    assert shown is run, "the run is still the one from before"
    assert rows != before
    expected = chances(window, {FIRST, SECOND})
    assert [c.probability for c in rows[:5]] == pytest.approx([float(expected[c.token.id]) for c in rows[:5]], abs=1e-4)
    snapshot.wait_until_drawn(window)
    assert driving.run_of(window) is not run


def test_a_second_click_and_enter_bring_a_head_back(window: MainWindow) -> None:
    heads, now = heads_of(window), window.session.selection.now
    heads.silence.setChecked(True)
    for silent in ({FIRST}, set()):
        click_head(window, *FIRST)
        assert heads.view.silent == silent
    for silent in ({(now.layer, now.head)}, set()):
        QTest.keyClick(heads.view, Qt.Key.Key_Return)
        assert heads.view.silent == silent
        assert ("silenced" in heads.view.description(now.layer, now.head)) == bool(silent)
    heads.silence.setChecked(False)
    QTest.keyClick(heads.view, Qt.Key.Key_Return)
    assert not heads.view.silent


def test_a_silenced_head_is_crossed_out_and_its_ghost_is_behind_the_bar(window: MainWindow) -> None:
    heads = heads_of(window)
    heads.silence.setChecked(True)
    window.session.selection.update(layer=3, head=0)
    click_head(window, *FIRST)
    snapshot.wait_until_drawn(window)
    look, place = theme.current(), heads.view.plan.of(*FIRST)
    assert place is not None
    picture = heads.view.grab().toImage()
    square = place.square
    assert picture.pixelColor(square.left() + 4, square.top() + 4) == look.bad
    assert picture.pixelColor(square.right() - 4, square.top() + 4) == look.bad
    bars = bars_of(window).candidates
    for row, candidate in enumerate(bars.shown()):
        ghost = bars.ghost_of(row)
        if ghost is not None and candidate.probability > 0.01:
            share = ghost.width() / bars.bar_of(row).width()
            assert share == pytest.approx(bars.ghosts[candidate.token.id] / candidate.probability, rel=0.01)
            written = float(bars.difference(candidate).replace("−", "-"))
            assert written == pytest.approx(candidate.probability - bars.ghosts[candidate.token.id], abs=6e-4)
            break
    else:
        pytest.fail("no candidate has a ghost")


def test_another_query_has_its_own_ghosts(window: MainWindow) -> None:
    heads = heads_of(window)
    heads.silence.setChecked(True)
    click_head(window, *FIRST)
    snapshot.wait_until_drawn(window)
    window.session.selection.update(query=3)
    snapshot.wait_until_drawn(window)
    plain, bars = chances(window, set()), bars_of(window).candidates
    assert bars.ghosts
    for token, before in list(bars.ghosts.items())[:5]:
        assert before == pytest.approx(float(plain[token]), abs=1e-4)


def test_a_run_that_is_cancelled_crosses_nothing_out(window: MainWindow) -> None:
    heads = heads_of(window)
    heads.silence.setChecked(True)
    click_head(window, *FIRST)
    window.session.cancel()
    snapshot.wait_until_drawn(window)
    assert not heads.view.silent
    assert heads.back_button.isHidden()
