"""What a part of a run carries: put what passed there in one run into another, and measure what comes of it.

Of a clean and a corrupted run, row by row alike, and a metric m of the logits, each cell of a grid is

    m(the corrupted run, where what passes the point, of one head or all and in one row or all, is the clean run's)

which is activation patching, or causal tracing where the corrupted run was given noisy vectors (Meng et al. 2022,
arXiv:2202.05262). With receivers it is path patching (Wang et al. 2022, arXiv:2211.00593; Goldowsky-Dill et al. 2023,
arXiv:2304.05969). Then the corrupted run first runs with the cell's part clean while every other head's z and every
other MLP's output are held as they were; what reaches the receivers so is kept, and the metric is of the corrupted run
with that alone put into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.decoder.attention import Call
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import Change, intervening
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.intervention_contexts import changed_block, turned
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.errors import HookError, ShapeError, TraceError
from ropewalk.model.notebooks.frames import frame
from ropewalk.model.notebooks.metrics import LogitDifference, Measure
from ropewalk.model.notebooks.numbers import whole
from ropewalk.model.notebooks.pictures import coloured_signed, matrix
from ropewalk.model.notebooks.points import points_of
from ropewalk.model.notebooks.prompts import Batch
from ropewalk.model.readings.records import Doubles

Axis: TypeAlias = Literal["layer", "head", "position"]
Receiver: TypeAlias = str | tuple[str, int]
"""A hook point, or one head of it."""
HELD: Final = ("attn.hook_z", "hook_mlp_out")
"""What is held in every block while a part's own path is followed."""
FINAL: Final = "hook_final"
MOST_CELLS: Final = 64
MOST_NUMBERS: Final = 1 << 26
"""Patched copies that run together at most, and numbers of logits that these may hold."""


@dataclass(frozen=True, eq=False)
class Patch:
    """What patching each part gives.

    Attributes
    ----------
    at, axes
        The point, and what the axes of ``values`` count.
    values
        The metric with each part patched; NaN for a layer that has no such point.
    clean, corrupted
        The metric of the two runs themselves.
    tokens
        Those of the first clean prompt.
    """

    at: str
    axes: tuple[Axis, ...]
    values: Doubles
    clean: float
    corrupted: float
    tokens: Sequence[str] = ()

    @property
    def restored(self) -> Doubles:
        """(value − corrupted) ÷ (clean − corrupted): 1 where a part alone brings the clean answer back, 0 for nothing.

        Raises
        ------
        TraceError
            When the metric is the same of both runs.
        """
        if self.clean == self.corrupted:
            raise TraceError(
                f"The metric is {self.clean:.4g} of the clean and of the corrupted prompts, so there is nothing to "
                "restore; choose prompts or a metric that differ."
            )
        return (self.values - self.corrupted) / (self.clean - self.corrupted)

    def to_frame(self) -> Any:
        """A row for each cell."""
        return frame(
            {**dict(zip(self.axes, cell, strict=True)), "value": float(value)}
            for cell, value in np.ndenumerate(self.values)
        )

    def __repr__(self) -> str:
        """What was patched, without the numbers."""
        sizes = " × ".join(f"{size} {axis}s" for axis, size in zip(self.axes, self.values.shape, strict=True))
        return f"<Patch of {self.at}: {sizes}, corrupted {self.corrupted:.4g}, clean {self.clean:.4g}>"

    def _repr_html_(self) -> str:
        changes = self.values - self.corrupted
        named = {"layer": "L{}", "head": "H{}", "position": "{}"}
        sides = [
            [named[axis].format(at) for at in range(size)] for axis, size in zip(self.axes, changes.shape, strict=True)
        ]
        sides = [list(self.tokens) if axis == "position" else side for axis, side in zip(self.axes, sides, strict=True)]
        while len(sides) < 2:
            sides.insert(0, [""])
        rows = ["".join(row) for row in product(*sides[:-1])]
        cells = coloured_signed(changes.reshape(len(rows), -1))
        return matrix(cells, rows, sides[-1], f"{self.at} patched: {self.corrupted:.2f} → {self.clean:.2f}")


