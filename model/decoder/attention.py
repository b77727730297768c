"""Grouped-query attention: projections, QK-norm, rotation, and two ways to blend the values.

The **fused** branch never holds a T × S matrix and returns the log-sum-exp of every row beside its output. The
**explicit** branch makes every intermediate matrix, for reading and for comparison. :func:`fused_kernel` is the only
caller of PyTorch's raw CPU kernel, which crashes on or silently mis-answers several kinds of input.

Letters: B batch, T queries of this call, P past, S = P + T keys, H query heads, Hkv kv heads, Dh head width,
G = H / Hkv query heads that share a kv head. Row i of a call stands at row P + i of the run. A query sees a key when
the key is not later (causal), not further back than the window, and not padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.decoder.config import Branch, ModelConfig
from ropewalk.model.decoder.hooks import HookPoint
from ropewalk.model.decoder.norms import QkNorm
from ropewalk.model.decoder.packing import Joined
from ropewalk.model.decoder.products import Linear
from ropewalk.model.decoder.rope import rotate
from ropewalk.model.decoder.scores import (
    count_visible,
    key_range,
    log_weights,
    scaled_scores,
    visible_keys,
    written_scores,
    written_weights,
)
from ropewalk.model.decoder.spec import AttentionSpec, RotationSegment
from ropewalk.model.errors import AttentionError

BLOCK_ELEMENTS = 1 << 23
"""Scores a row block may hold at once (32 MiB in float32)."""
WINDOW_BLOCK = 256
"""Queries per kernel call under a sliding window; a call looks at WINDOW_BLOCK + W keys."""
KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


Parts = tuple[Tensor, Tensor]
"""What some of the keys give: out [B, H, T, Dh] and lse [B, H, T], −inf for a row that sees none of them."""


@dataclass(frozen=True, eq=False)
class Attended:
    """What attention gives back.

    Attributes
    ----------
    out
        [B, H, T, Dh], the blended values; 0 for a row that sees nothing.
    lse
        [B, H, T] float32, log Σ exp(score) over visible keys and the sink; +inf for a row that sees nothing.
    scores, weights
        [B, H, T, S] scaled, soft-capped, masked (−inf) scores in float32 and the softmax, on the explicit branch only.
    """

    out: Tensor
    lse: Tensor
    scores: Tensor | None = None
    weights: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Call:
    """What every layer of one forward pass shares.

    Attributes
    ----------
    past
        P, rows already in the cache.
    length
        The largest position of the call plus one, which length-dependent rotary rules look at.
    positions
        [B, T] position ids.
    rotations
        For each layer, the (cos, sin) of its rotary rule, [B, T, F] each, or None.
    padding
        [B, S] bool, True for a real token, or more columns than there are keys; None when all are real.
    """

    past: int
    length: int
    positions: Tensor
    rotations: tuple[tuple[Tensor, Tensor] | None, ...]
    branch: Branch = "fused"
    padding: Tensor | None = None
    cache: KvCache | None = None


# ----------------------------------------------------------------------------------------------------------------------
# The guarded kernel


def fused_kernel(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Call PyTorch's fused CPU attention, and refuse what it crashes on or answers wrongly.

    Parameters
    ----------
    query
        [B, H, T, Dh].
    key, value
        [B, Hkv, S, Dh]; never expanded to H heads.
    causal
        Row i sees keys up to i; needs T == S.
    mask
        Added to the scores: floats of the query's dtype that broadcast to [B, 1, T, S], or booleans (True = visible).

    Returns
    -------
    out, lse
        [B, H, T, Dh] and [B, H, T] float32. A fully masked row comes back with lse 0 and out 0: the caller knows
        which rows those are.

    Raises
    ------
    AttentionError
        For empty inputs, a wrong device or dtype, heads that do not divide, batches or widths that differ, a causal
        call with T ≠ S.
    """
    _guard(query, key, value, causal, mask)
    if scale <= 0:  # the kernel masks before it scales: −inf times such a scale is nan, or +inf
        query, scale = query * (0.0 if scale == 0 else -1.0), -scale or 1.0
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype, device=query.device).masked_fill_(~mask, -math.inf)
    query, key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value))
    if query.shape[2] > 1:
        out, lse = KERNEL(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
        return out, lse
    # heads that share a kv head go in as rows of one head, so that its K and V are read once
    batch, heads, _, width = query.shape
    together = query.reshape(batch, key.shape[1], -1, width)  # [B, Hkv, G, Dh]
    out, lse = KERNEL(together, key, value, 0.0, False, attn_mask=mask, scale=scale)
    return out.reshape(batch, heads, 1, width), lse.reshape(batch, heads, 1)


def _guard(query: Tensor, key: Tensor, value: Tensor, causal: bool, mask: Tensor | None) -> None:
    if query.device.type != "cpu" or key.device.type != "cpu" or value.device.type != "cpu":
        raise AttentionError(f"The fused CPU kernel was given a tensor on {query.device}; it reads CPU memory only.")
    if query.dtype not in KERNEL_DTYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        raise AttentionError(
            f"Query, key and value have dtypes {query.dtype}, {key.dtype} and {value.dtype}, but the kernel needs one "
            "of float32, bfloat16 and float16 for all three."
        )
    if query.ndim != 4 or key.ndim != 4 or value.shape != key.shape:
        raise AttentionError(
            f"Query, key and value have shapes {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}, "
            "but they must be [B, H, T, Dh] and twice [B, Hkv, S, Dh]."
        )
    if query.numel() == 0 or key.numel() == 0:
        raise AttentionError(
            f"There are {query.shape[2]} queries and {key.shape[2]} keys in a batch of {query.shape[0]}, but attention "
            "needs at least one of each."
        )
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        raise AttentionError(
            f"Queries have batch {query.shape[0]} and head width {query.shape[3]}, keys {key.shape[0]} and "
            f"{key.shape[3]}; they must agree."
        )
    if query.shape[1] % key.shape[1]:
        raise AttentionError(f"{query.shape[1]} query heads cannot be shared evenly among {key.shape[1]} kv heads.")
    if causal and query.shape[2] != key.shape[2]:
        raise AttentionError(
            f"A causal call has {query.shape[2]} queries and {key.shape[2]} keys, but the kernel aligns them only when "
            "the numbers are equal."
        )
    if mask is not None:
        _guard_mask(query, key, mask)


def _guard_mask(query: Tensor, key: Tensor, mask: Tensor) -> None:
    batch, tokens, keys = query.shape[0], query.shape[2], key.shape[2]
    fits = mask.ndim == 4 and all(m in (1, full) for m, full in zip(mask.shape, (batch, 1, tokens, keys), strict=True))
    if not fits or mask.shape[-1] != keys:
        raise AttentionError(f"The mask has shape {tuple(mask.shape)}, but it must fit [{batch}, 1, {tokens}, {keys}].")
    if mask.dtype not in (torch.bool, query.dtype):
        raise AttentionError(f"The mask is {mask.dtype}, but it must be boolean or {query.dtype}, like the query.")


# ----------------------------------------------------------------------------------------------------------------------
# The fused branch: parts merged by their log-sum-exp


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    spec: AttentionSpec,
    *,
    past: int = 0,
    padding: Tensor | None = None,
    sinks: Tensor | None = None,
) -> Attended:
    """Attend without ever holding a T × S matrix.

    Parameters
    ----------
    query
        [B, H, T, Dh], rows ``past`` … ``past + T − 1`` of the run.
    key, value
        [B, Hkv, S, Dh], rows 0 … S − 1.
    padding
        [B, S] bool, True for a real token.
    sinks
        [H] logits that take part in the softmax without a key.
    """
    if kernel_serves(query, key, value, spec, past, sinks):
        parts = _by_kernel(query, key, value, spec, past, padding)
    else:
        parts = _by_row_blocks(query, key, value, spec, past, padding)
    return settled(parts, spec, past=past, padding=padding, sinks=sinks)


