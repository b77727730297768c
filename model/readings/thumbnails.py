"""Small pictures of every head, layer by layer, with the head statistics of :mod:`model.readings.patterns`.

One walk over the weights of a layer gives both. Of a long run they are sampled, and say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ropewalk.model.progress import Partial, Progress, Steps, saying
from ropewalk.model.readings.frames import frame_of
from ropewalk.model.readings.layer_weights import layer_weights
from ropewalk.model.readings.patterns import (
    EXACT_ENTROPY_UP_TO,
    STATISTICS,
    formulas_of,
    layer_scores,
    pairs_of,
    undefined_of,
)
from ropewalk.model.readings.records import AtlasPart, Floats, HeadAtlas, Reduction
from ropewalk.model.readings.reducer import visible_pixels
from ropewalk.model.readings.tiles import read_head
from ropewalk.model.runs.trace import Trace

EXACT_UP_TO = 2048
"""Rows of a run whose thumbnails look at every cell unless asked otherwise."""
WHAT = "Drawing the heads"


def atlas_steps(
    trace: Trace, pixels: int = 64, *, exact: bool = False, first: Sequence[int] = (), batch: int = 0
) -> Steps[HeadAtlas]:
    """Thumbnails and scores of all heads, pausing often.

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
    entropy = trace.length <= EXACT_ENTROPY_UP_TO
    for done, number in enumerate(order):
        layer, walked = trace[number], None
        if every_cell:
            frame = frame_of(layer, 0, None, None, pixels, raw=False, batch=batch)
            walk = layer_weights(layer, frame.rows, frame, entropy=entropy, batch=batch)
            walked = yield from saying(Progress(done * c.heads, c.layers * c.heads, WHAT), walk)
            assert walked.largest is not None
            largest = walked.largest.masked_fill_(~visible_pixels(layer, frame), math.nan)
            thumbnails[number], reduction = largest.cpu().numpy(), frame.reduction
        for head in () if every_cell else range(c.heads):
            tile = read_head(layer, head, pixels=pixels, reduction="sampled", raw=False, batch=batch).weights
            thumbnails[number, head] = np.where(tile.visible, tile.values, np.nan)
            reduction = tile.reduction
            yield Progress(done * c.heads + head + 1, c.layers * c.heads, WHAT)
        scores = yield from layer_scores(layer, defined, pairs, batch, walked)
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
