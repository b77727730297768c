"""Interventions, baselines and branches, as the session keeps them."""

from __future__ import annotations

from typing import Any

from pytestqt.qtbot import QtBot

from ropewalk.app.session.interventions import silent_heads
from ropewalk.app.session.session import Session
from ropewalk.model.decoder.interventions import AblateHeads, NoScale, PermuteTokens
from ropewalk.model.engine.questions import AskHeadDifference
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt
from tests.app.session.test_session import settle, text
from tests.fake_engine import FakeEngine


def test_an_intervention_runs_the_same_tokens_again(qtbot: QtBot, running: Session, engine: FakeEngine) -> None:
    settle(qtbot, running, running.timeline.step)
    settle(qtbot, running, running.timeline.step)
    assert text(running) == "abcde"
    heard: list[Any] = []
    running.interventions.changed.connect(heard.append)
    settle(qtbot, running, lambda: running.interventions.apply([NoScale()]))
    assert list(running.interventions.now) == [NoScale()]
    assert heard == [(NoScale(),)]
    assert engine.calls[-2].startswith("run abc 2")
    assert "[no 1/√Dh]" in engine.calls[-2]
    run = running.run
    assert run is not None
    assert (text(running), run.prefill, run.length, run.run_id) == ("abcde", 3, 5, 2)
    settle(qtbot, running, lambda: running.interventions.apply([]))
    assert not running.interventions.now
    assert heard == [(NoScale(),), ()]


def test_a_refused_intervention_leaves_everything_as_it_was(qtbot: QtBot, running: Session) -> None:
    before = running.run
    failures: list[str] = []
    running.failed.connect(lambda sentence, details: failures.append(sentence))
    settle(qtbot, running, lambda: running.interventions.apply([AblateHeads(99, (0,))]))
    assert len(failures) == 1
    assert "Layer 99" in failures[0]
    assert running.run is before
    assert running.interventions.now == ()


