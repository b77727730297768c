"""How far two ways of computing the same logits may differ by rounding alone; this file owns that bound alone."""

from __future__ import annotations

import math
from typing import Final

from torch import Tensor

UNIT: Final = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Unit roundoff u: the largest relative error of storing one number."""
ROUNDINGS: Final = 11
"""Numbers stored one after the other on the way through a layer: two norms, the projections, their rotation, what the
heads bring, the output projection, gate and up, their product, the down projection, and the stream after each of the
two sums."""
HEADROOM: Final = 2.0
"""Errors are neither quite independent nor Gaussian. The measured differences of cached and full logits are 0.2 to 1.1
of the bound without it (seven families of 2 to 32 layers), and 0.7 of it for SmolLM2-135M in bfloat16."""
FLOAT32: Final = 1e-4
"""In units of the largest logit, or of 1. Float32 rounds inside every sum, so that its error depends on the kernel."""


def logit_tolerance(logits: Tensor, dtype: str, layers: int) -> float:
    """How far cached logits may be from full ones, or one branch's from the other's.

    In half precision sums are taken in float32, and what is stored is rounded: R = 11 times in each of L layers, each
    time with a relative error of RMS u/√3 at most. Independent errors add as squares, and two computations differ by
    √2 of the error of one, so logits of spread s (their standard deviation over the vocabulary) differ by an RMS of

        s · u · √(2·R·L / 3)

    and the largest of V Gaussian differences is √(2·ln V) of that. Storing a logit x itself adds at most u·|x| twice.
    What a router's near tie does when it falls the other way is no rounding, and is not covered.

    Parameters
    ----------
    logits
        Either of the two [..., V].
    dtype
        What the model ran in.
    layers
        L.
    """
    wide = logits.double()
    largest = float(wide.abs().max())
    if dtype not in UNIT:
        return FLOAT32 * max(1.0, largest)
    spread = float(wide.std(dim=-1).mean())
    unit, vocabulary = UNIT[dtype], max(2, logits.shape[-1])
    walked = spread * unit * math.sqrt(2 * ROUNDINGS * layers / 3) * math.sqrt(2 * math.log(vocabulary))
    return HEADROOM * walked + 2 * unit * largest
