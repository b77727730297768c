"""From the mask that a transformers layer hands over to the rules of a trace; where none says it, the mask itself.

Letters as in ``model.decoder.config``. A call has T queries, the last of S rows; its n keys are the last of S rows too,
fewer where the layer's cache has dropped those that its window no longer reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ropewalk.model.decoder.attention import fused_attention
from ropewalk.model.decoder.costs import format_bytes
from ropewalk.model.decoder.scores import scaled_scores, visible_keys
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.errors import MemoryBudgetError, TraceError
from ropewalk.model.runs.mask import LayerMask
from ropewalk.model.transformers_models.attention import AttentionCall

MOST_MASK_BYTES = 1 << 31
"""Of one mask that no rule says; more is refused."""
BLOCK_SCORES = 1 << 22
"""Scores that a log-sum-exp under such a mask is made from at a time."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What a call's queries see of S rows: the same for all heads.

    Attributes
    ----------
    visible
        [B or 1, T, S] bool; None where the call's own causality says it.
    bias
        [B or 1, H or 1, T, S] float32, 0 where hidden; None where nothing is added.
    """

    visible: Tensor | None
    bias: Tensor | None


def seen_of(call: AttentionCall, length: int) -> Seen:
    """Read a call's mask and bias.

    Raises
    ------
    TraceError
        When the heads of a layer do not see the same keys.
    MemoryBudgetError
        When the matrix would be too large.
    """
    parts = [_cut(one, call) for one in (call.mask, call.bias) if one is not None]
    if not parts:
        return Seen(None, None)
    tokens, keys = call.query.shape[2], call.key.shape[2]
    visible: Tensor | None = None
    bias: Tensor | None = None
    for part in parts:
        if part.dtype == torch.bool:
            here = part
        else:
            here = part > torch.finfo(part.dtype).min / 2
            added = part.float().masked_fill(~here, 0.0)
            if bool(added.any()):
                bias = added if bias is None else bias + added
        visible = here if visible is None else visible & here
    assert visible is not None
    if call.mask is None and call.causal and tokens > 1:
        visible = visible & torch.ones(tokens, keys, dtype=torch.bool, device=visible.device).tril(keys - tokens)
    if visible.shape[1] > 1 and not bool((visible == visible[:, :1]).all()):
        raise TraceError(
            f"The heads of {type(call.module).__name__} do not see the same keys, which a trace cannot hold; look at a "
            "model whose mask is one for all heads."
        )
    if bias is not None:
        bias = bias.masked_fill(~visible, 0.0)
        _check_size(bias, length)
        bias = _padded(bias.expand(*bias.shape[:2], tokens, keys), length)
    visible = visible[:, 0].expand(-1, tokens, keys)
    return Seen(_padded(visible, length), bias)


def _cut(mask: Tensor, call: AttentionCall) -> Tensor:
    """A mask [·, ·, ·, n] without what a static cache has beyond the keys."""
    while mask.ndim < 4:
        mask = mask[None]
    return mask[..., : call.key.shape[2]]


def _padded(rows: Tensor, length: int) -> Tensor:
    """Rows over the last n keys, as rows over all S."""
    missing = length - rows.shape[-1]
    return torch.nn.functional.pad(rows, (missing, 0)) if missing else rows


def _check_size(bias: Tensor, length: int) -> None:
    needed = bias.shape[0] * bias.shape[1] * length * length * 4
    if needed > MOST_MASK_BYTES:
        raise MemoryBudgetError(
            f"This model adds a number to every score, which for {length:,} tokens takes {format_bytes(needed)} a "
            f"layer; at most {format_bytes(MOST_MASK_BYTES)} are kept, so shorten the prompt."
        )


# ----------------------------------------------------------------------------------------------------------------------
# Rules


def ruled(spec: AttentionSpec, call: AttentionCall, padding: Tensor | None) -> tuple[AttentionSpec, LayerMask | None]:
    """The rules of a layer whose prompt ran in one call, and what they leave unsaid.

    Parameters
    ----------
    spec
        What is known without the mask: the window is the one that the call named.
    padding
        [B, S] bool, True for a real token, on the call's device.
    """
    length = call.query.shape[2]
    seen = seen_of(call, length)
    if seen.visible is None:
        rule = _with(spec, causal=call.causal, window=None)
        return rule, None if seen.bias is None else LayerMask(bias=seen.bias)
    for candidate in _candidates(spec, seen.visible):
        if _agrees(candidate, seen.visible, (0, length), padding):
            return candidate, None if seen.bias is None else LayerMask(bias=seen.bias)
    later = torch.ones(length, length, dtype=torch.bool, device=seen.visible.device).triu(1)
    return _with(spec, causal=not bool((seen.visible & later).any()), window=None), LayerMask(seen.visible, seen.bias)


def _candidates(spec: AttentionSpec, visible: Tensor) -> Iterator[AttentionSpec]:
    if spec.window is not None:
        yield _with(spec, causal=True, window=spec.window)
    yield _with(spec, causal=True, window=None)
    yield _with(spec, causal=True, window=max(int(visible[:, -1].sum(-1).max()), 1))
    yield _with(spec, causal=False, window=None)


def _with(spec: AttentionSpec, *, causal: bool, window: int | None) -> AttentionSpec:
    return replace(spec, causal=causal, window=window)


def _agrees(spec: AttentionSpec, visible: Tensor, rows: tuple[int, int], padding: Tensor | None) -> bool:
    """Whether rules say what rows of real tokens see, [B or 1, T, S]."""
    device = visible.device
    queries, keys = torch.arange(*rows, device=device), torch.arange(visible.shape[-1], device=device)
    said = visible_keys(spec, queries, keys, padding)[:, 0]
    differ = said != visible
    if padding is not None:
        differ = differ & padding[:, rows[0] : rows[1], None]
    return not bool(differ.any())


def extended(
    spec: AttentionSpec, mask: LayerMask | None, call: AttentionCall, length: int, padding: Tensor | None
) -> LayerMask | None:
    """The mask of a layer that one row was added to, ``length`` rows in all; None where the rules still say it."""
    seen = seen_of(call, length)
    device = call.query.device
    row = seen.visible
    if row is None:
        row = _padded(torch.ones(1, 1, call.key.shape[2], dtype=torch.bool, device=device), length)
    before = None if mask is None else mask.seen
    visible: Tensor | None = None
    if before is not None or not _agrees(spec, row, (length - 1, length), padding):
        if before is None:
            numbers = torch.arange(length - 1, device=device)
            before = visible_keys(spec, numbers, numbers, None if padding is None else padding[:, :-1])[:, 0]
        visible = _grown(before, row)
    bias = None if mask is None else mask.bias
    if bias is not None or seen.bias is not None:
        empty = torch.zeros(1, 1, length - 1, length - 1, device=device)
        new = seen.bias if seen.bias is not None else torch.zeros(1, 1, 1, length, device=device)
        bias = _grown(empty if bias is None else bias, new)
        _check_size(bias, length)
    return None if visible is None and bias is None else LayerMask(visible, bias)


def _grown(square: Tensor, row: Tensor) -> Tensor:
    """A square [·, n, n] with a column of nothing, for rows that never saw it, and one more row [·, 1, n + 1]."""
    wide = torch.nn.functional.pad(square, (0, 1))
    shape = [max(sizes) for sizes in zip(wide.shape[:-2], row.shape[:-2], strict=True)]
    return torch.cat((wide.expand(*shape, *wide.shape[-2:]), row.expand(*shape, *row.shape[-2:])), -2)


# ----------------------------------------------------------------------------------------------------------------------
# The log-sum-exp


def log_sum_exp(
    spec: AttentionSpec, query: Tensor, key: Tensor, mask: LayerMask | None, padding: Tensor | None, past: int = 0
) -> Tensor:
    """[B, H, T] float32 of rows ``past`` …, the sink among them; +inf for a row that sees nothing.

    Parameters
    ----------
    key
        [B, Hkv, S, Dh].
    """
    sinks = None if spec.sinks is None else torch.tensor(spec.sinks, device=query.device)
    if mask is None:
        return fused_attention(query, key, key, spec, past=past, padding=padding, sinks=sinks).lse
    parts = []
    step = max(1, BLOCK_SCORES // max(1, query.shape[0] * query.shape[1] * key.shape[2]))
    keys = torch.arange(key.shape[2], device=query.device)
    for start in range(0, query.shape[2], step):
        block = query[:, :, start : start + step].float()
        rows = torch.arange(past + start, past + start + block.shape[2], device=query.device)
        scores = scaled_scores(block, key.float(), spec)
        if mask.bias is not None:
            scores += mask.bias[:, :, rows]
        seen = visible_keys(spec, rows, keys, padding) if mask.seen is None else mask.seen[:, None, rows]
        lse = scores.masked_fill_(~seen, -torch.inf).logsumexp(-1)
        if sinks is not None:
            lse = torch.logaddexp(lse, sinks[None, :, None]).masked_fill(lse == -torch.inf, -torch.inf)
        parts.append(lse.masked_fill(lse == -torch.inf, torch.inf))
    return torch.cat(parts, dim=-1)
