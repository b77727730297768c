"""Interventions: named things to change in a run, as plain data.

An intervention says what to change and how it is written on a chip; ``model.decoder.intervention_contexts`` does it.
Interventions compose in any order, apply to prefill and decode alike, and travel with the trace they made. No torch
here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, get_args

from ropewalk.model.codec import stored
from ropewalk.model.decoder.config import ModelConfig, Scaling
from ropewalk.model.errors import InterventionError

Vector: TypeAlias = tuple[float, ...]

SCALINGS: dict[Scaling, str] = {"linear": "linear", "dynamic": "NTK", "yarn": "YaRN", "llama3": "llama3"}
"""The rules that RoPE can be stretched by without numbers of the model's own, and what a person calls them."""


def _check_inside(what: str, value: int, end: int) -> None:
    if not 0 <= value < end:
        raise InterventionError(f"{what} {value} was chosen, but the model has {end}, counted from 0.")


def _check_finite(numbers: Iterable[float]) -> None:
    if not all(map(math.isfinite, numbers)):
        raise InterventionError("A mean holds what is no finite number, so nothing could come after it.")


class _Plain:
    """An intervention whose numbers may be given as arrays and tensors; it travels as plain ones."""

    def __post_init__(self) -> None:
        """Take the numbers of whatever was given."""
        for name, value in vars(self).items():
            object.__setattr__(self, name, _plain(value))


def _plain(value: Any) -> Any:
    """An array, a tensor or a list as tuples of numbers; whatever else as it is."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


MOST_INTERVENTIONS = 10_000
"""In one run; a person makes a dozen."""
LARGEST_FACTOR = 1000
"""On scores: past it, float32 can no longer tell a row's log-sum-exp well enough for its weights to add up to 1."""


@stored("factor layer", tag="ScaleScores")
@dataclass(frozen=True)
class ScaleScores(_Plain):
    """Multiply every score by a factor before the soft cap, in all layers or one."""

    factor: float
    layer: int | None = None
    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        return f"scores × {self.factor:g}" + _where(self.layer)

    def check(self, config: ModelConfig) -> None:
        """Refuse what the model does not have."""
        if not abs(self.factor) <= LARGEST_FACTOR:  # so that NaN is refused too
            most = LARGEST_FACTOR
            raise InterventionError(
                f"Scores cannot be multiplied by {self.factor:g}; give a number from -{most} to {most}."
            )
        _check_layer(self.layer, config)


@stored("layer", tag="NoScale")
@dataclass(frozen=True)
class NoScale(_Plain):
    """Leave out the factor before the softmax (1/√Dh in most models): scores are q·k as they are."""

    layer: int | None = None
    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        return "no 1/√Dh" + _where(self.layer)

    def check(self, config: ModelConfig) -> None:
        """Refuse what the model does not have."""
        _check_layer(self.layer, config)


@stored(tag="RopeOff")
@dataclass(frozen=True)
class RopeOff(_Plain):
    """Turn nothing: every plane stays where the projection left it."""

    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        return "no RoPE"

    def check(self, config: ModelConfig) -> None:
        """Refuse a model that does not rotate."""
        _check_rotates(config)


@stored("base", tag="RopeBase")
@dataclass(frozen=True)
class RopeBase(_Plain):
    """Turn with another base; the model's own stretching rule still applies."""

    base: float
    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        return f"RoPE base {self.base:g}"

    def check(self, config: ModelConfig) -> None:
        """Refuse a base that makes no angles, or a model that does not rotate."""
        if not (math.isfinite(self.base) and self.base > 1):
            raise InterventionError(f"The RoPE base is {self.base}, but it must be a finite number above 1.")
        _check_rotates(config)


@stored("rule factor", tag="RopeScaling")
@dataclass(frozen=True)
class RopeScaling(_Plain):
    """Stretch RoPE, so that the model takes ``factor`` times the positions it was trained on.

    The rule takes the place of the checkpoint's own. Layers whose window keeps distances short are left as they are.
    """

    rule: Scaling
    factor: float
    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        return f"RoPE {SCALINGS.get(self.rule, self.rule)} × {self.factor:g}"

    def check(self, config: ModelConfig) -> None:
        """Refuse what makes no angles, or a model that does not rotate."""
        if self.rule not in SCALINGS:
            raise InterventionError(f"RoPE cannot be stretched by {self.rule!r}; choose {', '.join(SCALINGS)}.")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise InterventionError(f"RoPE cannot be stretched by {self.factor}; give a factor of 1 or more.")
        _check_rotates(config)
        rope = config.rope
        if rope is not None and rope.frequencies is not None and self.rule != "linear":
            raise InterventionError(
                f"This model gives the frequencies of its planes outright, so {SCALINGS[self.rule]} has no base to "
                "start from; choose linear."
            )
        if self.rule == "dynamic" and min(config.rotary_width(layer) or 4 for layer in range(config.layers)) < 4:
            raise InterventionError("NTK changes the slower planes, but this model has one plane; choose linear.")


