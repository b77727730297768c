"""A run that can be looked at: Q', K', V and the log-sum-exp of every layer, and the ways to make and extend one.

Attention is kept as a function, not as a matrix: nothing here is T × T. A trace is a sequence of layers, each a
:class:`model.runs.layer_trace.LayerTrace`, which is what readers take; this file makes traces and replays one row of
them. Letters as in ``model.decoder.config``; S rows in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Protocol, TypedDict, TypeVar, Unpack

import torch
from torch import Tensor

from ropewalk.model.decoder.attention import Call
from ropewalk.model.decoder.cache import Array, KvCache, Rows, grow_ahead
from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.decoder import Decoder, counted_positions
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.hooks import hook_points
from ropewalk.model.decoder.intervention_contexts import changed_block, changed_rule, turned
from ropewalk.model.decoder.interventions import Intervention, check_interventions
from ropewalk.model.decoder.product_names import BY_TORCH, Products
from ropewalk.model.decoder.products import multiplying
from ropewalk.model.decoder.quick_step import QuickStep
from ropewalk.model.decoder.scores import Span, key_range
from ropewalk.model.decoder.spec import AttentionSpec, RotationSegment
from ropewalk.model.errors import PromptError, TraceError
from ropewalk.model.progress import Pace, Pauses, Progress, Steps, Watch, finished, saying
from ropewalk.model.runs.budget import CHUNK_ROWS, ROOM, Logits, kept_logits
from ropewalk.model.runs.layer_trace import LayerTrace, check_row
from ropewalk.model.runs.slices import Slices

LOGIT_ROWS = 16
"""Rows whose logits are computed first; then as many as fit in a slice of time."""

Made_co = TypeVar("Made_co", covariant=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class RunHeader:
    """What a run is, its layers aside.

    Attributes
    ----------
    run_id
        Which run this is; a decode step keeps it.
    ids
        [B, S] token ids, None where vectors were given.
    positions, padding
        [B, S] position ids; [B, S] bool, True for a real token, or None.
    prefill
        Rows the prompt gave; later rows were decoded one at a time.
    logits
        [B, 1, n, V] of the rows from ``first_logit_row`` on, None when none were kept.
    interventions
        What was changed in the model while it ran.
    products
        What multiplied, and goes on to: in decode steps, and where rows are run again.
    """

    run_id: int
    config: ModelConfig
    ids: Tensor | None
    positions: Tensor
    padding: Tensor | None
    prefill: int
    logits: Rows | None
    first_logit_row: int
    branch: Branch = "fused"
    interventions: tuple[Intervention, ...] = ()
    products: Products = BY_TORCH

    @property
    def length(self) -> int:
        """S, the rows of the run."""
        return self.positions.shape[1]

    @property
    def batch(self) -> int:
        """B."""
        return self.positions.shape[0]

    def logits_of(self, row: int) -> Tensor | None:
        """[B, V] of one row, None where they were not kept."""
        if self.logits is None or not self.first_logit_row <= row < self.first_logit_row + self.logits.length:
            return None
        return self.logits.tensor[:, 0, row - self.first_logit_row]

    def rotary_length(self, row: int) -> int:
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
        check_row(row, self.length)


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace(RunHeader):
    """One run, immutable: a sequence of its layers. A decode step makes a new trace that shares the old one's storage.

    Attributes
    ----------
    layers
        What attention used in each layer, all with the positions and the padding of the run.
    earlier
        The run one step before, kept only where an intervention lets a new token change earlier rows.
    """

    layers: tuple[LayerTrace, ...]
    earlier: Trace | None = None

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[LayerTrace]:
        return iter(self.layers)

    def __getitem__(self, layer: int) -> LayerTrace:
        """One layer.

        Raises
        ------
        TraceError
            When the run has no such layer.
        """
        if not 0 <= layer < len(self.layers):
            raise TraceError(f"Layer {layer} was asked for, but this run's layers are 0 to {len(self.layers) - 1}.")
        return self.layers[layer]

    @property
    def specs(self) -> tuple[AttentionSpec, ...]:
        """What each layer's attention did."""
        return tuple(layer.spec for layer in self.layers)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of Q', K' and V."""
        return self.layers[0].keys.tensor.dtype

    @property
    def rows(self) -> list[Rows]:
        """Everything that grows: Q', K', V and lse of every layer, and the logits."""
        return [*(rows for layer in self.layers for rows in layer.rows), *([self.logits] if self.logits else [])]

    @property
    def kept_bytes(self) -> int:
        """Bytes of the rows in view."""
        return sum(rows.used_bytes for rows in self.rows)

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
            layers=tuple(layer.at(length) for layer in self.layers),
            ids=None if self.ids is None else self.ids[:, :length],
            positions=self.positions[:, :length],
            padding=None if self.padding is None else self.padding[:, :length],
            logits=self.logits.first(kept) if self.logits is not None and kept else None,
        )

    def prompt(self, batch: int) -> Trace:
        """One prompt of a batch as a run of its own; nothing is copied.

        Raises
        ------
        TraceError
            When the batch has fewer.
        """
        if not 0 <= batch < self.batch:
            raise TraceError(f"Prompt {batch} was asked for, but this run's prompts are 0 to {self.batch - 1}.")
        one = slice(batch, batch + 1)
        return replace(
            self,
            layers=tuple(layer.prompt(batch) for layer in self.layers),
            ids=None if self.ids is None else self.ids[one],
            positions=self.positions[one],
            padding=None if self.padding is None else self.padding[one],
            logits=None if self.logits is None else Rows.of(self.logits.tensor[one]),
            earlier=None if self.earlier is None else self.earlier.prompt(batch),
        )


# ----------------------------------------------------------------------------------------------------------------------
# Making a trace


class Recorder(Protocol[Made_co]):
    """Hears of the layers of a run one after another, and makes of them what it likes.

    A layer is heard once, when all its rows are there: of a prompt in one go right after it ran, of a prompt in chunks
    after its part of the last chunk; until then the capture holds it. Afterwards only the recorder does: a layer that
    it lets go is freed before the next one runs.
    """

    def add(self, layer: LayerTrace) -> None:
        """Take the next layer; they come in order."""

    def finish(self, run: RunHeader) -> Made_co:
        """Give what was made of a run when all of its layers have come."""


class KeepAll:
    """Keeps every layer, which makes a trace."""

    def __init__(self) -> None:
        self.layers: list[LayerTrace] = []

    def add(self, layer: LayerTrace) -> None:
        """Keep a layer."""
        self.layers.append(layer)

    def finish(self, run: RunHeader) -> Trace:
        """Give the run with its layers."""
        header = {field.name: getattr(run, field.name) for field in fields(run)}
        return Trace(**header, layers=tuple(self.layers))


def capture(
    model: Decoder,
    ids: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    *,
    run_id: int = 0,
    logits: Logits | None = None,
    positions: Tensor | None = None,
    padding: Tensor | None = None,
    branch: Branch = "fused",
    interventions: Sequence[Intervention] = (),
) -> Trace:
    """Run a prompt and keep what is needed to look at every head of it.

    Parameters
    ----------
    ids
        Token ids, one prompt [T] or a batch [B, T]; or vectors [B, T, D] in place of the embedding.
    logits
        Whose logits to keep: ``all`` rows, the ``last``, or ``none``. By default all up to 1,024 tokens.
    positions, padding, branch
        As in :meth:`model.decoder.decoder.Decoder.forward`.
    interventions
        What to change in the model meanwhile; an order of tokens is applied to the ids by the caller.

    Raises
    ------
    PromptError, PositionError, InterventionError
        When the prompt is empty or too long, or an intervention names what the model does not have.

    Examples
    --------
    >>> checkpoint = open_checkpoint("path/to/folder")
    >>> trace = capture(checkpoint.model, checkpoint.tokenizer.encode("to be or not to be"))
    >>> readout.weights(trace[1], head=3).shape
    """
    steps = capture_steps(
        model,
        ids,
        run_id=run_id,
        logits=logits,
        positions=positions,
        padding=padding,
        branch=branch,
        interventions=interventions,
    )
    return finished(steps)


class CaptureOptions(TypedDict, total=False):
    """What :func:`capture` and :func:`record_steps` take beside the prompt."""

    run_id: int
    logits: Logits | None
    positions: Tensor | None
    padding: Tensor | None
    branch: Branch
    interventions: Sequence[Intervention]
    products: Products | None
    chunk: int
    what: str


def capture_steps(
    model: Decoder, ids: Sequence[int] | Sequence[Sequence[int]] | Tensor, **options: Unpack[CaptureOptions]
) -> Steps[Trace]:
    """Do what :func:`capture` does, with the pauses and the further options of :func:`record_steps`."""
    return record_steps(model, ids, KeepAll(), **options)


def record(
    model: Decoder,
    ids: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    recorder: Recorder[Made_co],
    **options: Unpack[CaptureOptions],
) -> Made_co:
    """Do what :func:`record_steps` does without pausing."""
    return finished(record_steps(model, ids, recorder, **options))


def record_steps(
    model: Decoder,
    ids: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    recorder: Recorder[Made_co],
    *,
    run_id: int = 0,
    logits: Logits | None = None,
    positions: Tensor | None = None,
    padding: Tensor | None = None,
    branch: Branch = "fused",
    interventions: Sequence[Intervention] = (),
    products: Products | None = None,
    chunk: int = 0,
    what: str = "Running the prompt",
) -> Steps[Made_co]:
    """Run a prompt as :func:`capture` does, give each layer to ``recorder``, and return what that makes of the run.

    Parameters
    ----------
    products
        What multiplies; the model's when not given.
    chunk
        Pauses come after every layer; > 0 runs the prompt in chunks of so many rows against the cache, and each layer
        of a chunk in slices of time.
    what
        What its progress says.
    """
    check_interventions(interventions, model.config)
    inputs = _as_inputs(model, ids)
    if any(intervention.breaks_cache for intervention in interventions):
        chunk = 0  # a piece would not see the keys of later pieces
    batch, tokens = inputs.shape[:2]
    logits = kept_logits(logits, tokens)
    device = inputs.device
    if positions is None:
        positions = counted_positions(batch, 0, tokens, padding, device)
    store = _Store(model.config.layers, room=tokens - min(chunk or tokens, tokens) + tokens // ROOM)
    products = products or model.products
    maker = _Maker(model, store, interventions, products)
    rotary_length = int(positions.max()) + 1 if tokens else 0
    segments: list[tuple[RotationSegment, ...]] = []
    layers, slices = model.config.layers, Slices(model.config) if chunk else None
    for start in range(0, tokens, chunk or tokens):
        stop = min(start + (chunk or tokens), tokens)
        with multiplying(products), turned(model, interventions):
            x, call = model.begin(
                inputs[:, start:stop],
                cache=store,
                positions=positions[:, start:stop],
                padding=None if padding is None else padding[:, :stop],
                branch=branch,
                rotary_length=rotary_length,
            )
        if stop == tokens:
            segments = _segments(model, interventions, (0, tokens), rotary_length)
        for layer in range(layers):
            point = Progress(start + (stop - start) * layer // layers, tokens, what)
            if slices is None:
                x = maker.run_layer(layer, x, call)
            else:
                x = yield from saying(point, maker.run_layer_in(slices, layer, x, call))
            if stop == tokens:
                spec = changed_rule(model.block(layer).attn.spec(segments[layer]), interventions)
                recorder.add(store.taken(spec, positions, padding))
            yield replace(point, done=start + (stop - start) * (layer + 1) // layers)
        store.settle()
        yield from maker.keep_logits(x, logits, last_piece=stop == tokens, more=tokens - stop + tokens // ROOM)
    return recorder.finish(
        RunHeader(
            run_id=run_id,
            config=model.config,
            ids=None if inputs.is_floating_point() else inputs,
            positions=positions,
            padding=padding,
            prefill=tokens,
            logits=maker.logits,
            first_logit_row=0 if logits == "all" else tokens - 1,
            branch=branch,
            interventions=tuple(interventions),
            products=products,
        )
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
    if any(intervention.breaks_cache for intervention in trace.interventions):
        return (yield from _run_again(model, trace, tokens, positions, padding))
    store = _Store.going_on(trace)
    yield from store.step_apart()
    kept = trace.logits
    if kept is not None and kept.is_copied_to_grow:
        kept = yield from kept.apart_steps()
    maker = _Maker(model, store, trace.interventions, trace.products, kept)
    watch = Watch()
    with multiplying(trace.products), turned(model, trace.interventions):
        x, call = model.begin(tokens, cache=store, positions=positions, padding=padding, branch=trace.branch)
        maker.quick = None if trace.interventions else QuickStep.of(model, x, call)
    for layer in range(model.config.layers):
        x = maker.run_layer(layer, x, call)
        if watch.over:
            yield Progress(layer + 1, model.config.layers, "Decoding a token")
            watch.restart()
    store.settle()
    yield from maker.keep_logits(x, "last" if trace.logits is None else "all", last_piece=True)
    segments = _segments(model, trace.interventions, (row, row + 1), call.length)
    positions = torch.cat((trace.positions, positions), 1)
    longer = replace(
        trace,
        layers=tuple(
            store.taken(_extended(spec, new), positions, padding)
            for spec, new in zip(trace.specs, segments, strict=True)
        ),
        ids=torch.cat((trace.ids, tokens), 1),
        positions=positions,
        padding=padding,
        logits=maker.logits,
        first_logit_row=row if trace.logits is None else trace.first_logit_row,
    )
    grow_ahead(longer.rows)
    return longer


def _run_again(model: Decoder, trace: Trace, tokens: Tensor, positions: Tensor, padding: Tensor | None) -> Steps[Trace]:
    """Compute every row anew, since an intervention lets the new token change the earlier rows."""
    assert trace.ids is not None
    longer = yield from capture_steps(
        model,
        torch.cat((trace.ids, tokens), 1),
        run_id=trace.run_id,
        logits="all" if trace.first_logit_row == 0 else "last",
        positions=torch.cat((trace.positions, positions), 1),
        padding=padding,
        branch=trace.branch,
        interventions=trace.interventions,
        products=trace.products,
    )
    return replace(longer, prefill=trace.prefill, earlier=trace)


def _segments(
    model: Decoder, interventions: Sequence[Intervention], rows: tuple[int, int], rotary_length: int
) -> list[tuple[RotationSegment, ...]]:
    """What each layer rotated some rows with, under the interventions."""
    with turned(model, interventions):
        return [model.segments(layer, *rows, rotary_length) for layer in range(model.config.layers)]


def _extended(spec: AttentionSpec, new: tuple[RotationSegment, ...]) -> AttentionSpec:
    """Add a row's rotation, joining it to the last segment where the frequencies are the same."""
    if not new or not spec.segments:
        return replace(spec, segments=spec.segments + new)
    last, added = spec.segments[-1], new[0]
    if (last.frequencies, last.factor) == (added.frequencies, added.factor):
        return replace(spec, segments=(*spec.segments[:-1], replace(last, stop=added.stop)))
    return replace(spec, segments=spec.segments + new)


