"""Safetensors: one file, or shards with an index. The header is checked here, byte for byte, before anything is read.

The format is an 8-byte little-endian header length, a JSON header of names, dtypes, shapes and byte ranges, then the
bytes.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from ropewalk.model.checkpoints.damage import check_is_data
from ropewalk.model.checkpoints.formats.file_bytes import FileBytes
from ropewalk.model.checkpoints.source import WHOLE, Part, Stored
from ropewalk.model.errors import CheckpointError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
LARGEST_HEADER = 100_000_000
SHARD = re.compile(r"(model|pytorch_model)-\d+-of-\d+\.(safetensors|bin)")
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "U16": torch.uint16,
    "U32": torch.uint32, "U64": torch.uint64, "BOOL": torch.bool, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip


@dataclass(frozen=True)
class Placed(Stored):
    """A tensor, and the byte of the file at which it begins."""

    start: int


class SafetensorsFiles:
    """The tensors of one or several safetensors files."""

    def __init__(self, tensors: Mapping[str, Placed]) -> None:
        self._placed = dict(tensors)
        self.tensors: Mapping[str, Stored] = MappingProxyType(self._placed)
        self._bytes = FileBytes()

    def read(self, name: str, dtype: torch.dtype, part: Part = WHOLE) -> Tensor:
        """A part of the tensor, in the dtype it is stored in."""
        placed = self._placed[name]
        kind = DTYPES[placed.dtype]
        before, shape = part.place(placed.shape)
        return self._bytes.read(placed.file, placed.start + before * kind.itemsize, shape, kind)

    def close(self) -> None:
        """Close the files."""
        self._bytes.close()


def open_single(path: Path) -> SafetensorsFiles:
    """Describe one file."""
    return SafetensorsFiles({tensor.name: tensor for tensor in read_header(path)})


def open_sharded(index: Path) -> SafetensorsFiles:
    """Describe the shards that an index names.

    Raises
    ------
    CheckpointError
        When a shard is missing, lies outside the folder, or does not hold what the index says.
    """
    folder = index.parent
    placed = read_index(index)
    check_no_extra_shard(folder, index, placed)
    tensors: dict[str, Placed] = {}
    shards = {shard: shard_path(folder, shard, index) for shard in sorted(set(placed.values()))}
    for shard, path in shards.items():
        for tensor in read_header(path):
            if placed.get(tensor.name) != shard:
                raise CheckpointError(
                    f"{shard} holds {tensor.name!r:.80}, which {index.name} does not place there; the files are of "
                    "different downloads, so download the folder again."
                )
            tensors[tensor.name] = tensor
    missing = sorted(set(placed) - set(tensors))
    if missing:
        raise CheckpointError(
            f"{index.name} says that {placed[missing[0]]} holds {missing[0]}, but it does not; download both again."
        )
    return SafetensorsFiles(tensors)


def read_index(index: Path) -> dict[str, str]:
    """Tensor name → shard name."""
    try:
        placed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        pairs = {str(name): str(shard) for name, shard in placed.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{index.name} is not an index with a weight_map of tensor names to files; download it again.", str(error)
        ) from error
    if not pairs:
        raise CheckpointError(f"{index.name} names no tensors; download it again.")
    return pairs


def check_no_extra_shard(folder: Path, index: Path, placed: Mapping[str, str]) -> None:
    """Refuse a shard in the folder that the index does not name: one of the two is of another download."""
    named = set(placed.values())
    for path in sorted(folder.iterdir()):
        if SHARD.fullmatch(path.name) and path.suffix == Path(next(iter(named))).suffix and path.name not in named:
            raise CheckpointError(
                f"{path.name} is in the folder, but {index.name} does not name it; the files are of different "
                "downloads, so download the folder again."
            )


def shard_path(folder: Path, shard: str, index: Path) -> Path:
    """Where a shard lies, refusing one that is not directly in the folder or not there."""
    if Path(shard).name != shard or shard in ("", ".", ".."):
        raise CheckpointError(f"{index.name} points to {shard!r}, outside its own folder; refuse such a download.")
    path = folder / shard
    if not path.is_file():
        raise CheckpointError(
            f"{index.name} names the shard {shard}, but it is not in the folder; download the missing file."
        )
    return path


def read_header(path: Path) -> list[Placed]:
    """Read and check the header of one file.

    Raises
    ------
    CheckpointError
        When lengths, ranges, shapes or dtypes contradict each other or the size of the file.
    """
    check_is_data(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        if len(start) < 8:
            raise CheckpointError(f"{path.name} has {size} bytes, too few for a safetensors file; download it again.")
        (length,) = struct.unpack("<Q", start)
        if length > min(size - 8, LARGEST_HEADER):
            raise CheckpointError(
                f"{path.name} says its header has {length:,} bytes, but the file has {size:,}; it is not a safetensors "
                "file or was cut short, so download it again."
            )
        header = file.read(length)
    try:
        entries = json.loads(header)
        if not isinstance(entries, dict):
            raise ValueError("the header is not a JSON object")
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path.name} has a header that is not JSON, so it is not a safetensors file; download it again.",
            str(error),
        ) from error
    entries.pop("__metadata__", None)
    ranges = [_entry(path, name, entry, 8 + length, size) for name, entry in entries.items()]
    ranges.sort(key=lambda item: item[0])
    end = 0
    for begin, stop, tensor in ranges:
        if begin != end:
            state = "overlaps another" if begin < end else "leaves a gap before it"
            raise CheckpointError(
                f"{path.name} places {tensor.name} at byte {begin:,}, which {state} (expected {end:,}); "
                "the file is damaged, so download it again."
            )
        end = stop
    if end != size - 8 - length:
        raise CheckpointError(
            f"{path.name} holds {size - 8 - length:,} bytes of tensors, but its header describes {end:,}; "
            "the file was cut short or changed, so download it again."
        )
    return [tensor for _, _, tensor in ranges]


def _entry(path: Path, name: str, entry: Any, start: int, size: int) -> tuple[int, int, Placed]:
    """Check one header entry; returns its byte range after the header, and its description."""
    available = size - start
    try:
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        begin, stop = entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path.name} describes {name!r:.80} without a dtype, shape or byte range; download it again.", str(error)
        ) from error
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise CheckpointError(
            f"{path.name} stores {name!r:.80} as {dtype!r:.40}, a dtype Ropewalk does not know; it reads "
            "float32, float16, bfloat16 and float8."
        )
    numbers = (*shape, begin, stop)
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in numbers):
        raise CheckpointError(f"{path.name} gives {name!r:.80} a shape or byte range that is not of whole numbers.")
    if stop > available or begin > stop:
        raise CheckpointError(
            f"{path.name} places {name!r:.80} at bytes {begin:,} to {stop:,}, but has {available:,} bytes of tensors; "
            "it was cut short, so download it again."
        )
    if prod(shape) * DTYPES[dtype].itemsize != stop - begin:
        raise CheckpointError(
            f"{path.name} gives {name!r:.80} the shape {list(shape)} in {dtype} but {stop - begin:,} bytes; "
            "the file is damaged, so download it again."
        )
    return begin, stop, Placed(name, shape, dtype, path, start + begin)
