"""An engine on another machine, from the window: moving there, its folders, and what is on this machine alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QObject, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QFileDialog
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import Connection, Ended
from ropewalk.app.files.provenance import provenance
from ropewalk.app.files.session_file import SavedSession, SavedView, read_session
from ropewalk.app.files.session_keeping import open_session, save_session
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.errors import CheckpointError
from ropewalk.model.fingerprint import fingerprint_steps
from ropewalk.model.progress import finished
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.window.engine_dialog import EngineDialog
from ropewalk.views.window.folder_dialog import FolderDialog
from ropewalk.views.window.open_dialog import OpenDialog
from ropewalk.views.window.status import StatusLine
from tests.in_process import without_packing
from tests.views.canned import PROMPT, CannedEngine
from tests.views.driving import run_on, settle

LEFT = Qt.MouseButton.LeftButton
GPU1, NOBODY = "ssh gpu1 ropewalk engine", "ssh nobody ropewalk engine"


@pytest.fixture
def engines() -> dict[str, CannedEngine]:
    """The engine of each machine, by the command that starts it."""
    return {"": CannedEngine(), GPU1: CannedEngine(devices=("cpu", "cuda"))}


@pytest.fixture
def session(qtbot: QtBot, engines: dict[str, CannedEngine], tmp_path: Path) -> Iterator[Session]:
    """A session on this machine, from which another one can be reached, and a third one cannot."""

    def start(parent: QObject, command: str = "") -> Connection:
        connection = without_packing(engines.get(command))[0](parent, command)
        connection.host = "gpu1" if command == GPU1 else ""
        if command == NOBODY:
            connection.lose(Ended("Nobody is there.", "ssh: Could not resolve hostname nobody"))
        return connection

    made = Session(SettingsStore(tmp_path / "settings.json"), start, start)
    made.opening.begin(prompt=Prompt(PROMPT))
    settle(made)
    yield made
    for engine in engines.values():
        engine.gate.open.set()
    made.close()


@pytest.fixture
def there(session: Session) -> Session:
    """The session, moved to the other machine."""
    session.opening.move(GPU1, lambda sentence, details: pytest.fail(sentence))
    settle(session)
    return session


@pytest.fixture
def shown(qtbot: QtBot) -> Callable[[QDialog], Any]:
    """Show a dialog for the time of a test."""

    def show(dialog: QDialog) -> Any:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        qtbot.addWidget(dialog)
        dialog.show()
        return dialog

    return show


def use(dialog: EngineDialog, command: str) -> None:
    dialog.command.setText(command)
    QTest.mouseClick(dialog.use, LEFT)


def test_another_engine_opens_the_bundled_model_and_runs_the_prompt_there(
    session: Session, engines: dict[str, CannedEngine], shown: Callable[[QDialog], EngineDialog]
) -> None:
    dialog = shown(EngineDialog(session))
    before = run_on(session)
    use(dialog, GPU1)
    assert session.run is before
    settle(session)
    assert not dialog.isVisible()
    assert engines[GPU1].calls[:1] == ["open None cpu float32"]
    assert (run_on(session).prompt, session.devices) == (PROMPT, ("cpu", "cuda"))
    assert session.elsewhere == "gpu1"
    assert dict(provenance(session, "A head").lines)["Computed"] == "float32 on cpu of gpu1"
    assert SettingsStore(session.settings.path).now.engine == GPU1


def test_what_is_opened_there_is_remembered_there(there: Session, engines: dict[str, CannedEngine]) -> None:
    there.opening.open("/models/smol", device="cuda")
    settle(there)
    assert there.opened.recent == ("/models/smol",)
    assert there.settings.now.recent == ()
    there.opening.move("", lambda sentence, details: pytest.fail(sentence))
    settle(there)
    assert (there.elsewhere, there.settings.now.engine, run_on(there).model.device) == ("", "", "cpu")
    there.opening.move(GPU1, lambda sentence, details: pytest.fail(sentence))
    settle(there)
    assert run_on(there).model.device == "cuda"


def test_a_device_that_is_gone_there_is_replaced_by_the_cpu(session: Session, engines: dict[str, CannedEngine]) -> None:
    session.settings.remember(GPU1, device="mps")
    session.opening.move(GPU1, lambda sentence, details: pytest.fail(sentence))
    settle(session)
    assert engines[GPU1].calls[:2] == ["open None mps float32", "open None cpu float32"]
    assert session.elsewhere == "gpu1"


def test_an_engine_that_cannot_be_reached_changes_nothing(
    session: Session, shown: Callable[[QDialog], EngineDialog]
) -> None:
    dialog, before = shown(EngineDialog(session)), run_on(session)
    use(dialog, NOBODY)
    settle(session)
    assert dialog.isVisible()
    assert (dialog.notice.text(), "resolve" in dialog.notice.toolTip()) == ("Nobody is there.", True)
    assert (session.run, session.elsewhere, session.settings.now.engine) == (before, "", "")
    with_step = before.length + 1
    session.timeline.step()
    settle(session)
    assert run_on(session).length == with_step
    use(dialog, "ssh\u0007 gpu1")
    assert dialog.notice.text() == (
        r"The command that starts the engine has the character '\x07', which no command has."
    )
    use(dialog, "")  # the one in use
    assert not dialog.isVisible()


def test_a_move_can_be_cancelled(
    session: Session, engines: dict[str, CannedEngine], shown: Callable[[QDialog], EngineDialog]
) -> None:
    dialog, before = shown(EngineDialog(session)), run_on(session)
    engines[GPU1].gate.shut()
    use(dialog, GPU1)
    assert engines[GPU1].gate.reached.wait(10)
    QTest.mouseClick(dialog.cancel, LEFT)
    assert not dialog.isVisible()
    settle(session)
    assert (session.run, session.elsewhere) == (before, "")
    assert engines[GPU1].closed == ["loading None"]


def test_a_pinned_run_whose_checkpoint_is_on_the_other_machine_is_let_go(
    there: Session, engines: dict[str, CannedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    there.opening.open("/models/smol")
    settle(there)
    there.baseline.pin()
    failures: list[str] = []
    there.failed.connect(lambda sentence, details: failures.append(sentence))
    monkeypatch.setattr(engines[""], "open_model", _only_bundled(engines[""].open_model))
    there.opening.move("", lambda sentence, details: pytest.fail(sentence))
    settle(there)
    assert there.baseline.run is None
    assert failures == ["There is no /models/smol here."]


def _only_bundled(open_model: Callable[..., Any]) -> Callable[..., Any]:
    def opened(path: str | None, *rest: Any, **more: Any) -> Any:
        if path is not None:
            raise CheckpointError(f"There is no {path} here.")
        return open_model(path, *rest, **more)

    return opened


# ----------------------------------------------------------------------------------------------------------------------
# Its files


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of the other machine, with a checkpoint and a file."""
    home = tmp_path / "home"
    (home / "models" / "smol").mkdir(parents=True)
    (home / "models" / "smol" / "config.json").touch()
    (home / "models" / "a.gguf").write_bytes(b"1" * 2000)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return home / "models"