def test_another_prompt_keeps_the_interventions_but_not_an_order_of_tokens(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    settle(qtbot, running, lambda: running.interventions.apply([NoScale(), PermuteTokens((1, 0))]))
    settle(qtbot, running, lambda: running.start(Prompt("xy")))
    assert running.interventions.now == (NoScale(),)


def test_another_model_starts_without_interventions(qtbot: QtBot, running: Session) -> None:
    settle(qtbot, running, lambda: running.interventions.apply([NoScale()]))
    settle(qtbot, running, lambda: running.opening.open("other"))
    assert running.interventions.now == ()


def test_a_baseline_is_what_questions_are_compared_with(qtbot: QtBot, running: Session) -> None:
    pins: list[Any] = []
    running.baseline.changed.connect(pins.append)
    running.baseline.pin()
    assert running.baseline.run is running.run
    settle(qtbot, running, lambda: running.start(Prompt("other")))
    answers: list[Any] = []
    settle(qtbot, running, lambda: running.ask("compare", AskHeadDifference(0, 0), answers.append))
    assert [reading.value for reading in answers] == [("other", AskHeadDifference(0, 0), "abc")]
    running.baseline.unpin()
    assert running.baseline.run is None
    assert [run is None for run in pins] == [False, True]


def test_a_branch_replaces_a_decoded_token(qtbot: QtBot, running: Session) -> None:
    for _ in range(3):
        settle(qtbot, running, running.timeline.step)
    assert text(running) == "abcdef"
    settle(qtbot, running, lambda: running.timeline.branch(4, ord("x")))
    assert text(running) == "abcdx"
    assert len(running.timeline.drawn) == 2  # how each decoded token came, the one that was put there among them
    settle(qtbot, running, running.timeline.step)
    assert text(running) == "abcdxy"
    running.timeline.set_sampling(Sampling(temperature=1.0, seed=1))
    settle(qtbot, running, running.timeline.step)
    assert text(running) == "abcdxy{"


def test_the_prompt_cannot_be_branched(qtbot: QtBot, running: Session) -> None:
    failures: list[str] = []
    running.failed.connect(lambda sentence, details: failures.append(sentence))
    running.timeline.branch(1, ord("x"))
    assert failures == ["Only a decoded token can be replaced; step first, then choose one after the prompt."]
    assert text(running) == "abc"


def test_interventions_stay_in_the_order_they_were_chosen_in(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    chosen = (AblateHeads(0, (1,)), NoScale())
    settle(qtbot, running, lambda: running.interventions.apply(chosen))
    assert running.interventions.now == chosen
    settle(qtbot, running, lambda: running.start(Prompt("xy")))
    assert running.interventions.now == chosen


def open_beside(qtbot: QtBot, session: Session, path: str) -> None:
    """Open another checkpoint, in another engine, and wait until the prompt has run on it."""
    with qtbot.waitSignal(session.run_changed):
        session.opening.open(path)


def test_a_baseline_is_run_again_in_the_engine_of_what_is_on_screen(
    qtbot: QtBot, running: Session, engine: FakeEngine
) -> None:
    running.baseline.pin()
    open_beside(qtbot, running, "other")
    assert not running.baseline.shares_engine
    qtbot.waitUntil(lambda: running.baseline.shares_engine)
    assert running.baseline.run is not None
    assert running.baseline.run.model.name == "bundled"
    answers: list[Any] = []
    running.ask("panel", AskHeadDifference(0, 0), lambda reading: answers.append(reading.value))
    qtbot.waitUntil(lambda: bool(answers))
    assert answers == [("abc", AskHeadDifference(0, 0), "abc")]
    opened = [call.split()[1] for call in engine.calls if call.startswith("open")]
    assert opened == ["None", "other", "None"]


def test_what_is_pinned_or_unpinned_while_the_last_baseline_is_run_again_stays_so(
    qtbot: QtBot, running: Session
) -> None:
    running.baseline.pin()
    open_beside(qtbot, running, "other")
    running.baseline.unpin()
    qtbot.waitUntil(lambda: not running.busy)
    assert running.baseline.run is None
    running.baseline.pin()
    open_beside(qtbot, running, "third")
    running.baseline.pin()
    qtbot.waitUntil(lambda: not running.busy)
    assert running.baseline.run is running.run


def test_a_baseline_follows_to_a_run_that_is_brought_back_meanwhile(qtbot: QtBot, running: Session) -> None:
    first = running.scenes.keep()
    assert first is not None
    open_beside(qtbot, running, "other")
    running.baseline.pin()
    open_beside(qtbot, running, "third")
    running.scenes.restore(first)
    assert running.handle is first.handle
    qtbot.waitUntil(lambda: running.baseline.shares_engine)
    assert running.baseline.run is not None
    assert running.baseline.run.model.name == "other"


def test_an_engine_goes_with_the_run_that_is_pinned_no_longer(qtbot: QtBot, running: Session) -> None:
    running.baseline.pin()
    running.baseline.unpin()
    before = running.engines.current
    open_beside(qtbot, running, "other")
    assert running.engines.current is not before
    assert before.gone is not None


def test_heads_are_silenced_and_brought_back_beside_other_changes(qtbot: QtBot, running: Session) -> None:
    asked: list[Any] = []
    running.interventions.asked.connect(asked.append)
    mean = AblateHeads(1, (0,), ((1.0, 1.0, 1.0, 1.0),))
    settle(qtbot, running, lambda: running.interventions.apply([NoScale(), mean]))
    settle(qtbot, running, lambda: running.interventions.silence({(1, 3), (0, 2), (1, 1)}))
    assert list(running.interventions.now) == [NoScale(), mean, AblateHeads(0, (2,)), AblateHeads(1, (1, 3))]
    assert silent_heads(running.interventions.now) == {(1, 3), (0, 2), (1, 1)}
    settle(qtbot, running, lambda: running.interventions.silence(()))
    assert list(running.interventions.now) == [NoScale(), mean]
    assert [len(interventions) for interventions in asked] == [2, 4, 2]
