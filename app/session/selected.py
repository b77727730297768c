"""What may be selected, pointed at and pinned: plain records, which files keep and other processes read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal

from ropewalk.model.codec import stored


@stored("prompt layer head query key plane step")
@dataclass(frozen=True)
class Selection:
    """One cell of one head at one moment of the run. All numbers count from zero; ``step`` is the length in view."""

    prompt: int = 0
    layer: int = 0
    head: int = 0
    query: int = 0
    key: int = 0
    plane: int = 0
    step: int = 0

    def differences(self, other: Selection) -> frozenset[str]:
        """Names of the fields in which two selections differ."""
        return frozenset(f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name))


@stored("layer head text")
@dataclass(frozen=True)
class HeadNote:
    """What a person has written to a head."""

    layer: int
    head: int
    text: str


@stored("heads notes")
@dataclass(frozen=True)
class PinnedHeads:
    """Heads side by side, each (layer, head), in the order of the board; notes, by layer and head."""

    heads: tuple[tuple[int, int], ...] = ()
    notes: tuple[HeadNote, ...] = ()


NOTHING_PINNED: Final = PinnedHeads()


@dataclass(frozen=True)
class Bounds:
    """How far each field may go: exclusive upper ends."""

    prompts: int = 1
    layers: int = 1
    heads: int = 1
    rows: int = 1
    planes: int = 1


@dataclass(frozen=True)
class Hover:
    """What is under the pointer, None where nothing is.

    ``operation`` is a row of the ledger by its key; ``slot`` says which of its two the cache keeps for ``key``.
    """

    query: int | None = None
    key: int | None = None
    layer: int | None = None
    head: int | None = None
    plane: int | None = None
    operation: str | None = None
    slot: Literal["K", "V"] | None = None
