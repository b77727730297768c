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
import torch
from torch import Tensor, nn
from torch.nn import functional

from ropewalk.model.decoder.activations import ACTIVATIONS
from ropewalk.model.decoder.cache import Array
from ropewalk.model.decoder.config import Activation
from ropewalk.model.decoder.product_names import BY_TORCH, ProductName, Products

MANY_ROWS = 32
"""Rows from which on a product is limited by arithmetic rather than by reading its matrix."""

Map = tuple[Tensor, Tensor | None]
"""A matrix W [N, K] and a bias [N], or None."""


class Product(Protocol):
    """One library's products; every x [..., K] is contiguous, and nothing needs a gradient."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x · Wᵀ + b, [..., N]."""

    def gated(self, x: Tensor, gate: Map, up: Map, activation: Activation) -> Tensor:
        """act(gate(x)) · up(x), [..., N]."""

    def into(self, weight: Tensor, x: Array, out: Array) -> Callable[[], object]:
        """A call that writes W · x to ``out`` [N], whatever ``x`` [K] has become by then."""


class TorchProduct:
    """Whatever torch calls by itself; how the others do what they have no quicker way for."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x · Wᵀ + b, [..., N]."""
        return functional.linear(x, weight, bias)

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

    Of one row it is asked for the product the other way round, W · xᵀ, which it does quicker. It makes code for every
    number of rows that it meets, a megabyte a product for good, so that rows are filled up to one of a few numbers.
    """

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x · Wᵀ + b, [..., N]."""
        if x.numel() == x.shape[-1]:
            out: Tensor = _pointwise(weight, x.view(1, -1), None, "none", [], "").view(*x.shape[:-1], -1)
            return out if bias is None else out.add_(bias)
        return _cut(_pointwise(_filled(x), weight, bias, "none", [], ""), x)

    def gated(self, x: Tensor, gate: Map, up: Map, activation: Activation) -> Tensor:
        """act(gate(x)) · up(x), each product bent or multiplied while it is written."""
        if activation not in ONEDNN_ACTIVATIONS or x.numel() == x.shape[-1]:
            return super().gated(x, gate, up, activation)
        (operation, way), rows = ONEDNN_ACTIVATIONS[activation], _filled(x)
        bent = _pointwise(rows, *gate, operation, [], way)
        return _cut(_pointwise.binary(rows, bent, *up, "mul"), x)

    def into(self, weight: Tensor, x: Array, out: Array) -> Callable[[], object]:
        """A call that writes W · x to ``out`` [N]."""
        matrix, row, target = weight.detach(), torch.from_numpy(x).view(1, -1), torch.from_numpy(out).view(-1, 1)
        return lambda: target.copy_(_pointwise(matrix, row, None, "none", [], ""))


def row_count(rows: int) -> int:
    """So many rows, or up to a quarter more, a twelfth on average: four numbers for each doubling."""
    step = max(1 << (rows - 1).bit_length() >> 3, 1)
    return -(-rows // step) * step


def _filled(x: Tensor) -> Tensor:
    """The rows of x, and as many of zeros as :func:`row_count` asks for."""
    rows = x.view(-1, x.shape[-1])
    count = row_count(len(rows))
    if count == len(rows):
        return rows
    filled = rows.new_empty(count, rows.shape[1])
    filled[: len(rows)] = rows
    filled[len(rows) :] = 0.0
    return filled


def _cut(made: Tensor, x: Tensor) -> Tensor:
    """What was made of the rows of x, in the shape that these have."""
    return made[: x.numel() // x.shape[-1]].view(*x.shape[:-1], -1)


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
