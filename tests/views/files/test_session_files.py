"""Sessions through the window: saved and opened by keys, dropped, kept when nobody saved; nothing made is lost."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QObject, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QMenu
from pytestqt.qtbot import QtBot

from ropewalk.app.files.session_file import read_session
from ropewalk.app.processes import new_session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures.snapshot import wait_until_drawn
from ropewalk.views.style import theme
from tests.app.filled_lessons import SHELF
from tests.app.tiny_checkpoint import write_checkpoint
from tests.qt_guards import delete_what_is_due
from tests.views.driving import LIGHT
from tests.views.real_window import PROMPT, real_window

CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    with real_window(tmp_path, workspace=LIGHT) as opened:
        yield opened


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A checkpoint other than the bundled one."""
    return write_checkpoint(tmp_path / "tiny")


Do = Callable[[Callable[[], object]], str]


@pytest.fixture
def do(qtbot: QtBot, window: MainWindow) -> Do:
    """Save or open, wait for the end, and return what was said: a sentence against it, or that it is done."""
    messages: list[str] = []
    window.files.sessions.finished.connect(messages.append)
    window.files.sessions.failed.connect(messages.append)

    def run(start: Callable[[], object]) -> str:
        messages.clear()
        start()
        qtbot.waitUntil(lambda: bool(messages) and not window.session.busy, timeout=60_000)
        return messages[0]

    return run


def work(qtbot: QtBot, window: MainWindow) -> None:
    """Decode, change something, and look at a place."""
    session = window.session
    assert session.run is not None
    session.timeline.run_to(session.run.length + 3)
    qtbot.waitUntil(lambda: not session.busy, timeout=60_000)
    session.interventions.apply([AblateHeads(1, (2,))])
    qtbot.waitUntil(lambda: not session.busy, timeout=60_000)
    session.selection.update(layer=2, head=5, query=7, key=3, plane=1)
    wait_until_drawn(window)


