"""Two checks that a run is what it should be: cached logits equal the full prefix's, and both branches agree.

A check compares logits. Asked where a difference begins, it also compares what every layer made: Q', K', V and the
log-sum-exp of each row, and the stream after the block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ropewalk.model.decoder.attention import Call, last_points
from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.decoder.config import Branch
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.intervention_contexts import changed_block, turned
from ropewalk.model.decoder.products import multiplying
from ropewalk.model.decoder.rope_scaling import as_run
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.next_token import row_logits
from ropewalk.model.readings.records import ConsistencyCheck, LayerGap
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace, capture_steps, replay

UNIT: Final = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Unit roundoff u: the largest relative error of storing one number."""
ROUNDINGS: Final = 11
"""Numbers stored one after the other on the way through a layer: two norms, the projections, their rotation, what the
heads bring, the output projection, gate and up, their product, the down projection, and the stream after each of the
two sums."""
HEADROOM: Final = 2.0
"""Errors are neither quite independent nor Gaussian. The measured differences of cached and full logits are 0.2 to 1.1
of the bound without it (seven families of 2 to 32 layers), and 0.7 of it for SmolLM2-135M in bfloat16."""
FLOAT32: Final = 1e-4
"""In units of the largest logit, or of 1. Float32 rounds inside every sum, so that its error depends on the kernel."""


def logit_tolerance(logits: Tensor, dtype: str, layers: int) -> float:
    """How far cached logits may be from full ones, or one branch's from the other's.

    In half precision sums are taken in float32, and what is stored is rounded: R = 11 times in each of L layers, each
    time with a relative error of RMS u/√3 at most. Independent errors add as squares, and two computations differ by
    √2 of the error of one, so logits of spread s (their standard deviation over the vocabulary) differ by an RMS of

        s · u · √(2·R·L / 3)

    and the largest of V Gaussian differences is √(2·ln V) of that. Storing a logit x itself adds at most u·|x| twice.
    What a router's near tie does when it falls the other way is no rounding, and is not covered.

    Parameters
    ----------
    logits
        Either of the two [..., V].
    dtype
        What the model ran in.
    layers
        L.
    """
    wide = logits.double()
    largest = float(wide.abs().max())
    if dtype not in UNIT:
        return FLOAT32 * max(1.0, largest)
    spread = float(wide.std(dim=-1).mean())
    unit, vocabulary = UNIT[dtype], max(2, logits.shape[-1])
    walked = spread * unit * math.sqrt(2 * ROUNDINGS * layers / 3) * math.sqrt(2 * math.log(vocabulary))
    return HEADROOM * walked + 2 * unit * largest


LAYER_TOLERANCE: Final = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}
"""How far what a layer made may be apart, in units of its largest magnitude."""

BRANCH_ROWS = 256
"""Rows that both branches are run on at most: the explicit one holds T × S weights of every head."""


def cached_check_steps(
    model: Decoder, trace: Trace, dtype: str, *, chunk: int = 0, by_layer: bool = False
) -> Steps[ConsistencyCheck]:
    """Compare the last row's logits, had through the cache, with those of a full pass without one.

    Parameters
    ----------
    dtype
        The run's, for what may differ.
    chunk
        As in :func:`model.runs.trace.capture_steps`.
    by_layer
        Whether to compare every layer even where the logits agree; where they do not, it is always done.

    Raises
    ------
    TraceError
        When the run was given vectors.
    """
    if trace.ids is None:
        raise TraceError("This run was given vectors, not tokens, so it cannot be run again without its cache.")
    last, whole = trace.length - 1, None
    if trace.length == trace.prefill:  # the prefill was the full pass; the row is had again as a decode step
        full, _ = row_logits(model, trace, last)
        cached = replay(model, trace, last, names=()).logits[0]
    else:
        cached, _ = row_logits(model, trace, last)
        whole = yield from _whole_steps(model, trace, chunk)
        full, _ = row_logits(model, whole, last)
    difference, allowed = _apart(cached, full, dtype, model.config.layers)
    explained = grown_past(trace)
    layers: tuple[LayerGap, ...] = ()
    if by_layer or not (difference <= allowed or explained):
        whole = whole or (yield from _whole_steps(model, trace, chunk))
        layers = yield from _trace_gaps(model, trace, whole, LAYER_TOLERANCE[dtype])
    return ConsistencyCheck("cached", trace.length, difference, allowed, explained, layers, LAYER_TOLERANCE[dtype])


