"""From stored tensors to the decoder's parameters: which goes where, whether it fits, and the loading itself.

Names and shapes are settled before anything is read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ropewalk.model.checkpoints.families.layouts import Fused, Piece, Rule, Shape, WeightMap
from ropewalk.model.checkpoints.source import Part, Stored, TensorFile
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Block, Decoder
from ropewalk.model.decoder.packing import allocate
from ropewalk.model.decoder.rope import Rotary
from ropewalk.model.errors import CheckpointError, ShapeError
from ropewalk.model.progress import SLICE_SECONDS, Pace, Progress, Steps, Watch

ReadRows = Callable[[int, int], Tensor]
"""Reads rows of one parameter, from and to."""

REST = -1
"""Stands for everything that belongs to no layer; it is loaded last."""

FILLING = frozenset(("normal_", "uniform_", "kaiming_uniform_"))
NUMBER = re.compile(r"(?<=\.)(\d+)(?=\.)")
LETTERS = ("{l}", "{e}")


class _Unfilled(TorchFunctionMode):
    """Leaves new modules unfilled: drawing numbers on the meta device loads half of torch first, for nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func.__name__ in FILLING:
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def empty_model_steps(config: ModelConfig) -> Steps[Decoder]:
    """The decoder that a config describes, on the meta device: shapes without numbers. Many experts take seconds."""
    blocks: list[Block] = []
    watch = Watch()
    for layer in range(config.layers):
        with torch.device("meta"), _Unfilled():
            blocks.append(Block(config, layer))
        if watch.over:
            yield Progress(layer + 1, config.layers, "Building the model")
            watch.restart()
    with torch.device("meta"), _Unfilled():
        return Decoder(config, blocks=blocks)


def without_later_layers(model: Decoder, config: ModelConfig) -> Decoder:
    """A decoder on the meta device that keeps the first blocks of another one, as many as ``config`` has layers."""
    with torch.device("meta"), _Unfilled():
        return Decoder(config, blocks=[block for block in model.blocks[: config.layers] if isinstance(block, Block)])


@dataclass(frozen=True)
class Placement:
    """One stored tensor and what it fills: whole parameters, or row ``row`` of one."""

    stored: Stored
    rule: str | Fused | Piece
    targets: tuple[str, ...]
    row: int | None = None


def pattern_of(name: str) -> tuple[str, list[str]]:
    """A stored name with its numbers taken out, ``{l}`` for the first and ``{e}`` for the second."""
    numbers = NUMBER.findall(name)[:2]
    letters = iter(LETTERS)
    return NUMBER.sub(lambda match: next(letters, match.group()), name), numbers


def patterns_of(names: Iterable[str]) -> frozenset[str]:
    """The patterns of all stored names."""
    return frozenset(pattern_of(name)[0] for name in names)


def plan(
    files: TensorFile, weights: WeightMap, model: Decoder, where: str, family: str, headless: bool = False
) -> list[Placement]:
    """Decide what every stored tensor fills, and check names and shapes before anything is read.

    ``headless`` says that the last matrix may be missing.

    Raises
    ------
    CheckpointError
        For a weight that the family does not know, one that fills nothing here, and parameters that stay empty.
    ShapeError
        For a weight whose shape contradicts the config, with both shapes.
    """
    parameters = {name: tuple(value.shape) for name, value in model.named_parameters(remove_duplicate=False)}
    experts = model.config.moe.experts if model.config.moe is not None else 0
    placements: list[Placement] = []
    filled: dict[str, str] = {}
    for stored in files.tensors.values():
        placement = _place(stored, weights, experts, where, family)
        if placement is None or (model.config.tied and placement.targets == ("head.weight",)):
            continue
        _check_fit(placement, parameters, where)
        for target in placement.targets:
            key = target if placement.row is None else f"{target}[{placement.row}]"
            if key in filled:
                raise CheckpointError(
                    f"{where} holds both {filled[key]} and {stored.name}, which are the same weight; remove one."
                )
            filled[key] = stored.name
        placements.append(placement)
    if model.config.tied or headless:
        filled.setdefault("head.weight", "the embedding")
    if headless:
        filled.setdefault("head.bias", "nothing")
    _check_complete(parameters, filled, weights, where)
    return placements


def of_first_layers(placements: Sequence[Placement], layers: int) -> list[Placement]:
    """What fills the first ``layers`` layers, and what belongs to none."""
    return [one for one in placements if _layer_of(one) == REST or _layer_of(one) < layers]


