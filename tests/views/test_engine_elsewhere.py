"""A window whose engine runs elsewhere: by a shell with another home and folder, at the end of a slow link."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk import __main__ as program
from ropewalk import __version__
from ropewalk.app import processes
from ropewalk.app.engine.connection import Connection
from ropewalk.app.files.exporting import export_trace
from ropewalk.app.settings import SettingsStore
from ropewalk.model.engine.frames import Message
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures.snapshot import wait_until_drawn
from tests.app.tiny_checkpoint import write_checkpoint
from tests.processes import ROOT
from tests.relay import elsewhere
from tests.views import driving
from tests.views.driving import front, opened_window, run_of, start_dark

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX"),
]

LENGTH = 512
"""Tokens of the prompt: a picture of a head is a megabyte for each of its two maps."""


def command(home: Path) -> str:
    """What starts an engine on another machine, whose shell greets: at the end of a line of 20 ms and 5 MB/s."""
    return shlex.join(elsewhere(home, sys.executable, str(ROOT / "main.py"), "engine"))


def checkpoint(folder: Path) -> Path:
    """A tiny checkpoint with room for a long prompt."""
    write_checkpoint(folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 2 * LENGTH}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of the other machine, with a checkpoint in it, and one in its cache."""
    home = tmp_path_factory.mktemp("other") / "home"
    (home / "models").mkdir(parents=True)
    checkpoint(home / "models" / "tiny")
    snapshot = home / ".cache" / "huggingface" / "hub" / "models--org--there" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").touch()
    (snapshot / "model.safetensors").touch()
    return home


