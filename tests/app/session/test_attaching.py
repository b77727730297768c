"""A session with a trace file: what is on screen, what it lacks, and its checkpoint attached; on the real engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot
from safetensors.torch import load_file, save_file

from ropewalk.app.files.exporting import export_trace
from ropewalk.app.files.session_file import SavedView
from ropewalk.app.files.session_keeping import open_session, save_session
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.engine import engine
from ropewalk.model.engine.questions import (
    AskHeadDifference,
    AskLens,
    AskNextTokenDifference,
    AskRow,
    AskScoreChanges,
)
from ropewalk.model.progress import finished
from ropewalk.model.readings.records import HeadDifference, Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.trace_file import load_trace
from tests.in_process import new_session, trace_of

DRAWN = Sampling(0.9, seed=5)
CHANGED = AblateHeads(1, (2,))


def wait(qtbot: QtBot, session: Session) -> None:
    qtbot.waitUntil(lambda: not session.busy, timeout=60_000)


@pytest.fixture
def session(qtbot: QtBot, tmp_path: Path) -> Iterator[Session]:
    session = new_session(SettingsStore(tmp_path / "settings.json"))
    yield session
    session.close()


def told(session: Session) -> list[str]:
    """What a person is told from here on."""
    sentences: list[str] = []
    session.failed.connect(lambda sentence, details: sentences.append(sentence))
    return sentences


@pytest.fixture
def saved(qtbot: QtBot, session: Session, tiny: Path, tmp_path: Path) -> Path:
    """A run under an experiment, decoded for three steps, as a session takes it home."""
    session.opening.begin(str(tiny), prompt=Prompt("abcdef"))
    wait(qtbot, session)
    session.interventions.apply([CHANGED])
    wait(qtbot, session)
    session.timeline.set_sampling(DRAWN)
    session.timeline.run_to(9)
    wait(qtbot, session)
    path, done, failed = tmp_path / "run.safetensors", list[Path](), list[str]()
    export_trace(session, path, done.append, failed.append)
    wait(qtbot, session)
    assert (done, failed) == ([path], [])
    return path


@pytest.fixture
def opened(qtbot: QtBot, session: Session, saved: Path) -> Session:
    """The session with the trace on screen."""
    session.opening.open(str(saved))
    wait(qtbot, session)
    return session


def test_a_saved_run_says_how_its_tokens_were_drawn(saved: Path) -> None:
    back = load_trace(saved)
    assert (back.about.drawn, back.about.prompt) == ((DRAWN,) * 3, Prompt("abcdef"))
    assert back.trace.interventions == (CHANGED,)


def test_a_trace_is_on_screen_as_it_was(opened: Session, saved: Path, tiny: Path) -> None:
    run, origin = opened.run, opened.attaching.origin
    assert run is not None
    assert origin is not None
    assert (run.prompt, run.length, run.prefill, origin.path) == ("abcdef", 9, 6, str(tiny))
    assert [token.text for token in run.tokens[:6]] == list("abcdef")
    assert opened.prompt == Prompt("abcdef")
    assert opened.timeline.drawn == (DRAWN,) * 3
    assert opened.interventions.now == (CHANGED,)
    assert opened.model is not None
    assert (opened.model.name, opened.model.path) == ("tiny, a trace", str(saved))
    assert opened.opened.recent[0] == str(saved)


def test_what_a_trace_lacks_is_said_once_it_is_asked_for(qtbot: QtBot, opened: Session) -> None:
    answers: list[Any] = []
    opened.ask("row", AskRow(1, 2, 8), answers.append)
    wait(qtbot, opened)
    assert len(answers[0].value.weights) == 9
    sentences = told(opened)
    before = opened.run
    refused: list[Callable[[], None]] = [
        lambda: opened.ask("lens", AskLens(), answers.append),
        opened.timeline.step,
        lambda: opened.timeline.branch(7, 3),
        lambda: opened.start(Prompt("xyz")),
        lambda: opened.interventions.apply([]),
    ]
    for ask in refused:
        ask()
        wait(qtbot, opened)
        assert sentences.pop().endswith("attach its checkpoint (tiny).")
        assert not sentences
        assert opened.run is before
    opened.timeline.to_start()
    assert opened.run is not None
    assert opened.run.length == 6


def test_attached_everything_can_be_done(qtbot: QtBot, opened: Session, tiny: Path) -> None:
    attached: list[Any] = []
    opened.attaching.attached.connect(attached.append)
    before = trace_of(opened.handle)
    opened.attaching.attach(str(tiny))
    wait(qtbot, opened)
    assert opened.attaching.origin is None
    assert [card.path for card in attached] == [str(tiny)]
    assert opened.run is not None
    assert (opened.run.length, opened.interventions.now, opened.timeline.drawn) == (9, (CHANGED,), (DRAWN,) * 3)
    assert bool((trace_of(opened.handle)[1].keys.tensor == before[1].keys.tensor).all())
    opened.timeline.step()
    wait(qtbot, opened)
    assert opened.run.length == 10
    opened.interventions.apply([])
    wait(qtbot, opened)
    assert opened.run.prompt == "abcdef"
    assert opened.interventions.now == ()


def test_other_weights_are_attached_once_a_person_confirms(
    qtbot: QtBot, opened: Session, tiny: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny, other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-5}), encoding="utf-8")
    asked: list[tuple[str, str]] = []
    opened.attaching.confirmation_wanted.connect(lambda sentence, path: asked.append((sentence, path)))
    sentences, before = told(opened), opened.run
    opened.attaching.attach(str(other))
    wait(qtbot, opened)
    assert [path for _, path in asked] == [str(other)]
    assert "made with tiny, but the files of other are not those" in asked[0][0]
    assert (sentences, opened.run) == ([], before)
    opened.attaching.attach(str(other), confirmed=True)
    wait(qtbot, opened)
    assert opened.attaching.origin is None
    assert opened.model is not None
    assert opened.model.path == str(other)


def test_a_checkpoint_that_does_not_fit_leaves_the_trace(qtbot: QtBot, opened: Session, tmp_path: Path) -> None:
    sentences, before = told(opened), opened.run
    opened.attaching.attach(None, confirmed=True)
    wait(qtbot, opened)
    opened.attaching.attach(str(tmp_path / "absent"))
    wait(qtbot, opened)
    assert "bundled has 4 layers, but the run was made with 2" in sentences[0]
    assert "There is nothing at" in sentences[1]
    assert opened.run is before


def test_only_a_trace_is_given_a_checkpoint(qtbot: QtBot, session: Session, tiny: Path) -> None:
    sentences = told(session)
    session.attaching.attach(str(tiny))
    session.opening.begin(str(tiny), prompt=Prompt("abc"))
    wait(qtbot, session)
    session.attaching.attach(str(tiny))
    wait(qtbot, session)
    assert sentences == ["Only the run of a trace file can be given a checkpoint; open a trace first."] * 2


def test_a_trace_comes_back_after_its_engine_has_ended(qtbot: QtBot, opened: Session, saved: Path) -> None:
    opened.timeline.step_back()
    opened.baseline.pin()
    opened.engines.current.kill()
    opened.recovery.restart()
    wait(qtbot, opened)
    assert opened.run is not None
    assert (opened.run.length, opened.run.newest, opened.timeline.drawn) == (8, 9, (DRAWN,) * 3)
    assert opened.attaching.origin is not None
    assert opened.baseline.run is not None
    assert opened.baseline.shares_engine
    assert trace_of(opened.handle).length == 8


def test_a_session_file_brings_a_trace_back(qtbot: QtBot, opened: Session, tmp_path: Path) -> None:
    path, done, failed = tmp_path / "work.ropewalk", list[Any](), list[str]()
    opened.timeline.step_back()
    save_session(opened, path, SavedView(), done.append, failed.append)
    wait(qtbot, opened)
    qtbot.waitUntil(lambda: bool(done or failed), timeout=60_000)
    assert failed == []
    opened.opening.open(None)
    wait(qtbot, opened)
    assert opened.attaching.origin is None
    open_session(opened, path, done.append, failed.append)
    qtbot.waitUntil(lambda: len(done) == 2 or bool(failed), timeout=60_000)
    assert failed == []
    assert opened.run is not None
    assert opened.attaching.origin is not None
    assert (opened.run.length, opened.run.newest, opened.interventions.now) == (8, 9, (CHANGED,))


# ----------------------------------------------------------------------------------------------------------------------
# Two traces


def saved_run(checkpoint: Path, path: Path, text: str) -> Path:
    """A run of a checkpoint in a file."""
    model = finished(engine.open_model(str(checkpoint), "cpu", "float32"))
    engine.save(finished(engine.run(model, Prompt(text), 1, (0, 0))), path)
    return path


def compared(qtbot: QtBot, session: Session, first: Path, second: Path) -> tuple[list[Any], list[str]]:
    """What is read of the second trace against the first one, and what is told."""
    session.opening.open(str(first))
    wait(qtbot, session)
    session.baseline.pin()
    session.opening.open(str(second))
    wait(qtbot, session)
    answers: list[Any] = []
    sentences = told(session)
    for question in (AskHeadDifference(1, 2), AskScoreChanges(), AskNextTokenDifference()):
        session.ask(type(question).__name__, question, answers.append)
    wait(qtbot, session)
    return [answer.value for answer in answers], sentences


def test_traces_of_two_models_are_compared_by_token(qtbot: QtBot, session: Session, tiny: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny, other)
    weights = load_file(other / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    save_file(weights | {name: weights[name].flip(0)}, other / "model.safetensors")
    a = saved_run(tiny, tmp_path / "a.safetensors", "abcdef")
    b = saved_run(other, tmp_path / "b.safetensors", "abXcdef")
    answers, sentences = compared(qtbot, session, a, b)
    assert sentences == []
    difference = next(one for one in answers if isinstance(one, HeadDifference))
    assert difference.rows == ((0, 0), (1, 1), (None, 2), (2, 3), (3, 4), (4, 5), (5, 6))
    ours, theirs = load_trace(b).trace[1].weights(2), load_trace(a).trace[1].weights(2)
    assert difference.weights[4, 3] == pytest.approx(float(ours[4, 3] - theirs[3, 2]), abs=1e-6)
    assert len(answers) == 3


def test_traces_that_cannot_be_compared_say_why(qtbot: QtBot, session: Session, tiny: Path, tmp_path: Path) -> None:
    a = saved_run(tiny, tmp_path / "a.safetensors", "abcdef")
    b = saved_run(tiny, tmp_path / "b.safetensors", "uvwxyz")
    assert (
        "A and B have no token in common, so no rows can be compared; run one text on both."
        in compared(qtbot, session, a, b)[1]
    )
    bundled = finished(engine.open_model(None, "cpu", "float32"))
    engine.save(finished(engine.run(bundled, Prompt("abc"), 1, (0, 0))), tmp_path / "c.safetensors")
    sentences = compared(qtbot, session, a, tmp_path / "c.safetensors")[1]
    assert any("A has 2 layers of 4 heads and B 4 of 8" in sentence for sentence in sentences)
    assert any("tokens in its vocabulary and B" in sentence for sentence in sentences)