@stored(tag="NoCausalMask")
@dataclass(frozen=True)
class NoCausalMask(_Plain):
    """Let every query see later keys too. Earlier rows then change with every new token, so nothing can be cached."""

    breaks_cache: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """The chip."""
        return "no causal mask"

    def check(self, config: ModelConfig) -> None:
        """Nothing can be wrong."""


@stored("layer heads means", tag="AblateHeads")
@dataclass(frozen=True)
class AblateHeads(_Plain):
    """Replace the output z of some query heads of a layer by zero, or by given vectors (their mean over a run).

    Attributes
    ----------
    means
        One vector [Dh] for each head, as wide as a value, empty for zero.
    """

    layer: int
    heads: tuple[int, ...]
    means: tuple[Vector, ...] = ()
    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        names = ", ".join(f"L{self.layer}H{head}" for head in self.heads)
        return f"{names} → {'mean' if self.means else '0'}"

    def check(self, config: ModelConfig) -> None:
        """Refuse heads that are not there, and means of another width."""
        _check_layer(self.layer, config)
        if not self.heads:
            raise InterventionError("No head was chosen to ablate; choose at least one.")
        for head in self.heads:
            _check_inside("Head", head, config.heads)
        width = config.width_of_value
        if self.means and [len(mean) for mean in self.means] != [width] * len(self.heads):
            raise InterventionError(
                f"{len(self.means)} mean vectors were given for {len(self.heads)} heads of width {width}."
            )
        _check_finite(number for mean in self.means for number in mean)


