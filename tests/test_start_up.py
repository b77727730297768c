"""What a start imports and builds before the window is painted: by names and counts, never by a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ropewalk.views.panels.registry import PANELS
from ropewalk.views.style import theme

ROOT = Path(__file__).resolve().parents[1]

START = """
import sys
from PySide6.QtCore import QTimer
from ropewalk.views import start
from ropewalk.views.files.file_menu import FileMenu
from ropewalk.views.window.prompt_bar import PromptBar

paint, painted = PromptBar.paintEvent, []

def begin(files, session_file=""):
    print("painted", len(painted))
    print("session", session_file)
    print("first", *sorted(sys.modules))
    print("unmade", *sorted(files.window.panels))
    waiting = QTimer(files.window)
    waiting.timeout.connect(lambda: files.window.stage.in_sight and end(files))
    waiting.start()

def end(files):
    print("modules", *sorted(sys.modules))
    print("made", *sorted(files.window.panels))
    print("type", *{part.font().family() for part in (files.window.bar.prompt, files.window.bar.run)})
    print("shown", *sorted(files.window.stage.in_sight))
    files.window.close()

def paint_event(bar, event):
    painted.append(bar)
    paint(bar, event)

FileMenu.begin, PromptBar.paintEvent = begin, paint_event
start.show_window("kept.ropewalk")
"""
"""A real start, without opening the model, until the panels are there; then the window is closed."""


HEAVY = {"torch", "gguf", "yaml", "sentencepiece", "jinja2", "huggingface_hub", "PIL", "ziamath", "scipy", "pyqtgraph"}
"""Packages that are large: the window needs pyqtgraph of them, and the engine torch."""

LATE = {
    "ropewalk.app.lessons.player",
    "ropewalk.app.lessons.reader",
    "ropewalk.views.files.export_dialog",
    "ropewalk.views.files.exporter",
    "ropewalk.views.window.key_sheet",
    "ropewalk.views.window.open_dialog",
    "ropewalk.views.window.palette",
    "ropewalk.views.window.presenter",
}
"""Modules that somebody has to ask for."""


def printed(code: str, **environment: str) -> str:
    """What some code prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What a start in a process of its own says of itself, by the first word of the line."""
    settings = str(tmp_path_factory.mktemp("start"))
    lines = [line.split() for line in printed(START, ROPEWALK_CONFIG_DIR=settings).splitlines()]
    return {line[0]: line[1:] for line in lines}


def test_the_window_is_painted_before_anything_is_opened(start: dict[str, list[str]]) -> None:
    assert int(start["painted"][0]) >= 1
    assert start["session"] == ["kept.ropewalk"]


def test_neither_plots_nor_panels_are_waited_for(start: dict[str, list[str]]) -> None:
    assert start["unmade"] == []
    assert not set(start["first"]) & HEAVY
    assert not [name for name in start["first"] if name.startswith("pyqtgraph.")]


def test_what_is_typed_and_pressed_wears_the_bundled_type_from_the_start(start: dict[str, list[str]]) -> None:
    assert " ".join(start["type"]) == theme.SANS


def test_only_what_is_in_sight_is_made(start: dict[str, list[str]]) -> None:
    assert set(start["made"]) == set(start["shown"])
    assert len(start["made"]) < len(PANELS)


def test_nothing_is_imported_that_the_start_does_not_need(start: dict[str, list[str]]) -> None:
    imported = set(start["modules"])
    assert {"ropewalk.views.main_window", "ropewalk.views.panels.scores"} <= imported
    assert not imported & (HEAVY - {"pyqtgraph"})
    hidden = {f"ropewalk.views.{entry.place.rpartition('.')[0]}" for entry in PANELS if entry.name not in start["made"]}
    assert len(hidden) >= 5
    assert not imported & (hidden | LATE)


def test_the_engine_imports_no_package_that_the_bundled_model_does_not_need() -> None:
    assert not set(printed("import ropewalk.model.engine.engine, sys; print(*sys.modules)").split()) & (
        HEAVY - {"torch"}
    )


def test_the_list_of_panels_says_what_their_classes_say() -> None:
    for entry in PANELS:
        assert (entry.name, entry.title) == (entry.kind.name, entry.kind.title)
