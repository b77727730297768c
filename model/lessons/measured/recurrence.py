"""What a memory of fixed size keeps of many things, beside attention, which keeps them all."""

from __future__ import annotations

import torch

from ropewalk.model.errors import LessonError

WAYS = ("attention", "recurrence")


def recalled(width: int, pairs: int, way: str, seed: int = 0) -> float:
    """The share of random pairs of key and value, each of so many numbers, that come back when a key is asked for.

    Attention keeps every pair, and weighs values by softmax of the scaled scores; the recurrence keeps the sum of all
    v kᵀ, one matrix. A value has come back when it is nearer to what was read than any other value.
    """
    if way not in WAYS:
        raise LessonError(f"Something is recalled by {' or '.join(WAYS)}, not by {way!r}.")
    if not 1 <= pairs <= 4096 or not 1 <= width <= 512:
        raise LessonError("recalled takes 1 to 4,096 pairs of 1 to 512 numbers.")
    generator = torch.Generator().manual_seed(seed)
    keys, values = (torch.randn(pairs, width, generator=generator) for _ in range(2))
    keys = keys / keys.norm(dim=1, keepdim=True)
    if way == "attention":
        read = (width * keys @ keys.T).softmax(-1) @ values
    else:
        read = keys @ (keys.T @ values)
    nearest = torch.cdist(read, values).argmin(1)
    return float((nearest == torch.arange(pairs)).double().mean())
