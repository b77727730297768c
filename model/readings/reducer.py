"""The reducer: scores of a frame in blocks, each reduced to its pixels while it is still in the processor's cache.

The heavy step is one matrix product. The maximum of a pixel's weights needs no exponential of every cell, because
exp(score − lse) grows with the score: first the largest score of each row, then one exponential a pixel.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ropewalk.model.decoder.scores import Span, key_range, log_weights, scaled_scores
from ropewalk.model.progress import Progress, Steps, Watch
from ropewalk.model.readings.frames import Frame, Pixels, starts
from ropewalk.model.runs.layer_trace import LayerTrace

BLOCK_QUERIES = 256
BLOCK_KEYS = 1024
"""Scores computed at a time, 1 MiB in float32: what a core's own cache holds."""
WHAT = "Refining the picture"


class Reducer:
    """Walks over a frame in blocks of scores and reduces each to its pixels.

    Blocks are [keys, queries], so that the larger step of every reduction runs over the outer axis, where it is quick
    for any size of pixel, and K is read as it lies. Blocks are pooled over keys alone, into arrays [w, n] for all
    queries of the frame; pooling those over queries comes last, once.
    """

    def __init__(self, layer: LayerTrace, frame: Frame) -> None:
        self.layer, self.frame = layer, frame
        fine = layer.precision(frame.head, frame.rows, batch=frame.batch)
        self.q = layer.query_vectors(frame.head, frame.rows, batch=frame.batch, dtype=fine)
        self.k = layer.key_vectors(frame.head, frame.columns, batch=frame.batch, dtype=fine)
        self.lse = layer.normaliser(frame.head, frame.rows, batch=frame.batch)
        self.mean = frame.reduction == "mean"
        self.storage = self.q.new_empty(0)
        shape, fill = (frame.shape[1], len(self.q)), 0.0 if self.mean else -math.inf  # [w, n]
        self.scores = self.q.new_full(shape, fill)
        self.weights = self.q.new_full(shape, fill) if self.mean else None
        self.raw = self.q.new_full(shape, fill) if frame.raw else None

    def steps(self) -> Steps[Pixels]:
        """Reduce block after block, pausing when a slice of time is over."""
        watch = Watch()
        for rows in _pieces(self.frame.rows, 1, BLOCK_QUERIES):
            for columns in self._reached(rows):
                self._reduce(rows, columns)
                if watch.over:
                    yield Progress(0, 1, WHAT)
                    watch.restart()
        return self._finished()

    def _reached(self, rows: Span) -> list[Span]:
        """The blocks of keys to look at: without scores before the mask, those that a query of ``rows`` sees."""
        low, high = self.frame.columns
        wide = self.frame.cell[1]
        if self.raw is None:
            first, end = key_range(self.layer.spec, rows, self.layer.length)
            low, high = max(low, first // wide * wide), min(high, -(-end // wide) * wide)
        return _pieces((low, max(low, high)), wide, BLOCK_KEYS)

    def _reduce(self, rows: Span, columns: Span) -> None:
        """Pool one block over its keys."""
        wide, origin = self.frame.cell[1], self.frame.columns[0]
        n = slice(rows[0] - self.frame.rows[0], rows[1] - self.frame.rows[0])
        place = slice((columns[0] - origin) // wide, -(-(columns[1] - origin) // wide)), n
        scores = self._block(self.q[n], self.k[columns[0] - origin : columns[1] - origin])  # [m, n]
        if any(pattern.head == self.frame.head for pattern in self.layer.spec.written):
            scores = self.layer.raw_scores(self.frame.head, rows, columns, batch=self.frame.batch).T.contiguous()
        elif (added := self.layer.bias(self.frame.head, rows, columns, batch=self.frame.batch)) is not None:
            scores.add_(added.T)
        if self.raw is not None:
            _pool_into(self.raw[place], scores, wide, self.mean)
        masks = [
            (slice(low - columns[0], high - columns[0]), self._unseen(rows, (low, high)))
            for low, high in self._doubtful(rows, columns)
        ]
        for keys, unseen in masks:
            scores[keys].masked_fill_(unseen, 0.0 if self.mean else -math.inf)
        if self.raw is not None and not masks:
            self.scores[place] = self.raw[place]
        else:
            _pool_into(self.scores[place], scores, wide, self.mean)
        if self.weights is not None:
            weights = log_weights(scores.T, self.lse[n], out=scores.T).T.clamp_(max=0.0).exp_()
            for keys, unseen in masks:
                weights[keys].masked_fill_(unseen, 0.0)
            _pool_into(self.weights[place], weights, wide, self.mean)

    def _block(self, q: Tensor, k: Tensor) -> Tensor:
        """Scaled, soft-capped scores [m, n], in storage that every block uses again."""
        keys, queries = k.shape[0], q.shape[0]
        if self.storage.numel() < keys * queries:
            self.storage = q.new_empty(keys * queries)
        place = self.storage[: keys * queries].view(keys, queries)
        return scaled_scores(q, k, self.layer.spec, out=place.T).T

    def _doubtful(self, rows: Span, columns: Span) -> list[Span]:
        """The keys that some query may not see: all under padding or a mask, else those outside what every query sees.

        What the first query sees last, and the last query sees first, all of them see.
        """
        spec = self.layer.spec
        if self.layer.padding is not None or self.layer.mask is not None:
            return [columns]
        low = columns[0] if spec.window is None else rows[1] - spec.window
        high = rows[0] + 1 if spec.causal else columns[1]
        if low >= high:
            return [columns]
        parts = [(columns[0], min(low, columns[1])), (max(high, columns[0]), columns[1])]
        return [(start, stop) for start, stop in parts if start < stop]

    def _unseen(self, rows: Span, columns: Span) -> Tensor:
        """[m, n] bool: what the run's own mask hides."""
        return self.layer.visible(rows, columns, batch=self.frame.batch).logical_not_().T

    def _finished(self) -> Pixels:
        """Pool over queries, turn sums into means, and give what is masked the value 0."""
        frame, high = self.frame, self.frame.cell[0]
        visible = _visible_pixels(self.layer, frame)
        scores = _pooled_rows(self.scores, high, self.mean)
        raw = None if self.raw is None else _pooled_rows(self.raw, high, self.mean)
        if self.weights is None:
            below = log_weights(self.scores.T, self.lse, out=self.scores.T).T
            weights = _pooled_rows(below, high, self.mean).clamp_(max=0.0).exp_()
        else:
            counts = _visible_counts(self.layer, frame).clamp_min(1)
            weights = _pooled_rows(self.weights, high, self.mean).div_(counts)
            scores = scores.div(counts)
            raw = None if raw is None else raw.div_(_cell_counts(frame, self.q.device))
        shown = scores.masked_fill(~visible, 0.0), weights
        return Pixels(shown[0].float(), shown[1].float(), visible, None if raw is None else raw.float())


def reduced(layer: LayerTrace, frame: Frame) -> Steps[Pixels]:
    """A frame in pixels, pausing when a slice of time is over."""
    return Reducer(layer, frame).steps()


def _pieces(span: Span, cell: int, about: int) -> list[Span]:
    """Cut a span into pieces of about so many cells, each of whole pixels."""
    step = max(1, about // cell) * cell
    return [(start, min(start + step, span[1])) for start in range(*span, step)]


def _cell_counts(frame: Frame, device: torch.device) -> Tensor:
    """[h, w] how many cells each pixel covers."""
    first, end = starts(frame.rows, frame.cell[0], device)
    left, right = starts(frame.columns, frame.cell[1], device)
    return (end - first)[:, None] * (right - left)


def _pool_into(target: Tensor, x: Tensor, size: int, mean: bool) -> None:
    """Largest (or, for a mean, sum) of every ``size`` rows of ``x``; the last group may be smaller."""
    groups = _grouped(x, size, 0.0 if mean else -math.inf)
    if mean:
        torch.sum(groups, 1, out=target)
    else:
        torch.amax(groups, 1, out=target)


def _pooled_rows(x: Tensor, size: int, mean: bool) -> Tensor:
    """Pool [w, n] over n, which gives [h, w]."""
    groups = _grouped(x.T, size, 0.0 if mean else -math.inf)
    return groups.sum(1) if mean else groups.amax(1)


def _grouped(x: Tensor, size: int, fill: float) -> Tensor:
    """[n, m] → [n / size, size, m]; what is missing from the last group is ``fill``."""
    short = -x.shape[0] % size
    if short:
        x = torch.nn.functional.pad(x, (0, 0, 0, short), value=fill)
    return x.reshape(-1, size, x.shape[1])


def _visible_pixels(layer: LayerTrace, frame: Frame) -> Tensor:
    """[h, w] bool: whether any cell under a pixel is visible.

    The ranges of keys that neighbouring queries see overlap, so that a pixel's rows together see one range.
    """
    first, end = starts(frame.rows, frame.cell[0], layer.positions.device)
    return _visible_keys(layer, frame, first, end - 1) > 0


def _visible_counts(layer: LayerTrace, frame: Frame) -> Tensor:
    """[h, w] how many cells under a pixel are visible."""
    queries = torch.arange(*frame.rows, device=layer.positions.device)
    return _grouped(_visible_keys(layer, frame, queries, queries), frame.cell[0], 0).sum(1)


def _visible_keys(layer: LayerTrace, frame: Frame, first: Tensor, last: Tensor) -> Tensor:
    """[n, w] how many keys of each pixel's columns the queries ``first`` … ``last`` see."""
    columns = starts(frame.columns, frame.cell[1], first.device)
    return layer.count_visible((first[:, None], last[:, None]), columns, batch=frame.batch)