def drop(window: MainWindow, path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    event = QDropEvent(
        QPointF(50, 50), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    window.dropEvent(event)
    assert event.isAccepted()


def state(window: MainWindow) -> tuple[Any, ...]:
    session, run = window.session, window.session.run
    assert run is not None
    tokens = [token.id for token in run.tokens]
    return run.prompt, tokens, run.prefill, run.length, session.interventions.now, session.selection.now


def has_run(window: MainWindow) -> bool:
    return window.session.run is not None


def test_a_session_is_saved_by_key_and_dropped_back(qtbot: QtBot, window: MainWindow, do: Do, tmp_path: Path) -> None:
    work(qtbot, window)
    window.set_look("light")
    window.show_workspace("rope")
    window.stage.move_edge(window.stage.edges[0], -40)
    width = window.cards["rope"].width()
    before, path = state(window), tmp_path / "my work.ropewalk"
    window.setFocus()
    QTest.keyClick(window, Qt.Key.Key_S, CONTROL)
    dialog = window.findChild(QFileDialog, "sessions")
    assert isinstance(dialog, QFileDialog)
    assert dialog.acceptMode() == QFileDialog.AcceptMode.AcceptSave
    assert Path(dialog.selectedFiles()[0]).name == "session.ropewalk"
    assert do(lambda: dialog.fileSelected.emit(str(path))) == "Saved my work.ropewalk"
    dialog.reject()
    assert window.windowTitle() == "my work.ropewalk — Ropewalk"

    window.set_look("dark")
    window.reset_layout()
    assert window.cards["rope"].width() == width + 40
    window.show_workspace("overview")
    window.session.start(Prompt("something else"))
    qtbot.waitUntil(lambda: not window.session.busy, timeout=60_000)
    assert state(window) != before
    assert do(lambda: drop(window, path)) == "Opened my work.ropewalk"
    assert state(window) == before
    assert theme.current().name == "light"
    assert window.stage.workspace == "rope"
    assert window.cards["rope"].width() == width
    assert window.bar.prompt.text() == PROMPT


def test_saving_again_asks_nothing(qtbot: QtBot, window: MainWindow, do: Do, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    assert do(lambda: window.files.sessions.save_to(str(path))) == "Saved work.ropewalk"
    assert read_session(path).run.decoded == ()
    work(qtbot, window)
    window.setFocus()
    assert do(lambda: QTest.keyClick(window, Qt.Key.Key_S, CONTROL)) == "Saved work.ropewalk"
    assert len(read_session(path).run.decoded) == 3
    assert window.status.what.text() == "Saved work.ropewalk"


def test_a_baseline_of_another_model_is_left_out_with_a_notice(
    qtbot: QtBot, window: MainWindow, do: Do, tiny: Path, tmp_path: Path
) -> None:
    window.session.baseline.pin()
    window.session.opening.open(str(tiny))
    qtbot.waitUntil(lambda: window.session.model is not None and window.session.model.name == "tiny", timeout=60_000)
    qtbot.waitUntil(lambda: not window.session.busy, timeout=60_000)
    path = tmp_path / "work.ropewalk"
    assert do(lambda: window.files.sessions.save_to(str(path))) == (
        "Saved work.ropewalk, without the pinned run of another model"
    )
    window.session.baseline.unpin()
    assert do(lambda: window.files.sessions.save_to(str(path))) == "Saved work.ropewalk"


def test_the_open_dialog_opens_by_key(qtbot: QtBot, window: MainWindow, do: Do, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    do(lambda: window.files.sessions.save_to(str(path)))
    window.setFocus()
    QTest.keyClick(window, Qt.Key.Key_O, CONTROL | SHIFT)
    dialog = window.findChild(QFileDialog, "sessions")
    assert isinstance(dialog, QFileDialog)
    assert do(lambda: dialog.fileSelected.emit(str(path))) == "Opened work.ropewalk"
    dialog.reject()


def recent_menu(window: MainWindow) -> QMenu:
    menu = window.bar.checkpoint.menu()
    menu.aboutToShow.emit()
    action = next(entry for entry in menu.actions() if entry.text() == "Recent sessions")
    found = action.menu()
    assert isinstance(found, QMenu)
    return found


def test_opening_the_menu_again_and_again_keeps_nothing(window: MainWindow) -> None:
    window.session.settings.remember_checkpoint("/some/where")
    recent_menu(window)
    before = Counter(type(one).__name__ for one in window.findChildren(QObject))
    for _ in range(4):
        recent_menu(window)
    delete_what_is_due()
    assert Counter(type(one).__name__ for one in window.findChildren(QObject)) == before


def test_recent_sessions_are_offered(qtbot: QtBot, window: MainWindow, do: Do, tmp_path: Path) -> None:
    assert not recent_menu(window).isEnabled()
    for name in ("one", "two", "one"):
        do(lambda name=name: window.files.sessions.save_to(str(tmp_path / f"{name}.ropewalk")))  # type: ignore[misc]
    texts = [entry.text() for entry in recent_menu(window).actions()]
    assert texts == ["one.ropewalk", "two.ropewalk"]
    menu = recent_menu(window)
    assert do(menu.actions()[1].trigger) == "Opened two.ropewalk"


@pytest.mark.parametrize("what", ["broken", pytest.param("missing", marks=pytest.mark.slow)])
def test_a_refused_file_keeps_what_was_open(
    qtbot: QtBot, window: MainWindow, do: Do, tmp_path: Path, what: str
) -> None:
    work(qtbot, window)
    before, path = state(window), tmp_path / "work.ropewalk"
    if what == "broken":
        path.write_text('{"format": "ropewalk-session", "version": 1}')
    message = do(lambda: window.files.sessions.open(str(path)))
    assert "work.ropewalk" in message
    assert state(window) == before
    assert window.failure.isVisible()
    assert window.failure.sentence.text() == message


def test_a_full_disk_is_reported_and_the_old_file_stays(
    qtbot: QtBot, window: MainWindow, do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "work.ropewalk"
    do(lambda: window.files.sessions.save_to(str(path)))
    before = path.read_bytes()
    work(qtbot, window)

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    message = do(lambda: window.files.sessions.save_to(str(path)))
    monkeypatch.undo()
    assert message == f"The session could not be written to {path}: No space left on device."
    assert path.read_bytes() == before


def test_what_nobody_saved_is_there_the_next_time(qtbot: QtBot, tmp_path: Path) -> None:
    with real_window(tmp_path, workspace=LIGHT) as window:
        work(qtbot, window)
        before = state(window)
        last = window.files.sessions.last
        assert not last.exists()
    assert last.exists()
    with real_window(tmp_path, prompt="other words", workspace=LIGHT) as window:
        opened: list[str] = []
        window.files.sessions.finished.connect(opened.append)
        entry = recent_menu(window).actions()[-1]
        assert entry.text() == "What was open last and not saved"
        entry.trigger()
        qtbot.waitUntil(lambda: bool(opened) and not window.session.busy, timeout=60_000)
        assert state(window) == before
        assert window.files.sessions.path is None
        assert window.windowTitle() == "Ropewalk"


@pytest.mark.slow
def test_what_nobody_saved_is_kept_while_working(qtbot: QtBot, window: MainWindow) -> None:
    sessions = window.files.sessions
    sessions._calm.setInterval(1)
    work(qtbot, window)
    sessions._calm.start()
    qtbot.waitUntil(sessions.last.exists, timeout=30_000)
    qtbot.waitUntil(lambda: read_session(sessions.last).selection == window.session.selection.now, timeout=30_000)
    assert len(read_session(sessions.last).run.decoded) == 3


@pytest.mark.slow
def test_what_was_saved_is_not_kept_twice(qtbot: QtBot, tmp_path: Path) -> None:
    with real_window(tmp_path, workspace=LIGHT) as window:
        work(qtbot, window)
        messages: list[str] = []
        window.files.sessions.finished.connect(messages.append)
        window.files.sessions.save_to(str(tmp_path / "work.ropewalk"))
        qtbot.waitUntil(lambda: bool(messages), timeout=60_000)
        window.session.selection.update(query=1)
        last = window.files.sessions.last
    assert not last.exists()


def test_opening_another_session_keeps_what_nobody_saved(
    qtbot: QtBot, window: MainWindow, do: Do, tmp_path: Path
) -> None:
    path = tmp_path / "plain.ropewalk"
    do(lambda: window.files.sessions.save_to(str(path)))
    work(qtbot, window)
    before = state(window)
    do(lambda: window.files.sessions.open(str(path)))
    assert state(window) != before
    do(lambda: window.files.sessions.open(str(window.files.sessions.last)))
    assert state(window) == before


def test_a_lessons_own_model_is_not_saved(qtbot: QtBot, window: MainWindow, do: Do, tmp_path: Path) -> None:
    window.reveal("lesson")
    window.lesson.open(SHELF.lesson("1"), 0)
    qtbot.waitUntil(lambda: window.lesson_scenes.scene is not None, timeout=60_000)
    path = tmp_path / "work.ropewalk"
    assert do(lambda: window.files.sessions.save_to(str(path))) == (
        "toy exists only in its lesson; leave the lesson, then save what you had open."
    )
    assert not path.exists()


def test_the_window_can_begin_with_a_session(qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "work.ropewalk"
    with real_window(tmp_path, workspace=LIGHT) as window:
        work(qtbot, window)
        before = state(window)
        messages: list[str] = []
        window.files.sessions.finished.connect(messages.append)
        window.files.sessions.save_to(str(path))
        qtbot.waitUntil(lambda: bool(messages), timeout=60_000)
    for file, wanted in ((path, before), (tmp_path / "gone.ropewalk", None)):
        fresh = MainWindow(new_session(SettingsStore(tmp_path / "fresh.json")), restore=False)
        try:
            fresh.show_workspace(LIGHT)
            fresh.show()
            fresh.files.begin(str(file))
            qtbot.waitUntil(partial(has_run, fresh), timeout=60_000)
            wait_until_drawn(fresh)
            assert wanted is None or state(fresh) == wanted
            assert fresh.failure.isVisible() == (wanted is None)
        finally:
            fresh.close()
            fresh.deleteLater()
