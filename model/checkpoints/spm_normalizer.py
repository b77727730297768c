"""How SentencePiece rewrites a text before it cuts it: its compiled table of replacements, and what it does to spaces.

The table is a double array (Yata et al., as in darts-clone) of texts, each leading to a place in a block of
replacements. It is read here in plain Python, so that a damaged table can only raise. Nothing here knows a vocabulary.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

SPACE = "▁"
LONGEST_KEY = 64
"""Bytes of a text in the table; real ones have far fewer."""


class Replacements:
    """The compiled table ("precompiled_charsmap").

    Parameters
    ----------
    data
        Four bytes with the length of the double array, the array, then replacements that end in a zero byte.

    Raises
    ------
    ValueError
        When lengths do not fit.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < 8:
            raise ValueError("the table of replacements is too short")
        (size,) = struct.unpack_from("<I", data)
        if size % 4 or not 4 <= size <= len(data) - 4:
            raise ValueError("the table of replacements has another length than it says")
        self._units = struct.unpack_from(f"<{size // 4}I", data, 4)
        self._texts = data[4 + size :]

    def longest(self, data: bytes, start: int) -> tuple[int, bytes] | None:
        """The longest text of the table that begins at ``start``: its length and what replaces it; None for none."""
        units = self._units
        found: tuple[int, int] | None = None
        place = _offset(units[0])
        for at in range(start, min(len(data), start + LONGEST_KEY)):
            place ^= data[at]
            if place >= len(units) or units[place] & 0x8000_00FF != data[at]:
                break
            unit = units[place]
            place ^= _offset(unit)
            if unit >> 8 & 1 and place < len(units):
                found = at + 1 - start, units[place] & 0x7FFF_FFFF
        if found is None:
            return None
        begin = found[1]
        end = self._texts.find(b"\0", begin)
        return found[0], self._texts[begin : end if end >= 0 else len(self._texts)]


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


@dataclass(frozen=True)
class Normalizer:
    """What happens to a text before it is cut.

    Attributes
    ----------
    replacements
        The table; None for none.
    prefix
        Whether a space is put before the text; after it, with ``suffix``.
    collapse
        Whether spaces at the ends go and several in a row become one.
    escape
        Whether spaces are written ``▁``.
    """

    replacements: Replacements | None = None
    prefix: bool = True
    collapse: bool = True
    escape: bool = True
    suffix: bool = False

    def __call__(self, text: str, kept: re.Pattern[str] | None, begins: bool = True) -> str:
        """The text as the vocabulary spells it.

        Parameters
        ----------
        kept
            Finds stretches that are left as they are.
        begins
            Whether this is where the text begins, so that the space belongs before it.
        """
        parts = list(self._rewritten(text, kept))
        first = 0
        while self.collapse and parts[first : first + 1] == [" "]:
            first += 1
        if first == len(parts):
            return ""
        space = SPACE if self.escape else " "
        out = [space] if self.prefix and begins and not self.suffix else []
        after_space = self.collapse
        for part in parts[first:]:
            left = part.lstrip(" ") if after_space else part
            if left:
                out.append(left.replace(" ", space))
                after_space = self.collapse and left.endswith(" ")
        written = "".join(out)
        while self.collapse and written.endswith(space):
            written = written.removesuffix(space)
        return written + space if self.prefix and begins and self.suffix else written

    def _rewritten(self, text: str, kept: re.Pattern[str] | None) -> Iterator[str]:
        """The text in parts: what is kept, what is replaced, and every other character."""
        start = 0
        for found in kept.finditer(text) if kept is not None else ():
            yield from self._replaced(text[start : found.start()])
            yield found[0]
            start = found.end()
        yield from self._replaced(text[start:])

    def _replaced(self, text: str) -> Iterator[str]:
        if self.replacements is None:
            yield from text
            return
        data, at = text.encode(), 0
        while at < len(data):
            found = self.replacements.longest(data, at)
            if found is None:
                size = 1
                while at + size < len(data) and data[at + size] & 0xC0 == 0x80:
                    size += 1
                found = size, data[at : at + size]
            yield found[1].decode("utf-8", "replace")
            at += found[0]
