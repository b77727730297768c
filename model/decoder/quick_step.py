"""A decode step of the most common kind of block, with as few calls as it can be done in.

Between two matrices a step for one token is some twenty tiny operations, and reaching them costs more than doing them.
Where a model's blocks are of the plain kind (RMSNorm before each part, a gated MLP, rotation of whole heads or none)
and nobody watches or changes anything in them, this file computes what ``model.decoder`` computes, number for number,
on columns [D, 1] and without modules in between. Everything else goes through the modules. A test holds the two
together.

Letters as in ``model.decoder.attention``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ropewalk.model.decoder.attention import Call, fused_kernel
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import ACTIVATIONS, Block, Decoder, Mlp
from ropewalk.model.decoder.norms import Norm
from ropewalk.model.decoder.rope import plane_features


@dataclass(frozen=True, eq=False)
class _Weights:
    """What one block reads."""

    attn_norm: Tensor  # [D, 1]
    project: Tensor  # [(H + 2·Hkv)·Dh, D]
    bias: Tensor | None  # [(H + 2·Hkv)·Dh, 1]
    output: Tensor  # [D, H·Dh]
    mlp_norm: Tensor  # [D, 1]
    gate_and_up: Tensor  # [2F, D]
    down: Tensor  # [D, F]


Turn = tuple[Tensor, Tensor, Tensor]


class QuickStep:
    """One step of a model; :meth:`run_layer` does what a block does to [1, 1, D].

    Make one with :meth:`of`, which says whether it may be used at all.
    """

    def __init__(self, model: Decoder, call: Call, weights: list[_Weights]) -> None:
        c = model.config
        self.call, self.weights = call, weights
        self.heads, self.kv_heads, self.width = c.heads, c.kv_heads, c.head_width
        self.windows = [c.window_of(layer) for layer in range(c.layers)]
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
        """A step for ``x`` [B, T, D], None where it has to go through the modules."""
        one_row = x.shape[:2] == (1, 1) and x.dtype == torch.float32 and x.device.type == "cpu"
        if not one_row or call.padding is not None or call.branch != "fused" or not _is_plain(model.config):
            return None
        if model.is_watched:
            return None
        if model not in _PLANS:
            _PLANS[model] = _Plan(model)
        weights = _PLANS[model].weights()
        return None if weights is None else cls(model, call, weights)

    def run_layer(self, layer: int, x: Tensor) -> Tensor:
        """What block ``layer`` makes of the stream [1, 1, D]."""
        w, stream = self.weights[layer], x.view(-1, 1)
        stream = torch.addmm(stream, w.output, self._attended(layer, w, self._normed(stream, w.attn_norm)))
        gate, up = torch.mm(w.gate_and_up, self._normed(stream, w.mlp_norm)).chunk(2)
        return torch.addmm(stream, w.down, self.activate(gate) * up).view(x.shape)

    def _normed(self, x: Tensor, gain: Tensor) -> Tensor:
        """RMSNorm of a column."""
        return gain * (x * torch.rsqrt((x * x).mean(0, keepdim=True) + self.eps))

    def _attended(self, layer: int, w: _Weights, x: Tensor) -> Tensor:
        """The blended values of all heads [H·Dh, 1] for the normed column ``x``; appends to the cache."""
        joined = torch.mm(w.project, x) if w.bias is None else torch.addmm(w.bias, w.project, x)
        heads = joined.view(1, -1, 1, self.width)  # [1, H + 2·Hkv, 1, Dh]: q, k, v
        last = self.heads + self.kv_heads
        turning, v = heads[:, :last], heads[:, last:]
        turn = self.turns[layer]
        if turn is not None:
            cos, sin, partners = turn
            turning = torch.addcmul(turning * cos, turning.index_select(-1, partners), sin)
        q, k = turning[:, : self.heads], turning[:, self.heads :]
        assert self.call.cache is not None
        keys, values = self.call.cache.append(layer, k, v)
        window = self.windows[layer]
        if window is not None and window < keys.shape[2]:
            keys, values = keys[:, :, -window:], values[:, :, -window:]
        out, lse = fused_kernel(q, keys, values, scale=self.scale)
        self.call.cache.note(layer, q, lse)
        return out.reshape(-1, 1)


def _turn(config: ModelConfig, layer: int, rotation: tuple[Tensor, Tensor]) -> Turn:
    """cos and signed sin of every feature [Dh], and the feature each one is turned with."""
    rope = config.rope_of(layer)
    assert rope is not None
    cos, sin = (one.view(-1) for one in rotation)  # [F]
    first, second = torch.tensor(plane_features(2 * len(cos), rope.pairing)).T
    wide_cos, wide_sin = cos.new_empty(2 * len(cos)), sin.new_empty(2 * len(sin))
    partners = torch.empty_like(torch.cat((first, second)))
    wide_cos[first], wide_cos[second] = cos, cos
    wide_sin[first], wide_sin[second] = -sin, sin
    partners[first], partners[second] = second, first
    return wide_cos, wide_sin, partners


@cache
def _is_plain(config: ModelConfig) -> bool:
    """Whether every block is of the kind that this file computes."""
    c = config
    ropes = [rope for rope in (c.rope_of(layer) for layer in range(c.layers)) if rope is not None]
    norms = c.norm == "rms" and c.norm_place == "pre" and c.norm_gain and not c.norm_bias and c.norm_offset == 0.0
    attention = c.qk_norm == "none" and c.qkv_clip is None and c.score_cap is None and not c.sink
    mlp = c.mlp == "gated" and c.activation != "xielu" and c.mlp_limit is None and c.up_offset == 0.0 and c.moe is None
    plain = not (c.parallel_residual or c.output_bias or c.mlp_bias) and c.residual_scale == 1.0
    return norms and attention and mlp and plain and all(rope.width in (None, c.head_width) for rope in ropes)


class _Plan:
    """The weights of a model's blocks as they were last, and how to tell whether they still are.

    A weight is the same while the module holds the same parameter and that lies where it lay. Its numbers may change.
    """

    def __init__(self, model: Decoder) -> None:
        self._blocks = [weakref.ref(model.block(layer)) for layer in range(model.config.layers)]
        self._places: list[tuple[dict[str, nn.Parameter | None], str, nn.Parameter, int]] = []
        self._weights: list[_Weights] | None = None

    def weights(self) -> list[_Weights] | None:
        """Of every block, None where they do not lie as a quick step needs them."""
        same = [handle[name] is one and one.data_ptr() == place for handle, name, one, place in self._places]
        if not same or not all(same):
            self._look()
        return self._weights

    def _look(self) -> None:
        blocks = [block for block in (one() for one in self._blocks) if block is not None]
        self._places = [
            (module._parameters, name, parameter, parameter.data_ptr())
            for block in blocks
            for module in block.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None
        ]
        found = [_weights(block) for block in blocks]
        ready = [one for one in found if one is not None]
        self._weights = ready if len(ready) == len(found) else None


_PLANS: WeakKeyDictionary[Decoder, _Plan] = WeakKeyDictionary()


def _weights(block: Block) -> _Weights | None:
    """The weights of a block, None where those of one product do not lie side by side."""
    attn, mlp = block.attn, block.mlp
    assert isinstance(mlp, Mlp)
    assert isinstance(block.attn_norm, Norm)
    assert isinstance(block.mlp_norm, Norm)
    assert block.attn_norm.weight is not None
    assert block.mlp_norm.weight is not None
    project, gate_and_up = attn.project.one_product(), mlp.project.one_product()
    if project is None or gate_and_up is None:
        return None
    weight, bias = project
    return _Weights(
        attn_norm=block.attn_norm.weight.view(-1, 1),
        project=weight,
        bias=None if bias is None else bias.view(-1, 1),
        output=attn.output.weight,
        mlp_norm=block.mlp_norm.weight.view(-1, 1),
        gate_and_up=gate_and_up[0],
        down=mlp.down.weight,
    )
