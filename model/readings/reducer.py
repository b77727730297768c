"""The reducer: scores of a frame in blocks, each reduced to its pixels while it is still in the processor's cache.

The heavy step is one matrix product. The maximum of a pixel's weights needs no exponential of every cell, because
exp(score − lse) grows with the score: first the largest score of each row, then one exponential a pixel.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ropewalk.model.decoder.scores import Span, key_range, log_weights, sees, weights_of_logs
from ropewalk.model.progress import Pauses, Watch
from ropewalk.model.readings.frames import Frame, Pixels, reaches, starts
from ropewalk.model.readings.score_blocks import LOWEST, Room, ScoreBlocks, pieces, reached
from ropewalk.model.runs.layer_trace import LayerTrace

BLOCK_QUERIES = 256
BLOCK_KEYS = 1024
"""Scores computed at a time, 1 MiB in float32: what a core's own cache holds."""
BAND_CELLS = 1 << 17
"""What is pooled over keys before it is pooled over queries, where that is more."""


class Reducer:
    """Walks over a frame in blocks of scores and reduces each to its pixels.

    Blocks are pooled over keys alone, into arrays [w, n] for a band of pixels, and those over queries when the band is
    complete.

    Parameters
    ----------
    into
        Where the pixels are put.
    room
        What blocks of other frames used before.
    """

    def __init__(self, layer: LayerTrace, frame: Frame, into: Pixels, room: Room) -> None:
        self.layer, self.frame = layer, frame
        self.blocks = ScoreBlocks(layer, (frame.head,), frame.rows, frame.columns, batch=frame.batch, room=room)
        self.lse = self.blocks.lse[0]
        self.mean = frame.reduction == "mean"
        self.pixels = into.to(self.lse.dtype)
        self.nothing = 0.0 if self.mean else LOWEST
        self.pixels.scores.fill_(self.nothing)
        self.pixels.weights.fill_(self.nothing)
        kinds = ["scores", *["weights"] * self.mean, *["raw"] * frame.raw]
        longest = max(stop - start for start, stop in self._bands())
        self.band = {kind: self.lse.new_empty(frame.shape[1], longest) for kind in kinds}  # [w, n]

    def steps(self) -> Pauses[Pixels]:
        """Reduce block after block, pausing when a slice of time is over."""
        watch, wide = Watch(), self.frame.cell[1]
        for band in self._bands():
            parts = pieces(band, 1, BLOCK_QUERIES)
            if len(parts) > 1:  # not all of them reach as many keys
                for pooled in self.band.values():
                    pooled.fill_(self.nothing)
            for rows in parts:
                seen = reached(self.layer, rows, self.frame.columns, wide)
                for columns in pieces(self.frame.columns if self.frame.raw else seen, wide, BLOCK_KEYS):
                    self._reduce(rows, columns, band[0])
                    if watch.over:
                        yield
                        watch.restart()
            self._pool(band, reached(self.layer, band, self.frame.columns, wide))
        return self._finished()

    def _bands(self) -> list[Span]:
        """The rows of the frame, cut where pixels end."""
        return pieces(self.frame.rows, self.frame.cell[0], max(BLOCK_QUERIES, BAND_CELLS // self.frame.shape[1]))

    def _reduce(self, rows: Span, columns: Span, top: int) -> None:
        """Pool one block over its keys, for a band whose first row is ``top``."""
        wide, first = self.frame.cell[1], self.frame.rows[0]
        n = slice(rows[0] - first, rows[1] - first)
        place = self._columns(columns), slice(rows[0] - top, rows[1] - top)
        scores = self.blocks.block(n, columns)  # [m, 1, n]
        if self.frame.raw:
            pool_into(self.band["raw"][place], scores[:, 0], wide, self.mean)
            low, high = key_range(self.layer.spec, rows, self.layer.length)
            if columns[0] >= high or columns[1] <= low:
                return
        hidden = self.blocks.hide(scores, n, columns)
        if self.mean:
            weights = log_weights(scores[:, 0].T, self.lse[n]).T.clamp_(max=0.0)
            pool_into(self.band["weights"][place], weights_of_logs(weights), wide, self.mean)
            scores.mul_(scores != LOWEST)
        if self.frame.raw and not hidden:
            self.band["scores"][place] = self.band["raw"][place]
        else:
            pool_into(self.band["scores"][place], scores[:, 0], wide, self.mean)

    def _columns(self, columns: Span) -> slice:
        """The columns of pixels that keys lie in."""
        wide, origin = self.frame.cell[1], self.frame.columns[0]
        return slice((columns[0] - origin) // wide, -(-(columns[1] - origin) // wide))

    def _pool(self, band: Span, seen: Span) -> None:
        """Pool a band over its queries."""
        first, high, pixels = self.frame.rows[0], self.frame.cell[0], self.pixels
        h = slice((band[0] - first) // high, -(-(band[1] - first) // high))
        w, n = self._columns(seen), slice(band[1] - band[0])
        if pixels.raw is not None:
            pool_into(pixels.raw[h], self.band["raw"][:, n].T, high, self.mean)
        scores = self.band["scores"][w, n].T
        pool_into(pixels.scores[h, w], scores, high, self.mean)
        if self.mean:
            weights = self.band["weights"][w, n].T
        else:
            weights = log_weights(scores, self.lse[band[0] - first : band[1] - first], out=scores)
        pool_into(pixels.weights[h, w], weights, high, self.mean)

    def _finished(self) -> Pixels:
        """Turn sums into means, logarithms into weights, and give what is masked the value 0."""
        pixels, device = self.pixels, self.lse.device
        if self.mean:
            counts = _visible_counts(self.layer, self.frame).clamp_min(1)
            pixels.scores.div_(counts)
            pixels.weights.div_(counts)
            if pixels.raw is not None:
                pixels.raw.div_(_cell_counts(self.frame, device))
        else:
            weights_of_logs(pixels.weights.clamp_(max=0.0))
        pixels.visible.copy_(visible_pixels(self.layer, self.frame))
        pixels.scores.masked_fill_(~pixels.visible, 0.0)
        return pixels


def reduced(layer: LayerTrace, frame: Frame, into: Pixels | None = None, room: Room | None = None) -> Pauses[Pixels]:
    """A frame in pixels, pausing when a slice of time is over.

    Parameters
    ----------
    into
        Where the pixels are put; in memory of their own when not given.
    room
        What blocks of other frames used before.
    """
    into = Pixels.empty(frame, layer.positions.device) if into is None else into
    if not frame.raw and not reaches(layer, frame):
        for array in into.arrays:
            array.zero_()
        return into
    found = yield from Reducer(layer, frame, into, room or Room()).steps()
    if found is not into:
        for to, here in zip(into.arrays, found.arrays, strict=True):
            to.copy_(here)
    return into


def _cell_counts(frame: Frame, device: torch.device) -> Tensor:
    """[h, w] how many cells each pixel covers."""
    first, end = starts(frame.rows, frame.cell[0], device)
    left, right = starts(frame.columns, frame.cell[1], device)
    return (end - first)[:, None] * (right - left)


def pool_into(target: Tensor, x: Tensor, size: int, mean: bool = False) -> None:
    """Largest (or, for a mean, sum) of every ``size`` rows of ``x``; the last group may be smaller."""
    pool = torch.sum if mean else torch.amax
    whole = x.shape[0] // size
    if whole:
        pool(x[: whole * size].view(whole, size, *x.shape[1:]), 1, out=target[:whole])
    if whole < target.shape[0]:
        pool(x[whole * size :], 0, out=target[whole])


def visible_pixels(layer: LayerTrace, frame: Frame) -> Tensor:
    """[h, w] bool: whether any cell under a pixel is visible.

    The ranges of keys that neighbouring queries see overlap, so that a pixel's rows together see one range.
    """
    device = layer.positions.device
    (first, end), (low, stop) = starts(frame.rows, frame.cell[0], device), starts(frame.columns, frame.cell[1], device)
    if layer.padding is not None or layer.mask is not None:
        return _visible_keys(layer, frame, first, end - 1) > 0
    seen = sees(replace(layer.spec, window=None), end[:, None] - 1, low)
    return seen if layer.spec.window is None else seen & (stop - 1 > first[:, None] - layer.spec.window)


def _visible_counts(layer: LayerTrace, frame: Frame) -> Tensor:
    """[h, w] how many cells under a pixel are visible."""
    queries = torch.arange(*frame.rows, device=layer.positions.device)
    counts = queries.new_empty(frame.shape)
    pool_into(counts, _visible_keys(layer, frame, queries, queries), frame.cell[0], mean=True)
    return counts


def _visible_keys(layer: LayerTrace, frame: Frame, first: Tensor, last: Tensor) -> Tensor:
    """[n, w] how many keys of each pixel's columns the queries ``first`` … ``last`` see."""
    columns = starts(frame.columns, frame.cell[1], first.device)
    return layer.count_visible((first[:, None], last[:, None]), columns, batch=frame.batch)
