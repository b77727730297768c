"""From stored tensors to the decoder's parameters: which goes where, whether it fits, and the loading itself.

A family's weight map is data: a pattern of the stored name, and a rule that says which parameters it fills. ``None``
means that the tensor is left out on purpose. Nothing here knows any family.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from model.checkpoints.source import Stored, TensorFile
from model.config import ModelConfig
from model.decoder import Decoder
from model.errors import CheckpointError, ShapeError

Shape = tuple[int, ...]
ProgressCall = Callable[[int, int, str], None]
"""Called with done, total and what; it may raise :class:`~model.errors.Cancelled`."""


@dataclass(frozen=True)
class Fused:
    """One stored tensor that holds several parameters.

    Attributes
    ----------
    targets
        The parameters, in the order in which they lie.
    layout
        ``rows``: one after the other along the rows. ``per_head``: for every head its q, then k, then v rows
        (GPT-NeoX).
    """

    targets: tuple[str, ...]
    layout: Literal["rows", "per_head"] = "rows"

    def joined(self, shapes: Sequence[Shape]) -> Shape:
        """The stored shape that parameters of ``shapes`` make together."""
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def part(self, stored: Tensor, index: int, shapes: Sequence[Shape], config: ModelConfig) -> Tensor:
        """Parameter ``index``, cut from the stored tensor."""
        if self.layout == "per_head":
            return stored.view(config.heads, len(shapes), -1, *stored.shape[1:])[:, index].flatten(0, 1)
        start = sum(shape[0] for shape in shapes[:index])
        return stored[start : start + shapes[index][0]]


Rule = str | Fused | None
WeightMap = Mapping[str, Rule]


@dataclass(frozen=True)
class Placement:
    """One stored tensor and the parameters it fills."""

    stored: Stored
    rule: str | Fused
    targets: tuple[str, ...]


def _pattern(source: str) -> re.Pattern[str]:
    """A regular expression for a source name, ``{l}`` and ``{e}`` standing for a layer and an expert."""
    escaped = re.escape(source)
    for letter in "le":
        escaped = escaped.replace(re.escape(f"{{{letter}}}"), rf"(?P<{letter}>0|[1-9]\d{{0,5}})")
    return re.compile(escaped)


def _filled(target: str, match: re.Match[str]) -> str:
    for letter, number in match.groupdict().items():
        target = target.replace(f"{{{letter}}}", number)
    return target


def plan(files: TensorFile, weights: WeightMap, model: Decoder, where: str) -> list[Placement]:
    """Decide what every stored tensor fills, and check names and shapes before anything is read.

    Raises
    ------
    CheckpointError
        For a weight that the family does not know, one that fills nothing here, and parameters that stay empty.
    ShapeError
        For a weight whose shape contradicts the config, with both shapes.
    """
    parameters = {name: tuple(value.shape) for name, value in model.named_parameters(remove_duplicate=False)}
    patterns = [(_pattern(source), rule) for source, rule in weights.items()]
    placements: list[Placement] = []
    filled: dict[str, str] = {}
    for stored in files.tensors.values():
        placement = _place(stored, patterns, where)
        if placement is None:
            continue
        if model.config.tied and placement.targets == ("head.weight",):
            continue
        _check_fit(placement, parameters, where)
        for target in placement.targets:
            if target in filled:
                raise CheckpointError(
                    f"{where} holds both {filled[target]} and {stored.name}, which are the same weight; remove one."
                )
            filled[target] = stored.name
        placements.append(placement)
    if model.config.tied:
        filled.setdefault("head.weight", "the embedding")
    _check_complete(parameters, filled, weights, where)
    return placements


def _place(stored: Stored, patterns: Sequence[tuple[re.Pattern[str], Rule]], where: str) -> Placement | None:
    for pattern, rule in patterns:
        match = pattern.fullmatch(stored.name)
        if match is None:
            continue
        if rule is None:
            return None
        targets = (rule,) if isinstance(rule, str) else rule.targets
        return Placement(stored, rule, tuple(_filled(target, match) for target in targets))
    raise CheckpointError(
        f"{where} holds the weight {stored.name!r:.120}, which this family does not have; Ropewalk opens nothing that "
        "it would have to leave out silently."
    )


def _check_fit(placement: Placement, parameters: Mapping[str, Shape], where: str) -> None:
    stored = placement.stored
    absent = [target for target in placement.targets if target not in parameters]
    if absent:
        raise CheckpointError(
            f"{where} holds the weight {stored.name}, but by its config this model has no such part "
            f"({absent[0]}); the weights and the config belong to different models."
        )
    shapes = [parameters[target] for target in placement.targets]
    expected = shapes[0] if isinstance(placement.rule, str) else placement.rule.joined(shapes)
    if stored.shape != expected:
        raise ShapeError(
            f"{stored.name} in {stored.file.name} has shape {list(stored.shape)}, but the config asks for "
            f"{list(expected)}; the weights and the config belong to different models."
        )


def _check_complete(parameters: Mapping[str, Shape], filled: Mapping[str, str], weights: WeightMap, where: str) -> None:
    empty = [name for name in parameters if name not in filled]
    if not empty:
        return
    wanted = re.sub(r"\.\d+\.", ".{l}.", empty[0], count=1)
    sources = [
        source for source, rule in weights.items()
        if rule == wanted or (isinstance(rule, Fused) and wanted in rule.targets)
    ]  # fmt: skip
    named = f" (stored as {sources[0]})" if sources else ""
    more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
    raise CheckpointError(
        f"{where} lacks the weight for {empty[0]}{named}{more}; the download is not complete or the config is of "
        "another model."
    )


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
        module.to_empty(device=device)
    if progress is not None:
        progress(len(steps), len(steps), "Loading the weights")


def _layer_of(placement: Placement) -> int:
    first = placement.targets[0]
    return int(first.split(".")[1]) if first.startswith("blocks.") else -1


def _read(model: Decoder, placement: Placement, files: TensorFile, device: torch.device, dtype: torch.dtype) -> None:
    stored = files.read(placement.stored.name)
    shapes = [tuple(model.get_parameter(target).shape) for target in placement.targets]
    for index, target in enumerate(placement.targets):
        rule = placement.rule
        part = stored if isinstance(rule, str) else rule.part(stored, index, shapes, model.config)
        value = torch.empty(part.shape, dtype=dtype, device=device)
        value.copy_(part)
        _check_finite(value, part, placement.stored)
        owner, _, leaf = target.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(value, requires_grad=False))


def _check_finite(value: Tensor, part: Tensor, stored: Stored) -> None:
    if bool(torch.isfinite(value.sum(dtype=torch.float32))) or bool(torch.isfinite(value).all()):
        return
    if bool(torch.isfinite(part.float()).all()):
        raise CheckpointError(
            f"{stored.name} in {stored.file.name} holds numbers up to {part.float().abs().max():.3g}, more than "
            f"{str(value.dtype).removeprefix('torch.')} can hold; open it in bfloat16 or float32."
        )
    raise CheckpointError(
        f"{stored.name} in {stored.file.name} holds NaN or infinite numbers where every weight must be finite; the "
        "file is damaged or its training failed, so use another copy."
    )
