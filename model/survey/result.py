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
from ropewalk.model.notebooks.frames import frame
from ropewalk.model.survey.statistics import SURVEYED, distance_bins
from ropewalk.model.survey.tables import heads_table
from ropewalk.model.survey.tally import NOBODY, Doubles, Tally

MANIFEST, SHARDS = "manifest.json", "shards"

Kept = Sequence[tuple[list[int], NDArray[np.float32]]]
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
    """Mean weights of a head by distance.

    Attributes
    ----------
    ranges
        [D, 2] distances q − k from … to − 1.
    share
        [D] the share of a query's weight in each range.
    """

    ranges: NDArray[np.int64]
    share: Doubles


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
        """Mean weights of a (layer, head) by distance."""
        layer, number = self._head(head)
        ranges = np.array(distance_bins(1 << (len(self._tally.distances) - 1)))
        return MeanMap(ranges, self._tally.distance_mean[:, layer, number])

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
    manifest, shards = read_manifest(folder), shards_of(folder)
    if not shards:
        raise SurveyError(f"The survey in {folder} has no shard yet; run it again, it goes on.")
    paths = iter(shards.values())
    tally = Tally.load(next(paths))
    for path in paths:
        tally.merge(Tally.load(path))
    return Survey(tally, manifest, folder)


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a survey's folder is of."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SurveyError(f"{folder} holds no survey: its {MANIFEST} cannot be read.", str(error)) from error
    if not isinstance(found, dict) or not {"model", "corpus", "settings"} <= found.keys():
        raise SurveyError(f"{folder} holds no survey: its {MANIFEST} is that of something else.")
    return found


def shards_of(folder: Path) -> dict[int, Path]:
    """Number → file of the shards that were committed."""
    return {int(path.stem): path for path in sorted((folder / SHARDS).glob("[0-9]*.npz"))}


def shard_file(folder: Path, number: int) -> Path:
    """Where a shard is committed."""
    return folder / SHARDS / f"{number:06}.npz"
