"""The GGUF container: metadata and tensors, every count checked against the size of the file before it is believed.

Numbers are little-endian; a tensor's dimensions are listed fastest first. Blocks of quantised weights are undone by the
``gguf`` package, in slices.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from torch import Tensor

from ropewalk.model.checkpoints.damage import check_is_data
from ropewalk.model.checkpoints.formats.file_bytes import FileBytes
from ropewalk.model.checkpoints.source import WHOLE, Part
from ropewalk.model.errors import CheckpointError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LARGEST_DIMENSIONS = 4
SLICE_BYTES = 1 << 24
"""Stored bytes that are undone at a time."""

SCALARS: dict[int, tuple[str, str]] = {
    0: ("B", "u1"),
    1: ("b", "i1"),
    2: ("H", "<u2"),
    3: ("h", "<i2"),
    4: ("I", "<u4"),
    5: ("i", "<i4"),
    6: ("f", "<f4"),
    7: ("?", "u1"),
    10: ("Q", "<u8"),
    11: ("q", "<i8"),
    12: ("d", "<f8"),
}
"""Metadata types that are one number: how struct and numpy call them."""
TEXT, ARRAY, FLAG = 8, 9, 7
LENGTH = struct.Struct("<Q")

PLAIN = {GGMLQuantizationType.F32: torch.float32, GGMLQuantizationType.F16: torch.float16,
         GGMLQuantizationType.BF16: torch.bfloat16, GGMLQuantizationType.F64: torch.float64}  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """Where a tensor lies and how it is stored."""

    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    start: int
    size: int

    @property
    def row_bytes(self) -> int:
        """How much one row of the last axis takes."""
        return self.size // prod(self.shape[:-1])


class GgufFile:
    """One open GGUF file.

    Attributes
    ----------
    path
        The file.
    metadata
        Key → a number, flag, text, list of texts, or numpy array.
    placed
        Tensor name → where it lies.
    """

    def __init__(self, path: Path) -> None:
        check_is_data(path)
        self.path = path
        self._bytes = FileBytes()
        self.metadata: Mapping[str, Any]
        self.placed: Mapping[str, Placed]
        with path.open("rb") as file:
            self.metadata, self.placed = _header(_Reader(file, path))

    def numbers(self, name: str, dtype: torch.dtype, part: Part = WHOLE) -> Tensor:
        """A part of a tensor: as it is where it is stored plainly, else undone in slices into ``dtype``."""
        placed = self.placed[name]
        if placed.kind in PLAIN:
            kind = PLAIN[placed.kind]
            before, shape = part.place(placed.shape)
            return self._bytes.read(self.path, placed.start + before * kind.itemsize, shape, kind)
        if len(placed.shape) == 1:
            return part.of(self._undone(placed, placed.start, (1,), dtype)[0])
        before, rows = part.place(placed.shape[:-1])
        return self._undone(placed, placed.start + before * placed.row_bytes, rows, dtype)

    def _undone(self, placed: Placed, start: int, rows: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Rows of blocks that begin at a byte of the file, undone."""
        count, width = prod(rows), placed.row_bytes
        out = torch.empty((count, placed.shape[-1]), dtype=dtype)
        step = max(1, SLICE_BYTES // width)
        for first in range(0, count, step):
            slice_ = out[first : first + step]
            stored = self._bytes.read(self.path, start + first * width, (slice_.shape[0], width), torch.uint8)
            with np.errstate(all="ignore"):
                slice_.copy_(torch.from_numpy(dequantize(stored.numpy(), placed.kind)))
        return out.view(*rows, placed.shape[-1])

    def close(self) -> None:
        """Close the file; it is opened again when more is read."""
        self._bytes.close()


class _Reader:
    """Reads forward through a file and refuses to read past its end."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file = file
        self.path = path
        self.at = 0
        self.size = path.stat().st_size

    def take(self, count: int, what: str) -> bytes:
        data = self.file.read(count) if count <= self.size - self.at else b""
        if len(data) < count:
            raise CheckpointError(
                f"{self.path.name} ends at byte {self.size:,}, but {what} at byte {self.at:,} needs {count:,} bytes "
                "more; it was cut short or is damaged, so download it again."
            )
        self.at += count
        return data

    def number(self, code: str, what: str) -> Any:
        form = struct.Struct("<" + code)
        value = form.unpack(self.take(form.size, what))[0]
        # the shortest number that is stored so: 1e-05 and not 9.999999747378752e-06
        return float(str(np.float32(value))) if code == "f" else value

    def text(self, what: str) -> str:
        return self.take(self.number("Q", what), what).decode("utf-8", "replace")

    def texts(self, what: str) -> list[str]:
        """A list of texts, read in one go: a vocabulary has a hundred thousand of them."""
        found: list[str] = []
        read, size, unpack = self.file.read, self.size, LENGTH.unpack
        for _ in range(self.count(f"texts in {what}", 8)):
            begun = read(8)
            length = unpack(begun)[0] if len(begun) == 8 else size
            data = read(length) if length <= size - self.at - 8 else b""
            if len(begun) + len(data) < 8 + length:
                self.take(8 + length, what)  # raises
            self.at += 8 + length
            found.append(data.decode("utf-8", "replace"))
        return found

    def count(self, what: str, least_bytes: int) -> int:
        """A count of things that take at least ``least_bytes`` each."""
        count = int(self.number("Q", what))
        if count * least_bytes > self.size - self.at:
            raise CheckpointError(
                f"{self.path.name} claims {count:,} {what}, more than its {self.size:,} bytes can hold; it is damaged, "
                "so download it again."
            )
        return count


def _header(reader: _Reader) -> tuple[Mapping[str, Any], Mapping[str, Placed]]:
    name = reader.path.name
    if reader.size < 24 or reader.take(4, "the magic word") != MAGIC:
        raise CheckpointError(f"{name} does not begin with GGUF, so it is not a GGUF file; download it again.")
    version = int(reader.number("I", "the version"))
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        found = "is for big-endian machines" if swapped else f"is of GGUF version {version}"
        raise CheckpointError(f"{name} {found}, but Ropewalk reads little-endian versions 2 and 3; convert it again.")
    tensors = reader.count("tensors", 24)
    keys = reader.count("metadata keys", 13)
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = reader.text("a metadata key")
        metadata[key] = _value(reader, int(reader.number("I", "a metadata type")), key)
    return MappingProxyType(metadata), MappingProxyType(_placed(reader, tensors, metadata))


def _value(reader: _Reader, kind: int, key: str) -> Any:
    what = f"the metadata {key!r:.60}"
    if kind in SCALARS:
        return reader.number(SCALARS[kind][0], what)
    if kind == TEXT:
        return reader.text(what)
    if kind != ARRAY:
        raise CheckpointError(f"{reader.path.name} gives {what} the unknown type {kind}; it is damaged or too new.")
    inner = int(reader.number("I", what))
    if inner == TEXT:
        return reader.texts(what)
    if inner not in SCALARS:
        raise CheckpointError(f"{reader.path.name} gives {what} a list of the unknown type {inner}; it is damaged.")
    numpy_type = np.dtype(SCALARS[inner][1])
    count = reader.count(f"numbers in {key!r:.60}", numpy_type.itemsize)
    values = np.frombuffer(reader.take(count * numpy_type.itemsize, what), dtype=numpy_type)
    return values.astype(bool) if inner == FLAG else values


def _placed(reader: _Reader, count: int, metadata: Mapping[str, Any]) -> dict[str, Placed]:
    name = reader.path.name
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or isinstance(alignment, bool) or not 8 <= alignment <= 1 << 16 or alignment % 8:
        raise CheckpointError(
            f"{name} aligns its tensors to {alignment!r:.40} bytes, which no GGUF does; it is damaged."
        )
    listed = [_tensor(reader) for _ in range(count)]
    start = -(-reader.at // alignment) * alignment
    found: dict[str, Placed] = {}
    end = 0
    for tensor, placed in sorted(listed, key=lambda item: item[1].start):
        if placed.start % alignment or placed.start < end or start + placed.start + placed.size > reader.size:
            raise CheckpointError(
                f"{name} places {tensor!r:.80} at byte {start + placed.start:,} with {placed.size:,} bytes, which "
                f"overlaps another or goes past the end at {reader.size:,}; it was cut short or is damaged, so "
                "download it again."
            )
        if tensor in found:
            raise CheckpointError(f"{name} holds {tensor!r:.80} twice; it is damaged, so download it again.")
        end = placed.start + placed.size
        found[tensor] = Placed(placed.shape, placed.kind, start + placed.start, placed.size)
    return found


@cache
def _check_known(kind: GGMLQuantizationType) -> None:
    """Undo one block of zeros, which raises for a form that the package has no code for."""
    if kind not in PLAIN:
        with np.errstate(all="ignore"):
            dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8), kind)


def _tensor(reader: _Reader) -> tuple[str, Placed]:
    name = reader.text("a tensor name")
    what = f"the tensor {name!r:.80}"
    dimensions = int(reader.number("I", what))
    if not 1 <= dimensions <= LARGEST_DIMENSIONS:
        raise CheckpointError(f"{reader.path.name} gives {what} {dimensions:,} dimensions; it is damaged.")
    fastest_first = struct.unpack(f"<{dimensions}Q", reader.take(8 * dimensions, what))
    code, offset = int(reader.number("I", what)), int(reader.number("Q", what))
    try:
        kind = GGMLQuantizationType(code)
        block, block_bytes = GGML_QUANT_SIZES[kind]
        _check_known(kind)
    except (ValueError, KeyError, NotImplementedError) as error:
        raise CheckpointError(
            f"{reader.path.name} stores {what} in the form {code}, which this version of the gguf package does not "
            "know; update gguf, or use another quantisation."
        ) from error
    if prod(fastest_first) == 0 or fastest_first[0] % block:
        raise CheckpointError(
            f"{reader.path.name} gives {what} the shape {list(fastest_first[::-1])}, which blocks of {block} do not "
            "fill; it is damaged."
        )
    size = prod(fastest_first) // block * block_bytes
    return name, Placed(tuple(fastest_first[::-1]), kind, offset, size)
