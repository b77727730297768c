"""Gradients through a run: how a number of the logits changes with whatever passed at hook points."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import Watch, intervening, watching
from ropewalk.model.decoder.intervention_contexts import changed_block, turned
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.errors import HookError
from ropewalk.model.notebooks.metrics import Measure
from ropewalk.model.notebooks.points import points_of
from ropewalk.model.notebooks.prompts import Batch


def gradients_of(
    model: Decoder, batch: Batch, measure: Measure, at: Sequence[str], interventions: Sequence[Intervention] = ()
) -> dict[str, Tensor]:
    """The gradient of a metric with respect to what passed each point, name → a tensor of its shape.

    The prompts run on the explicit branch, so that patterns and scores have gradients too; the model's own are left
    alone.

    Parameters
    ----------
    at
        Hook points, or short names of one in every layer.

    Raises
    ------
    HookError
        For a point that there is not, or that nothing after it uses.
    """
    if not isinstance(at, Sequence) or not at:
        raise HookError("No hook point was named; name some, such as ['z', 'blocks.0.hook_resid_pre'].")
    names = [name for one in at for name in points_of(model, one)]
    seen: dict[str, Tensor] = {}

    def keeper(name: str) -> Watch:
        return lambda x: seen.update({name: x})

    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(watching(model, {name: keeper(name) for name in names}))
        stack.enter_context(intervening(model, {"hook_embed": lambda x: x.detach().requires_grad_()}))
        with turned(model, interventions):
            x, call = model.begin(batch.inputs, positions=batch.positions, padding=batch.padding, branch="explicit")
        for layer in range(model.config.layers):
            block = model.block(layer)
            with changed_block(block, layer, interventions):
                x = block(x, call)
        value = measure(model.finish(x))
        used = {name: seen[name] for name in names if name in seen and seen[name].requires_grad}
        found = torch.autograd.grad(value, list(used.values()), allow_unused=True) if value.requires_grad else ()
    gradients = {name: one for name, one in zip(used, found, strict=False) if one is not None}
    for name in names:
        if name not in gradients:
            raise HookError(
                f"The metric has no gradient at {name!r}: nothing that it reads comes after what passes there."
            )
    return gradients
