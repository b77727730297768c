"""MXFP4, the form in which gpt-oss stores its experts: four-bit floats in blocks of 32 that share a power of two.

OCP Microscaling Formats 1.0: an element has one sign, two exponent and one mantissa bit; the block's scale is 2^(byte −
127). Two elements lie in a byte, the lower half first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import torch
from torch import Tensor

from ropewalk.model.checkpoints.source import WHOLE, Part, Source, Stored, TensorFile
from ropewalk.model.errors import CheckpointError

METHOD = "mxfp4"
BLOCKS, SCALES = "_blocks", "_scales"
BLOCK = 32
BIAS = 127
VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


class UnpackedFiles:
    """Tensors whose blocks and scales are joined, expert by expert, when they are read."""

    def __init__(self, files: TensorFile) -> None:
        self._files = files
        packed = [name.removesuffix(BLOCKS) for name in files.tensors if name.endswith(BLOCKS)]
        self._packed = {stem: self._joined(stem) for stem in packed}
        plain = {name: stored for name, stored in files.tensors.items() if not name.endswith((BLOCKS, SCALES))}
        self.tensors: Mapping[str, Stored] = MappingProxyType({**plain, **self._packed})

    def _joined(self, stem: str) -> Stored:
        blocks, scales = self._files.tensors[stem + BLOCKS], self._files.tensors.get(stem + SCALES)
        if scales is None or len(blocks.shape) != 4 or blocks.shape != (*scales.shape, BLOCK // 2):
            found = "is not there" if scales is None else f"has shape {list(scales.shape)}"
            raise CheckpointError(
                f"{blocks.file.name} holds {blocks.name} with shape {list(blocks.shape)}, but {stem + SCALES} {found}; "
                "each block of 16 bytes needs one scale, so download the folder again."
            )
        experts, rows, groups = scales.shape
        return Stored(stem, (experts, groups * BLOCK, rows), "MXFP4", blocks.file)

    def read(self, name: str, dtype: torch.dtype, part: Part = WHOLE) -> Tensor:
        """A part of a tensor; experts [E, in, out] are undone into ``dtype``."""
        if name not in self._packed:
            return self._files.read(name, dtype, part)
        if part.expert is None:
            experts = range(self._packed[name].shape[0])
            return part.of(torch.stack([self.read(name, dtype, Part(expert)) for expert in experts]))
        blocks, scales = (self._files.read(name + end, torch.uint8, Part(part.expert)) for end in (BLOCKS, SCALES))
        return Part(rows=part.rows).of(unpacked(blocks, scales, dtype).t())

    def close(self) -> None:
        """Let go of the files."""
        self._files.close()


def unpacked(blocks: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers [..., groups · 32] of blocks [..., groups, 16] and scales [..., groups]."""
    values = VALUES.to(dtype)
    pairs = torch.stack((values[(blocks & 0xF).int()], values[(blocks >> 4).int()]), dim=-1)
    exponents = scales.int()[..., None, None] - BIAS
    return torch.ldexp(pairs, exponents).flatten(-3).to(dtype)


def unpacked_source(source: Source) -> Source:
    """A source whose MXFP4 tensors are read as numbers; the source itself where it has none."""
    quantised = source.config.get("quantization_config")
    if not isinstance(quantised, dict) or quantised.get("quant_method") != METHOD:
        return source
    files = None if source.files is None else UnpackedFiles(source.files)
    config = {name: value for name, value in source.config.items() if name != "quantization_config"}
    return replace(source, config=config, files=files)
