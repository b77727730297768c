"""PyTorch's own files (``.bin``, ``.pth``, ``.pt``): one, or shards with an index; described, read, and never executed.

A torch file is a zip of a pickle and raw storages. The zip is checked before torch sees it, and the pickle is only read
with ``weights_only=True``, which refuses everything but tensors and plain containers.
"""

from __future__ import annotations

import pickle
import pickletools
import re
import struct
import sys
import warnings
import zipfile
import zlib
from bisect import bisect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from ropewalk.model.checkpoints.damage import check_is_data, first_bytes
from ropewalk.model.checkpoints.formats.file_bytes import FileBytes
from ropewalk.model.checkpoints.formats.safetensors_files import check_no_extra_shard, read_index, shard_path
from ropewalk.model.checkpoints.source import WHOLE, Part, Stored
from ropewalk.model.errors import CheckpointError

SUFFIXES = (".bin", ".pth", ".pt", ".ckpt")
SINGLE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
LARGEST_PICKLE = 256_000_000
LARGEST_TUPLE = 1 << 16
"""Members of a tuple and of all tuples in it, each as often as it is there: one that holds another twice, which holds a
third twice, and so on sixty times, takes for ever to hash."""

DAMAGED = (
    RuntimeError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    EOFError,
    OverflowError,
    MemoryError,
    AssertionError,
    NotImplementedError,
    UnicodeError,
    RecursionError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    pickle.UnpicklingError,
)
"""What the zip reader, the restricted unpickler and torch raise on a file that is not what it says."""

TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "TUPLE": -1}
"""Operations of a pickle that make one, and of how much; -1 is all since the last mark."""

Renamed = Callable[[Mapping[str, Any], Path], Mapping[str, Any]]


class TorchFiles:
    """Tensors of one or several torch files: described, or views of a file that had to be mapped."""

    def __init__(self, handle: Mapping[str, tuple[Tensor, Path]]) -> None:
        self._handle = dict(handle)
        self._bytes = FileBytes()
        self.tensors: Mapping[str, Stored] = MappingProxyType(
            {
                name: Stored(name, tuple(value.shape), str(value.dtype).removeprefix("torch."), path)
                for name, (value, path) in self._handle.items()
            }
        )

    def read(self, name: str, dtype: torch.dtype, part: Part = WHOLE) -> Tensor:
        """A part of the tensor, in the dtype it is stored in."""
        whole, path = self._handle[name]
        value = part.of(whole)
        if not value.is_meta:
            return value
        if not value.numel():
            return torch.empty(value.shape, dtype=value.dtype)
        size, stride = value.shape, value.stride()
        start = _offset(whole) + int(value.storage_offset()) * value.itemsize
        span = 1 + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
        return self._bytes.read(path, start, (span,), value.dtype).as_strided(size, stride)

    def close(self) -> None:
        """Close the files and unmap."""
        self._bytes.close()
        self._handle.clear()


def open_single(path: Path) -> TorchFiles:
    """Describe one file."""
    return TorchFiles({name: (value, path) for name, value in tensors_of(load_file(path), path).items()})


def open_sharded(index: Path) -> TorchFiles:
    """Describe the shards that an index names."""
    placed = read_index(index)
    check_no_extra_shard(index.parent, index, placed)
    handle: dict[str, tuple[Tensor, Path]] = {}
    for path in [shard_path(index.parent, shard, index) for shard in sorted(set(placed.values()))]:
        for name, value in tensors_of(load_file(path), path).items():
            handle[name] = (value, path)
    missing = sorted(set(placed) - set(handle))
    if missing:
        raise CheckpointError(
            f"{index.name} says that {placed[missing[0]]} holds {missing[0]!r:.80}, but it does not; download both "
            "again."
        )
    return TorchFiles(handle)


def load_file(path: Path) -> Any:
    """What a torch file holds: tensors on ``meta`` that know their place in it, or mapped ones where torch tells none.

    Raises
    ------
    CheckpointError
        For a file that is no torch file, is damaged, or wants to run code.
    """
    check_is_data(path)
    records = _check_zip(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="meta", weights_only=True) if records else None
            if _all_placed(found, records, path.stat().st_size):
                return found
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"(?:GLOBAL|global|function|class)[ :]+`?([A-Za-z_][\w.]*\.[\w.]+)", str(error))
        wants = f" ({named.group(1)})" if named else ""
        raise CheckpointError(
            f"{path.name} holds more than tensors{wants}: a pickle that could run code when it is opened, so it is "
            "refused; use a safetensors copy of the model.",
            str(error),
        ) from error
    except DAMAGED as error:
        raise CheckpointError(
            f"{path.name} is damaged: its parts do not fit together; download it again.", str(error)
        ) from error


def _offset(tensor: Tensor) -> int:
    """The byte of the file at which a storage begins, -1 where torch is too old to say."""
    return int(getattr(tensor.untyped_storage(), "_checkpoint_offset", None) or -1)