def listed(dialog: FolderDialog) -> list[str]:
    return [dialog.entries.item(row).text() for row in range(dialog.entries.count())]


def enter(dialog: FolderDialog, text: str) -> None:
    item = dialog.entries.findItems(text, Qt.MatchFlag.MatchStartsWith)[0]
    dialog.entries.setCurrentItem(item)
    dialog.entries.setFocus()
    QTest.keyClick(dialog.entries, Qt.Key.Key_Return)
    settle(dialog.session)


def test_folders_there_are_walked_through(
    there: Session, models: Path, shown: Callable[[QDialog], FolderDialog]
) -> None:
    chosen: list[str] = []
    dialog = shown(FolderDialog(there, folders=False))
    dialog.chosen.connect(chosen.append)
    settle(there)
    assert (dialog.path.text(), listed(dialog)) == (str(models.parent), ["models/"])
    assert not dialog.choose.isEnabled()
    enter(dialog, "models")
    assert listed(dialog) == ["smol/   checkpoint", "a.gguf   1.953 KiB   checkpoint"]
    QTest.mouseClick(dialog.up, LEFT)
    settle(there)
    assert dialog.path.text() == str(models.parent)
    dialog.path.setText("models/nothing")
    QTest.keyClick(dialog.path, Qt.Key.Key_Return)
    settle(there)
    assert dialog.notice.text() == f"{models / 'nothing'} cannot be listed: No such file or directory."
    assert dialog.isVisible()
    dialog.path.setText("models")
    QTest.keyClick(dialog.path, Qt.Key.Key_Return)
    settle(there)
    enter(dialog, "a.gguf")
    assert chosen == [str(models / "a.gguf")]
    assert not dialog.isVisible()


