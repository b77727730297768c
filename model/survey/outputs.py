"""What the heads of a layer add to the residual stream, for a batch that has just run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.readings.attribution import head_parts

PIECE = 1 << 19
"""Numbers of all heads' vectors that are held at once, more or less: few enough to stay near the processor."""


@dataclass(frozen=True, eq=False)
class HeadOutputs:
    """What passed a block of the decoder, and what its heads added.

    Attributes
    ----------
    number
        Which block it was.
    blended
        z [B, H, S, Dh], the heads' blends of values.
    before, after
        [B, S, D] the residual stream before the block and after it.
    """

    decoder: Decoder
    number: int
    blended: Tensor
    before: Tensor
    after: Tensor

    def parts(self, texts: slice, rows: slice) -> Tensor:
        """[B, n, H, D] what each head adds: its part of W_O, a norm after that held fixed."""
        result = self.decoder.block(self.number).attn.per_head(self.blended[texts, :, rows])
        return head_parts(self.decoder, self.number, result).float()

    def change(self, texts: slice, rows: slice) -> Tensor:
        """[B, n, D] what the block adds in all."""
        return self.after[texts, rows].float() - self.before[texts, rows].float()

    @property
    def norms(self) -> Tensor:
        """[B, H, S] the norm of what each head adds."""
        return self._read[0]

    @property
    def shares(self) -> Tensor:
        """[B, H, S] r · Δ / |Δ|², r what a head adds and Δ what the block adds."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Tensor, Tensor]:
        batch, heads, length, _ = self.blended.shape
        norms = torch.empty(batch, heads, length, device=self.blended.device)
        shares = torch.empty_like(norms)
        for texts, rows in self._pieces():
            parts, change = self.parts(texts, rows), self.change(texts, rows)
            norms[texts, :, rows] = torch.linalg.vector_norm(parts, dim=-1).transpose(1, 2)
            along = (parts * change[:, :, None]).sum(-1) / change.square().sum(-1, keepdim=True).clamp_min(1e-30)
            shares[texts, :, rows] = along.transpose(1, 2)
        return norms, shares

    def _pieces(self) -> Iterator[tuple[slice, slice]]:
        """Texts and rows that are read together."""
        batch, heads, length, _ = self.blended.shape
        most = max(PIECE // (heads * self.before.shape[-1]), 1)  # rows
        rows, texts = min(most, length), max(most // length, 1)
        for first in range(0, batch, texts):
            for start in range(0, length, rows):
                yield slice(first, first + texts), slice(start, start + rows)
