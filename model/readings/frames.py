"""Frames: a rectangle of one head on a pixel grid, whose lines stay where they are while somebody pans.

What the pixels are worth is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.model.decoder.scores import Span, key_range
from ropewalk.model.errors import TraceError
from ropewalk.model.readings.readout import checked_span
from ropewalk.model.readings.records import Reduction
from ropewalk.model.runs.layer_trace import LayerTrace


@dataclass(frozen=True)
class Frame:
    """A rectangle of one head on a pixel grid.

    Attributes
    ----------
    rows, columns
        Half-open ranges of query and key rows; they start at a multiple of ``cell``.
    cell
        Query rows and key rows under one pixel.
    raw
        Whether scores before the mask are wanted; where all is hidden, they are the only thing to compute.
    """

    head: int
    rows: Span
    columns: Span
    cell: tuple[int, int]
    reduction: Reduction
    raw: bool
    batch: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """[h, w] in pixels."""
        return _pixels(self.rows, self.cell[0]), _pixels(self.columns, self.cell[1])

    @property
    def cells(self) -> int:
        """Cells of the rectangle."""
        return (self.rows[1] - self.rows[0]) * (self.columns[1] - self.columns[0])


@dataclass(frozen=True, eq=False)
class Pixels:
    """A frame in pixels: [h, w] float32, and where anything is visible; ``raw`` is None where it was not wanted."""

    scores: Tensor
    weights: Tensor
    visible: Tensor
    raw: Tensor | None

    @classmethod
    def empty(cls, frame: Frame, device: torch.device) -> Pixels:
        """Memory for a frame."""
        scores, weights = torch.empty(2, *frame.shape, device=device)
        raw = torch.empty(frame.shape, device=device) if frame.raw else None
        return cls(scores, weights, torch.empty(frame.shape, dtype=torch.bool, device=device), raw)

    def to(self, dtype: torch.dtype) -> Pixels:
        """The same, or a copy in another dtype."""
        if self.scores.dtype == dtype:
            return self
        raw = None if self.raw is None else self.raw.to(dtype)
        return Pixels(self.scores.to(dtype), self.weights.to(dtype), self.visible, raw)

    def part(self, place: tuple[slice, slice]) -> Pixels:
        """A rectangle of them; nothing is copied."""
        raw = None if self.raw is None else self.raw[place]
        return Pixels(self.scores[place], self.weights[place], self.visible[place], raw)

    def put(self, place: tuple[slice, slice], other: Pixels) -> None:
        """Copy others to a rectangle."""
        for to, here in zip(self.arrays, other.arrays, strict=True):
            to[place] = here

    @property
    def arrays(self) -> list[Tensor]:
        """All of them."""
        return [self.scores, self.weights, self.visible, *([] if self.raw is None else [self.raw])]

    @property
    def bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)


def frame_of(
    layer: LayerTrace,
    head: int,
    rows: Span | None,
    columns: Span | None,
    pixels: int,
    *,
    reduction: Reduction = "max",
    raw: bool = True,
    batch: int = 0,
) -> Frame:
    """Lay a rectangle on a pixel grid whose lines stay where they are when it moves."""
    layer.check_head(head)
    if reduction not in ("max", "mean", "sampled"):
        raise TraceError(f"A picture reduced by {reduction!r} was asked for; it can be max, mean or sampled.")
    if pixels < 1:
        raise TraceError(f"A picture of {pixels} pixels was asked for, but it needs at least one.")
    rows, columns = checked_span(rows, layer.length, "Rows"), checked_span(columns, layer.length, "Columns")
    high, wide = _cell(rows, pixels), _cell(columns, pixels)
    rows, columns = _aligned(rows, high, layer.length), _aligned(columns, wide, layer.length)
    how: Reduction = "exact" if high == wide == 1 else reduction
    return Frame(head, rows, columns, (high, wide), how, raw, batch)


def _cell(span: Span, pixels: int) -> int:
    """Cells a pixel must cover, so that the span, widened to whole pixels, still fits."""
    cell = -(-(span[1] - span[0]) // pixels)
    while cell > 1 and -(-span[1] // cell) - span[0] // cell > pixels:
        cell += 1
    return cell


def _aligned(span: Span, cell: int, length: int) -> Span:
    return span[0] // cell * cell, min(-(-span[1] // cell) * cell, length)


def _pixels(span: Span, cell: int) -> int:
    return -(-(span[1] - span[0]) // cell)


def reaches(layer: LayerTrace, frame: Frame) -> bool:
    """Whether any cell of a frame is visible, padding aside."""
    low, high = key_range(layer.spec, frame.rows, layer.length)
    return frame.columns[0] < high and frame.columns[1] > low


def starts(span: Span, cell: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The first cell of each pixel along an axis, and where it ends."""
    first = torch.arange(span[0], span[1], cell, device=device)
    return first, (first + cell).clamp_max(span[1])
