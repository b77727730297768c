"""One attention layer of random weights on random input: what the scale is for, and why it depends on the weights.

The first experiment of a lesson on attention, outside any model: draw an input, draw W_Q and W_K in the two usual
ways, and attend with the scale and without it. Letters as in ``model.decoder.attention``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from ropewalk.model.decoder.attention import explicit_attention
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.errors import InterventionError
from ropewalk.model.readings.records import Init, RandomLayer

INITS: Final[tuple[Init, ...]] = ("normal", "library")
MOST: Final = 1 << 22
"""Weights [B, H, T, T] and numbers of the input that are drawn at most."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What was drawn: the input x [B, T, D], W_Q and W_K [D, D]."""

    x: Tensor
    query: Tensor
    key: Tensor


def random_layers(
    batch: int = 2, tokens: int = 16, width: int = 128, heads: int = 4, seed: int = 0
) -> tuple[RandomLayer, ...]:
    """Attend with random weights, drawn in both ways, with the scale and without it: four readings.

    Raises
    ------
    InterventionError
        When D cannot be split into H heads, or the layer would be large.
    """
    _check(batch, tokens, width, heads)
    return tuple(
        _attended(drawn(init, batch, tokens, width, seed), init, heads, scaled=scaled)
        for init in INITS
        for scaled in (True, False)
    )


def drawn(init: Init, batch: int, tokens: int, width: int, seed: int) -> Drawn:
    """The input from N(0, 1), and two square maps: from N(0, 1/D), or as ``torch.nn.Linear`` draws its own."""
    with torch.random.fork_rng(devices=[]):  # torch's layers draw from the global generator
        torch.manual_seed(seed)
        x = torch.randn(batch, tokens, width)
        maps = []
        for _ in range(2):
            linear = nn.Linear(width, width, bias=False)
            if init == "normal":
                nn.init.normal_(linear.weight, std=1 / math.sqrt(width))
            maps.append(linear.weight.detach())
    return Drawn(x, maps[0], maps[1])


def _check(batch: int, tokens: int, width: int, heads: int) -> None:
    if min(batch, tokens, width, heads) < 1:
        raise InterventionError(
            f"B {batch}, T {tokens}, D {width} and H {heads} were chosen, but each must be 1 or more."
        )
    if width % heads:
        raise InterventionError(f"D = {width} features cannot be split into {heads} heads of one width; change D or H.")
    largest = max(batch * heads * tokens * tokens, batch * tokens * width, width * width)
    if largest > MOST:
        raise InterventionError(f"This layer would hold {largest:,} numbers at once; up to {MOST:,} are drawn here.")


def _attended(made: Drawn, init: Init, heads: int, *, scaled: bool) -> RandomLayer:
    batch, tokens, width = made.x.shape
    head_width = width // heads

    def split(weight: Tensor) -> Tensor:  # [B, T, D] → [B, H, T, Dh]
        return (made.x @ weight.T).view(batch, tokens, heads, head_width).transpose(1, 2)

    query, key = split(made.query), split(made.key)
    rule = AttentionSpec(0, heads, heads, head_width, 1 / math.sqrt(head_width) if scaled else 1.0)
    attended = explicit_attention(query, key, key, rule)
    assert attended.scores is not None
    assert attended.weights is not None
    weights, visible = attended.weights.double(), attended.scores.isfinite()
    entropy = torch.special.entr(weights).sum(-1)  # [B, H, T]
    picture = weights[0, 0].float().numpy()
    picture.setflags(write=False)
    return RandomLayer(
        init=init,
        scaled=scaled,
        spread=float(attended.scores[visible].double().std()),
        entropy=float(entropy.mean()),
        even=sum(math.log(row + 1) for row in range(tokens)) / tokens,
        largest=float(weights.amax(-1).mean()),
        features=float(query.double().std()),
        weights=picture,
    )