def settled(
    parts: Parts, spec: AttentionSpec, *, past: int, padding: Tensor | None = None, sinks: Tensor | None = None
) -> Attended:
    """What rows ``past`` … give after all their keys: a row that saw none gets 0 and +inf, sinks get their share."""
    out, lse = parts
    if padding is not None:
        rows = torch.arange(past, past + out.shape[2], device=out.device)
        every = rows.new_zeros(()), rows.new_tensor(padding.shape[1])
        sees = (count_visible(spec, (rows, rows), every, padding) > 0)[:, None]  # [B, 1, T]
        out = out.masked_fill(~sees[..., None], 0.0)
        lse = lse.masked_fill(~sees, -math.inf)
    if sinks is not None:
        total = _with_sinks(lse, sinks)
        out = (out.float() * (lse - total).exp()[..., None]).to(out.dtype)
        lse = total
    # only padding can leave a row without a key: a query always sees itself
    return Attended(out, lse if padding is None else lse.masked_fill(lse == -math.inf, math.inf))


def kernel_serves(
    query: Tensor, key: Tensor, value: Tensor, spec: AttentionSpec, past: int, sinks: Tensor | None
) -> bool:
    """Whether the CPU kernel can answer; its lse carries no gradient, so training may not build on it."""
    if query.device.type != "cpu" or spec.cap is not None or query.dtype not in KERNEL_DTYPES:
        return False
    trains = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    uses_lse = sinks is not None or (past > 0 and query.shape[2] > 1)  # the sink's share, or a merge of two parts
    return not (trains and uses_lse)


