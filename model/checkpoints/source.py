"""What every container format yields: a config in Hugging Face spelling, named tensors, and where the tokenizer is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ropewalk.model.checkpoints.families.layouts import WeightMap
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.options import Options
from ropewalk.model.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class Stored:
    """One tensor in a file, described without reading it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    file: Path


@dataclass(frozen=True)
class Part:
    """A part of a stored tensor, so that large ones can be read in pieces.

    Attributes
    ----------
    expert
        Which matrix, where the first axis is the expert; None for a tensor that is no stack.
    rows
        Rows of the first axis after that; None for all.
    """

    expert: int | None = None
    rows: tuple[int, int] | None = None

    def of(self, tensor: Tensor) -> Tensor:
        """The part as a view of the whole tensor; a single number counts as a row."""
        one = tensor if self.expert is None else tensor[self.expert]
        return one if self.rows is None else (one if one.ndim else one.view(1))[slice(*self.rows)]

    def place(self, shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """How many numbers lie before the part in a whole tensor of this shape, and the shape of the part."""
        before = 0
        if self.expert is not None:
            shape = shape[1:]
            before = self.expert * prod(shape)
        if self.rows is not None:
            shape = shape or (1,)
            first, last = self.rows[0], min(self.rows[1], shape[0])
            before += first * prod(shape[1:])
            shape = (max(0, last - first), *shape[1:])
        return before, shape


WHOLE = Part()


class TensorFile(Protocol):
    """Tensors by name; a tensor is read when it is asked for, from its file."""

    @property
    def tensors(self) -> Mapping[str, Stored]:
        """Every tensor, described."""
        ...

    def read(self, name: str, dtype: torch.dtype, part: Part = WHOLE) -> Tensor:
        """A part of the tensor on the CPU, as it is stored; in ``dtype`` where the format has to convert it anyway.

        It may be a view of the file.
        """
        ...

    def close(self) -> None:
        """Let go of the files."""
        ...


@dataclass(frozen=True)
class Question:
    """Something that a file leaves open.

    Attributes
    ----------
    option
        The name of the option that answers it.
    sentence
        What is asked, for a person.
    choices
        The answers that fit the file; any positive number when empty.
    assumed
        What was taken in the absence of an answer.
    """

    option: str
    sentence: str
    choices: tuple[int, ...]
    assumed: int


@dataclass(frozen=True)
class Source:
    """A checkpoint before it is loaded.

    Attributes
    ----------
    path, name
        The file or folder, and what to call it on screen.
    config
        The config in Hugging Face spelling, ``model_type`` included.
    files
        The tensors; None where there are only shapes.
    config_name
        How to name the place the config comes from in a sentence.
    weights
        Where each stored name goes, for a format with names of its own; None for the family's own names.
    adjust
        What the format changes in the finished config: facts that the Hugging Face spelling cannot hold.
    tokenizer
        Reads the tokenizer; returns None where there is none.
    ends
        Tokens that end a text, as the files beside the weights list them; the tokenizer may know more.
    questions
        What the file leaves open and was assumed.
    notes
        What was inferred or left out, in sentences.
    """

    path: Path
    name: str
    config: Mapping[str, Any]
    files: TensorFile | None
    config_name: str = "config.json"
    weights: WeightMap | None = None
    adjust: Callable[[ModelConfig], ModelConfig] | None = None
    tokenizer: Callable[[], Tokenizer | None] = lambda: None
    ends: tuple[int, ...] = ()
    questions: tuple[Question, ...] = ()
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Format:
    """One container format.

    Attributes
    ----------
    name
        What to call it.
    recognises
        Whether a path looks like one, by its name and what lies beside or inside it.
    open
        Reads descriptions, not tensors.
    """

    name: str
    recognises: Callable[[Path], bool]
    open: Callable[[Path, Options], Source]
