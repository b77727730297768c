"""How long a frame of the lines panel takes: a layer of eight heads with 512 tokens in sight, scrolled and pointed at.

Run ``python -m tests.benchmarks.lines_frames``. It reports and asserts nothing: a time belongs to a machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtWidgets import QApplication

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.progress import finished
from ropewalk.model.readings.strong import strong_weights_steps
from ropewalk.model.runs.trace import capture
from ropewalk.views.panels.lines import AUTOMATIC, MOST_CHOSEN
from ropewalk.views.plots.lines import LinesView
from ropewalk.views.style import theme
from ropewalk.views.style.colour_maps import distinct
from tests.model.small_models import BASE, random_ids

TOKENS = 512
FRAMES = 60


def main() -> None:
    """Measure and print."""
    app = QApplication([])
    theme.apply("dark")
    model = Decoder(BASE.changed(heads=8, max_position=TOKENS), seed=0).eval()
    layer = capture(model, random_ids(TOKENS))[1]
    began = time.perf_counter()
    weights = finished(strong_weights_steps(layer, range(8), thresholds=AUTOMATIC, most=MOST_CHOSEN))
    print(
        f"{len(weights.weight):,} of {weights.total:,} weights found in {1000 * (time.perf_counter() - began):.0f} ms"
    )
    view = LinesView()
    view.resize(900, 600)
    view.set_names(tuple(f"token{place}" for place in range(TOKENS)))
    view.want(TOKENS)
    view.show()

    def frame(act: Callable[[], object]) -> float:
        began = time.perf_counter()
        act()
        view.repaint()
        return time.perf_counter() - began

    first, rest, whole = [], [], []
    for _ in range(FRAMES // 10):
        times = [frame(lambda: view.show_weights(weights, distinct(8, "dark")))]
        while not view.is_painted:
            view._next.stop()
            times.append(frame(view._next.timeout.emit))
        first.append(times[0])
        rest += times[1:]
        whole.append(sum(times))
    pointed = [frame(partial(view.point, at, -1)) for at in range(TOKENS - FRAMES, TOKENS)]
    for what, times in (("first frame", first), ("another frame", rest), ("a token pointed at", pointed)):
        print(f"{what}: median {1000 * np.median(times):.1f} ms, the slowest {1000 * max(times):.1f} (promised: 16)")
    print(f"all lines: {1000 * np.median(whole):.0f} ms in {1 + len(rest) // len(first)} frames")
    app.quit()


if __name__ == "__main__":
    main()
