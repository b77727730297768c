"""The arithmetic of a layer a second time, in float64 and from its definition, for the checks of the shape ledger.

Scores, the mask, a blend and a QK-norm are written out here once more on purpose: what checks the model, and
``model.decoder.scores``, must share no line with them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.norms import QkNorm
from ropewalk.model.decoder.spec import AttentionSpec


def relative(found: Tensor, expected: Tensor) -> float:
    """Largest |found − expected| over the largest |expected| (over 1 where all of it is 0)."""
    if found.shape != expected.shape:
        return float("inf")
    wide = expected.double()
    largest = float(wide.abs().max())
    return float((found.double() - wide).abs().max()) / (largest or 1.0)


def worst(first: float, second: float) -> float:
    """The larger; NaN when either is, so that it is not lost in a maximum."""
    return second if math.isnan(second) or second > first else first


def exact_scores(query: Tensor, keys: Tensor, rule: AttentionSpec) -> Tensor:
    """scale · q'·k' and the soft cap in float64, [B, H, n, S], from Q' [B, H, n, Dh] and K' [B, Hkv, S, Dh].

    Head by head, each with its own kv head, so that no more than one head of K' is widened at once.
    """
    dots = [
        query[:, h].double() @ keys[:, rule.kv_head_of(h)].double().transpose(-1, -2) for h in range(query.shape[1])
    ]
    scores = rule.scale * torch.stack(dots, dim=1)
    return scores if rule.cap is None else rule.cap * torch.tanh(scores / rule.cap)


def exact_blend(weights: Tensor, values: Tensor, rule: AttentionSpec) -> Tensor:
    """Σ_k w[q, k] · v[k] in float64, [B, H, n, Dh], from weights [B, H, n, S] and V [B, Hkv, S, Dh]."""
    heads = range(weights.shape[1])
    return torch.stack([weights[:, h].double() @ values[:, rule.kv_head_of(h)].double() for h in heads], dim=1)


def visible(rows: Tensor, length: int, rule: AttentionSpec, padding: Tensor | None) -> Tensor:
    """Which keys each row sees, [B or 1, 1, n, S], from positions alone: not later, within the window, not padding."""
    back = rows[:, None] - torch.arange(length, device=rows.device)[None, :]  # how far back each key lies
    seen_from = back >= 0 if rule.causal else torch.ones_like(back, dtype=torch.bool)
    if rule.window is not None:
        seen_from = seen_from & (back < rule.window)
    each = seen_from[None, None]
    return each if padding is None else each & padding[:, None, None, :length]


def normed(config: ModelConfig, norm: QkNorm, x: Tensor) -> Tensor:
    """QK-norm of [B, heads, T, Dh] by its definition, and the clip after it, in float64."""
    limit = math.inf if config.qkv_clip is None else config.qkv_clip
    weight, bias = norm.norm.weight, norm.norm.bias
    gain = 1.0 if weight is None else weight.double() + config.norm_offset
    shift = 0.0 if bias is None else bias.double()
    if config.qk_norm == "full":
        joined = x.transpose(1, 2)  # [B, T, heads, Dh]
        flat = _unit(joined.flatten(-2), config) * gain + shift
        return flat.view(joined.shape).transpose(1, 2).clamp(-limit, limit)
    return (_unit(x, config) * gain + shift).clamp(-limit, limit)


def _unit(x: Tensor, config: ModelConfig) -> Tensor:
    if config.qk_norm_kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    return x / ((x * x).mean(-1, keepdim=True) + config.norm_eps).sqrt()


def pair_lengths(x: Tensor, pairing: str) -> Tensor:
    """Length of each pair of features that turn together, [..., d_rot] → [..., d_rot/2]."""
    first, second = x.chunk(2, dim=-1) if pairing == "half" else (x[..., 0::2], x[..., 1::2])
    return torch.hypot(first, second)
