"""Counts the bytes of tensors that are alive, for tests of what a computation needs."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class MemoryMeter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside the ``with`` block, notes the storages that operations make and when they go.

    Attributes
    ----------
    live, peak
        Bytes of the storages made inside that are alive, now and at most.
    largest
        The most elements any tensor had.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = 0
        self.peak = 0
        self.largest = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {x.untyped_storage()._cdata for x in _tensors([*args, *(kwargs or {}).values()])}
        for tensor in _tensors(out if isinstance(out, (tuple, list)) else [out]):
            self.largest = max(self.largest, tensor.numel())
            storage = tensor.untyped_storage()
            if storage._cdata not in self._known and storage._cdata not in given:
                self._note(storage)
        return out

    def _note(self, storage: torch.UntypedStorage) -> None:
        number, size = storage._cdata, storage.nbytes()
        self._known.add(number)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._gone, number, size)

    def _gone(self, number: int, size: int) -> None:
        self._known.discard(number)
        self.live -= size


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in values if isinstance(value, Tensor)]
