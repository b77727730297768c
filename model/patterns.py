"""What a head's pattern is called: scores of known habits, and thumbnails, for all heads at once.

Every score has a formula in words, shown beside it. They are gathers and extra fused calls over Q', K' and lse, never
a T × T matrix; only the thumbnails compute weights, in strips.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from model.attention import fused_attention
from model.progress import Progress, Steps
from model.readings import Doubles, Floats, HeadAtlas, Reduction
from model.tiles import read_head
from model.trace import Trace

FORMULAS = {
    "previous": "previous token: mean over q ≥ 1 of w[q, q − 1]",
    "sink": "sink: mean over q ≥ 1 of w[q, 0]",
    "induction": "induction, ids are N tokens twice: mean over q = N … 2N − 2 of w[q, q − N + 1]",
    "entropy": "entropy: mean over q of −Σ w ln w, in nats",
}
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


def head_scores(trace: Trace, *, batch: int = 0) -> tuple[dict[str, Doubles], dict[str, str]]:
    """Scores of every head, name → [L, H] float64, and why a score that is NaN has no value here."""
    found = {name: np.full((trace.config.layers, trace.config.heads), math.nan) for name in FORMULAS}
    undefined = _undefined(trace, batch)
    for layer in range(trace.config.layers):
        for name, values in _layer_scores(trace, layer, batch, undefined).items():
            found[name][layer] = values.double().cpu().numpy()
    return found, undefined


def _undefined(trace: Trace, batch: int) -> dict[str, str]:
    missing = {}
    if trace.length < 2:
        missing = {"previous": TOO_SHORT, "sink": TOO_SHORT}
    if trace.ids is None or repeat_period(trace.ids[batch]) == 0:
        missing["induction"] = NOT_TWICE
    return missing


def _layer_scores(trace: Trace, layer: int, batch: int, undefined: dict[str, str]) -> dict[str, Tensor]:
    length, device = trace.length, trace.positions.device
    rows = torch.arange(1, length, device=device)
    scores = {"entropy": mean_entropy(trace, layer, batch=batch)}
    if "previous" not in undefined:
        scores["previous"] = _mean_weight(trace, layer, rows, rows - 1, batch)
        scores["sink"] = _mean_weight(trace, layer, rows, torch.zeros_like(rows), batch)
    if "induction" not in undefined:
        period = length // 2
        later = torch.arange(period, 2 * period - 1, device=device)
        scores["induction"] = _mean_weight(trace, layer, later, later - period + 1, batch)
    return scores


def _mean_weight(trace: Trace, layer: int, queries: Tensor, keys: Tensor, batch: int) -> Tensor:
    """Mean over pairs (q, k) of w[q, k] for every head, [H]; real query rows only."""
    spec = trace.specs[layer]
    group = spec.heads // spec.kv_heads
    q = trace.queries[layer].tensor[batch, :, queries].float()  # [H, n, Dh]
    k = trace.keys[layer].tensor[batch, :, keys].float().repeat_interleave(group, dim=0)  # [H, n, Dh]
    score = (q * k).sum(-1) * spec.scale
    if spec.cap is not None:
        score = spec.cap * torch.tanh(score / spec.cap)
    weight = (score - trace.lse[layer].tensor[batch, :, queries]).exp()
    if spec.window is not None:
        weight = weight.masked_fill(keys <= queries - spec.window, 0.0)
    if trace.padding is not None:
        weight = weight.masked_fill(~trace.padding[batch, keys], 0.0)[:, trace.padding[batch, queries]]
    return weight.mean(-1)


def mean_entropy(trace: Trace, layer: int, *, batch: int = 0) -> Tensor:
    """Mean entropy of every head's rows in nats, [H].

    A row's entropy is lse − Σ w·s − w_sink·s_sink, and Σ w·s = scale · (q · out) where out is attention with V := K'.
    Under a soft cap the score is not linear in K', so the rows are computed in strips instead.
    """
    spec = trace.specs[layer]
    if spec.cap is not None:
        return _capped_entropy(trace, layer, batch)
    q = trace.queries[layer].tensor[batch : batch + 1]
    k = trace.keys[layer].tensor[batch : batch + 1]
    padding = None if trace.padding is None else trace.padding[batch : batch + 1]
    sinks = None if spec.sinks is None else torch.tensor(spec.sinks, device=q.device)
    result = fused_attention(q.float(), k.float(), k.float(), spec, padding=padding, sinks=sinks)
    lse = result.lse[0]  # [H, S]
    entropy = lse - spec.scale * (q[0].float() * result.out[0]).sum(-1)
    if sinks is not None:
        entropy = entropy - (sinks[:, None] - lse).exp() * sinks[:, None]
    real = torch.isfinite(lse[0])
    return entropy[:, real].clamp_min(0.0).mean(-1)


def _capped_entropy(trace: Trace, layer: int, batch: int) -> Tensor:
    from model.lens import read_row

    rows = [query for query in range(trace.length) if math.isfinite(float(trace.lse[layer].tensor[batch, 0, query]))]
    heads = range(trace.config.heads)
    return torch.tensor(
        [np.mean([read_row(trace, layer, head, query, batch=batch).entropy for query in rows]) for head in heads]
    )


def atlas_steps(trace: Trace, pixels: int = 64, *, batch: int = 0) -> Steps[HeadAtlas]:
    """Thumbnails and scores of all heads, pausing after every layer."""
    c = trace.config
    side = -(-trace.length // max(1, -(-trace.length // pixels)))
    thumbnails = np.full((c.layers, c.heads, side, side), np.nan, dtype=np.float32)
    reduction: Reduction = "exact"
    undefined = _undefined(trace, batch)
    found = {name: np.full((c.layers, c.heads), math.nan) for name in FORMULAS}
    for layer in range(c.layers):
        for head in range(c.heads):
            tile = read_head(trace, layer, head, pixels=pixels, batch=batch).weights
            thumbnails[layer, head] = np.where(tile.visible, tile.values, np.nan)
            reduction = tile.reduction
        for name, values in _layer_scores(trace, layer, batch, undefined).items():
            found[name][layer] = values.double().cpu().numpy()
        yield Progress(layer + 1, c.layers, "Drawing the heads")
    return HeadAtlas(_locked(thumbnails), reduction, found, dict(FORMULAS), undefined)


def _locked(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