def _with_sinks(lse: Tensor, sinks: Tensor) -> Tensor:
    """Let one logit per head take part in a row's sum; +inf still marks a row without a visible key."""
    return torch.logaddexp(lse, sinks.float()[None, :, None]).masked_fill(lse == -math.inf, math.inf)


def _by_kernel(
    query: Tensor, key: Tensor, value: Tensor, spec: AttentionSpec, past: int, padding: Tensor | None
) -> Parts:
    tokens, keys = query.shape[2], key.shape[2]
    if spec.window is not None and (not spec.causal or keys > spec.window):
        blocks = [
            _kernel_block(query, key, value, spec, past, start, padding) for start in range(0, tokens, WINDOW_BLOCK)
        ]
        return torch.cat([out for out, _ in blocks], dim=2), torch.cat([lse for _, lse in blocks], dim=2)
    mask = None if padding is None else padding[:, None, None, :]  # [B, 1, 1, S]
    if tokens == 1 or not spec.causal:
        return fused_kernel(query, key, value, scale=spec.scale, mask=mask)
    if past == 0:
        return fused_kernel(query, key, value, scale=spec.scale, causal=True, mask=mask)
    before = over_keys(query, key, value, spec, (0, past), padding)
    return merged(before, over_keys(query, key, value, spec, (past, keys), padding, causal=True))


def _kernel_block(
    query: Tensor, key: Tensor, value: Tensor, spec: AttentionSpec, past: int, start: int, padding: Tensor | None
) -> tuple[Tensor, Tensor]:
    """One block of queries against the keys its window reaches, under a small mask [B or 1, 1, n, n + W]."""
    assert spec.window is not None
    block = query[:, :, start : start + WINDOW_BLOCK]
    first = past + start
    last = first + block.shape[2]
    low, high = key_range(spec, (first, last), key.shape[2])
    device = query.device
    seen = visible_keys(spec, torch.arange(first, last, device=device), torch.arange(low, high, device=device), padding)
    return fused_kernel(block, key[:, :, low:high], value[:, :, low:high], scale=spec.scale, mask=seen)


def over_keys(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    spec: AttentionSpec,
    keys: tuple[int, int],
    padding: Tensor | None,
    *,
    causal: bool = False,
) -> Parts:
    """Attend to some of the keys only, by the kernel; :func:`merged` joins what disjoint ranges give.

    Parameters
    ----------
    keys
        The first key and the end. All of them are seen by every row, unless ``causal`` cuts them at the diagonal.
    """
    low, high = keys
    mask = None if padding is None else padding[:, None, None, low:high]  # [B, 1, 1, n]
    out, lse = fused_kernel(
        query, key[:, :, low:high], value[:, :, low:high], scale=spec.scale, causal=causal, mask=mask
    )
    if mask is None:
        return out, lse
    real = mask[:, :, 0]  # [B, 1, n]
    sees = (real.cumsum(-1) > 0) if causal else real.any(-1, keepdim=True)
    return out, lse.masked_fill(~sees, -math.inf)


