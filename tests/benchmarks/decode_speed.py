"""Decoding in the window with everything in sight, beside the same steps without a window: reports, asserts nothing.

    python -m tests.benchmarks.decode_speed [--steps 64] [--pairs 5] [--prefill 128] [--checkpoint PATH]

Steps are played without a pause: the next begins when the one before is on screen. The same prompt is played in turn by
a window of 1920 × 1080 pixels, on Qt's offscreen platform unless QT_QPA_PLATFORM says otherwise, and by a session that
no window shows. A process without Qt takes the same steps as well. Steps a second are told by their median, and the
window's share of the others by the median of the pairs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # as the engine's process has it

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Play in turn, and print the shares."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--steps", type=int, default=256)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--prefill", type=int, default=128)
    options.add_argument("--checkpoint", help="by default the bundled model")
    options.add_argument("--bare", action="store_true", help="take the steps without Qt, and print their seconds")
    parsed = options.parse_args()
    if parsed.bare:
        print(bare(parsed.checkpoint, parsed.prefill, parsed.steps))
        return 0
    from PySide6.QtWidgets import QApplication

    qt = QApplication(["ropewalk"])
    with (
        player(parsed.checkpoint, parsed.prefill, shown=True) as shown,
        player(parsed.checkpoint, parsed.prefill, shown=False) as alone,
    ):
        for one in (shown, alone):
            one.seconds(parsed.steps)  # the first of each loads and lays out
        pairs = [(shown.seconds(parsed.steps), alone.seconds(parsed.steps)) for _ in range(parsed.pairs)]
    del qt
    command = [sys.executable, "-m", "tests.benchmarks.decode_speed", "--bare", *sys.argv[1:]]
    without_qt = [
        float(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()[-1])
        for _ in range(min(parsed.pairs, 3))
    ]
    in_window, session = (median(times) for times in zip(*pairs, strict=True))
    for name, seconds in (("window", in_window), ("session alone", session), ("without Qt", median(without_qt))):
        print(f"{name:14} {parsed.steps / seconds:8.1f} steps a second")
    print(f"the window's share of a session alone: {median(alone / shown for shown, alone in pairs):.2f} (0.9)")
    print(f"the window's share of steps without Qt: {median(without_qt) / in_window:.2f}")
    return 0


def prompt(tokens: int) -> str:
    """So many ids."""
    return " ".join(str(3 + i % 89) for i in range(tokens))


def bare(path: str | None, prefill: int, steps: int) -> float:
    """Seconds for the steps in a process without Qt; the second time they are taken."""
    from ropewalk.model.engine import engine
    from ropewalk.model.progress import finished
    from ropewalk.model.readings.records import Sampling
    from ropewalk.model.tokens.prompt import Prompt

    model_handle = finished(engine.open_model(path, "cpu", "float32"))
    took = 0.0
    for run_id in (1, 2):
        handle = finished(engine.run(model_handle, Prompt(prompt(prefill), as_ids=True), run_id, None))
        began = time.perf_counter()
        for _ in range(steps):
            handle = finished(engine.step(handle, 1, Sampling()))
        took = time.perf_counter() - began
    return took


class Player:
    """A session, shown by a window or not, and playing it."""

    def __init__(self, folder: Path, path: str | None, prefill: int, *, shown: bool) -> None:
        from ropewalk.app.processes import new_session
        from ropewalk.app.settings import SettingsStore
        from ropewalk.model.tokens.prompt import Prompt
        from ropewalk.views.main_window import MainWindow

        self.session = new_session(SettingsStore(folder / "settings.json"))
        self.window = MainWindow(self.session, restore=False) if shown else None
        if self.window is not None:
            self.window.resize(1920, 1080)
            self.window.show()
        self.session.opening.begin(path, Prompt(prompt(prefill), as_ids=True))
        self._wait()

    def seconds(self, steps: int) -> float:
        """Run the prompt anew, and play so many steps from its end until the last is there."""
        from PySide6.QtCore import QEventLoop

        from ropewalk.model.readings.records import Run

        session, loop = self.session, QEventLoop()
        session.start(session.prompt)
        self._wait()
        assert session.run is not None
        last = session.run.prefill + steps

        def look(before: Run | None, after: Run | None) -> None:
            if after is not None and after.length >= last:
                loop.quit()

        session.timeline.set_pace(0)
        session.run_changed.connect(look)
        began = time.perf_counter()
        session.timeline.play()
        loop.exec()
        took = time.perf_counter() - began
        session.timeline.pause()
        session.run_changed.disconnect(look)
        self._wait()
        return took

    def _wait(self) -> None:
        from PySide6.QtCore import QCoreApplication, QEventLoop

        from ropewalk.views.pictures.snapshot import wait_until_drawn

        if self.window is not None:
            wait_until_drawn(self.window)
        while self.session.busy:
            QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)

    def close(self) -> None:
        """End both."""
        if self.window is not None:
            self.window.close()
        self.session.close()


@contextmanager
def player(path: str | None, prefill: int, *, shown: bool) -> Iterator[Player]:
    """A session with settings of its own, closed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        made = Player(Path(folder), path, prefill, shown=shown)
        try:
            yield made
        finally:
            made.close()


if __name__ == "__main__":
    sys.exit(main())
