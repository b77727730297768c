"""A decode step of the most common kind of block, with as few calls as it can be done in.

Between two matrices a step for one token is some twenty tiny operations, and reaching them costs more than doing them:
the weights that pass through the caches in between have driven their code out. Where a model's blocks are of the plain
kind (RMSNorm before each part, a gated MLP, rotation of whole heads or none) and nobody watches or changes anything in
them, this file computes what ``model.decoder`` computes, in numpy on vectors that are used again, and without modules
in between. Everything else goes through the modules. A test holds the two together.

Letters as in ``model.decoder.attention``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from ropewalk.model.decoder.activations import ACTIVATIONS
from ropewalk.model.decoder.attention import Attention, Call, fused_kernel
from ropewalk.model.decoder.cache import Array
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Block, Decoder, DenseMlp
from ropewalk.model.decoder.hooks import HookPoint
from ropewalk.model.decoder.norms import Norm
from ropewalk.model.decoder.products import Linear, Product, product_for

FEW_PRODUCTS = 1 << 18
"""Products of one kv head's queries and keys that one thread has done before others are awake."""
PARTS = {Block, Attention, DenseMlp, Linear, Norm, nn.Identity, HookPoint}
"""What a plain block consists of; any other module in it may do anything."""


@dataclass(frozen=True, eq=False)
class _Layer:
    """What one block reads, and its products: each writes what it makes of one of the vectors to another."""

    attn_norm: Array  # [D]
    project: Callable[[], object]  # normed → q, k and v
    bias: Array | None  # [(H + 2·Hkv)·Dh]
    output: Callable[[], object]  # blended → added
    mlp_norm: Array  # [D]
    gate_and_up: Callable[[], object]  # normed → gate and up
    down: Callable[[], object]  # hidden → added


Turn = tuple[Array, Array, tuple[slice, ...]]