def _place(stored: Stored, weights: WeightMap, experts: int, where: str, family: str) -> Placement | None:
    pattern, numbers = pattern_of(stored.name)
    if pattern not in weights or any(len(number) > 6 or (number[0] == "0" and number != "0") for number in numbers):
        raise CheckpointError(
            f"{where} holds the weight {stored.name!r:.120}, which the family {family} does not have; Ropewalk opens "
            "nothing that it would have to leave out silently."
        )
    rule = weights[pattern]
    if rule is None:
        return None
    if isinstance(rule, Piece):
        return Placement(stored, rule, (_filled(rule.target, numbers),), int(numbers[-1]))
    targets = (rule,) if isinstance(rule, str) else rule.targets
    if isinstance(rule, Fused) and rule.stacked:
        targets = tuple(target.replace("{e}", str(expert)) for expert in range(experts) for target in targets)
    return Placement(stored, rule, tuple(_filled(target, numbers) for target in targets))


def _filled(target: str, numbers: Sequence[str]) -> str:
    for letter, number in zip(LETTERS, numbers, strict=False):
        target = target.replace(letter, number)
    return target


def _check_fit(placement: Placement, parameters: Mapping[str, Shape], where: str) -> None:
    stored, rule = placement.stored, placement.rule
    absent = [target for target in placement.targets if target not in parameters]
    if absent or not placement.targets:
        part = f" ({absent[0]})" if absent else ""
        raise CheckpointError(
            f"{where} holds the weight {stored.name}, but by its config this model has no such part{part}; the weights "
            "and the config belong to different models."
        )
    shapes = [parameters[target] for target in placement.targets]
    fits: tuple[Shape, ...]
    if isinstance(rule, Fused):
        fits = (rule.joined(shapes),)
    elif placement.row is not None:
        fits = (shapes[0][-1:],)
    else:
        fits = (shapes[0], tuple(size for size in shapes[0] if size != 1) or (1,))
    within = placement.row is None or placement.row < shapes[0][0]
    if stored.shape not in fits or not within:
        raise ShapeError(
            f"{stored.name} in {stored.file.name} has shape {list(stored.shape)}, but the config asks for "
            f"{list(fits[0])}; the weights and the config belong to different models."
        )


def _check_complete(parameters: Mapping[str, Shape], filled: Mapping[str, str], weights: WeightMap, where: str) -> None:
    empty = [name for name, shape in parameters.items() if name not in filled and not _has_rows(name, shape, filled)]
    if not empty:
        return
    wanted = pattern_of(empty[0])[0]
    sources = [source for source, rule in weights.items() if wanted in _targets(rule)]
    named = f" (stored as {sources[0]})" if sources else ""
    more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
    raise CheckpointError(
        f"{where} lacks the weight for {empty[0]}{named}{more}; the download is not complete or the config is of "
        "another model."
    )


def _has_rows(name: str, shape: Shape, filled: Mapping[str, str]) -> bool:
    return f"{name}[0]" in filled and all(f"{name}[{row}]" in filled for row in range(shape[0]))


def _targets(rule: Rule) -> tuple[str, ...]:
    if rule is None:
        return ()
    if isinstance(rule, str):
        return (rule,)
    return (rule.target,) if isinstance(rule, Piece) else rule.targets


def stored_under(target: str, weights: WeightMap, files: TensorFile) -> str | None:
    """The stored name that is parameter ``target`` as a whole, None where there is none."""
    return next((name for name in files.tensors if weights.get(pattern_of(name)[0]) == target), None)


def same_matrix_steps(files: TensorFile, first: str, second: str, pieces: int | None = None) -> Steps[bool]:
    """Whether two stored matrices are equal, compared in pieces; at most so many of those where a number is given."""
    one, other = files.tensors[first], files.tensors[second]
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    pace, watch = _pace(), Watch()
    for rows in islice(_pieces(one.shape, pace), pieces):
        part = Part(rows=rows)
        if not torch.equal(files.read(first, torch.float32, part), files.read(second, torch.float32, part)):
            return False
        if watch.over:
            yield Progress(rows[1], one.shape[0], "Comparing the first and the last matrix")
            watch.restart()
    return True


# ----------------------------------------------------------------------------------------------------------------------
# Loading


