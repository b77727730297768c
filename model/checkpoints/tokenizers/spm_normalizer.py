"""How SentencePiece rewrites a text before it cuts it: its compiled table of replacements, and what it does to spaces.

The table is a double array (Yata et al., as in darts-clone) of texts, each leading to a place in a block of
replacements. The tokenizers library reads it too (``Precompiled``), but looks up whole grapheme clusters of up to five
bytes, else single characters, and takes the shortest entry that a cluster begins with; SentencePiece takes the longest
entry at each byte. Hangul in jamo, marks on ligatures and stacked marks so come out otherwise there. It is therefore
read here, in plain Python, so that a damaged table can only raise.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

SPACE = "▁"
LONGEST = 64
"""Bytes of a text in the table, or of its replacement, at most; real ones have far fewer."""


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

    def __call__(self, text: str) -> Iterator[str]:
        """What is written for a text, the longest entry at each place replaced; one part an entry or character."""
        data, at = text.encode(), 0
        while at < len(data):
            size, place = self._longest(data, at)
            part = self._texts[place : place + LONGEST].split(b"\0", 1)[0]
            if not size:
                size = 1
                while at + size < len(data) and data[at + size] & 0xC0 == 0x80:
                    size += 1
                part = data[at : at + size]
            yield part.decode("utf-8", "replace")
            at += size

    def _longest(self, data: bytes, start: int) -> tuple[int, int]:
        """The longest entry that begins at ``start``: its bytes, 0 for none, and where its replacement is."""
        units, found = self._units, (0, 0)
        node = _offset(units[0])
        for at in range(start, min(len(data), start + LONGEST)):
            node ^= data[at]
            if node >= len(units) or units[node] & 0x8000_00FF != data[at]:
                break
            unit = units[node]
            node ^= _offset(unit)
            if unit >> 8 & 1 and node < len(units):
                found = at + 1 - start, units[node] & 0x7FFF_FFFF
        return found


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
        parts = [*self._rewritten(text, kept)]
        if self.collapse:
            parts = [*itertools.dropwhile(" ".__eq__, parts)]
        if not parts:
            return ""
        out: list[str] = []
        for part in parts:
            left = part.lstrip(" ") if self.collapse and (not out or out[-1][-1] == " ") else part
            out += [left] if left else []
        space = SPACE if self.escape else " "
        around = space if self.prefix and begins else ""
        written = ("" if self.suffix else around) + "".join(out).replace(" ", space)
        if self.collapse:
            written = written.rstrip(space)
        return written + around if self.suffix else written

    def _rewritten(self, text: str, kept: re.Pattern[str] | None) -> Iterator[str]:
        """The text in parts: what is kept, what is replaced, and every other character."""
        replaced = self.replacements or iter
        start = 0
        for found in kept.finditer(text) if kept is not None else ():
            yield from replaced(text[start : found.start()])
            yield found[0]
            start = found.end()
        yield from replaced(text[start:])
