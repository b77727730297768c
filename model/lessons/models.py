"""The models a lesson works with, as plain data: which one, what to run on it, and what to change in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.lessons.toy_spec import ToySpec
from ropewalk.model.lessons.values import Head

ModelKind = Literal["bundled", "open", "toy", "shapes"]


@dataclass(frozen=True)
class LessonModel:
    """One model of a lesson.

    Attributes
    ----------
    name
        What the lesson calls it; ``main`` for the one it opens with.
    kind
        ``bundled``; ``open``, whatever the person has open; ``toy``, built from numbers; ``shapes``, a config alone.
    prompt
        What to run on it; empty where nothing is to be run (``open`` keeps its run).
    others
        Further sequences of the same length that make a batch with the prompt. The window shows the first alone.
    toy
        Of a toy, its numbers.
    config
        Of a toy or a config alone, the sizes; None where they are the file's.
    tokens, past, batch, dtype
        Of a config alone, the call that its ledger describes.
    """

    name: str
    kind: ModelKind
    prompt: str = ""
    others: tuple[str, ...] = ()
    toy: ToySpec | None = None
    config: ModelConfig | None = None
    tokens: int = 10
    past: int = 0
    batch: int = 1
    dtype: str = "bfloat16"


def ablations(heads: Sequence[Head]) -> tuple[AblateHeads, ...]:
    """The change that sets some heads to zero: one intervention for each of their layers."""
    layers = sorted({head.layer for head in heads})
    return tuple(AblateHeads(layer, tuple(one.head for one in heads if one.layer == layer)) for layer in layers)
