"""The window that a notebook opens on a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import ropewalk
from ropewalk.app import display
from ropewalk.model.errors import RopewalkError


def test_the_window_opens_on_a_run_without_waiting(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def start(command: list[str], **options: Any) -> str:
        started.append((command, options))
        return "a process"

    monkeypatch.setattr(display, "has_display", lambda: True)
    monkeypatch.setattr(display, "absent_libraries", lambda: ())
    monkeypatch.setattr(subprocess, "Popen", start)
    both = ropewalk.open(tiny).capture(["abcabc", "ab"])
    process: Any = ropewalk.view(both)
    assert process == "a process"
    ((command, options),) = started
    assert command[:3] == [sys.executable, "-m", "ropewalk"]
    torch.testing.assert_close(ropewalk.load(command[3]).patterns(), both[0].patterns(), rtol=0.0, atol=1e-5)
    monkeypatch.undo()
    told = [sys.executable, "-c", "import ropewalk; print(ropewalk.__version__)"]
    printed = subprocess.run(told, env=options["env"], cwd=Path(command[3]).parent, capture_output=True, check=True)
    assert printed.stdout.decode().strip() == ropewalk.__version__


def test_without_a_display_there_is_a_sentence(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "absent_libraries", lambda: ())
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    with pytest.raises(RopewalkError, match="no display here for a window; end a cell with the run"):
        ropewalk.view(ropewalk.open(tiny).capture("abcabc"))
    monkeypatch.setattr(display, "absent_libraries", lambda: display.LIBRARIES[:1])
    with pytest.raises(RopewalkError, match="libEGL"):
        ropewalk.view(ropewalk.open(tiny).capture("abcabc"))
