"""What passes a model's hook points in a run: queries, keys and values, the residual stream, norms and experts."""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import MoeMlp
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.runs import Runs, matrix_of, place_of, vector_of
from ropewalk.model.lessons.values import Matrix, ModelName, Vector


def point(runs: Runs, model: ModelName, name: str, row: int, layer: int = 0, prompt: str = "") -> Vector | Matrix:
    """What passes a hook point (q, k, v, rot_q, rot_k, z, resid_pre, mlp_out, …) in a row; a line for each head."""
    met = runs.point(model, name, layer, prompt)
    at = met[..., place_of(row, met.shape[-2]), :]
    return matrix_of(at) if at.ndim == 2 else vector_of(at)


def points(runs: Runs, model: ModelName, name: str, layer: int = 0, prompt: str = "") -> Matrix:
    """What passes a hook point in every row, its heads joined."""
    met = runs.point(model, name, layer, prompt)
    return matrix_of(met if met.ndim == 2 else met.transpose(0, 1).flatten(1))


def point_gap(runs: Runs, model: ModelName, name: str, row: int, other: str, layer: int = 0, prompt: str = "") -> float:
    """How much a hook point's row differs between the prompt and another one."""
    here, there = runs.point(model, name, layer, prompt), runs.point(model, name, layer, other)
    return float((here[..., row, :] - there[..., row, :]).abs().max())


def norm_output(runs: Runs, model: ModelName, name: str, layer: int = 0, prompt: str = "") -> Matrix:
    """What a block's norm (attn_norm, mlp_norm) makes of every row of the stream."""
    before = {"attn_norm": "resid_pre", "mlp_norm": "resid_mid"}.get(name)
    if before is None:
        raise LessonError(f"There is no norm {name!r} in a block; there are attn_norm and mlp_norm.")
    norm = runs.decoder(model).block(layer).get_submodule(name)
    with torch.no_grad():
        return matrix_of(norm(runs.point(model, before, layer, prompt)))


def stream_sizes(runs: Runs, model: ModelName, row: int = -1, prompt: str = "") -> Vector:
    """The root mean square of the stream after the embedding and after each block."""
    layers = range(runs.config_of(model).layers)
    stream = [runs.point(model, "resid_pre", 0, prompt)]
    stream += [runs.point(model, "resid_post", layer, prompt) for layer in layers]
    return tuple(float(x[place_of(row, x.shape[0])].double().square().mean().sqrt()) for x in stream)


def experts(runs: Runs, model: ModelName, row: int, layer: int = 0, prompt: str = "") -> Vector:
    """The experts that a row's token was sent to."""
    chosen = _experts(runs, model, layer, prompt)
    return vector_of(chosen[place_of(row, chosen.shape[0])])


def expert_load(runs: Runs, model: ModelName, layer: int = 0, prompt: str = "") -> Vector:
    """How many tokens each expert was sent."""
    moe = runs.config_of(model).moe
    chosen = _experts(runs, model, layer, prompt).flatten()
    return vector_of(chosen.bincount(minlength=0 if moe is None else moe.experts))


def _experts(runs: Runs, model: ModelName, layer: int, prompt: str) -> Tensor:
    """[T, k] experts of each token."""
    if not isinstance(runs.decoder(model).block(layer).mlp, MoeMlp):
        raise LessonError(f"Layer {layer} of {model.name!r} has one MLP, no experts.")
    return runs.captured(model, f"blocks.{layer}.mlp.hook_expert_index", prompt)
