"""The weights of all heads of a layer in one walk: the largest under each pixel, and the entropy of each row.

The heads that read one kv head share each block of K. A block is made, and what is read of it is read while it is in
the processor's cache; nothing here is T × T.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.model.decoder.scores import LOG2_E, Span
from ropewalk.model.progress import Pauses, Watch
from ropewalk.model.readings.frames import Frame
from ropewalk.model.readings.reducer import pool_into
from ropewalk.model.readings.score_blocks import Room, ScoreBlocks, pieces, reached
from ropewalk.model.runs.layer_trace import LayerTrace

BLOCK_QUERIES, BLOCK_CELLS = 768, 1 << 20
"""Rows of all heads of a block together, and its weights: 4 MiB in float32, and as much for their logarithms.

Smaller ones would fit a core's own cache, but threads would wait for one another more often.
"""
LEAST_QUERIES = 32


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """What was asked for of all heads of a layer.

    Attributes
    ----------
    largest
        [H, h, w] of the weights under each pixel, None where no picture was asked for.
    entropy
        [H, n] of each row −Σ w ln w in nats, the sink's share included, None where it was not asked for.
    """

    largest: Tensor | None
    entropy: Tensor | None


def layer_weights(
    layer: LayerTrace, rows: Span | Tensor, frame: Frame | None = None, *, entropy: bool = True, batch: int = 0
) -> Pauses[LayerWeights]:
    """Walk over the weights of some rows of all heads, pausing when a slice of time is over.

    Parameters
    ----------
    rows
        A range, or row numbers that rise.
    frame
        The pixels of the picture, whose rows are ``rows``; its head does not matter.
    """
    walk = _Walk(layer, rows, frame, entropy, batch)
    for heads in _sharing(layer):
        yield from walk.steps(heads)
    if walk.entropy is not None:
        walk.entropy.add_(torch.special.entr(layer.sink_weights(rows=rows, batch=batch)))
    return LayerWeights(walk.largest, walk.entropy)


def _sharing(layer: LayerTrace) -> list[tuple[int, ...]]:
    """The query heads that read each kv head."""
    heads: dict[int, list[int]] = {}
    for head in range(layer.spec.heads):
        heads.setdefault(layer.spec.kv_head_of(head), []).append(head)
    return [tuple(found) for found in heads.values()]


class _Walk:
    """Goes through the blocks of one kv head after another."""

    def __init__(self, layer: LayerTrace, rows: Span | Tensor, frame: Frame | None, entropy: bool, batch: int) -> None:
        self.layer, self.rows, self.frame, self.batch = layer, rows, frame, batch
        self.count = len(rows) if isinstance(rows, Tensor) else rows[1] - rows[0]
        device, heads = layer.positions.device, layer.spec.heads
        self.largest = None if frame is None else torch.zeros(heads, *frame.shape, device=device)
        self.entropy = torch.zeros(heads, self.count, device=device) if entropy else None
        self.room, self.other_room, self.watch = Room(), Room(), Watch()

    def steps(self, heads: tuple[int, ...]) -> Pauses[None]:
        """Look at the weights of the heads that read one kv head."""
        layer, frame, every, count = self.layer, self.frame, (0, self.layer.length), len(heads)
        high, wide = (1, 1) if frame is None else frame.cell
        blocks = ScoreBlocks(layer, heads, self.rows, every, batch=self.batch, room=self.room)
        lse = blocks.lse.masked_fill(blocks.lse.isinf(), 0.0).mul_(-LOG2_E)
        for start, stop in pieces((0, self.count), high, max(BLOCK_QUERIES // count, LEAST_QUERIES)):
            n = slice(start, stop)
            offset = lse[:, n].reshape(-1)
            entropy = torch.zeros_like(offset)
            largest = offset.new_zeros(0 if frame is None else frame.shape[1], len(offset))  # [w, G · n]
            for columns in pieces(reached(layer, blocks.bounds(n), every, wide), wide, BLOCK_CELLS // len(offset)):
                scores = blocks.block(n, columns)  # [m, G, n]
                flat = scores.view(-1, len(offset))
                logs = torch.add(offset, flat, alpha=LOG2_E, out=flat)
                blocks.hide(scores, n, columns)
                weights = torch.exp2(logs, out=self.other_room.block(logs, *logs.shape))
                if frame is not None:
                    pool_into(largest[columns[0] // wide : -(-columns[1] // wide)], weights, wide)
                if self.entropy is not None:
                    entropy.sub_(logs.mul_(weights).sum(0))
                if self.watch.over:
                    yield
                    self.watch.restart()
            if self.entropy is not None:
                self.entropy[[*heads], n] = entropy.div_(LOG2_E).clamp_(min=0.0).view(count, -1).float()
            if self.largest is not None:
                h = slice(start // high, -(-stop // high))
                pooled = largest.new_empty(h.stop - h.start, len(largest), count)
                pool_into(pooled, largest.view(len(largest), count, -1).permute(2, 0, 1), high)
                self.largest[[*heads], h] = pooled.clamp_(max=1.0).permute(2, 0, 1).float()
