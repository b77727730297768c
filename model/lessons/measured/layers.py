"""Parts of a decoder: norms and activations on given numbers, matrices, and what depth does to gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ropewalk.model.decoder.activations import ACTIVATIONS
from ropewalk.model.decoder.attention import Call
from ropewalk.model.decoder.decoder import Block, next_token_loss
from ropewalk.model.decoder.norms import Norm
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.runs import Runs, vector_of
from ropewalk.model.lessons.values import ModelName, Vector


def rms(vector: Vector) -> float:
    """The root mean square."""
    return float(torch.tensor(vector, dtype=torch.float64).square().mean().sqrt())


def rms_norm(vector: Vector, eps: float = 0.0) -> Vector:
    """RMSNorm with a gain of ones."""
    with torch.no_grad():
        return vector_of(Norm((len(vector),), "rms", eps)(torch.tensor(vector)))


def layer_norm(vector: Vector, eps: float = 0.0) -> Vector:
    """LayerNorm with a gain of ones and no shift."""
    with torch.no_grad():
        return vector_of(Norm((len(vector),), "layer", eps)(torch.tensor(vector)))


def activated(name: str, number: float) -> float:
    """An activation (silu, gelu, relu) of a number."""
    if name not in ("silu", "gelu", "relu"):
        raise LessonError(f"There is no activation {name!r} here; there are silu, gelu and relu.")
    return float({str(key): act for key, act in ACTIVATIONS.items()}[name](torch.tensor(number)))


def weight_variance(runs: Runs, model: ModelName, name: str, layer: int = 0) -> float:
    """The variance of the numbers of a matrix: query, key, value or output."""
    if name not in ("query", "key", "value", "output"):
        raise LessonError(f"There is no matrix {name!r}; there are query, key, value and output.")
    weight = runs.decoder(model).block(layer).attn.get_submodule(name).weight
    assert isinstance(weight, Tensor)
    return float(weight.detach().var())


def tied(runs: Runs, model: ModelName) -> bool:
    """Whether lm_head's weight is the embedding's own object."""
    decoder = runs.decoder(model)
    return decoder.head.weight is decoder.embed.weight


def first_gradient(runs: Runs, model: ModelName, place: str) -> float:
    """The gradient of the first block's W_V over the last one's, norms before (pre) or after each sum (post).

    The model is as it is at the start of training. Its own parts are stacked in one of two orders: x + f(norm(x)), as
    the engine does, or norm(x + f(x)), as the first transformers did.
    """
    if place not in ("pre", "post"):
        raise LessonError(f"A norm stands before a sub-layer (pre) or after the sum (post), not {place!r}.")
    decoder, ids = runs.decoder(model), runs.input_ids(model)
    x, call = decoder.begin(ids, branch="explicit")
    blocks = [decoder.block(layer) for layer in range(decoder.config.layers)]
    with torch.enable_grad():
        for block in blocks:
            for norm, part in ((block.attn_norm, _attending(block, call)), (block.mlp_norm, block.mlp)):
                x = x + part(norm(x)) if place == "pre" else norm(x + part(x))
        loss = next_token_loss(decoder.finish(x), ids)
        ends = [blocks[0].attn.value.weight, blocks[-1].attn.value.weight]
        first, last = torch.autograd.grad(loss, ends)
    return float(first.norm() / last.norm())


def _attending(block: Block, call: Call) -> Callable[[Tensor], Tensor]:
    """A block's attention as a function of the stream alone."""

    def attend(x: Tensor) -> Tensor:
        out: Tensor = block.attn(x, call)
        return out

    return attend