@pytest.fixture(scope="module")
def window(home: Path, qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MainWindow]:
    """A window over an engine there, with a prompt run on the checkpoint there, by its path from the folder `/`."""
    start_dark()
    folder = tmp_path_factory.mktemp("settings")
    SettingsStore(folder / "settings.json").update(engine=command(home))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driving, "new_session", processes.new_session)
        with opened_window(folder, there(home), "ab" * (LENGTH // 2)) as made:
            yield made


def there(home: Path) -> str:
    """The checkpoint's path as it is typed: from the folder in which a shell begins there, and which is not ours."""
    return str(home / "models" / "tiny").removeprefix("/")


class Listening:
    """What is asked on a connection, and what is said on it, which can be held back."""

    def __init__(self, connection: Connection, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.held: list[Message] | None = None
        self._arrived = connection.arrived
        ask = connection.call

        def call(request: Any, slot: str, *rest: Any) -> int:
            self.asked.append(slot)
            return ask(request, slot, *rest)

        patch.setattr(connection, "call", call)
        patch.setattr(connection, "arrived", self.hear)

    def hear(self, message: Message) -> None:
        if self.held is None:
            self._arrived(message)
        else:
            self.held.append(message)

    def let_go(self) -> None:
        held, self.held = self.held or [], None
        for message in held:
            self._arrived(message)


def turns(count: int) -> None:
    """Let Qt's loop run for some of its turns."""
    loop, left = QEventLoop(), [count]
    timer = QTimer()

    def tick() -> None:
        left[0] -= 1
        if not left[0]:
            loop.quit()

    timer.timeout.connect(tick)
    timer.start(0)
    loop.exec()
    timer.stop()


def taken(connection: Connection) -> int:
    """Bytes that have come."""
    return int(connection._frames.taken)  # type: ignore[attr-defined]


def test_it_runs_there(window: MainWindow, home: Path) -> None:
    session = window.session
    assert run_of(window).length == LENGTH
    assert (session.elsewhere, session.engines.current.host) == (platform.node(), platform.node())
    assert f" · cpu on {platform.node()} · " in window.status.facts.text()
    assert "Welcome to another machine" in session.engines.current.details  # type: ignore[attr-defined]
    assert session.settings.now.recent == ()
    assert session.opened.recent == (there(home),)


def test_what_lies_there_is_listed(window: MainWindow, home: Path) -> None:
    checkpoints, found, failed = window.session.checkpoints, list[Any](), list[str]()
    checkpoints.list_local(found.append)
    wait_until_drawn(window)
    assert [model.name for model in found.pop()] == ["org/there"]
    # in the engine that has the model, for a second one would bring in torch for nothing
    patch = pytest.MonkeyPatch()
    patch.setattr(window.session.engines, "prepare", lambda: window.session.engines.current)
    checkpoints.list_folder("~/models", found.append, failed.append)
    wait_until_drawn(window)
    patch.undo()
    folder = found.pop()
    assert (folder.path, [entry.name for entry in folder.entries]) == (str(home / "models"), ["tiny"])


def test_a_selection_costs_each_panel_one_round_trip_and_the_window_does_not_wait(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("scores", "rope", "why", "next_token"):
        front(window, name)
    selection, heads = window.session.selection, run_of(window).config.heads
    listening = Listening(window.session.engines.current, monkeypatch)
    for changes in ({"head": (selection.now.head + 1) % heads}, {"query": 40, "key": 30}, {"layer": 1}):
        listening.asked.clear()
        listening.held = []
        selection.update(**changes)
        turns(30)  # they go on although nothing is answered
        assert window.session.busy
        asked = list(listening.asked)
        assert asked
        assert max(Counter(asked).values()) == 1
        listening.let_go()
        wait_until_drawn(window)
        assert listening.asked == asked, "no panel has to hear of one thing before it can ask for another"


@pytest.mark.slow
def test_pictures_that_nobody_wants_any_more_do_not_come(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = front(window, "scores")
    monkeypatch.setattr(panel, "_pixels", lambda: LENGTH)  # as in a window that is twice as wide
    session, connection = window.session, window.session.engines.current
    session.selection.update(head=0, layer=0)
    wait_until_drawn(window)
    before = taken(connection)
    session.selection.update(head=1)
    wait_until_drawn(window)
    picture = taken(connection) - before
    assert picture > 2 * 4 * LENGTH**2
    before = taken(connection)
    session.selection.update(head=2)
    while taken(connection) - before < 1 << 16:  # it has begun to come
        turns(1)
    for turn in range(9):
        session.selection.update(head=turn % 4)
        turns(1)
    wait_until_drawn(window)
    assert panel.picture.head == turn % 4
    assert taken(connection) - before < 1.9 * picture, "of the first no more came than had been begun"


@pytest.mark.slow
def test_another_version_there_is_said(qapp: QApplication, home: Path, qtbot: QtBot) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import ropewalk; ropewalk.__version__ = '0.1.9'; "
    code += "from ropewalk.__main__ import main; main(['engine'])"
    connection = processes.light_process(qapp, shlex.join(elsewhere(home, sys.executable, "-c", code)))
    with qtbot.waitSignal(connection.ended, timeout=20_000):
        pass
    assert connection.gone is not None
    assert connection.gone.sentence == (
        f"The engine on {platform.node()} is Ropewalk 0.1.9, but this window is {__version__}; install the same "
        "version on both machines."
    )
    connection.wait()
    connection.deleteLater()


@pytest.mark.slow
def test_a_link_that_breaks_leaves_the_old_file_and_what_is_on_screen(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    path, failed, session = tmp_path / "run.safetensors", list[str](), window.session
    path.write_bytes(b"old")
    before, connection = run_of(window), session.engines.current
    came = taken(connection)
    export_trace(session, path, lambda _: failed.append("it came"), failed.append)
    while taken(connection) - came < 1 << 15:  # it has begun to come
        turns(1)
    connection.kill()
    qtbot.waitUntil(lambda: bool(failed), timeout=20_000)
    assert failed == ["run.safetensors was not written: the engine has ended; start it again."]
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])
    assert session.run is before
    session.recovery.restart()
    wait_until_drawn(window)
    assert [token.id for token in run_of(window).tokens] == [token.id for token in before.tokens]
    assert session.elsewhere == platform.node()


@pytest.mark.slow
def test_a_picture_is_drawn_here_of_a_run_there(qapp: QApplication, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "window.png"
    typed = ["--engine", command(home), "snapshot", str(out), there(home), "--prompt", "abcabc", "--size", "800x600"]
    assert program.main(typed) == 0
    assert out.is_file()
