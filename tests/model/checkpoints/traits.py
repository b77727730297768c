"""Cases of families that go another way in a forward pass than any case before them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ropewalk.model.checkpoints.families.reading import read_config
from tests.model.checkpoints.reference import CASES, Case


def kind_of(value: object) -> str:
    """What there is to tell of a value besides its size."""
    if dataclasses.is_dataclass(value):
        parts = [f"{field.name} {kind_of(getattr(value, field.name))}" for field in dataclasses.fields(value)]
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, (tuple, frozenset)):
        return str(sorted({kind_of(one) for one in value}))
    return repr(value) if value is None or isinstance(value, (bool, str)) else type(value).__name__


def traits_of(case: Case) -> set[tuple[str, str]]:
    """What a forward pass may go another way for: its config but for sizes."""
    config = read_config({"model_type": case.family, **case.fields}, "config.json").config
    return {(field.name, kind_of(getattr(config, field.name))) for field in dataclasses.fields(config)}


def with_new_traits(cases: Sequence[Case], *, each_family: bool = True) -> list[Case]:
    """Every case that has a trait which none before it had, and the first case of each family."""
    chosen, families, seen = [], set[str](), set[tuple[str, str]]()
    for case in cases:
        if (each_family and case.family not in families) or not traits_of(case) <= seen:
            chosen.append(case)
        families.add(case.family)
        seen |= traits_of(case)
    return chosen


DIFFERENT = with_new_traits(CASES)
"""What the ordinary run holds; the other cases mix the same traits anew."""
TELLING = with_new_traits(CASES, each_family=False)
"""Those of them that suffice where a family is no more than its config."""
