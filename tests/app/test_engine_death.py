"""Real engines end, each in a way of its own: the session keeps what it shows, says why, and has all of it again."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.engine import connection as connecting
from ropewalk.app.engine.connection import Connection
from ropewalk.app.engine.process import ProcessConnection
from ropewalk.app.processes import light_process, new_session, packing
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.child_process import child_command
from ropewalk.model.decoder.interventions import NoScale
from ropewalk.model.engine.questions import AskHead, AskNextToken
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt
from tests.closeness import assert_close

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and signals as Linux has them"),
]

SAID = "The engine has ended ({}), so nothing can be computed; what is on screen stays; start it again."


class Heard:
    """What a session says until it is let go."""

    def __init__(self, session: Session) -> None:
        self.failed: list[str] = []
        self.ended: list[str] = []
        self._session = session
        session.failed.connect(self._on_failed)
        session.engine_ended.connect(self._on_ended)

    def _on_failed(self, sentence: str, details: str) -> None:
        self.failed.append(sentence)

    def _on_ended(self, sentence: str, details: str) -> None:
        self.ended.append(sentence)


def settle(qtbot: QtBot, session: Session) -> None:
    qtbot.waitUntil(lambda: not session.busy, timeout=60_000)


def numbers(qtbot: QtBot, session: Session) -> dict[str, Any]:
    """Weights of a head, and what comes next with its logits, whatever else is going on."""
    found: dict[str, Any] = {}
    session.ask("one", AskHead(1, 2), lambda reading: found.update(weights=reading.value.weights.values))
    session.ask(
        "other",
        AskNextToken(6, 10, Sampling()),
        lambda reading: found.update(logits=[one.logit for one in reading.value.candidates]),
    )
    qtbot.waitUntil(lambda: len(found) == 2, timeout=60_000)
    return found


def assert_same(now: dict[str, Any], then: dict[str, Any]) -> None:
    """Hold numbers of one run in two processes to each other: sums of up to 48 terms, a few one after the other."""
    for name, numbers in then.items():
        assert_close(now[name], numbers, 8 * 48, 1.0)


def state(session: Session) -> dict[str, Any]:
    """All that a person would miss."""
    assert session.handle is not None
    run, pinned = session.handle.run, session.baseline.run
    return {
        "prompt": session.handle.prompt,
        "tokens": [token.id for token in run.tokens],
        "rows": (run.prefill, run.length, run.newest),
        "drawn": session.timeline.drawn,
        "interventions": session.interventions.now,
        "pinned": None if pinned is None else [token.id for token in pinned.tokens],
        "selection": session.selection.now,
        "model": session.model,
    }


def engine_of(session: Session) -> ProcessConnection:
    current = session.engines.current
    assert isinstance(current, ProcessConnection)
    return current


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """A checkpoint that may be damaged."""
    return shutil.copytree(tiny, tmp_path_factory.mktemp("own") / "own")


@pytest.fixture(scope="module")
def worked(qapp: QApplication, own: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session with real processes, in which a person has done something."""
    session = new_session(SettingsStore(tmp_path_factory.mktemp("settings") / "settings.json"))
    session.begin(str(own), prompt=Prompt("abcabc"))
    for act in (
        lambda: None,
        session.baseline.pin,
        lambda: session.interventions.apply((NoScale(0),)),
        lambda: session.timeline.set_sampling(Sampling(temperature=0.5, seed=2)),
        lambda: session.timeline.run_to(9),
        session.timeline.step_back,
    ):
        act()
        while session.busy:
            qapp.processEvents()
    session.selection.update(layer=1, head=2, query=6, key=3)
    yield session
    session.close()


@pytest.fixture
def session(qtbot: QtBot, worked: Session) -> Iterator[Session]:
    """The session, as it is when all is well; it has to be so again at the end."""
    before = state(worked)
    yield worked
    if worked.engines.gone is not None:
        worked.restart()
    settle(qtbot, worked)
    assert state(worked) == before


def test_a_real_engine_that_is_killed_is_made_again_with_its_numbers(qtbot: QtBot, session: Session) -> None:
    before, was, heard = state(session), numbers(qtbot, session), Heard(session)
    os.kill(engine_of(session).pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: session.engines.gone is not None)
    assert (heard.ended, heard.failed) == ([SAID.format("SIGKILL")], [])
    assert state(session) == before
    with qtbot.waitSignal(session.engine_back, timeout=60_000):
        session.restart()
    settle(qtbot, session)
    assert state(session) == before
    assert_same(numbers(qtbot, session), was)
    assert heard.failed == []


