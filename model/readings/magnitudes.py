"""Magnitudes: how large each one is beside the others of its layer, in one byte.

A picture of thousands of numbers then needs no arithmetic in the window. No torch, no Qt.
"""

from __future__ import annotations

import numpy as np

from ropewalk.model.readings.records import Bytes, Floats

FULL = 254
"""The magnitude of a layer's 99th percentile, and of all that is larger."""
UNDEFINED = 255
"""What stands for what is not a number."""
SAMPLED = 8192
"""Numbers of a layer from which its percentile is taken; of a larger one, every n-th is looked at."""


def magnitudes(contents: Floats) -> Bytes:
    """|contents| of one layer in units of its 99th percentile.

    Parameters
    ----------
    contents
        [Hkv, S, Dh].

    Returns
    -------
    Bytes
        [Hkv · Dh, S], from 0 to ``FULL``; ``UNDEFINED`` where there is no number.
    """
    heads, columns, width = contents.shape
    size = np.abs(contents).transpose(0, 2, 1).reshape(heads * width, columns)
    some = size.ravel()[:: -(-size.size // SAMPLED) or 1]
    some = some[~np.isnan(some)]
    full = float(np.percentile(some, 99)) if some.size else 0.0
    with np.errstate(invalid="ignore"):
        share = np.clip(size / (full or 1.0), 0, 1) * FULL
    made: Bytes = np.where(np.isnan(share), UNDEFINED, np.rint(share)).astype(np.uint8)
    made.setflags(write=False)
    return made
