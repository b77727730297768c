"""What a start imports and builds before the window is painted: by names and counts, never by a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

START = """
import sys
import main
from views.file_menu import FileMenu
from views.panel import ElidedLabel

paint, painted = ElidedLabel.paintEvent, []

def begin(files, session_file=""):
    print("painted", len(painted))
    print("session", session_file)
    print("modules", *sorted(sys.modules))
    files.window.close()

def paint_event(label, event):
    painted.append(label)
    paint(label, event)

FileMenu.begin, ElidedLabel.paintEvent = begin, paint_event
main.show_window("kept.ropewalk")
"""
"""A real start, up to where the model would be opened; then the window is closed."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What a start in a process of its own says of itself, by the first word of the line."""
    settings = str(tmp_path_factory.mktemp("start"))
    done = subprocess.run(
        [sys.executable, "-c", START],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "ROPEWALK_CONFIG_DIR": settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {line[0]: line[1:] for line in lines}


def test_the_window_is_painted_before_anything_is_opened(start: dict[str, list[str]]) -> None:
    assert int(start["painted"][0]) >= 8
    assert start["session"] == ["kept.ropewalk"]


def test_torch_is_not_imported_before_the_window_is_painted(start: dict[str, list[str]]) -> None:
    assert "views.main_window" in start["modules"]
    assert "torch" not in start["modules"]