def holding(folder: Path) -> Path:
    """A few bytes that hold the interpreter for ever: a tuple of two tuples of two tuples …, whose hash is wanted."""
    doubled = b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60))
    path = folder / "weights.pth"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"\x80\x02}K\x01K\x01\x86q\x00" + doubled + b"}h\x3c]s.")
        file.writestr("archive/version", "3\n")
        file.writestr("archive/byteorder", "little")
    return path


def test_a_file_that_holds_the_interpreter_holds_nobody_else(
    qtbot: QtBot, session: Session, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "PATIENCE_MS", 400)
    heard, killed, evil = Heard(session), list[None](), holding(tmp_path)
    was, current = numbers(qtbot, session), engine_of(session)
    session.engines.opener_killed.connect(lambda: killed.append(None))
    begun: list[Any] = []
    session.progress_changed.connect(begun.append)
    session.open(str(evil))
    qtbot.waitUntil(lambda: any(begun), timeout=60_000)
    assert_same(numbers(qtbot, session), was)
    opener = session.engines.prepare()
    session.cancel()
    qtbot.waitUntil(lambda: opener.gone is not None, timeout=60_000)
    assert killed == [None]
    # a look at it, and then at another one
    found: list[Any] = []
    session.checkpoints.outline(str(evil), found.append, found.append)
    qtbot.waitUntil(lambda: session.engines.prepare().host != "", timeout=60_000)
    session.checkpoints.outline(str(own), found.append, found.append)
    qtbot.waitUntil(lambda: bool(found), timeout=60_000)
    assert found[0].name == own.name
    session.engines.dismiss()
    assert (heard.ended, heard.failed) == ([], [])
    assert engine_of(session) is current


def test_a_file_that_ends_the_process_is_named_and_the_run_stays(
    qtbot: QtBot, session: Session, tmp_path: Path
) -> None:
    heard = Heard(session)
    session.open(str(holding(tmp_path)))
    opener = session.engines.prepare()
    assert isinstance(opener, ProcessConnection)
    qtbot.waitUntil(lambda: opener.host != "", timeout=60_000)
    os.kill(opener.pid, signal.SIGSEGV)
    settle(qtbot, session)
    assert heard.failed == [
        "weights.pth could not be opened: the process that read it ended (SIGSEGV); the file may be damaged."
    ]
    assert heard.ended == []
    assert session.engines.gone is None


@pytest.mark.slow
def test_weights_that_are_cut_off_while_they_are_open(qtbot: QtBot, session: Session, own: Path) -> None:
    before, was, heard, weights = state(session), numbers(qtbot, session), Heard(session), own / "model.safetensors"
    whole = weights.read_bytes()
    os.truncate(weights, 0)
    session.start(Prompt("fedcba"))
    settle(qtbot, session)
    assert (heard.ended, heard.failed) == ([SAID.format("SIGBUS")], [])
    assert state(session) == before
    session.restart()
    settle(qtbot, session)
    assert weights.name in heard.ended[1]
    assert state(session) == before
    weights.write_bytes(whole)
    session.restart()
    settle(qtbot, session)
    assert state(session) == before
    assert_same(numbers(qtbot, session), was)


@pytest.mark.parametrize("megabytes", [400, 700])
def test_an_engine_that_gets_no_memory_is_a_sentence(qtbot: QtBot, tmp_path: Path, megabytes: int) -> None:
    """Torch is not even loaded: that fails, or ends the process."""

    def start(parent: QObject, command: str) -> Connection:
        limited = f'ulimit -v {megabytes * 1024}; exec "$@"'
        words = ["sh", "-c", limited, "sh", *child_command("__main__", "engine")]
        made = ProcessConnection(words, packing(), parent=parent)
        made.greet(warm=True)
        return made

    session = Session(SettingsStore(tmp_path / "settings.json"), start, light_process)
    heard = Heard(session)
    session.begin(prompt=Prompt("a"))
    settle(qtbot, session)
    assert len(heard.failed) + len(heard.ended) == 1
    assert session.run is None
    session.close()


@pytest.mark.slow
def test_a_run_that_gets_no_memory_is_a_sentence_or_an_end(qtbot: QtBot, session: Session) -> None:
    before, heard, pid = state(session), Heard(session), engine_of(session).pid
    resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
    session.start(Prompt("abcdefgh" * 8))
    settle(qtbot, session)
    assert len(heard.failed) + len(heard.ended) <= 1
    if session.engines.gone is None:
        resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert before
