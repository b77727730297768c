"""Where things stand in a TOML file, since the parser keeps no line numbers.

It knows headers, keys and multi-line strings, no more; a lesson's reader asks it where to point when a value that
parsed well turns out to be wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

Place: TypeAlias = tuple[str | int, ...]
"""The way to a table: names, and numbers after the name of an array of tables: ``("step", 2, "check", 0)``."""

HEADER = re.compile(r"\s*(?P<open>\[\[?)(?P<path>[^\[\]]+)\]")
KEY = re.compile(r"""\s*["']?(?P<key>[\w.\-]+)["']?\s*=""")
AT = re.compile(r"at line (\d+)")
MOST_NAMES = 30
"""Names in a header that is looked for; no lesson has as many."""
QUOTES = ('"""', "'''")


@dataclass(frozen=True)
class Stretch:
    """Lines of one table, counted from 1, ``stop`` exclusive."""

    start: int
    stop: int


class TomlLines:
    """The lines of a file, and which table each belongs to."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self._tables: dict[Place, Stretch] = {}
        self._read()

    def __contains__(self, place: Place) -> bool:
        """Whether a table, or one in it, has a header."""
        return place in self._tables

    def line_of(self, place: Place = (), key: str = "", needle: str = "") -> int:
        """The line, counted from 1, of a table, of a key in it, or of a text in the key's value.

        The nearest that is found counts: a table that is not there is looked for without its last part.
        """
        while place and place not in self._tables:
            place = place[:-1]
        if key and (*place, key) in self._tables:
            place, key = (*place, key), ""
        table = self._tables[place]
        start = self._key_line(table, key) if key else table.start
        first = needle.strip().split("\n")[0].strip()
        if first:
            for number in range(start, table.stop):
                if first in self.lines[number - 1]:
                    return number
        return start

    def _key_line(self, table: Stretch, key: str) -> int:
        for number in range(table.start, table.stop):
            match = KEY.match(self.lines[number - 1])
            if match is not None and match["key"] == key:
                return number
        for number in range(table.start, table.stop):
            if re.search(rf"\b{re.escape(key)}\b", self.lines[number - 1]):
                return number
        return table.start

    def _read(self) -> None:
        """Find the headers, passing over what stands in multi-line strings."""
        found: list[tuple[int, Place]] = [(1, ())]
        counts: dict[Place, int] = {}
        inside = ""
        for number, line in enumerate(self.lines, start=1):
            if inside:
                inside = "" if inside in line else inside
                continue
            header = HEADER.match(line)
            if header is not None and header["path"].count(".") < MOST_NAMES:
                found.append((number, self._resolved(header, counts)))
                continue
            inside = _opened(line)
        ends = [start for start, _ in found[1:]] + [len(self.lines) + 1]
        for (start, place), stop in zip(found, ends, strict=True):
            for end in range(len(place), 0, -1):  # a table that only its inner tables have headers of counts too
                self._tables.setdefault(place[:end], Stretch(start, stop))
            self._tables.setdefault((), Stretch(start, stop))

    @staticmethod
    def _resolved(header: re.Match[str], counts: dict[Place, int]) -> Place:
        """A header's path with the numbers of the array tables it lies in."""
        names = [name.strip().strip("\"'") for name in header["path"].split(".")]
        place: Place = ()
        for name in names[:-1]:
            place = (*place, name)
            if place in counts:
                place = (*place, counts[place])
        place = (*place, names[-1])
        if header["open"] == "[[":
            counts[place] = counts.get(place, -1) + 1
            return (*place, counts[place])
        return place


def _opened(line: str) -> str:
    """The quotes of a multi-line string that begins in a line and does not end in it."""
    starts = [(line.find(quote), quote) for quote in QUOTES if quote in line]
    if not starts:
        return ""
    at, quote = min(starts)
    return "" if quote in line[at + 3 :] else quote


def line_in(message: str, default: int) -> int:
    """The line that a parser's message names."""
    match = AT.search(message)
    return default if match is None else int(match[1])
