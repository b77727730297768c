"""Where a number lives: the place of a line of arithmetic, as a light on other panels and as the panel that shows it.

It owns how ``Line.place`` is read, and which row of the ledger computes which line. It must not know how a place is
drawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ropewalk.app.session.selection import Hover, Selection

PANELS: Final = {"cell": "scores", "row": "scores", "plane": "rope", "cache": "cache", "ledger": "ledger"}
"""Kinds of places whose panel has another name than the place."""

OPERATIONS: Final = {
    "norm.": "attn_norm",
    "project.v": "v",
    "rotate.q": "rope_q",
    "rotate.k": "rope_k",
    "score.": "scores",
    "softmax.taken": "blend",
    "softmax.": "softmax",
    "logit.": "lm_head",
}
"""Beginnings of a line's key → the row of the ledger that computes it, for lines that live elsewhere too."""


def panel_of(place: str) -> str:
    """The name of the panel that shows a place, empty for no place."""
    kind = place.partition(":")[0]
    return PANELS.get(kind, kind)


def operation_of(place: str, key: str) -> str | None:
    """The row of the ledger that computes a line, None where none does."""
    kind, _, which = place.partition(":")
    if kind == "ledger":
        return which
    return next((row for beginning, row in OPERATIONS.items() if key.startswith(beginning)), None)


def hover_of(place: str, key: str, now: Selection) -> Hover:
    """What to point at for a line: its row of the ledger, and the cell, row, plane, cached position or token.

    Parameters
    ----------
    place, key
        ``Line.place`` and ``Line.key``; a line about the query's token has ``query`` in its key.
    now
        The cell whose arithmetic it is.
    """
    return replace(_pointed(place, key, now), operation=operation_of(place, key))


def _pointed(place: str, key: str, now: Selection) -> Hover:
    kind, _, which = place.partition(":")
    if kind == "cell":
        return Hover(query=now.query, key=now.key, layer=now.layer, head=now.head)
    if kind in ("row", "next_token"):
        return Hover(query=now.query)
    if kind == "plane":
        return Hover(plane=int(which))
    if kind == "cache":
        return Hover(key=now.key, layer=now.layer, head=now.head, slot="K" if which == "key" else "V")
    if kind == "tokens":
        return Hover(query=now.query) if ".query." in key else Hover(key=now.key)
    return Hover()
