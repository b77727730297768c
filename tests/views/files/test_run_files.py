"""The run on screen as a trace file, such a file dropped on the window, and its checkpoint attached."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox

from ropewalk.app.files.shot import Shot
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.engine import engine
from ropewalk.model.errors import RopewalkError
from ropewalk.model.progress import finished
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.trace_file import load_trace
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures import shot, snapshot
from tests.app.tiny_checkpoint import write_checkpoint
from tests.in_process import new_session
from tests.views.driving import opened_window, run_of


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("files") / "tiny")


@pytest.fixture
def window(qapp: QApplication, tmp_path: Path, tiny: Path) -> Iterator[MainWindow]:
    with opened_window(tmp_path, str(tiny), "abcabc") as made:
        yield made


def save(window: MainWindow, path: Path) -> Path:
    """Save by the keys of the window and its dialog."""
    QTest.keyClick(window, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    dialog = window.findChildren(QFileDialog)[-1]
    dialog.fileSelected.emit(str(path))
    dialog.close()
    snapshot.wait_until_drawn(window)
    return path


def drop(window: MainWindow, path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    actions, buttons, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(window, QDragEnterEvent(QPoint(300, 300), actions, data, buttons, none))
    QApplication.sendEvent(window, QDropEvent(QPointF(300, 300), actions, data, buttons, none))
    for _ in range(2):  # what it is, and the run in it
        snapshot.wait_until_drawn(window)


def test_a_saved_run_that_is_dropped_goes_on_once_it_has_its_checkpoint(
    window: MainWindow, tiny: Path, tmp_path: Path
) -> None:
    session, panels = window.session, window.panels
    session.timeline.run_to(8)
    snapshot.wait_until_drawn(window)
    path = save(window, tmp_path / "run.safetensors")
    assert load_trace(path).trace.length == 8
    weights = panels["scores"].weights  # type: ignore[attr-defined]
    before = weights.value(7, 3)
    drop(window, path)
    assert session.attaching.origin is not None
    assert run_of(window).length == 8
    assert weights.value(7, 3) == pytest.approx(before, abs=1e-6)
    window.reveal("lens")
    snapshot.wait_until_drawn(window)
    assert panels["lens"].notice.text().endswith("; attach its checkpoint (tiny).")
    window.files.menu.aboutToShow.emit()
    entry = next(one for one in window.files.menu.actions() if one.text().startswith("Attach the checkpoint"))
    entry.trigger()
    dialog = window.findChildren(QFileDialog)[-1]
    dialog.fileSelected.emit(str(tiny))
    dialog.close()
    snapshot.wait_until_drawn(window)
    assert session.attaching.origin is None
    assert not panels["lens"].notice.isVisible()
    session.timeline.step()
    snapshot.wait_until_drawn(window)
    assert run_of(window).length == 9


def test_another_checkpoint_is_attached_only_if_that_is_confirmed(
    window: MainWindow, tiny: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny, other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-5}), encoding="utf-8")
    drop(window, save(window, tmp_path / "run.safetensors"))
    for answer, attached in ((1, False), (0, True)):
        window.session.attaching.attach(str(other))
        snapshot.wait_until_drawn(window)
        box = window.findChildren(QMessageBox)[-1]
        assert "made with tiny, but the files of other are not those" in box.text()
        QTest.mouseClick(box.buttons()[answer], Qt.MouseButton.LeftButton)
        snapshot.wait_until_drawn(window)
        assert (window.session.attaching.origin is None) == attached


def test_the_window_says_why_nothing_can_be_attached(window: MainWindow) -> None:
    QTest.keyClick(window, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    assert "Only the run of a trace file" in window.failure.sentence.text()


def test_a_picture_of_a_trace_goes_on_with_the_checkpoint_that_is_named(
    qapp: QApplication, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = finished(engine.open_model(str(tiny), "cpu", "float32"))
    path, lengths = tmp_path / "run.safetensors", list[int]()
    engine.save(finished(engine.run(model, Prompt("abcabc"), 1, (0, 0))), path)

    def kept(settings: SettingsStore, command: str) -> Session:
        session = new_session(settings)
        session.run_changed.connect(lambda before, after: lengths.append(after.length))
        return session

    monkeypatch.setattr(shot, "new_session", kept)
    wanted = Shot(tmp_path / "out.png", str(path), width=1280, height=800)
    shot.take(wanted)
    assert (tmp_path / "out.png").stat().st_size > 10_000
    with pytest.raises(RopewalkError, match=r"attach its checkpoint \(tiny\)"):
        shot.take(replace(wanted, steps=2))
    with pytest.raises(RopewalkError, match="is a trace, which says itself what was run"):
        shot.take(replace(wanted, prompt="abc"))
    with pytest.raises(RopewalkError, match="is a checkpoint itself"):
        shot.take(replace(wanted, path=str(tiny), prompt="abc", checkpoint=str(tiny)))
    lengths.clear()
    shot.take(replace(wanted, checkpoint=str(tiny), steps=2))
    assert lengths == [6, 6, 8]
