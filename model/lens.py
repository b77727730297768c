"""Reading a trace exactly: any rectangle of scores or weights, a row, a cell, the rotation planes, the cache.

Everything is computed from Q', K' and lse when somebody looks, for just what they look at:

    score[q, k]  = scale · (Q'[q] · K'[k]), then the soft cap where the layer has one
    weight[q, k] = 0 where masked, else exp(score[q, k] − lse[q])

Results are read-only numpy. Nothing here changes a trace or runs a model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.attention import visible_keys
from model.errors import TraceError
from model.progress import Progress, Steps, Watch, finished
from model.readings import (
    Bytes,
    CacheReading,
    CellReading,
    Doubles,
    Floats,
    PlaneReading,
    RowReading,
)
from model.rope import plane_features, unrotate
from model.shades import shades
from model.spec import AttentionSpec, RotationSegment
from model.trace import Trace

Span = tuple[int, int]
"""A half-open range of rows."""


def frozen(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor as a read-only array; what is on another device is brought back."""
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    array.setflags(write=False)
    return array


def checked_span(wanted: Span | None, length: int, what: str) -> Span:
    """A range of rows that is there; all of them when none is named.

    Raises
    ------
    TraceError
        With the number of rows there are.
    """
    if wanted is None:
        return 0, length
    start, stop = wanted
    if not 0 <= start < stop <= length:
        raise TraceError(f"{what} {start} to {stop} were asked for, but this run has {length} rows.")
    return start, stop


def checked_spec(trace: Trace, layer: int, head: int) -> AttentionSpec:
    """What the attention of a head did.

    Raises
    ------
    TraceError
        When there is no such head.
    """
    if not 0 <= layer < trace.config.layers or not 0 <= head < trace.config.heads:
        raise TraceError(
            f"L{layer}H{head} was asked for, but the model has {trace.config.layers} layers of {trace.config.heads} "
            "heads."
        )
    return trace.specs[layer]


# ----------------------------------------------------------------------------------------------------------------------
# Rectangles


def _raw_scores(trace: Trace, layer: int, head: int, rows: Span, columns: Span, batch: int) -> Tensor:
    """Scaled, soft-capped scores [n, m] float32, as they are before the mask."""
    spec = trace.specs[layer]
    q = trace.queries[layer].tensor[batch, head, rows[0] : rows[1]].float()
    k = trace.keys[layer].tensor[batch, spec.kv_head_of(head), columns[0] : columns[1]].float()
    scores = (q @ k.T) * spec.scale
    return scores if spec.cap is None else spec.cap * torch.tanh(scores / spec.cap)


def _visible(trace: Trace, layer: int, rows: Span, columns: Span, batch: int) -> Tensor:
    """[n, m] bool under the run's own mask."""
    device = trace.positions.device
    padding = None if trace.padding is None else trace.padding[batch : batch + 1]
    queries, keys = torch.arange(*rows, device=device), torch.arange(*columns, device=device)
    return visible_keys(trace.specs[layer], queries, keys, padding)[0, 0]


def _weights(trace: Trace, layer: int, head: int, rows: Span, batch: int, raw: Tensor, seen: Tensor) -> Tensor:
    lse = trace.lse[layer].tensor[batch, head, rows[0] : rows[1]]
    return (raw - lse[:, None]).exp().masked_fill(~seen, 0.0)


def raw_scores(
    trace: Trace, layer: int, head: int, rows: Span | None = None, columns: Span | None = None, *, batch: int = 0
) -> Floats:
    """Scaled and soft-capped scores of a rectangle [n, m] as they are before the mask."""
    checked_spec(trace, layer, head)
    rows, columns = checked_span(rows, trace.length, "Rows"), checked_span(columns, trace.length, "Columns")
    return frozen(_raw_scores(trace, layer, head, rows, columns, batch))


def scores(
    trace: Trace, layer: int, head: int, rows: Span | None = None, columns: Span | None = None, *, batch: int = 0
) -> Floats:
    """Scaled and soft-capped scores of a rectangle [n, m], −inf where masked.

    Parameters
    ----------
    rows, columns
        Half-open ranges of query and key rows; all when not given.

    Raises
    ------
    TraceError
        For a head or a range that is not there.
    """
    checked_spec(trace, layer, head)
    rows, columns = checked_span(rows, trace.length, "Rows"), checked_span(columns, trace.length, "Columns")
    raw = _raw_scores(trace, layer, head, rows, columns, batch)
    return frozen(raw.masked_fill(~_visible(trace, layer, rows, columns, batch), -math.inf))


