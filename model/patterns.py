"""What a head's pattern is called: scores of known habits, and thumbnails, for all heads at once.

Every score has a formula in words, shown beside it. They are gathers and extra fused calls over Q', K' and lse, never
a T × T matrix; only the thumbnails compute weights, in strips. Of a long run the thumbnails are sampled and the entropy
is the mean over some rows, and both say so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from model.attention import fused_attention, visible_keys
from model.progress import Partial, Progress, Steps, finished
from model.readings import AtlasPart, Doubles, Floats, HeadAtlas, Reduction
from model.tiles import read_head, whole_head_steps
from model.trace import Trace

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
NOT_TWICE = "needs a prompt that is the same N tokens twice"


def repeat_period(ids: Tensor) -> int:
    """N where the ids [T] are the same N ≥ 2 tokens twice, else 0."""
    half = ids.shape[0] // 2
    if ids.shape[0] < 4 or ids.shape[0] % 2 or not torch.equal(ids[:half], ids[half:]):
        return 0
    return half


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
    undefined = {name: why for name, why in _undefined(trace, batch).items() if name in names}
    for layer in range(trace.config.layers):
        for name, values in finished(_layer_scores(trace, layer, batch, names)).items():
            found[name][layer] = values
    return found, undefined


def formulas_of(trace: Trace) -> dict[str, str]:
    """Name → formula, saying so where a run is too long for all of its rows to be looked at."""
    if trace.length <= EXACT_ENTROPY_UP_TO:
        return dict(FORMULAS)
    sampled = f"entropy, sampled: mean over {ENTROPY_ROWS} of {trace.length:,} rows q of −Σ w ln w, in nats"
    return {**FORMULAS, "entropy": sampled}


def _undefined(trace: Trace, batch: int) -> dict[str, str]:
    missing = {}
    if trace.length < 2:
        missing = {"previous": TOO_SHORT, "sink": TOO_SHORT}
    if trace.ids is None or repeat_period(trace.ids[batch]) == 0:
        missing["induction"] = NOT_TWICE
    return missing


def _layer_scores(trace: Trace, layer: int, batch: int, names: Collection[str]) -> Steps[dict[str, Doubles]]:
    """Name → [H] of those scores that are defined here, pausing often."""
    length, device, undefined = trace.length, trace.positions.device, _undefined(trace, batch)
    rows, period = torch.arange(1, length, device=device), length // 2
    later = torch.arange(period, max(period, 2 * period - 1), device=device)
    cells = {
        "previous": (rows, rows - 1),
        "sink": (rows, torch.zeros_like(rows)),
        "induction": (later, later - period + 1),
    }
    found = {
        name: _mean_weight(trace, layer, *pairs, batch)
        for name, pairs in cells.items()
        if name in names and name not in undefined
    }
    if "entropy" in names:
        found["entropy"] = yield from _mean_entropy(trace, layer, batch)
    return {name: values.double().cpu().numpy() for name, values in found.items()}


def _mean_weight(trace: Trace, layer: int, queries: Tensor, keys: Tensor, batch: int) -> Tensor:
    """Mean over pairs (q, k) of w[q, k] for every head, [H]; real query rows only."""
    spec = trace.specs[layer]
    q = trace.queries[layer].tensor[batch, :, queries].float()  # [H, n, Dh]
    k = trace.keys[layer].tensor[batch, :, keys].float()[_kv_heads(trace, layer)]  # [H, n, Dh]
    score = (q * k).sum(-1) * spec.scale
    if spec.cap is not None:
        score = spec.cap * torch.tanh(score / spec.cap)
    weight = (score - trace.lse[layer].tensor[batch, :, queries]).exp()
    if spec.window is not None:
        weight = weight.masked_fill(keys <= queries - spec.window, 0.0)
    if trace.padding is not None:
        weight = weight.masked_fill(~trace.padding[batch, keys], 0.0)[:, trace.padding[batch, queries]]
    return weight.mean(-1)


def _kv_heads(trace: Trace, layer: int) -> list[int]:
    """The kv head that each query head reads."""
    return [trace.specs[layer].kv_head_of(head) for head in range(trace.config.heads)]


# ----------------------------------------------------------------------------------------------------------------------
# Entropy


def _mean_entropy(trace: Trace, layer: int, batch: int) -> Steps[Tensor]:
    """Mean entropy of every head's rows in nats, [H]: over all rows, or over some of a long run."""
    lse = trace.lse[layer].tensor[batch]  # [H, S]
    rows = torch.arange(trace.length, device=lse.device)
    sampled = trace.length > EXACT_ENTROPY_UP_TO
    if sampled:
        rows = torch.linspace(0, trace.length - 1, ENTROPY_ROWS, device=lse.device).round().long()
    rows = rows[torch.isfinite(lse[0, rows])]
    by_kernel = trace.specs[layer].cap is None and not sampled
    entropy = _linear_entropy if by_kernel else _cell_entropy  # under a soft cap, scores are not linear in K'
    total = torch.zeros(trace.config.heads, dtype=torch.float64, device=lse.device)
    for block in _blocks(rows, trace.length * trace.config.heads):
        total += entropy(trace, layer, block, batch).clamp_min(0.0).double().sum(-1)
        yield Progress(0, 1, WHAT)
    return total / max(len(rows), 1)


