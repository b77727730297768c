"""A rectangle of one head's scores and weights in full precision, to be taken home.

It owns which numbers these are and how many may be asked for. It must not know file formats.
"""

from __future__ import annotations

import numpy as np
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.readout import read_row
from ropewalk.model.readings.records import HeadNumbers
from ropewalk.model.runs.layer_trace import LayerTrace

MOST_CELLS = 32 << 20
"""Cells that may be taken at once: two matrices of float64, half a gibibyte."""
AT_ONCE = 16
"""Rows between two pauses."""


def numbers_steps(layer: LayerTrace, head: int, queries: tuple[int, int], keys: tuple[int, int]) -> Steps[HeadNumbers]:
    """Read a rectangle row by row, as :func:`model.lens.read_row` shows each; keys after a row's own are read as well.

    Raises
    ------
    TraceError
        When there is no such head, or the rectangle is empty, does not lie in the run, or has too many cells.
    """
    layer.check_head(head)
    _check(layer.length, queries, keys)
    height, width = queries[1] - queries[0], keys[1] - keys[0]
    scores, weights = np.zeros((height, width)), np.zeros((height, width))
    visible = np.zeros((height, width), np.bool_)
    for place in range(height):
        if place % AT_ONCE == 0:
            yield Progress(place, height, "Reading numbers")
        row = read_row(layer, head, queries[0] + place)
        part = slice(*keys)
        scores[place], weights[place], visible[place] = row.scores[part], row.weights[part], row.visible[part]
    return HeadNumbers(layer.spec.layer, head, queries, keys, scores, weights, visible)


def _check(length: int, queries: tuple[int, int], keys: tuple[int, int]) -> None:
    for name, (start, stop) in (("queries", queries), ("keys", keys)):
        if not 0 <= start < stop <= length:
            raise TraceError(f"The {name} {start} to {stop - 1} were asked for, but the rows are 0 to {length - 1}.")
    cells = (queries[1] - queries[0]) * (keys[1] - keys[0])
    if cells > MOST_CELLS:
        raise TraceError(
            f"{cells:,} cells were asked for, but at most {MOST_CELLS:,} are written at once; choose fewer rows, or "
            "save the trace, from which every cell can be computed."
        )
