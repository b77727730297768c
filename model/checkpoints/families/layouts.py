"""How stored tensors are cut into the decoder's parameters: the rules of a weight map, as data.

A rule is the name of a parameter (the tensor is that parameter), :class:`Fused` (one stored tensor holds several),
:class:`Piece` (one stored tensor is a row of a parameter), or None (left out on purpose). ``{l}`` stands for a layer
and ``{e}`` for an expert or a head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ropewalk.model.decoder.config import ModelConfig

Shape = tuple[int, ...]
Order = Literal["rows", "groups", "interleaved", "codegen"]

CODEGEN_BLOCKS = 4
"""CodeGen's q, v and k (in this order) lie in four blocks, one for each device it was trained on."""


@dataclass(frozen=True)
class Fused:
    """One stored tensor that holds several parameters.

    Attributes
    ----------
    targets
        The parameters, in the order in which they lie; with ``{e}`` they are those of each expert in turn.
    order
        ``rows``: one after the other. ``groups``: for every kv head the rows of its query heads, then its key, then
        its value (GPT-NeoX, Falcon). ``interleaved``: row by row in turn (gpt-oss). ``codegen``: in blocks.
    stacked
        Whether the first axis is the expert.
    transposed
        Whether matrices are stored [in, out] instead of [out, in].
    """

    targets: tuple[str, ...]
    order: Order = "rows"
    stacked: bool = False
    transposed: bool = False

    def joined(self, shapes: Sequence[Shape]) -> Shape:
        """The stored shape that parameters of ``shapes`` make together."""
        parts = shapes[: len(self.targets)]
        one: Shape = (sum(shape[0] for shape in parts), *parts[0][1:])
        if self.transposed:
            one = one[::-1]
        return (len(shapes) // len(parts), *one) if self.stacked else one

    def position(self, index: int, shapes: Sequence[Shape]) -> tuple[int | None, int | None]:
        """The expert of parameter ``index``, and the stored row where its rows begin; None where they lie mixed."""
        count = len(self.targets)
        expert = index // count if self.stacked else None
        if self.transposed or self.order != "rows":
            return expert, None
        return expert, sum(shape[0] for shape in shapes[index - index % count : index])

    def part(self, stored: Tensor, index: int, shapes: Sequence[Shape], config: ModelConfig) -> Tensor:
        """Parameter ``index``, cut from the stored tensor; from the matrix of its expert, where they are stacked."""
        count = len(self.targets)
        index, shapes = index % count, shapes[:count]
        if self.transposed:
            stored = stored.t()
        if self.order == "interleaved":
            return stored[index::count]
        if self.order == "groups":
            return _from_groups(stored, index, config)
        if self.order == "codegen":
            blocks = stored.reshape(CODEGEN_BLOCKS, count, -1, *stored.shape[1:])
            return blocks[:, index].flatten(0, 1)
        start = sum(shape[0] for shape in shapes[:index])
        return stored[start : start + shapes[index][0]]


def _from_groups(stored: Tensor, index: int, config: ModelConfig) -> Tensor:
    """The query, key or value rows of [Hkv · (H/Hkv + 2) · Dh, …]."""
    heads = stored.reshape(config.kv_heads, config.group + 2, config.head_width, *stored.shape[1:])
    chosen = (slice(0, config.group), slice(-2, -1), slice(-1, None))[index]
    return heads[:, chosen].flatten(0, 2)


@dataclass(frozen=True)
class Piece:
    """One stored tensor that is row ``{e}`` of a parameter."""

    target: str


Rule = str | Fused | Piece | None
WeightMap = Mapping[str, Rule]
