"""The clock of a step: by itself, by hand, ended early, and not at all."""

from __future__ import annotations

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.app.session.step_clock import ARRIVES, FANS_OUT, MOVES, SLIDES, StepClock
from tests.app.session.test_session import settle
from tests.fake_engine import FakeEngine


@pytest.fixture
def clock(qtbot: QtBot) -> StepClock:
    made = StepClock()
    made.moves = lambda: True
    return made


def moments(clock: StepClock) -> list[tuple[float, float]]:
    """What it says from here on, at every tick: how far the token and the arcs have come."""
    heard: list[tuple[float, float]] = []
    clock.ticked.connect(lambda: heard.append((clock.come(ARRIVES), clock.come(FANS_OUT))))
    return heard


def test_it_goes_to_its_end_by_itself(qtbot: QtBot, clock: StepClock) -> None:
    heard = moments(clock)
    clock.start(3, lasts=60)
    assert (clock.row, clock.is_running) == (3, True)
    qtbot.waitUntil(lambda: not clock.is_running)
    assert heard[-1] == (1, 1)
    assert heard == sorted(heard)


def test_by_hand_every_part_goes_from_nothing_to_all(clock: StepClock) -> None:
    clock.is_stepped = True
    heard = moments(clock)
    clock.start(3)
    for at in (0.0, 0.225, 0.45, 0.725):
        clock.frame(at)
    assert np.allclose(heard, [(0, 0), (0.5, 0), (1, 0), (1, 0.5)])
    for part in (ARRIVES, SLIDES, MOVES, FANS_OUT):
        assert 0 <= part[0] < part[1] <= 1
    clock.finish()
    assert not clock.is_running
    assert all(clock.come(part) == 1 for part in (ARRIVES, SLIDES, MOVES, FANS_OUT))
    clock.frame(0.5)
    assert not clock.is_running, "there is nothing to go back to"


def test_another_step_ends_the_one_that_is_on_its_way(clock: StepClock) -> None:
    clock.is_stepped = True
    heard = moments(clock)
    begun: list[bool] = []
    clock.started.connect(lambda: begun.append(clock.is_running))
    clock.start(3)
    clock.frame(0.1)
    clock.start(4)
    assert heard[-1] == (1, 1)
    assert (clock.row, clock.is_running, clock.come(ARRIVES)) == (4, True, 0)
    assert begun == [False, False], "what is on screen then is still that of before"


def test_where_nothing_moves_a_step_is_at_its_end(clock: StepClock) -> None:
    heard = moments(clock)
    clock.moves = lambda: False
    clock.start(3)
    clock.moves = lambda: True
    clock.start(3, lasts=0)
    assert not clock.is_running
    assert not heard


def test_single_tokens_move_and_nothing_else(
    qtbot: QtBot, running: Session, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline, begun = running.timeline, list[tuple[int, int]]()
    monkeypatch.setattr(timeline.clock, "start", lambda row, lasts: begun.append((row, lasts)))
    settle(qtbot, running, timeline.step)
    assert begun == [(3, StepClock.LONG)]
    settle(qtbot, running, lambda: timeline.run_to(8))
    timeline.step_back()
    timeline.to_start()
    timeline.to_end()
    assert len(begun) == 1, "several at once, and the way back, are there at once"
    timeline.step_back()
    timeline.step()
    assert begun[1:] == [(7, StepClock.LONG)], "a token that is there already comes as one that is decoded"
    timeline.set_pace(40)
    settle(qtbot, running, timeline.play)
    timeline.pause()
    assert begun[2:][:1] == [(8, 40)], "a played step is over before the next begins"
