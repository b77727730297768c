"""How urgent work is: what runs first where several jobs wait."""

from __future__ import annotations

from enum import IntEnum


class Urgency(IntEnum):
    """What runs first: smaller numbers before larger ones."""

    PICTURE = 0
    """What the person has just asked to see: it must not wait for what is shown beside it."""
    POINTER = 1
    COARSE = 2
    DECODE = 3
    PREFILL = 4
    REFINEMENT = 5
    THUMBNAILS = 6
    LATER = 7
    """What nobody waits for."""
