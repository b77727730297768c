"""What numbers of fewer bits hold, and what softmax makes of them."""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.runs import Runs, place_of, vector_of
from ropewalk.model.lessons.values import ModelName, Vector
from ropewalk.model.readings import readout

KINDS = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def _kind(dtype: str) -> torch.dtype:
    if dtype not in KINDS:
        raise LessonError(f"There is no dtype {dtype!r} here; there are {', '.join(KINDS)}.")
    return KINDS[dtype]


def rounded(number: float, dtype: str) -> float:
    """The nearest number that a dtype can hold; ∞ beyond its largest."""
    return float(torch.tensor(number, dtype=torch.float64).to(_kind(dtype)))


def spacing(number: float, dtype: str) -> float:
    """How far apart two neighbouring numbers of a dtype are, at the size of a number from 1 on."""
    if number < 1:
        raise LessonError(f"spacing is told from 1 on, but {number:g} was asked for.")
    return float(torch.finfo(_kind(dtype)).eps * 2.0 ** int(torch.tensor(number).log2().floor()))


def exponential(number: float, dtype: str = "float64") -> float:
    """The exponential of a number, as a dtype holds it; ∞ beyond its largest."""
    return rounded(float(torch.tensor(number, dtype=torch.float64).exp()), dtype)


def ones_added(count: int, dtype: str) -> float:
    """The sum of so many ones, added one after the other in a dtype."""
    total, one = torch.zeros((), dtype=_kind(dtype)), torch.ones((), dtype=_kind(dtype))
    for _ in range(min(count, 1 << 14)):
        total = total + one
    return float(total)


def softmax(values: Vector, dtype: str = "float64", shifted: bool = True) -> Vector:
    """Softmax with every number on its way in a dtype, the largest subtracted first unless ``shifted`` is false."""
    kept = torch.tensor(values, dtype=torch.float64).to(_kind(dtype))
    return vector_of(_softmax(kept, shifted).double())


def row_sum(runs: Runs, model: ModelName, layer: int, head: int, query: int, dtype: str, prompt: str = "") -> float:
    """What the weights of a row add up to when softmax works in a dtype."""
    return float(_row(runs, model, layer, head, query, dtype, prompt).sum())


def softmax_gap(runs: Runs, model: ModelName, layer: int, head: int, query: int, dtype: str, prompt: str = "") -> float:
    """By how much a weight of a row is off, at most, when softmax works in a dtype."""
    exact = _row(runs, model, layer, head, query, "float64", prompt)
    return float((_row(runs, model, layer, head, query, dtype, prompt) - exact).abs().max())


def _row(runs: Runs, model: ModelName, layer: int, head: int, query: int, dtype: str, prompt: str) -> Tensor:
    """The weights of a row's visible keys, in float64 after a softmax in the dtype."""
    trace = runs.trace(model, prompt)
    place = place_of(query, trace.length)
    scores = torch.tensor(readout.read_row(trace[layer], head, place).scores[: place + 1])
    return _softmax(scores.double().to(_kind(dtype)), shifted=True).double()


def _softmax(scores: Tensor, shifted: bool) -> Tensor:
    """Softmax step by step: torch's own works in float32 inside, whatever it is given."""
    powers = (scores - scores.max() if shifted else scores).exp()
    total = torch.zeros((), dtype=scores.dtype)
    for power in powers:
        total = total + power
    return powers / total
