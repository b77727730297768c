"""Interventions done: the context managers that put them into a model for a moment and take them out again.

Two moments matter: when a call begins (rotations are looked up) and while a block runs. Nothing stays changed after a
``with`` block, whatever happens inside. ``model.decoder.interventions`` says what the interventions are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from ropewalk.model.decoder.attention import Attention, last_points
from ropewalk.model.decoder.decoder import Block, Decoder
from ropewalk.model.decoder.hooks import Change, intervening
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    AblatePlane,
    Intervention,
    NoCausalMask,
    NoScale,
    ReadKvHead,
    ScaleScores,
    SetPattern,
)
from ropewalk.model.decoder.rope import plane_features
from ropewalk.model.decoder.rope_scaling import as_run, turned_rule
from ropewalk.model.decoder.spec import AttentionSpec, WrittenPattern


@contextmanager
def turned(model: Decoder, interventions: Sequence[Intervention]) -> Iterator[None]:
    """Rotate by other rules while a call begins, or while segments are described."""
    with ExitStack() as stack:
        limit = as_run(model.config, interventions).max_position
        if limit != model.context_limit:
            stack.enter_context(model.with_context_limit(limit))
        for rotary in model.rotary_rules:
            rope = turned_rule(model.config, rotary.rope, interventions)
            if rope is not None and (rope, limit) != (rotary.rope, rotary.limit):
                stack.enter_context(rotary.turning_by(rope, limit))
        yield


@contextmanager
def changed_block(block: Block, layer: int, interventions: Sequence[Intervention]) -> Iterator[None]:
    """Apply what concerns one layer while its block runs."""
    mine = [one for one in interventions if getattr(one, "layer", None) in (None, layer)]
    if not mine:
        yield
        return
    kept = block.attn.rule
    block.attn.rule = changed_rule(kept, mine)
    try:
        with ExitStack() as stack:
            for point, change in _changes(block.attn, mine):
                stack.enter_context(intervening(block, {point: change}))
            yield
    finally:
        block.attn.rule = kept


def changed_rule(rule: AttentionSpec, interventions: Sequence[Intervention]) -> AttentionSpec:
    """What a layer's attention is told to do under interventions; those of other layers are passed over."""
    mine = [one for one in interventions if getattr(one, "layer", None) in (None, rule.layer)]
    result = replace(rule, interventions=tuple(one.label for one in mine))
    for intervention in mine:
        if isinstance(intervention, NoScale):
            result = replace(result, scale=result.scale / rule.scale)
        elif isinstance(intervention, ScaleScores):
            result = replace(result, scale=result.scale * intervention.factor)
        elif isinstance(intervention, NoCausalMask):
            result = replace(result, causal=False)
        elif isinstance(intervention, ReadKvHead):
            heads = [result.kv_head_of(head) for head in range(result.heads)]
            heads[intervention.head] = intervention.kv_head
            result = replace(result, kv_map=tuple(heads))
        elif isinstance(intervention, SetPattern):
            result = replace(result, written=(*result.written, WrittenPattern(intervention.head, intervention.pattern)))
    return result


def _changes(attn: Attention, interventions: Sequence[Intervention]) -> Iterator[tuple[str, Change]]:
    for intervention in interventions:
        if isinstance(intervention, AblateHeads):
            yield "attn.hook_z", _heads_replaced(intervention)
        elif isinstance(intervention, AblatePlane):
            yield "attn." + last_points(attn.config, attn.layer)[0], _plane_replaced(intervention, attn.rule)
        elif isinstance(intervention, AblateMlp):
            yield "hook_mlp_out", _mlp_replaced(intervention)


def _heads_replaced(intervention: AblateHeads) -> Change:
    def change(z: Tensor) -> Tensor:  # [B, H, T, Dh]
        z = z.clone()
        for place, head in enumerate(intervention.heads):
            z[:, head] = z.new_tensor(intervention.means[place]) if intervention.means else 0.0
        return z

    return change


def _plane_replaced(intervention: AblatePlane, rule: AttentionSpec) -> Change:
    features = plane_features(rule.rotary_width, rule.pairing)[intervention.plane]

    def change(q: Tensor) -> Tensor:  # [B, H, T, Dh]
        q = q.clone()
        q[:, intervention.head, :, list(features)] = q.new_tensor(intervention.mean or (0.0, 0.0))
        return q

    return change


def _mlp_replaced(intervention: AblateMlp) -> Change:
    def change(out: Tensor) -> Tensor:  # [B, T, D]
        return out.new_tensor(intervention.mean).expand(out.shape) if intervention.mean else torch.zeros_like(out)

    return change


def mean_heads(
    model: Decoder, ids: Tensor, layer: int, heads: Sequence[int], interventions: Sequence[Intervention] = ()
) -> AblateHeads:
    """The ablation that replaces heads by their mean output over the rows of a prompt [B, T].

    Of ``interventions`` here and below only those that turn otherwise count: where they stretch RoPE, there would be no
    positions for the prompt without them.
    """
    z = _recorded(model, ids, f"blocks.{layer}.attn.hook_z", interventions).mean(dim=(0, 2))  # [H, Dh]
    return AblateHeads(layer, tuple(heads), tuple(tuple(z[head].tolist()) for head in heads))


def mean_plane(
    model: Decoder, ids: Tensor, layer: int, head: int, plane: int, interventions: Sequence[Intervention] = ()
) -> AblatePlane:
    """The ablation that replaces a plane of a head's q' by its mean over the rows of a prompt [B, T]."""
    attn = model.block(layer).attn
    features = plane_features(attn.rule.rotary_width, attn.rule.pairing)[plane]
    point = f"blocks.{layer}.attn.{last_points(model.config, layer)[0]}"
    q = _recorded(model, ids, point, interventions)  # [B, H, T, Dh]
    return AblatePlane(layer, head, plane, tuple(q[:, head, :, list(features)].mean(dim=(0, 1)).tolist()))


def mean_mlp(model: Decoder, ids: Tensor, layer: int, interventions: Sequence[Intervention] = ()) -> AblateMlp:
    """The ablation that replaces an MLP by its mean output over the rows of a prompt [B, T]."""
    out = _recorded(model, ids, f"blocks.{layer}.hook_mlp_out", interventions).mean(dim=(0, 1))  # [D]
    return AblateMlp(layer, tuple(out.tolist()))


def _recorded(model: Decoder, ids: Tensor, name: str, interventions: Sequence[Intervention]) -> Tensor:
    with torch.no_grad(), recording(model, (name,)) as record, turned(model, interventions):
        model(ids)
    return record[name].float()
