"""What the heads of a layer add to the residual stream, for a batch that has just run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.norms import Norm

PIECE = 1 << 19
"""Numbers of all heads' blends that are read at once, more or less: few enough to stay near the processor."""


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

    def change(self, texts: slice, rows: slice) -> Tensor:
        """[B, n, D] what the block adds in all."""
        return self.after[texts, rows].float() - self.before[texts, rows].float()

    def read(self) -> None:
        """Read them now, with all threads."""
        _ = self._read

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
        """Norms and shares without the vectors themselves, which are H times as large as the stream.

        r = s · A z, A a head's part of W_O and of what comes after it, s the scale of a norm there: its length is that
        of R z where A = Q R, and r · Δ is s · z · AᵀΔ.
        """
        batch, heads, length, width = self.blended.shape
        block = self.decoder.block(self.number)
        norm, output = block.attn_post_norm, block.attn.output
        written = output.weight.float().view(-1, heads, width).permute(1, 2, 0)  # Aᵀ [H, Dh, D]
        if isinstance(norm, Norm):
            written = norm.linear(written)
        written = written * self.decoder.config.residual_scale
        small = torch.linalg.qr(written.transpose(1, 2).double(), mode="r").R.transpose(1, 2).float()  # Rᵀ [H, Dh, ·]
        across = written.flatten(0, 1).T  # [D, H · Dh]
        norms = torch.empty(batch, heads, length, device=self.blended.device)
        shares = torch.empty_like(norms)
        for texts, rows in self._pieces():
            z, change = self.blended[texts, :, rows], self.change(texts, rows)
            along = (z * (change @ across).view(*change.shape[:2], heads, width).transpose(1, 2)).sum(-1)  # [B, H, n]
            norms[texts, :, rows] = torch.linalg.vector_norm(z.float() @ small, dim=-1)
            shares[texts, :, rows] = along / change.square().sum(-1)[:, None].clamp_min(1e-30)
            if isinstance(norm, Norm):
                scale = norm.scale_of(output(z.transpose(1, 2).flatten(-2))).transpose(1, 2)  # [B, 1, n]
                norms[texts, :, rows] *= scale
                shares[texts, :, rows] *= scale
        return norms, shares

    def _pieces(self) -> Iterator[tuple[slice, slice]]:
        """Texts and rows that are read together."""
        batch, heads, length, width = self.blended.shape
        most = max(PIECE // (heads * width), 1)  # rows
        rows, texts = min(most, length), max(most // length, 1)
        for first in range(0, batch, texts):
            for start in range(0, length, rows):
                yield slice(first, first + texts), slice(start, start + rows)
