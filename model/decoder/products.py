"""x · Wᵀ, what nearly all of a forward pass is, by whichever library of the machine does it quickest.

Three libraries can: what torch calls by itself (MKL on most machines), oneDNN, which comes with torch, and numpy's BLAS
(OpenBLAS, or Accelerate on a Mac) over the very same memory. Which is quickest depends on the processor and on how many
rows there are, so it is measured (``model.decoder.product_choice``); ``Products`` says what came out. A run keeps those
that it began with. Anything but float32 on the CPU without gradients is torch's.

Letters: K numbers of a row, N maps of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ropewalk.model.decoder.activations import ACTIVATIONS
from ropewalk.model.decoder.config import Activation
from ropewalk.model.decoder.product_names import BY_TORCH, ProductName, Products

MANY_ROWS = 32
"""Rows from which on a product is limited by arithmetic rather than by reading its matrix."""

Array = npt.NDArray[np.float32]
Map = tuple[Tensor, Tensor | None]
"""A matrix W [N, K] and a bias [N], or None."""


class Product(Protocol):
    """One library's products; every x [..., K] is contiguous, and nothing needs a gradient."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x · Wᵀ + b, [..., N]."""

    def added(self, x: Tensor, weight: Tensor, bias: Tensor | None, stream: Tensor) -> Tensor:
        """``stream`` [..., N] + x · Wᵀ + b; the stream stays what it was."""

    def gated(self, x: Tensor, gate: Map, up: Map, activation: Activation) -> Tensor:
        """act(gate(x)) · up(x), [..., N]."""

    def into(self, weight: Tensor, x: Array, out: Array) -> Callable[[], object]:
        """A call that writes W · x to ``out`` [N], whatever ``x`` [K] has become by then."""


class TorchProduct:
    """Whatever torch calls by itself; how the others do what they have no quicker way for."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x · Wᵀ + b, [..., N]."""
        return functional.linear(x, weight, bias)

    def added(self, x: Tensor, weight: Tensor, bias: Tensor | None, stream: Tensor) -> Tensor:
        """``stream`` [..., N] + x · Wᵀ + b, added in place."""
        return self.linear(x, weight, bias).add_(stream)

    def gated(self, x: Tensor, gate: Map, up: Map, activation: Activation) -> Tensor:
        """act(gate(x)) · up(x), multiplied in place."""
        return ACTIVATIONS[activation](self.linear(x, *gate)).mul_(self.linear(x, *up))

    def into(self, weight: Tensor, x: Array, out: Array) -> Callable[[], object]:
        """A call that writes W · x to ``out`` [N]."""
        return partial(torch.mv, weight.detach(), torch.from_numpy(x), out=torch.from_numpy(out))


class NumpyProduct(TorchProduct):
    """numpy's BLAS, which reads torch's memory and writes to it."""

    @np.errstate(all="ignore")  # what overflows is infinite, as it is in torch
    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x · Wᵀ + b, [..., N]."""
        out = x.new_empty((*x.shape[:-1], weight.shape[0]))
        if x.numel() == x.shape[-1]:  # a matrix times a vector has a kernel of its own
            np.matmul(weight.detach().numpy(), x.view(-1).numpy(), out=out.view(-1).numpy())
        else:
            rows = out.view(-1, weight.shape[0]).numpy()
            np.matmul(x.view(-1, x.shape[-1]).numpy(), weight.detach().numpy().T, out=rows)
        return out if bias is None else out.add_(bias)

    def into(self, weight: Tensor, x: Array, out: Array) -> Callable[[], object]:
        """A call that writes W · x to ``out`` [N]."""
        return partial(np.matmul, weight.detach().numpy(), x, out)


ONEDNN_ACTIVATIONS: Mapping[Activation, tuple[str, str]] = {
    "silu": ("swish", ""),
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "identity": ("none", ""),
}
"""What oneDNN calls them: the operation, and which way of computing it."""


class OneDnnProduct(TorchProduct):
    """oneDNN, which does what follows a product before it writes it: no number goes to memory twice.

    Of one row it is asked for the product the other way round, W · xᵀ, which it does quicker.
    """

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x · Wᵀ + b, [..., N]."""
        if x.numel() == x.shape[-1]:
            out: Tensor = _pointwise(weight, x.view(1, -1), None, "none", [], "").view(*x.shape[:-1], -1)
            return out if bias is None else out.add_(bias)
        made: Tensor = _pointwise(x, weight, bias, "none", [], "")
        return made

    def added(self, x: Tensor, weight: Tensor, bias: Tensor | None, stream: Tensor) -> Tensor:
        """``stream`` [..., N] + x · Wᵀ + b."""
        if x.numel() == x.shape[-1]:
            return super().added(x, weight, bias, stream)
        made: Tensor = _pointwise.binary(x, stream.contiguous(), weight, bias, "add")
        return made

    def gated(self, x: Tensor, gate: Map, up: Map, activation: Activation) -> Tensor:
        """act(gate(x)) · up(x), each product bent or multiplied while it is written."""
        if activation not in ONEDNN_ACTIVATIONS or x.numel() == x.shape[-1]:
            return super().gated(x, gate, up, activation)
        operation, way = ONEDNN_ACTIVATIONS[activation]
        bent = _pointwise(x, *gate, operation, [], way)
        made: Tensor = _pointwise.binary(x, bent, *up, "mul")
        return made

    def into(self, weight: Tensor, x: Array, out: Array) -> Callable[[], object]:
        """A call that writes W · x to ``out`` [N]."""
        matrix, row, target = weight.detach(), torch.from_numpy(x).view(1, -1), torch.from_numpy(out).view(-1, 1)
        return lambda: target.copy_(_pointwise(matrix, row, None, "none", [], ""))


_pointwise: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)  # torch may be built without it

PRODUCTS: Mapping[ProductName, Product] = {
    "torch": TorchProduct(),
    "onednn": TorchProduct() if _pointwise is None else OneDnnProduct(),
    "numpy": NumpyProduct(),
}


def for_rows(products: Products, rows: int) -> Product:
    """What multiplies so many rows."""
    return PRODUCTS[products.one if rows == 1 else products.few if rows < MANY_ROWS else products.many]


@contextmanager
def multiplying(products: Products) -> Iterator[None]:
    """Compute by some libraries, without gradients, within the ``with`` block."""
    kept = _IN_USE.set(products)
    try:
        with torch.no_grad():
            yield
    finally:
        _IN_USE.reset(kept)


_IN_USE: ContextVar[Products] = ContextVar("products", default=BY_TORCH)


def product_for(x: Tensor, *weights: Tensor) -> Product:
    """What multiplies x [..., K] by matrices now: torch, where they lie unsuitably or a gradient may be asked for."""
    products = _IN_USE.get()
    if products is BY_TORCH or torch.is_grad_enabled() or not x.numel():
        return PRODUCTS["torch"]
    suits = all(_suits(one) for one in (x, *weights))
    return for_rows(products, x.numel() // x.shape[-1]) if suits else PRODUCTS["torch"]


def _suits(one: Tensor) -> bool:
    return one.dtype is torch.float32 and one.device.type == "cpu" and one.is_contiguous()


class Linear(nn.Linear):
    """x · Wᵀ + b by the products in use."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., K] in, [..., N] out."""
        return product_for(x, self.weight).linear(x, self.weight, self.bias)