@pytest.mark.parametrize(
    ("folders", "folder", "says"),
    [
        (True, "empty", "There are no folders in this one; hidden ones are not listed."),
        (True, "models/smol", "There are no folders in this one; hidden ones are not listed."),
        (False, "empty", "There are no folders and no files in this one; hidden ones are not listed."),
        (False, "models/smol", ""),
    ],
)
def test_a_folder_with_nothing_to_choose_says_so(
    there: Session, models: Path, shown: Callable[[QDialog], FolderDialog], folders: bool, folder: str, says: str
) -> None:
    (models.parent / "empty" / ".hidden").mkdir(parents=True)
    dialog = shown(FolderDialog(there, folders))
    dialog.go(folder)
    settle(there)
    assert dialog.path.text() == str(models.parent / folder)
    assert dialog.notice.text() == says
    dialog.go("models")
    settle(there)
    assert dialog.notice.text() == ""


def test_a_folder_there_is_chosen(there: Session, models: Path, shown: Callable[[QDialog], FolderDialog]) -> None:
    chosen: list[str] = []
    for pick in (None, "smol"):
        dialog = shown(FolderDialog(there, folders=True))
        dialog.chosen.connect(chosen.append)
        settle(there)
        enter(dialog, "models")
        assert listed(dialog) == ["smol/   checkpoint"]
        if pick:
            dialog.entries.setCurrentRow(0)
        QTest.mouseClick(dialog.choose, LEFT)
    assert chosen == [str(models), str(models / "smol")]


def test_the_open_dialog_offers_what_is_there(
    there: Session, models: Path, shown: Callable[[QDialog], OpenDialog]
) -> None:
    there.settings.remember_checkpoint("/here/alone")
    there.settings.remember_checkpoint("/there/smol", engine=GPU1)
    dialog = shown(OpenDialog(there))
    settle(there)
    known = [dialog.known.item(row).text() for row in range(dialog.known.count())]
    assert any("/there" in text for text in known)
    assert not any("/here" in text for text in known)
    QTest.mouseClick(dialog.folder, LEFT)
    walking = dialog.findChild(FolderDialog)
    assert walking is not None
    assert dialog.findChild(QFileDialog) is None
    walking.chosen.emit("/there/folder")
    assert dialog.path.text() == "/there/folder"
    walking.reject()
    settle(there)


# ----------------------------------------------------------------------------------------------------------------------
# The window


def test_the_status_line_says_where_the_engine_is(qtbot: QtBot, session: Session) -> None:
    line = StatusLine(session)
    qtbot.addWidget(line)
    assert " · cpu · " in line.facts.text()
    session.opening.move(GPU1, lambda sentence, details: pytest.fail(sentence))
    settle(session)
    assert " · cpu on gpu1 · " in line.facts.text()


def drop(window: MainWindow, path: str) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path)])
    none = Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPointF(50, 50), Qt.DropAction.CopyAction, data, LEFT, none))


