"""A session comes back as it was, with the engine's own numbers, or what was open stays and a sentence says why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import Ended
from ropewalk.app.files.session_file import SavedSession, SavedView, read_session
from ropewalk.app.files.session_keeping import open_session, save_session
from ropewalk.app.processes import new_session
from ropewalk.app.session.selected import HeadNote, PinnedHeads
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import AblateHeads, ScaleScores
from ropewalk.model.readings.readout import read_row
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt
from tests.in_process import trace_of

WARM = Sampling(temperature=1.0, top_k=0, top_p=1.0, seed=11)


@pytest.fixture
def checkpoint(tiny: Path, tmp_path: Path) -> Path:
    """A checkpoint of the test's own, to be moved and spoilt."""
    return Path(shutil.copytree(tiny, tmp_path / "models" / "tiny"))


def fresh(qtbot: QtBot, folder: Path, name: str, path: Path | None = None) -> Session:
    session = new_session(SettingsStore(folder / f"{name}.json"))
    session.timeline.set_pace(0)
    with qtbot.waitSignal(session.settled, timeout=60_000):
        session.opening.begin(None if path is None else str(path), prompt=Prompt("ab<c>"))
    return session


@pytest.fixture
def worked(qtbot: QtBot, checkpoint: Path, tmp_path: Path) -> Iterator[Session]:
    """A session in which much was done: five steps by two samplings, one looked back, interventions, a pinned run."""
    session = fresh(qtbot, tmp_path, "one", checkpoint)

    def settle() -> None:
        qtbot.waitUntil(lambda: not session.busy, timeout=60_000)

    session.baseline.pin()
    session.timeline.run_to(7)
    settle()
    session.timeline.set_sampling(WARM)
    session.timeline.run_to(10)
    settle()
    session.interventions.apply([AblateHeads(0, (1,)), ScaleScores(1.5, 1)])
    settle()
    session.timeline.step_back()
    session.selection.update(layer=1, head=2, query=8, key=3, plane=2)
    session.board.pin(1, 3)
    session.board.pin(0, 2)
    session.board.note(0, 2, "looks back")
    settle()
    yield session
    session.close()


def settle(qtbot: QtBot, session: Session) -> None:
    qtbot.waitUntil(lambda: not session.busy, timeout=60_000)


def saved(qtbot: QtBot, session: Session, path: Path, view: SavedView | None = None) -> SavedSession:
    done: list[SavedSession] = []
    failed: list[str] = []
    save_session(session, path, view or SavedView(), done.append, failed.append)
    qtbot.waitUntil(lambda: bool(done or failed), timeout=60_000)
    assert not failed
    return done[0]


def open_file(qtbot: QtBot, session: Session, path: Path) -> str:
    """Open a session file and return what was said against it."""
    done: list[SavedSession] = []
    failed: list[str] = []
    open_session(session, path, done.append, failed.append)
    qtbot.waitUntil(lambda: bool(done or failed) and not session.busy, timeout=60_000)
    return "".join(failed)