def _apart(found: Tensor, expected: Tensor, dtype: str, layers: int) -> tuple[float, float]:
    """How far logits are apart, and how far they may be."""
    difference = float((found.cpu().double() - expected.cpu().double()).abs().max())
    return difference, logit_tolerance(expected, dtype, layers)


def _whole_steps(model: Decoder, trace: Trace, chunk: int) -> Steps[Trace]:
    """The run again, as one prefill of all its tokens."""
    assert trace.ids is not None
    return (
        yield from capture_steps(
            model,
            trace.ids,
            logits="last",
            positions=trace.positions,
            padding=trace.padding,
            branch=trace.branch,
            interventions=trace.interventions,
            products=trace.products,
            chunk=chunk,
            what="Running the full prefix",
        )
    )


def grown_past(trace: Trace) -> str:
    """Why cached and full logits may differ although nothing is wrong; empty where they may not."""
    config = as_run(trace.config, trace.interventions)
    for rule in dict.fromkeys(config.rope_of(layer) for layer in range(config.layers)):
        if rule is None or not rule.depends_on_length:
            continue
        original = rule.original_max_position or config.max_position
        if trace.length > original:
            return (
                f"the {rule.scaling} rule turns faster or slower past {original} positions, while cached keys keep "
                "the turn they were stored with"
            )
    return ""


# ----------------------------------------------------------------------------------------------------------------------
# Where a difference begins


def _trace_gaps(model: Decoder, cached: Trace, full: Trace, limit: float) -> Steps[tuple[LayerGap, ...]]:
    """What each layer of two runs of the same tokens made, compared."""
    last, layers = cached.length - 1, range(cached.config.layers)
    names = {layer: _step_points(cached, layer) for layer in layers}
    wanted = [name for points in names.values() for name in points]
    step, row = (replay(model, trace, last, wanted).points for trace in (cached, full))
    gaps = []
    for layer in layers:
        query, lse, stream = names[layer]
        kept = [_kept(trace[layer]) for trace in (cached, full)]
        parts = [_gap(a, b, what) for (what, a), (_, b) in zip(*kept, strict=True)]
        parts += [
            _gap(step[query], full[layer].queries.tensor[:, :, last:], "the step's Q′ of row", last),
            _gap(step[lse], full[layer].lse.tensor[:, :, last:], "the step's log-sum-exp of row", last),
            _gap(step[stream], row[stream], "the stream after row", last, axis=1),
        ]
        gaps.append(_worst(layer, parts, limit))
        yield Progress(layer + 1, len(layers), "Looking where the difference begins")
    return tuple(gaps)


def _step_points(trace: Trace, layer: int) -> tuple[str, str, str]:
    """Where a step's Q', log-sum-exp and stream of a layer are met."""
    query, _ = last_points(trace.config, layer)
    return f"blocks.{layer}.attn.{query}", f"blocks.{layer}.attn.hook_lse", f"blocks.{layer}.hook_resid_post"


def _kept(layer: LayerTrace) -> list[tuple[str, Tensor]]:
    """What a trace keeps of a layer, in the order in which a row depends on it; axis 2 is the row."""
    return [
        ("the cached K of row", layer.keys.tensor),
        ("the cached V of row", layer.values.tensor),
        ("Q′ of row", layer.queries.tensor),
        ("the log-sum-exp of row", layer.lse.tensor),
    ]


@dataclass(frozen=True)
class _Part:
    """How far two tensors are apart, and the first row that is the farthest."""

    what: str
    row: int
    difference: float