def weights(
    trace: Trace, layer: int, head: int, rows: Span | None = None, columns: Span | None = None, *, batch: int = 0
) -> Floats:
    """Softmax weights of a rectangle [n, m], 0 where masked; no other column is needed, since lse is known."""
    checked_spec(trace, layer, head)
    rows, columns = checked_span(rows, trace.length, "Rows"), checked_span(columns, trace.length, "Columns")
    raw = _raw_scores(trace, layer, head, rows, columns, batch)
    seen = _visible(trace, layer, rows, columns, batch)
    return frozen(_weights(trace, layer, head, rows, batch, raw, seen))


# ----------------------------------------------------------------------------------------------------------------------
# A row, a cell


def read_row(trace: Trace, layer: int, head: int, query: int, *, batch: int = 0) -> RowReading:
    """One query row in float64: scores before the mask, weights, visibility, log-sum-exp and entropy.

    The log-sum-exp is the run's own; the entropy, in nats, counts the sink's share where the layer has a sink.
    """
    spec = checked_spec(trace, layer, head)
    trace.check_row(query)
    q = trace.queries[layer].tensor[batch, head, query].double()
    k = trace.keys[layer].tensor[batch, spec.kv_head_of(head)].double()  # [S, Dh]
    score = (k @ q) * spec.scale
    if spec.cap is not None:
        score = spec.cap * torch.tanh(score / spec.cap)
    seen = _visible(trace, layer, (query, query + 1), (0, trace.length), batch)[0]
    lse = float(trace.lse[layer].tensor[batch, head, query])
    weight = (score - lse).exp().masked_fill(~seen, 0.0)
    sink = 0.0 if spec.sinks is None or math.isinf(lse) else math.exp(spec.sinks[head] - lse)
    entropy = float(torch.special.entr(weight).sum()) + (-sink * math.log(sink) if sink > 0 else 0.0)
    entropy = max(entropy, 0.0)  # a log-sum-exp rounded down makes the weight of a sharp row a little more than 1
    return RowReading(layer, head, query, frozen(score), frozen(weight), frozen(seen), lse, entropy, sink)


def read_cell(trace: Trace, layer: int, head: int, query: int, key: int, *, batch: int = 0) -> CellReading:
    """One cell in float64, from q'·k' to the weight."""
    spec = checked_spec(trace, layer, head)
    trace.check_row(query)
    trace.check_row(key)
    kv_head = spec.kv_head_of(head)
    q = trace.queries[layer].tensor[batch, head, query].double()
    k = trace.keys[layer].tensor[batch, kv_head, key].double()
    dot = float(q @ k)
    scaled = dot * spec.scale
    score = scaled if spec.cap is None else spec.cap * math.tanh(scaled / spec.cap)
    hidden = _hidden_because(trace, spec, query, key, batch)
    lse = float(trace.lse[layer].tensor[batch, head, query])
    group = spec.heads // spec.kv_heads
    return CellReading(
        layer=layer,
        head=head,
        kv_head=kv_head,
        sharing=tuple(range(kv_head * group, (kv_head + 1) * group)),
        query=query,
        key=key,
        q=frozen(q),
        k=frozen(k),
        dot=dot,
        scale=spec.scale,
        scaled=scaled,
        cap=spec.cap,
        score=score,
        hidden_because=hidden,
        lse=lse,
        weight=0.0 if hidden else math.exp(score - lse),
    )


def _hidden_because(trace: Trace, spec: AttentionSpec, query: int, key: int, batch: int) -> str:
    if spec.causal and key > query:
        return f"key {key} comes after query {query}"
    if spec.window is not None and key <= query - spec.window:
        return f"key {key} is further back than the window of {spec.window}"
    if trace.padding is not None and not bool(trace.padding[batch, key]):
        return f"key {key} is padding"
    return ""


# ----------------------------------------------------------------------------------------------------------------------
# Rotation planes


