"""A table of a lesson file, read with checks: each says what is wrong, and in which line.

What a lesson may hold is the reader's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from ropewalk.app.lessons.toml_lines import Place, TomlLines
from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.expressions import LARGEST

MOST = 1_000
"""Things that a list or a table of a lesson may hold, those of numbers left out."""
MOST_TEXT = 20_000
"""Letters of one text."""
DEEPEST = 20
"""How many lists and tables may lie in one another."""


class LessonFileError(LessonError):
    """What is wrong in a lesson file, and where.

    Attributes
    ----------
    line
        Counted from 1.
    why
        The reason, without the place.
    """

    def __init__(self, line: int, why: str, name: str = "") -> None:
        super().__init__(f"{name or 'The lesson'}, line {line}: {why}")
        self.line = line
        self.why = why


class Table:
    """A table of the file, and where it stands."""

    def __init__(self, values: Mapping[str, Any], place: Place, lines: TomlLines, what: str) -> None:
        self.values = values
        self.place = place
        self.lines = lines
        self.what = what

    def broken(self, why: str, key: str = "", needle: str = "") -> LessonFileError:
        """An error that points to a key, or to a text in its value."""
        return LessonFileError(self.lines.line_of(self.place, key, needle), why)

    def only(self, allowed: Iterable[str]) -> None:
        """Refuse keys that are not listed."""
        known = tuple(allowed)
        for key in self.values:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it may have {', '.join(known)}."
                raise self.broken(f"{self.what} has no key {key!r}; {hint}", key)

    def has(self, key: str) -> bool:
        """Whether a key is there."""
        return key in self.values

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.broken(f"{key} is {value!r:.60}, but it must be text in quotes.", key)
        if len(value) > MOST_TEXT:
            raise self.broken(f"{key} has {len(value):,} letters, more than {MOST_TEXT:,}; make several of it.", key)
        return value

    def whole(self, key: str, default: int | None = None, least: int = 0, most: int = LARGEST) -> int:
        """A whole number."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.broken(f"{key} is {value!r:.60}, but it must be a whole number of {least} or more.", key)
        if value > most:
            raise self.broken(f"{key} is {value:,}, but it must be at most {most:,}.", key)
        return value

    def one_of(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        """A word from a list."""
        value, known = self.text(key, default), tuple(allowed)
        if value not in known:
            near = get_close_matches(value, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it must be one of {', '.join(known)}."
            raise self.broken(f"{key} is {value!r}; {hint}", key)
        return value

    def items(self, key: str) -> list[Any]:
        """A list, empty where the key is absent."""
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.broken(f"{key} is {value!r:.60}, but it must be a list in [ ].", key)
        if len(value) > MOST:
            raise self.broken(f"{key} holds {len(value):,} things, but there may be {MOST:,}.", key)
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        for item in self.items(key):
            if not isinstance(item, str):
                raise self.broken(f"{key} holds {item!r:.60}, which is no text in quotes.", key)
        return tuple(self.items(key))

    def inner(self, key: str) -> Table:
        """A table in this one, empty where it is absent."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.broken(f"{key} is {value!r:.60}, but it must be a table.", key)
        self._check_many(key, value)
        return self._below(value, (*self.place, key), key, key)

    def _check_many(self, key: str, value: Mapping[str, Any]) -> None:
        if len(value) > MOST:
            raise self.broken(f"{key} has {len(value):,} keys, but there may be {MOST:,}.", key)

    def tables(self, key: str) -> list[Table]:
        """An array of tables."""
        found = []
        for number, value in enumerate(self.items(key)):
            if not isinstance(value, dict):
                raise self.broken(f"{key} holds {value!r:.60}, which is no table.", key)
            found.append(self._below(value, (*self.place, key, number), key, f"{key} {number + 1}"))
        return found

    def _below(self, value: Mapping[str, Any], place: Place, key: str, what: str) -> Table:
        inside = place in self.lines
        return Table(value, place, self.lines, what) if inside else _Inline(value, self, key, what)

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key, default)
        if value is None:
            raise self.broken(f"{self.what} has no {key}.")
        return value


class _Inline(Table):
    """A table written in the line of a key, as ``{ a = 1 }``."""

    def __init__(self, values: Mapping[str, Any], outer: Table, key: str, what: str) -> None:
        super().__init__(values, outer.place, outer.lines, what)
        self.outer = outer
        self.key = key

    def broken(self, why: str, key: str = "", needle: str = "") -> LessonFileError:
        """Point into the value of the outer table's key."""
        value = self.values.get(key)
        own = needle or (value if isinstance(value, str) else "") or key
        return self.outer.broken(why, self.key, own)

    def inner(self, key: str) -> Table:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.broken(f"{key} is {value!r:.60}, but it must be a table.", key)
        self._check_many(key, value)
        return _Inline(value, self, key, key)

    def tables(self, key: str) -> list[Table]:
        found: list[Table] = []
        for value in self.items(key):
            if not isinstance(value, dict):
                raise self.broken(f"{key} holds {value!r:.60}, which is no table.", key)
            found.append(_Inline(value, self, key, key))
        return found


def check_size(value: Any, place: Place, lines: TomlLines) -> None:
    """Refuse whole numbers beyond the 64 bits that TOML promises, and lists in lists without end."""
    if len(place) > DEEPEST:
        raise LessonFileError(lines.line_of(place), f"more than {DEEPEST} lists or tables lie in one another.")
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            check_size(item, (*place, key), lines)
    elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
        why = "a whole number has more than 64 bits; write a smaller one, or one with a point."
        raise LessonFileError(lines.line_of(place, needle=f"{value:d}"[:40]), why)