def merged(first: Parts, second: Parts) -> Parts:
    """Join two disjoint sets of keys: lse = logaddexp, out = the parts weighted by their share."""
    (out_a, lse_a), (out_b, lse_b) = first, second
    lse = torch.logaddexp(lse_a, lse_b)
    floor = lse.masked_fill(lse == -math.inf, 0.0)
    out = out_a.float() * (lse_a - floor).exp()[..., None] + out_b.float() * (lse_b - floor).exp()[..., None]
    return out.to(out_a.dtype), lse


def _by_row_blocks(
    query: Tensor, key: Tensor, value: Tensor, spec: AttentionSpec, past: int, padding: Tensor | None
) -> Parts:
    """Output and lse in blocks of rows, in float32, where no kernel serves (soft cap, other devices)."""
    outs, lses = [], []
    for start, stop, low, high in _row_blocks(query, key, spec, past):
        scores = scaled_scores(query[:, :, start:stop].float(), key[:, :, low:high].float(), spec)
        queries = torch.arange(past + start, past + stop, device=query.device)
        seen = visible_keys(spec, queries, torch.arange(low, high, device=query.device), padding)
        scores = scores.masked_fill(~seen, -math.inf)
        lse = scores.logsumexp(-1)
        weights = log_weights(scores, lse.masked_fill(lse == -math.inf, 0.0)).exp_()
        outs.append(_grouped_blend(weights, value[:, :, low:high]))
        lses.append(lse)
    return torch.cat(outs, dim=2).to(query.dtype), torch.cat(lses, dim=2)