def read_planes(trace: Trace, layer: int, head: int, query: int, key: int, *, batch: int = 0) -> PlaneReading | None:
    """The rotation planes of one cell in float64, None where the layer does not rotate.

    The vectors before rotation are undone exactly from float32 data; from half precision they are approximate.
    """
    spec = checked_spec(trace, layer, head)
    trace.check_row(query)
    trace.check_row(key)
    at_query, at_key = spec.segment_of(query), spec.segment_of(key)
    if at_query is None or at_key is None:
        return None
    kv_head = spec.kv_head_of(head)
    q = trace.queries[layer].tensor[batch, head, query].double().cpu()
    k = trace.keys[layer].tensor[batch, kv_head, key].double().cpu()
    m, n = int(trace.positions[batch, query]), int(trace.positions[batch, key])
    features = torch.tensor(plane_features(spec.rotary_width, spec.pairing))  # [F, 2]
    q_after, k_after = q[features], k[features]  # [F, 2]
    shares = spec.scale * (q_after * k_after).sum(-1)
    scaled = spec.scale * float(q @ k)
    return PlaneReading(
        layer=layer,
        head=head,
        kv_head=kv_head,
        query=query,
        key=key,
        query_position=m,
        key_position=n,
        features=frozen(features),
        query_frequencies=_doubles(at_query),
        key_frequencies=_doubles(at_key),
        factor=at_query.factor,
        q_before=frozen(_turned_back(q, at_query, m, spec)[features]),
        k_before=frozen(_turned_back(k, at_key, n, spec)[features]),
        q_after=frozen(q_after),
        k_after=frozen(k_after),
        shares=frozen(shares),
        rest=spec.scale * float(q[spec.rotary_width :] @ k[spec.rotary_width :]),
        scaled=scaled,
        scale=spec.scale,
        approximate=trace.dtype != torch.float32,
    )


def _doubles(segment: RotationSegment) -> Doubles:
    return np.array(segment.frequencies, dtype=np.float64)


def _turned_back(x: Tensor, segment: RotationSegment, position: int, spec: AttentionSpec) -> Tensor:
    """A head vector [Dh] before its rotation; angles are rounded to float32 as the run rounded them."""
    theta = torch.tensor(segment.frequencies, dtype=torch.float32)
    angles = (position * theta).double()
    cos, sin = angles.cos()[None, None] * segment.factor, angles.sin()[None, None] * segment.factor  # [1, 1, F]
    return unrotate(x[None, None, None], cos, sin, spec.pairing, segment.factor)[0, 0, 0]


# ----------------------------------------------------------------------------------------------------------------------
# The cache


def read_cache(trace: Trace, positions: int = 512, *, batch: int = 0) -> CacheReading:
    """K' and V of every layer, at most ``positions`` of their rows, and what they cost.

    Bytes are those of the whole batch.
    """
    return finished(cache_steps(trace, positions, batch=batch))


def cache_steps(trace: Trace, positions: int = 512, *, batch: int = 0) -> Steps[CacheReading]:
    """Do what :func:`read_cache` does, pausing when a slice of time is over."""
    c, watch = trace.config, Watch()
    stride = max(1, -(-trace.length // positions))
    rows = [*trace.keys, *trace.values]
    size = trace.keys[0].tensor.element_size()
    per_head = 2 * trace.batch * c.layers * c.head_width * size  # bytes a token, for one kv head
    read: list[Floats] = []
    shaded: list[Bytes] = []
    for done, kept in enumerate(rows):
        read.append(frozen(kept.tensor[batch, :, ::stride].float()))
        shaded.append(shades(read[-1]))
        if watch.over:
            yield Progress(done, len(rows), "Reading the cache")
            watch.restart()
    return CacheReading(
        keys=np.stack(read[: c.layers]),
        values=np.stack(read[c.layers :]),
        key_shades=np.stack(shaded[: c.layers]),
        value_shades=np.stack(shaded[c.layers :]),
        stride=stride,
        length=trace.length,
        prefill=trace.prefill,
        bytes_measured=sum(kept.used_bytes for kept in rows),
        bytes_reserved=sum(kept.reserved_bytes for kept in rows),
        bytes_formula=per_head * c.kv_heads * trace.length,
        bytes_per_token=per_head * c.kv_heads,
        bytes_full_heads=per_head * c.heads * trace.length,
        bytes_one_head=per_head * trace.length,
        dtype=str(trace.dtype).removeprefix("torch."),
        windows=tuple(spec.window for spec in trace.specs),
    )