class _Store(KvCache):
    """The KV cache of a run in the making: what attention used beside K and V is kept too, until a layer is taken."""

    def __init__(self, layers: int, room: int = 0) -> None:
        super().__init__(layers, room)
        self.queries: list[Rows | None] = [None] * layers
        self.lse: list[Rows | None] = [None] * layers
        self._noted: list[tuple[int, Tensor, Tensor]] = []
        self._rows: list[tuple[int, Array, Array]] = []

    @classmethod
    def going_on(cls, trace: Trace) -> _Store:
        """Appending to a trace's rows never changes those it has."""
        store = cls(len(trace))
        for layer, kept in enumerate(trace):
            store.queries[layer], store.keys[layer], store.values[layer], store.lse[layer] = kept.rows
        return store

    def step_apart(self) -> Steps[None]:
        """Take rows that cannot grow where they are into stores of their own; mostly there is nothing to do.

        These are rows that somebody else has gone on from, and those of a mapped file.
        """
        for kept in (self.keys, self.values, self.queries, self.lse):
            for layer, rows in enumerate(kept):
                if rows is not None and rows.is_copied_to_grow:
                    kept[layer] = yield from rows.apart_steps()

    def note(self, layer: int, query: Tensor, lse: Tensor) -> None:
        """Keep Q' and lse of some rows of a layer; what is one row more waits for :meth:`settle`."""
        if query.shape[2] == 1 and self.queries[layer] is not None:
            self._noted.append((layer, query, lse))
        else:
            self._keep(layer, query, lse)

    def note_row(self, layer: int, query: Array, lse: Array) -> None:
        """Keep Q' [H, Dh] and lse [H] of one row of a batch of one when :meth:`settle` comes."""
        self._rows.append((layer, query, lse))

    def settle(self) -> None:
        """Keep what was noted of one row: all layers in one go, which is quicker than each between two matrices."""
        for layer, *row in self._rows:
            for kept, new in zip((self.queries, self.lse), row, strict=True):
                rows = kept[layer]
                assert rows is not None
                kept[layer] = rows.with_row(new)
        self._rows.clear()
        for layer, query, lse in self._noted:
            self._keep(layer, query, lse)
        self._noted.clear()

    def _keep(self, layer: int, query: Tensor, lse: Tensor) -> None:
        for kept, new in ((self.queries, query), (self.lse, lse)):
            rows = kept[layer]
            kept[layer] = Rows.of(new, self.room) if rows is None else rows.appended(new)

    def taken(self, spec: AttentionSpec, positions: Tensor, padding: Tensor | None) -> LayerTrace:
        """Hand over a layer that has all its rows; the store forgets it."""
        self.settle()
        found = []
        for kept in (self.queries, self.keys, self.values, self.lse):
            rows, kept[spec.layer] = kept[spec.layer], None
            assert rows is not None
            found.append(rows)
        return LayerTrace(spec, positions, padding, *found)


