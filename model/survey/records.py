"""What a window is told of a survey: frozen records of plain data and numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.readings.records import Doubles, TokenText


@dataclass(frozen=True)
class SurveyedStatistic:
    """One statistic: its name, what a person reads, its formula in words, and the texts that have a value of it."""

    name: str
    title: str
    formula: str
    count: int = 0


@dataclass(frozen=True, eq=False)
class SurveyOverview:
    """Everything of a survey that has one number for each head.

    Letters: K statistics, L layers, H heads.

    Attributes
    ----------
    model, fingerprint
        What was surveyed; the fingerprint is empty where its checkpoint was none.
    texts, wanted
        How many were run, of how many.
    source
        Where they are from: the files' names, or what is said of them; empty where they came out of memory.
    tokens
        How many of a text at most.
    mean, error
        [K, L, H] over texts, and the standard error; NaN where there is none.
    """

    folder: str
    model: str
    fingerprint: str
    texts: int
    wanted: int
    source: str
    tokens: int
    complete: bool
    statistics: tuple[SurveyedStatistic, ...]
    mean: Doubles
    error: Doubles

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        return self.mean.shape[1], self.mean.shape[2]

    @property
    def name(self) -> str:
        """The model and what it read."""
        return f"{self.model}: {self.source}" if self.source else self.model

    def place(self, statistic: str) -> int:
        """Where a statistic stands in the arrays; −1 where it is not there."""
        return next((at for at, one in enumerate(self.statistics) if one.name == statistic), -1)


@dataclass(frozen=True, eq=False)
class SurveyExample:
    """A cell where a head's statistic is large, in its text.

    Attributes
    ----------
    text, query, key, value
        The text's number in the corpus, the cell, and the statistic's value of that query.
    tokens
        Those of the whole text.
    """

    text: int
    query: int
    key: int
    value: float
    tokens: Sequence[TokenText]


@dataclass(frozen=True, eq=False)
class SurveyHead:
    """What a survey knows of one head.

    Attributes
    ----------
    ranges
        [D, 2] distances q − k from … to − 1.
    share, error
        [D] the share of a query's weight in each range, mean over texts, and its standard error.
    grid
        [G, G] the share of weight that queries in one of G parts of a text give to the keys in another; NaN where none
        is.
    examples
        The strongest of the statistic, the largest first.
    """

    layer: int
    head: int
    statistic: str
    ranges: NDArray[np.int64]
    share: Doubles
    error: Doubles
    grid: Doubles
    examples: tuple[SurveyExample, ...]


@dataclass(frozen=True, eq=False)
class SurveyDifference:
    """How much every head of a second survey differs from a first, paired by text.

    Attributes
    ----------
    statistics
        Those that both have; their counts are of texts that have a value in both.
    difference, error, adjusted
        [K, L, H] mean of the second's less the first's, its standard error, and p after Benjamini and Hochberg.
    """

    statistics: tuple[SurveyedStatistic, ...]
    difference: Doubles
    error: Doubles
    adjusted: Doubles


@dataclass(frozen=True, eq=False)
class SeriesOverview:
    """Surveys of one corpus in a row, such as those of a training run's checkpoints.

    Attributes
    ----------
    folders, steps
        Where each lies, and what it is called: the number that its folder's name ends with, else its place.
    statistics
        Those that all have.
    mean, error
        [S, K, L, H].
    """

    folders: tuple[str, ...]
    steps: tuple[int, ...]
    statistics: tuple[SurveyedStatistic, ...]
    mean: Doubles
    error: Doubles