class QuickStep:
    """One step of a model; :meth:`run_layer` does what a block does to [1, 1, D].

    Make one with :meth:`of`, which says whether it may be used at all.
    """

    def __init__(self, model: Decoder, call: Call, plan: _Plan) -> None:
        c = model.config
        self.call, self.plan = call, plan
        self.heads, self.kv_heads, self.width = c.heads, c.kv_heads, c.head_width
        self.windows = [c.window_of(layer) for layer in range(c.layers)]
        self.few_keys = FEW_PRODUCTS // (c.heads // c.kv_heads * c.head_width)
        self.scale, self.eps = c.scale, c.norm_eps
        self.activate: Callable[[Tensor], Tensor] = ACTIVATIONS[c.activation]
        self.turns: list[Turn | None] = []
        made: dict[int, Turn] = {}
        for layer, rotation in enumerate(call.rotations):
            if rotation is not None and id(rotation) not in made:
                made[id(rotation)] = _turn(c, layer, rotation)
            self.turns.append(None if rotation is None else made[id(rotation)])

    @classmethod
    def of(cls, model: Decoder, x: Tensor, call: Call) -> QuickStep | None:
        """A step for ``x`` [B, T, D] with the products in use, None where it has to go through the modules."""
        one_row = x.shape[:2] == (1, 1) and x.dtype == torch.float32 and x.device.type == "cpu"
        if not one_row or call.padding is not None or call.branch != "fused" or not _is_plain(model.config):
            return None
        kept = None if call.cache is None else call.cache.keys[0]
        of_model = (model.config.kv_heads, model.config.head_width)
        if kept is None or kept.tensor.dtype != x.dtype or kept.tensor.shape[1::2] != of_model:
            return None
        product, plans = product_for(x), _PLANS.of.setdefault(model, {})
        if product not in plans:
            plans[product] = _Plan(model, product)
        return cls(model, call, plans[product]) if plans[product].is_ready(model) else None

    @np.errstate(all="ignore")  # what overflows is infinite, as it is in torch
    def run_layer(self, layer: int, x: Tensor) -> Tensor:
        """What block ``layer`` makes of the stream [1, 1, D]."""
        at, v = self.plan.layers[layer], self.plan.vectors
        stream: Array = x.numpy().reshape(-1).copy()
        self._norm(stream, at.attn_norm)
        at.project()
        if at.bias is not None:
            v.joined += at.bias
        self._attend(layer)
        at.output()
        stream += v.added
        self._norm(stream, at.mlp_norm)
        at.gate_and_up()
        np.multiply(self.activate(v.gate).numpy(), v.up, out=v.hidden)
        at.down()
        stream += v.added
        return torch.from_numpy(stream).view(x.shape)

    def _norm(self, x: Array, gain: Array) -> None:
        """RMSNorm of ``x``."""
        normed = self.plan.vectors.normed
        np.multiply(x, np.float32(np.float64(float(x.dot(x)) / len(x) + self.eps) ** -0.5), out=normed)
        np.multiply(normed, gain, out=normed)

    def _attend(self, layer: int) -> None:
        """Blend the values of all heads; appends to the cache."""
        assert self.call.cache is not None
        turned, v = self._turned(self.turns[layer]), self.plan.vectors  # [H + Hkv, Dh]
        q = turned[: self.heads]
        keys, values = self.call.cache.append_row(layer, turned[self.heads :], v.value)
        window = self.windows[layer]
        if window is not None and window < keys.shape[1]:
            keys, values = keys[:, -window:], values[:, -window:]
        if keys.shape[1] <= self.few_keys:
            lse = self._blend(q, keys, values)
        else:
            tensors = torch.from_numpy(q)[None, :, None], torch.from_numpy(keys)[None], torch.from_numpy(values)[None]
            out, found = fused_kernel(*tensors, scale=self.scale)
            np.copyto(v.blended, out.view(-1).numpy())
            lse = found.view(-1).numpy()
        self.call.cache.note_row(layer, q, lse)

    def _turned(self, turn: Turn | None) -> Array:
        """Q and K of all heads [H + Hkv, Dh], rotated."""
        joined = self.plan.vectors.turning
        if turn is None:
            return joined.copy()
        cos, sin, partners = turn
        planes = joined.reshape(-1, *sin.shape)
        turned: Array = planes * cos
        turned += planes[partners] * sin
        return turned.reshape(joined.shape)

    def _blend(self, query: Array, keys: Array, values: Array) -> Array:
        """Write the blended values; log-sum-exp [H] of q [H, Dh] against K [Hkv, S, Dh]."""
        grouped: Array = (query * np.float32(self.scale)).reshape(self.kv_heads, -1, self.width)  # [Hkv, G, Dh]
        scores: Array = grouped @ keys.transpose(0, 2, 1)  # [Hkv, G, S]
        most = scores.max(-1, keepdims=True)
        weights = np.exp(np.subtract(scores, most, out=scores), out=scores)
        total = weights.sum(-1, keepdims=True)
        np.divide(weights @ values, total, out=self.plan.vectors.grouped)
        lse: Array = (most + np.log(total)).reshape(-1)
        return lse


def _turn(config: ModelConfig, layer: int, rotation: tuple[Tensor, Tensor]) -> Turn:
    """cos and signed sin of every feature, laid out as features are paired, and how to look up each one's partner.

    The layout is [2, F], or [F, 2] where partners are adjacent; a plane turns (a, b) to (a·cos − b·sin, b·cos + a·sin).
    """
    rope = config.rope_of(layer)
    assert rope is not None
    cos, sin = (one.view(-1).numpy() for one in rotation)  # [F]
    axis, partners = (0, np.s_[:, ::-1]) if rope.pairing == "half" else (1, np.s_[:, :, ::-1])
    return np.stack((cos, cos), axis), np.stack((-sin, sin), axis), partners


@cache
def _is_plain(config: ModelConfig) -> bool:
    """Whether every block is of the kind that this file computes."""
    c = config
    ropes = [rope for rope in (c.rope_of(layer) for layer in range(c.layers)) if rope is not None]
    norms = c.norm == "rms" and c.norm_place == "pre" and c.norm_gain and not c.norm_bias and c.norm_offset == 0.0
    attention = c.qk_norm == "none" and c.qkv_clip is None and c.score_cap is None and not c.sink
    mlp = c.has_plain_gate and c.moe is None
    plain = not (c.parallel_residual or c.output_bias or c.mlp_bias) and c.residual_scale == 1.0
    return norms and attention and mlp and plain and all(rope.width in (None, c.head_width) for rope in ropes)


