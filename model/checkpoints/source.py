"""What every container format yields: a config in Hugging Face spelling, named tensors, and where the tokenizer is.

Nothing here knows a file format or a family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor


@dataclass(frozen=True)
class Stored:
    """One tensor in a file, described without reading it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    file: Path


class TensorFile(Protocol):
    """Tensors by name; a tensor is read when it is asked for, through mmap where the format allows."""

    tensors: Mapping[str, Stored]

    def read(self, name: str) -> Tensor:
        """The tensor as it is stored, on the CPU; it may be a view of the file."""
        ...

    def close(self) -> None:
        """Let go of the files."""
        ...


@dataclass(frozen=True)
class Source:
    """A checkpoint before it is loaded.

    Attributes
    ----------
    path, name
        The file or folder, and what to call it on screen.
    config
        The config in Hugging Face spelling, ``model_type`` included.
    config_name
        How to name the place the config comes from in a sentence.
    files
        The tensors; None where there are only shapes.
    tokenizer
        Files a tokenizer may be read from, best first.
    notes
        What was inferred or left out, in sentences.
    """

    path: Path
    name: str
    config: Mapping[str, Any]
    files: TensorFile | None
    config_name: str = "config.json"
    tokenizer: tuple[Path, ...] = ()
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Format:
    """One container format.

    Attributes
    ----------
    name
        What to call it.
    recognises
        Whether a path looks like one, without reading more than its name and first bytes.
    open
        Reads descriptions, not tensors.
    """

    name: str
    recognises: Callable[[Path], bool]
    open: Callable[[Path], Source]
