"""Which number has which colour: the levels of a map, and how their ends are written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.readings.records import Bools, Doubles, Floats
from ropewalk.views.style import theme, wording
from ropewalk.views.style.theme import Table

Scale = Literal["linear", "log", "diverging"]

LONG = 64
"""Rows from which on few cells of many are large, so that a scale up to the largest shows nothing else."""
ROBUST = 0.995
"""The share of the cells that a robust scale tells apart."""
ROUNDING = 1e-6
"""Relative difference up to which numbers count as equal: that of float32."""
BY_HAND = "by hand"
"""What is said of levels that a person chose."""


@dataclass(frozen=True)
class Levels:
    """What the two ends of the colour table stand for, and how the numbers between them are spread.

    Attributes
    ----------
    share
        The share of the cells that lie up to ``high``; those above have its colour.
    by_hand
        Whether a person chose them.
    """

    low: float
    high: float
    scale: Scale = "linear"
    share: float = 1.0
    by_hand: bool = False

    def indices(self, values: Floats) -> NDArray[np.intp]:
        """Entries of the colour table, clipped to its ends; what is not finite gets an entry that must not be used."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.scale == "diverging":
                largest = max(abs(self.low), abs(self.high)) or 1.0
                share = theme.ZERO + np.rint(values / largest * (255 - theme.ZERO))
                lowest = 2 * theme.ZERO - 255
            else:
                share = np.rint(self.shares(values) * 255)
                lowest = 0
        indices: NDArray[np.intp] = np.clip(np.nan_to_num(share), lowest, 255).astype(np.intp)
        return indices

    def shares(self, values: Floats | Doubles) -> Floats | Doubles:
        """Where numbers are on the colour bar, 0 at its low and 1 at its high end; outside of it where they are."""
        low, high = self._ends()
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.scale == "log":
                return np.asarray(np.log(np.maximum(values, low) / low) / math.log(high / low))
            return np.asarray((values - low) / ((high - low) or 1.0))

    def value_at(self, share: float) -> float:
        """The number at a share (0 to 1) of the colour bar."""
        return float(self.values_at(np.array(share)))

    def values_at(self, shares: Doubles) -> Doubles:
        """The numbers at shares of the colour bar."""
        low, high = self._ends()
        return np.asarray(low * (high / low) ** shares if self.scale == "log" else low + (high - low) * shares)

    def _ends(self) -> tuple[float, float]:
        if self.scale == "diverging":
            largest = max(abs(self.low), abs(self.high))
            return -largest, largest
        return self.low, self.high

    def table(self) -> Table:
        """The table of colours that its indices are of."""
        now = theme.current()
        return now.diverging if self.scale == "diverging" else now.sequential

    def note(self) -> str:
        """What must be said beside the colour bar; empty where its ends are those of the numbers."""
        if self.by_hand:
            return BY_HAND
        return "" if self.share == 1.0 else f"to {100 * self.share:g} %"


def value_range(values: Floats) -> tuple[float, float]:
    """Smallest and largest finite value; (0, 1) where there is none."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    alike = high - low <= ROUNDING * max(abs(low), abs(high))  # else rounding would fill the whole colour bar
    return (low, low + 1.0) if alike else (low, high)


def largest_magnitude(values: Floats) -> float:
    """The largest finite size, 1 where everything is zero: the end of a diverging scale."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max(initial=0.0)) or 1.0


def robust(levels: Levels, values: Floats, visible: Bools, rows: int) -> Levels:
    """Let levels of a long run end where most of its cells do, unless that is about where they end anyway.

    Parameters
    ----------
    values, visible
        [h, w]: the cells, or what stands for them in a reduced picture.
    rows
        How many rows the whole matrix has.
    """
    shown = values[visible & np.isfinite(values)]
    if rows < LONG or shown.size == 0:
        return levels
    sizes = np.abs(shown) if levels.scale == "diverging" else shown
    high = float(np.quantile(sizes, ROBUST))
    least = levels.low + (levels.high - levels.low) / 1000 if levels.scale == "linear" else levels.high / 1000
    if not least < high < levels.low + 0.8 * (levels.high - levels.low):
        return levels
    low = -high if levels.scale == "diverging" else levels.low
    return Levels(low, high, levels.scale, ROBUST)


def brief(value: float) -> str:
    """Write a number in few characters for the colour bar; powers of ten where two decimals would say nothing."""
    size = abs(value)
    if size and math.isfinite(value) and (size < 0.005 or size >= 1e5):
        mantissa, power = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(power)}".replace("-", wording.MINUS)
    return in_cell(value)


def in_cell(value: float) -> str:
    """Write a number in at most five characters or so, for a cell or a bar."""
    return wording.number(round(value, 2), 2) if math.isfinite(value) else wording.number(value)
