"""What came of a survey: read from its folder, or kept in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.errors import SurveyError
from ropewalk.model.limits import limited
from ropewalk.model.notebooks.frames import frame
from ropewalk.model.survey.comparison import Comparison, comparison_of
from ropewalk.model.survey.statistics import SURVEYED, Numbers, distance_bins
from ropewalk.model.survey.tables import heads_table
from ropewalk.model.survey.tally import NOBODY, Doubles, Tally, read_values

MANIFEST, SHARDS = "manifest.json", "shards"

Kept = Sequence[tuple[Numbers, NDArray[np.float32]]]
"""Numbers of texts, and their values [N, K, L, H]."""


@dataclass(frozen=True)
class Example:
    """A cell where a statistic of a head is large: the text's number, the query, the key, and the query's value."""

    text: int
    query: int
    key: int
    value: float


@dataclass(frozen=True, eq=False)
class MeanMap:
    """Mean weights of a head by distance and by place.

    Attributes
    ----------
    ranges
        [D, 2] distances q − k from … to − 1.
    share
        [D] the share of a query's weight in each range.
    grid
        [G, G] the share of weight that queries in one of G equal parts of a text give to the keys in another; NaN where
        every text is too short to have any there.
    """

    ranges: NDArray[np.int64]
    share: Doubles
    grid: Doubles


class Survey:
    """Statistics of every head over many texts.

    Attributes
    ----------
    manifest
        What was surveyed, and how.
    names
        The statistics that there are.
    """

    def __init__(self, tally: Tally, manifest: dict[str, Any], folder: Path | None = None, kept: Kept = ()) -> None:
        self._tally, self.manifest, self.folder, self._kept = tally, manifest, folder, kept
        self.names: tuple[str, ...] = tuple(manifest["settings"]["statistics"])

    def __repr__(self) -> str:
        return f"<Survey of {self.manifest['model']['name']}: {self.texts} texts, {len(self.names)} statistics>"

    @property
    def texts(self) -> int:
        """How many texts were run."""
        return self._tally.texts

    @property
    def complete(self) -> bool:
        """Whether all the texts were run."""
        return bool(self.manifest.get("complete"))

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each statistic, layer and head."""
        columns = heads_table(self._tally, self.names)
        for row in zip(*(np.asarray(one).tolist() for one in columns.values()), strict=True):
            yield dict(zip(columns, row, strict=True))

    @property
    def frame(self) -> Any:
        """The same as a pandas DataFrame."""
        return frame(self.rows())

    def mean(self, statistic: str) -> Doubles:
        """[L, H] over texts; NaN where no text has a value."""
        found: Doubles = self._tally.mean[self._at(statistic)]
        return found

    def error(self, statistic: str) -> Doubles:
        """[L, H] the standard error of the mean; NaN for fewer than two texts."""
        found: Doubles = self._tally.error[self._at(statistic)]
        return found

    def count(self, statistic: str) -> int:
        """n, the texts that have a value."""
        return int(self._tally.counts[self._at(statistic)])

    def top_examples(self, head: tuple[int, int], statistic: str) -> list[Example]:
        """The strongest cells of a (layer, head), one of each text at most."""
        at, (layer, number) = self._at(statistic), self._head(head)
        values, places = self._tally.values[at, layer, number], self._tally.places[at, layer, number]
        return [
            Example(int(text), int(query), int(key), float(value))
            for value, (text, query, key) in zip(values, places, strict=True)
            if text != NOBODY
        ]

    def mean_map(self, head: tuple[int, int]) -> MeanMap:
        """Mean weights of a (layer, head) by distance and by place."""
        layer, number = self._head(head)
        ranges = np.array(distance_bins(1 << (len(self._tally.distances) - 1)))
        return MeanMap(ranges, self._tally.distance_mean[:, layer, number], self._tally.mean_maps[layer, number])

    def compare(self, other: Survey) -> Comparison:
        """How much every head of another survey of the same texts differs from here, paired by text.

        Raises
        ------
        SurveyError
            For a survey of other texts, or of a model with other heads.
        """
        self._check_pairs_with(other)
        names = [name for name in self.names if name in other.names]
        mine, theirs = ([survey._at(name) for name in names] for survey in (self, other))

        def differences() -> Iterator[Doubles]:
            for shard, (numbers, values) in self._shards():
                found = other._values_of(shard)
                if found is not None:
                    _, here, there = np.intersect1d(numbers, found[0], return_indices=True)
                    yield found[1][there][:, theirs].astype(np.float64) - values[here][:, mine]

        _, layers, heads = self._tally.sums.shape
        return comparison_of(names, (layers, heads), differences())

    def _shards(self) -> Iterator[tuple[int, tuple[Numbers, NDArray[np.float32]]]]:
        numbers = range(len(self._kept)) if self.folder is None else shards_of(self.folder)
        for number in numbers:
            found = self._values_of(number)
            assert found is not None
            yield number, found

    def _values_of(self, shard: int) -> tuple[Numbers, NDArray[np.float32]] | None:
        """The texts of a shard and their values [N, K, L, H], None where it was not run."""
        if self.folder is None:
            return self._kept[shard] if shard < len(self._kept) else None
        path = shards_of(self.folder).get(shard)
        return None if path is None else read_values(path)

    def _check_pairs_with(self, other: Survey) -> None:
        here, there = ({"corpus": one.manifest["corpus"], **one.manifest["settings"]} for one in (self, other))
        for name in ("corpus", "tokens", "limit", "seed", "windows", "column"):
            if here[name] != there[name]:
                raise SurveyError(f"The two surveys are of other texts: their {name} differs.")
        if self._tally.sums.shape[1:] != other._tally.sums.shape[1:]:
            raise SurveyError("The two surveys are of models with other layers or heads, so no head has a partner.")

    def formula(self, statistic: str) -> str:
        """How a statistic is computed, in words."""
        self._at(statistic)
        return f"{SURVEYED[statistic].title}: {SURVEYED[statistic].formula}"

    def _at(self, statistic: str) -> int:
        if statistic not in self.names:
            raise SurveyError(f"This survey has no statistic {statistic!r:.40}; it has {', '.join(self.names)}.")
        return self.names.index(statistic)

    def _head(self, head: tuple[int, int]) -> tuple[int, int]:
        _, layers, heads = self._tally.sums.shape
        try:
            layer, number = head
        except (TypeError, ValueError):
            layer = number = -1
        if not (0 <= layer < layers and 0 <= number < heads):
            raise SurveyError(
                f"{head!r:.40} is no head of this model; heads are (layer, head), up to {layers - 1, heads - 1}."
            )
        return layer, number


