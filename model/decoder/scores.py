"""The arithmetic of attention scores, in one place: products scaled and soft-capped, the mask, the exponent.

    score[q, k]  = scale · (Q'[q] · K'[k]), then c · tanh(score / c) where the layer has a soft cap c
    weight[q, k] = 0 where masked, else exp(score[q, k] − lse[q])

Attention computes with these functions where no kernel serves, and :class:`model.runs.layer_trace.LayerTrace` reads
with them. Numbers keep the dtype they are given in. Letters as in ``model.decoder.attention``.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from ropewalk.model.decoder.spec import AttentionSpec, WrittenPattern

Span = tuple[int, int]
"""A half-open range of rows."""
LOG2_E: Final = 1 / math.log(2)


def scaled_scores(query: Tensor, key: Tensor, spec: AttentionSpec, out: Tensor | None = None) -> Tensor:
    """Scores as they are before the mask.

    Parameters
    ----------
    query, key
        [..., H, n, Dh] and [..., Hkv, m, Dh], with K left at Hkv heads; or [n, Dh] and [m, Dh] of one head.
    out
        Where to put the scores of one head.

    Returns
    -------
    Tensor
        [..., H, n, m], or [n, m].
    """
    query = query * spec.scale
    if query.ndim == 2:
        return soft_capped(torch.mm(query, key.T, out=out), spec.cap)
    grouped = query.reshape(*key.shape[:-2], -1, key.shape[-1])  # [..., Hkv, G · n, Dh]
    return soft_capped(grouped @ key.transpose(-1, -2), spec.cap).view(*query.shape[:-1], key.shape[-2])


def paired_scores(query: Tensor, key: Tensor, spec: AttentionSpec) -> Tensor:
    """Scores before the mask of each query with one key: [..., n, Dh] twice → [..., n]."""
    return soft_capped((query * key).sum(-1) * spec.scale, spec.cap)


def soft_capped(scores: Tensor, cap: float | None) -> Tensor:
    """c · tanh(score / c), or the scores where there is no cap. Scores may be overwritten."""
    if cap is None:
        return scores
    bent = scores.div_(cap).tanh_()
    return bent * cap if bent.requires_grad else bent.mul_(cap)  # the gradient of tanh is made from its result


def log_weights(scores: Tensor, lse: Tensor, out: Tensor | None = None) -> Tensor:
    """Logarithms of the weights, score − lse, of scores [..., n, m] in rows whose log-sum-exp is [..., n]."""
    return torch.sub(scores, lse[..., None], out=out)


def weights_of_logs(logs: Tensor) -> Tensor:
    """exp of logarithms, which are overwritten.

    It is 2 to the power of log₂e times them: torch leaves exp to MKL, which takes three times as long on some
    processors, and ten times where a weight is too small for float32.
    """
    return logs.mul_(LOG2_E).exp2_()


# ----------------------------------------------------------------------------------------------------------------------
# Patterns that are written for a head

LOWEST_SCORE = -1000.0
"""Of a written weight of 0: its exponential is 0 in every dtype, but it is a number, for what is masked has none."""


def written_weights(pattern: WrittenPattern, queries: Tensor, keys: Tensor) -> Tensor:
    """What a written pattern gives, float32, for rows that it has and any keys, in shapes that broadcast."""
    rows = torch.zeros(len(pattern.rows), max(len(pattern.rows), *map(len, pattern.rows)), device=keys.device)
    for number, row in enumerate(pattern.rows):
        rows[number, : len(row)] = torch.tensor(row)
    there = keys < rows.shape[1]
    return rows[queries, keys.clamp(max=rows.shape[1] - 1)] * there


def written_scores(
    pattern: WrittenPattern, queries: Tensor, keys: Tensor, dtype: torch.dtype = torch.float32
) -> Tensor:
    """The scores that a softmax would make these weights of in rows whose log-sum-exp is 0."""
    return written_weights(pattern, queries, keys).to(dtype).log().clamp_min(LOWEST_SCORE)


# ----------------------------------------------------------------------------------------------------------------------
# The mask


def sees(spec: AttentionSpec, queries: Tensor, keys: Tensor) -> Tensor:
    """Whether a row sees another, padding aside; rows of the run, in shapes that broadcast."""
    seen = keys <= queries if spec.causal else torch.ones_like(keys <= queries)
    return seen if spec.window is None else seen & (keys > queries - spec.window)


def visible_keys(spec: AttentionSpec, queries: Tensor, keys: Tensor, padding: Tensor | None) -> Tensor:
    """Which keys each query sees.

    Parameters
    ----------
    queries, keys
        [T], [S] rows of the run.
    padding
        [B, N] bool over the run's rows, or None.

    Returns
    -------
    Tensor
        [B or 1, 1, T, S] bool.
    """
    seen = sees(spec, queries[:, None], keys)[None, None]
    return seen if padding is None else seen & padding[:, None, None, keys]


def key_range(spec: AttentionSpec, rows: Span, length: int) -> Span:
    """The range of keys that the queries of ``rows`` see between them, of a run of ``length`` rows."""
    low = 0 if spec.window is None else max(0, rows[0] - spec.window + 1)
    return low, (rows[1] if spec.causal else length)


def count_visible(
    spec: AttentionSpec, queries: tuple[Tensor, Tensor], keys: tuple[Tensor, Tensor], padding: Tensor | None
) -> Tensor:
    """How many keys of a range the queries of a range see between them, counted without a mask.

    Parameters
    ----------
    queries
        The first query of each range and the last.
    keys
        The first key of each range and the end, in a shape that broadcasts with that of ``queries``.
    padding
        [..., S] bool over the run's rows, or None.
    """
    (first, last), (low, stop) = queries, keys
    if spec.window is not None:
        low = torch.maximum(first - spec.window + 1, low)
    stop = torch.minimum(last + 1, stop) if spec.causal else stop + torch.zeros_like(last)
    stop = torch.maximum(stop, low)
    low = low.expand_as(stop)
    if padding is None:
        return stop - low
    before: Tensor = torch.nn.functional.pad(padding.long().cumsum(-1), (1, 0))  # [..., S + 1], real rows before each
    return before[..., stop] - before[..., low]
