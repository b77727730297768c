"""Watching one layer in one call, through the hook points and PyTorch's own forward hooks on the modules between them.

It notes what was there: shapes by the ledger's row keys, and the tensors that checks need. What they should have been
is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from ropewalk.model.decoder.attention import Attention, last_points
from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.decoder.config import Branch
from ropewalk.model.decoder.decoder import Block, Decoder, Mlp
from ropewalk.model.decoder.hooks import capture, hook_points
from ropewalk.model.decoder.intervention_contexts import changed_block, changed_rule, turned
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.ledger.ledger import Seen
from ropewalk.model.ledger.weight_shapes import block_of, experts_of, linears_of, norms_of, seen


@dataclass(frozen=True, eq=False)
class Observation:
    """One layer in one call.

    Attributes
    ----------
    points
        Row key → what the operation gave; the embedding, the last norm and the logits are among them.
    tensors
        Short hook name (``hook_q``, ``hook_resid_mid``, ``mlp.hook_expert_index``) → tensor.
    keys, values
        [B, Hkv, S, Dh], what the cache holds after the call.
    past
        P, rows that the cache held before it.
    factor
        What cos and sin were multiplied by; 1 where the layer does not rotate.
    rule, interventions
        What attention was told to do, and what was changed.
    """

    model: Decoder
    block: Block
    points: dict[str, Seen]
    tensors: dict[str, Tensor]
    keys: Tensor
    values: Tensor
    past: int
    factor: float
    padding: Tensor | None
    rule: AttentionSpec
    interventions: tuple[Intervention, ...]

    @property
    def attn(self) -> Attention:
        """The layer's attention."""
        return self.block.attn

    @property
    def last_query(self) -> str:
        """Where Q' passed last."""
        return last_points(self.model.config, self.attn.layer)[0]

    @property
    def last_key(self) -> str:
        """Where K' passed last."""
        return last_points(self.model.config, self.attn.layer)[1]


def watch_call(
    model: Decoder,
    layer: int,
    inputs: Tensor,
    *,
    cache: KvCache | None = None,
    positions: Tensor | None = None,
    padding: Tensor | None = None,
    branch: Branch = "fused",
    rotary_length: int = 0,
    interventions: Sequence[Intervention] = (),
) -> Observation:
    """Run one call and watch one layer of it.

    Parameters
    ----------
    inputs, cache, positions, padding, branch, rotary_length
        As in ``Decoder.begin``; an empty cache is made when none is given. The cache grows by this call.
    interventions
        What is changed in the model meanwhile.

    Raises
    ------
    TraceError
        When the model has no such layer.
    """
    block = block_of(model, layer)
    cache = KvCache(model.config.layers) if cache is None else cache
    past = cache.length
    points: dict[str, Seen] = {}
    with torch.no_grad(), _noting(points, _places(model, block)):
        with turned(model, interventions):
            x, call = model.begin(
                inputs, cache=cache, positions=positions, padding=padding, branch=branch, rotary_length=rotary_length
            )
            segments = model.segments(layer, past, call.length, call.length)
        record: dict[str, Tensor] = {}
        for number in range(model.config.layers):
            each = model.block(number)
            with changed_block(each, number, interventions), ExitStack() as watched:
                if number == layer:  # after the changes, so that what was used is what is seen
                    record = watched.enter_context(capture(block, _names(block)))
                x = each(x, call)
        model.finish(x)
    keys, values = (rows[layer].tensor for rows in cache.filled())
    return Observation(
        model=model,
        block=block,
        points=points | {"cache_k": seen(keys), "cache_v": seen(values)},
        tensors={name.removeprefix("attn."): x for name, x in record.items()},
        keys=keys,
        values=values,
        past=past,
        factor=segments[0].factor if segments else 1.0,
        padding=padding,
        rule=changed_rule(block.attn.rule, interventions),
        interventions=tuple(interventions),
    )


def _names(block: Block) -> list[str]:
    """The hook points whose values the checks need: all but what each head writes, which is large."""
    return [name for name in hook_points(block) if not name.endswith("hook_result")]


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a row of the ledger is met: what a module gives, or what it is given.

    Attributes
    ----------
    adds
        Whether the rows [n, width] of several modules, experts, are added up.
    """

    key: str
    module: nn.Module
    is_input: bool = False
    adds: bool = False


def _places(model: Decoder, block: Block) -> Iterator[_Place]:
    attn, mlp, config = block.attn, block.mlp, model.config
    outputs: dict[str, nn.Module] = {
        "positions" if config.position in ("learned", "sinusoidal") else "embedding": model.hook_embed,
        "q": attn.query,
        "k": attn.key,
        "v": attn.value,
        "split_q": attn.hook_q,
        "split_k": attn.hook_k,
        "split_v": attn.hook_v,
        "scores": attn.hook_attn_scores,
        "softmax": attn.hook_pattern,
        "blend": attn.hook_z,
        "o": attn.output,
        "residual_post": block.hook_resid_post,
        "lm_head": model.head,
        **norms_of(model, block),
    }
    inputs: dict[str, nn.Module] = {"concatenate": attn.output}
    if not config.parallel_residual:
        outputs["residual_mid"] = block.hook_resid_mid
    if config.qk_norm != "none":
        outputs |= {"q_norm": attn.hook_q_normed, "k_norm": attn.hook_k_normed}
    if config.rope_of(attn.layer) is not None:
        outputs |= {"rope_q": attn.hook_rot_q, "rope_k": attn.hook_rot_k}
    if isinstance(mlp, Mlp):
        outputs |= linears_of(mlp)
        inputs["activation"] = mlp.down
    else:
        outputs |= {"router": mlp.hook_router_logits, "combine": mlp}
        for expert in experts_of(mlp):
            yield from (_Place(key, linear, adds=True) for key, linear in linears_of(expert).items())
            yield _Place("activation", expert.down, is_input=True, adds=True)
        if mlp.shared is not None:
            outputs |= {f"shared_{key}": linear for key, linear in linears_of(mlp.shared).items()}
            inputs["shared_activation"] = mlp.shared.down
        if mlp.shared_gate is not None:
            outputs["shared_scale"] = mlp.shared_gate
    yield from (_Place(key, module) for key, module in outputs.items())
    yield from (_Place(key, module, is_input=True) for key, module in inputs.items())


@contextmanager
def _noting(points: dict[str, Seen], places: Iterable[_Place]) -> Iterator[None]:
    """Note what is met at every place, by forward hooks that are gone afterwards."""
    with ExitStack() as stack:
        for place in places:
            stack.callback(place.module.register_forward_hook(partial(_note, points, place)).remove)
        yield


def _note(
    points: dict[str, Seen], place: _Place, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
) -> None:
    found = seen(inputs[0] if place.is_input else output)
    if place.adds and place.key in points:
        found = replace(found, shape=(points[place.key].shape[0] + found.shape[0], *found.shape[1:]))
    points[place.key] = found
