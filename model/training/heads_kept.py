"""What every head does at a checkpoint of a training run: its statistics, and its map of a text that repeats itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.readings.patterns import STATISTICS, head_scores, repeated_ids
from ropewalk.model.readings.records import Doubles, TrainingHistory
from ropewalk.model.runs.trace import capture
from ropewalk.model.training.grading import SEED, SEQUENCES

PERIOD = 24
"""Random tokens, said twice, whose statistics are kept; fewer where the context is short."""
MAP_PERIOD = 16
"""Random tokens, said twice, whose maps are kept."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What the heads do after ``step`` steps.

    Attributes
    ----------
    scores
        Name → [L, H], means over sequences.
    maps
        [L, H, T, T] float16, weights.
    """

    step: int
    scores: dict[str, Doubles]
    maps: NDArray[np.float16]


@torch.no_grad()
def look_at_heads(model: Decoder, step: int) -> Kept:
    """Read the heads of a model as it is now."""
    c = model.config
    period = min(PERIOD, c.max_position // 2)
    ids = torch.tensor([repeated_ids(period, c.vocabulary, SEED + place) for place in range(SEQUENCES)])
    trace = capture(model, ids, logits="none")
    found = [head_scores(trace, batch=place)[0] for place in range(SEQUENCES)]
    pictured = capture(model, torch.tensor([map_ids(model)]), logits="none")
    maps = torch.stack([layer.weights() for layer in pictured])
    return Kept(
        step,
        {name: np.mean([scores[name] for scores in found], axis=0) for name in STATISTICS},
        maps.half().numpy(),
    )


def map_ids(model: Decoder) -> list[int]:
    """The tokens whose maps are kept."""
    return repeated_ids(min(MAP_PERIOD, model.config.max_position // 2), model.config.vocabulary, SEED)


def history_of(kept: Sequence[Kept], **others: Any) -> TrainingHistory:
    """The kept looks side by side, with the ``others`` of a history."""
    return TrainingHistory(
        steps=np.array([one.step for one in kept], dtype=np.int64),
        scores={name: np.stack([one.scores[name] for one in kept]) for name in STATISTICS},
        formulas={one.name: f"{one.title}: {one.formula}" for one in STATISTICS.values()},
        maps=np.stack([one.maps for one in kept]),
        sequences=SEQUENCES,
        **others,
    )


# In the state of an unfinished run ------------------------------------------------------------------------------------


def kept_tensors(kept: Sequence[Kept]) -> dict[str, Tensor]:
    """What is kept, as tensors of a file."""
    found = dict[str, Tensor]()
    for one in kept:
        found |= {f"kept.{one.step}.{name}": torch.from_numpy(scores) for name, scores in one.scores.items()}
        found[f"kept.{one.step}.maps"] = torch.from_numpy(one.maps)
    return found


def kept_from(tensors: Mapping[str, Tensor]) -> list[Kept]:
    """The same from the tensors of a file."""
    steps: dict[int, dict[str, Any]] = {}
    for key, tensor in tensors.items():
        if key.startswith("kept."):
            _, step, name = key.split(".")
            steps.setdefault(int(step), {})[name] = tensor.numpy()
    return [Kept(step, named, named.pop("maps")) for step, named in sorted(steps.items())]
