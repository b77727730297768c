"""How long the window takes to be painted and to show the bundled model's heads: reports, asserts nothing.

    python -m tests.benchmarks.start_up [--times 5]

Held beside what nobody can avoid: a bare PySide6 and pyqtgraph window, and a bare process that imports torch, opens the
bundled model and captures the first prompt. Every start is a process
of its own, all kinds in turn; the clock runs in the process that starts them, so that the interpreter counts too.
Settings are those of a person who has none. A first start of each kind is not counted: it compiles Python's files,
which every later one finds compiled, as after an installation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]

PAINTED = """
from PySide6.QtCore import QEvent, QObject, QTimer

class Painted(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint and not said:
            said.append(True)
            QTimer.singleShot(0, lambda: print("painted", flush=True))
        return False

said = []
"""
BARE = (
    PAINTED
    + """
import pyqtgraph
from PySide6.QtWidgets import QApplication, QMainWindow
qt = QApplication([])
window = QMainWindow()
window.resize(1280, 800)
window.setCentralWidget(pyqtgraph.PlotWidget())
painted = Painted()
window.centralWidget().viewport().installEventFilter(painted)
window.show()
qt.exec()
"""
)
ENGINE = """
from ropewalk.model.engine import engine
from ropewalk.model.progress import finished
from ropewalk.app.session.opening import DEFAULT_PROMPT
from ropewalk.model.tokens.prompt import Prompt
finished(engine.run(finished(engine.open_model(None, "cpu", "float32")), Prompt(DEFAULT_PROMPT), 1))
print("captured", flush=True)
"""
OURS = (
    """
import os, sys
os.environ["OMP_WAIT_POLICY"] = "passive"
"""
    + PAINTED
    + """
from ropewalk.views.start import build_window
qt, session, window = build_window()
painted = Painted()
qt.installEventFilter(painted)
window.appeared.connect(session.opening.begin)
window.resize(1600, 960)
window.cards["heads"].when_made(
    lambda heads: heads.drawn.connect(lambda: session.run and print("heads", flush=True))
)
window.show()
qt.exec()
"""
)


def starts(code: str, words: tuple[str, ...], compiled: str) -> dict[str, float]:
    """Seconds from the start of a process to each word it prints; then it is ended.

    Python's compiled files are kept in the folder ``compiled``.
    """
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            "HOME": home,
            "XDG_CONFIG_HOME": home,
            "XDG_DATA_HOME": home,
            "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))),
            "PYTHONPYCACHEPREFIX": compiled,
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment.setdefault("QT_QPA_PLATFORM", "offscreen")
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            for line in _lines(process):
                word = line.split()[0]
                found.setdefault(word, time.perf_counter() - began)
                if all(one in found for one in words):
                    break
        finally:
            process.kill()
            process.wait()
    return found


def round_of_starts(compiled: str) -> tuple[float, float, float, float]:
    """Seconds of a bare window, of the engine alone, and of ours until it is painted and until its heads are there."""
    bare = starts(BARE, ("painted",), compiled)
    engine = starts(ENGINE, ("captured",), compiled)
    ours = starts(OURS, ("painted", "heads"), compiled)
    return bare["painted"], engine["captured"], ours["painted"], ours["heads"]


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    with process.stdout as out:
        for line in out:
            if line.strip():
                yield line


def main() -> None:
    """Print medians and the two ratios, beside what they are to be at most."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=5)
    times = options.parse_args().times
    with tempfile.TemporaryDirectory() as compiled:
        _, *counted = [round_of_starts(compiled) for _ in range(times + 1)]
    empty, alone, painted, heads = (median(kind) for kind in zip(*counted, strict=True))
    print(f"bare PySide6 and pyqtgraph window: {empty:.2f} s; torch, bundled model, first prompt: {alone:.2f} s")
    print(f"window painted: {painted:.2f} s, {painted / empty:.2f} of the bare window (1.3)")
    slower = max(empty, alone)
    print(f"heads on screen: {heads:.2f} s, {heads / slower:.2f} of the slower of these two (1.25)")


if __name__ == "__main__":
    main()