class _Maker:
    """Runs layers under the interventions, and keeps logits."""

    def __init__(
        self,
        model: Decoder,
        store: _Store,
        interventions: Sequence[Intervention],
        products: Products,
        logits: Rows | None = None,
    ) -> None:
        self.model = model
        self.store = store
        self.interventions = interventions
        self.products = products
        self.logits = logits
        self.quick: QuickStep | None = None

    def run_layer(self, layer: int, x: Tensor, call: Call) -> Tensor:
        """Run one block, [B, T, D] in and out. Interventions are on only meanwhile: another job may run between two."""
        if self.quick is not None:
            return self.quick.run_layer(layer, x)
        with self._changed(layer):
            after: Tensor = self.model.block(layer)(x, call)
        return after

    def run_layer_in(self, slices: Slices, layer: int, x: Tensor, call: Call) -> Pauses[Tensor]:
        """Run one block in slices of time."""
        return slices.of_block(self.model.block(layer), x, call, partial(self._changed, layer))

    @contextmanager
    def _changed(self, layer: int) -> Iterator[None]:
        """A block under the interventions, and the products of the run."""
        with multiplying(self.products), changed_block(self.model.block(layer), layer, self.interventions):
            yield

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
            with multiplying(self.products):
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


class LentCache(KvCache):
    """Lends a trace's own K' and V to rows that are run again, and keeps nothing.

    Parameters
    ----------
    rows
        The first row that is run again and the end.
    """

    def __init__(self, trace: Trace, rows: Span) -> None:
        super().__init__(len(trace))
        self._past = rows[0]
        for layer, kept in enumerate(trace):
            _, stop = key_range(kept.spec, rows, trace.length)
            self.keys[layer], self.values[layer] = kept.keys.first(stop), kept.values.first(stop)

    @property
    def length(self) -> int:
        """P, the rows before those that are run again."""
        return self._past

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return K' and V [B, Hkv, S, Dh] as the trace holds them."""
        keys, values = self.keys[layer], self.values[layer]
        assert keys is not None
        assert values is not None
        return keys.tensor, values.tensor


