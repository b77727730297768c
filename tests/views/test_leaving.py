"""The window is left in the middle of whatever it does, in a process of its own: it ends well, and says nothing.

What Qt holds of Python's may not outlive it: a picture on the clipboard, a drag, a film that is being taken, dialogs.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import canned_process
from tests.qt_guards import ALLOWED_MESSAGES

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[2]
SURVEY = ROOT / "resources" / "surveys" / "text"

LEAVE = """
import os, sys
from pathlib import Path
from PySide6.QtCore import QMimeData, QPoint, Qt, QTimer
from PySide6.QtGui import QDrag, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from ropewalk.app.files import animation
from ropewalk.model.engine.requests import RunSurvey
from ropewalk.views import start
from ropewalk.views.files import pictures
from ropewalk.views.files.figure import Figure
from ropewalk.views.files.recordings import FILMS, Shooting, recording_turns

engine, act, way, folder, surveyed = *sys.argv[1:4], Path(sys.argv[4]), sys.argv[5]

def raised(*what):
    sys.__excepthook__(*what)
    os._exit(3)

sys.excepthook = raised
build, left = start.build_window, []

def when(holds, act):
    if holds():
        act()
    else:
        QTimer.singleShot(10, lambda: when(holds, act))

def built(engine=None):
    qt, session, window = build(engine)
    window.appeared.connect(lambda: when(lambda: is_drawn(window), lambda: ACTS[act](window)))
    window.failure.show_message = lambda *said: (print(*said), os._exit(4))
    session.failed.connect(lambda *said: (print(*said), os._exit(4)))
    return qt, session, window

def is_drawn(window):
    session, panels = window.session, window.panels.values()
    return session.run is not None and not session.busy and all(one.settled for one in panels if one.isVisible())

def leave(window):
    if not left:
        left.append(way)
        print("left", flush=True)
        {"closed": window.close, "quit": QApplication.quit}[way]()

def copy_picture(window):
    QGuiApplication.clipboard().dataChanged.connect(lambda: QTimer.singleShot(0, lambda: leave(window)))
    window.files.exporter.copy("")

def copy_text(window):
    window.reveal("why")
    panel = window.panels["why"]
    when(lambda: is_drawn(window), lambda: (copy_selected(panel), leave(window)))

def copy_selected(panel):
    panel.text.selectAll()
    QTest.keyClick(panel.text, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text()

def drag(window):
    text = QPlainTextEdit(window)
    data, dragged = QMimeData(), QDrag(text)
    data.setText("dragged")
    dragged.setMimeData(data)
    QTimer.singleShot(50, lambda: leave(window))
    dragged.exec(Qt.DropAction.CopyAction)

def export(window):
    exporter = window.files.exporter
    exporter.picture("", pictures.FORMATS[0], folder / "picture.png", 4)
    exporter.trace(folder / "trace.safetensors")
    QTimer.singleShot(50, lambda: leave(window))

def unpaintable(window, then=leave):
    def fail(figure, painter):
        raise ValueError("no figure")
    def failed(sentence):
        Figure.paint_foot = paint
        QTimer.singleShot(0, lambda: then(window))
    paint, Figure.paint_foot = Figure.paint_foot, fail
    exporter = window.files.exporter
    exporter.failed.disconnect()
    exporter.failed.connect(failed)
    exporter.picture("heads", pictures.FORMATS[2], folder / "heads.pdf")

def film(window):
    exporter = window.files.exporter
    turns = recording_turns(FILMS[0], exporter, Shooting("rope", 1, True, 3))
    window.session.progress_changed.connect(lambda at: at and at.done > 1 and leave(window))
    exporter.animation(turns, animation.FORMATS[0], folder / "film.gif", "rope")

def survey(window):
    surveys, texts, out = window.session.surveys, folder / "texts.txt", folder / "out"
    texts.write_text("the cat sat on the mat\\n" * 5000)
    window.open_survey(surveyed)
    def table_copied():
        table = window.panels["survey_table"].table
        table.selectAll()
        QTest.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        assert "L1H1" in QGuiApplication.clipboard().text()
        surveys.run(RunSurvey(None, "cpu", "float32", (str(texts),), str(out)))
        when((out / "manifest.json").exists, lambda: (window.run_survey(), leave(window)))
    when(lambda: surveys.read is not None and is_drawn(window), table_copied)

def lesson(window):
    window.reveal("lesson")
    window.lesson.read_shelf()
    def opened():
        window.lesson.open(window.lesson.lessons()[0])
        QTimer.singleShot(50, lambda: leave(window))
    when(lambda: window.lesson.shelf is not None, opened)

def dialogs(window):
    window.choose_checkpoint()
    window.files.export()
    window.show_keys()
    window.write_note(0, 0)
    window.choose_engine()
    window.files.panel_menu("scores").popup(QPoint(20, 20))
    QTimer.singleShot(0, lambda: leave(window))

def everything(window):
    unpaintable(window, all_at_once)

def all_at_once(window):
    exporter = window.files.exporter
    exporter.trace(folder / "trace.safetensors")
    once = Qt.ConnectionType.SingleShotConnection
    QGuiApplication.clipboard().dataChanged.connect(lambda: (dialogs(window), drag(window)), once)
    exporter.copy("why")

ACTS = {
    one.__name__: one
    for one in (leave, copy_picture, copy_text, drag, export, unpaintable, film, survey, lesson, dialogs, everything)
}
start.build_window = built
sys.exit(start.show_window(engine=engine))
"""
"""The real program over a canned engine; it is left once the first argument has been done, in one of two ways."""


def left(folder: Path, act: str, way: str) -> subprocess.CompletedProcess[str]:
    """Do something in a window, and leave."""
    engine = shlex.join(canned_process.command(folder / "wishes"))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", LEAVE, engine, act, way, str(folder), str(SURVEY)],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "ROPEWALK_CONFIG_DIR": str(folder / "settings")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


ACTS = (
    pytest.param("copy_picture", "closed"),
    pytest.param("everything", "quit"),
    *(
        pytest.param(act, way, marks=pytest.mark.slow)
        for act in (
            "leave",
            "copy_picture",
            "copy_text",
            "drag",
            "export",
            "unpaintable",
            "film",
            "survey",
            "lesson",
            "dialogs",
        )
        for way in ("closed", "quit")
        if (act, way) != ("copy_picture", "closed")
    ),
)


@pytest.mark.parametrize(("act", "way"), ACTS)
def test_the_window_is_left(tmp_path: Path, act: str, way: str) -> None:
    done = left(tmp_path, act, way)
    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr
    assert set(done.stderr.splitlines()) <= ALLOWED_MESSAGES
