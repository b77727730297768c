"""Merging a LoRA adapter into the decoder's weights: W + α/r · B · A (Hu et al. 2021, arXiv:2106.09685).

An adapter names modules of the family as transformers has them; the family's weight map says which parameters each is
here, so that fused and transposed matrices are cut as their own weights are. DoRA scales the rows of the sum to lengths
of its own (Liu et al. 2024, arXiv:2402.09353).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ropewalk.model.checkpoints.adapter_file import Adapter, Change
from ropewalk.model.checkpoints.families.layouts import Fused, Piece, Rule, Shape, WeightMap
from ropewalk.model.checkpoints.multimodal import text_name
from ropewalk.model.checkpoints.source import Stored
from ropewalk.model.checkpoints.weights import LETTERS, pattern_of
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import CheckpointError, ShapeError
from ropewalk.model.progress import Progress, Steps

ROWS = 1 << 12
"""Rows of a matrix that are changed at a time."""


@dataclass(frozen=True)
class Merge:
    """One change, or a weight that is replaced, and the parameters that it reaches.

    Attributes
    ----------
    targets
        The parameters' names, in the order in which they lie in the stored matrix.
    rule
        How they lie in it.
    change
        What is added; None for a weight that takes the place of the base's.
    whole
        That weight, as the adapter's files call it.
    """

    name: str
    targets: tuple[str, ...]
    rule: str | Fused
    change: Change | None = None
    whole: str = ""


def merges_of(adapter: Adapter, weights: WeightMap, model: Decoder, layers: int) -> list[Merge]:
    """What an adapter does to a model, everything checked before anything is changed.

    Parameters
    ----------
    model
        May be on the meta device.
    layers
        How many layers the base has; the model may have fewer, and what belongs to the others is left out.

    Raises
    ------
    CheckpointError
        For a module that the model does not have.
    ShapeError
        For matrices of another shape than the module's.
    """
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters(remove_duplicate=False)}
    found: list[Merge] = []
    for module, change in adapter.changes.items():
        placed = _placed(f"{module}.weight", adapter, weights, model.config.layers, layers)
        if placed is not None:
            _check_change(adapter, module, change, _joined(placed, shapes, adapter, module), placed.rule)
            found.append(Merge(module, placed.targets, placed.rule, change))
    for name, stored in adapter.whole.items():
        placed = _placed(name, adapter, weights, model.config.layers, layers)
        if placed is not None:
            shape = _joined(placed, shapes, adapter, name)
            if isinstance(placed.rule, Fused) and placed.rule.transposed:
                shape = shape[::-1]
            _check_shape(adapter, adapter.files.tensors[stored], shape)
            found.append(Merge(name, placed.targets, placed.rule, whole=stored))
    found.sort(key=lambda one: one.change is not None)  # a base of its own comes before what is added to it
    return found


def _placed(name: str, adapter: Adapter, weights: WeightMap, open_layers: int, layers: int) -> Merge | None:
    """Which parameters a weight of the base is; None for those of layers that are not open."""
    embed = next((source for source, rule in weights.items() if rule == "embed.weight"), "")
    own = next((one for one in (name, text_name(name), f"{embed.partition('.')[0]}.{name}") if _rule(one, weights)), "")
    rule = _rule(own, weights)
    if rule is None or isinstance(rule, Piece) or (isinstance(rule, Fused) and rule.stacked):
        raise CheckpointError(
            f"{adapter.name} changes {name:.120}, which this model does not have as a matrix of its own; it was "
            f"trained on {adapter.base or 'another model':.80}."
        )
    numbers = pattern_of(own)[1]
    if "{l}" in pattern_of(own)[0]:
        if int(numbers[0]) >= layers:
            raise CheckpointError(
                f"{adapter.name} changes {name:.120}, but the model has {layers} layers; it was trained on "
                f"{adapter.base or 'another model':.80}."
            )
        if int(numbers[0]) >= open_layers:
            return None
    targets = (rule,) if isinstance(rule, str) else rule.targets
    return Merge(name, tuple(_numbered(target, numbers) for target in targets), rule)


def _rule(name: str, weights: WeightMap) -> Rule:
    return weights.get(pattern_of(name)[0])


def _numbered(target: str, numbers: Sequence[str]) -> str:
    for letter, number in zip(LETTERS, numbers, strict=False):
        target = target.replace(letter, number)
    return target


def _joined(placed: Merge, shapes: Mapping[str, Shape], adapter: Adapter, name: str) -> Shape:
    """The shape [out, in] that the parameters make together."""
    absent = [target for target in placed.targets if target not in shapes]
    if absent:
        raise CheckpointError(
            f"{adapter.name} changes {name:.120}, but by its config this model has no such part ({absent[0]}); it was "
            f"trained on {adapter.base or 'another model':.80}."
        )
    parts = [shapes[target] for target in placed.targets]
    return (sum(part[0] for part in parts), *parts[0][1:])


def _check_change(adapter: Adapter, module: str, change: Change, shape: Shape, rule: str | Fused) -> None:
    stored = {part: adapter.files.tensors[name] for part, name in change.parts.items()}
    if "lora_embedding_A" in stored:
        if rule not in ("embed.weight", "place.weight") or "lora_magnitude_vector" in stored:
            raise CheckpointError(
                f"{adapter.name} changes {module:.120} as an embedding with DoRA or where there is none, which cannot "
                "be merged here; merge it with peft and open the result."
            )
        first, second, (rows, columns) = stored["lora_embedding_A"], stored["lora_embedding_B"], shape
        rank = first.shape[0]
        _check_shape(adapter, first, (rank, rows))
        _check_shape(adapter, second, (columns, rank))
        return
    first, second = stored["lora_A"], stored["lora_B"]
    rank = first.shape[0] if first.shape else 0
    _check_shape(adapter, first, (rank, shape[-1]))
    _check_shape(adapter, second, (shape[0], rank))
    if "lora_magnitude_vector" in stored:
        _check_shape(adapter, stored["lora_magnitude_vector"], shape[:1])


def _check_shape(adapter: Adapter, stored: Stored, shape: Shape) -> None:
    if tuple(size for size in stored.shape if size != 1) != tuple(size for size in shape if size != 1):
        raise ShapeError(
            f"{stored.name} in {adapter.name} has shape {list(stored.shape)}, but this model asks for {list(shape)}; "
            f"the adapter was trained on {adapter.base or 'another model':.80}."
        )


# ----------------------------------------------------------------------------------------------------------------------
# Merging


def merge_steps(model: Decoder, merges: Sequence[Merge], adapter: Adapter, baked: float = 0.0) -> Steps[None]:
    """Change the weights in place; matrices that were one and are not any more are two from then on.

    ``baked`` is what the base's files have added to the gains of norms already.
    """
    if unties(model.config, merges):
        model.head.weight = nn.Parameter(model.embed.weight.detach().clone(), requires_grad=False)
        model.config = model.config.changed(tied=False)
    for done, merge in enumerate(merges):
        yield Progress(done, len(merges), "Merging the adapter")
        places = [model.get_parameter(target).data for target in merge.targets]
        if merge.change is None:
            stored = _read(adapter, merge.whole)
            if isinstance(merge.rule, Fused) and merge.rule.transposed:
                stored = stored.t()
            parts = _cut(stored, merge.rule, places, model.config)
            for target, place, part in zip(merge.targets, places, parts, strict=True):
                place.copy_(part.reshape(place.shape) + (baked if "norm" in target else 0.0))
        else:
            for _ in _adding(places, merge, adapter, model.config):
                yield Progress(done, len(merges), "Merging the adapter")


def unties(config: ModelConfig, merges: Sequence[Merge]) -> bool:
    """Whether a last matrix that is the embedding is that no longer, because one of the two is changed."""
    reached = {target for merge in merges for target in merge.targets}
    return config.tied and bool(reached & {"embed.weight", "head.weight"})


def _read(adapter: Adapter, name: str) -> Tensor:
    tensor = adapter.files.read(name, torch.float32).float()
    if not bool(torch.isfinite(tensor).all()):
        raise CheckpointError(
            f"{name} in {adapter.name} holds NaN or infinite numbers; the file is damaged or its training failed."
        )
    return tensor


def _adding(places: Sequence[Tensor], merge: Merge, adapter: Adapter, config: ModelConfig) -> Iterator[None]:
    """Add scale · B · A, and pause after every few rows."""
    change = merge.change or Change()
    parts = {part: _read(adapter, name) for part, name in change.parts.items()}
    if "lora_embedding_A" in parts:
        low, high = parts["lora_embedding_A"].t(), parts["lora_embedding_B"].t()
    else:
        low, high = parts["lora_B"], parts["lora_A"]
    magnitude = parts.get("lora_magnitude_vector")
    rows = _cut(low, merge.rule, places, config)
    lengths = None if magnitude is None else _cut(magnitude.reshape(-1, 1), merge.rule, places, config)
    for index, (place, own) in enumerate(zip(places, rows, strict=True)):
        for start in range(0, place.shape[0], ROWS):
            some = slice(start, start + ROWS)
            delta = (own[some] @ high).mul_(change.scale).to(place.device)
            if lengths is None:
                place[some].add_(delta)
            else:
                summed = place[some].float() + delta
                norm = summed.norm(dim=1, keepdim=True)
                place[some].copy_(summed * (lengths[index][some].to(place.device) / norm))
            yield


def _cut(stored: Tensor, rule: str | Fused, places: Sequence[Tensor], config: ModelConfig) -> list[Tensor]:
    """Each parameter's own rows of a matrix [out, …] whose rows lie as the base's do."""
    if isinstance(rule, str):
        return [stored]
    turned = stored.t() if rule.transposed else stored
    shapes = [(place.shape[0], *stored.shape[1:]) for place in places]
    return [rule.part(turned, index, shapes, config) for index in range(len(places))]
