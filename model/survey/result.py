"""What came of a survey: read from its folder, or kept in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.errors import SurveyError
from ropewalk.model.limits import limited
from ropewalk.model.notebooks.frames import frame
from ropewalk.model.notebooks.numbers import whole
from ropewalk.model.notebooks.pictures import coloured, head_maps
from ropewalk.model.survey.comparison import Comparison, comparison_of
from ropewalk.model.survey.folder import Shard, ShardFiles, committed, corpus_of, read_manifest, read_texts
from ropewalk.model.survey.statistics import SURVEYED, distance_bins
from ropewalk.model.survey.tables import heads_table
from ropewalk.model.survey.tally import NOBODY, Doubles, Tally
from ropewalk.model.survey.texts import SurveyText, SurveyTexts


@dataclass(frozen=True)
class Example:
    """A cell where a statistic of a head is large.

    Attributes
    ----------
    text
        The text's number in the corpus.
    value
        The query's.
    of
        The text itself, with its ids and its tokens as text.
    """

    text: int
    query: int
    key: int
    value: float
    of: SurveyText = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """Where it is, with the tokens there."""
        return (
            f"<Example {self.value:.3f} in text {self.text}: {self.of.context(self.query)} ({self.query}) to "
            f"{self.of.token(self.key)!r} ({self.key})>"
        )


@dataclass(frozen=True, eq=False)
class MeanMap:
    """Mean weights of a head by distance and by place.

    Attributes
    ----------
    ranges
        [D, 2] distances q − k from … to − 1.
    share, error
        [D] the share of a query's weight in each range, and its standard error over texts.
    grid
        [G, G] the share of weight that queries in one of G equal parts of a text give to the keys in another; NaN where
        every text is too short to have any there.
    """

    ranges: NDArray[np.int64]
    share: Doubles
    error: Doubles
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

    def __init__(
        self, tally: Tally, manifest: dict[str, Any], shards: Mapping[int, Shard], folder: Path | None = None
    ) -> None:
        self._tally, self.manifest, self._shards, self.folder = tally, manifest, shards, folder
        self.names: tuple[str, ...] = tuple(manifest["settings"]["statistics"])
        self._opened: dict[int, SurveyTexts] = {}

    def __repr__(self) -> str:
        return f"<Survey of {self.manifest['model']['name']}: {self.texts} texts, {len(self.names)} statistics>"

    def _repr_html_(self) -> str:
        """A map of layers and heads for each statistic that a text has a value of."""
        maps = []
        for name in filter(self.count, self.names):
            mean = self.mean(name)
            low, high = float(np.nanmin(mean)), float(np.nanmax(mean))
            maps.append((f"{name} {low:.2g} to {high:.2g}, n = {self.count(name)}", coloured(mean, low, high)))
        return f"<p>{escape(repr(self))}</p>" + head_maps(maps)

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
            Example(text, query, key, value, self.text(text))
            for value, (text, query, key) in zip(values.tolist(), places.tolist(), strict=True)
            if text != NOBODY
        ]

    def text(self, number: int) -> SurveyText:
        """A text of an example by its number, as tokens.

        Raises
        ------
        SurveyError
            For one that was not kept.
        """
        parts = map(self._texts_of, self._shards) if self._texts is None else [self._texts]
        for some in parts:
            if number in some.places:
                return some[number]
        raise SurveyError(f"Text {number!r:.40} is not among those of examples, which this survey kept.")

    @cached_property
    def _texts(self) -> SurveyTexts | None:
        """Those of the examples, in one place once all is done."""
        return read_texts(self.folder) if self.folder is not None and self.complete else None

    def _texts_of(self, shard: int) -> SurveyTexts:
        if shard not in self._opened:
            self._opened[shard] = self._shards[shard].texts
        return self._opened[shard]

    def mean_map(self, head: tuple[int, int]) -> MeanMap:
        """Mean weights of a (layer, head) by distance and by place."""
        layer, number = self._head(head)
        ranges = np.array(distance_bins(1 << (len(self._tally.distances) - 1)))
        mean, error = self._tally.distance_mean, self._tally.distance_error
        return MeanMap(ranges, mean[:, layer, number], error[:, layer, number], self._tally.mean_map(layer, number))

    def compare(self, other: Survey | str | Path, statistics: Sequence[str] | None = None) -> Comparison:
        """How much every head of another survey of the same texts differs from here, paired by text.

        Parameters
        ----------
        other
            The survey, or its folder.
        statistics
            Which; all that both have when not given.

        Raises
        ------
        SurveyError
            For a survey of other texts, or of a model with other heads.
        """
        other = as_survey(other)
        self.check_pairs_with(other)
        if not all(one.manifest["settings"]["values"] for one in (self, other)):
            raise SurveyError("The values of single texts were left out of a survey, so it cannot be compared by text.")
        names = [name for name in self.names if name in other.names] if statistics is None else statistics
        mine, theirs = ([survey._at(name) for name in names] for survey in (self, other))

        def pairs() -> Iterator[tuple[Doubles, Doubles]]:
            for number in self._shards.keys() & other._shards.keys():
                before, after = self._shards[number], other._shards[number]
                _, here, there = np.intersect1d(before.texts.numbers, after.texts.numbers, return_indices=True)
                yield (
                    self._values(number, before)[here][:, mine].astype(np.float64),
                    other._values(number, after)[there][:, theirs].astype(np.float64),
                )

        _, layers, heads = self._tally.sums.shape
        return comparison_of(names, (layers, heads), pairs())

    def _values(self, number: int, shard: Shard) -> NDArray[np.float32]:
        """[N, K, L, H] of a shard."""
        if shard.values is None or shard.values.shape[1:] != self._tally.sums.shape:
            raise SurveyError(
                f"Shard {number} of the survey in {self.folder} is of another one, so nothing is compared."
            )
        return shard.values

    def check_pairs_with(self, other: Survey) -> None:
        """Refuse a survey of other texts, or of a model with other heads.

        Raises
        ------
        SurveyError
            With what differs.
        """
        here, there = ({"corpus": corpus_of(one.manifest), **one.manifest["settings"]} for one in (self, other))
        for name in ("corpus", "tokens", "limit", "seed", "windows", "column"):
            if here[name] != there[name]:
                raise SurveyError(f"The two surveys are of other texts: they differ in their {name}.")
        if self._tally.sums.shape[1:] != other._tally.sums.shape[1:]:
            raise SurveyError("The two surveys are of models with other layers or heads, so no head has a partner.")

    def formula(self, statistic: str) -> str:
        """How a statistic is computed, in words."""
        self._at(statistic)
        own = self.manifest["settings"].get("own_statistics", {}).get(statistic)
        if own is None and statistic not in SURVEYED:
            return f"{statistic}: as another version of Ropewalk computes it"
        found = vars(SURVEYED[statistic]) if own is None else own
        return f"{found['title']}: {found['formula']}"

    def _at(self, statistic: str) -> int:
        if statistic not in self.names:
            raise SurveyError(f"This survey has no statistic {statistic!r:.40}; it has {', '.join(self.names)}.")
        return self.names.index(statistic)

    def _head(self, head: tuple[int, int]) -> tuple[int, int]:
        _, layers, heads = self._tally.sums.shape
        try:
            layer, number = map(whole, head)
        except (TypeError, ValueError):
            layer = number = None
        if layer is None or number is None or not (0 <= layer < layers and 0 <= number < heads):
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
        manifest, found = read_manifest(folder), committed(folder)
    if not found:
        raise SurveyError(f"The survey in {folder} has nothing committed yet; run it again, it goes on.")
    (tally, shards), *others = found.values()
    if others:
        tally = tally.copy()
        for other, more in others:
            tally.merge(other)
            shards |= more
    stated, kept = len(manifest["settings"]["statistics"]), len(tally.counts)
    if stated != kept:
        raise SurveyError(f"The survey in {folder} is said to be of {stated} statistics, but {kept} are committed.")
    return Survey(tally, manifest, ShardFiles(folder, shards), folder)


def as_survey(given: Survey | str | Path) -> Survey:
    """A survey, or that in a folder.

    Raises
    ------
    SurveyError
        For what is neither, and as of :func:`load_survey`.
    """
    if isinstance(given, (str, Path)):
        return load_survey(given)
    if not isinstance(given, Survey):
        raise SurveyError(f"A survey or the path of its folder is needed here, not {given!r:.60}.")
    return given