def test_a_session_comes_back_in_another_one(qtbot: QtBot, worked: Session, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    view = SavedView(b"layout", "light", True)
    assert saved(qtbot, worked, path, view) == read_session(path)
    assert read_session(path).view == view
    other = fresh(qtbot, tmp_path, "two")
    try:
        assert open_file(qtbot, other, path) == ""
        before, after = worked.scenes.keep(), other.scenes.keep()
        assert before is not None
        assert after is not None
        run, same = before.handle.run, after.handle.run
        assert [token.id for token in same.tokens] == [token.id for token in run.tokens]
        assert (same.prompt, same.length, same.prefill, same.newest) == ("ab<c>", 9, 5, 10)
        assert after.interventions == before.interventions == (AblateHeads(0, (1,)), ScaleScores(1.5, 1))
        assert after.drawn == before.drawn == (Sampling(), Sampling(), WARM, WARM, WARM)
        assert after.selection == before.selection
        assert (other.timeline.sampling, other.model) == (WARM, worked.model)
        assert other.board.now == worked.board.now == PinnedHeads(((1, 3), (0, 2)), (HeadNote(0, 2, "looks back"),))
        assert other.baseline.run is not None
        assert (other.baseline.run.prompt, other.baseline.run.length) == ("ab<c>", 5)
        for layer, head, query in ((0, 1, 4), (1, 2, 8)):
            a, b = (read_row(trace_of(k.handle)[layer], head, query) for k in (before, after))
            np.testing.assert_allclose(b.weights, a.weights, atol=1e-6)
        other.timeline.step()  # the tenth row was kept: looking at it decodes nothing
        assert other.run is not None
        assert other.run.length == 10
    finally:
        other.close()


def test_what_comes_back_goes_on_as_before(qtbot: QtBot, worked: Session, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    saved(qtbot, worked, path)
    other = fresh(qtbot, tmp_path, "two")
    try:
        open_file(qtbot, other, path)
        for session in (worked, other):
            session.timeline.run_to(14)
            settle(qtbot, session)
        assert worked.run is not None
        assert other.run is not None
        assert [t.id for t in other.run.tokens] == [t.id for t in worked.run.tokens]
    finally:
        other.close()


def test_typed_ids_and_the_bundled_model_come_back(qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "ids.ropewalk"
    session = fresh(qtbot, tmp_path, "one")
    try:
        session.start(Prompt("7 8 9", as_ids=True))
        qtbot.waitUntil(lambda: not session.busy, timeout=60_000)
        assert saved(qtbot, session, path).checkpoint.path is None
        session.start(Prompt("words"))
        qtbot.waitUntil(lambda: not session.busy, timeout=60_000)
        assert open_file(qtbot, session, path) == ""
        assert session.run is not None
        assert [token.id for token in session.run.tokens] == [7, 8, 9]
        assert session.prompt == Prompt("7 8 9", as_ids=True)
    finally:
        session.close()


def refused(qtbot: QtBot, worked: Session, path: Path) -> str:
    """What is said against a session file by a session that has something else open, which must stay."""
    worked.start(Prompt("other"))
    qtbot.waitUntil(lambda: not worked.busy, timeout=60_000)
    before = worked.scenes.keep()
    sentence = open_file(qtbot, worked, path)
    assert worked.scenes.keep() == before
    return sentence


def test_a_checkpoint_that_is_gone_is_named(qtbot: QtBot, worked: Session, checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    saved(qtbot, worked, path)
    checkpoint.rename(checkpoint.with_name("elsewhere"))
    assert refused(qtbot, worked, path) == (
        f"work.ropewalk needs tiny, but there is nothing at {checkpoint}; put it back there."
    )


def test_a_checkpoint_that_changed_is_named(qtbot: QtBot, worked: Session, checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    saved(qtbot, worked, path)
    weights = checkpoint / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert refused(qtbot, worked, path).startswith(
        f"work.ropewalk needs tiny as it was, but the files at {checkpoint} have changed since;"
    )


def test_a_prompt_that_gives_other_tokens_is_refused(qtbot: QtBot, worked: Session, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    saved(qtbot, worked, path)
    data = json.loads(path.read_text())
    data["run"]["ids"][0] += 1
    path.write_text(json.dumps(data))
    assert "the tokenizer has changed" in refused(qtbot, worked, path)


def test_an_intervention_that_the_model_does_not_have_is_refused(qtbot: QtBot, worked: Session, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    saved(qtbot, worked, path)
    data = json.loads(path.read_text())
    data["run"]["experiments"][0]["heads"] = [77]
    path.write_text(json.dumps(data))
    assert refused(qtbot, worked, path) == "Head 77 was chosen, but the model has 4, counted from 0."


def test_a_folder_that_moved_with_its_checkpoint_still_opens(
    qtbot: QtBot, worked: Session, checkpoint: Path, tmp_path: Path
) -> None:
    saved(qtbot, worked, checkpoint.parent / "work.ropewalk")
    moved = checkpoint.parent.rename(tmp_path / "moved")
    other = fresh(qtbot, tmp_path, "two")
    try:
        assert open_file(qtbot, other, moved / "work.ropewalk") == ""
        assert other.model is not None
        assert other.model.path == str(moved / "tiny")
    finally:
        other.close()


def test_nothing_to_save_is_reported(qtbot: QtBot, tmp_path: Path) -> None:
    session = new_session(SettingsStore(tmp_path / "none.json"))
    messages: list[str] = []
    save_session(session, tmp_path / "work.ropewalk", SavedView(), lambda saved: None, messages.append)
    assert messages == ["There is nothing to save yet; run a prompt first."]
    session.close()


def test_a_baseline_of_another_model_is_left_out(qtbot: QtBot, worked: Session, tmp_path: Path) -> None:
    worked.opening.open(None)
    qtbot.waitUntil(
        lambda: not worked.busy and worked.model is not None and worked.model.name == "bundled", timeout=60_000
    )
    assert saved(qtbot, worked, tmp_path / "work.ropewalk").baseline is None


def test_a_saved_session_is_plain(qtbot: QtBot, worked: Session, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    written = saved(qtbot, worked, path)
    assert path.read_bytes().isascii()
    assert replace(written, baseline=None) != written


def test_an_engine_that_is_gone_opens_nothing_and_says_so(qtbot: QtBot, tmp_path: Path) -> None:
    session = fresh(qtbot, tmp_path, "gone")
    file = tmp_path / "work.ropewalk"
    saved(qtbot, session, file)
    session.engines.current.lose(Ended("It is gone."))
    said = open_file(qtbot, session, file)
    assert said == "work.ropewalk was not opened: the engine has ended; start it again."
    session.close()
