"""How many frames a second a decoded token is on its way with: the workspace of decoding at 1366 × 768.

Run ``python -m tests.benchmarks.decode_frames``. It reports and asserts nothing: a time belongs to a machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication

from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.pictures import snapshot
from ropewalk.views.style import theme
from tests.views.canned import PROMPT, CannedEngine, canned_session
from tests.views.driving import window_over

STEPS = 12
FRAMES = 36
"""Moments of a step: 600 ms at 60 a second."""
TOKENS = 48


def main() -> None:
    """Measure and print."""
    app = QApplication([])
    theme.apply("dark")
    with (
        tempfile.TemporaryDirectory() as folder,
        canned_session(Path(folder) / "settings.json", CannedEngine(prefill=TOKENS)) as session,
    ):
        window = window_over(session)
        window.resize(QSize(1366, 768))
        window.show()
        session.opening.begin(prompt=Prompt(PROMPT))
        window.show_workspace("decode")
        session.timeline.to_end()
        snapshot.wait_until_drawn(window)
        clock = session.timeline.clock
        clock.is_stepped, clock.moves = True, lambda: True
        times, processor = [], []
        for _ in range(STEPS):
            session.timeline.step()
            while session.busy:
                app.processEvents()
            for moment in range(FRAMES + 1):
                began = time.perf_counter(), time.process_time()
                clock.frame(moment / FRAMES)
                app.processEvents()  # what has moved is painted
                times.append(time.perf_counter() - began[0])
                processor.append(time.process_time() - began[1])
        print(f"{TOKENS} tokens and {STEPS} more, {window.width()} × {window.height()}; 60 frames a second: 16.7 ms")
        for what, every in (("a frame", sorted(times)), ("a frame by the processor's own clock", sorted(processor))):
            middle, worst = every[len(every) // 2], every[int(len(every) * 0.99)]
            print(f"{what}: {1000 * middle:.1f} ms, {1 / middle:.0f} a second; the slowest 1 % {1000 * worst:.1f} ms")
        window.close()
    app.quit()


if __name__ == "__main__":
    main()