@stored("layer head plane mean", tag="AblatePlane")
@dataclass(frozen=True)
class AblatePlane(_Plain):
    """Take one rotation plane of one query head out of its scores, or make it the same for every query.

    Attributes
    ----------
    mean
        The plane's two numbers of q' for every row, empty for zero.
    """

    layer: int
    head: int
    plane: int
    mean: Vector = ()
    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        return f"L{self.layer}H{self.head} plane {self.plane} → {'mean' if self.mean else '0'}"

    def check(self, config: ModelConfig) -> None:
        """Refuse a plane that is not there, and a mean that is no pair."""
        _check_layer(self.layer, config)
        _check_inside("Head", self.head, config.heads)
        _check_inside("Plane", self.plane, config.rotary_width(self.layer) // 2)
        if len(self.mean) not in (0, 2):
            raise InterventionError(f"The mean of a plane has {len(self.mean)} numbers, but a plane has 2.")
        _check_finite(self.mean)


LONGEST_PATTERN = 512
"""Rows of a pattern that is written for a head: it travels with the trace as plain numbers."""


@stored("layer head pattern", tag="SetPattern")
@dataclass(frozen=True)
class SetPattern(_Plain):
    """Write the attention weights of one query head: of each row of a pattern [T, T], the rows after it left alone.

    Attributes
    ----------
    pattern
        The weights, from a list, an array or a tensor; what is after the diagonal must be 0.
    """

    layer: int
    head: int
    pattern: tuple[Vector, ...]
    breaks_cache: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Take the numbers of whatever was given.

        Raises
        ------
        InterventionError
            When it is no square of numbers.
        """
        try:
            rows = tuple(tuple(float(weight) for weight in row) for row in _plain(self.pattern))
        except (TypeError, ValueError) as error:
            raise InterventionError("A pattern is a square of numbers, a row for each query.") from error
        object.__setattr__(self, "pattern", rows)

    @property
    def label(self) -> str:
        """The chip."""
        return f"L{self.layer}H{self.head} pattern set"

    def check(self, config: ModelConfig) -> None:
        """Refuse a head that is not there, and weights that no causal pattern has."""
        _check_layer(self.layer, config)
        _check_inside("Head", self.head, config.heads)
        size = len(self.pattern)
        if not 1 <= size <= LONGEST_PATTERN or any(len(row) != size for row in self.pattern):
            raise InterventionError(
                f"A pattern of {size} rows was given, but it must be a square of 1 to {LONGEST_PATTERN} rows."
            )
        for query, row in enumerate(self.pattern):
            if not all(math.isfinite(weight) and weight >= 0 for weight in row):
                raise InterventionError(f"Row {query} of the pattern has a weight that is no number of 0 or more.")
            if any(row[query + 1 :]):
                raise InterventionError(f"Row {query} of the pattern has a weight after the diagonal; set those to 0.")


@stored("layer mean", tag="AblateMlp")
@dataclass(frozen=True)
class AblateMlp(_Plain):
    """Replace what a layer's MLP adds to the stream by zero, or by a given vector (its mean over a run)."""

    layer: int
    mean: Vector = ()
    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        return f"L{self.layer} MLP → {'mean' if self.mean else '0'}"

    def check(self, config: ModelConfig) -> None:
        """Refuse a layer that is not there, and a mean of another width."""
        _check_layer(self.layer, config)
        if self.mean and len(self.mean) != config.width:
            raise InterventionError(f"The mean has {len(self.mean)} numbers, but the stream has {config.width}.")
        _check_finite(self.mean)


@stored("layer head kv_head", tag="ReadKvHead")
@dataclass(frozen=True)
class ReadKvHead(_Plain):
    """Make one query head read another kv head than the grouping gives it."""

    layer: int
    head: int
    kv_head: int
    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        return f"L{self.layer}H{self.head} reads kv{self.kv_head}"

    def check(self, config: ModelConfig) -> None:
        """Refuse heads that are not there."""
        _check_layer(self.layer, config)
        _check_inside("Head", self.head, config.heads)
        _check_inside("Kv head", self.kv_head, config.kv_heads)


@stored("order", tag="PermuteTokens")
@dataclass(frozen=True)
class PermuteTokens(_Plain):
    """Put the prompt's tokens in another order: row i gets token ``order[i]``. Tokens past the order stay in place."""

    order: tuple[int, ...]
    breaks_cache: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The chip."""
        shown = " ".join(map(str, self.order[:6]))
        return f"tokens in the order {shown}{' …' if len(self.order) > 6 else ''}"

    def check(self, config: ModelConfig) -> None:
        """Refuse an order that loses or doubles a token."""
        if sorted(self.order) != list(range(len(self.order))):
            shown = ", ".join(map(str, self.order[:12])) + (", …" if len(self.order) > 12 else "")
            raise InterventionError(f"The order [{shown}] does not name each row from 0 exactly once.")


Intervention: TypeAlias = (
    ScaleScores
    | NoScale
    | RopeOff
    | RopeBase
    | RopeScaling
    | NoCausalMask
    | AblateHeads
    | AblatePlane
    | SetPattern
    | AblateMlp
    | ReadKvHead
    | PermuteTokens
)


def ablate_kv_group(config: ModelConfig, layer: int, kv_head: int) -> AblateHeads:
    """Ablate every query head that shares a kv head."""
    _check_inside("Kv head", kv_head, config.kv_heads)
    return AblateHeads(layer, tuple(range(kv_head * config.group, (kv_head + 1) * config.group)))


def check_interventions(interventions: Sequence[Intervention], config: ModelConfig) -> None:
    """Refuse the first intervention that the model cannot do.

    Raises
    ------
    InterventionError
        With what was chosen and what there is.
    """
    check_listed(interventions)
    for one in interventions:
        try:
            one.check(config)
        except (TypeError, ValueError, AttributeError) as error:  # written by hand, with text for a number
            raise InterventionError(f"{one!r:.80} holds what it cannot hold ({error}).") from error


def check_listed(interventions: Sequence[Intervention]) -> None:
    """Refuse what is no list of interventions.

    Raises
    ------
    InterventionError
        With what was given.
    """
    if not isinstance(interventions, Sequence):
        raise InterventionError(f"Interventions come in a list, but {interventions!r:.60} was given.")
    if len(interventions) > MOST_INTERVENTIONS:
        raise InterventionError(
            f"There are {len(interventions):,} interventions, more than the {MOST_INTERVENTIONS:,} that a run may have."
        )
    for one in interventions:
        if not isinstance(one, get_args(Intervention)):
            raise InterventionError(f"{one!r:.60} is no intervention; give some of ropewalk.interventions.")


def permuted(ids: Sequence[int], interventions: Sequence[Intervention]) -> list[int]:
    """Token ids of a prompt in the order the interventions give them.

    Raises
    ------
    InterventionError
        When an order is longer than the prompt.
    """
    result = list(ids)
    for intervention in interventions:
        if isinstance(intervention, PermuteTokens):
            if len(intervention.order) > len(result):
                raise InterventionError(
                    f"The order names {len(intervention.order)} tokens, but the prompt has {len(result)}."
                )
            result = [result[row] for row in intervention.order] + result[len(intervention.order) :]
    return result


def _where(layer: int | None) -> str:
    return "" if layer is None else f" in L{layer}"


def _check_layer(layer: int | None, config: ModelConfig) -> None:
    if layer is not None:
        _check_inside("Layer", layer, config.layers)


def _check_rotates(config: ModelConfig) -> None:
    if config.position != "rotary":
        raise InterventionError(f"This model's positions are {config.position}, so there is no rotation to change.")
