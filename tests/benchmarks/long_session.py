"""A person looks at a prompt of 32,768 tokens in the real window, recorded: reports, asserts nothing.

    python -m tests.benchmarks.long_session OUT [--tokens 32768] [--checkpoint PATH]

The bundled model is stretched to the length with YaRN, as the window offers to; another checkpoint is stretched only
where its own limit is shorter. Real wheel and mouse events zoom and pan the weights of one head. Pictures are written
to OUT when the coarse picture of each view stands and when it has been refined, with the seconds between; they say
*sampled* and how many cells a pixel covers themselves.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from PySide6.QtCore import QEventLoop, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from ropewalk.app.processes import new_session
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import RopeScaling
from ropewalk.model.errors import RopewalkError
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.pictures.snapshot import wait_until_drawn
from ropewalk.views.plots.heatmap import Heatmap


class Recording:
    """Pictures of the window in the order in which they were taken, and when."""

    def __init__(self, window: MainWindow, folder: Path) -> None:
        self.window, self.folder = window, folder
        self.count = 0
        self.drawn = 0
        cast("ScoresPanel", window.panels["scores"]).drawn.connect(self._on_drawn)

    def _on_drawn(self) -> None:
        self.drawn += 1

    def take(self, name: str) -> None:
        """Write the window as it is."""
        self.count += 1
        self.window.grab().save(str(self.folder / f"{self.count:02d}-{name}.png"))

    def look(self, name: str, act: Callable[[], None]) -> None:
        """Do something to the view; record the first picture that stands and the last."""
        began, drawn = time.perf_counter(), self.drawn
        act()
        until(lambda: self.drawn > drawn)
        coarse = time.perf_counter() - began
        self.take(f"{name}-first")
        wait_until_drawn(self.window)
        whole = time.perf_counter() - began
        self.take(f"{name}-refined")
        print(f"{name:12} first picture {1e3 * coarse:6.0f} ms, refined {whole:6.2f} s", flush=True)


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Run the event loop until something holds."""
    loop, timer = QEventLoop(), QTimer()
    began = time.perf_counter()

    def look() -> None:
        if holds() or time.perf_counter() - began > seconds:
            loop.quit()

    timer.timeout.connect(look)
    timer.start(1)
    loop.exec()
    timer.stop()


def wheel(heatmap: Heatmap, place: QPoint, notches: int) -> None:
    """Turn the wheel over a place, away from the person to look closer."""
    for _ in range(abs(notches)):
        turn = QWheelEvent(
            QPointF(place),
            QPointF(heatmap.mapToGlobal(place)),
            QPoint(),
            QPoint(0, 120 if notches > 0 else -120),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(heatmap, turn)


def drag(heatmap: Heatmap, start: QPoint, by: QPoint, moves: int = 10) -> None:
    """Pull the picture with the left button."""
    QTest.mousePress(heatmap, Qt.MouseButton.LeftButton, pos=start)
    for number in range(1, moves + 1):
        QTest.mouseMove(heatmap, start + by * number / moves)
        QApplication.processEvents()
    QTest.mouseRelease(heatmap, Qt.MouseButton.LeftButton, pos=start + by)


def main() -> int:
    """Record the session."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("out", type=Path)
    options.add_argument("--tokens", type=int, default=32_768)
    options.add_argument("--checkpoint")
    parsed = options.parse_args()
    parsed.out.mkdir(parents=True, exist_ok=True)
    qt = QApplication(["ropewalk"])
    with tempfile.TemporaryDirectory() as folder:
        session = new_session(SettingsStore(Path(folder) / "settings.json"))
        window = MainWindow(session, restore=False)
        window.resize(1920, 1080)
        window.show()
        try:
            record(session, window, parsed)
        except RopewalkError as error:
            print(error.sentence, file=sys.stderr)
            return 1
        finally:
            window.close()
    del qt
    return 0


def record(session: Session, window: MainWindow, parsed: argparse.Namespace) -> None:
    """Open, run, and look closer and closer."""
    session.opening.begin(parsed.checkpoint)
    wait_until_drawn(window)
    assert session.model is not None
    limit = session.model.config.max_position
    if parsed.tokens > limit:
        session.interventions.apply((RopeScaling("yarn", (parsed.tokens + 64) / limit),))  # room for steps
        wait_until_drawn(window)
    # every stretch of 89 tokens comes again, so that heads that look for repeats have something to find
    ids = " ".join(str(3 + (i * i) % 89) for i in range(parsed.tokens))
    recording = Recording(window, parsed.out)
    began = time.perf_counter()
    session.start(Prompt(ids, as_ids=True))
    until(lambda: session.run is not None and session.run.length == parsed.tokens, 3600)
    print(f"{parsed.tokens:,} tokens captured after {time.perf_counter() - began:.1f} s", flush=True)
    wait_until_drawn(window, 3_600_000)
    recording.look("head", lambda: session.selection.update(layer=session.model.config.layers - 1, head=1))  # type: ignore[union-attr]
    weights = cast("ScoresPanel", window.panels["scores"]).weights
    middle = weights.plot.center().toPoint()
    recording.look("zoom", lambda: wheel(weights, middle, 8))
    recording.look("pan", lambda: drag(weights, middle, QPoint(-60, -60)))
    recording.look("closer", lambda: wheel(weights, middle, 14))
    recording.look("cells", lambda: wheel(weights, middle, 14))
    recording.look("step", session.timeline.step)


if __name__ == "__main__":
    sys.exit(main())
