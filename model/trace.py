"""A run that can be looked at: Q', K', V and the log-sum-exp of every layer, and the ways to make and extend one.

Attention is kept as a function, not as a matrix: nothing here is T × T. ``model.lens`` reads a trace; this file makes
traces and knows how to replay one row of them. Letters as in ``model.config``; S rows in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from model.attention import Call
from model.budget import CHUNK_ROWS, ROOM, Logits, default_logits
from model.cache import KvCache, Rows, grow_ahead
from model.config import Branch, ModelConfig
from model.decoder import Decoder
from model.errors import PromptError, TraceError
from model.experiments import Experiment, check_experiments
from model.intervention import changed_block, changed_rule, turned
from model.probes import capture as recording
from model.probes import hook_points
from model.progress import Pace, Pauses, Progress, Steps, Watch, finished, saying
from model.quick_step import QuickStep
from model.slices import Slices
from model.spec import AttentionSpec, RotationSegment

LOGIT_ROWS = 16
"""Rows whose logits are computed first; then as many as fit in a slice of time."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One run, immutable. A decode step makes a new trace that shares the storage of the old one.

    Attributes
    ----------
    run_id
        Which run this is; a decode step keeps it.
    specs
        What each layer's attention did.
    queries, keys, values, lse
        For each layer: Q' [B, H, S, Dh], K' and V [B, Hkv, S, Dh] and the log-sum-exp [B, H, S], in the model's
        dtype (lse float32) and on its device.
    ids
        [B, S] token ids, None where vectors were given.
    positions, padding
        [B, S] position ids; [B, S] bool, True for a real token, or None.
    prefill
        Rows the prompt gave; later rows were decoded one at a time.
    logits
        [B, 1, n, V] of the rows from ``first_logit_row`` on, None when none were kept.
    experiments
        What was changed in the model while it ran.
    earlier
        The run one step before, kept only where an experiment lets a new token change earlier rows.
    """

    run_id: int
    config: ModelConfig
    specs: tuple[AttentionSpec, ...]
    queries: tuple[Rows, ...]
    keys: tuple[Rows, ...]
    values: tuple[Rows, ...]
    lse: tuple[Rows, ...]
    ids: Tensor | None
    positions: Tensor
    padding: Tensor | None
    prefill: int
    logits: Rows | None
    first_logit_row: int
    branch: Branch = "fused"
    experiments: tuple[Experiment, ...] = ()
    earlier: Trace | None = None

    @property
    def length(self) -> int:
        """S, the rows of the run."""
        return self.keys[0].length

    @property
    def batch(self) -> int:
        """B."""
        return self.keys[0].tensor.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of Q', K' and V."""
        return self.keys[0].tensor.dtype

    @property
    def kept_bytes(self) -> int:
        """Bytes of the rows in view: Q', K', V, lse and logits."""
        rows = [*self.queries, *self.keys, *self.values, *self.lse, *([self.logits] if self.logits else [])]
        return sum(row.used_bytes for row in rows)

    def at(self, length: int) -> Trace:
        """The same run as it was when it had ``length`` rows; nothing is copied.

        Raises
        ------
        TraceError
            When the run has fewer rows, or the prompt more.
        """
        if not self.prefill <= length <= self.length:
            raise TraceError(f"Row {length} was asked for, but this run has rows from {self.prefill} to {self.length}.")
        if length == self.length:
            return self
        if self.earlier is not None:
            return self.earlier.at(length)
        kept = max(0, length - self.first_logit_row)
        return replace(
            self,
            queries=tuple(rows.first(length) for rows in self.queries),
            keys=tuple(rows.first(length) for rows in self.keys),
            values=tuple(rows.first(length) for rows in self.values),
            lse=tuple(rows.first(length) for rows in self.lse),
            specs=tuple(_clipped(spec, length) for spec in self.specs),
            ids=None if self.ids is None else self.ids[:, :length],
            positions=self.positions[:, :length],
            padding=None if self.padding is None else self.padding[:, :length],
            logits=self.logits.first(kept) if self.logits is not None and kept else None,
        )

    def logits_of(self, row: int) -> Tensor | None:
        """[B, V] of one row, None where they were not kept."""
        if self.logits is None or not self.first_logit_row <= row < self.first_logit_row + self.logits.length:
            return None
        return self.logits.tensor[:, 0, row - self.first_logit_row]

    def reach(self, row: int) -> int:
        """The length that length-dependent rotary rules saw when ``row`` was computed."""
        positions = self.positions[:, : self.prefill] if row < self.prefill else self.positions[:, row]
        return int(positions.max()) + 1

    def check_row(self, row: int) -> None:
        """Refuse a row that is not there.

        Raises
        ------
        TraceError
            With the number of rows there are.
        """
        if not 0 <= row < self.length:
            raise TraceError(
                f"Row {row} was asked for, but this run has {self.length} rows, from 0 to {self.length - 1}."
            )


