"""Real engines end, each in a way of its own: the session keeps what it shows, says why, and has all of it again."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.engine import connection as connecting
from ropewalk.app.engine.connection import Connection
from ropewalk.app.engine.deaths import MOST, explained
from ropewalk.app.engine.process import ProcessConnection
from ropewalk.app.processes import light_process, new_session, packing
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.child_process import child_command
from ropewalk.model.decoder.interventions import NoScale
from ropewalk.model.engine.questions import AskHead, AskNextToken
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt
from tests.app.tiny_checkpoint import write_chatty
from tests.closeness import assert_close
from tests.processes import DEADLINE, ROOT, family, python, started, staying
from tests.relay import elsewhere

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and signals as Linux has them"),
]

SAID = "The engine has ended ({}); what is on screen stays, and nothing is computed until it is started again. {}"


class Heard:
    """What a session says until it is let go."""

    def __init__(self, session: Session) -> None:
        self.failed: list[str] = []
        self.ended: list[str] = []
        self._session = session
        session.failed.connect(self._on_failed)
        session.recovery.engine_ended.connect(self._on_ended)

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
    session.opening.begin(str(own), prompt=Prompt("abcabc"))
    acts: list[Callable[[], object]] = [
        lambda: None,
        session.baseline.pin,
        lambda: session.interventions.apply((NoScale(0),)),
        lambda: session.timeline.set_sampling(Sampling(temperature=0.5, seed=2)),
        lambda: session.timeline.run_to(9),
        session.timeline.step_back,
    ]
    for act in acts:
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
        worked.recovery.restart()
    settle(qtbot, worked)
    assert state(worked) == before


def test_a_real_engine_that_is_killed_is_made_again_with_its_numbers(qtbot: QtBot, session: Session) -> None:
    before, was, heard = state(session), numbers(qtbot, session), Heard(session)
    os.kill(engine_of(session).pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: session.engines.gone is not None)
    assert (heard.ended, heard.failed) == ([SAID.format("SIGKILL", explained("SIGKILL"))], [])
    assert state(session) == before
    with qtbot.waitSignal(session.recovery.engine_back, timeout=60_000):
        session.recovery.restart()
    settle(qtbot, session)
    assert state(session) == before
    assert_same(numbers(qtbot, session), was)
    assert heard.failed == []


def holding(folder: Path) -> Path:
    """A file that holds up whoever reads it for minutes: keys that all have one hash are compared with each other."""
    modulus = sys.hash_info.modulus
    keys = b"".join(b"\x8a\x0c" + (one * modulus).to_bytes(12, "little") + b"K\x01" for one in range(1, 200_000))
    path = folder / "weights.pth"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"\x80\x02}(" + keys + b"u.")
        file.writestr("archive/version", "3\n")
        file.writestr("archive/byteorder", "little")
    return path


@pytest.mark.slow
def test_a_file_that_holds_the_interpreter_holds_nobody_else(
    qtbot: QtBot, session: Session, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "PATIENCE_MS", 400)
    heard, killed, evil = Heard(session), list[None](), holding(tmp_path)
    was, current = numbers(qtbot, session), engine_of(session)
    session.engines.opener_killed.connect(lambda: killed.append(None))
    session.opening.open(str(evil))
    opener = session.engines.prepare()
    qtbot.waitUntil(lambda: reads(opener, evil), timeout=60_000)
    assert_same(numbers(qtbot, session), was)
    session.cancel()
    qtbot.waitUntil(lambda: opener.gone is not None, timeout=60_000)
    assert killed == [None]
    # a look at it, and then at another one
    found: list[Any] = []
    session.checkpoints.outline(str(evil), found.append, found.append)
    qtbot.waitUntil(lambda: reads(session.engines.prepare(), evil), timeout=60_000)
    session.checkpoints.outline(str(own), found.append, found.append)
    qtbot.waitUntil(lambda: bool(found), timeout=60_000)
    assert found[0].name == own.name
    session.engines.dismiss()
    assert (heard.ended, heard.failed) == ([], [])
    assert engine_of(session) is current


def reads(connection: Connection, file: Path) -> bool:
    """Whether a process has a file open."""
    assert isinstance(connection, ProcessConnection)
    return any(Path(one.path) == file for one in psutil.Process(connection.pid).open_files())


@pytest.mark.slow
def test_a_file_that_ends_the_process_is_named_and_the_run_stays(
    qtbot: QtBot, session: Session, tmp_path: Path
) -> None:
    heard = Heard(session)
    evil = holding(tmp_path)
    session.opening.open(str(evil))
    opener = session.engines.prepare()
    assert isinstance(opener, ProcessConnection)
    qtbot.waitUntil(lambda: reads(opener, evil), timeout=60_000)
    os.kill(opener.pid, signal.SIGSEGV)
    settle(qtbot, session)
    assert heard.failed == [
        f"weights.pth could not be opened: the process that read it ended (SIGSEGV). {explained('SIGSEGV')}"
    ]
    assert heard.ended == []
    assert session.engines.gone is None


def cut_off(weights: Path) -> None:
    os.truncate(weights, 0)


def replaced(weights: Path) -> None:
    """Put another file in the place of this one, whose bytes stay for whoever has it open."""
    other = weights.with_suffix(".new")
    other.write_bytes(bytes(weights.stat().st_size))
    other.replace(weights)


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [cut_off, replaced])
def test_a_checkpoint_that_is_spoilt_while_it_is_open_is_needed_only_to_bring_it_back(
    qtbot: QtBot, session: Session, own: Path, spoil: Callable[[Path], None]
) -> None:
    before, was, heard, weights = state(session), numbers(qtbot, session), Heard(session), own / "model.safetensors"
    whole = weights.read_bytes()
    spoil(weights)
    assert_same(numbers(qtbot, session), was)
    os.kill(engine_of(session).pid, signal.SIGBUS)
    qtbot.waitUntil(lambda: session.engines.gone is not None)
    for _ in range(MOST + 1):  # as often as somebody likes: this ends no engine
        session.recovery.restart()
        settle(qtbot, session)
        assert weights.name in heard.ended.pop()
        assert not session.recovery.is_lost
    assert (heard.ended, heard.failed) == ([SAID.format("SIGBUS", explained("SIGBUS"))], [])
    assert state(session) == before
    weights.write_bytes(whole)
    session.recovery.restart()
    settle(qtbot, session)
    assert state(session) == before
    assert_same(numbers(qtbot, session), was)


@pytest.mark.slow
def test_a_checkpoint_that_is_cut_off_while_it_is_read_is_refused_and_ends_nothing(
    qtbot: QtBot, session: Session, own: Path, tmp_path: Path
) -> None:
    large, heard = larger(own, tmp_path), Heard(session)
    size = (large / "model.safetensors").stat().st_size
    opener = session.engines.prepare()
    assert isinstance(opener, ProcessConnection)
    looked: list[Any] = []
    session.checkpoints.outline(str(large), looked.append, looked.append)  # torch is there by then
    qtbot.waitUntil(lambda: bool(looked), timeout=60_000)
    process = psutil.Process(opener.pid)
    until = process.memory_info().rss + size // 8
    session.opening.open(str(large))
    qtbot.waitUntil(lambda: process.memory_info().rss > until, timeout=60_000)
    os.truncate(large / "model.safetensors", 0)
    settle(qtbot, session)
    assert heard.failed == [
        "model.safetensors was cut short while it was read: it ends where a weight was; open it again when it is whole."
    ]
    assert heard.ended == []


def larger(own: Path, folder: Path) -> Path:
    """The checkpoint with tokens by the millions, whose zeros take no room on the disk."""
    large, rows, name = shutil.copytree(own, folder / "large"), 1 << 22, "model.embed_tokens.weight"
    config = json.loads((large / "config.json").read_text(encoding="utf-8"))
    (large / "config.json").write_text(json.dumps(config | {"vocab_size": rows}), encoding="utf-8")
    file = large / "model.safetensors"
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    kept, place = b"", 0
    for tensor in (tensor for key, tensor in header.items() if key != name):
        first, last = tensor["data_offsets"]
        kept += body[first:last]
        tensor["data_offsets"], place = [place, place + last - first], place + last - first
    end = place + 4 * rows * config["hidden_size"]
    header[name] |= {"shape": [rows, config["hidden_size"]], "data_offsets": [place, end]}
    written = json.dumps(header).encode()
    with file.open("wb") as out:
        out.write(len(written).to_bytes(8, "little") + written + kept)
        out.truncate(8 + len(written) + end)
    return large


@pytest.mark.slow
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
    session.opening.begin(prompt=Prompt("a"))
    settle(qtbot, session)
    assert len(heard.failed) + len(heard.ended) == 1
    assert session.run is None
    session.close()


@pytest.mark.slow
def test_a_run_that_gets_no_memory_leaves_the_one_before(qtbot: QtBot, own: Path, tmp_path: Path) -> None:
    session = new_session(SettingsStore(tmp_path / "settings.json"))
    session.opening.begin(str(larger(own, tmp_path)), prompt=Prompt("ab"))
    settle(qtbot, session)
    before, heard, process = state(session), Heard(session), psutil.Process(engine_of(session).pid)
    everything = process.rlimit(psutil.RLIMIT_AS)
    process.rlimit(psutil.RLIMIT_AS, (process.memory_info().vms, everything[1]))
    session.start(Prompt("abcd" * 12))  # with logits of some megabytes for each token
    settle(qtbot, session)
    assert len(heard.failed) + len(heard.ended) == 1
    assert state(session) == before
    if session.engines.gone is None:
        process.rlimit(psutil.RLIMIT_AS, everything)
    session.start(Prompt("abcd" * 12))
    settle(qtbot, session)
    assert session.run is not None
    assert session.run.length == 48
    assert len(heard.failed) + len(heard.ended) == 1
    session.close()


# The window is killed -------------------------------------------------------------------------------------------------

WINDOW = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from ropewalk.app.processes import new_session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.tokens.prompt import Prompt
app = QCoreApplication([])
session = new_session(SettingsStore(Path(sys.argv[2])))
session.jobs.show_after = 0
session.opening.begin(sys.argv[1], Prompt("Hello", chat=sys.argv[3]))
app.exec()
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_here", [True, False], ids=["here", "elsewhere"])
def test_a_window_that_is_killed_in_the_middle_of_a_job_leaves_nothing(tmp_path: Path, is_here: bool) -> None:
    """Its engine, at the end of a slow line where it is elsewhere, renders an endless chat template in a child."""
    endless = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
    folder, settings = write_chatty(tmp_path / "chatty", endless), tmp_path / "settings.json"
    there = elsewhere(tmp_path, sys.executable, str(ROOT / "main.py"), "engine")
    SettingsStore(settings).update(engine="" if is_here else shlex.join(there))
    with started(python(WINDOW, str(folder), str(settings), "default")) as window:
        left = members(window.pid, "chat_child")
        window.kill()
        assert staying(left) == 0
        window.communicate()


def members(pid: int, wanted: str) -> list[int]:
    """Descriptors of a process and all that it has started, once one of these is what is wanted."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        lines = [" ".join(child.cmdline()) for child in psutil.Process(pid).children(recursive=True)]
        if any(wanted in line for line in lines):
            return family(pid)
    raise AssertionError(f"No {wanted} among {lines}.")