def load_steps(
    model: Decoder,
    placements: Sequence[Placement],
    files: TensorFile,
    *,
    device: torch.device,
    dtype: torch.dtype,
    large_pages: bool = False,
) -> Steps[None]:
    """Read every tensor once, layer by layer, straight into the dtype and device asked for.

    Pauses after every slice of time, in the middle of a tensor where it is large.
    """
    layers: dict[int, list[Placement]] = {}
    for placement in placements:
        layers.setdefault(_layer_of(placement), []).append(placement)
    pace, watch = _pace(), Watch()
    for done, layer in enumerate(sorted(layers, key=lambda layer: (layer == REST, layer))):
        point = Progress(done, len(layers), "Loading the weights")
        yield point
        watch.restart()
        allocate(model if layer == REST else model.blocks[layer], dtype, device, large_pages)
        for placement in layers[layer]:
            for _ in _filling(model, placement, files, dtype, pace):
                if watch.over:
                    yield point
                    watch.restart()
    if model.config.tied:
        model.head.weight = model.embed.weight
    for module in model.rotaries:
        if isinstance(module, Rotary):
            module.place(device)
    yield Progress(len(layers), len(layers), "Loading the weights")


def _layer_of(placement: Placement) -> int:
    first = placement.targets[0]
    return int(first.split(".")[1]) if first.startswith("blocks.") else REST


def _filling(model: Decoder, placement: Placement, files: TensorFile, dtype: torch.dtype, pace: Pace) -> Iterator[None]:
    """Copy a stored tensor to where it belongs, and pause after every piece."""
    for place, rows_of in _readers(model, placement, files, dtype):
        for first, last in _pieces(place.shape, pace):
            began = time.perf_counter()
            piece, target = rows_of(first, last), place[first:last]
            target.copy_(piece)
            _check_finite(target, piece, placement.stored)
            if 2 * piece.numel() > pace.size:  # a small tensor says nothing about large ones
                pace.took(time.perf_counter() - began)
            yield


def _readers(
    model: Decoder, placement: Placement, files: TensorFile, dtype: torch.dtype
) -> Iterator[tuple[Tensor, ReadRows]]:
    """What a stored tensor fills, and for each how rows of it are read."""
    stored, rule = placement.stored, placement.rule
    places = [model.get_parameter(target).data for target in placement.targets]
    if not isinstance(rule, Fused):
        place = places[0] if placement.row is None else places[0][placement.row]
        yield place.view(stored.shape or (1,)), _lying(files, stored.name, dtype, None, 0)
        return
    shapes = [tuple(place.shape) for place in places]
    mixed: tuple[int | None, Tensor] | None = None
    for index, place in enumerate(places):
        expert, start = rule.position(index, shapes)
        if start is not None:
            yield place, _lying(files, stored.name, dtype, expert, start)
            continue
        if mixed is None or mixed[0] != expert:
            mixed = expert, files.read(stored.name, dtype, Part(expert))
        yield place, _handle(rule.part(mixed[1], index, shapes, model.config))


def _lying(files: TensorFile, name: str, dtype: torch.dtype, expert: int | None, start: int) -> ReadRows:
    """Reads rows of a parameter whose row 0 is row ``start`` of what is stored."""
    return lambda first, last: files.read(name, dtype, Part(expert, (start + first, start + last)))


def _handle(whole: Tensor) -> ReadRows:
    return lambda first, last: whole[first:last]


def _pace() -> Pace:
    return Pace(1 << 18, 1 << 23, seconds=SLICE_SECONDS / 4)


def _pieces(shape: Shape, pace: Pace) -> Iterator[tuple[int, int]]:
    """Rows from and to, each piece as large as the pace allows."""
    numbers, start = prod(shape[1:]), 0
    while start < shape[0]:
        stop = min(shape[0], start + max(1, pace.size // numbers))
        yield start, stop
        start = stop


def _check_finite(value: Tensor, part: Tensor, stored: Stored) -> None:
    if bool(torch.isfinite(value.sum(dtype=torch.float32))) or bool(torch.isfinite(value).all()):
        return
    wide = part.float()
    if bool(torch.isfinite(wide).all()):
        raise CheckpointError(
            f"{stored.name} in {stored.file.name} holds numbers up to {wide.abs().max():.3g}, more than "
            f"{str(value.dtype).removeprefix('torch.')} can hold; open it in bfloat16 or float32."
        )
    raise CheckpointError(
        f"{stored.name} in {stored.file.name} holds NaN or infinite numbers where every weight must be finite; the "
        "file is damaged or its training failed, so use another copy."
    )
