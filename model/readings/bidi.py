"""Text of any direction inside a sentence: isolated, so that what is written from right to left reorders only itself.

Unicode's FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE (UAX #9).
"""

from __future__ import annotations

import unicodedata

FIRST_STRONG_ISOLATE = "\u2068"
POP_ISOLATE = "\u2069"
ISOLATES = FIRST_STRONG_ISOLATE + POP_ISOLATE
FROM_RIGHT = frozenset(("R", "AL", "AN"))
"""Bidirectional classes of Hebrew, Arabic, and Arabic numbers."""


def isolated(text: str) -> str:
    """A text for use inside a sentence; one that runs from left to right is as it was."""
    if text.isascii() or FROM_RIGHT.isdisjoint(map(unicodedata.bidirectional, text)):
        return text
    return f"{FIRST_STRONG_ISOLATE}{text}{POP_ISOLATE}"
