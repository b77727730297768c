"""What a survey keeps: sums, squares, counts, a histogram and the strongest examples, which add up in any order."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.errors import SurveyError
from ropewalk.model.survey.array_file import Arrays, Axes, read_arrays, write_arrays
from ropewalk.model.survey.statistics import GRID, Numbers

Doubles: TypeAlias = NDArray[np.float64]
NOBODY = -1
AXES: Axes = {
    "texts": (), "counts": ("K",), "sums": ("K", "L", "H"), "squares": ("K", "L", "H"),
    "distances": ("D", "L", "H"), "distance_squares": ("D", "L", "H"),
    "maps": ("L", "H", GRID, GRID), "map_counts": (GRID,),
    "values": ("K", "L", "H", "E"), "places": ("K", "L", "H", "E", 3),
}  # fmt: skip

WHOLE = frozenset({"texts", "counts", "map_counts", "places", "shards"})
"""Which of them are whole numbers."""
MOST_RANGES = 64
"""Ranges of distances, of which each is twice as wide as the one before."""


@dataclass(eq=False)
class Tally:
    """Numbers that say all of some texts; those of two sets of texts are added.

    Letters: K statistics, L layers, H heads, D ranges of distances, E examples of each head and statistic.

    Attributes
    ----------
    texts
        How many there were.
    counts
        [K] of them, those with an eligible query.
    sums, squares
        [K, L, H] of the texts' values.
    distances, distance_squares
        [D, L, H] of the texts' shares of weight in each range of distances.
    maps, map_counts
        [L, H, G, G] of the texts' mean shares of weight of the queries in one part of a text on the keys in another,
        and [G] the texts that have queries there.
    values
        [K, L, H, E] of the examples, the largest first, −inf where there is none.
    places
        [K, L, H, E, 3] their text, query and key.
    """

    texts: int
    counts: Numbers
    sums: Doubles
    squares: Doubles
    distances: Doubles
    distance_squares: Doubles
    maps: Doubles
    map_counts: Numbers
    values: Doubles
    places: NDArray[np.int32]

    @classmethod
    def empty(cls, statistics: int, layers: int, heads: int, bins: int, top: int) -> Tally:
        """Nothing yet."""
        each = statistics, layers, heads
        return cls(
            0,
            np.zeros(statistics, np.int64),
            np.zeros(each),
            np.zeros(each),
            np.zeros((bins, layers, heads)),
            np.zeros((bins, layers, heads)),
            np.zeros((layers, heads, GRID, GRID)),
            np.zeros(GRID, np.int64),
            np.full((*each, top), -math.inf),
            np.full((*each, top, 3), NOBODY, np.int32),
        )

    def add(self, values: Doubles, distances: Doubles) -> None:
        """Add texts: their values [B, K, L, H], NaN where a text has none, and shares by distance [B, D, L, H]."""
        there = ~np.isnan(values[:, :, 0, 0])
        known = np.where(there[:, :, None, None], values, 0.0)
        self.texts += len(values)
        self.counts += there.sum(0)
        self.sums += known.sum(0)
        self.squares += np.square(known).sum(0)
        self.distances += distances.sum(0)
        self.distance_squares += np.square(distances).sum(0)

    def add_examples(self, layer: int, kinds: Numbers, heads: Numbers, values: Doubles, places: Numbers) -> None:
        """Add cells of a layer: of which statistic and head each is, its value and its place, [c] and [c, 3]."""
        code = kinds * self.sums.shape[2] + heads
        order = np.argsort(code, kind="stable")
        which, first, count = np.unique(code[order], return_index=True, return_counts=True)
        row, nth = np.repeat(np.arange(len(which)), count), np.arange(len(order)) - np.repeat(first, count)
        new = np.full((len(which), count.max()), -math.inf)
        at = np.full((*new.shape, 3), NOBODY)
        new[row, nth], at[row, nth] = values[order], places[order]
        kind, head = np.divmod(which, self.sums.shape[2])
        kept = np.concatenate((self.values[kind, layer, head], new), -1)
        at = np.concatenate((self.places[kind, layer, head], at), -2)
        self.values[kind, layer, head], self.places[kind, layer, head] = _strongest(kept, at, self.top)

    @property
    def top(self) -> int:
        """E."""
        return int(self.values.shape[-1])

    def merge(self, other: Tally) -> None:
        """Add what other texts gave."""
        self.texts += other.texts
        for name in ("counts", "sums", "squares", "distances", "distance_squares", "maps", "map_counts"):
            getattr(self, name).__iadd__(getattr(other, name))
        values = np.concatenate((self.values, other.values), -1)
        places = np.concatenate((self.places, other.places), -2)
        self.values, self.places = _strongest(values, places, self.top)

    @property
    def mean(self) -> Doubles:
        """[K, L, H], NaN where no text has a value."""
        return mean_of(self.sums, self.counts[:, None, None])

    @property
    def error(self) -> Doubles:
        """[K, L, H] the standard error of the mean over texts; NaN for fewer than two."""
        return error_of(self.sums, self.squares, self.counts[:, None, None])

    @property
    def distance_mean(self) -> Doubles:
        """[D, L, H]."""
        return mean_of(self.distances, np.array(self.texts))

    @property
    def distance_error(self) -> Doubles:
        """[D, L, H]."""
        return error_of(self.distances, self.distance_squares, np.array(self.texts))

    def mean_map(self, layer: int, head: int) -> Doubles:
        """[G, G] of a head."""
        return mean_of(self.maps[layer, head], self.map_counts[:, None])

    def copy(self) -> Tally:
        """The same, to be added to."""
        return Tally.of_arrays({name: one.copy() for name, one in self.arrays.items()})

    @property
    def arrays(self) -> Arrays:
        """All of it, by name."""
        return {name: np.asarray(getattr(self, name)) for name in AXES}

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Tally:
        """What :attr:`arrays` gave."""
        return cls(int(arrays["texts"]), **{name: arrays[name] for name in AXES if name != "texts"})

    def save(self, path: Path, shards: Iterable[int]) -> None:
        """Write it whole, with the shards that it is of."""
        write_arrays(path, {**self.arrays, "shards": np.array(sorted(shards), np.int64)})

    @classmethod
    def load(cls, path: Path) -> tuple[Tally, frozenset[int]]:
        """Read what was saved, mapped: it is to be added to another, and not to."""
        cure = "delete it, and the survey runs its texts again"
        arrays = read_arrays(path, {**AXES, "shards": ("S",)}, WHOLE, cure)
        if not arrays["sums"].size or not 0 < len(arrays["distances"]) <= MOST_RANGES:
            raise SurveyError(f"{path} is of no heads or of no distances, so it is no tally of a survey; {cure}.")
        return cls.of_arrays(arrays), frozenset(arrays["shards"].tolist())


def _strongest(values: Doubles, places: NDArray[np.int32], top: int) -> tuple[Doubles, NDArray[np.int32]]:
    """The largest first, of equal ones the earliest text, query and key."""
    order = np.lexsort((places[..., 2], places[..., 1], places[..., 0], -values))[..., :top]
    return np.take_along_axis(values, order, -1), np.take_along_axis(places, order[..., None], -2)


def mean_of(sums: Doubles, count: Numbers) -> Doubles:
    """NaN where nothing was counted."""
    with np.errstate(invalid="ignore"):
        found: Doubles = np.where(count > 0, sums / np.maximum(count, 1), math.nan)
    return found


def error_of(sums: Doubles, squares: Doubles, count: Numbers) -> Doubles:
    """The standard error of a mean; NaN for fewer than two."""
    spread = np.maximum(squares - np.square(sums) / np.maximum(count, 1), 0.0)
    found: Doubles = np.where(count > 1, np.sqrt(spread / np.maximum(count * (count - 1), 1)), math.nan)
    return found
