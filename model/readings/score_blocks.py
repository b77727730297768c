"""Scores of the heads that read one kv head, in blocks small enough for the processor's cache.

Blocks are [keys, heads, queries], so that K is read as it lies and what is done over keys runs over the outer axis,
where it is quick. Every block is written to the same storage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from ropewalk.model.decoder.scores import Span, key_range, scaled_scores
from ropewalk.model.runs.layer_trace import LayerTrace

LOWEST: Final = -1e30
"""Of a score that is hidden: its exponential is 0, and so is its product with it."""


class Room:
    """What blocks use one after another: memory for one, and what rules hide in blocks that lie alike."""

    def __init__(self) -> None:
        self._cells = torch.empty(0)
        self._limits: dict[tuple[object, ...], Tensor] = {}

    def block(self, like: Tensor, *shape: int) -> Tensor:
        """Memory for a block, until the next one is asked for."""
        count = math.prod(shape)
        if self._cells.numel() < count or (self._cells.dtype, self._cells.device) != (like.dtype, like.device):
            self._cells = like.new_empty(count)
        return self._cells[:count].view(shape)

    def limit(self, place: tuple[object, ...], make: Callable[[], Tensor]) -> Tensor:
        """The most that scores may be in a block that lies so, made once."""
        if place not in self._limits:
            self._limits[place] = make()
        return self._limits[place]


class ScoreBlocks:
    """Blocks of scores of some rows of the heads that read one kv head.

    Parameters
    ----------
    heads
        Query heads that read the same kv head.
    rows
        A range, or row numbers [n] that rise.
    columns
        The keys that blocks are asked of.
    room
        What blocks of other rows used before.

    Attributes
    ----------
    lse
        [G, n] the log-sum-exp of the rows, float64 where scores are large; blocks are of the same dtype.
    """

    def __init__(
        self,
        layer: LayerTrace,
        heads: Sequence[int],
        rows: Span | Tensor,
        columns: Span,
        *,
        batch: int = 0,
        room: Room | None = None,
    ) -> None:
        self.layer, self.heads, self.rows, self.batch = layer, heads, rows, batch
        self._room, self._origin = room or Room(), columns[0]
        self.lse = _stacked([layer.normaliser(head, rows, batch=batch) for head in heads])
        fine = self.lse.dtype
        self._q = _stacked([layer.query_vectors(head, rows, batch=batch, dtype=fine) for head in heads])
        self._k = layer.key_vectors(heads[0], columns, batch=batch, dtype=fine)
        self._written = {pattern.head for pattern in layer.spec.written} & {*heads}
        self._finite = bool((self._k.sum() + self.lse.amin()).isfinite())

    def block(self, n: slice, columns: Span) -> Tensor:
        """Scores [m, G, n] before the mask of the ``n``-th of the rows, in storage that the next block uses again."""
        q, k = self._q[:, n], self._k[columns[0] - self._origin : columns[1] - self._origin]
        place = self._room.block(q, len(k), q.shape[0] * q.shape[1])
        scores = scaled_scores(q.reshape(-1, q.shape[2]), k, self.layer.spec, out=place.T).T.view(len(k), *q.shape[:2])
        for number, head in enumerate(self.heads if self._written or self.layer.mask is not None else ()):
            if head in self._written:
                raw = self.layer.raw_scores(head, self._picked(n), columns, batch=self.batch, dtype=q.dtype)
                scores[:, number] = raw.T
            elif (added := self.layer.bias(head, self._picked(n), columns, batch=self.batch)) is not None:
                scores[:, number].add_(added.T)
        return scores

    def hide(self, scores: Tensor, n: slice, columns: Span) -> bool:
        """Let every score of a block that is hidden be :data:`LOWEST`; whether there may be some."""
        doubtful = self._doubtful(n, columns)
        for keys, part in doubtful:
            if self._finite:
                torch.minimum(scores[keys], self._limit(n, part), out=scores[keys])
            else:
                scores[keys].masked_fill_(self._unseen(n, part), LOWEST)
        return bool(doubtful)

    def _doubtful(self, n: slice, columns: Span) -> list[tuple[slice, Span]]:
        parts = doubtful_keys(self.layer, self.bounds(n), columns)
        return [(slice(low - columns[0], high - columns[0]), (low, high)) for low, high in parts]

    def bounds(self, n: slice) -> Span:
        """The range from the first to the last of the ``n``-th rows."""
        picked = self._picked(n)
        return (int(picked[0]), int(picked[-1]) + 1) if isinstance(picked, Tensor) else picked

    def _picked(self, n: slice) -> Span | Tensor:
        if isinstance(self.rows, Tensor):
            return self.rows[n]
        return self.rows[0] + n.start, min(self.rows[0] + n.stop, self.rows[1])

    def _unseen(self, n: slice, columns: Span) -> Tensor:
        """[m, 1, n] bool: what the run's own mask hides."""
        seen = self.layer.visible(self._picked(n), columns, batch=self.batch)
        return seen.T.logical_not().contiguous()[:, None]

    def _limit(self, n: slice, columns: Span) -> Tensor:
        """[m, 1, n] the most that a score may be. Causality and a window hide alike in blocks that lie alike."""
        spec, (first, last) = self.layer.spec, self.bounds(n)

        def made() -> Tensor:
            seen = self.layer.visible(self._picked(n), columns, batch=self.batch)
            return seen.T.to(self.lse.dtype, memory_format=torch.contiguous_format)[:, None].sub_(0.5).mul_(-2 * LOWEST)

        if self.layer.padding is not None or self.layer.mask is not None or isinstance(self.rows, Tensor):
            return made()
        place = (columns[0] - first, columns[1] - first, last - first, spec.causal, spec.window, self.lse.dtype)
        return self._room.limit(place, made)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    return parts[0][None] if len(parts) == 1 else torch.stack(tuple(parts))


def doubtful_keys(layer: LayerTrace, rows: Span, columns: Span) -> list[Span]:
    """The keys that some query may not see: all under padding or a mask, else those outside what every query sees.

    What the first query sees last, and the last query sees first, all of them see.
    """
    spec = layer.spec
    if layer.padding is not None or layer.mask is not None:
        return [columns]
    low = columns[0] if spec.window is None else rows[1] - spec.window
    high = rows[0] + 1 if spec.causal else columns[1]
    if low >= high:
        return [columns]
    parts = [(columns[0], min(low, columns[1])), (max(high, columns[0]), columns[1])]
    return [(start, stop) for start, stop in parts if start < stop]


def pieces(span: Span, cell: int, about: int) -> list[Span]:
    """Cut a span into pieces of about so many cells, each of whole pixels."""
    step = max(1, about // cell) * cell
    return [(start, min(start + step, span[1])) for start in range(*span, step)]


def reached(layer: LayerTrace, rows: Span, columns: Span, cell: int) -> Span:
    """The part of a range of keys that queries of ``rows`` see between them, in whole pixels; it may be empty."""
    first, end = key_range(layer.spec, rows, layer.length)
    low = max(columns[0], first // cell * cell)
    return low, max(low, min(columns[1], -(-end // cell) * cell))
