"""Surveys of the same texts in a row, such as those of a training run's checkpoints: what becomes of every head."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ropewalk.model.errors import SurveyError
from ropewalk.model.notebooks.frames import frame
from ropewalk.model.notebooks.numbers import whole
from ropewalk.model.survey.comparison import Comparison, benjamini_hochberg
from ropewalk.model.survey.result import Survey, as_survey
from ropewalk.model.survey.statistics import Bools
from ropewalk.model.survey.tally import Doubles

Since: TypeAlias = Literal["previous", "first"]
STEP = re.compile(r"(\d{1,15})\D*$")


@dataclass(frozen=True, eq=False)
class Changes:
    """How every head changed from step to step, or since the first.

    Attributes
    ----------
    steps
        [S − 1] those that something came before.
    comparisons
        Of each of them with the one before, or the first, paired by text.
    """

    steps: tuple[int, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The statistics that all have."""
        return self.comparisons[0].names

    def difference(self, statistic: str) -> Doubles:
        """[S − 1, L, H] mean over texts of a step's value less the other's."""
        return np.stack([one.difference[one.at(statistic)] for one in self.comparisons])

    def error(self, statistic: str) -> Doubles:
        """[S − 1, L, H] its standard error."""
        return np.stack([one.error[one.at(statistic)] for one in self.comparisons])

    def adjusted(self, statistic: str) -> Doubles:
        """[S − 1, L, H] p after Benjamini and Hochberg over all heads and steps together."""
        return benjamini_hochberg(np.stack([one.p[one.at(statistic)] for one in self.comparisons]))

    def significant(self, statistic: str, q: float = 0.05) -> Bools:
        """[S − 1, L, H] which heads changed when, of which a share of q is expected to be there by chance."""
        found: Bools = self.adjusted(statistic) <= q
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each step that something came before, statistic, layer and head."""
        adjusted = {name: self.adjusted(name) for name in self.names}
        for at, (step, one) in enumerate(zip(self.steps, self.comparisons, strict=True)):
            for row in one.rows():
                yield {
                    "step": step,
                    **row,
                    "adjusted": float(adjusted[row["statistic"]][at, row["layer"], row["head"]]),
                }

    @property
    def frame(self) -> Any:
        """The same as a pandas DataFrame."""
        return frame(self.rows())


class SurveySeries:
    """Surveys of the same texts, step after step.

    Attributes
    ----------
    steps
        [S] in order.
    surveys
        Of each step.
    names
        The statistics that all have.
    """

    def __init__(self, surveys: Sequence[Survey], steps: Sequence[int]) -> None:
        order = sorted(range(len(steps)), key=lambda at: steps[at])
        self.steps = tuple(steps[at] for at in order)
        self.surveys = tuple(surveys[at] for at in order)
        self.names = tuple(name for name in self.surveys[0].names if all(name in one.names for one in self.surveys))
        for one in self.surveys[1:]:
            self.surveys[0].check_pairs_with(one)
        if not self.names:
            raise SurveyError("The surveys have no statistic in common, so they are no series.")

    def __repr__(self) -> str:
        steps, names = self.steps, self.names
        return f"<SurveySeries of {len(steps)} steps, {steps[0]} to {steps[-1]}: {len(names)} statistics>"

    def mean(self, statistic: str) -> Doubles:
        """[S, L, H] over texts."""
        return np.stack([one.mean(statistic) for one in self.surveys])

    def error(self, statistic: str) -> Doubles:
        """[S, L, H] the standard error of the mean."""
        return np.stack([one.error(statistic) for one in self.surveys])

    def count(self, statistic: str) -> tuple[int, ...]:
        """[S] the texts that have a value."""
        return tuple(one.count(statistic) for one in self.surveys)

    def changes(self, since: Since = "previous") -> Changes:
        """How every head changed, paired by text, since the ``previous`` step or the ``first``.

        Raises
        ------
        SurveyError
            For surveys that kept no values of single texts.
        """
        if since not in ("previous", "first"):
            raise SurveyError(f"A step is compared with the 'previous' one or the 'first', not with {since!r:.40}.")
        return self._previous if since == "previous" else self._first

    @cached_property
    def _previous(self) -> Changes:
        return self._since(self.surveys[:-1])

    @cached_property
    def _first(self) -> Changes:
        return self._since(self.surveys[:1] * (len(self.surveys) - 1))

    def _since(self, before: Sequence[Survey]) -> Changes:
        pairs = zip(before, self.surveys[1:], strict=True)
        return Changes(self.steps[1:], tuple(one.compare(other, self.names) for one, other in pairs))

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each step, statistic, layer and head."""
        for step, one in zip(self.steps, self.surveys, strict=True):
            for row in one.rows():
                if row["statistic"] in self.names:
                    yield {"step": step, **row}

    @property
    def frame(self) -> Any:
        """The same as a pandas DataFrame."""
        return frame(self.rows())


def survey_series(surveys: Sequence[Survey | str | Path], steps: Sequence[int] | None = None) -> SurveySeries:
    """Put surveys of the same texts in a row.

    Parameters
    ----------
    surveys
        Two or more, or their folders.
    steps
        What each is called; the numbers that the names of their folders end with when not given, or else 0, 1, 2, …

    Raises
    ------
    SurveyError
        For fewer than two, surveys of other texts, or of models with other heads.
    """
    found = [as_survey(one) for one in surveys]
    if len(found) < 2:
        raise SurveyError("A series is of two surveys or more.")
    numbers = steps_of([one.folder for one in found]) if steps is None else [whole(one) for one in steps]
    known = [one for one in numbers if one is not None]
    if len(known) != len(found) or len(set(known)) < len(found):
        raise SurveyError(
            f"{len(found)} surveys need as many steps, whole numbers that differ, but {steps!r:.60} was given."
        )
    return SurveySeries(found, known)


def steps_of(folders: Sequence[Path | None]) -> list[int]:
    """The numbers that the names of folders end with; 0, 1, 2, … where one has none, or two have the same."""
    ends = [STEP.search(one.name) if one is not None else None for one in folders]
    found = [int(end[1]) for end in ends if end is not None]
    return found if len(set(found)) == len(folders) else list(range(len(folders)))
