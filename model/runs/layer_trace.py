"""One layer of a run, and what every reader of it needs: scores, the mask and weights of any rectangle, exactly.

Everything is computed from Q', K' and lse when somebody asks, for just what they ask for; nothing is T × T unless they
ask for all of it. A head of None stands for all heads at once. Letters as in ``model.decoder.config``; S rows in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor

from ropewalk.model.decoder.cache import Rows
from ropewalk.model.decoder.scores import (
    Span,
    count_visible,
    key_range,
    log_weights,
    paired_scores,
    scaled_scores,
    sees,
    written_scores,
)
from ropewalk.model.decoder.spec import AttentionSpec, WrittenPattern
from ropewalk.model.errors import TraceError
from ropewalk.model.runs.mask import LayerMask

Picked = Span | Tensor | None
"""Rows of a run: a half-open range, row numbers [n], or all."""
FINE: Final = 64.0
"""A kept log-sum-exp up to here gives weights that are right to some 1e-4: float32 has places enough."""
BLOCK: Final = 1 << 21
"""Scores held at once where larger ones are worked out again."""


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """What attention used in one layer of a run, immutable, and the scores and weights that follow from it.

    Attributes
    ----------
    spec
        What the layer's attention did.
    positions, padding
        [B, S] position ids; [B, S] bool, True for a real token, or None.
    queries, keys, values, lse
        Q' [B, H, S, Dh], K' and V [B, Hkv, S, Dh] and the log-sum-exp [B, H, S], in the model's dtype (lse float32) and
        on its device. V may be wider or narrower than K' (latent attention).
    mask
        What hides keys and is added to scores where the rules of the spec cannot say it.
    """

    spec: AttentionSpec
    positions: Tensor
    padding: Tensor | None
    queries: Rows
    keys: Rows
    values: Rows
    lse: Rows
    mask: LayerMask | None = field(default=None, kw_only=True)

    @property
    def length(self) -> int:
        """S, the rows of the run."""
        return self.keys.length

    @property
    def rows(self) -> tuple[Rows, Rows, Rows, Rows]:
        """Everything that grows: Q', K', V and lse."""
        return self.queries, self.keys, self.values, self.lse

    def at(self, length: int) -> LayerTrace:
        """The layer as it was when the run had ``length`` rows; nothing is copied."""
        inside = [segment for segment in self.spec.segments if segment.start < length]
        return LayerTrace(
            replace(self.spec, segments=tuple(replace(one, stop=min(one.stop, length)) for one in inside)),
            self.positions[:, :length],
            None if self.padding is None else self.padding[:, :length],
            *(rows.first(length) for rows in self.rows),
            mask=None if self.mask is None else self.mask.at(length),
        )

    def prompt(self, batch: int) -> LayerTrace:
        """The layer of one prompt of a batch; nothing is copied."""
        one = slice(batch, batch + 1)
        return LayerTrace(
            self.spec,
            self.positions[one],
            None if self.padding is None else self.padding[one],
            *(Rows.of(rows.tensor[one]) for rows in self.rows),
            mask=None if self.mask is None else self.mask.prompt(batch),
        )

    def check_head(self, head: int) -> None:
        """Refuse a head that is not there.

        Raises
        ------
        TraceError
            With the number of heads there are.
        """
        if not 0 <= head < self.spec.heads:
            raise TraceError(
                f"L{self.spec.layer}H{head} was asked for, but the layer has {self.spec.heads} heads, from 0 to "
                f"{self.spec.heads - 1}."
            )

    # ------------------------------------------------------------------------------------------------------------------
    # Vectors

    def query_vectors(
        self, head: int | None = None, rows: Picked = None, *, batch: int = 0, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Q' of some rows, [n, Dh] of one head, [H, n, Dh] of all."""
        return _picked(self.queries, batch, head, rows).to(dtype)

    def key_vectors(
        self, head: int | None = None, keys: Picked = None, *, batch: int = 0, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """K' that a query head reads, [m, Dh]; of all heads [Hkv, m, Dh], [H, m, Dh] where the grouping was changed."""
        spec = self.spec
        found = _picked(self.keys, batch, None if head is None else spec.kv_head_of(head), keys)
        return (found if head is not None or spec.kv_map is None else found[list(spec.kv_map)]).to(dtype)

    # ------------------------------------------------------------------------------------------------------------------
    # Rectangles

    def raw_scores(
        self,
        head: int | None = None,
        rows: Picked = None,
        keys: Picked = None,
        *,
        batch: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Scaled, soft-capped scores as they are before the mask, [n, m] of one head, [H, n, m] of all.

        Parameters
        ----------
        dtype
            float32 for pictures, float64 for rows and cells.
        """
        query = self.query_vectors(head, rows, batch=batch, dtype=dtype)
        raw = scaled_scores(query, self.key_vectors(head, keys, batch=batch, dtype=dtype), self.spec)
        added = self.bias(head, rows, keys, batch=batch)
        raw = raw if added is None else raw.add_(added)
        for pattern, part, queries, place in self._written(raw, head, rows):
            part[place] = written_scores(pattern, queries[:, None], self._numbers(keys), dtype)
        return raw

    def bias(
        self, head: int | None = None, rows: Picked = None, keys: Picked = None, *, batch: int = 0
    ) -> Tensor | None:
        """What is added to a rectangle of scores after the soft cap, None where nothing is."""
        return None if self.mask is None else self.mask.added(head, _index(rows), _index(keys), batch)

    def scores(
        self,
        head: int | None = None,
        rows: Picked = None,
        keys: Picked = None,
        *,
        batch: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """The same after the mask: −inf where a key is hidden."""
        raw = self.raw_scores(head, rows, keys, batch=batch, dtype=dtype)
        return raw.masked_fill_(~self.visible(rows, keys, batch=batch), -math.inf)

    def weights(
        self,
        head: int | None = None,
        rows: Picked = None,
        keys: Picked = None,
        *,
        batch: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Softmax weights, 0 where a key is hidden; no other column is needed, since lse is known."""
        fine = torch.promote_types(dtype, self.precision(head, rows, batch=batch))
        raw = self.raw_scores(head, rows, keys, batch=batch, dtype=fine)
        weights = self.log_weights(raw, head, rows, batch=batch).exp_()
        return weights.masked_fill_(~self.visible(rows, keys, batch=batch), 0.0).to(dtype)

    def log_weights(self, raw: Tensor, head: int | None = None, rows: Picked = None, *, batch: int = 0) -> Tensor:
        """Logarithms of what scores of some rows, [n, m] or [H, n, m], weigh where nothing hides them; at most 0."""
        return log_weights(raw, self.normaliser(head, rows, batch=batch)).clamp_(max=0.0)

    def precision(self, head: int | None = None, rows: Picked = None, *, batch: int = 0) -> torch.dtype:
        """In what to compute the scores of some rows from which weights are made: float64 where they are large."""
        return torch.float64 if bool(_large(_picked(self.lse, batch, head, rows)).any()) else torch.float32

    def normaliser(self, head: int | None = None, rows: Picked = None, *, batch: int = 0) -> Tensor:
        """Log-sum-exp of some rows' visible scores and the sink, [n] or [H, n]; +inf for a row that sees nothing.

        It is the run's own, in float32. Where that is beyond :data:`FINE`, its last place is worth more than a weight
        may be off, so such rows are added up again, in float64: all their weights, and the sink's, are 1 together.
        """
        kept = _picked(self.lse, batch, head, rows)
        large = _large(kept)
        return torch.where(large, self._added_up(head, rows, batch), kept.double()) if bool(large.any()) else kept

    def _added_up(self, head: int | None, rows: Picked, batch: int) -> Tensor:
        """Log-sum-exp of some rows from their scores, in float64."""
        found, sinks = [], self.sink_logits()
        cells = self.length * (self.spec.heads if head is None else 1)  # of a row
        for some in torch.split(self._numbers(rows), max(BLOCK // cells, 1)):
            keys = key_range(self.spec, (int(some.min()), int(some.max()) + 1), self.length)
            found.append(self.scores(head, some, keys, batch=batch, dtype=torch.float64).logsumexp(-1))
        lse = torch.cat(found, -1)
        return lse if sinks is None else torch.logaddexp(lse, sinks[:, None] if head is None else sinks[head])

    def sink_weights(
        self, head: int | None = None, rows: Picked = None, *, batch: int = 0, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """What the sink takes of some rows, [n] or [H, n]; 0 where the layer has none."""
        lse, sinks = self.normaliser(head, rows, batch=batch).to(dtype), self.sink_logits()
        if sinks is None:
            return torch.zeros_like(lse)
        share = ((sinks[:, None] if head is None else sinks[head]) - lse).clamp_(max=0.0).exp_()
        for _, part, _, place in self._written(share, head, rows):
            part[place] = 0.0
        return share

    def sink_logits(self) -> Tensor | None:
        """[H] the logits that take part in every row without a key, float32; None where the layer has no sink."""
        sinks = self.spec.sinks
        return None if sinks is None else torch.tensor(sinks, device=self.positions.device)

    def visible(self, rows: Picked = None, keys: Picked = None, *, batch: int = 0) -> Tensor:
        """[n, m] bool under the run's own mask."""
        return self.sees(self._numbers(rows)[:, None], self._numbers(keys), batch=batch)

    def sees(self, queries: Tensor, keys: Tensor, *, batch: int = 0) -> Tensor:
        """The same for row numbers in any shapes that broadcast."""
        seen = None if self.mask is None else self.mask.sees(queries, keys, batch)
        if seen is not None:
            return seen
        seen = sees(self.spec, queries, keys)
        return seen if self.padding is None else seen & self.padding[batch, keys]

    def count_visible(self, queries: tuple[Tensor, Tensor], keys: tuple[Tensor, Tensor], *, batch: int = 0) -> Tensor:
        """How many keys of a range the queries of a range see; see :func:`model.decoder.scores.count_visible`.

        Under a mask that no rule says, each query's keys count.
        """
        cells = None if self.mask is None else self.mask.count_cells(queries, keys, batch)
        if cells is not None:
            return cells
        return count_visible(self.spec, queries, keys, None if self.padding is None else self.padding[batch])

    # ------------------------------------------------------------------------------------------------------------------
    # Pairs

    def paired_scores(
        self,
        queries: Tensor,
        keys: Tensor,
        head: int | None = None,
        *,
        batch: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Scores before the mask of row ``queries[i]`` with ``keys[i]``, [n] of one head, [H, n] of all."""
        k = self.key_vectors(head, _span(keys), batch=batch, dtype=dtype)
        q = self.query_vectors(head, _span(queries), batch=batch, dtype=dtype)
        if head is None:
            scores = paired_scores(q.view(len(k), -1, *q.shape[1:]), k[:, None], self.spec).flatten(0, 1)
        else:
            scores = paired_scores(q, k, self.spec)
        added = None if self.mask is None else self.mask.added_to_pairs(head, queries, keys, batch)
        scores = scores if added is None else scores.add_(added)
        for pattern, part, rows, place in self._written(scores, head, queries):
            part[place] = written_scores(pattern, rows, keys[place])
        return scores

    def paired_weights(self, queries: Tensor, keys: Tensor, head: int | None = None, *, batch: int = 0) -> Tensor:
        """Weights of the same pairs, in float32."""
        fine = self.precision(head, queries, batch=batch)
        raw = self.paired_scores(queries, keys, head, batch=batch, dtype=fine)
        weights = self.log_weights(raw[..., None], head, queries, batch=batch)[..., 0].exp_()
        return weights.masked_fill_(~self.sees(queries, keys, batch=batch), 0.0).float()

    def _written(
        self, of: Tensor, head: int | None, rows: Picked
    ) -> Iterator[tuple[WrittenPattern, Tensor, Tensor, Tensor]]:
        """Patterns that were written: each with its head's part of ``of``, the rows it has, and their places there."""
        for pattern in self.spec.written:
            if head in (None, pattern.head):
                numbers = self._numbers(rows)
                place = (numbers < len(pattern.rows)).nonzero()[:, 0]
                yield pattern, of if head is not None else of[pattern.head], numbers[place], place

    def _numbers(self, picked: Picked) -> Tensor:
        if isinstance(picked, Tensor):
            return picked
        return torch.arange(*(picked or (0, self.length)), device=self.positions.device)


def check_row(row: int, length: int) -> None:
    """Refuse a row that a run does not have.

    Raises
    ------
    TraceError
        With the number of rows there are.
    """
    if not 0 <= row < length:
        raise TraceError(f"Row {row} was asked for, but this run has {length} rows, from 0 to {length - 1}.")


def _large(lse: Tensor) -> Tensor:
    """Which log-sum-exps are beyond :data:`FINE`; infinity, of a row that sees nothing, is not."""
    return (lse.abs() > FINE) & torch.isfinite(lse)


def _picked(kept: Rows, batch: int, head: int | None, rows: Picked) -> Tensor:
    """Some rows of one head, or of all of them."""
    index = _index(rows)
    return kept.tensor[batch][:, index] if head is None else kept.tensor[batch, head][index]


def _span(rows: Tensor) -> Span | Tensor:
    """Row numbers as a range, where they are one: what it picks need not be copied."""
    if not len(rows) or int(rows[-1] - rows[0]) != len(rows) - 1 or not bool((rows.diff() == 1).all()):
        return rows
    return int(rows[0]), int(rows[-1]) + 1


def _index(rows: Picked) -> slice | Tensor:
    return rows if isinstance(rows, Tensor) else slice(*(rows or (None,)))