class Patching:
    """A corrupted run into which parts of a clean one are put.

    Parameters
    ----------
    clean, corrupted
        Prompts of the same shape; the corrupted ones may be vectors [B, T, D].
    measure
        Of logits [B, T, V] one number.
    cells
        Patched copies that run together at most.

    Raises
    ------
    ShapeError
        For prompts that are not equally long.
    """

    def __init__(
        self,
        model: Decoder,
        clean: Batch,
        corrupted: Batch,
        measure: Measure,
        interventions: Sequence[Intervention] = (),
        cells: int = MOST_CELLS,
    ) -> None:
        if clean.lengths != corrupted.lengths:
            raise ShapeError(
                f"The clean prompts have {_listed(clean)} tokens and the corrupted ones {_listed(corrupted)}, but rows "
                "take each other's place; make them equally long."
            )
        self.model, self.measure, self.interventions = model, measure, tuple(interventions)
        self.clean, self.corrupted = clean, corrupted
        self.batch, self.tokens = clean.inputs.shape[:2]
        numbers = self.batch * model.config.vocabulary * (1 if isinstance(measure, LogitDifference) else self.tokens)
        self.cells = max(1, min(cells, MOST_NUMBERS // numbers))

    @torch.no_grad()
    def grid(self, at: str, over: Axis | Sequence[Axis] | None = None, to: Sequence[Receiver] = ()) -> Patch:
        """Patch every part of a point.

        Parameters
        ----------
        at
            A hook point, or the short name of one in every layer.
        over
            Axes of the grid beside the layers, ``head`` and ``position``; along others a part is patched whole. By
            default heads where the point has them, else positions.
        to
            Receivers of path patching.

        Raises
        ------
        HookError
            For a point that there is not or that cannot be changed, and an axis that it does not have.
        """
        points, layers = points_of(self.model, at), self.model.config.layers
        over = [over] if isinstance(over, str) else over
        receivers = self._receivers(to)
        held = [f"blocks.{layer}.{part}" for layer in range(layers) for part in HELD] if to else []
        kept, _, clean = self._recorded(self.clean, points)
        passed, self._streams, corrupted = self._recorded(self.corrupted, {*held, *receivers})
        _check_heads(receivers, passed)
        holding = {name: passed[name] for name in held if name not in receivers}
        if not kept:
            raise HookError(f"{at!r} passes on the explicit branch alone and can only be read; patch 'q', 'k' or 'z'.")
        example = next(iter(kept.values()))
        axes = _axes(at, over, example)
        sizes = [example.shape[1] if axis == "head" else self.tokens for axis in axes]
        cells = [dict(zip(axes, cell, strict=True)) for cell in np.ndindex(*sizes)]
        alone = at in points
        values = np.full(sizes if alone else (layers, *sizes), np.nan)
        for name, layer in points.items():
            found: list[float] = []
            for start in range(0, len(cells), self.cells):
                some = cells[start : start + self.cells]
                changes: dict[str, Change] = {name: _placing(kept[name], some, holding.get(name))}
                first = layer
                if receivers:
                    changes = self._reaching(layer, changes, holding, receivers, len(some))
                    first = min((points_of(self.model, receiver)[receiver] for receiver in changes), default=layers)
                found += self._measured(first, changes, len(some)).tolist()
            values[() if alone else layer] = np.reshape(found, sizes)
        return Patch(at, axes if alone else ("layer", *axes), values, clean, corrupted)

    def _receivers(self, to: Sequence[Receiver]) -> dict[str, list[int] | None]:
        """Receivers by name, with the heads that are meant, None for all."""
        found: dict[str, list[int] | None] = {}
        for one in [to] if isinstance(to, str) else to:
            name, head = one if isinstance(one, tuple) and len(one) == 2 else (one, None)
            if name not in points_of(self.model, name):
                raise HookError(
                    f"A receiver is one hook point, such as 'blocks.1.attn.hook_q', but {name!r:.40} is several."
                )
            heads = found.setdefault(name, None if head is None else [])
            if heads is not None and head is not None:
                heads.append(head)
        return found

    def _reaching(
        self,
        layer: int,
        changes: dict[str, Change],
        holding: dict[str, Tensor],
        receivers: dict[str, list[int] | None],
        copies: int,
    ) -> dict[str, Change]:
        """What changes the receivers after a layer as its parts alone do, all else held."""
        held = {name: _holding(value, copies) for name, value in holding.items()}
        with recording(self.model, receivers) as reached:
            x = self._run(layer, {**held, **changes}, copies)
            if FINAL in receivers:
                self.model.finish(x)
        return {name: _receiving(reached[name], receivers[name]) for name in reached}

    # Running ----------------------------------------------------------------------------------------------------------

    def _recorded(self, batch: Batch, names: Iterable[str]) -> tuple[dict[str, Tensor], list[Tensor], float]:
        """What passes some points of a run as it is, the stream before each layer, and the metric."""
        with recording(self.model, names) as record:
            x, call = self._begun(batch, 1)
            streams = []
            for layer in range(self.model.config.layers):
                streams.append(x)
                x = self._block(layer, x, call)
            logits = self.model.finish(x)
        return dict(record), [*streams, x], float(self.measure(logits))

    def _begun(self, batch: Batch, copies: int) -> tuple[Tensor, Call]:
        inputs, positions, padding = (
            None if one is None else one.repeat(copies, *[1] * (one.ndim - 1))
            for one in (batch.inputs, batch.positions, batch.padding)
        )
        assert inputs is not None
        with turned(self.model, self.interventions):
            return self.model.begin(inputs, positions=positions, padding=padding)

    def _block(self, layer: int, x: Tensor, call: Call) -> Tensor:
        block = self.model.block(layer)
        with changed_block(block, layer, self.interventions):
            after: Tensor = block(x, call)
        return after

    def _run(self, first: int, changes: dict[str, Change], copies: int) -> Tensor:
        """The stream [n · B, T, D] of copies of the corrupted run, changed from a layer on, after the last layer."""
        with intervening(self.model, changes):
            x, call = self._begun(self.corrupted, copies)
            if first >= 0:  # before it nothing is changed
                x = self._streams[first].repeat(copies, 1, 1)
            for layer in range(max(first, 0), self.model.config.layers):
                x = self._block(layer, x, call)
        return x

    def _measured(self, first: int, changes: dict[str, Change], copies: int) -> Tensor:
        """The metric [n] of changed copies."""
        apart = self._run(first, changes, copies).unflatten(0, (copies, self.batch))  # type: ignore[no-untyped-call]
        if isinstance(self.measure, LogitDifference) and FINAL not in changes:
            rows = apart[:, torch.arange(self.batch), self.measure.last]  # [n, B, D]
            return self.measure.of_last(self.model.finish(rows))
        with intervening(self.model, {name: change for name, change in changes.items() if name == FINAL}):
            logits = self.model.finish(apart.flatten(0, 1))
        return torch.stack([self.measure(one) for one in logits.unflatten(0, (copies, self.batch))])  # type: ignore[no-untyped-call]


def _check_heads(receivers: dict[str, list[int] | None], passed: dict[str, Tensor]) -> None:
    for name, heads in receivers.items():
        there = passed[name].shape[1] if passed[name].ndim == 4 else 0
        outside = [head for head in heads or () if whole(head) is None or not 0 <= head < there]
        if outside:
            raise HookError(f"Head {outside[0]!r:.40} of {name!r} was to receive, but {there} heads pass there.")


def _listed(batch: Batch) -> str:
    return ", ".join(map(str, batch.lengths))


def _axes(at: str, over: Sequence[Axis] | None, example: Tensor) -> tuple[Axis, ...]:
    """The axes beside the layers, of a point where something like ``example`` passes."""
    if example.ndim not in (3, 4):
        raise HookError(
            f"What passes {at!r} has no rows of its own, so it cannot be patched; choose a point such as 'z'."
        )
    there: tuple[Axis, ...] = ("head", "position") if example.ndim == 4 else ("position",)
    for axis in over or ():
        if axis not in there:
            raise HookError(f"There is no axis {axis!r:.40} at {at!r}, which is patched over {' and '.join(there)}.")
    return there[:1] if over is None else tuple(axis for axis in there if axis in over)


def _placing(clean: Tensor, cells: Sequence[dict[Axis, int]], held: Tensor | None) -> Change:
    """Put the clean run's part into each copy: cell i into the rows of copy i, the rest as it is, or as it is held."""

    def change(x: Tensor) -> Tensor:
        x = x.clone() if held is None else _holding(held, len(cells))(x)
        for copy, cell in zip(x.view(len(cells), *clean.shape), cells, strict=True):
            index = tuple(
                cell.get(axis, slice(None)) for axis in (("head", "position") if clean.ndim == 4 else ("position",))
            )
            copy[:, *index] = clean[:, *index]
        return x

    return change


def _holding(value: Tensor, copies: int) -> Change:
    return lambda x: value.repeat(copies, *[1] * (value.ndim - 1))


def _receiving(value: Tensor, heads: Sequence[int] | None) -> Change:
    def change(x: Tensor) -> Tensor:
        if heads is None:
            return value
        x = x.clone()
        x[:, heads] = value[:, heads]
        return x

    return change
