"""Opening on the real engine, piece by piece: what the model that is open goes on doing, and what ends an opening."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.processes import new_session
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.checkpoints import weights
from ropewalk.model.progress import Pace, Watch
from ropewalk.model.tokens.prompt import Prompt

PIECE = 30
"""The piece of a load in the middle of which something is asked; the tiny checkpoint has some hundreds of 64 numbers
each."""


class Loading:
    """Counts the pieces that were loaded, and does something in the middle of one."""

    def __init__(self) -> None:
        self.pieces = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def check(self, *whatever: Any) -> None:
        """Stands in for the check of a piece."""
        self.pieces += 1
        if self.pieces == PIECE:
            self.meanwhile()


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Loading:
    made = Loading()
    monkeypatch.setattr(weights, "_pace", lambda: Pace(64, 64))
    monkeypatch.setattr(Watch, "over", property(lambda self: True))
    monkeypatch.setattr(weights, "_check_finite", made.check)
    return made


@pytest.fixture
def session(qtbot: QtBot, tmp_path: Path, tiny: Path, loading: Loading) -> Iterator[Session]:
    """A run of six tokens on the real engine."""
    session = new_session(SettingsStore(tmp_path / "settings.json"))
    with qtbot.waitSignal(session.run_changed, timeout=60_000):
        session.opening.begin(str(tiny), prompt=Prompt("abcdef"))
    qtbot.waitUntil(lambda: not session.busy, timeout=60_000)
    loading.pieces = 0
    yield session
    session.close()


def test_a_decode_step_waits_for_no_load(qtbot: QtBot, session: Session, loading: Loading, wordless: Path) -> None:
    at: dict[str, int] = {}
    session.run_changed.connect(lambda before, run: at.setdefault(f"{run.length} rows", loading.pieces))
    session.model_changed.connect(lambda card: at.setdefault("model", loading.pieces))
    before = session.model
    loading.meanwhile = session.timeline.step
    session.opening.open(str(wordless))
    qtbot.waitUntil(lambda: "model" in at, timeout=60_000)
    assert PIECE <= at["7 rows"] < at["model"]
    assert at["model"] > 4 * PIECE
    assert session.model is not before


def test_a_cancel_ends_a_load_and_keeps_what_is_open(
    qtbot: QtBot, session: Session, loading: Loading, wordless: Path
) -> None:
    before, run = session.model, session.run
    loading.meanwhile = session.cancel
    session.opening.open(str(wordless))
    qtbot.waitUntil(lambda: loading.pieces >= PIECE, timeout=60_000)
    with qtbot.waitSignal(session.run_changed, timeout=60_000):
        session.timeline.step()
    assert loading.pieces == PIECE
    assert session.model is before
    assert session.run is not None
    assert run is not None
    assert session.run.length == run.length + 1


def test_a_wrong_file_keeps_what_is_open(qtbot: QtBot, session: Session, tiny: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(tiny, tmp_path / "broken")
    file = broken / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    before, run = session.model, session.run
    with qtbot.waitSignal(session.failed, timeout=60_000) as failed:
        session.opening.open(str(broken))
    assert failed.args is not None
    assert "model.safetensors" in failed.args[0]
    assert (session.model, session.run) == (before, run)
    with qtbot.waitSignal(session.run_changed, timeout=60_000):
        session.timeline.step()
