"""How many frames a second the RoPE animation holds: 64 planes in a panel of 900 × 600.

Run ``python -m tests.benchmarks.rope_frames``. It reports and asserts nothing: a time belongs to a machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.style import theme
from tests.views.canned import CONFIG, CannedEngine, canned_session
from tests.views.driving import settle

FRAMES = 200


def main() -> None:
    """Measure and print."""
    app = QApplication([])
    theme.apply("dark")
    engine = CannedEngine(config=CONFIG.changed(head_width=128))
    with (
        tempfile.TemporaryDirectory() as folder,
        canned_session(Path(folder) / "settings.json", engine) as session,
    ):
        session.opening.begin()
        settle(session)
        panel = RopePanel(session)
        panel.resize(900, 600)
        panel.show()
        settle(session, panel)
        times = []
        for _ in range(FRAMES):
            began = time.perf_counter()
            panel.slider.setValue(panel.slider.value() + 1)
            panel.repaint()
            times.append(time.perf_counter() - began)
        times.sort()
        middle, worst = times[len(times) // 2], times[int(len(times) * 0.99)]
        print(f"{panel.view.planes} planes, {panel.width()} × {panel.height()}: median {1000 * middle:.1f} ms a frame")
        print(
            f"{1 / middle:.0f} frames a second; the slowest hundredth takes {1000 * worst:.1f} ms (50 a second: 20 ms)"
        )
        panel.close_down()
    app.quit()


if __name__ == "__main__":
    main()
