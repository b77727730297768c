"""What interventions make of a model's rotary rules and of its limit, as data.

``model.decoder.intervention_contexts`` turns by these rules, the engine checks lengths by this limit, and the panels
read both. It also knows which rules could carry a run past the limit. No torch here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ropewalk.model.decoder.config import ModelConfig, RopeConfig, Scaling
from ropewalk.model.decoder.interventions import SCALINGS, Intervention, RopeBase, RopeOff, RopeScaling
from ropewalk.model.errors import InterventionError

STEP = 0.5
"""Factors are offered in steps of this size."""


def as_run(config: ModelConfig, interventions: Sequence[Intervention]) -> ModelConfig:
    """The config of a model as it runs under interventions: its rotary rules, and how many positions it then has."""
    rope, local = (turned_rule(config, rule, interventions) for rule in (config.rope, config.local_rope))
    limit = max((_stretched_limit(config, one) for one in interventions if isinstance(one, RopeScaling)), default=0)
    limit = max(limit, config.max_position)
    if (rope, local, limit) == (config.rope, config.local_rope, config.max_position):
        return config
    return config.changed(rope=rope, local_rope=local, max_position=limit)


def turned_rule(
    config: ModelConfig, rope: RopeConfig | None, interventions: Sequence[Intervention]
) -> RopeConfig | None:
    """One of a model's rotary rules as the interventions leave it."""
    changed = rope
    for intervention in interventions:
        if changed is None:
            break
        if isinstance(intervention, RopeOff):
            width = config.head_width if changed.width is None else changed.width
            still = (0.0,) * (width // 2)
            changed = RopeConfig(width=changed.width, base=changed.base, pairing=changed.pairing, frequencies=still)
        elif isinstance(intervention, RopeBase) and changed.frequencies is None:
            changed = replace(changed, base=intervention.base)
        elif isinstance(intervention, RopeScaling) and not _is_local(config, rope):
            changed = _stretched(config, changed, intervention)
    return changed


def _is_local(config: ModelConfig, rope: RopeConfig | None) -> bool:
    """Whether a rule turns only layers with a window, where no distance is longer than the model knows."""
    return rope is not None and rope == config.local_rope and rope != config.rope


def _stretched(config: ModelConfig, rope: RopeConfig, scaling: RopeScaling) -> RopeConfig:
    """The rule in the place of the model's own; the length it starts from is the one the model was trained on."""
    if rope.frequencies is not None:
        return replace(rope, frequencies=tuple(theta / scaling.factor for theta in rope.frequencies))
    return RopeConfig(
        width=rope.width,
        base=rope.base,
        pairing=rope.pairing,
        scaling=scaling.rule,
        factor=scaling.factor,
        original_max_position=_original(config),
    )


def _original(config: ModelConfig) -> int:
    """Positions before any stretching, the checkpoint's own included."""
    own = None if config.rope is None else config.rope.original_max_position
    return own or config.max_position


def _stretched_limit(config: ModelConfig, scaling: RopeScaling) -> int:
    return math.floor(_original(config) * scaling.factor)


def factor_for(config: ModelConfig, tokens: int) -> float:
    """The smallest factor, in half steps, that has room for so many tokens and one more; 1 where none is needed."""
    if tokens < config.max_position:
        return 1.0
    return math.floor(tokens / _original(config) / STEP + 1) * STEP


def offers(config: ModelConfig, tokens: int) -> tuple[RopeScaling, ...]:
    """The rules that could carry a run of ``tokens`` past the limit, each with the factor that is needed."""
    factor = factor_for(config, tokens)
    possible = []
    for rule in SCALINGS:
        scaling = RopeScaling(rule, factor)
        try:
            scaling.check(config)
        except InterventionError:
            continue
        possible.append(scaling)
    return tuple(possible)


def scaling_for(
    config: ModelConfig, tokens: int, rule: Scaling, factor: float | None = None
) -> tuple[RopeScaling, ...]:
    """A scaling by name; without a factor the one that so many tokens need, and nothing where they need none."""
    if factor is None:
        return () if tokens <= config.max_position else (RopeScaling(rule, factor_for(config, tokens)),)
    return (RopeScaling(rule, factor),)


def why_not(config: ModelConfig) -> str:
    """Why no RoPE scaling can carry a run past the limit; empty where one can."""
    kinds = {
        "learned": "learned one by one",
        "sinusoidal": "sines added to the embedding",
        "none": "not given at all",
        "unknown": "transformers' own",
    }
    kind = kinds.get(config.position)
    return "" if kind is None else f"its positions are {kind}, so there is no RoPE to stretch"


def rule_named(name: str) -> Scaling:
    """A scaling rule as a person spells it.

    Raises
    ------
    InterventionError
        With the names there are.
    """
    for rule, spoken in SCALINGS.items():
        if name.lower() in (rule, spoken.lower()):
            return rule
    names = ", ".join(dict.fromkeys(spoken.lower() for spoken in SCALINGS.values()))
    raise InterventionError(f"There is no RoPE scaling {name!r:.40}; choose {names}.")