@dataclass(frozen=True, eq=False)
class Replay:
    """What one row, or several from it on, was at every hook point, and the logits [B, V] of the last of them.

    Attributes
    ----------
    points
        Hook name → tensor whose token axis is as long as there are rows.
    """

    row: int
    points: dict[str, Tensor]
    logits: Tensor


def replay(model: Decoder, trace: Trace, row: int, names: Sequence[str] | None = None, *, count: int = 1) -> Replay:
    """Run one row again as a decode step over the trace's own K' and V, for what the trace does not keep.

    Parameters
    ----------
    names
        Hook points to record; all when not given.
    count
        Rows to run again, from ``row`` on; all of the prompt, or one.

    Raises
    ------
    TraceError
        When the row is not there, or the run was given vectors.
    """
    trace.check_row(row)
    if trace.ids is None:
        raise TraceError("This run was given vectors, not tokens, so its rows cannot be replayed.")
    wanted = tuple(hook_points(model)) if names is None else names
    with multiplying(trace.products), recording(model, wanted) as record:
        with turned(model, trace.interventions):
            x, call = model.begin(
                trace.ids[:, row : row + count],
                cache=LentCache(trace, (row, row + count)),
                positions=trace.positions[:, row : row + count],
                padding=trace.padding,
                branch=trace.branch,
                rotary_length=trace.rotary_length(row),
            )
        for layer in range(model.config.layers):
            block = model.block(layer)
            with changed_block(block, layer, trace.interventions):
                x = block(x, call)
        logits = model.finish(x[:, -1:])[:, 0]
    return Replay(row, dict(record), logits)
