"""A plugin of pytest, ``-p tests.other_sums``: products of matrices add their terms in another order.

Which order a processor takes depends on its vector registers, its threads, the number of rows and how these lie in
memory. Here the terms of every product of several rows, or of rows that do not lie one after the other, are added last
to first; a product of one row stays as it is. Every sum is as right as before, but no two ways to the same number have
the same rounding errors any more, unless they take the same operation on the same layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

PRODUCTS = {
    torch.matmul, torch.mm, torch.bmm, Tensor.matmul, Tensor.mm, Tensor.bmm, Tensor.__matmul__
}  # fmt: skip

MEASURING = ("test_budget.py",)
"""Files whose tests compare memory, not numbers."""


class OtherSums(TorchFunctionMode):
    """Reverses the terms of products, in the thread that enters it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Pass on every operation, some with their terms reversed."""
        if func is functional.linear and _many_rows(args[0]):
            args = (args[0].flip(-1), args[1].flip(-1), *args[2:])
        elif func in PRODUCTS and min(one.ndim for one in args[:2]) >= 2 and _many_rows(args[0]):
            args = (args[0].flip(-1), args[1].flip(-2), *args[2:])
        return func(*args, **(kwargs or {}))


def _many_rows(x: Tensor) -> bool:
    return x.numel() > x.shape[-1] or not x.is_contiguous()


@pytest.fixture(autouse=True)
def other_sums(request: pytest.FixtureRequest) -> Iterator[None]:
    """For the length of a test, unless it measures memory, which reversed copies would take too."""
    if request.path.name in MEASURING:
        yield
        return
    with OtherSums():
        yield
