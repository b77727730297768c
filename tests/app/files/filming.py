"""Frames as the window records them, for tests of what becomes of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ropewalk.app.files.frames import Frames, Recording


def filmed(*shown: tuple[NDArray[np.uint8], int]) -> Frames:
    """Record pictures of [h, w, 4] blue, green, red and one byte more, with the milliseconds that each stays."""
    recording = Recording()
    for pixels, milliseconds in shown:
        height, width, _ = pixels.shape
        for _ in recording.adding(width, height, pixels.tobytes(), milliseconds):
            pass
    return recording.taken()
