"""Reading a config file field by field, and remembering which fields were read.

Everything a family does not read and does not list as ignored is refused by name, so a config field can never be
dropped silently.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ropewalk.model.errors import ConfigError

LARGEST_WHOLE = 1 << 40
"""No count in a config file is as large as this; a larger one is a damaged file."""

_REQUIRED: Any = object()
EMPTY: Mapping[str, Any] = MappingProxyType({})


class Fields:
    """A mapping from a config file whose values are read by type.

    Parameters
    ----------
    values
        What the file holds.
    where
        How to name the file in a sentence.
    stored
        Patterns of the stored weights' names (``{l}`` and ``{e}`` for numbers), for what a config leaves open; None
        where there are no weights.
    defaults
        What is taken for fields that are needed and not there at all.

    Attributes
    ----------
    taken
        Those that were, by name.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        where: str = "config.json",
        stored: frozenset[str] | None = None,
        defaults: Mapping[str, Any] = EMPTY,
    ) -> None:
        self.values = values
        self.where = where
        self.stored = stored
        self.defaults = defaults
        self.read: set[str] = set()
        self.taken: dict[str, Any] = {}

    def changed(self, **values: Any) -> Fields:
        """The same fields with some replaced, for a family whose defaults differ."""
        changed = Fields({**self.values, **values}, self.where, self.stored, self.defaults)
        changed.read, changed.taken = self.read, self.taken
        return changed

    def with_defaults(self, **values: Any) -> Fields:
        """The same fields, with values for those that are absent or null."""
        absent = {name: value for name, value in values.items() if self.values.get(name) is None}
        return self.changed(**absent)

    def holds(self, *patterns: str) -> bool:
        """Whether a weight of one of these patterns is stored."""
        return self.stored is not None and any(pattern in self.stored for pattern in patterns)

    def raw(self, *names: str, default: Any = _REQUIRED) -> Any:
        """The value under the first of several spellings that is there and not null."""
        self.read.update(names)
        for name in names:
            if self.values.get(name) is not None:
                return self.values[name]
        if default is _REQUIRED:
            known = next((name for name in names if name in self.defaults and name not in self.values), None)
            if known is not None:
                self.taken[known] = self.defaults[known]
                return self.defaults[known]
            raise ConfigError(f"{self.where} has no {' or '.join(names)}, which this family needs.")
        return default

    def whole(self, *names: str, default: Any = _REQUIRED) -> int:
        """A count of at least 0."""
        value = self.raw(*names, default=default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST_WHOLE:
            raise ConfigError(f"{self.where} has {names[0]} {value!r:.80}, but it must be a whole number.")
        return value

    def count(self, *names: str, default: Any = _REQUIRED, most: int = LARGEST_WHOLE) -> int:
        """A count of at least 1 and at most ``most``, past which no real model goes."""
        value = self.whole(*names, default=default)
        if not 1 <= value <= most:
            raise ConfigError(f"{self.where} has {names[0]} {value:,}, but it must be from 1 to {most:,}.")
        return value

    def optional_whole(self, *names: str, default: int | None = None) -> int | None:
        """A count, or None where the field is absent or null."""
        return default if self.raw(*names, default=None) is None else self.whole(*names)

    def number(self, *names: str, default: Any = _REQUIRED) -> float:
        """A finite number."""
        value = self.raw(*names, default=default)
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or math.isnan(value):
            raise ConfigError(f"{self.where} has {names[0]} {value!r:.80}, but it must be a finite number.")
        return float(value)

    def above_zero(self, *names: str, default: Any = _REQUIRED) -> float:
        """A finite number above 0."""
        value = self.number(*names, default=default)
        if not value > 0:
            raise ConfigError(f"{self.where} has {names[0]} {value}, but it must be above 0.")
        return value

    def optional_number(self, *names: str) -> float | None:
        """A finite number, or None where the field is absent or null."""
        return None if self.raw(*names, default=None) is None else self.number(*names)

    def flag(self, *names: str, default: Any = _REQUIRED) -> bool:
        """True or false."""
        value = self.raw(*names, default=default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.where} has {names[0]} {value!r:.80}, but it must be true or false.")
        return value

    def text(self, *names: str, default: Any = _REQUIRED) -> str:
        """A string."""
        value = self.raw(*names, default=default)
        if not isinstance(value, str):
            raise ConfigError(f"{self.where} has {names[0]} {value!r:.80}, but it must be text.")
        return value

    def items(self, *names: str) -> list[Any] | None:
        """A list, or None where the field is absent or null."""
        value = self.raw(*names, default=None)
        if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
            raise ConfigError(f"{self.where} has {names[0]} {value!r:.80}, but it must be a list.")
        return None if value is None else list(value)

    def numbers(self, *names: str) -> tuple[float, ...] | None:
        """A list of finite numbers, or None where the field is absent or null."""
        values = self.items(*names)
        if values is None:
            return None
        inner = Fields({str(index): value for index, value in enumerate(values)}, f"{names[0]} of {self.where}")
        return tuple(inner.number(str(index)) for index in range(len(values)))

    def inner(self, *names: str) -> Fields | None:
        """A nested mapping, or None where the field is absent, null or empty."""
        value = self.raw(*names, default=None)
        if value is not None and not isinstance(value, Mapping):
            raise ConfigError(f"{self.where} has {names[0]} {value!r:.80}, but it must be a group of fields.")
        return Fields(value, f"{names[0]} of {self.where}") if value else None

    def unread(self, ignored: frozenset[str] = frozenset()) -> list[str]:
        """Fields that nothing read and nobody lists as ignored."""
        return sorted(
            name
            for name, value in self.values.items()
            if name not in self.read and name not in ignored and value is not None
        )

    def without(self, names: Iterable[str]) -> Fields:
        """The same fields but for some, which may be inside others: ``rope_scaling.beta``."""
        return Fields(_without(self.values, names), self.where, self.stored, self.defaults)

    def has(self, name: str) -> bool:
        """Whether there is a field, which may be inside another."""
        outer, _, inner = name.partition(".")
        if name in self.values or not inner:
            return name in self.values
        value = self.values.get(outer)
        return isinstance(value, Mapping) and Fields(value).has(inner)


def _without(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    kept = dict(values)
    for name in names:
        outer, _, inner = name.partition(".")
        if name in kept or not inner:
            kept.pop(name, None)
        elif isinstance(kept.get(outer), Mapping):
            kept[outer] = _without(kept[outer], (inner,))
    return kept
