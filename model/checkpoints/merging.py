"""Byte-pair merging: neighbours become one symbol, the pair of best priority first and the leftmost among equals.

Sennrich et al. 2016 (arXiv:1508.07909), with a heap and links to neighbours instead of a search for every merge, so
that a long word takes n·log n. This file knows no vocabulary.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

Symbol = TypeVar("Symbol", str, bytes)


def merged(symbols: Iterable[Symbol], priority: Callable[[Symbol], float | None]) -> list[Symbol]:
    """The symbols after all merges.

    Parameters
    ----------
    priority
        Of a symbol that two neighbours would make, smaller first; None where they make none.
    """
    parts: list[Symbol | None] = list(symbols)
    after = [*range(1, len(parts)), -1]
    before = [-1, *range(len(parts) - 1)]
    queue: list[tuple[float, int, int, Symbol]] = []

    def offer(left: int) -> None:
        right = after[left]
        one, other = parts[left], None if right < 0 else parts[right]
        if one is None or other is None:
            return
        joined = one + other
        rank = priority(joined)
        if rank is not None:
            heapq.heappush(queue, (rank, left, right, joined))

    for left in range(len(parts) - 1):
        offer(left)
    while queue:
        _, left, right, joined = heapq.heappop(queue)
        one, other = parts[left], parts[right]
        if one is None or other is None or one + other != joined:
            continue
        parts[left], parts[right] = joined, None
        after[left] = after[right]
        if after[right] >= 0:
            before[after[right]] = left
        offer(left)
        if before[left] >= 0:
            offer(before[left])
    return [part for part in parts if part is not None]
