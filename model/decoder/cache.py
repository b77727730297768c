"""Storage that grows by rows: the KV cache, and whatever a trace keeps beside it.

:class:`Rows` is an immutable view of the first n rows of a shared buffer. Appending to the newest view writes into the
room that is left; appending to an older one (after a step back) copies, so that nobody's rows change. Long stores are
copied ahead of time, a little with every step (:func:`grow_ahead`), so that no step stands still for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ropewalk.model.errors import ShapeError, TraceError
from ropewalk.model.progress import Progress, Steps, Watch

Array = npt.NDArray[np.float32]

SMALLEST_ROOM = 64
GROWTH = 8
"""A full buffer grows by one part in GROWTH, so that appending stays cheap and at most that part is unused."""
NEARLY_FULL = 128
"""A buffer begins to move to a larger one when only one part in so many of it is free."""
LEAST_MOVED = 2**22
"""Bytes that are moved at a time at least: about a millisecond."""


_numbers = itertools.count()


class _Buffer:
    """One tensor [B, heads, capacity, …] and how many of its rows are written."""

    def __init__(self, storage: Tensor, used: int) -> None:
        self.storage = storage
        self.used = used
        self.number = next(_numbers)
        self._arrays: tuple[Tensor, Array] | None = None
        self._larger: Tensor | None = None
        """Where the rows are moving to while this one fills up, and how many have been."""
        self._moved = 0

    @property
    def capacity(self) -> int:
        """Rows that there is space for."""
        return self.storage.shape[2]

    @property
    def room(self) -> int:
        """Rows that can still be appended."""
        return self.capacity - self.used

    @property
    def array(self) -> Array:
        """The storage of a batch of one as numpy sees it, [heads, capacity, …]."""
        if self._arrays is None or self._arrays[0] is not self.storage:
            self._arrays = self.storage, self.storage[0].numpy()
        return self._arrays[1]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.storage.numel() // max(self.capacity, 1) * self.storage.element_size()

    @property
    def reserved_bytes(self) -> int:
        """Bytes of all the space taken."""
        taken = [self.storage] if self._larger is None else [self.storage, self._larger]
        return sum(tensor.numel() * tensor.element_size() for tensor in taken)

    @property
    def bytes_to_move(self) -> int:
        """What is still to be copied before this store has a larger one."""
        return (self.used - self._moved) * self.row_bytes

    def move(self, count: int) -> int:
        """Copy ``count`` bytes, by whole rows, to a larger store, and use it when all are there; returns the bytes."""
        if self._larger is None:
            self._larger = _larger(self.storage, self.used)
        stop = min(self._moved + -(-count // max(self.row_bytes, 1)), self.used)
        self._larger[:, :, self._moved : stop] = self.storage[:, :, self._moved : stop]
        copied, self._moved = (stop - self._moved) * self.row_bytes, stop
        if stop == self.used:
            self.storage, self._larger, self._moved = self._larger, None, 0
        return copied


def _larger(storage: Tensor, used: int) -> Tensor:
    """Space for ``used`` rows like those in ``storage``, and for one part in GROWTH more."""
    room = max(SMALLEST_ROOM, used // GROWTH)
    return storage.new_empty((*storage.shape[:2], used + room, *storage.shape[3:]))


@dataclass(frozen=True, eq=False)
class Rows:
    """The first ``length`` rows of a growing store; axis 2 is the row.

    Attributes
    ----------
    length
        Rows in view.
    """

    _buffer: _Buffer
    length: int

    @classmethod
    def of(cls, first: Tensor, room: int = 0) -> Rows:
        """Start with ``first`` [B, heads, n, …] and room for ``room`` rows more."""
        n = first.shape[2]
        if room <= 0:
            return cls(_Buffer(first.detach(), n), n)
        storage = first.new_empty((*first.shape[:2], n + room, *first.shape[3:]))
        storage[:, :, :n] = first.detach()
        return cls(_Buffer(storage, n), n)

    @property
    def tensor(self) -> Tensor:
        """[B, heads, length, …], a view."""
        return self._buffer.storage.narrow(2, 0, self.length)

    @property
    def store(self) -> int:
        """The number of the store behind the view. Row i of one store is the same for ever, whatever is appended."""
        return self._buffer.number

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the whole buffer, growth room included, and of a larger one that is being filled."""
        return self._buffer.reserved_bytes

    @property
    def used_bytes(self) -> int:
        """Bytes of the rows in view."""
        return self.tensor.numel() * self.tensor.element_size()

    def appended(self, new: Tensor) -> Rows:
        """Return a view with ``new`` [B, heads, t, …] added; this view stays what it was.

        Raises
        ------
        ShapeError
            When ``new`` differs from the stored rows in anything but how many there are.
        """
        buffer, count = self._buffer, new.shape[2]
        stored, end = buffer.storage, self.length + count
        if (new.shape[:2], new.shape[3:], new.dtype) != (stored.shape[:2], stored.shape[3:], stored.dtype):
            raise ShapeError(
                f"Rows of shape {tuple(new.shape)} ({new.dtype}) cannot follow rows of shape "
                f"{tuple(self.tensor.shape)} ({stored.dtype}); only their number may differ."
            )
        if buffer.used != self.length or end > stored.shape[2]:
            storage = _larger(stored, end)
            storage[:, :, : self.length] = self.tensor
            buffer = _Buffer(storage, self.length)
        buffer.storage.narrow(2, self.length, count).copy_(new.detach())
        buffer.used = end
        return Rows(buffer, end)

    @property
    def array(self) -> Array:
        """[heads, length, …] of a batch of one in float32 on the CPU, a view."""
        return self._buffer.array[:, : self.length]

    def with_row(self, row: Array) -> Rows:
        """What :meth:`appended` gives for one row [heads, …] of a batch of one; quicker, and checked by nobody."""
        buffer = self._buffer
        if self.is_copied_to_grow:
            return self.appended(torch.from_numpy(row)[None, :, None])
        buffer.array[:, self.length] = row
        buffer.used = self.length + 1
        return Rows(buffer, self.length + 1)

    @property
    def is_behind(self) -> bool:
        """Whether somebody has gone on from here, so that appending would copy."""
        return self._buffer.used != self.length

    @property
    def is_copied_to_grow(self) -> bool:
        """Whether appending a row copies all of them: somebody has gone on from here, or the store is full."""
        return self.is_behind or self._buffer.room == 0

    def apart_steps(self) -> Steps[Rows]:
        """The same rows in a store of their own, copied in slices of time: nobody else waits for a long copy."""
        storage, watch = _larger(self._buffer.storage, self.length), Watch()
        piece = max(LEAST_MOVED // max(self._buffer.row_bytes, 1), 1)
        for start in range(0, self.length, piece):
            stop = min(start + piece, self.length)
            storage[:, :, start:stop] = self.tensor[:, :, start:stop]
            if watch.over:
                yield Progress(stop, self.length, "Copying the cache")
                watch.restart()
        return Rows(_Buffer(storage, self.length), self.length)

    def first(self, length: int) -> Rows:
        """Return an earlier view.

        Raises
        ------
        TraceError
            When more rows are asked for than there are.
        """
        if not 0 <= length <= self.length:
            raise TraceError(f"{length} rows were asked for, but there are {self.length}.")
        return Rows(self._buffer, length)


def grow_ahead(stores: Sequence[Rows]) -> int:
    """Do one step's share of the growth that stores will soon need, and return the bytes copied.

    The newest views of stores that are nearly full move to larger ones, one after another, so that all are there before
    the room is used up. A view stays what it was: it reads the larger store as soon as that is whole.
    """
    near = [rows._buffer for rows in stores if not rows.is_behind]
    near = [buffer for buffer in near if buffer.room <= buffer.capacity // NEARLY_FULL]
    if not near:
        return 0
    steps = max(min(buffer.room for buffer in near), 1)
    share, copied = max(sum(buffer.bytes_to_move for buffer in near) // steps, LEAST_MOVED), 0
    for buffer in near:
        copied += buffer.move(share - copied)
        if copied >= share:
            break
    return copied


class KvCache:
    """K and V of every layer, [B, Hkv, S, Dh] each; a forward pass appends to it layer by layer.

    Parameters
    ----------
    layers
        L.
    room
        Rows to leave free after the first append.
    """

    def __init__(self, layers: int, room: int = 0) -> None:
        self.keys: list[Rows | None] = [None] * layers
        self.values: list[Rows | None] = [None] * layers
        self.room = room

    @classmethod
    def holding(cls, keys: list[Rows], values: list[Rows]) -> KvCache:
        """A cache that goes on from rows a trace holds; appending never changes those."""
        cache = cls(len(keys))
        cache.keys, cache.values = list(keys), list(values)
        return cache

    @property
    def length(self) -> int:
        """Positions held by the last layer, which is behind the others during a forward pass."""
        last = self.keys[-1]
        return 0 if last is None else last.length

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add rows of one layer and return all of its K and V.

        Rows that a forward pass left behind when it failed half-way are forgotten.

        Parameters
        ----------
        key, value
            [B, Hkv, T, Dh].

        Returns
        -------
        key, value
            [B, Hkv, S, Dh], views of the store.
        """
        keys, values = self.keys[layer], self.values[layer]
        if keys is None or values is None:
            keys, values = Rows.of(key, self.room), Rows.of(value, self.room)
        else:
            past = self.length
            if keys.length != past:
                keys, values = keys.first(past), values.first(past)
            keys, values = keys.appended(key), values.appended(value)
        self.keys[layer], self.values[layer] = keys, values
        return keys.tensor, values.tensor

    def append_row(self, layer: int, key: Array, value: Array) -> tuple[Array, Array]:
        """Do what :meth:`append` does with one row [Hkv, Dh] of a batch of one; K and V [Hkv, S, Dh]."""
        keys, values = self.keys[layer], self.values[layer]
        if keys is None or values is None or keys.length != self.length:
            self.append(layer, torch.from_numpy(key)[None, :, None], torch.from_numpy(value)[None, :, None])
            keys, values = self.keys[layer], self.values[layer]
            assert keys is not None
            assert values is not None
        else:
            keys, values = keys.with_row(key), values.with_row(value)
            self.keys[layer], self.values[layer] = keys, values
        return keys.array, values.array

    def note_row(self, layer: int, query: Array, lse: Array) -> None:
        """Told what :meth:`note` is of one row of a batch of one: Q' [H, Dh] and lse [H]."""

    def note(self, layer: int, query: Tensor, lse: Tensor) -> None:
        """Told what attention used beside K and V: Q' [B, H, T, Dh] and lse [B, H, T]. This cache lets it go."""

    def first(self, length: int) -> KvCache:
        """An independent cache of the first ``length`` positions; nothing is copied until it grows."""
        keys, values = self.filled()
        return KvCache.holding([rows.first(length) for rows in keys], [rows.first(length) for rows in values])

    def filled(self) -> tuple[list[Rows], list[Rows]]:
        """K and V of every layer.

        Raises
        ------
        TraceError
            When a layer holds nothing yet.
        """
        keys = [rows for rows in self.keys if rows is not None]
        values = [rows for rows in self.values if rows is not None]
        if len(keys) != len(self.keys) or len(values) != len(self.values):
            raise TraceError(f"Only {len(keys)} of {len(self.keys)} layers hold keys; the forward pass did not finish.")
        return keys, values

    @property
    def used_bytes(self) -> int:
        """Bytes of the rows in use, counted from the tensors."""
        return sum(rows.used_bytes for rows in (*self.keys, *self.values) if rows is not None)

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the storage, growth room included."""
        return sum(rows.reserved_bytes for rows in (*self.keys, *self.values) if rows is not None)