def _blocks(rows: Tensor, cells_a_row: int) -> Iterator[Tensor]:
    step = max(1, BLOCK_CELLS // max(cells_a_row, 1))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def _linear_entropy(trace: Trace, layer: int, rows: Tensor, batch: int) -> Tensor:
    """Entropy [H, n] of rows that follow one another, by one fused call.

    A row's entropy is lse − Σ w·s − w_sink·s_sink, and Σ w·s = scale · (q · out) where out is attention with V := K'.
    """
    spec = trace.specs[layer]
    first, end = int(rows[0]), int(rows[-1]) + 1
    keys = end if spec.causal else trace.length
    q = trace.queries[layer].tensor[batch : batch + 1, :, first:end].float()
    k = trace.keys[layer].tensor[batch : batch + 1, :, :keys].float()
    if spec.kv_map is not None:
        k = k[:, spec.kv_map]
    padding = None if trace.padding is None else trace.padding[batch : batch + 1, :keys]
    result = fused_attention(q, k, k, spec, past=first, padding=padding, sinks=_sinks(trace, layer))
    entropy = result.lse[0] - spec.scale * (q[0] * result.out[0]).sum(-1)
    return _less_sink(trace, layer, entropy, result.lse[0])


def _cell_entropy(trace: Trace, layer: int, rows: Tensor, batch: int) -> Tensor:
    """Entropy [H, n] of any rows, cell by cell: Σ w·(lse − s), and the sink's share."""
    spec = trace.specs[layer]
    keys = int(rows[-1]) + 1 if spec.causal else trace.length
    q = trace.queries[layer].tensor[batch, :, rows].float() * spec.scale  # [H, n, Dh]
    k = trace.keys[layer].tensor[batch, :, :keys].float()  # [Hkv, S, Dh]
    padding = None if trace.padding is None else trace.padding[batch : batch + 1]
    seen = visible_keys(spec, rows, torch.arange(keys, device=rows.device), padding)[0, 0]
    lse = trace.lse[layer].tensor[batch, :, rows]
    found = []
    for head, kv_head in enumerate(_kv_heads(trace, layer)):
        scores = q[head] @ k[kv_head].T  # [n, S]
        if spec.cap is not None:
            scores = spec.cap * torch.tanh(scores / spec.cap)
        below = (lse[head, :, None] - scores).masked_fill_(~seen, 0.0)
        found.append((below * (-below).exp()).sum(-1))
    share = torch.stack(found)
    sinks = _sinks(trace, layer)
    if sinks is not None:
        share = share + (sinks[:, None] - lse).exp() * lse
    return _less_sink(trace, layer, share, lse)


def _less_sink(trace: Trace, layer: int, entropy: Tensor, lse: Tensor) -> Tensor:
    """Take w_sink · s_sink from the entropy, where the layer has a sink."""
    sinks = _sinks(trace, layer)
    return entropy if sinks is None else entropy - (sinks[:, None] - lse).exp() * sinks[:, None]


def _sinks(trace: Trace, layer: int) -> Tensor | None:
    sinks = trace.specs[layer].sinks
    return None if sinks is None else torch.tensor(sinks, device=trace.positions.device)


# ----------------------------------------------------------------------------------------------------------------------
# Thumbnails


def atlas_steps(
    trace: Trace, pixels: int = 64, *, exact: bool = False, first: Sequence[int] = (), batch: int = 0
) -> Steps[HeadAtlas]:
    """Thumbnails and scores of all heads, pausing after every head.

    Yields a :class:`~model.progress.Partial` with an :class:`~model.readings.AtlasPart` for every layer that is ready.

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
    order = [layer for layer in dict.fromkeys([*first, *range(c.layers)]) if 0 <= layer < c.layers]
    for done, layer in enumerate(order):
        for head in range(c.heads):
            if every_cell:
                picture = yield from whole_head_steps(trace, layer, head, pixels=pixels, raw=False, batch=batch)
            else:
                picture = read_head(trace, layer, head, pixels=pixels, reduction="sampled", raw=False, batch=batch)
            tile = picture.weights
            thumbnails[layer, head] = np.where(tile.visible, tile.values, np.nan)
            reduction = tile.reduction
            yield Progress(done * c.heads + head + 1, c.layers * c.heads, WHAT)
        scores = yield from _layer_scores(trace, layer, batch, FORMULAS)
        for name, values in scores.items():
            found[name][layer] = values
        part = AtlasPart(layer, _locked(thumbnails[layer].copy()), reduction, scores)
        yield Partial((done + 1) * c.heads, c.layers * c.heads, WHAT, part)
    return HeadAtlas(_locked(thumbnails), reduction, found, formulas_of(trace), _undefined(trace, batch))


def _locked(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
