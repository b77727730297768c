"""How long a toggled intervention takes until the window shows it: the bundled model at 64 tokens.

Run ``python -m tests.benchmarks.intervention_latency``. It reports and asserts nothing: a time belongs to a machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from PySide6.QtCore import QEventLoop
from PySide6.QtWidgets import QApplication

from ropewalk.app.processes import new_session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    AblatePlane,
    Intervention,
    NoCausalMask,
    NoScale,
    PermuteTokens,
    ReadKvHead,
    RopeBase,
    RopeOff,
    RopeScaling,
    ScaleScores,
)
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures import snapshot

TOKENS = 64
INTERVENTIONS: tuple[Intervention, ...] = (
    NoScale(),
    ScaleScores(2.0),
    RopeOff(),
    RopeBase(500.0),
    NoCausalMask(),
    AblateHeads(1, (0,)),
    AblateHeads(1, (0, 1, 2, 3), ((0.1,) * 16,) * 4),
    AblatePlane(1, 0, 0),
    AblateMlp(1),
    ReadKvHead(1, 0, 1),
    PermuteTokens(tuple(reversed(range(64)))),
    RopeScaling("linear", 2.0),
)


def main() -> None:
    """Measure and print."""
    QApplication([])
    with tempfile.TemporaryDirectory() as folder:
        session = new_session(SettingsStore(Path(folder) / "settings.json"))
        window = MainWindow(session, restore=False)
        window.resize(1280, 800)
        window.show()
        session.opening.begin(prompt=Prompt(" hark, who goes there?" * 8))
        snapshot.wait_until_drawn(window)
        run = session.run
        assert run is not None
        print(f"{run.length} tokens ({TOKENS} are wanted), window 1280 × 800")
        for intervention in INTERVENTIONS:
            began = time.perf_counter()
            session.interventions.apply((intervention,))
            loop = QEventLoop()
            session.run_changed.connect(loop.quit)
            loop.exec()
            session.run_changed.disconnect(loop.quit)
            ran = time.perf_counter() - began
            scores = window.panels["scores"]
            while not scores.settled:
                QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
            drawn = time.perf_counter() - began
            print(f"{intervention.label}: run {1000 * ran:.0f} ms, scores drawn {1000 * drawn:.0f} ms")
            snapshot.wait_until_drawn(window)
        window.close()


if __name__ == "__main__":
    main()
