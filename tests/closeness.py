"""How close two results of the same arithmetic must be, whatever processor did it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

FLOAT32 = float(np.finfo(np.float32).eps)
"""From 1 to the next float32: 2⁻²³. One rounding is off by half of it at most."""


def assert_close(found: Tensor | ArrayLike, expected: Tensor | ArrayLike, terms: int, size: float = 0.0) -> None:
    """Hold two results of the same float32 sums to what an order of summing can change.

    Processors add the terms of a sum in different orders, some in one rounding with the product before; so does one
    processor for another memory layout. Whatever the order, a sum of n terms is off by at most n · 2⁻²⁴ · Σ|terms|, and
    two of them are apart by at most n · 2⁻²³ · Σ|terms|. Here Σ|terms| is taken to be the largest number of the two
    results, or ``size`` where that is larger: norms and softmax keep a model's numbers near 1, and rounding errors
    have either sign, so that they grow by √n rather than by n. What is missing or of another sign is off by far more.

    Numbers that are not finite must be the same ones in the same places.

    Parameters
    ----------
    terms
        How many numbers are added on the longest way from what both were given to what both found.
    size
        The size of what is added, where the results are much smaller than that.
    """
    one, other = _array(found), _array(expected)
    assert one.shape == other.shape, f"shapes {one.shape} and {other.shape}"
    finite = np.isfinite(other)
    np.testing.assert_array_equal(one[~finite], other[~finite])
    largest = max((float(np.abs(x[finite]).max(initial=0.0)) for x in (one, other)), default=0.0)
    bar = terms * FLOAT32 * max(largest, size)
    np.testing.assert_allclose(one[finite], other[finite], rtol=0, atol=bar)


def _array(values: Tensor | ArrayLike) -> NDArray[np.float64]:
    handle = values.detach().double().numpy() if isinstance(values, Tensor) else values
    return np.asarray(handle, dtype=np.float64)


def terms_of(*, width: int, layers: int = 1) -> int:
    """Terms from a prompt to the logits of a decoder: seven products a block and the head, of about ``width`` each."""
    return width * (7 * layers + 1)


def assert_identical(found: Tensor, saved: Tensor) -> None:
    """Hold a tensor that was saved to every bit of what was saved; a NaN is the same NaN."""
    assert (found.dtype, found.shape) == (saved.dtype, saved.shape)
    ours, theirs = (x.detach().contiguous().view(torch.uint8) for x in (found, saved))
    assert torch.equal(ours, theirs)
