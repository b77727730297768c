"""Fewer cases than every combination of some settings, among which every choice of three settings is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

Case = tuple[Any, ...]
Triple = tuple[tuple[int, Any], ...]


def triples(case: Case) -> Iterator[Triple]:
    """Every three settings of a case, each with its place."""
    return combinations(enumerate(case), 3)


def covering(*settings: Sequence[Any]) -> list[Case]:
    """Cases in which any three values of three different settings meet.

    What goes wrong when up to three settings meet is found as it is by their product. The cases are the same in every
    run: the product is walked in one shuffled order, and a case is taken that brings many triples, later few.
    """
    cases = list(product(*settings))
    random.Random(0).shuffle(cases)
    missing = {triple for case in cases for triple in triples(case)}
    taken: list[Case] = []
    at_once = len(list(triples(cases[0])))
    while missing:
        for case in cases:
            new = missing.intersection(triples(case))
            if len(new) >= max(at_once, 1):
                taken.append(case)
                missing -= new
        at_once //= 2
    return taken
