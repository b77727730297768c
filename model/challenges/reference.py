"""The challenges written out plainly in torch, right and with each classic mistake.

A learner's wrong result is compared with what each mistake would have given; the one that agrees is named. These are
second definitions: what is right is decided by the engine (``grading``), and a test holds the two to each other.

Letters as everywhere: B batch, T tokens, P past, S keys, D width, H heads, Hkv kv heads, Dh head width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

Mistakes: TypeAlias = frozenset[str]
Weights: TypeAlias = Mapping[str, Tensor]
RIGHT: Mistakes = frozenset()


def split_heads(x: Tensor, heads: int, mistakes: Mistakes = RIGHT) -> Tensor:
    """[B, T, heads·Dh] → [B, heads, T, Dh]."""
    batch, tokens, width = x.shape
    size = width // heads
    if "viewed" in mistakes:
        return x.reshape(batch, heads, tokens, size)
    if "strided" in mistakes:
        return x.view(batch, tokens, size, heads).permute(0, 3, 1, 2)
    cut = x.view(batch, tokens, heads, size)
    if "not_moved" in mistakes:
        return cut
    moved = cut.transpose(1, 2)
    return moved.transpose(2, 3) if "features_first" in mistakes else moved


def turn(x: Tensor, positions: Tensor, base: float, mistakes: Mistakes = RIGHT) -> Tensor:
    """RoPE of [B, heads, T, Dh] at positions [T], in half-split pairs."""
    width = x.shape[-1]
    half = width // 2
    even = torch.arange(half, dtype=torch.float64) * (1 if "exponent" in mistakes else 2)
    theta = base ** (-even / width)
    if "counted_anew" in mistakes:
        positions = torch.arange(len(positions))
    if "from_one" in mistakes:
        positions = positions + 1
    angles = positions[:, None].double() * theta  # [T, F]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if "backwards" in mistakes:
        sin = -sin
    if "adjacent" in mistakes or "shuffled" in mistakes:
        first, second = x[..., 0::2], x[..., 1::2]
    else:
        first, second = x[..., :half], x[..., half:]
    parts = (first * cos - second * sin, second * cos + first * sin)
    return torch.stack(parts, -1).flatten(-2) if "adjacent" in mistakes else torch.cat(parts, -1)


def apply_rope(
    q: Tensor, k: Tensor, v: Tensor, positions: Tensor, base: float, mistakes: Mistakes = RIGHT
) -> tuple[Tensor, Tensor, Tensor]:
    """Turn Q and K; V is left alone."""
    return (
        q if "q_still" in mistakes else turn(q, positions, base, mistakes),
        k if "k_still" in mistakes else turn(k, positions, base, mistakes),
        turn(v, positions, base, mistakes) if "v_turned" in mistakes else v,
    )


def repeat_kv(x: Tensor, groups: int, mistakes: Mistakes = RIGHT) -> Tensor:
    """[B, Hkv, S, Dh] → [B, Hkv·groups, S, Dh], each head ``groups`` times in a row."""
    if "tiled" in mistakes:
        return x.repeat(1, groups, 1, 1)
    if "positions_repeated" in mistakes:
        return x.repeat_interleave(groups, dim=2)
    if "batch_repeated" in mistakes:
        return x.repeat_interleave(groups, dim=0)
    if "features_repeated" in mistakes:
        return x.repeat_interleave(groups, dim=3)
    return x.repeat_interleave(groups, dim=1)


def project(x: Tensor, weight: Tensor, mistakes: Mistakes) -> Tensor:
    """x · Wᵀ, with W stored as (out, in)."""
    return x @ weight if "transposed" in mistakes and weight.shape[0] == weight.shape[1] else x @ weight.T


def blend(q: Tensor, k: Tensor, v: Tensor, mistakes: Mistakes = RIGHT, width: int = 0) -> Tensor:
    """Scores, causal mask, softmax and blend: [B, H, T, Dh] over [B, H, S, Dh]; the queries are the last T keys."""
    size = q.shape[-1]
    scales = {
        "unscaled": 1.0,
        "scaled_by_width": width**-0.5 if width else 1.0,
        "scaled_up": size**0.5,
        "no_root": 1 / size,
    }
    scale = next((value for name, value in scales.items() if name in mistakes), size**-0.5)
    scores = (k @ q.transpose(-1, -2) if "swapped" in mistakes else q @ k.transpose(-1, -2)) * scale
    past = k.shape[-2] - q.shape[-2]
    diagonal = past + 1 + ("sees_next" in mistakes) - ("sees_not_itself" in mistakes)
    if "top_left" in mistakes:
        diagonal -= past
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(diagonal)
    if "unmasked" not in mistakes and "masked_late" not in mistakes:
        scores = scores.masked_fill(hidden, 0.0 if "masked_with_zero" in mistakes else -math.inf)
    weights = scores.softmax(-2 if "softmax_over_queries" in mistakes else -1)
    if "masked_late" in mistakes:
        weights = weights.masked_fill(hidden, 0.0)
    blended: Tensor = weights @ (k if "blends_keys" in mistakes else v)
    return blended


def join(z: Tensor, mistakes: Mistakes = RIGHT) -> Tensor:
    """[B, H, T, Dh] → [B, T, H·Dh]."""
    batch, heads, tokens, size = z.shape
    if "joined_unmoved" in mistakes:
        return z.reshape(batch, tokens, heads * size)
    return z.transpose(1, 2).reshape(batch, tokens, heads * size)


def causal_attention(x: Tensor, weights: Weights, heads: int, mistakes: Mistakes = RIGHT) -> Tensor:
    """Causal self-attention from the stream back to the stream."""
    q, k, v = (split_heads(project(x, weights[name], mistakes), heads, mistakes) for name in ("q", "k", "v"))
    z = join(blend(q, k, v, mistakes, x.shape[-1]), mistakes)
    return z if "no_output" in mistakes else project(z, weights["o"], mistakes)


def cached_decode(
    x: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Weights,
    heads: int,
    kv_heads: int,
    rotate: Callable[[Tensor, int], Tensor],
    mistakes: Mistakes = RIGHT,
) -> tuple[Tensor, Tensor, Tensor]:
    """One decode step with one query over a cache of P turned keys."""
    past = keys.shape[2]
    q = split_heads(x @ weights["q"].T, heads)
    k, v = (split_heads(x @ weights[name].T, kv_heads) for name in ("k", "v"))
    position = 0 if "at_zero" in mistakes else past + ("one_late" in mistakes)
    q = rotate(q, position)
    if "stored_unturned" not in mistakes:
        k = rotate(k, position)
    if "v_turned" in mistakes:
        v = rotate(v, position)
    if "prepended" in mistakes:
        all_keys, all_values = torch.cat((k, keys), dim=2), torch.cat((v, values), dim=2)
    else:
        all_keys, all_values = torch.cat((keys, k), dim=2), torch.cat((values, v), dim=2)
    seen_keys, seen_values = all_keys, all_values
    if "without_itself" in mistakes and past:
        seen_keys, seen_values = keys, values
    if "only_itself" in mistakes:
        seen_keys, seen_values = k, v
    if "turned_again" in mistakes:
        seen_keys = torch.cat([rotate(all_keys[:, :, i : i + 1], i) for i in range(past)] + [k], dim=2)
    group = heads // kv_heads
    z = blend(q, repeat_kv(seen_keys, group, mistakes), repeat_kv(seen_values, group, mistakes), mistakes)
    out = join(z) if "no_output" in mistakes else join(z) @ weights["o"].T
    if "cache_kept" in mistakes:
        return out, keys, values
    return (out, k, v) if "cache_replaced" in mistakes else (out, all_keys, all_values)


def norm(x: Tensor, gain: Tensor, eps: float, mistakes: Mistakes = RIGHT) -> Tensor:
    """RMSNorm."""
    if "layer_norm" in mistakes:
        x = x - x.mean(-1, keepdim=True)
    square = x.square().mean(-1, keepdim=True)
    if "length_norm" in mistakes:
        square = x.square().sum(-1, keepdim=True)
    scaled = x / (square.sqrt() + eps) if "eps_outside" in mistakes else x / (square + eps).sqrt()
    return scaled if "no_gain" in mistakes else scaled * gain


def swiglu(x: Tensor, weights: Weights, mistakes: Mistakes = RIGHT) -> Tensor:
    """down(silu(gate x) · up x)."""
    gate, up = x @ weights["gate"].T, x @ weights["up"].T
    if "gate_swapped" in mistakes:
        gate, up = up, gate
    bend = functional.gelu if "gelu" in mistakes else functional.silu
    hidden = bend(up) if "no_gate" in mistakes else (gate * up if "no_silu" in mistakes else bend(gate) * up)
    return hidden @ weights["down"].T


def transformer_block(
    x: Tensor, weights: Weights, heads: int, kv_heads: int, base: float, eps: float, mistakes: Mistakes = RIGHT
) -> Tensor:
    """A pre-norm block: RMSNorm, GQA with RoPE, residual, RMSNorm, SwiGLU, residual."""
    read = x if "attention_unnormed" in mistakes else norm(x, weights["attn_norm"], eps, mistakes)
    positions = torch.arange(x.shape[1])
    q = split_heads(read @ weights["q"].T, heads)
    k, v = (split_heads(read @ weights[name].T, kv_heads) for name in ("k", "v"))
    if "no_rope" not in mistakes:
        q, k, v = apply_rope(q, k, v, positions, base, mistakes)
    group = heads // kv_heads
    z = blend(q, repeat_kv(k, group, mistakes), repeat_kv(v, group, mistakes), mistakes, x.shape[-1])
    written = join(z) @ weights["o"].T
    kept = read if "residual_normed" in mistakes else x
    middle = written if "no_first_residual" in mistakes else kept + written
    read = middle if "mlp_unnormed" in mistakes else norm(middle, weights["mlp_norm"], eps, mistakes)
    if "mlp_reads_input" in mistakes:
        read = norm(x, weights["mlp_norm"], eps)
    out = swiglu(read, weights, mistakes)
    if "no_second_residual" in mistakes:
        return out
    if "second_from_input" in mistakes:
        return x + out
    return (read if "residual_normed" in mistakes else middle) + out