def load_survey(folder: str | Path) -> Survey:
    """Read a survey's folder; of one that was ended early, what was committed.

    Raises
    ------
    SurveyError
        When it is none, or nothing is in it yet.
    """
    folder = Path(folder)
    with limited("survey", folder.name):
        manifest, shards = read_manifest(folder), shards_of(folder)
        if not shards:
            raise SurveyError(f"The survey in {folder} has no shard yet; run it again, it goes on.")
        paths = iter(shards.values())
        tally = Tally.load(next(paths))
        for path in paths:
            tally.merge(Tally.load(path))
    if len(tally.counts) != len(manifest["settings"]["statistics"]):
        raise SurveyError(
            f"The survey in {folder} is of {len(manifest['settings']['statistics'])} statistics, but its shards hold "
            f"{len(tally.counts)}; they are of another one."
        )
    return Survey(tally, manifest, folder)


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a survey's folder is of."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SurveyError(f"{folder} holds no survey: its {MANIFEST} cannot be read.", str(error)) from error
    parts: list[Any] = [found.get(name) for name in ("model", "corpus", "settings")] if isinstance(found, dict) else [0]
    named = parts[-1].get("statistics") if all(isinstance(one, dict) for one in parts) else None
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named) or len({*named}) != len(named):
        raise SurveyError(f"{folder} holds no survey: its {MANIFEST} is that of something else.")
    return dict(found)


def shards_of(folder: Path) -> dict[int, Path]:
    """Number → file of the shards that were committed."""
    return {int(path.stem): path for path in sorted((folder / SHARDS).glob("[0-9]*.npz"))}


def shard_file(folder: Path, number: int) -> Path:
    """Where a shard is committed."""
    return folder / SHARDS / f"{number:06}.npz"