def _clipped(spec: AttentionSpec, length: int) -> AttentionSpec:
    inside = [segment for segment in spec.segments if segment.start < length]
    return replace(spec, segments=tuple(replace(s, stop=min(s.stop, length)) for s in inside))


# ----------------------------------------------------------------------------------------------------------------------
# Making a trace


def capture(
    model: Decoder,
    ids: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    *,
    run_id: int = 0,
    logits: Logits | None = None,
    positions: Tensor | None = None,
    padding: Tensor | None = None,
    branch: Branch = "fused",
    experiments: Sequence[Experiment] = (),
) -> Trace:
    """Run a prompt and keep what is needed to look at every head of it.

    Parameters
    ----------
    ids
        Token ids, one prompt [T] or a batch [B, T]; or vectors [B, T, D] in place of the embedding.
    logits
        Whose logits to keep: ``all`` rows, the ``last``, or ``none``. By default all up to 1,024 tokens.
    positions, padding, branch
        As in :meth:`model.decoder.Decoder.forward`.
    experiments
        What to change in the model meanwhile; an order of tokens is applied to the ids by the caller.

    Raises
    ------
    PromptError, PositionError, ExperimentError
        When the prompt is empty or too long, or an experiment names what the model does not have.

    Examples
    --------
    >>> checkpoint = open_checkpoint("path/to/folder")
    >>> trace = capture(checkpoint.model, checkpoint.tokenizer.encode("to be or not to be"))
    >>> lens.weights(trace, layer=1, head=3).shape
    """
    steps = capture_steps(
        model,
        ids,
        run_id=run_id,
        logits=logits,
        positions=positions,
        padding=padding,
        branch=branch,
        experiments=experiments,
    )
    return finished(steps)


