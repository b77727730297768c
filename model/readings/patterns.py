"""What a head's pattern is called: scores of known habits, and thumbnails, for all heads at once.

Every score has a formula in words, shown beside it. They are gathers and extra fused calls over Q', K' and lse, never
a T × T matrix; only the thumbnails compute weights, in strips. Of a long run the thumbnails are sampled and the entropy
is the mean over some rows, and both say so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.decoder.attention import fused_attention
from ropewalk.model.decoder.scores import key_range, paired_scores
from ropewalk.model.progress import Partial, Progress, Steps, finished
from ropewalk.model.readings.records import AtlasPart, Doubles, Floats, HeadAtlas, Reduction
from ropewalk.model.readings.tiles import read_head, whole_head_steps
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace

FORMULAS = {
    "previous": "previous token: mean over q ≥ 1 of w[q, q − 1]",
    "sink": "sink: mean over q ≥ 1 of w[q, 0]",
    "induction": "induction, ids are N tokens twice: mean over q = N … 2N − 2 of w[q, q − N + 1]",
    "entropy": "entropy: mean over q of −Σ w ln w, in nats",
}
EXACT_THUMBNAILS_UP_TO = 2048
"""Rows of a run whose thumbnails look at every cell unless asked otherwise."""
EXACT_ENTROPY_UP_TO = 4096
"""Rows of a run whose entropy is the mean over all of them."""
ENTROPY_ROWS = 256
"""Rows that stand for a longer run, evenly spaced."""
BLOCK_CELLS = 1 << 22
"""Cells of all heads together that a pause waits for."""
WHAT = "Drawing the heads"
TOO_SHORT = "needs at least two tokens"
NOT_REPEATED = "needs two tokens in a row that come again later"


def repeat_period(ids: Tensor) -> int:
    """N where the ids [T] are the same N ≥ 2 tokens twice, else 0."""
    half = ids.shape[0] // 2
    if ids.shape[0] < 4 or ids.shape[0] % 2 or not torch.equal(ids[:half], ids[half:]):
        return 0
    return half


def induction_pairs(ids: Tensor) -> tuple[list[int], list[int]]:
    """Queries q that stand at the first of two tokens that have followed one another before, and the key after then.

    That is what followed the last time, from q alone: where the ids [T] are the same N tokens twice, q = N … 2N − 2 and
    the key is q − N + 1.
    """
    period = repeat_period(ids)
    if period:
        return list(range(period, 2 * period - 1)), list(range(1, period))
    tokens, last = ids.tolist(), dict[tuple[int, int], int]()
    queries, keys = list[int](), list[int]()
    for q, pair in enumerate(pairwise(tokens)):
        before = last.get(pair, -1)
        if 0 <= before < q - 1:  # else the key would be the query itself
            queries.append(q)
            keys.append(before + 1)
        last[pair] = q
    return queries, keys


def repeated_ids(count: int, vocabulary: int, seed: int) -> list[int]:
    """``count`` random token ids, twice: the prompt that shows induction."""
    generator = torch.Generator().manual_seed(seed)
    once = torch.randint(0, vocabulary, (count,), generator=generator).tolist()
    return [*once, *once]


def head_scores(
    trace: Trace, names: Collection[str] = FORMULAS, *, batch: int = 0
) -> tuple[dict[str, Doubles], dict[str, str]]:
    """Scores of every head, name → [L, H] float64, and why a score that is NaN has no value here.

    Parameters
    ----------
    names
        The scores that are wanted. The entropy costs another pass of attention, the others next to nothing.
    """
    found = {name: np.full((trace.config.layers, trace.config.heads), math.nan) for name in names}
    cells = _cells(trace, batch)
    undefined = {name: why for name, why in _undefined(cells).items() if name in names}
    wanted = [name for name in names if name not in undefined]
    for number, layer in enumerate(trace):
        for name, values in finished(_layer_scores(layer, wanted, cells, batch)).items():
            found[name][number] = values
    return found, undefined


def formulas_of(trace: Trace) -> dict[str, str]:
    """Name → formula, saying so where it is over some of the rows only, or over what repeats itself here and there."""
    found = dict(FORMULAS)
    count = 0 if trace.ids is None else len(induction_pairs(trace.ids[0])[0])
    if trace.ids is not None and count and not repeat_period(trace.ids[0]):
        found["induction"] = (
            f"induction: mean of w[q, p + 1] over the {count:,} places q whose token and the next one came before, "
            "last at p and p + 1"
        )
    if trace.length > EXACT_ENTROPY_UP_TO:
        found["entropy"] = (
            f"entropy, sampled: mean over {ENTROPY_ROWS} of {trace.length:,} rows q of −Σ w ln w, in nats"
        )
    return found


Cells = dict[str, tuple[Tensor, Tensor]]
"""Name of a score → the queries and keys whose weights it is the mean of."""


def _cells(trace: Trace, batch: int) -> Cells:
    rows = torch.arange(1, trace.length)
    pairs = ([], []) if trace.ids is None else induction_pairs(trace.ids[batch])
    later, after = (torch.tensor(one, dtype=torch.long) for one in pairs)
    return {"previous": (rows, rows - 1), "sink": (rows, torch.zeros_like(rows)), "induction": (later, after)}


def _undefined(cells: Cells) -> dict[str, str]:
    why = {"previous": TOO_SHORT, "sink": TOO_SHORT, "induction": NOT_REPEATED}
    return {name: why[name] for name, (queries, _) in cells.items() if not len(queries)}


def _layer_scores(layer: LayerTrace, names: Collection[str], cells: Cells, batch: int) -> Steps[dict[str, Doubles]]:
    """Name → [H] of scores that are defined here, pausing often."""
    device = layer.positions.device
    found = {
        name: mean_weight(layer, queries.to(device), keys.to(device), batch=batch)
        for name, (queries, keys) in cells.items()
        if name in names
    }
    if "entropy" in names:
        found["entropy"] = yield from _mean_entropy(layer, batch)
    return {name: values.double().cpu().numpy() for name, values in found.items()}


def mean_weight(layer: LayerTrace, queries: Tensor, keys: Tensor, *, batch: int = 0) -> Tensor:
    """Mean over pairs (q, k) of w[q, k] for every head, [H]; real query rows only."""
    if layer.padding is not None:
        real = layer.padding[batch, queries]
        queries, keys = queries[real], keys[real]
    return layer.paired_weights(queries, keys, batch=batch).mean(-1)


# ----------------------------------------------------------------------------------------------------------------------
# Entropy


def _mean_entropy(layer: LayerTrace, batch: int) -> Steps[Tensor]:
    """Mean entropy of every head's rows in nats, [H]: over all rows, or over some of a long run."""
    rows = torch.arange(layer.length, device=layer.positions.device)
    sampled = layer.length > EXACT_ENTROPY_UP_TO
    if sampled:
        rows = torch.linspace(0, layer.length - 1, ENTROPY_ROWS, device=rows.device).round().long()
    rows = rows[torch.isfinite(layer.normaliser(0, rows, batch=batch))]
    by_kernel = layer.spec.cap is None and not sampled
    entropy = _linear_entropy if by_kernel else _cell_entropy  # under a soft cap, scores are not linear in K'
    total = torch.zeros(layer.spec.heads, dtype=torch.float64, device=rows.device)
    for block in _blocks(rows, layer.length * layer.spec.heads):
        total += entropy(layer, block, batch).clamp_min(0.0).double().sum(-1)
        yield Progress(0, 1, WHAT)
    return total / max(len(rows), 1)


