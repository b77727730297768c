"""From stored tensors to the decoder's parameters: which goes where, whether it fits, and the loading itself.

Names and shapes are settled before anything is read. Nothing here knows any family.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from model.checkpoints.layouts import Fused, Piece, Rule, Shape, WeightMap
from model.checkpoints.source import Stored, TensorFile
from model.config import ModelConfig
from model.decoder import Decoder
from model.errors import CheckpointError, ShapeError
from model.rope import Rotary

ProgressCall = Callable[[int, int, str], None]
"""Called with done, total and what; it may raise :class:`~model.errors.Cancelled`."""

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


def empty_model(config: ModelConfig) -> Decoder:
    """The decoder that a config describes, on the meta device: shapes without numbers."""
    with torch.device("meta"), _Unfilled():
        return Decoder(config)


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


def plan(files: TensorFile, weights: WeightMap, model: Decoder, where: str, family: str) -> list[Placement]:
    """Decide what every stored tensor fills, and check names and shapes before anything is read.

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
    if model.config.tied:
        filled.setdefault("head.weight", "the embedding")
    _check_complete(parameters, filled, weights, where)
    return placements


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


def same_matrix(files: TensorFile, first: str, second: str) -> bool:
    """Whether two stored matrices are equal, compared in slices."""
    one, other = files.tensors[first], files.tensors[second]
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    a, b = files.read(first, torch.float32), files.read(second, torch.float32)
    return all(torch.equal(a[start : start + 4096], b[start : start + 4096]) for start in range(0, len(a), 4096))


# ----------------------------------------------------------------------------------------------------------------------
# Loading


def load(
    model: Decoder,
    placements: Sequence[Placement],
    files: TensorFile,
    *,
    device: torch.device,
    dtype: torch.dtype,
    progress: ProgressCall | None = None,
) -> None:
    """Read every tensor once, layer by layer, straight into the dtype and device asked for."""
    steps: dict[int, list[Placement]] = {}
    for placement in placements:
        steps.setdefault(_layer_of(placement), []).append(placement)
    for done, layer in enumerate(sorted(steps)):
        if progress is not None:
            progress(done, len(steps), "Loading the weights")
        for placement in steps[layer]:
            _read(model, placement, files, device, dtype)
    if model.config.tied:
        model.head.weight = model.embed.weight
    for module in model.rotaries:
        if isinstance(module, Rotary):
            module.place(device)
    if progress is not None:
        progress(len(steps), len(steps), "Loading the weights")


def _layer_of(placement: Placement) -> int:
    first = placement.targets[0]
    return int(first.split(".")[1]) if first.startswith("blocks.") else -1


def _read(model: Decoder, placement: Placement, files: TensorFile, device: torch.device, dtype: torch.dtype) -> None:
    stored, rule = files.read(placement.stored.name, dtype), placement.rule
    shapes = [tuple(model.get_parameter(target).shape) for target in placement.targets]
    for index, target in enumerate(placement.targets):
        part = rule.part(stored, index, shapes, model.config) if isinstance(rule, Fused) else stored
        value = _parameter(model, target, device, dtype)
        place = value if placement.row is None else value[placement.row]
        place.copy_(part.reshape(place.shape))
        _check_finite(place, part, placement.stored)


def _parameter(model: Decoder, target: str, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The memory of a parameter, made when it is first filled."""
    held = model.get_parameter(target)
    if held.is_meta:
        owner, _, leaf = target.rpartition(".")
        held = nn.Parameter(torch.empty(held.shape, dtype=dtype, device=device), requires_grad=False)
        setattr(model.get_submodule(owner), leaf, held)
    return held.data


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
