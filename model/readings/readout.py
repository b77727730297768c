"""Reading a run exactly: any rectangle of scores or weights, a row, a cell, the rotation planes, the cache.

The numbers are those of :class:`model.runs.layer_trace.LayerTrace`, computed when somebody looks, for just what they
look at, and given as read-only numpy with what a person needs beside them. Nothing here changes a trace or runs a
model.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ropewalk.model.decoder.rope import plane_features, unrotate
from ropewalk.model.decoder.scores import Span, soft_capped
from ropewalk.model.decoder.spec import AttentionSpec, RotationSegment
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Progress, Steps, Watch, finished
from ropewalk.model.readings.magnitudes import magnitudes
from ropewalk.model.readings.records import (
    Bytes,
    CacheReading,
    CellReading,
    Doubles,
    Floats,
    HeadNumbers,
    PlaneReading,
    RowReading,
)
from ropewalk.model.runs.layer_trace import LayerTrace, check_row
from ropewalk.model.runs.trace import Trace

Number = TypeVar("Number", bound=np.generic)


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


# ----------------------------------------------------------------------------------------------------------------------
# Rectangles


def raw_scores(
    layer: LayerTrace, head: int, rows: Span | None = None, columns: Span | None = None, *, batch: int = 0
) -> Floats:
    """Scaled and soft-capped scores of a rectangle [n, m] as they are before the mask."""
    return frozen(layer.raw_scores(*_rectangle(layer, head, rows, columns), batch=batch))


def scores(
    layer: LayerTrace, head: int, rows: Span | None = None, columns: Span | None = None, *, batch: int = 0
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
    return frozen(layer.scores(*_rectangle(layer, head, rows, columns), batch=batch))


def weights(
    layer: LayerTrace, head: int, rows: Span | None = None, columns: Span | None = None, *, batch: int = 0
) -> Floats:
    """Softmax weights of a rectangle [n, m], 0 where masked."""
    return frozen(layer.weights(*_rectangle(layer, head, rows, columns), batch=batch))


def _rectangle(layer: LayerTrace, head: int, rows: Span | None, columns: Span | None) -> tuple[int, Span, Span]:
    layer.check_head(head)
    return head, checked_span(rows, layer.length, "Rows"), checked_span(columns, layer.length, "Columns")


# ----------------------------------------------------------------------------------------------------------------------
# A row, a cell


def read_row(layer: LayerTrace, head: int, query: int, *, batch: int = 0) -> RowReading:
    """One query row in float64: scores before the mask, weights, visibility, log-sum-exp and entropy.

    The log-sum-exp is the run's own where that is fine enough; the entropy, in nats, counts the sink's share where the
    layer has a sink.
    """
    layer.check_head(head)
    check_row(query, layer.length)
    rows = (query, query + 1)
    score = layer.raw_scores(head, rows, batch=batch, dtype=torch.float64)
    seen = layer.visible(rows, batch=batch)
    weight = layer.log_weights(score, head, rows, batch=batch).exp_().masked_fill_(~seen, 0.0)
    sink = layer.sink_weights(head, rows, batch=batch, dtype=torch.float64)
    entropy = float((torch.special.entr(weight).sum(-1) + torch.special.entr(sink))[0])
    lse = float(layer.normaliser(head, rows, batch=batch)[0])
    return RowReading(
        layer.spec.layer, head, query, frozen(score[0]), frozen(weight[0]), frozen(seen[0]), lse, entropy, float(sink)
    )


def read_cell(layer: LayerTrace, head: int, query: int, key: int, *, batch: int = 0) -> CellReading:
    """One cell in float64, step by step from q'·k' to the weight."""
    layer.check_head(head)
    check_row(query, layer.length)
    check_row(key, layer.length)
    spec, row = layer.spec, (query, query + 1)
    kv_head = spec.kv_head_of(head)
    q = layer.query_vectors(head, row, batch=batch, dtype=torch.float64)[0]
    k = layer.key_vectors(head, (key, key + 1), batch=batch, dtype=torch.float64)[0]
    dot = q @ k
    scaled = dot * spec.scale
    score = soft_capped(scaled.clone(), spec.cap)
    added = layer.bias(head, row, (key, key + 1), batch=batch)
    bias = 0.0 if added is None else float(added)
    score = score + bias
    written = any(pattern.head == head and query < len(pattern.rows) for pattern in spec.written)
    if written:
        score = layer.raw_scores(head, row, (key, key + 1), batch=batch, dtype=torch.float64)[0, 0]
    hidden = _hidden_because(layer, query, key, batch)
    weight = layer.log_weights(score[None, None], head, row, batch=batch).exp_()
    group = spec.heads // spec.kv_heads
    return CellReading(
        layer=spec.layer,
        head=head,
        kv_head=kv_head,
        sharing=tuple(range(kv_head * group, (kv_head + 1) * group)),
        query=query,
        key=key,
        q=frozen(q),
        k=frozen(k),
        dot=float(dot),
        scale=spec.scale,
        scaled=float(scaled),
        cap=spec.cap,
        bias=bias,
        written=written,
        score=float(score),
        hidden_because=hidden,
        lse=float(layer.normaliser(head, row, batch=batch)[0]),
        weight=0.0 if hidden else float(weight),
    )


def _hidden_because(layer: LayerTrace, query: int, key: int, batch: int) -> str:
    """Why a key is hidden from a query, in words; empty where it is not."""
    spec = layer.spec
    if bool(layer.visible((query, query + 1), (key, key + 1), batch=batch)):
        return ""
    if spec.causal and key > query:
        return f"key {key} comes after query {query}"
    if layer.mask is not None and layer.mask.seen is not None:
        return f"the model's own mask hides key {key} from query {query}"
    if spec.window is not None and key <= query - spec.window:
        return f"key {key} is further back than the window of {spec.window}"
    return f"key {key} is padding"


# ----------------------------------------------------------------------------------------------------------------------
# Rotation planes


def read_planes(layer: LayerTrace, head: int, query: int, key: int, *, batch: int = 0) -> PlaneReading | None:
    """The rotation planes of one cell in float64, None where the layer does not rotate.

    The vectors before rotation are undone exactly from float32 data; from half precision they are approximate.
    """
    layer.check_head(head)
    check_row(query, layer.length)
    check_row(key, layer.length)
    spec = layer.spec
    at_query, at_key = spec.segment_of(query), spec.segment_of(key)
    if at_query is None or at_key is None:
        return None
    q = layer.query_vectors(head, (query, query + 1), batch=batch, dtype=torch.float64)[0].cpu()
    k = layer.key_vectors(head, (key, key + 1), batch=batch, dtype=torch.float64)[0].cpu()
    m, n = int(layer.positions[batch, query]), int(layer.positions[batch, key])
    features = torch.tensor(plane_features(spec.rotary_width, spec.pairing))  # [F, 2]
    q_after, k_after = q[features], k[features]  # [F, 2]
    shares = spec.scale * (q_after * k_after).sum(-1)
    scaled = spec.scale * float(q @ k)
    return PlaneReading(
        layer=spec.layer,
        head=head,
        kv_head=spec.kv_head_of(head),
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
        approximate=layer.keys.tensor.dtype != torch.float32,
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
    layers, watch = len(trace), Watch()
    stride = max(1, -(-trace.length // positions))
    pairs = [(layer.keys, layer.values) for layer in trace]
    rows = [*(keys for keys, _ in pairs), *(values for _, values in pairs)]
    # bytes a token of one kv head in each layer
    per_head = [trace.batch * (k.tensor.shape[-1] + v.tensor.shape[-1]) * trace.dtype.itemsize for k, v in pairs]
    of_kv_heads = sum(one * spec.kv_heads for one, spec in zip(per_head, trace.specs, strict=True))
    of_heads = sum(one * spec.heads for one, spec in zip(per_head, trace.specs, strict=True))
    read: list[Floats] = []
    shaded: list[Bytes] = []
    for done, kept in enumerate(rows):
        read.append(frozen(kept.tensor[batch, :, ::stride].float()))
        shaded.append(magnitudes(read[-1]))
        if watch.over:
            yield Progress(done, len(rows), "Reading the cache")
            watch.restart()
    return CacheReading(
        keys=_stacked(read[:layers]),
        values=_stacked(read[layers:]),
        key_magnitudes=_stacked(shaded[:layers]),
        value_magnitudes=_stacked(shaded[layers:]),
        stride=stride,
        length=trace.length,
        prefill=trace.prefill,
        bytes_measured=sum(kept.used_bytes for kept in rows),
        bytes_reserved=sum(kept.reserved_bytes for kept in rows),
        bytes_formula=of_kv_heads * trace.length,
        bytes_per_token=of_kv_heads,
        bytes_full_heads=of_heads * trace.length,
        bytes_one_head=sum(per_head) * trace.length,
        dtype=str(trace.dtype).removeprefix("torch."),
        windows=tuple(spec.window for spec in trace.specs),
    )


def _stacked(arrays: list[NDArray[Number]]) -> NDArray[Number]:
    """One array of all layers; of a model whose layers differ in width or kv heads, 0 where a layer has less."""
    widest = np.max([one.shape for one in arrays], axis=0)
    if all(one.shape == tuple(widest) for one in arrays):
        return np.stack(arrays)
    padded = np.zeros((len(arrays), *widest), arrays[0].dtype)
    for place, one in zip(padded, arrays, strict=True):
        place[tuple(slice(size) for size in one.shape)] = one
    return padded


MOST_CELLS = 32 << 20
"""Cells that may be taken at once: two matrices of float64, half a gibibyte."""
AT_ONCE = 16
"""Rows between two pauses."""


def numbers_steps(layer: LayerTrace, head: int, queries: tuple[int, int], keys: tuple[int, int]) -> Steps[HeadNumbers]:
    """Read a rectangle row by row, as :func:`read_row` shows each; keys after a row's own are read as well.

    Raises
    ------
    TraceError
        When there is no such head, or the rectangle is empty, does not lie in the run, or has too many cells.
    """
    layer.check_head(head)
    _check_rectangle(layer.length, queries, keys)
    height, width = queries[1] - queries[0], keys[1] - keys[0]
    scores, weights = np.zeros((height, width)), np.zeros((height, width))
    visible = np.zeros((height, width), np.bool_)
    for place in range(height):
        if place % AT_ONCE == 0:
            yield Progress(place, height, "Reading numbers")
        row = read_row(layer, head, queries[0] + place)
        part = slice(*keys)
        scores[place], weights[place], visible[place] = row.scores[part], row.weights[part], row.visible[part]
    return HeadNumbers(layer.spec.layer, head, queries, keys, scores, weights, visible)


def _check_rectangle(length: int, queries: tuple[int, int], keys: tuple[int, int]) -> None:
    for name, (start, stop) in (("queries", queries), ("keys", keys)):
        if not 0 <= start < stop <= length:
            raise TraceError(f"The {name} {start} to {stop - 1} were asked for, but the rows are 0 to {length - 1}.")
    cells = (queries[1] - queries[0]) * (keys[1] - keys[0])
    if cells > MOST_CELLS:
        raise TraceError(
            f"{cells:,} cells were asked for, but at most {MOST_CELLS:,} are written at once; choose fewer rows, or "
            "save the trace, from which every cell can be computed."
        )
