"""Rotation: frequencies of a config, vectors turned by hand, and what positions and pairings change in a run."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from ropewalk.model.decoder import rope
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.bounds import MOST
from ropewalk.model.lessons.runs import Runs, device_of, vector_of
from ropewalk.model.lessons.values import ModelName, Vector
from ropewalk.model.readings import readout
from ropewalk.model.runs.trace import Trace
from ropewalk.model.runs.trace import capture as run

SMALL_VOCABULARY = 16

# ----------------------------------------------------------------------------------------------------------------------
# Of a config


def frequencies(config: ModelConfig, length: int = 0) -> Vector:
    """θ of every plane, in radians a position."""
    rule = config.rope_of(0)
    if rule is None:
        raise LessonError("This config does not rotate, so it has no frequencies.")
    return vector_of(rope.frequencies(rule, config.rotary_width(0), length)[0])


def wavelengths(config: ModelConfig, length: int = 0) -> Vector:
    """Positions that every plane needs for a full turn."""
    return tuple(2 * math.pi / theta for theta in frequencies(config, length))


def turning_planes(config: ModelConfig, length: int) -> int:
    """Planes that finish a turn within so many positions."""
    return sum(wavelength <= length for wavelength in wavelengths(config))


def table_gap(config: ModelConfig) -> float:
    """How far rotation tables made on the meta device are from true ones once memory is there."""
    with torch.device("meta"):
        empty = Decoder(_narrow(config))
    empty.to_empty(device="cpu")
    made = [module for module in empty.rotaries if isinstance(module, rope.Rotary)]
    true = [rope.Rotary(module.rope, module.width, module.limit) for module in made]
    gaps = [(a.cos - b.cos).abs().max() + (a.sin - b.sin).abs().max() for a, b in zip(made, true, strict=True)]
    return float(max(gaps))


def stored_tables(config: ModelConfig) -> int:
    """How many rotation tables a checkpoint of this config would store."""
    return sum("rotaries" in name for name in Decoder(_narrow(config)).state_dict())


def _narrow(config: ModelConfig) -> ModelConfig:
    """The same rotary rule in a model that costs nothing to build."""
    if config.heads * config.head_width > MOST:
        raise LessonError(f"A table of rotations is made of at most {MOST:,} features of all heads.")
    return config.changed(
        layers=1, vocabulary=SMALL_VOCABULARY, width=8, mlp_width=8, moe=None, window_layers=None, rope_layers=None
    )


# ----------------------------------------------------------------------------------------------------------------------
# Of vectors


def turned(vector: Vector, position: float, frequencies: Vector, pairing: str = "half") -> Vector:
    """A head vector turned to a position."""
    return tuple(_turned(vector, position, frequencies, pairing).tolist())


def turned_product(q: Vector, k: Vector, m: int, n: int, frequencies: Vector, pairing: str = "half") -> float:
    """q turned to position m times k turned to position n."""
    return float(_turned(q, m, frequencies, pairing) @ _turned(k, n, frequencies, pairing))


def _turned(x: Vector, position: float, theta: Vector, pairing: str) -> Tensor:
    """A vector turned in float64, [Dh]."""
    if 2 * len(theta) > len(x) or pairing not in ("half", "adjacent"):
        raise LessonError(
            f"A vector of {len(x)} features cannot be turned in {len(theta)} planes, {pairing!r} pairing."
        )
    angles = position * torch.tensor(theta, dtype=torch.float64)[None, None]  # [1, 1, F]
    head = torch.tensor(x, dtype=torch.float64)[None, None, None]
    return rope.rotate(head, angles.cos(), angles.sin(), "half" if pairing == "half" else "adjacent")[0, 0, 0]


# ----------------------------------------------------------------------------------------------------------------------
# Of a run


def shift_gap(runs: Runs, model: ModelName, offset: int, prompt: str = "") -> float:
    """The largest change of any score when every position grows by an offset."""
    ids = runs.input_ids(model, prompt)
    positions = torch.arange(ids.shape[1], device=ids.device)[None] + offset
    moved = run(runs.decoder(model), ids, positions=positions, logits="none")
    return _score_gap(runs.trace(model, prompt), moved)


def _score_gap(first: Trace, second: Trace) -> float:
    """The largest difference of any visible score."""
    worst = 0.0
    for layer in range(first.config.layers):
        for head in range(first.config.heads):
            a, b = (torch.tensor(readout.scores(trace[layer], head)) for trace in (first, second))
            seen = torch.isfinite(a)
            worst = max(worst, float((a[seen] - b[seen]).abs().max()))
    return worst


def pairing_gap(runs: Runs, model: ModelName, prompt: str = "") -> float:
    """How far logits move when the model's rotation is read in the other pairing."""
    decoder = runs.decoder(model)
    rule = decoder.config.rope
    if rule is None:
        raise LessonError(f"{model.name!r} does not rotate, so it has no pairing.")
    other = replace(rule, pairing="adjacent" if rule.pairing == "half" else "half")
    misread = Decoder(decoder.config.changed(rope=other))
    misread.load_state_dict(decoder.state_dict())
    misread.to(device_of(decoder)).eval()
    ids = runs.input_ids(model, prompt)
    with torch.no_grad():
        return float((misread(ids) - decoder(ids)).abs().max())