def capture_steps(
    model: Decoder,
    ids: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    *,
    run_id: int = 0,
    logits: Logits | None = None,
    positions: Tensor | None = None,
    padding: Tensor | None = None,
    branch: Branch = "fused",
    experiments: Sequence[Experiment] = (),
    chunk: int = 0,
    what: str = "Running the prompt",
) -> Steps[Trace]:
    """Do what :func:`capture` does, pausing after every layer or more often.

    ``chunk`` > 0 runs the prompt in chunks of so many rows against the cache, and each layer of a chunk in slices of
    time. ``what`` is what its progress says.
    """
    check_experiments(experiments, model.config)
    inputs = _as_inputs(model, ids)
    if any(experiment.breaks_cache for experiment in experiments):
        chunk = 0  # a piece would not see the keys of later pieces
    batch, tokens = inputs.shape[:2]
    logits = logits or default_logits(tokens)
    device = inputs.device
    if positions is None:
        positions = torch.arange(tokens, device=device).expand(batch, tokens)
    store = _Store(model.config.layers, room=tokens - min(chunk or tokens, tokens) + tokens // ROOM)
    maker = _Maker(model, store, experiments)
    reach = int(positions.max()) + 1 if tokens else 0
    layers, slices = model.config.layers, Slices(model.config) if chunk else None
    for start in range(0, tokens, chunk or tokens):
        stop = min(start + (chunk or tokens), tokens)
        with torch.no_grad(), turned(model, experiments):
            x, call = model.begin(
                inputs[:, start:stop],
                cache=store,
                positions=positions[:, start:stop],
                padding=None if padding is None else padding[:, :stop],
                branch=branch,
                reach=reach,
            )
        for layer in range(layers):
            point = Progress(start + (stop - start) * layer // layers, tokens, what)
            if slices is None:
                x = maker.run_layer(layer, x, call)
            else:
                x = yield from saying(point, maker.run_layer_in(slices, layer, x, call))
            yield replace(point, done=start + (stop - start) * (layer + 1) // layers)
        store.settle()
        yield from maker.keep_logits(x, logits, last_piece=stop == tokens, more=tokens - stop + tokens // ROOM)
    keys, values = store.filled()
    return Trace(
        run_id=run_id,
        config=model.config,
        specs=tuple(
            changed_rule(model.block(layer).attn.spec(segments), experiments)
            for layer, segments in enumerate(_segments(model, experiments, (0, tokens), reach))
        ),
        queries=tuple(store.queries),
        keys=tuple(keys),
        values=tuple(values),
        lse=tuple(store.lse),
        ids=None if inputs.is_floating_point() else inputs,
        positions=positions,
        padding=padding,
        prefill=tokens,
        logits=maker.logits,
        first_logit_row=0 if logits == "all" else tokens - 1,
        branch=branch,
        experiments=tuple(experiments),
    )


def append(model: Decoder, trace: Trace, ids: int | Sequence[int]) -> Trace:
    """Decode one step: run one token for each prompt of the batch and return the longer trace."""
    return finished(append_steps(model, trace, ids))


def append_steps(model: Decoder, trace: Trace, ids: int | Sequence[int]) -> Steps[Trace]:
    """Do what :func:`append` does, pausing when a slice of time is over."""
    if trace.ids is None:
        raise TraceError("This run was given vectors, not tokens, so it cannot be continued with a token.")
    device = trace.positions.device
    tokens = torch.tensor([[ids]] if isinstance(ids, int) else [[one] for one in ids], device=device)  # [B, 1]
    row = trace.length
    positions = trace.positions[:, -1:] + 1
    padding = None if trace.padding is None else torch.cat((trace.padding, trace.padding.new_ones(trace.batch, 1)), 1)
    if any(experiment.breaks_cache for experiment in trace.experiments):
        return (yield from _run_again(model, trace, tokens, positions, padding))
    store = _Store.going_on(trace)
    yield from store.step_apart()
    kept = trace.logits
    if kept is not None and kept.is_behind:
        kept = yield from kept.apart_steps()
    maker = _Maker(model, store, trace.experiments, kept)
    watch = Watch()
    with torch.no_grad(), turned(model, trace.experiments):
        x, call = model.begin(tokens, cache=store, positions=positions, padding=padding, branch=trace.branch)
        maker.quick = None if trace.experiments else QuickStep.of(model, x, call)
    for layer in range(model.config.layers):
        x = maker.run_layer(layer, x, call)
        if watch.over:
            yield Progress(layer + 1, model.config.layers, "Decoding a token")
            watch.restart()
    store.settle()
    yield from maker.keep_logits(x, "last" if trace.logits is None else "all", last_piece=True)
    keys, values = store.filled()
    assert maker.logits is not None
    grow_ahead((*store.queries, *keys, *values, *store.lse, maker.logits))
    segments = _segments(model, trace.experiments, (row, row + 1), call.length)
    return replace(
        trace,
        specs=tuple(_extended(spec, new) for spec, new in zip(trace.specs, segments, strict=True)),
        queries=tuple(store.queries),
        keys=tuple(keys),
        values=tuple(values),
        lse=tuple(store.lse),
        ids=torch.cat((trace.ids, tokens), 1),
        positions=torch.cat((trace.positions, positions), 1),
        padding=padding,
        logits=maker.logits,
        first_logit_row=row if trace.logits is None else trace.first_logit_row,
    )


def _run_again(model: Decoder, trace: Trace, tokens: Tensor, positions: Tensor, padding: Tensor | None) -> Steps[Trace]:
    """Compute every row anew, since an experiment lets the new token change the earlier rows."""
    assert trace.ids is not None
    longer = yield from capture_steps(
        model,
        torch.cat((trace.ids, tokens), 1),
        run_id=trace.run_id,
        logits="all" if trace.first_logit_row == 0 else "last",
        positions=torch.cat((trace.positions, positions), 1),
        padding=padding,
        branch=trace.branch,
        experiments=trace.experiments,
    )
    return replace(longer, prefill=trace.prefill, earlier=trace)


def _segments(
    model: Decoder, experiments: Sequence[Experiment], rows: tuple[int, int], reach: int
) -> list[tuple[RotationSegment, ...]]:
    """What each layer rotated some rows with, under the experiments."""
    with turned(model, experiments):
        return [model.segments(layer, *rows, reach) for layer in range(model.config.layers)]


def _extended(spec: AttentionSpec, new: tuple[RotationSegment, ...]) -> AttentionSpec:
    """Add a row's rotation, joining it to the last segment where the frequencies are the same."""
    if not new or not spec.segments:
        return replace(spec, segments=spec.segments + new)
    last, added = spec.segments[-1], new[0]
    if (last.frequencies, last.factor) == (added.frequencies, added.factor):
        return replace(spec, segments=(*spec.segments[:-1], replace(last, stop=added.stop)))
    return replace(spec, segments=spec.segments + new)


class _Store(KvCache):
    """The KV cache of a trace: what attention used beside K and V is kept too."""

    def __init__(self, layers: int, room: int = 0) -> None:
        super().__init__(layers, room)
        self.queries: list[Rows] = []
        self.lse: list[Rows] = []
        self._noted: list[tuple[int, Tensor, Tensor]] = []

    @classmethod
    def going_on(cls, trace: Trace) -> _Store:
        """Appending to a trace's rows never changes those it has."""
        store = cls(trace.config.layers)
        store.keys, store.values = list(trace.keys), list(trace.values)
        store.queries, store.lse = list(trace.queries), list(trace.lse)
        return store

    def step_apart(self) -> Steps[None]:
        """Take rows that somebody else has gone on from into stores of their own; mostly there is nothing to do."""
        for kept in (self.keys, self.values, self.queries, self.lse):
            for layer, rows in enumerate(kept):
                if rows is not None and rows.is_behind:
                    kept[layer] = yield from rows.apart_steps()

    def note(self, layer: int, query: Tensor, lse: Tensor) -> None:
        """Keep Q' and lse of some rows of a layer; layers come in order."""
        if layer == len(self.queries):
            self.queries.append(Rows.of(query, self.room))
            self.lse.append(Rows.of(lse, self.room))
        elif query.shape[2] == 1:
            self._noted.append((layer, query, lse))
        else:
            self.queries[layer] = self.queries[layer].appended(query)
            self.lse[layer] = self.lse[layer].appended(lse)

    def settle(self) -> None:
        """Keep what was noted of one row: all layers in one go, which is quicker than each between two matrices."""
        for layer, query, lse in self._noted:
            self.queries[layer] = self.queries[layer].appended(query)
            self.lse[layer] = self.lse[layer].appended(lse)
        self._noted.clear()


class _Maker:
    """Runs layers under the experiments, and keeps logits."""

    def __init__(
        self, model: Decoder, store: _Store, experiments: Sequence[Experiment], logits: Rows | None = None
    ) -> None:
        self.model = model
        self.store = store
        self.experiments = experiments
        self.logits = logits
        self.quick: QuickStep | None = None

    def run_layer(self, layer: int, x: Tensor, call: Call) -> Tensor:
        """Run one block, [B, T, D] in and out. Experiments are on only meanwhile: another job may run between two."""
        if self.quick is not None:
            with torch.no_grad():
                return self.quick.run_layer(layer, x)
        block = self.model.block(layer)
        with torch.no_grad(), changed_block(block, layer, self.experiments):
            after: Tensor = block(x, call)
        return after

    def run_layer_in(self, slices: Slices, layer: int, x: Tensor, call: Call) -> Pauses[Tensor]:
        """Run one block in slices of time."""
        block = self.model.block(layer)
        return slices.of_block(block, x, call, partial(changed_block, block, layer, self.experiments))

    def keep_logits(self, x: Tensor, wanted: Logits, *, last_piece: bool, more: int = 0) -> Steps[None]:
        """Read the stream [B, T, D] as logits and keep the rows that are wanted.

        Where all are wanted, room for ``more`` rows is left.

        The rows of a piece are read a few at a time: the last matrix is by far the largest.
        """
        if wanted == "none" or (wanted == "last" and not last_piece):
            return
        x = x if wanted == "all" else x[:, -1:]
        start, rows, pace = 0, x.shape[1], Pace(LOGIT_ROWS, CHUNK_ROWS)
        while start < rows:
            stop, watch = min(start + pace.size, rows), Watch()
            with torch.no_grad():
                logits = self.model.finish(x[:, start:stop])[:, None]  # [B, 1, n, V]
            if self.logits is None:
                self.logits = Rows.of(logits, rows - stop + (more if wanted == "all" else 0))
            else:
                self.logits = self.logits.appended(logits)
            pace.took(watch.seconds)
            start = stop
            if start < rows:
                yield Progress(start, rows, "Reading the logits")


def _as_inputs(model: Decoder, ids: Sequence[int] | Sequence[Sequence[int]] | Tensor) -> Tensor:
    device = model.embed.weight.device
    inputs = ids if isinstance(ids, Tensor) else torch.tensor(ids, dtype=torch.long)
    if inputs.numel() == 0:
        raise PromptError("The prompt is empty; type at least one character.")
    if not inputs.is_floating_point() and inputs.ndim == 1:
        inputs = inputs[None]
    return inputs.to(device)


# ----------------------------------------------------------------------------------------------------------------------
# Replay


class _Replayed(KvCache):
    """Gives a replayed row the trace's own K' and V up to it, and keeps nothing."""

    def __init__(self, trace: Trace, row: int) -> None:
        super().__init__(trace.config.layers)
        seen = [row + 1 if spec.causal else trace.length for spec in trace.specs]
        self._keys = [rows.first(stop).tensor for rows, stop in zip(trace.keys, seen, strict=True)]
        self._values = [rows.first(stop).tensor for rows, stop in zip(trace.values, seen, strict=True)]
        self._past = row

    @property
    def length(self) -> int:
        """P, the rows before the replayed one."""
        return self._past

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return K' and V [B, Hkv, row + 1, Dh] as the trace holds them."""
        return self._keys[layer], self._values[layer]


@dataclass(frozen=True, eq=False)
class Replay:
    """What one row was at every hook point, and its logits [B, V].

    Attributes
    ----------
    points
        Hook name → tensor whose token axis has length 1.
    """

    row: int
    points: dict[str, Tensor]
    logits: Tensor


def replay(model: Decoder, trace: Trace, row: int, names: Sequence[str] | None = None) -> Replay:
    """Run one row again as a decode step over the trace's own K' and V, for what the trace does not keep.

    Parameters
    ----------
    names
        Hook points to record; all when not given.

    Raises
    ------
    TraceError
        When the row is not there, or the run was given vectors.
    """
    trace.check_row(row)
    if trace.ids is None:
        raise TraceError("This run was given vectors, not tokens, so its rows cannot be replayed.")
    wanted = tuple(hook_points(model)) if names is None else names
    with torch.no_grad(), recording(model, wanted) as record:
        with turned(model, trace.experiments):
            x, call = model.begin(
                trace.ids[:, row : row + 1],
                cache=_Replayed(trace, row),
                positions=trace.positions[:, row : row + 1],
                padding=trace.padding,
                branch=trace.branch,
                reach=trace.reach(row),
            )
        for layer in range(model.config.layers):
            block = model.block(layer)
            with changed_block(block, layer, trace.experiments):
                x = block(x, call)
        logits = model.finish(x)[:, 0]
    return Replay(row, dict(record), logits)
