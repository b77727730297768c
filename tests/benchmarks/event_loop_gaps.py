"""How long the window's event loop is held up while somebody works: reports, asserts nothing.

    python -m tests.benchmarks.event_loop_gaps [--tokens 2048] [--checkpoint PATH]

A timer of 0 ms notes when it is called; the time between two calls is a gap. The same is measured while the window is
idle, so that what the machine itself does can be told from what the window does.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from PySide6.QtCore import QEventLoop, QRectF, QTimer
from PySide6.QtWidgets import QApplication

from app.door import Typed
from app.session import Session
from app.settings import SettingsStore
from model.errors import RopewalkError
from views.main_window import MainWindow
from views.snapshot import wait_until_drawn


class Probe:
    """Notes the gaps between two calls of a timer that is always due."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self._last = time.perf_counter()
        self._timer = QTimer()
        self._timer.timeout.connect(self._on_call)

    def measure(self, work: Callable[[], None]) -> list[float]:
        """Milliseconds between calls while ``work`` runs the event loop."""
        self.gaps, self._last = [], time.perf_counter()
        self._timer.start(0)
        work()
        self._timer.stop()
        return self.gaps

    def _on_call(self) -> None:
        now = time.perf_counter()
        self.gaps.append(1000 * (now - self._last))
        self._last = now


def idle(milliseconds: int) -> None:
    """Let the event loop run."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def report(name: str, gaps: list[float]) -> None:
    """Say the largest gaps, and how many are over a frame."""
    largest = sorted(gaps, reverse=True)[:3]
    over = sum(gap > 16 for gap in gaps)
    print(f"{name:28} {len(gaps):7} gaps, {over:4} over 16 ms, largest " + ", ".join(f"{gap:.1f}" for gap in largest))


def main() -> int:
    """Run the scripted session."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--checkpoint", help="a checkpoint whose positions reach that far; else fewer tokens are run")
    parsed = parser.parse_args()
    qt = QApplication(["ropewalk"])
    with tempfile.TemporaryDirectory() as folder:
        session = Session(SettingsStore(Path(folder) / "settings.json"))
        window = MainWindow(session, restore=False)
        window.resize(1920, 1080)
        window.show()
        try:
            work(session, window, parsed.checkpoint, parsed.tokens)
        except RopewalkError as error:
            print(error.sentence, file=sys.stderr)
            return 1
        finally:
            window.close()
    del qt
    return 0


def work(session: Session, window: MainWindow, path: str | None, tokens: int) -> None:
    """Open, run, look at heads, pan, zoom and step, each measured by itself."""
    probe = Probe()
    report("start and torch", probe.measure(lambda: start(session, window, path)))
    report("idle", probe.measure(lambda: idle(1000)))
    limit = session.model.config.max_position if session.model is not None else tokens
    count = min(tokens, limit - 4)
    ids = " ".join(str(3 + i % 89) for i in range(count))
    session.set_typed(Typed(as_ids=True))
    print(f"{count} tokens")
    report("run", probe.measure(lambda: drawn(window, lambda: session.start(ids))))
    for head in range(3):
        choose = partial(session.selection.update, layer=head % 2, head=head)
        report(f"head {head}", probe.measure(partial(drawn, window, choose)))
    maps = window.panels["scores"].maps  # type: ignore[attr-defined]
    for part in (2, 8, 32):
        view = QRectF(count / 2 - 0.5, count / 2 - 0.5, count / part, count / part)
        report(f"zoom 1/{part}", probe.measure(partial(drawn, window, partial(maps[2]._look_at, view))))
    report("pan", probe.measure(lambda: drawn(window, lambda: pan(maps[2]))))
    for number in range(2):
        report(f"step {number + 1}", probe.measure(lambda: drawn(window, session.step)))


def start(session: Session, window: MainWindow, path: str | None) -> None:
    """Open the model, importing torch."""
    session.begin(path)
    wait_until_drawn(window)


def pan(heatmap: object) -> None:
    """Move the view ten times without waiting, as a hand does."""
    for _ in range(10):
        heatmap._look_at(heatmap.view.translated(-3, -3))  # type: ignore[attr-defined]
        QApplication.processEvents()


def drawn(window: MainWindow, act: Callable[[], object]) -> None:
    """Do something and wait until it is drawn."""
    act()
    wait_until_drawn(window)


if __name__ == "__main__":
    sys.exit(main())
