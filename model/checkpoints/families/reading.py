"""From a config in Hugging Face spelling to ours: which family it is, what its fields say, and what is refused.

Nothing is dropped silently: a field that the family neither reads nor lists is refused by name, or noted where its
value cannot change anything.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.model.checkpoints.families.defaults import defaults_of
from ropewalk.model.checkpoints.families.fields import Fields
from ropewalk.model.checkpoints.families.inert import is_inert, why_inert
from ropewalk.model.checkpoints.families.knobs import context_limit
from ropewalk.model.checkpoints.families.quantised import refuse_quantised
from ropewalk.model.checkpoints.families.refused import reason
from ropewalk.model.checkpoints.families.table import BY_TYPE, FAMILIES, Family
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.errors import CheckpointError, ConfigError, UnknownFamilyError

LISTED = 12
"""Fields that a note names one by one."""


@dataclass(frozen=True)
class ConfigRead:
    """A config that was read.

    Attributes
    ----------
    family, config
        The family, and what the fields say.
    notes
        What was left out or taken for what is not there, in sentences.
    """

    family: Family
    config: ModelConfig
    notes: tuple[str, ...] = ()


def family_of(config: Mapping[str, Any], where: str, forced: str = "") -> Family:
    """The family that a config names, or the one that a person says it is.

    Raises
    ------
    CheckpointError
        For one that Ropewalk does not open, with what it is or the nearest that it does.
    """
    if forced:
        if forced not in BY_TYPE:
            raise CheckpointError(
                f"{forced!r:.60} is no family that Ropewalk opens; the nearest that it opens is {nearest(forced)}."
            )
        return BY_TYPE[forced]
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise CheckpointError(
            f"{where} has no model_type, so the family of the model is unknown; say it "
            "with --family, such as --family llama."
        )
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    why = reason(kind)
    if why:
        raise UnknownFamilyError(f"{where} is of the family {kind}: {why}")
    raise UnknownFamilyError(
        f"{where} is of the family {kind!r:.60}, which Ropewalk does not open; the nearest by name that it opens is "
        f"{nearest(kind)}. If it is laid out like a family that it opens, say which, such as --family {nearest(kind)}."
    )


def nearest(kind: str) -> str:
    """The family whose name is part of ``kind``, as of my_llama; else the one whose name is most like it."""
    kind = kind[:60]

    def likeness(name: str) -> tuple[int, float]:
        part = f"_{name}_" in f"_{kind}_"
        return len(name) if part else 0, difflib.SequenceMatcher(None, name, kind).ratio()

    return max(BY_TYPE, key=likeness)


def read_config(
    config: Mapping[str, Any],
    where: str,
    stored: frozenset[str] | None = None,
    *,
    forced: str = "",
    ignore: Sequence[str] = (),
    headless: bool = False,
) -> ConfigRead:
    """Turn a config in Hugging Face spelling into ours.

    Parameters
    ----------
    stored
        Patterns of the stored weights' names; None when there are no weights. They decide only where the config does
        not, such as whether the last matrix is the embedding.
    forced
        The family to take, whatever the config says; empty for what it says.
    ignore
        Fields to leave out because a person says so.
    headless
        Whether the weights are of a model without a last matrix, so that only the config can say that it is tied.

    Raises
    ------
    CheckpointError
        For a family that Ropewalk does not open and for a field that the family neither handles nor ignores.
    ConfigError
        For a field whose value is refused.
    """
    family = family_of(config, where, forced)
    fields, left_out = without_ignored(Fields(config, where, stored, defaults_of(family.name)), ignore)
    refuse_quantised(fields.values, where, stored)
    knobs = family.knobs(fields)
    knobs["tied"] = _tied(family, fields, headless)
    knobs["max_position"] = context_limit(knobs["max_position"], knobs.get("rope"))
    _refuse_values(family, fields)
    read = ModelConfig(**knobs)
    notes = [
        *([f"{where} was read as that of a {family.title} model, because that was asked for."] if forced else []),
        *left_out,
        *_taken(family, fields),
        *inert_notes(fields, f"the family {family.name}", read, family.ignored, _near_family(family)),
    ]
    return ConfigRead(family, read, tuple(notes))


def without_ignored(fields: Fields, ignore: Iterable[str]) -> tuple[Fields, list[str]]:
    """The fields but for those that a person says change nothing, and what to say of it."""
    asked = tuple(ignore)
    left_out = [name for name in asked if fields.has(name)]
    absent = [name for name in asked if name not in left_out]
    notes = [f"{fields.where} was read without {_listed(left_out)}, because that was asked for."] if left_out else []
    notes += [f"{fields.where} has no {_listed(absent)} that could be left out."] if absent else []
    return fields.without(left_out), notes


def _taken(family: Family, fields: Fields) -> list[str]:
    if not fields.taken:
        return []
    named = _listed(f"{name} {size:,}" for name, size in sorted(fields.taken.items()))
    return [f"What is not in {fields.where} was taken as transformers takes it for {family.title}: {named}."]


def inert_notes(
    fields: Fields,
    what: str,
    config: ModelConfig | None = None,
    known: frozenset[str] = frozenset(),
    near: Callable[[str], str] = lambda name: "",
) -> list[str]:
    """What to say of fields that nobody read, none of which may change anything.

    Parameters
    ----------
    what
        What does not know them.
    config
        What the other fields say, where that is known by now.
    known
        Fields that change nothing here, beyond those that change nothing anywhere.
    near
        Says as a clause who does know a field.

    Raises
    ------
    CheckpointError
        For a field that may change something.
    """
    unread = [name for name in fields.unread(known) if not is_inert(name)]
    whys = {name: why_inert(name, fields.values[name], config) for name in unread}
    refused = [name for name, why in whys.items() if not why]
    if refused:
        name = refused[0]
        raise CheckpointError(
            f"{fields.where} has the field {name!r:.60} ({fields.values[name]!r:.60}), which {what} neither uses nor "
            f"ignores{near(name)}; Ropewalk drops no field silently, so if this one changes nothing, open it with "
            f"--ignore {name:.60}.",
            f"All such fields: {', '.join(refused)[:500]}",
        )
    named = _listed(f"{name} ({why})" for name, why in whys.items())
    return [f"Fields of {fields.where} that change nothing here were left out: {named}."] if whys else []


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - LISTED} more" if len(every) > LISTED else ""
    return ", ".join(f"{name:.60}" for name in every[:LISTED]) + more


def _tied(family: Family, fields: Fields, headless: bool) -> bool:
    if fields.raw("tie_word_embeddings", default=None) is not None:
        return fields.flag("tie_word_embeddings")
    if fields.stored is None or headless:
        return family.tied
    head = [name for name, rule in family.weights.items() if rule == "head.weight"]
    return family.tied or not fields.holds(*head)


def _refuse_values(family: Family, fields: Fields) -> None:
    for name, allowed in family.neutral.items():
        value = fields.raw(name, default=None)
        if value is not None and value not in allowed:
            raise ConfigError(
                f"{fields.where} has {name} {value!r:.60}, but Ropewalk knows {family.name} only with "
                f"{' or '.join(str(one) for one in allowed)}; if it changes nothing, open it with --ignore {name}."
            )


def _near_family(family: Family) -> Callable[[str], str]:
    """Says which family does know a field, as a clause."""

    def near(name: str) -> str:
        for other in FAMILIES:
            if other is not family and (name in other.neutral or name in fields_of(other)):
                return f" (the nearest family that does is {other.name})"
        return ""

    return near


TYPICAL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 64,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "n_embd": 64,
    "n_head": 4,
    "n_layer": 2,
    "n_positions": 64,
}


def fields_of(family: Family) -> frozenset[str]:
    """The fields that a family reads, found by letting it read a typical config."""
    fields = Fields(TYPICAL, "a typical config")
    family.knobs(fields)
    return frozenset(fields.read)
