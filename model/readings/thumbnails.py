"""Small pictures of every head, layer by layer, with the head statistics of :mod:`model.readings.patterns`.

They compute weights in strips. Of a long run they are sampled, and say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ropewalk.model.progress import Partial, Progress, Steps
from ropewalk.model.readings.patterns import STATISTICS, formulas_of, layer_scores, pairs_of, undefined_of
from ropewalk.model.readings.records import AtlasPart, Floats, HeadAtlas, Reduction
from ropewalk.model.readings.tiles import read_head, whole_head_steps
from ropewalk.model.runs.trace import Trace

EXACT_UP_TO = 2048
"""Rows of a run whose thumbnails look at every cell unless asked otherwise."""
WHAT = "Drawing the heads"


def atlas_steps(
    trace: Trace, pixels: int = 64, *, exact: bool = False, first: Sequence[int] = (), batch: int = 0
) -> Steps[HeadAtlas]:
    """Thumbnails and scores of all heads, pausing after every head.

    Yields a :class:`~model.progress.Partial` with an :class:`~model.readings.records.AtlasPart` for every layer that is
    ready.

    Parameters
    ----------
    pixels
        Bounds the side of a thumbnail.
    exact
        Whether the thumbnails of a long run look at every cell too.
    first
        The layers to begin with: those in sight.
    """
    c = trace.config
    every_cell = exact or trace.length <= EXACT_UP_TO
    side = -(-trace.length // max(1, -(-trace.length // pixels)))
    thumbnails = np.full((c.layers, c.heads, side, side), np.nan, dtype=np.float32)
    found = {name: np.full((c.layers, c.heads), math.nan) for name in STATISTICS}
    reduction: Reduction = "exact"
    pairs = pairs_of(trace, STATISTICS, batch)
    undefined = undefined_of(pairs)
    defined = [name for name in STATISTICS if name not in undefined]
    order = [number for number in dict.fromkeys([*first, *range(c.layers)]) if 0 <= number < c.layers]
    for done, number in enumerate(order):
        layer = trace[number]
        for head in range(c.heads):
            if every_cell:
                picture = yield from whole_head_steps(layer, head, pixels=pixels, raw=False, batch=batch)
            else:
                picture = read_head(layer, head, pixels=pixels, reduction="sampled", raw=False, batch=batch)
            tile = picture.weights
            thumbnails[number, head] = np.where(tile.visible, tile.values, np.nan)
            reduction = tile.reduction
            yield Progress(done * c.heads + head + 1, c.layers * c.heads, WHAT)
        scores = yield from layer_scores(layer, defined, pairs, batch)
        for name, values in scores.items():
            found[name][number] = values
        part = AtlasPart(number, _locked(thumbnails[number].copy()), reduction, scores)
        yield Partial((done + 1) * c.heads, c.layers * c.heads, WHAT, part)
    titles = {one.name: one.title for one in STATISTICS.values()}
    small = tuple(one.name for one in STATISTICS.values() if one.smallest_first)
    return HeadAtlas(_locked(thumbnails), reduction, found, formulas_of(trace), undefined, titles, small)


def _locked(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