def test_what_is_dropped_has_to_be_where_the_engine_is_unless_it_is_a_lesson_or_a_session(
    qtbot: QtBot, there: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = MainWindow(there, restore=False)
    qtbot.addWidget(window)
    drop(window, "/here/smol.gguf")
    assert window.failure.sentence.text() == (
        "smol.gguf is on this machine, but the engine runs on gpu1; copy it there, then open it by its path."
    )
    assert window.findChild(OpenDialog) is None
    opened: list[str] = []
    monkeypatch.setattr(window.lesson, "open_file", opened.append)
    monkeypatch.setattr(window.files.sessions, "open", opened.append)
    for path in ("/here/mine.toml", "/here/work.ropewalk"):
        drop(window, path)
    assert opened == ["/here/mine.toml", "/here/work.ropewalk"]
    settle(there)


# ----------------------------------------------------------------------------------------------------------------------
# Sessions


def opened_there(session: Session, checkpoint: Path) -> None:
    session.opening.open(str(checkpoint))
    settle(session)
    session.timeline.step()
    settle(session)


def test_a_session_says_on_which_machine_its_checkpoint_was(
    qtbot: QtBot, there: Session, models: Path, tmp_path: Path
) -> None:
    opened_there(there, models / "smol")
    done: list[SavedSession] = []
    failed: list[str] = []
    file = tmp_path / "work.ropewalk"
    save_session(there, file, SavedView(), done.append, failed.append)
    qtbot.waitUntil(lambda: bool(done or failed))
    kept = read_session(file).checkpoint
    assert (kept.path, kept.host, kept.beside) == (str(models / "smol"), "gpu1", "")
    assert kept.fingerprint == finished(fingerprint_steps(models / "smol"))

    def refused() -> str:
        failed.clear()
        open_session(there, file, done.append, failed.append)
        qtbot.waitUntil(lambda: bool(failed))
        return failed[0]

    (models / "smol").rename(models / "other")
    assert refused().endswith(f", but there is nothing at {models / 'smol'} on gpu1; put it back there.")
    there.opening.move("", lambda sentence, details: pytest.fail(sentence))
    settle(there)
    assert refused().endswith(
        f"nothing at {models / 'smol'}; it was on gpu1 when the session was saved, so run the engine there, or copy it."
    )


def test_a_session_of_this_machine_is_not_looked_for_beside_its_file_there(
    qtbot: QtBot, session: Session, models: Path, tmp_path: Path
) -> None:
    opened_there(session, models / "smol")
    done: list[SavedSession] = []
    failed: list[str] = []
    file = tmp_path / "home" / "work.ropewalk"
    save_session(session, file, SavedView(), done.append, failed.append)
    qtbot.waitUntil(lambda: bool(done or failed))
    assert "host" not in json.loads(file.read_text())["checkpoint"]
    both = tmp_path / "moved"
    (tmp_path / "home").rename(both)
    session.opening.move(GPU1, lambda sentence, details: pytest.fail(sentence))
    settle(session)
    open_session(session, both / "work.ropewalk", done.append, failed.append)
    qtbot.waitUntil(lambda: bool(failed))
    assert failed[0].endswith(
        "on gpu1; it was on the window's own machine when the session was saved, so run the engine there, or copy it."
    )


def test_a_window_that_closes_keeps_what_was_made_elsewhere(
    qtbot: QtBot, there: Session, models: Path, engines: dict[str, CannedEngine]
) -> None:
    window = MainWindow(there, restore=False)
    qtbot.addWidget(window)
    sessions = window.files.sessions
    there.timeline.step()
    settle(there)
    opened_there(there, models / "smol")
    wanted = finished(fingerprint_steps(models / "smol"))
    (models / "smol").rename(models / "out of sight")  # of this machine: only the other one has it
    sessions.keep()
    kept = read_session(sessions.last).checkpoint
    assert (kept.path, kept.fingerprint, kept.host) == (str(models / "smol"), wanted, "gpu1")
    sessions.last.unlink()
    opened_there(there, models / "nothing")  # nothing is known of it, so it is left to what was kept before
    sessions.keep()
    assert not sessions.last.exists()
    assert not window.failure.isVisibleTo(window)