def _blocks(rows: Tensor, cells_a_row: int) -> Iterator[Tensor]:
    step = max(1, BLOCK_CELLS // max(cells_a_row, 1))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def _linear_entropy(layer: LayerTrace, rows: Tensor, batch: int) -> Tensor:
    """Entropy [H, n] of rows that follow one another, by one fused call.

    A row's entropy is lse − Σ w·s − w_sink·s_sink, and Σ w·s = scale · (q · out) where out is attention with V := K'.
    """
    spec, first, end = layer.spec, int(rows[0]), int(rows[-1]) + 1
    keys = key_range(spec, (0, end), layer.length)
    q = layer.query_vectors(rows=(first, end), batch=batch)
    k = layer.key_vectors(keys=keys, batch=batch)
    padding = None if layer.padding is None else layer.padding[batch : batch + 1, slice(*keys)]
    sinks = layer.sink_logits()
    result = fused_attention(q[None], k[None], k[None], spec, past=first, padding=padding, sinks=sinks)
    entropy = result.lse[0] - paired_scores(q, result.out[0], spec)
    if sinks is not None:
        entropy -= layer.sink_weights(rows=(first, end), batch=batch) * sinks[:, None]
    return entropy


def _cell_entropy(layer: LayerTrace, rows: Tensor, batch: int) -> Tensor:
    """Entropy [H, n] of any rows, cell by cell: −Σ w·ln w, the sink's share among them."""
    keys = key_range(layer.spec, (int(rows[0]), int(rows[-1]) + 1), layer.length)
    hidden = ~layer.visible(rows, keys, batch=batch)
    found = []
    for head in range(layer.spec.heads):
        raw = layer.raw_scores(head, rows, keys, batch=batch)
        logs = layer.log_weights(raw, head, rows, batch=batch).masked_fill_(hidden, 0.0)
        found.append(-(logs * logs.exp()).sum(-1))
    taken: Tensor = torch.special.entr(layer.sink_weights(rows=rows, batch=batch))
    return torch.stack(found) + taken


# ----------------------------------------------------------------------------------------------------------------------
# Thumbnails


def atlas_steps(
    trace: Trace, pixels: int = 64, *, exact: bool = False, first: Sequence[int] = (), batch: int = 0
) -> Steps[HeadAtlas]:
    """Thumbnails and scores of all heads, pausing after every head.

    Yields a :class:`~model.progress.Partial` with an :class:`~model.readings.records.AtlasPart` for every layer that is
    ready.

    Parameters
    ----------
    pixels
        Bounds the side of a thumbnail.
    exact
        Whether the thumbnails of a long run look at every cell too.
    first
        The layers to begin with: those in sight.
    """
    c = trace.config
    every_cell = exact or trace.length <= EXACT_THUMBNAILS_UP_TO
    side = -(-trace.length // max(1, -(-trace.length // pixels)))
    thumbnails = np.full((c.layers, c.heads, side, side), np.nan, dtype=np.float32)
    found = {name: np.full((c.layers, c.heads), math.nan) for name in FORMULAS}
    reduction: Reduction = "exact"
    cells = _cells(trace, batch)
    undefined = _undefined(cells)
    defined = [name for name in FORMULAS if name not in undefined]
    order = [number for number in dict.fromkeys([*first, *range(c.layers)]) if 0 <= number < c.layers]
    for done, number in enumerate(order):
        layer = trace[number]
        for head in range(c.heads):
            if every_cell:
                picture = yield from whole_head_steps(layer, head, pixels=pixels, raw=False, batch=batch)
            else:
                picture = read_head(layer, head, pixels=pixels, reduction="sampled", raw=False, batch=batch)
            tile = picture.weights
            thumbnails[number, head] = np.where(tile.visible, tile.values, np.nan)
            reduction = tile.reduction
            yield Progress(done * c.heads + head + 1, c.layers * c.heads, WHAT)
        scores = yield from _layer_scores(layer, defined, cells, batch)
        for name, values in scores.items():
            found[name][number] = values
        part = AtlasPart(number, _locked(thumbnails[number].copy()), reduction, scores)
        yield Partial((done + 1) * c.heads, c.layers * c.heads, WHAT, part)
    return HeadAtlas(_locked(thumbnails), reduction, found, formulas_of(trace), undefined)


def _locked(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
