"""One layer of a chunk of a long prompt in slices of time, each as large as fits: nobody waits for more than one.

Projections, norms and MLP treat every row on its own, so they run a few rows at a time. Attention does not: a few rows
would read every key for little work. It runs a few heads at a time with all rows of the chunk, and where one head alone
takes too long, one range of keys after another, merged by their log-sum-exp. What comes out is what
:class:`model.decoder.decoder.Block` computes in one go. Letters as in ``model.decoder.attention``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.model.decoder.attention import (
    BRANCHES,
    WINDOW_BLOCK,
    Attended,
    Attention,
    Call,
    kernel_serves,
    merged,
    over_keys,
    settled,
    written_over,
)
from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.decoder import Block
from ropewalk.model.decoder.scores import key_range
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.progress import Pace, Pauses
from ropewalk.model.runs.budget import LEAST_ROWS, PIECE_ROWS, SLICE_SCORES, rows_in_slice

LEAST_KEYS = 1024
"""With fewer keys merging would be a good part of the work."""

Changed = Callable[[], AbstractContextManager[None]]


class Slices:
    """Runs blocks in slices of time, and learns from each how large the next one may be.

    Parameters
    ----------
    config
        Of the model whose blocks they are.
    """

    def __init__(self, config: ModelConfig) -> None:
        rows = min(rows_in_slice(config), PIECE_ROWS)
        self._reading = Pace(rows, PIECE_ROWS, least=LEAST_ROWS)
        self._writing = Pace(rows, PIECE_ROWS, least=LEAST_ROWS)
        self._scoring = Pace(SLICE_SCORES)

    def of_block(self, block: Block, x: Tensor, call: Call, changed: Changed) -> Pauses[Tensor]:
        """Run ``block`` on a chunk of the stream, [B, T, D] in and out.

        Parameters
        ----------
        changed
            Puts the interventions into the block. Each slice enters it anew: another job may run between two.
        """
        attn = block.attn
        q, k, v = yield from self._read(block, x, call, changed)
        with torch.no_grad(), changed():
            k, v, padding = attn.seen(k, v, call)
            rule = attn.rule
        result = yield from self._attended(_Asked(q, k, v, rule, call.past, padding, attn.sinks, call.branch))
        if rule.written:
            result = written_over(result, v, rule, past=call.past, padding=padding)
        attn.note(q, result, call)
        del q, k, v
        return (yield from self._written(block, x, result.out, changed))

    def _read(self, block: Block, x: Tensor, call: Call, changed: Changed) -> Pauses[tuple[Tensor, Tensor, Tensor]]:
        """Q' [B, H, T, Dh], K' and V [B, Hkv, T, Dh] of a chunk, a few rows at a time."""
        read = []
        for rows in _slices(x.shape[1], self._reading):
            with torch.no_grad(), changed(), self._reading.timed(rows.stop - rows.start):
                normed = block.attn_norm(block.hook_resid_pre(x[:, rows]))
                read.append(block.attn.read(normed, _rotation(block.attn, call, rows)))
            yield
        q, k, v = zip(*read, strict=True)
        return torch.cat(q, dim=2), torch.cat(k, dim=2), torch.cat(v, dim=2)

    def _written(self, block: Block, x: Tensor, out: Tensor, changed: Changed) -> Pauses[Tensor]:
        """The stream after the block, a few rows at a time."""
        after = torch.empty_like(x)
        for rows in _slices(x.shape[1], self._writing):
            with torch.no_grad(), changed(), self._writing.timed(rows.stop - rows.start):
                stream = block.hook_resid_pre(x[:, rows])
                after[:, rows] = block.add(stream, block.attn_norm(stream), block.attn.write(out[:, :, rows]))
            yield
        return after

    def _attended(self, asked: _Asked) -> Pauses[Attended]:
        """Attention of a chunk, a few heads at a time."""
        heads = asked.query.shape[1]
        out = torch.empty_like(asked.query)
        lse = out.new_empty(out.shape[:3], dtype=torch.float32)
        start = 0
        while start < heads:
            chosen = asked.heads(start, self._scoring.size)
            found = yield from self._by_keys(chosen) if chosen.is_divided_by_keys else self._by_rows(chosen)
            stop = start + chosen.query.shape[1]
            out[:, start:stop], lse[:, start:stop] = found.out, found.lse
            start = stop
        return Attended(out, lse)

    def _by_keys(self, asked: _Asked) -> Pauses[Attended]:
        """Some heads: the chunk's own keys and as many of the past's as fit, then more and more of the past."""
        past, tokens = asked.past, asked.query.shape[2]
        a_key = asked.query.shape[1] * tokens
        high = min(past, self._keys(a_key))
        with torch.no_grad(), self._scoring.timed(a_key * (high + tokens // 2)):
            parts = asked.over(past, past + tokens, causal=True)
            if high:
                parts = merged(parts, asked.over(0, high))
        while high < past:
            yield
            low, high = high, min(past, high + self._keys(a_key))
            with torch.no_grad(), self._scoring.timed(a_key * (high - low)):
                parts = merged(parts, asked.over(low, high))
        with torch.no_grad():
            result = settled(parts, asked.rule, past=past, padding=asked.padding, sinks=asked.sinks)
        yield
        return result

    def _keys(self, rows: int) -> int:
        """Keys that fill a slice of time with so many rows of all heads together."""
        return max(self._scoring.size // rows, LEAST_KEYS)

    def _by_rows(self, asked: _Asked) -> Pauses[Attended]:
        """Some heads where the past cannot be told from the rest: as many rows at a time as fit."""
        a_row = asked.query.shape[1] * asked.keys_seen
        found, start, tokens = [], 0, asked.query.shape[2]
        while start < tokens:
            stop = min(tokens, start + max(self._scoring.size // a_row, 1))
            with torch.no_grad(), self._scoring.timed(a_row * (stop - start)):
                found.append(asked.rows(start, stop))
            start = stop
            yield
        return Attended(torch.cat([one.out for one in found], 2), torch.cat([one.lse for one in found], 2))


@dataclass(frozen=True, eq=False)
class _Asked:
    """A question to attention: as :func:`model.decoder.attention.fused_attention` takes it."""

    query: Tensor
    key: Tensor
    value: Tensor
    rule: AttentionSpec
    past: int
    padding: Tensor | None
    sinks: Tensor | None
    branch: Branch

    @property
    def keys_seen(self) -> int:
        """Keys that a row is scored against, at most."""
        keys = self.key.shape[2]
        return keys if self.rule.window is None else min(keys, self.rule.window + WINDOW_BLOCK)

    @property
    def is_divided_by_keys(self) -> bool:
        """Whether every row of the call sees all of the past, and the kernel can answer for a part of it."""
        rule = self.rule
        sees_all = rule.causal and (rule.window is None or self.key.shape[2] <= rule.window)
        served = self.branch == "fused" and kernel_serves(self.query, self.key, self.value, rule, self.past, self.sinks)
        return sees_all and served

    def heads(self, start: int, scores: int) -> _Asked:
        """As many heads from ``start`` on as have so many scores: whole groups, or heads of one group."""
        heads, kv_heads = self.query.shape[1], self.key.shape[1]
        group = heads // kv_heads
        a_head = self.query.shape[0] * self.query.shape[2] * self.keys_seen
        fitting = max(scores // a_head, 1)
        begun = start % group
        stop = start + (fitting // group * group if fitting >= group and not begun else min(fitting, group - begun))
        shared = slice(start // group, -(-stop // group))
        return _Asked(
            self.query[:, start:stop],
            self.key[:, shared],
            self.value[:, shared],
            self.rule,
            self.past,
            self.padding,
            None if self.sinks is None else self.sinks[start:stop],
            self.branch,
        )

    def over(self, low: int, high: int, *, causal: bool = False) -> tuple[Tensor, Tensor]:
        """What a range of keys gives."""
        return over_keys(self.query, self.key, self.value, self.rule, (low, high), self.padding, causal=causal)

    def rows(self, start: int, stop: int) -> Attended:
        """What some of the rows see."""
        _, end = key_range(self.rule, (self.past + start, self.past + stop), self.key.shape[2])
        return BRANCHES[self.branch](
            self.query[:, :, start:stop],
            self.key[:, :, :end],
            self.value[:, :, :end],
            self.rule,
            past=self.past + start,
            padding=None if self.padding is None else self.padding[:, :end],
            sinks=self.sinks,
        )


def _slices(tokens: int, pace: Pace) -> Iterator[slice]:
    """Rows that fill one slice of time after another, nearly as many in each."""
    start = 0
    while start < tokens:
        pieces = -(-(tokens - start) // pace.size)
        stop = start + -(-(tokens - start) // pieces)
        yield slice(start, stop)
        start = stop


def _rotation(attn: Attention, call: Call, rows: slice) -> tuple[Tensor, Tensor] | None:
    """The (cos, sin) of some rows of a call."""
    rotation = call.rotations[attn.layer]
    return None if rotation is None else (rotation[0][:, rows], rotation[1][:, rows])
