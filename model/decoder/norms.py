"""Normalisation: RMSNorm and LayerNorm over the last axis, and the QK-norm over heads.

RMSNorm scales only (Zhang and Sennrich 2019, arXiv:1910.07467); LayerNorm centres and scales (Ba et al. 2016,
arXiv:1607.06450). Statistics are taken in float32 whatever the model's dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ropewalk.model.decoder.config import ModelConfig, NormKind


class Norm(nn.Module):
    """One norm over the last axis, or over the last axes that ``shape`` names.

    Parameters
    ----------
    shape
        Shape of the gain γ (and β): ``(D,)``, or ``(H, 1, Dh)`` for a gain of each head apart.
    kind
        ``rms`` or ``layer``.
    eps
        ε inside the square root.
    offset
        Added to the stored gain (Gemma stores γ − 1).
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        kind: NormKind,
        eps: float,
        *,
        offset: float = 0.0,
        bias: bool = False,
        gain: bool = True,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.eps = eps
        self.offset = offset
        self.weight = nn.Parameter(torch.full(shape, 1.0 - offset)) if gain else None
        self.bias = nn.Parameter(torch.zeros(shape)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Normalise [..., width] and return the same shape and dtype."""
        plain = self.kind == "rms" and self.offset == 0.0 and self.bias is None and x.dtype == torch.float32
        if plain and self.weight is not None and not torch.is_grad_enabled():  # two passes over x instead of four
            length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
            scale = length.square_().div_(x.shape[-1]).add_(self.eps).rsqrt_()
            return torch.mul(x, scale).mul_(self.weight)
        wide = self._centred(x)
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        if self.kind == "rms" and self.offset == 0.0 and self.weight is not None and self.bias is None:
            # the reference rounds to the model's dtype before the gain; the order matters in half precision
            return self.weight * normed.to(x.dtype)
        if self.weight is not None:
            normed = normed * (self.weight.float() + self.offset)
        if self.bias is not None:
            normed = normed + self.bias.float()
        return normed.to(x.dtype)

    def part_of(self, x: Tensor, part: Tensor) -> Tensor:
        """What one summand ``part`` of ``x`` contributes to the normed result, the statistics of ``x`` held fixed.

        Parameters
        ----------
        x, part
            [..., width]; the contributions of all summands of x add up to ``forward(x)`` less the bias.
        """
        return self.linear(part) * self.scale_of(x)

    def scale_of(self, x: Tensor) -> Tensor:
        """[..., 1] what the statistics of ``x`` multiply by."""
        return torch.rsqrt(self._centred(x).square().mean(-1, keepdim=True) + self.eps)

    def linear(self, part: Tensor) -> Tensor:
        """The rest of what is done to a summand, [..., width]: it is centred, and multiplied by the gain."""
        share = self._centred(part)
        return share if self.weight is None else share * (self.weight.float() + self.offset)

    def _centred(self, x: Tensor) -> Tensor:
        wide = x.float()
        return wide - wide.mean(-1, keepdim=True) if self.kind == "layer" else wide


def stream_norm(config: ModelConfig) -> Norm:
    """The norm of a [..., D] stream, as the config asks for it."""
    c = config
    return Norm((c.width,), c.norm, c.norm_eps, offset=c.norm_offset, bias=c.norm_bias, gain=c.norm_gain)


class QkNorm(nn.Module):
    """The norm of queries or keys, [B, heads, T, Dh].

    ``head`` normalises each head over Dh with one gain for all; ``heads`` has a gain for each head; ``full``
    normalises the projected vector of all heads together.
    """

    def __init__(self, config: ModelConfig, heads: int) -> None:
        super().__init__()
        c = config
        self.over_all = c.qk_norm == "full"
        shapes = {"head": (c.head_width,), "heads": (heads, 1, c.head_width), "full": (heads * c.head_width,)}
        self.norm = Norm(shapes[c.qk_norm], c.qk_norm_kind, c.norm_eps, offset=c.norm_offset, bias=c.qk_norm_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise [B, heads, T, Dh]."""
        if not self.over_all:
            normed: Tensor = self.norm(x)
            return normed
        joined = x.transpose(1, 2)  # [B, T, heads, Dh]
        normed = self.norm(joined.flatten(-2)).view(joined.shape)
        return normed.transpose(1, 2)