def _gap(found: Tensor, expected: Tensor, what: str, start: int = 0, *, axis: int = 2) -> _Part:
    """Compare two tensors of the same rows, along ``axis`` and from ``start`` on, in units of the largest magnitude.

    Equal numbers are equal even where they are infinite; NaN is as far as can be.
    """
    a, b = found.cpu().double(), expected.cpu().double()
    apart = torch.where(a == b, 0.0, (a - b).abs()).nan_to_num(math.inf)
    finite = b[b.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    rows = apart.movedim(axis, 0).flatten(1).amax(1) / (largest or 1.0)
    row = int(rows.argmax())
    return _Part(what, start + row, float(rows[row]))


def _worst(layer: int, parts: list[_Part], limit: float) -> LayerGap:
    """The first part that is over the limit, else the largest."""
    over = next((part for part in parts if not part.difference <= limit), None)
    part = over or max(parts, key=lambda each: each.difference)
    return LayerGap(layer, part.difference, f"{part.what} {part.row}")


# ----------------------------------------------------------------------------------------------------------------------
# The two branches


def branch_check_steps(model: Decoder, trace: Trace, dtype: str) -> Steps[ConsistencyCheck]:
    """Run the tokens of a run through the fused and the explicit branch, with padding and a cache, and compare.

    The tokens (at most :data:`BRANCH_ROWS`) are run twice in one batch: as they are, and with the first quarter as
    padding. The first half fills the cache; the rest is run against it.

    Raises
    ------
    TraceError
        When the run was given vectors, or is one token long.
    """
    if trace.ids is None or trace.length < 2:
        raise TraceError("Both branches are compared with something in the cache, which needs a run of two tokens.")
    ids = trace.ids[:1, :BRANCH_ROWS]
    streams, logits = [], []
    for branch in ("fused", "explicit"):
        made, read = yield from _branch_steps(model, trace, ids, branch)
        streams.append(made)
        logits.append(read)
    past, limit = ids.shape[1] // 2, LAYER_TOLERANCE[dtype]
    gaps = tuple(
        _worst(layer, [_gap(fused, explicit, "the stream after row", past, axis=1)], limit)
        for layer, (fused, explicit) in enumerate(zip(*streams, strict=True))
    )
    difference, allowed = _apart(logits[0], logits[1], dtype, model.config.layers)
    return ConsistencyCheck(
        "branches", ids.shape[1], difference, allowed, "", gaps, limit, past, ids.shape[1] // 4 or 1
    )


def _branch_steps(model: Decoder, trace: Trace, ids: Tensor, branch: Branch) -> Steps[tuple[list[Tensor], Tensor]]:
    """The stream after each layer [2, T, D] of the rows that follow the cache, and their logits [2, T, V]."""
    rows = ids.shape[1]
    past, hidden = rows // 2, rows // 4 or 1
    inputs = ids.expand(2, rows)
    padding = torch.ones(2, rows, dtype=torch.bool, device=ids.device)
    padding[1, :hidden] = False
    positions = torch.arange(rows, device=ids.device).repeat(2, 1)
    positions[1] = (positions[1] - hidden).clamp_min(0)
    cache = KvCache(model.config.layers)
    streams: list[Tensor] = []
    for start, stop in ((0, past), (past, rows)):
        streams = []
        with multiplying(trace.products), turned(model, trace.interventions):
            x, call = model.begin(
                inputs[:, start:stop],
                cache=cache,
                positions=positions[:, start:stop],
                padding=padding[:, :stop],
                branch=branch,
                rotary_length=rows,
            )
        for layer, after in enumerate(_layers(model, trace, x, call)):
            streams.append(after)
            yield Progress(
                start + (stop - start) * (layer + 1) // model.config.layers, rows, f"Running the {branch} branch"
            )
    with multiplying(trace.products):
        return streams, model.finish(streams[-1])


def _layers(model: Decoder, trace: Trace, x: Tensor, call: Call) -> Iterator[Tensor]:
    """The stream after each layer, the run's interventions on only while a layer runs."""
    for layer in range(model.config.layers):
        block = model.block(layer)
        with multiplying(trace.products), changed_block(block, layer, trace.interventions):
            x = block(x, call)
        yield x
