"""Reads the models of a lesson: configs, known ones with some fields changed, and toys with their numbers.

What a toy's numbers do is the model's; which steps use it is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from ropewalk.app.lessons.table import LessonFileError, Table
from ropewalk.model.codec import CodecError, from_plain, to_plain
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.costs import parameters
from ropewalk.model.decoder.known_configs import KNOWN
from ropewalk.model.errors import LessonError, RopewalkError
from ropewalk.model.lessons.bounds import bounded
from ropewalk.model.lessons.models import LessonModel, ModelKind
from ropewalk.model.lessons.toy_spec import ToySpec

MOST_WORDS, MOST_NUMBERS = 10_000, 10_000_000
"""What a toy may have: it is made by heart in a moment."""
MODEL_KEYS: Mapping[ModelKind, tuple[str, ...]] = {
    "bundled": ("prompt",),
    "open": ("prompt",),
    "toy": ("prompt", "others", "words", "config", "weights", "mlp_writes", "init", "seed"),
    "shapes": ("config", "tokens", "past", "batch", "dtype"),
}


class ModelReader:
    """Reads one model after another; a later one may be like an earlier one.

    Parameters
    ----------
    configs
        The lesson's own, by name.
    """

    def __init__(self, configs: Mapping[str, ModelConfig]) -> None:
        self.configs = configs
        self.written: dict[str, Mapping[str, Any]] = {}

    def read(self, name: str, table: Table) -> LessonModel:
        """Read a model from its table."""
        if table.has("like"):
            table = self._like(table)
        self.written[name] = table.values
        kind: Any = table.one_of("kind", get_args(ModelKind))
        table.only(("kind", *MODEL_KEYS[kind]))
        config = None
        if kind in ("toy", "shapes"):
            if not table.has("config"):
                raise table.broken(f"The model {name!r} has no config.")
            config = self._named_config(table)
        toy = self._toy(table, config) if kind == "toy" and config is not None else None
        prompt = table.text("prompt", "")
        if kind in ("toy", "bundled") and not prompt:
            raise table.broken(f"The model {name!r} has no prompt.")
        return LessonModel(
            name,
            kind,
            prompt=prompt,
            others=table.words("others"),
            toy=toy,
            config=config,
            tokens=table.whole("tokens", 10, 1),
            past=table.whole("past", 0),
            batch=table.whole("batch", 1, 1),
            dtype=table.one_of("dtype", ("float32", "bfloat16", "float16"), "bfloat16"),
        )

    def _like(self, table: Table) -> Table:
        """A model written as another one of this lesson with some keys, and some of its config, changed."""
        values = self.written[table.one_of("like", self.written)]
        own = {key: value for key, value in table.values.items() if key != "like"}
        merged = {**values, **own}
        for key in ("config", "weights"):
            if isinstance(own.get(key), dict) and isinstance(values.get(key), dict):
                merged[key] = {**values[key], **own[key]}
        return Table(merged, table.place, table.lines, table.what)

    def _named_config(self, table: Table) -> ModelConfig:
        """A config table, or the name of one."""
        value = table.values["config"]
        if isinstance(value, str):
            known = {**KNOWN, **self.configs}
            return known[table.one_of("config", known)]
        return read_config(table.inner("config"))

    def _toy(self, table: Table, config: ModelConfig) -> ToySpec:
        _check_toy(table, config)
        weights = table.inner("weights")
        numbered = tuple((name, _tuples(value)) for name, value in _flat(weights.values))
        if isinstance(table.values.get("words"), int):
            count = table.whole("words", least=1)
            if count != config.vocabulary:
                raise table.broken(
                    f"words is {count}, but the config has a vocabulary of {config.vocabulary}.", "words"
                )
            words = tuple(f"t{number}" for number in range(count))
        else:
            words = table.words("words")
        try:
            return ToySpec(
                config,
                words,
                numbered,
                mlp_writes=_tuples(table.items("mlp_writes")),
                prompt=table.text("prompt", ""),
                init=table.text("init", "engine"),  # type: ignore[arg-type]
                seed=table.whole("seed", 0),
            )
        except LessonError as error:
            inside = _mentioned(error.sentence, dict(numbered))
            where = weights if inside else table
            raise where.broken(error.sentence, inside or _mentioned(error.sentence, table.values)) from error


def read_config(table: Table) -> ModelConfig:
    """A config from its fields, or from a known one (``like``) with some changed."""
    values = dict(table.values)
    like = values.pop("like", None)
    try:
        if like is None:
            return bounded(from_plain(ModelConfig, values), "The config")
        if like not in KNOWN:
            raise table.broken(f"No config is called {like!r}; there are {', '.join(KNOWN)}.", "like")
        return bounded(from_plain(ModelConfig, {**to_plain(KNOWN[like]), **values}), "The config")
    except RopewalkError as error:
        if isinstance(error, LessonFileError):
            raise
        raise table.broken(error.sentence, _mentioned(error.sentence, values)) from error
    except CodecError as error:
        raise table.broken(f"In the config, {error}.", _mentioned(str(error), values)) from error


def _check_toy(table: Table, config: ModelConfig) -> None:
    """Refuse a toy that is none."""
    positions = config.max_position * config.width if config.position in ("sinusoidal", "learned") else 0
    found = max(parameters(config).total, positions) if config.position != "unknown" else 0
    if config.vocabulary > MOST_WORDS or found > MOST_NUMBERS:
        raise table.broken(
            f"This toy has {config.vocabulary:,} words and {found:,} numbers, but there may be {MOST_WORDS:,} and "
            f"{MOST_NUMBERS:,}.",
            "config",
        )


def _mentioned(sentence: str, values: Mapping[str, Any]) -> str:
    """The key that a sentence speaks of."""
    return next((key for key in values if re.search(rf"\b{re.escape(key)}\b", sentence)), "")


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Weights by their whole names, whether written with dots in quotes or as tables."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
