"""How a place is divided among panels: a tree of rows and columns, and where each of its leaves then stands.

A leaf is the names of the panels that share a place, one in front of the others. Everything here is a function of
trees and rectangles; ``views.stage.stage`` has the widgets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from PySide6.QtCore import QRect, QSize

Pages: TypeAlias = tuple[str, ...]
Path: TypeAlias = tuple[int, ...]
"""Which part of which part: the way from the root of a tree."""
Side = Literal["left", "right", "above", "below"]


@dataclass(frozen=True)
class Split:
    """Parts beside or above one another.

    Attributes
    ----------
    across
        Whether they stand side by side.
    parts, shares
        What stands there, and how much of the room each takes.
    """

    across: bool
    parts: tuple[Tree, ...]
    shares: tuple[int, ...]


Tree: TypeAlias = "Pages | Split"


def row(*parts: tuple[int, str | Split]) -> Split:
    """Parts side by side, each with its share, or with 0 for as little as it needs; names in one text share a place."""
    return _split(True, parts)


def column(*parts: tuple[int, str | Split]) -> Split:
    """Parts above one another."""
    return _split(False, parts)


def _split(across: bool, parts: Sequence[tuple[int, str | Split]]) -> Split:
    trees = tuple(tuple(part.split()) if isinstance(part, str) else part for _, part in parts)
    return Split(across, trees, tuple(share for share, _ in parts))


# What is in a tree ----------------------------------------------------------------------------------------------------


def leaves(tree: Tree) -> list[Pages]:
    """Its leaves, from left to right and from above."""
    return [leaf for part in tree.parts for leaf in leaves(part)] if isinstance(tree, Split) else [tree]


def names(tree: Tree) -> list[str]:
    """The panels in it."""
    return [name for leaf in leaves(tree) for name in leaf]


def shaped(tree: Tree, change: Callable[[Pages], Tree | None]) -> Tree:
    """A tree with other leaves; where one is None, its neighbours take its room."""
    return _shaped(tree, change) or ()


def _shaped(tree: Tree, change: Callable[[Pages], Tree | None]) -> Tree | None:
    if not isinstance(tree, Split):
        return change(tree)
    made = [(share, _shaped(part, change)) for share, part in zip(tree.shares, tree.parts, strict=True)]
    kept = [(share, part) for share, part in made if part]
    if len(kept) < 2:
        return kept[0][1] if kept else None
    return replace(tree, parts=tuple(part for _, part in kept), shares=tuple(share for share, _ in kept))


def without(tree: Tree, gone: frozenset[str]) -> Tree:
    """A tree without some panels."""
    return shaped(tree, lambda leaf: tuple(name for name in leaf if name not in gone))


def swapped(tree: Tree, one: str, other: str) -> Tree:
    """A tree in which two panels have changed places."""
    places = {one: other, other: one}
    return shaped(tree, lambda leaf: tuple(places.get(name, name) for name in leaf))


def beside(tree: Tree, name: str, other: str, side: Side) -> Tree:
    """A tree in which a panel stands beside another one, with half of its room."""

    def divided(leaf: Pages) -> Tree:
        if other not in leaf:
            return leaf
        parts = ((name,), leaf) if side in ("left", "above") else (leaf, (name,))
        return Split(side in ("left", "right"), parts, (1, 1))

    return shaped(without(tree, frozenset({name})), divided)


def behind(tree: Tree, name: str) -> Tree:
    """A tree with one more panel, which shares the last place."""
    last = leaves(tree)[-1] if names(tree) else ()
    return shaped(tree, lambda leaf: (*leaf, name) if leaf == last else leaf) if last else (name,)


def folded(tree: Tree) -> Tree:
    """A tree with fewer places: the last two that divide one share it, one behind the other."""
    if not isinstance(tree, Split):
        return tree
    for place in range(len(tree.parts) - 1, -1, -1):
        if isinstance(tree.parts[place], Split):
            parts = (*tree.parts[:place], folded(tree.parts[place]), *tree.parts[place + 1 :])
            return replace(tree, parts=parts)
    *before, one, other = tree.parts
    together = (*names(one), *names(other))
    shares = (*tree.shares[:-2], sum(tree.shares[-2:]))
    return replace(tree, parts=(*before, together), shares=shares) if before else together


def at(tree: Tree, path: Path) -> Tree:
    """A part of a tree, empty where there is none."""
    for place in path:
        if not isinstance(tree, Split) or place >= len(tree.parts):
            return ()
        tree = tree.parts[place]
    return tree


def resized(tree: Tree, path: Path, shares: Sequence[int]) -> Tree:
    """A tree in which the parts of one part have other shares."""
    assert isinstance(tree, Split)
    if not path:
        return replace(tree, shares=tuple(shares))
    first, *rest = path
    parts = list(tree.parts)
    parts[first] = resized(parts[first], tuple(rest), shares)
    return replace(tree, parts=tuple(parts))


# In files -------------------------------------------------------------------------------------------------------------


def written(tree: Tree) -> Any:
    """A tree as JSON has it."""
    if not isinstance(tree, Split):
        return " ".join(tree)
    return ["row" if tree.across else "column", list(tree.shares), [written(part) for part in tree.parts]]


def read(plain: Any, known: frozenset[str]) -> Tree:
    """A tree as it was written.

    Raises
    ------
    ValueError
        When it is none, or names a panel twice or one that is not known.
    """
    tree = _read(plain)
    found = names(tree)
    if not found or len(found) != len(set(found)) or not known.issuperset(found):
        raise ValueError(f"the panels of {json.dumps(plain)} are not known, or there twice")
    return tree


def _read(plain: Any) -> Tree:
    match plain:
        case str() if plain:
            return tuple(plain.split())
        case ["row" | "column" as kind, [*shares], [_, _, *_] as parts] if len(shares) == len(parts):
            if all(type(share) is int and 0 <= share < 1 << 20 for share in shares) and any(shares):
                return Split(kind == "row", tuple(_read(part) for part in parts), tuple(shares))
    raise ValueError(f"{json.dumps(plain)} divides no place among panels")


# On screen ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edge:
    """The gap between two parts, which a person can move: that after part ``place`` of the part at ``path``."""

    path: Path
    place: int
    box: QRect
    across: bool


class Plan:
    """Where the leaves of a tree stand.

    Attributes
    ----------
    boxes
        The rectangle of each leaf.
    edges
        What lies between them.
    sizes
        How long the parts of each split are, by its path.

    Parameters
    ----------
    tree, box
        What stands where.
    least
        How small a leaf may be.
    gap
        Pixels between two parts.
    """

    def __init__(self, tree: Tree, box: QRect, least: Callable[[Pages], QSize], gap: int) -> None:
        self.boxes: dict[Pages, QRect] = {}
        self.edges: list[Edge] = []
        self.sizes: dict[Path, list[int]] = {}
        self._least, self._gap = least, gap
        self._place(tree, box, ())

    def _place(self, tree: Tree, box: QRect, path: Path) -> None:
        if not isinstance(tree, Split):
            self.boxes[tree] = box
            return
        across, gap = tree.across, self._gap
        least = [_along(least_of(part, self._least, gap), across) for part in tree.parts]
        room = _along(box.size(), across) - gap * (len(tree.parts) - 1)
        sizes = self.sizes[path] = shared_out(room, tree.shares, least)
        at = 0
        for place, (part, size) in enumerate(zip(tree.parts, sizes, strict=True)):
            self._place(part, _slice(box, at, size, across), (*path, place))
            at += size
            if place < len(tree.parts) - 1:
                self.edges.append(Edge(path, place, _slice(box, at, gap, across), across))
            at += gap


def least_of(tree: Tree, least: Callable[[Pages], QSize], gap: int) -> QSize:
    """How small a tree may be, when its leaves may be that small."""
    if not isinstance(tree, Split):
        return least(tree)
    sizes = [least_of(part, least, gap) for part in tree.parts]
    along = sum(_along(size, tree.across) for size in sizes) + gap * (len(sizes) - 1)
    wide = max(_along(size, not tree.across) for size in sizes)
    return QSize(along, wide) if tree.across else QSize(wide, along)


def shared_out(room: int, shares: Sequence[int], least: Sequence[int]) -> list[int]:
    """Divide a length as its shares say, but give nobody less than the least where there is enough for that."""
    fixed = {place: least[place] for place, share in enumerate(shares) if share == 0}
    while True:
        free = [place for place in range(len(shares)) if place not in fixed]
        rest, whole = room - sum(fixed.values()), sum(shares[place] for place in free)
        short = {place: least[place] for place in free if rest * shares[place] < least[place] * whole}
        if not short or len(short) == len(free):
            break
        fixed |= short
    sizes, taken, given = [], 0, 0
    for place, share in enumerate(shares):
        if place in fixed:
            sizes.append(fixed[place])
            continue
        taken += share
        end = max(rest, 0) * taken // whole
        sizes.append(end - given)
        given = end
    return sizes


def _along(size: QSize, across: bool) -> int:
    return size.width() if across else size.height()


def _slice(box: QRect, at: int, size: int, across: bool) -> QRect:
    if across:
        return QRect(box.x() + at, box.y(), size, box.height())
    return QRect(box.x(), box.y() + at, box.width(), size)
