"""The colours of every picture at its start, for the window and for notebooks."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

EVERY_FIFTH = (
    "440154 46085c 471063 481769 481d6f 482475 472a7a 46307e 453781 433d84 414287 3f4889 3d4e8a 3a538b 38598c "
    "355e8d 33638d 31688e 2e6d8e 2c718e 2a768e 297b8e 27808e 25848e 23898e 218e8d 20928c 1f978b 1e9c89 1fa188 "
    "21a585 24aa83 28ae80 2eb37c 35b779 3dbc74 46c06f 50c46a 5ac864 65cb5e 70cf57 7cd250 89d548 95d840 a2da37 "
    "b0dd2f bddf26 cae11f d8e219 e5e419 f1e51d fde725"
)
"""Every fifth of the 256 colours of viridis (van der Walt and Smith, 2015, in the public domain)."""


@cache
def viridis() -> NDArray[np.uint8]:
    """Return the 256 colours [256, 4] RGBA; each is lighter than the one before it, for every eye."""
    table: NDArray[np.uint8] = np.full((256, 4), 255, dtype=np.uint8)
    known = np.array([list(bytes.fromhex(colour)) for colour in EVERY_FIFTH.split()])  # [52, 3]
    for channel in range(3):
        table[:, channel] = np.rint(np.interp(np.arange(256), np.arange(0, 256, 5), known[:, channel]))
    table.setflags(write=False)
    return table
