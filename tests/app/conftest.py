"""What the tests of the app share: jobs and a session over an engine without torch, and tiny checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.app.jobs import Jobs
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.tokens.prompt import Prompt
from tests.fake_engine import FakeEngine
from tests.in_process import without_packing


@pytest.fixture
def jobs(qtbot: QtBot) -> Iterator[Jobs]:
    """Jobs whose progress is shown at once."""
    jobs = Jobs(show_after=0.0)
    yield jobs
    jobs.close()


@pytest.fixture
def engine() -> FakeEngine:
    """An engine without torch."""
    return FakeEngine()


@pytest.fixture
def store(tmp_path: Path) -> SettingsStore:
    """Settings in a folder of the test's own."""
    return SettingsStore(tmp_path / "settings.json")


@pytest.fixture
def session(qtbot: QtBot, engine: FakeEngine, store: SettingsStore) -> Iterator[Session]:
    """A session that has opened nothing yet."""
    session = Session(store, *without_packing(engine))
    session.timeline.set_pace(0)
    yield session
    session.close()


@pytest.fixture
def running(qtbot: QtBot, session: Session) -> Session:
    """A session with a run of ``abc`` on screen and nothing left to do."""
    with qtbot.waitSignal(session.settled):
        session.opening.begin(prompt=Prompt("abc"))
    return session


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint folder."""
    from tests.app.tiny_checkpoint import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "tiny")


@pytest.fixture(scope="session")
def wordless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint folder without a tokenizer."""
    from tests.app.tiny_checkpoint import write_checkpoint

    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "wordless", tokenizer=False)
