"""Rotary position embedding: frequencies, every stretching rule, the rotation and its inverse.

Plane i of a head holds two features and turns by m·θ_i at position m, so that (R_m q)·(R_n k) depends on m − n only (Su
et al. 2021, arXiv:2104.09864).

Letters: F = d_rot/2 planes; the features past d_rot pass through unturned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from ropewalk.model.decoder.config import Pairing, RopeConfig, Scaling
from ropewalk.model.decoder.spec import RotationSegment
from ropewalk.model.errors import ConfigError

TABLE_ROWS = 2048
"""Positions a table starts with; it doubles when a run needs more."""


def _plain(base: float, width: int) -> Tensor:
    """θ_i = base^(−2i/d_rot) [F], float32 as in the reference implementations."""
    return 1.0 / (base ** (torch.arange(0, width, 2, dtype=torch.float32, device="cpu") / width))


def _default(rope: RopeConfig, width: int, length: int) -> tuple[Tensor, float]:
    return _plain(rope.base, width), 1.0


def _linear(rope: RopeConfig, width: int, length: int) -> tuple[Tensor, float]:
    """All wavelengths stretched alike (position interpolation, Chen et al. 2023, arXiv:2306.15595)."""
    return _plain(rope.base, width) / rope.factor, 1.0


def _dynamic(rope: RopeConfig, width: int, length: int) -> tuple[Tensor, float]:
    """NTK-aware scaling whose base grows with the length once it passes the original one."""
    original = _original(rope)
    seen = max(length, original)
    growth = (rope.factor * seen / original) - (rope.factor - 1)
    return _plain(rope.base * growth ** (width / (width - 2)), width), 1.0


def _yarn(rope: RopeConfig, width: int, length: int) -> tuple[Tensor, float]:
    """Fast planes kept, slow planes interpolated, a ramp between (Peng et al. 2023, arXiv:2309.00071)."""
    fast, slow = _plain(rope.base, width), _plain(rope.base, width) / rope.factor

    def plane_with(turns: float) -> float:
        return width * math.log(_original(rope) / (turns * 2 * math.pi)) / (2 * math.log(rope.base))

    low, high = plane_with(rope.beta_fast), plane_with(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(width // 2, dtype=torch.float32, device="cpu") - low) / (high - low)).clamp(0, 1)
    return slow * ramp + fast * (1 - ramp), _yarn_attention_factor(rope)


def _yarn_attention_factor(rope: RopeConfig) -> float:
    """c, which cos and sin are multiplied by, so that a score gains c²."""
    if rope.attention_factor is not None:
        return rope.attention_factor

    def growth(weight: float) -> float:
        return 1.0 if rope.factor <= 1 else 0.1 * weight * math.log(rope.factor) + 1.0

    if rope.mscale and rope.mscale_all_dim:
        return growth(rope.mscale) / growth(rope.mscale_all_dim)
    return growth(1.0)


def _llama3(rope: RopeConfig, width: int, length: int) -> tuple[Tensor, float]:
    """Long wavelengths divided by the factor, short ones kept, a blend between (Llama 3.1 reference code)."""
    theta = _plain(rope.base, width)
    wavelength = 2 * math.pi / theta
    original = _original(rope)
    blend = (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    blended = (1 - blend) * theta / rope.factor + blend * theta
    result = torch.where(wavelength > original / rope.low_freq_factor, theta / rope.factor, blended)
    return torch.where(wavelength < original / rope.high_freq_factor, theta, result), 1.0


def _longrope(rope: RopeConfig, width: int, length: int) -> tuple[Tensor, float]:
    """A factor for each plane, from one of two lists by length (Ding et al. 2024, arXiv:2402.13753)."""
    original = _original(rope)
    chosen = rope.long_factor if length > original else rope.short_factor
    factors = torch.tensor(chosen, dtype=torch.float32, device="cpu")
    attention = rope.attention_factor
    if attention is None:
        attention = 1.0 if rope.factor <= 1 else math.sqrt(1 + math.log(rope.factor) / math.log(original))
    return _plain(rope.base, width) / factors, attention


def _original(rope: RopeConfig) -> int:
    if rope.original_max_position is None:
        raise ConfigError(f"The {rope.scaling} rule needs original_max_position, the length before stretching.")
    return rope.original_max_position


RULES: dict[Scaling, Callable[[RopeConfig, int, int], tuple[Tensor, float]]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
}


def frequencies(rope: RopeConfig, width: int, length: int = 0) -> tuple[Tensor, float]:
    """How fast each plane turns for a sequence of ``length`` tokens.

    Parameters
    ----------
    width
        d_rot, the features that turn.
    length
        Tokens seen so far; only ``dynamic`` and ``longrope`` look at it.

    Returns
    -------
    theta, factor
        θ_i [F] float32 in radians per position, and what cos and sin are multiplied by.
    """
    if rope.frequencies is not None:
        return torch.tensor(rope.frequencies, dtype=torch.float32, device="cpu"), 1.0
    return RULES[rope.scaling](rope, width, length)


@lru_cache(maxsize=64)
def _numbers(rope: RopeConfig, width: int, length: int) -> tuple[tuple[float, ...], float]:
    """θ_i as plain numbers, and the factor; every decode step asks for them."""
    theta, factor = frequencies(rope, width, length)
    return tuple(theta.tolist()), factor


def plane_features(width: int, pairing: Pairing) -> list[tuple[int, int]]:
    """Which two features of a head make plane i, for each of the F planes."""
    if pairing == "half":
        return [(i, i + width // 2) for i in range(width // 2)]
    return [(2 * i, 2 * i + 1) for i in range(width // 2)]


def rotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor:
    """Turn each plane of ``x`` by its angle.

    Parameters
    ----------
    x
        [B, heads, T, Dh].
    cos, sin
        [B, T, F], the attention factor included; 2F ≤ Dh.

    Returns
    -------
    Tensor
        [B, heads, T, Dh]; features from 2F on are unchanged.
    """
    width = 2 * cos.shape[-1]
    cos, sin = cos.unsqueeze(1).to(x.dtype), sin.unsqueeze(1).to(x.dtype)  # [B, 1, T, F]
    turning = x if width == x.shape[-1] else x[..., :width]
    if pairing == "half":
        first, second = turning.chunk(2, dim=-1)
        parts = [
            torch.addcmul(first * cos, second, sin, value=-1),
            torch.addcmul(second * cos, first, sin),
        ]
    else:
        first, second = turning[..., 0::2], turning[..., 1::2]
        parts = [torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)]
    if width < x.shape[-1]:
        parts.append(x[..., width:])
    return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]


def unrotate(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, factor: float) -> Tensor:
    """Undo :func:`rotate`: the transpose divided by factor², since RᵀR = factor² · I. Exact from float32 data only."""
    return rotate(x, cos / factor**2, -sin / factor**2, pairing)


class Rotary(nn.Module):
    """The cos and sin of one rotary rule, looked up by position.

    The tables are non-persistent buffers in float32 whatever the model's dtype. They are made again wherever the
    module lands (a move, a cast, memory left empty by a construction on the meta device).

    Parameters
    ----------
    rope
        The rule of the model; ``turns`` is the one in force, another one only inside :meth:`turning_by`.
    width
        d_rot.
    limit
        Positions the model may be asked for; the tables never grow past it.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, rope: RopeConfig, width: int, limit: int) -> None:
        super().__init__()
        self.rope = rope
        self.turns = rope
        self.width = width
        self.limit = limit
        rows = min(TABLE_ROWS, limit)
        # made on the CPU and moved: arithmetic on the meta device loads half of torch first
        cos, sin = self._angles(torch.arange(rows, device="cpu"), 0)
        self.register_buffer("cos", cos.to(torch.get_default_device()), persistent=False)
        self.register_buffer("sin", sin.to(torch.get_default_device()), persistent=False)

    def forward(self, positions: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Look up the rotation of each token.

        Parameters
        ----------
        positions
            [B, T] int64.
        length
            The largest position of the call plus one.

        Returns
        -------
        cos, sin
            [B, T, F] float32.
        """
        if self.turns.depends_on_length:
            return self._angles(positions, length)
        if length > self.cos.shape[0] or self.cos.device != positions.device:
            self._rebuild(positions.device, max(length, self.cos.shape[0]))
        return self.cos[positions], self.sin[positions]

    def place(self, device: torch.device) -> None:
        """Make the tables on a device, whatever they held."""
        self._rebuild(device, self.cos.shape[0])

    def segment(self, start: int, stop: int, length: int) -> RotationSegment:
        """Describe what rows ``start`` to ``stop`` were turned by in a call that reached ``length``."""
        theta, factor = _numbers(self.turns, self.width, length if self.turns.depends_on_length else 0)
        return RotationSegment(start, stop, theta, factor)

    @contextmanager
    def turning_by(self, rope: RopeConfig, limit: int) -> Iterator[None]:
        """Use another rule, up to another limit, for a while."""
        kept = self.turns, self.limit, self.cos, self.sin
        self.turns, self.limit = rope, limit
        self._rebuild(self.cos.device, min(TABLE_ROWS, self.limit))
        try:
            yield
        finally:
            self.turns, self.limit, self.cos, self.sin = kept

    def _angles(self, positions: Tensor, length: int) -> tuple[Tensor, Tensor]:
        theta, factor = frequencies(self.turns, self.width, length)
        angles = positions[..., None].float() * theta.to(positions.device)  # [..., F]
        return angles.cos() * factor, angles.sin() * factor

    def _rebuild(self, device: torch.device, rows: int) -> None:
        rows = min(max(rows, 2 * self.cos.shape[0] if rows > self.cos.shape[0] else rows), self.limit)
        self.cos, self.sin = self._angles(torch.arange(rows, device=device), 0)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if not self.cos.is_meta:
            self._rebuild(self.cos.device, self.cos.shape[0])
        return self


def other_rules(
    rope: RopeConfig, width: int, limit: int, whose: str = "this model"
) -> tuple[tuple[str, Tensor, float], ...]:
    """A rule and what other stretching rules would make of the same base, (name, θ [F], factor) each.

    Parameters
    ----------
    limit
        The positions it is for. A rule that needs an original length takes this one's, or a quarter of the limit.
    whose
        What to call the rule itself.
    """
    original = rope.original_max_position or max(limit // 4, 1)
    factor = rope.factor if rope.factor > 1 else max(limit / original, 2.0)
    plain = RopeConfig(width=rope.width, base=rope.base, pairing=rope.pairing)

    def stretched(scaling: Scaling) -> RopeConfig:
        return replace(plain, scaling=scaling, factor=factor, original_max_position=original)

    rules = {
        f"{whose} ({rope.scaling})": rope,
        "none": plain,
        f"linear × {factor:g}": stretched("linear"),
        f"NTK × {factor:g}": stretched("dynamic"),
        f"YaRN × {factor:g}": stretched("yarn"),
        f"llama3 × {factor:g}": stretched("llama3"),
    }
    if width == 2:  # NTK leaves the fastest plane as it is and changes the others: of one plane there are none
        del rules[f"NTK × {factor:g}"]
    return tuple((name, *frequencies(rule, width, limit)) for name, rule in rules.items())
