"""What a toy model is: a decoder so small that its weights stand in a lesson file, as plain data that checks itself.

A toy has words instead of a tokenizer, one embedding row a word, and weights given as numbers (or drawn from a seed).
``model.lessons.toys`` builds it; no torch here, so that a lesson file can be checked without it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.errors import LessonError

Init = Literal["engine", "library", "zeros"]
"""How weights that are not given are drawn: N(0, 1/fan-in) as the engine does, as torch's own layers do, or not at
all."""

Numbers: TypeAlias = float | tuple["Numbers", ...]
Fill = Literal["identity", "zeros", "ones"]

SHAPES: Final[Mapping[str, tuple[str, ...]]] = {
    "embed": ("V", "D"),
    "place": ("P", "D"),
    "head": ("V", "D"),
    "norm": ("D",),
    "blocks.*.attn_norm": ("D",),
    "blocks.*.mlp_norm": ("D",),
    "blocks.*.attn_post_norm": ("D",),
    "blocks.*.mlp_post_norm": ("D",),
    "blocks.*.attn.query": ("H·Dh", "D"),
    "blocks.*.attn.key": ("Hkv·Dh", "D"),
    "blocks.*.attn.value": ("Hkv·Dh", "D"),
    "blocks.*.attn.output": ("D", "H·Dh"),
    "blocks.*.attn.query_norm": ("Dh",),
    "blocks.*.attn.key_norm": ("Dh",),
    "blocks.*.mlp.gate": ("F", "D"),
    "blocks.*.mlp.up": ("F", "D"),
    "blocks.*.mlp.down": ("D", "F"),
}
"""Weights that a toy may be given, ``*`` for a layer, with their shapes in letters (P: positions)."""


@dataclass(frozen=True)
class ToySpec:
    """A toy.

    Attributes
    ----------
    words
        The vocabulary: one word for each row of the embedding, without white space.
    weights
        Name of a weight (:data:`SHAPES`) → its numbers, or a word for them. For a matrix, a flat list is its diagonal.
    mlp_writes
        One row [D] for each word of ``prompt``: the last layer's W_down is solved so that the MLP writes just these.
    prompt
        The words that ``mlp_writes`` is for.
    init, seed
        How the other matrices are made.
    """

    config: ModelConfig
    words: tuple[str, ...]
    weights: tuple[tuple[str, Numbers | Fill], ...] = ()
    mlp_writes: tuple[tuple[float, ...], ...] = ()
    prompt: str = ""
    init: Init = "engine"
    seed: int = 0

    def __post_init__(self) -> None:
        c = self.config
        if len(self.words) != c.vocabulary:
            raise LessonError(
                f"The toy has {len(self.words)} words, but its vocabulary is {c.vocabulary}; each word needs one row."
            )
        counts = Counter(self.words)
        for word in self.words:
            if not word or any(sign.isspace() for sign in word) or counts[word] > 1:
                raise LessonError(f"The toy's word {word!r} is empty, holds a space, or stands there twice.")
        if self.init not in get_args(Init):
            raise LessonError(f"The toy's init is {self.init!r}, but it must be one of {', '.join(get_args(Init))}.")
        for name, value in self.weights:
            check_weight(c, name, value)
        if self.mlp_writes:
            _check_writes(self)

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of ``prompt``."""
        return ids_of(self.prompt, self.words)


def ids_of(text: str, words: tuple[str, ...]) -> tuple[int, ...]:
    """Ids of a toy's text.

    Raises
    ------
    LessonError
        For a word that the toy does not have.
    """
    places = {word: place for place, word in enumerate(words)}
    unknown = [word for word in text.split() if word not in places]
    if unknown:
        shown = ", ".join(words[:12]) + (", …" if len(words) > 12 else "")
        raise LessonError(f"The toy has no word {unknown[0]!r}; it has {shown}.")
    return tuple(places[word] for word in text.split())


def weight_shape(config: ModelConfig, name: str) -> tuple[int, ...]:
    """The shape of a weight by name.

    Raises
    ------
    LessonError
        When toys have no such weight, or this one has no such layer.
    """
    match = re.fullmatch(r"blocks\.(\d+)\.(.+)", name)
    pattern = name if match is None else f"blocks.*.{match[2]}"
    if pattern not in SHAPES:
        raise LessonError(f"There is no weight {name!r}; a toy's weights are {', '.join(SHAPES)}.")
    if match is not None and int(match[1]) >= config.layers:
        raise LessonError(f"The weight {name!r} is of layer {match[1]}, but the toy has {config.layers} of them.")
    c = config
    letters = {
        "V": c.vocabulary,
        "P": c.max_position,
        "D": c.width,
        "F": c.mlp_width,
        "Dh": c.head_width,
        "H·Dh": c.heads * c.head_width,
        "Hkv·Dh": c.kv_heads * c.head_width,
    }
    return tuple(letters[letter] for letter in SHAPES[pattern])


def check_weight(config: ModelConfig, name: str, value: Any) -> None:
    """Refuse numbers that do not fit a weight, with both shapes.

    Raises
    ------
    LessonError
        For another shape, or a word that is no way to fill one.
    """
    wanted = weight_shape(config, name)
    if isinstance(value, str):
        if value not in get_args(Fill):
            raise LessonError(
                f"The weight {name!r} is {value!r}; write numbers, or one of {', '.join(get_args(Fill))}."
            )
        return
    found = _shape_of(value, name)
    diagonal = len(wanted) == 2 and found == (min(wanted),)
    if found != wanted and not diagonal:
        raise LessonError(
            f"The weight {name!r} is {_written(found)}, but this toy's config makes it {_written(wanted)}."
        )


def _check_writes(toy: ToySpec) -> None:
    rows, width = len(toy.ids), toy.config.width
    found = _shape_of(toy.mlp_writes, "mlp_writes")
    if found != (rows, width):
        raise LessonError(
            f"mlp_writes is {_written(found)}, but the prompt {toy.prompt!r} and D make it {rows}×{width}."
        )


def _shape_of(value: Any, name: str) -> tuple[int, ...]:
    """The shape of nested lists of numbers."""
    if isinstance(value, bool) or not isinstance(value, tuple | int | float):
        raise LessonError(f"The weight {name!r} holds {value!r}, which is no number.")
    if not isinstance(value, tuple):
        if not math.isfinite(value):
            raise LessonError(f"The weight {name!r} holds {value}, which is no finite number.")
        return ()
    inner = {_shape_of(item, name) for item in value}
    if len(inner) != 1:
        raise LessonError(f"The rows of the weight {name!r} are not all of one length.")
    return (len(value), *inner.pop())


def _written(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a number"
