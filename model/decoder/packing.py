"""Lays a model's weights out the way a decode step reads them: block by block, one matrix after another.

A step reads every weight once and is as quick as memory is. Two things help it: large pages, where the system has them,
and few products, since each one wakes the threads anew. So the weights of a block move into one buffer, in the order
in which they are used, and maps of the same input that lie side by side are computed as one product. The numbers and
the names of the weights stay what they are.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from ropewalk.model.decoder.products import Map, product_for

PAGE = 1 << 21
"""Bytes of a large page; buffers that are smaller would gain nothing."""


def pack(model: nn.Module, parts: Sequence[nn.Module]) -> None:
    """Move the weights of each part into a buffer of its own, and what is left of the model into another.

    Needs, for a moment, room for the largest part once more. Weights that are not on the CPU stay where they are.
    """
    moved: set[int] = set()
    for part in (*parts, model):
        weights = [one for one in part.parameters() if id(one) not in moved and one.device.type == "cpu"]
        moved.update(map(id, weights))
        for dtype in {one.dtype for one in weights}:
            alike = _in_order([one for one in weights if one.dtype == dtype])
            for one, place in zip(alike, _places(alike, _buffer(_count(alike), dtype)), strict=True):
                place.copy_(one.detach())
                one.data = place


def allocate(part: nn.Module, dtype: torch.dtype, device: torch.device, large_pages: bool) -> None:
    """Give the weights of a part that are on the meta device empty memory, laid out as :func:`pack` does.

    Parameters
    ----------
    large_pages
        Whether to ask for large pages, on the CPU: decode steps are quicker, but a system that has to make room for
        such pages first takes longer to fill them.
    """
    names = {id(weight): name for name, weight in part.named_parameters() if weight.is_meta}
    weights = _in_order([weight for weight in part.parameters() if weight.is_meta])
    count = _count(weights)
    large = large_pages and device.type == "cpu"
    buffer = _buffer(count, dtype) if large else torch.empty(count, dtype=dtype, device=device)
    for weight, place in zip(weights, _places(weights, buffer), strict=True):
        owner, _, leaf = names[id(weight)].rpartition(".")
        setattr(part.get_submodule(owner), leaf, nn.Parameter(place, requires_grad=False))


def _in_order(weights: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """Matrices, then biases, so that neither separates the others."""
    return sorted(weights, key=lambda one: -one.ndim)


def _count(weights: Sequence[Tensor]) -> int:
    return sum(one.numel() for one in weights)


def _places(weights: Sequence[Tensor], buffer: Tensor) -> Iterator[Tensor]:
    """Memory for each weight, one after the other in one buffer."""
    start = 0
    for one in weights:
        yield buffer[start : start + one.numel()].view(one.shape)
        start += one.numel()


def _buffer(count: int, dtype: torch.dtype) -> Tensor:
    """Empty memory for ``count`` numbers, in large pages where the system grants them."""
    size = count * dtype.itemsize
    if size < PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(count, dtype=dtype)
    memory = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    begin = -whole.data_ptr() % PAGE  # a large page begins at a multiple of its size
    return whole[begin : begin + size].view(dtype)


class Joined:
    """Linear maps of the same input, computed as one product where their matrices lie side by side.

    It holds no weights: whether the matrices still lie side by side is looked at every time.
    """

    def __init__(self, *maps: nn.Linear) -> None:
        self.maps = maps
        self.sizes = [one.out_features for one in maps]
        self._places: list[tuple[int, tuple[int, ...]]] = []
        self._product: Map | None = None

    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:
        """What each map makes of [B, T, D]; one row, without gradients and unwatched, takes one product."""
        if x.shape[-2] == 1 and not self.is_watched and not torch.is_grad_enabled():
            product = self.one_product()
            if product is not None:
                return torch.split(product_for(x, product[0]).linear(x, *product), self.sizes, dim=-1)
        return tuple(one(x) for one in self.maps)

    @property
    def is_watched(self) -> bool:
        """Whether a hook is attached to any of the maps."""
        return any(one._forward_hooks or one._forward_pre_hooks for one in self.maps)

    def one_product(self) -> Map | None:
        """The matrix (and the bias) of all maps together, None where there is none without copying."""
        weights = [weight for one in self.maps for weight in (one.weight, one.bias) if weight is not None]
        places = [(weight.data_ptr(), weight.stride()) for weight in weights]
        if places != self._places:
            self._places, self._product = places, self._found()
        return self._product

    def _found(self) -> Map | None:
        weight = _side_by_side([one.weight for one in self.maps])
        biases = [one.bias for one in self.maps if one.bias is not None]
        if weight is None or not biases:
            return None if weight is None else (weight, None)
        bias = _side_by_side(biases) if len(biases) == len(self.maps) else None
        return None if bias is None else (weight, bias)


def _side_by_side(weights: Sequence[Tensor]) -> Tensor | None:
    """The weights as one tensor without copying, None where they do not follow one another in memory."""
    first = weights[0].detach()
    if first.is_meta:
        return None
    place = first.data_ptr()
    for one in weights:
        if (
            one.data_ptr() != place
            or not one.is_contiguous()
            or one.dtype != first.dtype
            or one.untyped_storage().data_ptr() != first.untyped_storage().data_ptr()
        ):
            return None
        place += one.nbytes
    rows = sum(one.shape[0] for one in weights)
    return first.as_strided((rows, *first.shape[1:]), first.stride())
