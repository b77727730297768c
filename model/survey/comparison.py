"""Two surveys of the same texts: differences paired by text, with errors and false discoveries kept in check."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ropewalk.model.errors import SurveyError
from ropewalk.model.notebooks.frames import frame
from ropewalk.model.notebooks.pictures import coloured_signed, head_maps
from ropewalk.model.survey.statistics import Bools
from ropewalk.model.survey.tally import Doubles, error_of, mean_of

ROUNDING = 1e-6
"""A mean difference of so much of the values or less is what float32 leaves of none, and is not tested."""
NEARLY_NORMAL = 1000
"""With more degrees of freedom Student's t is a normal distribution to three places of its tails."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """How much every head differs between two surveys.

    Attributes
    ----------
    names
        The statistics that both have, in the order of the arrays.
    difference, error
        [K, L, H] mean over texts of the second's value less the first's, and its standard error.
    count
        [K] texts that have a value in both.
    p
        [K, L, H] of a two-sided paired t-test.
    """

    names: tuple[str, ...]
    difference: Doubles
    error: Doubles
    count: tuple[int, ...]
    p: Doubles

    def adjusted(self, statistic: str) -> Doubles:
        """[L, H] p after Benjamini and Hochberg (1995) over the heads: those up to q hold q false ones among them."""
        return benjamini_hochberg(self.p[self.at(statistic)])

    def significant(self, statistic: str, q: float = 0.05) -> Bools:
        """[L, H] which heads differ, of whom a share of q is expected to be there by chance."""
        found: Bools = self.adjusted(statistic) <= q
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each statistic, layer and head."""
        for at, name in enumerate(self.names):
            adjusted = self.adjusted(name)
            for layer, head in np.ndindex(adjusted.shape):
                yield {
                    "layer": layer,
                    "head": head,
                    "statistic": name,
                    "difference": float(self.difference[at, layer, head]),
                    "error": float(self.error[at, layer, head]),
                    "n": self.count[at],
                    "p": float(self.p[at, layer, head]),
                    "adjusted": float(adjusted[layer, head]),
                }

    def _repr_html_(self) -> str:
        """A map of layers and heads for each statistic: red where the second is larger, pale where it may be chance."""
        maps = []
        for name, n, difference in zip(self.names, self.count, self.difference, strict=True):
            pixels = coloured_signed(difference)
            pixels[~self.significant(name), 3] //= 4
            maps.append((f"{name} ± {np.nanmax(np.abs(difference), initial=0.0):.2g}, n = {n}", pixels))
        return head_maps(maps)

    @property
    def frame(self) -> Any:
        """The same as a pandas DataFrame."""
        return frame(self.rows())

    def at(self, statistic: str) -> int:
        """Where a statistic stands along the first axis."""
        if statistic not in self.names:
            raise SurveyError(f"{statistic!r:.40} was not compared; there are {', '.join(self.names)}.")
        return self.names.index(statistic)


def comparison_of(names: Sequence[str], shape: tuple[int, int], pairs: Iterator[tuple[Doubles, Doubles]]) -> Comparison:
    """Make a comparison of values before and after in pieces [N, K, L, H], NaN where one of the two has none."""
    each = len(names), *shape
    sums, squares, counts = np.zeros(each), np.zeros(each), np.zeros(len(names), np.int64)
    sizes = np.zeros(each)
    for before, after in pairs:
        piece = after - before
        there = ~np.isnan(piece[:, :, 0, 0])
        known = np.where(there[:, :, None, None], piece, 0.0)
        counts += there.sum(0)
        sums += known.sum(0)
        squares += np.square(known).sum(0)
        sizes += np.where(there[:, :, None, None], np.abs(before), 0.0).sum(0)
    count = counts[:, None, None]
    mean, error = mean_of(sums, count), error_of(sums, squares, count)
    rounding = np.abs(mean) <= ROUNDING * mean_of(sizes, count)
    p = np.full(each, math.nan)
    for at, n in enumerate(counts.tolist()):
        if n > 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                t = np.where(rounding[at], 0.0, mean[at] / error[at])
            p[at] = two_sided(t, n - 1)
    return Comparison(tuple(names), mean, error, tuple(counts.tolist()), p)


def two_sided(t: Doubles, freedom: int) -> Doubles:
    """P(|T| ≥ |t|) of Student's t with so many degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    size = np.abs(t)
    if freedom > NEARLY_NORMAL:
        found: Doubles = torch.special.erfc(torch.from_numpy(size / math.sqrt(2.0))).numpy()
        return found
    angle = np.arctan(size / math.sqrt(freedom))
    cosine, odd = np.cos(angle), freedom % 2
    term, total = cosine if odd else np.ones_like(cosine), np.zeros_like(cosine)
    for at in range(1 + odd, freedom, 2):
        total += term
        term = term * np.square(cosine) * at / (at + 1)
    inside = 2 / math.pi * (angle + np.sin(angle) * total) if odd else np.sin(angle) * total
    return np.clip(1.0 - inside, 0.0, 1.0)


def benjamini_hochberg(p: Doubles) -> Doubles:
    """p after Benjamini and Hochberg, in the same shape; NaN stays, and is no test."""
    found = np.full_like(p, math.nan)
    there = ~np.isnan(p)
    known = p[there]
    order = np.argsort(known)[::-1]  # the largest first
    scaled = known[order] * len(known) / np.arange(len(known), 0, -1)
    adjusted = np.empty_like(known)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    found[there] = adjusted
    return found
