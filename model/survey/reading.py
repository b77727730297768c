"""A survey as a window reads it: its folder is kept open, and answers head by head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ropewalk.model.errors import SurveyError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.survey.corpus import MEMORY
from ropewalk.model.survey.records import (
    SeriesOverview,
    SurveyDifference,
    SurveyedStatistic,
    SurveyExample,
    SurveyHead,
    SurveyOverview,
)
from ropewalk.model.survey.result import Example, Survey, load_survey
from ropewalk.model.survey.series import steps_of
from ropewalk.model.survey.statistics import SURVEYED
from ropewalk.model.survey.tally import Doubles


def known_statistics() -> tuple[SurveyedStatistic, ...]:
    """All that a survey can measure but the cells that somebody names, which need a function."""
    known = (one for one in SURVEYED.values() if one.name != "pairs")
    return tuple(SurveyedStatistic(one.name, one.title, one.formula) for one in known)


def _statistic(survey: Survey, name: str, count: int) -> SurveyedStatistic:
    title, _, formula = survey.formula(name).partition(": ")
    return SurveyedStatistic(name, title, formula, count)


class OpenedSurvey:
    """One survey that a window has open.

    Parameters
    ----------
    folder
        Where it lies.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.survey = folder, load_survey(folder)

    def overview(self) -> SurveyOverview:
        """Everything that has one number for each head."""
        one, manifest = self.survey, self.survey.manifest
        mean, error = _of_all(one, one.names)
        return SurveyOverview(
            str(self.folder),
            str(manifest["model"].get("name", "")),
            str(manifest["model"].get("fingerprint", "")),
            one.texts,
            int(manifest["corpus"].get("chosen", one.texts)),
            _source(manifest["corpus"].get("sources")),
            int(manifest["settings"].get("tokens", 0)),
            one.complete,
            tuple(_statistic(one, name, one.count(name)) for name in one.names),
            mean,
            error,
        )

    def head(self, layer: int, head: int, statistic: str) -> SurveyHead:
        """What there is of one head, with the examples of a statistic."""
        found = self.survey.mean_map((layer, head))
        return SurveyHead(
            layer,
            head,
            statistic,
            np.ascontiguousarray(found.ranges, np.int64),
            np.ascontiguousarray(found.share),
            np.ascontiguousarray(found.error),
            np.ascontiguousarray(found.grid),
            tuple(map(_example, self.survey.top_examples((layer, head), statistic))),
        )

    def difference(self, other: OpenedSurvey) -> SurveyDifference:
        """How another one differs from this."""
        found = self.survey.compare(other.survey)
        return SurveyDifference(
            tuple(_statistic(self.survey, name, count) for name, count in zip(found.names, found.count, strict=True)),
            found.difference,
            found.error,
            np.array([found.adjusted(name) for name in found.names]).reshape(found.difference.shape),
        )


def series_steps(folders: Sequence[str]) -> Steps[SeriesOverview]:
    """Read surveys of the same texts one after the other, and keep their means alone.

    Raises
    ------
    SurveyError
        Where they are of other texts or of models with other heads, or have no statistic in common.
    """
    first: Survey | None = None
    read: list[dict[str, tuple[int, Doubles, Doubles]]] = []
    for done, folder in enumerate(folders):
        yield Progress(done, len(folders), "Reading the surveys")
        one = load_survey(folder)
        first = first or one
        first.check_pairs_with(one)
        read.append({name: (one.count(name), one.mean(name), one.error(name)) for name in one.names})
    names = [name for name in (first.names if first else ()) if all(name in one for one in read)]
    if first is None or not names:
        raise SurveyError("The surveys have no statistic in common, so they are no series.")
    steps = steps_of([Path(folder) for folder in folders])
    order = sorted(range(len(steps)), key=lambda at: steps[at])
    return SeriesOverview(
        tuple(folders[at] for at in order),
        tuple(steps[at] for at in order),
        tuple(_statistic(first, name, min(one[name][0] for one in read)) for name in names),
        np.array([[read[at][name][1] for name in names] for at in order]),
        np.array([[read[at][name][2] for name in names] for at in order]),
    )


def _source(sources: object) -> str:
    """Where a survey's texts are from, in a few words."""
    names = [Path(one).name for one in sources if isinstance(one, str)] if isinstance(sources, list) else []
    if not names or names == [MEMORY]:
        return ""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"


def _example(one: Example) -> SurveyExample:
    return SurveyExample(one.text, one.query, one.key, one.value, one.of.tokens)


def _of_all(survey: Survey, names: Iterable[str]) -> tuple[Doubles, Doubles]:
    return np.array([survey.mean(name) for name in names]), np.array([survey.error(name) for name in names])