def _all_placed(found: Any, records: list[tuple[int, int]], size: int) -> bool:
    """Whether all tensors, also those one dictionary deeper, lie each within one entry of a file of ``size`` bytes.

    A storage on ``meta`` grows where a tensor says that it is larger than it; a mapped one is refused by torch.
    """
    if not isinstance(found, Mapping):
        return False
    inner = [value.values() for value in found.values() if isinstance(value, Mapping)]
    tensors = [one for values in (found.values(), *inner) for one in values if isinstance(one, Tensor)]
    return all(one.layout == torch.strided and not one.is_neg() and _within(one, records, size) for one in tensors)


def _within(tensor: Tensor, records: list[tuple[int, int]], size: int) -> bool:
    start, length = _offset(tensor), tensor.untyped_storage().nbytes()
    at = bisect(records, (start, 0)) - 1
    return at >= 0 and length <= min(records[at][1], size - start)


def _check_zip(path: Path) -> list[tuple[int, int]]:
    """Refuse what is no zip, and zips whose entries are compressed, encrypted or larger than the file.

    Returns where the entries begin and how long they are; none where the numbers are not in this machine's order of
    bytes: torch swaps them, and on ``meta`` that ends the process.
    """
    if not first_bytes(path, 4).startswith(b"PK\x03\x04"):
        raise CheckpointError(
            f"{path.name} is not a torch file of version 1.6 or newer (a zip of tensors); if it is an older one, load "
            "it and save it again with a recent torch, or use a safetensors copy."
        )
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            pickles = [one for one in entries if one.filename.endswith(".pkl") and one.file_size <= LARGEST_PICKLE]
            stored = [one for one in pickles if one.compress_type == zipfile.ZIP_STORED and one.file_size <= size]
            described = [archive.read(one) for one in stored]
            orders = [one for one in entries if one.filename.lower().endswith("byteorder")]
            native = all(one.file_size < 16 and archive.read(one) == sys.byteorder.encode() for one in orders)
    except (*DAMAGED, OSError) as error:
        raise CheckpointError(
            f"{path.name} begins like a torch file but has no readable table of contents, so it was cut short; "
            "download it again.",
            str(error),
        ) from error
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size > size:
            raise CheckpointError(
                f"{path.name} holds the entry {entry.filename!r:.60} of {entry.file_size:,} bytes in a file of "
                f"{size:,}; torch stores entries as they are, so the file is damaged or not a torch file."
            )
        if entry.filename.endswith(".pkl") and entry.file_size > LARGEST_PICKLE:
            raise CheckpointError(
                f"{path.name} describes its tensors in {entry.file_size:,} bytes, more than any model needs; it is "
                "damaged or not a model."
            )
    if any(_largest_tuple(data) > LARGEST_TUPLE for data in described):
        raise CheckpointError(
            f"{path.name} holds a tuple of more than {LARGEST_TUPLE:,} members, as no file of weights does: reading it "
            "could take for ever, so it is refused; use a safetensors copy of the model."
        )
    return sorted((one.header_offset, one.file_size) for one in entries) if native else []


def _largest_tuple(data: bytes) -> int:
    """How many members tuples in a pickle have, by its operations alone; those that contradict each other end it."""
    stack: list[int] = []
    marks: list[int] = []
    kept: dict[Any, int] = {}
    largest = 0

    def taken(count: int) -> list[int]:
        at = max(0, len(stack) - count)
        found, stack[at:] = stack[at:], []
        return found

    try:
        for operation, argument, _ in pickletools.genops(data):
            name = operation.name
            if name == "MARK":
                marks.append(len(stack))
            elif name in TUPLES:
                inside = taken(TUPLES[name] if TUPLES[name] >= 0 else len(stack) - marks.pop())
                stack.append(min(1 + sum(inside), LARGEST_TUPLE + 1))
                largest = max(largest, stack[-1])
            elif name in ("BINGET", "LONG_BINGET", "GET"):
                stack.append(kept[argument])
            elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
                kept[len(kept) if argument is None else argument] = stack[-1]
            else:
                before = list(operation.stack_before)
                if pickletools.markobject in before:
                    del before[before.index(pickletools.markobject) :]
                    taken(len(stack) - marks.pop())
                taken(len(before))
                stack += [1] * len(operation.stack_after)
    except (*DAMAGED, UnicodeDecodeError):  # torch says so itself
        pass
    return largest


def tensors_of(found: Any, path: Path) -> dict[str, Tensor]:
    """The flat dictionary of tensors in what a file holds.

    Raises
    ------
    CheckpointError
        When it holds something else.
    """
    if not isinstance(found, Mapping) or not found:
        raise CheckpointError(
            f"{path.name} holds {type(found).__name__} where a dictionary of named tensors was expected."
        )
    for name, value in found.items():
        if not isinstance(name, str):  # which may be a tuple too deep to be written out
            raise CheckpointError(
                f"{path.name} names a tensor by {type(name).__name__} where a text was expected; it is not a plain "
                "file of weights."
            )
        if not isinstance(value, Tensor):
            raise CheckpointError(
                f"{path.name} holds {type(value).__name__} under {name!r:.60} where a tensor was expected; it is not a "
                "plain file of weights."
            )
        if value.layout != torch.strided or value.is_quantized or value.is_complex():
            raise CheckpointError(
                f"{path.name} stores {name!r:.80} in a form (sparse, quantised or complex) that weights do not have."
            )
    return {name: value.detach() for name, value in found.items()}
