"""The functions that bend what an MLP has made, by their names in a config."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.model.decoder.config import Activation

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": functional.relu,
    "relu2": lambda x: functional.relu(x).square(),
    "identity": lambda x: x,
}