class _Vectors:
    """What is between two products of a step; every layer and every step writes to the same."""

    def __init__(self, config: ModelConfig) -> None:
        c = config
        turning = (c.heads + c.kv_heads) * c.head_width
        self.normed = np.empty(c.width, np.float32)
        self.joined = np.empty(turning + c.kv_heads * c.head_width, np.float32)
        self.turning = self.joined[:turning].reshape(-1, c.head_width)  # [H + Hkv, Dh]
        self.value = self.joined[turning:].reshape(c.kv_heads, c.head_width)
        self.blended = np.empty(c.heads * c.head_width, np.float32)
        self.grouped = self.blended.reshape(c.kv_heads, -1, c.head_width)  # [Hkv, G, Dh]
        self.bent = np.empty((2, c.mlp_width), np.float32)
        self.gate, self.up = torch.from_numpy(self.bent[0]), self.bent[1]
        self.hidden = np.empty(c.mlp_width, np.float32)
        self.added = np.empty(c.width, np.float32)


class _Plan:
    """The products of a model's blocks as they were last, and how to tell whether they still are.

    A weight is the same while the module holds the same parameter and that lies where it lay. Its numbers may change.
    """

    @torch.inference_mode(False)  # what is made there cannot be written to anywhere else
    def __init__(self, model: Decoder, product: Product) -> None:
        self.product, self.vectors, self.layers = product, _Vectors(model.config), list[_Layer]()
        self._look(model)

    def is_ready(self, model: Decoder) -> bool:
        """Whether the blocks are plain and unwatched, and their weights lie as a quick step needs them."""
        same = all(list(held.values()) == parts for held, parts in self._parts) and all(
            held.get(name) is one and (one is None or (one.data_ptr(), one.stride()) == place)
            for held, name, one, place in self._places
        )
        if not same:
            self._look(model)
        return bool(self.layers) and not any(self._hooks)

    @torch.inference_mode(False)
    def _look(self, model: Decoder) -> None:
        modules = list(model.blocks.modules())
        self._parts = [(one._modules, list(one._modules.values())) for one in modules if one._modules]
        self._places = [
            (module._parameters, name, one, None if one is None else (one.data_ptr(), one.stride()))
            for module in modules
            for name, one in module._parameters.items()
        ]
        self._hooks = [hooks for one in modules for hooks in (one._forward_hooks, one._forward_pre_hooks)]
        layers = [self._layer(block) for block in model.blocks]
        ready = [one for one in layers if one is not None]
        self.layers = ready if len(ready) == len(layers) else []

    def _layer(self, block: nn.Module) -> _Layer | None:
        """A block's products, None where it is of another kind or the weights of one do not lie side by side."""
        if not {type(one) for one in block.modules()} <= PARTS:
            return None
        assert isinstance(block, Block)
        attn, mlp, v = block.attn, block.mlp, self.vectors
        assert isinstance(mlp, DenseMlp)
        project, gate_and_up = attn.project.one_product(), mlp.project.one_product()
        if project is None or gate_and_up is None:
            return None
        if any(bias is not None for bias in (gate_and_up[1], attn.output.bias, mlp.down.bias)):
            return None
        weight, bias = project
        return _Layer(
            attn_norm=_gain(block.attn_norm),
            project=self.product.into(weight, v.normed, v.joined),
            bias=None if bias is None else bias.detach().numpy(),
            output=self.product.into(attn.output.weight, v.blended, v.added),
            mlp_norm=_gain(block.mlp_norm),
            gate_and_up=self.product.into(gate_and_up[0], v.normed, v.bent.reshape(-1)),
            down=self.product.into(mlp.down.weight, v.hidden, v.added),
        )


def _gain(norm: nn.Module) -> Array:
    """γ of a norm [D]."""
    assert isinstance(norm, Norm)
    assert norm.weight is not None
    gain: Array = norm.weight.detach().numpy()
    return gain


class _Plans(threading.local):
    """The plans of one thread: no two write to the same vectors."""

    def __init__(self) -> None:
        self.of: WeakKeyDictionary[Decoder, dict[Product, _Plan]] = WeakKeyDictionary()


_PLANS = _Plans()
