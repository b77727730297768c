"""The strong weights of some heads, one by one: those of a rectangle that reach a threshold.

A row of a softmax adds up to one, so that few of its weights are large, and what is seen of attention as lines is these
few. The rectangle is computed in blocks from Q', K' and lse; nothing here is T × T.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ropewalk.model.decoder.scores import Span, key_range
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Progress, Steps, Watch
from ropewalk.model.readings.readout import checked_span, frozen
from ropewalk.model.readings.records import StrongWeights
from ropewalk.model.runs.layer_trace import LayerTrace

BLOCK_QUERIES = 256
BLOCK_KEYS = 1024
"""Weights computed at a time."""
WHAT = "Looking for strong weights"


def strong_weights_steps(
    layer: LayerTrace,
    heads: Sequence[int],
    rows: Span | None = None,
    columns: Span | None = None,
    *,
    thresholds: Sequence[float] = (0.0,),
    most: int,
    batch: int = 0,
) -> Steps[StrongWeights]:
    """Find the visible weights of a rectangle of several heads that reach a threshold, pausing often.

    Parameters
    ----------
    rows, columns
        Half-open ranges of query and key rows; all when not given.
    thresholds
        Rising. The first of them is taken that no more than ``most`` weights reach, else the last.
    most
        How many weights are given at most: of more that reach the last threshold, the largest.

    Raises
    ------
    TraceError
        For a head or a range that is not there, and where there is no threshold.
    """
    for head in heads:
        layer.check_head(head)
    if not thresholds:
        raise TraceError("Strong weights were asked for without a threshold; give one at least.")
    rows, columns = checked_span(rows, layer.length, "Rows"), checked_span(columns, layer.length, "Columns")
    found, watch = _Found(thresholds, most), Watch()
    for number, head in enumerate(heads):
        for queries in _pieces(rows, BLOCK_QUERIES):
            first, end = key_range(layer.spec, queries, layer.length)
            for keys in _pieces((max(first, columns[0]), min(end, columns[1])), BLOCK_KEYS):
                weights = layer.weights(head, queries, keys, batch=batch)
                found.add(weights.masked_fill_(~layer.visible(queries, keys, batch=batch), -1.0), head, queries, keys)
                if watch.over:
                    yield Progress(number, len(heads), WHAT)
                    watch.restart()
    return found.reading(layer, tuple(heads), rows, columns, batch)


def _pieces(span: Span, size: int) -> list[Span]:
    return [(start, min(start + size, span[1])) for start in range(*span, size)]


class _Found:
    """What has been found so far: as many weights as are wanted, or up to a block more."""

    def __init__(self, thresholds: Sequence[float], most: int) -> None:
        self._thresholds, self._most = list(thresholds), most
        self._parts: list[tuple[Tensor, Tensor]] = []
        """Weights [n], and head, query and key of each [3, n]."""
        self._dropped = 0
        """How many reach the last threshold and are not among them."""

    def add(self, weights: Tensor, head: int, queries: Span, keys: Span) -> None:
        """Look through a block [n, m], in which a weight that is hidden is negative."""
        query, key = (weights >= self._thresholds[0]).nonzero(as_tuple=True)
        places = torch.stack((torch.full_like(query, head), query + queries[0], key + keys[0]))
        self._parts.append((weights[query, key], places))
        if sum(len(values) for values, _ in self._parts) > self._most:
            self._thin()

    def _thin(self) -> None:
        """Raise the threshold until there are no more than wanted; at the last one, keep the largest."""
        values, places = self._joined()
        while len(values) > self._most and len(self._thresholds) > 1:
            del self._thresholds[0]
            reach = values >= self._thresholds[0]
            values, places = values[reach], places[:, reach]
        self._dropped += max(len(values) - self._most, 0)
        self._parts = [(values[: self._most], places[:, : self._most])]

    def _joined(self) -> tuple[Tensor, Tensor]:
        """All of them, the largest first; those alike in the order of heads, queries and keys."""
        values, places = torch.cat([one for one, _ in self._parts]), torch.cat([one for _, one in self._parts], dim=1)
        order = values.argsort(descending=True, stable=True)
        return values[order], places[:, order]

    def reading(
        self, layer: LayerTrace, heads: tuple[int, ...], rows: Span, columns: Span, batch: int
    ) -> StrongWeights:
        """Put together what was found."""
        device = layer.positions.device
        self._parts.append((torch.empty(0, device=device), torch.empty(3, 0, dtype=torch.int64, device=device)))
        values, places = self._joined()
        every = torch.arange(layer.length, device=device)
        visible = layer.count_visible(
            (every, every), (every.new_tensor(0), every.new_tensor(layer.length)), batch=batch
        )
        head, query, key = (frozen(one) for one in places.to(torch.int32))
        return StrongWeights(
            layer=layer.spec.layer,
            heads=heads,
            rows=rows,
            columns=columns,
            threshold=self._thresholds[0],
            reached=len(values) + self._dropped,
            total=len(heads) * int(visible.sum()),
            head=head,
            query=query,
            key=key,
            weight=frozen(values),
        )
