"""Which library does the products of a run, by name: so a run, its file and a message can say it. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.model.codec import stored

ProductName = Literal["torch", "onednn", "numpy"]


@stored("one few many")
@dataclass(frozen=True)
class Products:
    """Which library does the products of a run.

    Attributes
    ----------
    one
        Of one row: a decode step, limited by reading the weights.
    few
        Of less than ``model.decoder.products.MANY_ROWS`` rows.
    many
        Of more.
    """

    one: ProductName = "torch"
    few: ProductName = "torch"
    many: ProductName = "torch"

    @classmethod
    def of(cls, name: ProductName) -> Products:
        """One library for all."""
        return cls(name, name, name)

    def __str__(self) -> str:
        """``onednn``, or ``numpy for one row, onednn for a few and many``."""
        rows: dict[str, list[str]] = {}
        for name, number in ((self.one, "one row"), (self.few, "a few"), (self.many, "many")):
            rows.setdefault(name, []).append(number)
        return next(iter(rows)) if len(rows) == 1 else ", ".join(f"{n} for {' and '.join(r)}" for n, r in rows.items())


BY_TORCH = Products()