def _row_blocks(query: Tensor, key: Tensor, spec: AttentionSpec, past: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut T into blocks; yields (first query, end query, first key, end key) so that a block's scores stay bounded."""
    batch, heads, tokens, _ = query.shape
    keys = key.shape[2]
    rows = max(1, BLOCK_ELEMENTS // max(1, batch * heads * keys))
    for start in range(0, tokens, rows):
        stop = min(start + rows, tokens)
        yield start, stop, *key_range(spec, (past + start, past + stop), keys)


def _grouped_blend(weights: Tensor, value: Tensor) -> Tensor:
    """Weights [B, H, n, m] times V [B, Hkv, m, Dh] in float32, with V left at Hkv heads."""
    batch, heads, rows, keys = weights.shape
    kv_heads, width = value.shape[1], value.shape[3]
    grouped = weights.reshape(batch, kv_heads, heads // kv_heads * rows, keys)
    return (grouped @ value.float()).view(batch, heads, rows, width)


# ----------------------------------------------------------------------------------------------------------------------
# The explicit branch


def explicit_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    spec: AttentionSpec,
    *,
    past: int = 0,
    padding: Tensor | None = None,
    sinks: Tensor | None = None,
) -> Attended:
    """Attend the way it is written on a blackboard: scores, soft cap, mask, float32 softmax, blend.

    Shapes are those of :func:`fused_attention`; the matrices come back in the result.
    """
    scores = scaled_scores(query.float(), key.float(), spec)  # [B, H, T, S]; q·k can overflow float16
    device = query.device
    queries = torch.arange(past, past + query.shape[2], device=device)
    seen = visible_keys(spec, queries, torch.arange(key.shape[2], device=device), padding)
    scores = scores.masked_fill(~seen, -math.inf)
    lse = scores.logsumexp(-1)
    if sinks is not None:
        lse = _with_sinks(lse, sinks)
    lse = lse.masked_fill(lse == -math.inf, math.inf)
    weights = log_weights(scores, lse).exp_()
    value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)  # [B, H, S, Dh]: heads of a group share
    out = weights.to(value.dtype) @ value
    return Attended(out, lse, scores, weights)


BRANCHES = {"fused": fused_attention, "explicit": explicit_attention}


def written_over(
    result: Attended, value: Tensor, spec: AttentionSpec, *, past: int, padding: Tensor | None
) -> Attended:
    """What attention gives where heads were given a pattern: its weights blend V, and the row's log-sum-exp is 0.

    A score is the logarithm of a weight then, so that exp(score − lse) is what was written. What the mask hides stays
    hidden.
    """
    out, lse = result.out.clone(), result.lse.clone()
    scores, weights = (None if one is None else one.clone() for one in (result.scores, result.weights))
    keys = torch.arange(value.shape[2], device=value.device)
    for pattern in spec.written:
        stop = min(past + out.shape[2], len(pattern.rows))
        if stop <= past:
            continue
        rows = torch.arange(past, stop, device=value.device)
        place = rows - past
        seen = visible_keys(spec, rows, keys, padding)[:, 0]  # [B or 1, n, S]
        found = written_weights(pattern, rows[:, None], keys) * seen
        of_head = value[:, pattern.head * value.shape[1] // spec.heads]  # [B, S, Dh]
        out[:, pattern.head, place] = (found @ of_head.float()).to(out.dtype)
        lse[:, pattern.head, place] = torch.zeros_like(lse[:, pattern.head, place]).masked_fill(~seen.any(-1), math.inf)
        if weights is not None and scores is not None:
            weights[:, pattern.head, place] = found
            scores[:, pattern.head, place] = written_scores(pattern, rows[:, None], keys).masked_fill(~seen, -math.inf)
    return Attended(out, lse, scores, weights)


# ----------------------------------------------------------------------------------------------------------------------
# The layer


def last_points(config: ModelConfig, layer: int) -> tuple[str, str]:
    """Names of the hook points through which Q' and K' pass last, as attention uses them."""
    rotates, norms = config.rope_of(layer) is not None, config.qk_norm != "none"
    if norms and (config.qk_norm_after_rope or not rotates):
        return "hook_q_normed", "hook_k_normed"
    return ("hook_rot_q", "hook_rot_k") if rotates else ("hook_q", "hook_k")


class Attention(nn.Module):
    """One layer's attention: [B, T, D] in, [B, T, D] out.

    The steps, in order: project to q, k, v; split into heads; QK-norm; rotate q and k; append k and v to the cache;
    attend; concatenate the heads; project with W_O. Hook points are named as in the field.
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        c = config
        self.config = config
        self.layer = layer
        self.query = Linear(c.width, c.heads * c.head_width, bias=c.query_bias)  # W_Q [H·Dh, D]
        self.key = Linear(c.width, c.kv_heads * c.head_width, bias=c.key_bias)  # W_K [Hkv·Dh, D]
        self.value = Linear(c.width, c.kv_heads * c.head_width, bias=c.value_bias)  # W_V [Hkv·Dh, D]
        self.project = Joined(self.query, self.key, self.value)
        self.output = Linear(c.heads * c.head_width, c.width, bias=c.output_bias)  # W_O [D, H·Dh]
        self.sinks = nn.Parameter(torch.zeros(c.heads)) if c.sink else None
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()
        if c.qk_norm != "none":
            self.query_norm, self.key_norm = QkNorm(c, c.heads), QkNorm(c, c.kv_heads)
            self.hook_q_normed, self.hook_k_normed = HookPoint(), HookPoint()
        if c.rope_of(layer) is not None:
            self.hook_rot_q, self.hook_rot_k = HookPoint(), HookPoint()
        self.hook_attn_scores, self.hook_pattern = HookPoint(read_only=True), HookPoint(read_only=True)
        self.hook_lse = HookPoint(read_only=True)
        self.hook_z, self.hook_result = HookPoint(), HookPoint(read_only=True)
        self.rule = self._rule()

    def spec(self, segments: tuple[RotationSegment, ...] = ()) -> AttentionSpec:
        """What this layer does, as data that can travel with a trace."""
        sinks = None if self.sinks is None or self.sinks.is_meta else tuple(self.sinks.detach().float().tolist())
        return replace(self.rule, sinks=sinks, segments=segments)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """Read the normed stream and return what this layer adds to it, [B, T, D]."""
        q, k, v = self.read(x, call.rotations[self.layer])
        k, v, padding = self.seen(k, v, call)
        result = BRANCHES[call.branch](q, k, v, self.rule, past=call.past, padding=padding, sinks=self.sinks)
        if self.rule.written:
            result = written_over(result, v, self.rule, past=call.past, padding=padding)
        self.note(q, result, call)
        return self.write(result.out)

    def read(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor, Tensor]:
        """Q' [B, H, T, Dh], K' and V [B, Hkv, T, Dh] of rows of the normed stream and their (cos, sin)."""
        early = self.config.qk_norm == "none"  # with a QK-norm, q and k are clipped after it (OLMoE)
        q, k, v = self.project(x)  # [B, T, H·Dh], twice [B, T, Hkv·Dh]
        q = self.hook_q(self._split(self._clipped(q) if early else q))  # [B, H, T, Dh]
        k = self.hook_k(self._split(self._clipped(k) if early else k))  # [B, Hkv, T, Dh]
        v = self.hook_v(self._split(self._clipped(v)))
        if self.config.qk_norm_after_rope:
            q, k = self._normed(*self._rotated(q, k, rotation))
        else:
            q, k = self._rotated(*self._normed(q, k), rotation)
        return q, k, v

    def seen(self, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keep K' and V of this call; return all that there are, [B, Hkv, S, Dh], and which are real, [B, S]."""
        if call.cache is not None:
            k, v = call.cache.append(self.layer, k, v)
        if self.rule.kv_map is not None:
            k, v = k[:, self.rule.kv_map], v[:, self.rule.kv_map]  # [B, H, S, Dh]
        return k, v, None if call.padding is None else call.padding[:, : k.shape[2]]

    def note(self, q: Tensor, result: Attended, call: Call) -> None:
        """Keep and show what was attended with."""
        if call.cache is not None:
            call.cache.note(self.layer, q, result.lse)
        self.hook_lse(result.lse)
        if result.scores is not None and result.weights is not None:
            self.hook_attn_scores(result.scores)
            self.hook_pattern(result.weights)

    def write(self, out: Tensor) -> Tensor:
        """Project the blended values of rows [B, H, T, Dh] back to the stream, [B, T, D]."""
        z = self.hook_z(out)
        if self.hook_result.is_watched:
            self.hook_result(self.per_head(z))
        joined: Tensor = self.output(z.transpose(1, 2).flatten(-2))  # [B, T, H·Dh] → [B, T, D]
        return joined

    def _rule(self) -> AttentionSpec:
        c, rope = self.config, self.config.rope_of(self.layer)
        return AttentionSpec(
            layer=self.layer,
            heads=c.heads,
            kv_heads=c.kv_heads,
            head_width=c.head_width,
            scale=c.scale,
            cap=c.score_cap,
            window=c.window_of(self.layer),
            rotary_width=c.rotary_width(self.layer),
            pairing="half" if rope is None else rope.pairing,
        )

    def _clipped(self, projected: Tensor) -> Tensor:
        limit = self.config.qkv_clip
        return projected if limit is None else projected.clamp(-limit, limit)

    def _split(self, projected: Tensor) -> Tensor:
        """[B, T, heads·Dh] → [B, heads, T, Dh]."""
        batch, tokens, _ = projected.shape
        return projected.view(batch, tokens, -1, self.config.head_width).transpose(1, 2)

    def _normed(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        if self.config.qk_norm == "none":
            return q, k
        q, k = self._clipped(self.query_norm(q)), self._clipped(self.key_norm(k))
        return self.hook_q_normed(q), self.hook_k_normed(k)

    def _rotated(self, q: Tensor, k: Tensor, rotation: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        if rotation is None:
            return q, k
        cos, sin = rotation
        pairing = self.rule.pairing
        return self.hook_rot_q(rotate(q, cos, sin, pairing)), self.hook_rot_k(rotate(k, cos, sin, pairing))

    def per_head(self, z: Tensor) -> Tensor:
        """What each head adds to the stream, [B, T, H, D]: W_O cut into its H blocks of columns."""
        blocks = self.output.weight.view(-1, self.config.heads, self.config.head_width)  # [D, H, Dh]
        return torch.einsum("bhtd,mhd->bthm", z, blocks)
