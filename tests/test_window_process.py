"""The window's own process over real ones: it never imports torch, and has no thread of Python's beside the first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[1]

WORK = """
import sys, threading
from pathlib import Path
from PySide6.QtCore import QEventLoop
from ropewalk.views.start import build_window
from ropewalk.app.files import numbers_file
from ropewalk.app.lessons.loading import load_shelf
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.files import pictures
from ropewalk.views.panels.registry import names
from ropewalk.views.pictures.snapshot import wait_until_drawn

folder, started = Path(sys.argv[1]), []
start = threading.Thread.start
threading.Thread.start = lambda thread: (started.append(thread.name), start(thread))

def until(signal, act):
    loop, heard = QEventLoop(), []
    def hear(*said):
        heard.append(said)
        loop.quit()
    signal.connect(hear)
    act()
    if not heard:
        loop.exec()
    signal.disconnect(hear)
    return heard[0]

qt, session, window = build_window()
window.resize(1400, 900)
window.show()
session.opening.begin(prompt=Prompt("two plums and two"))
wait_until_drawn(window)
print("model", session.model.name)
until(session.run_changed, session.timeline.step)
for name in names():
    window.reveal(name)
wait_until_drawn(window)
print("made", *sorted(window.panels))
exporter = window.files.exporter
exporter.failed.connect(lambda sentence: print("failed", sentence))
until(exporter.saved, lambda: exporter.numbers(numbers_file.FORMATS[0], folder / "numbers", (0, 3), (0, 3)))
until(exporter.saved, lambda: exporter.trace(folder / "trace.safetensors"))
until(exporter.saved, lambda: exporter.picture("heads", pictures.FORMATS[0], folder / "picture"))
until(exporter.saved, lambda: exporter.picture("heads", pictures.FORMATS[2], folder / "page"))
player = window.lesson.player
until(player.step_filled, lambda: player.open(load_shelf().lessons[0], 0))
wait_until_drawn(window)
print("lesson", player.lesson.number)
print("files", *sorted(path.name for path in folder.iterdir() if path.is_file()))
print("threads", *[thread.name for thread in threading.enumerate()])
print("started", *started)
print("modules", *sys.modules)
window.close()
session.close()
"""
"""A person's work in a window over the bundled model: a run, a step, every panel, files, and a lesson."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the process says of itself, by the first word of the line."""
    folder = tmp_path_factory.mktemp("work")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WORK, str(folder)],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "ROPEWALK_CONFIG_DIR": str(folder / "settings")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return {line[0]: line[1:] for line in lines}


def test_all_of_it_was_done(said: dict[str, list[str]]) -> None:
    assert said["model"] == ["bundled"]
    assert {"heads", "compare", "experiments", "lesson"} <= set(said["made"])
    assert said["files"] == ["numbers", "page", "picture", "trace.safetensors"]
    assert said["lesson"] == ["0"]
    assert "failed" not in said


def test_the_window_never_imports_torch(said: dict[str, list[str]]) -> None:
    modules = set(said["modules"])
    assert "ropewalk.views.main_window" in modules
    assert not {name for name in modules if name.partition(".")[0] in {"torch", "safetensors", "transformers"}}


def test_the_window_has_no_thread_of_its_own(said: dict[str, list[str]]) -> None:
    assert said["threads"] == ["MainThread"]
    assert said["started"] == []
