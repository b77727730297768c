"""Several heads side by side: their pictures, the mean of all of them, and the difference of two.

Mean and difference are linear, and so is the mean of the cells that a pixel stands for, or one of them; the largest is
not. So where heads are shown by their largest cells, these two are made of pictures by the mean, and say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ropewalk.model.decoder.scores import Span
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.records import NO_HEAD, BoardReading, Bools, Doubles, Floats, HeadPicture, Reduction, Tile
from ropewalk.model.readings.tiles import TileCache, read_head, refine_steps
from ropewalk.model.runs.trace import Trace

WHAT = "Reading the heads"


def board_steps(
    trace: Trace,
    heads: Sequence[tuple[int, int]],
    shown: Span,
    rows: Span | None = None,
    columns: Span | None = None,
    pixels: int = 512,
    *,
    average: bool = False,
    difference: tuple[int, int] | None = None,
    reduction: Reduction = "max",
    refined: bool = False,
    cache: TileCache | None = None,
) -> Steps[BoardReading]:
    """Read heads, each (layer, head), pausing after every one.

    Parameters
    ----------
    shown
        The half-open range of them whose pictures are wanted.
    rows, columns, pixels, reduction, cache
        As of :func:`~model.readings.tiles.read_head`.
    average, difference
        Whether the mean of all of them is wanted; which two, by their places, the first less the second.
    refined
        Whether to look at every cell of what would be sampled.

    Raises
    ------
    TraceError
        For a head or a range that is not there.
    """
    wanted = set(range(*shown)) | set(difference or ()) | set(range(len(heads)) if average else ())
    if not all(0 <= place < len(heads) and 0 <= heads[place][0] < trace.config.layers for place in wanted):
        raise TraceError("A head was asked for that is not on the board or not in the model.")
    pictures: dict[int, HeadPicture] = {}
    linear: dict[int, HeadPicture] = {}
    for number, place in enumerate(sorted(wanted)):
        layer, head = heads[place]
        done = Progress(number, len(wanted), WHAT)

        def read(how: Reduction, layer: int = layer, head: int = head, done: Progress = done) -> Steps[HeadPicture]:
            frame = trace[layer], head, rows, columns, pixels
            found = read_head(*frame, reduction=how, raw=False, cache=cache)
            if not refined or found.weights.reduction != "sampled":
                return found
            return (yield from _whole(refine_steps(*frame, reduction=how, raw=False, cache=cache), done))

        found = yield from read(reduction)
        if place in range(*shown):
            pictures[place] = found
        if average or place in (difference or ()):
            linear[place] = (yield from read("mean")) if found.weights.reduction == "max" else found
        yield Progress(number + 1, len(wanted), WHAT)
    return BoardReading(
        tuple(pictures.values()),
        _combined(list(linear.values()), np.full(len(heads), 1 / len(heads))) if average and heads else None,
        None if difference is None else _combined([linear[place] for place in difference], np.array([1.0, -1.0])),
    )


def _whole(steps: Steps[HeadPicture], done: Progress) -> Steps[HeadPicture]:
    """A picture without its parts, pausing where they would be said."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            picture: HeadPicture = end.value
            return picture
        yield done


def _combined(pictures: Sequence[HeadPicture], shares: Doubles) -> HeadPicture:
    """A picture of Σ share · picture."""

    def combined(tiles: Sequence[Tile], *, everywhere: bool) -> Tile:
        seen = np.stack([tile.visible for tile in tiles])
        visible: Bools = np.asarray(seen.all(0) if everywhere else seen.any(0))
        values: Floats = np.tensordot(shares, np.stack([tile.values for tile in tiles]), 1).astype(np.float32)
        values[~visible] = 0.0
        for array in (values, visible):
            array.setflags(write=False)
        return replace(tiles[0], layer=NO_HEAD, head=NO_HEAD, values=values, visible=visible)

    return HeadPicture(
        NO_HEAD,
        NO_HEAD,
        NO_HEAD,
        combined([picture.scores for picture in pictures], everywhere=True),
        combined([picture.weights for picture in pictures], everywhere=False),
    )
