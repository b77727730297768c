"""Where a number lives: the place of a line of arithmetic, as a light on other panels and as the panel that shows it.

It owns how ``Line.place`` is read. It must not know how a place is drawn.
"""

from __future__ import annotations

from app.selection import Hover, Selection

PANELS = {"cell": "scores", "row": "scores", "plane": "rope", "cache": "cache", "ledger": "ledger"}
"""Kinds of places whose panel has another name than the place."""


def panel_of(place: str) -> str:
    """The name of the panel that shows a place, empty for no place."""
    kind = place.partition(":")[0]
    return PANELS.get(kind, kind)


def lit(place: str, key: str, now: Selection) -> Hover:
    """What to point at for a place: the cell, the row, a plane, a cached position or a token.

    Parameters
    ----------
    place, key
        ``Line.place`` and ``Line.key``; a line about the query's token has ``query`` in its key.
    now
        The cell whose arithmetic it is.
    """
    kind, _, which = place.partition(":")
    if kind == "cell":
        return Hover(query=now.query, key=now.key, layer=now.layer, head=now.head)
    if kind in ("row", "next_token"):
        return Hover(query=now.query)
    if kind == "plane":
        return Hover(plane=int(which))
    if kind == "cache":
        return Hover(key=now.key)
    if kind == "tokens":
        return Hover(query=now.query) if ".query." in key else Hover(key=now.key)
    return Hover()
