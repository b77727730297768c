"""Surveys for a window: opening a folder of one, reading several in a row, and running one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.model.engine import running
from ropewalk.model.engine.requests import RunSurvey
from ropewalk.model.errors import SurveyError
from ropewalk.model.options import Options
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.survey.records import SeriesOverview, SurveyedStatistic

if TYPE_CHECKING:
    from ropewalk.model.notebooks.model import Model
    from ropewalk.model.survey.reading import OpenedSurvey


def open_survey(folder: str) -> Steps[OpenedSurvey]:
    """Open a survey's folder, also one of a survey that was ended early."""
    from ropewalk.model.survey.reading import OpenedSurvey

    yield Progress(0, 1, "Reading the survey")
    return OpenedSurvey(Path(folder))


def open_series(folders: Sequence[str]) -> Steps[SeriesOverview]:
    """Read several surveys in a row."""
    from ropewalk.model.survey.reading import series_steps

    return series_steps(folders)


def survey_statistics() -> Steps[tuple[SurveyedStatistic, ...]]:
    """What a survey can measure."""
    from ropewalk.model.survey.reading import known_statistics

    yield Progress(0, 1, "Looking up the statistics")
    return known_statistics()


def run_survey(asked: RunSurvey) -> Steps[int]:
    """Run a survey, or go on with it where its folder has some of it; returns how many texts there are.

    Raises
    ------
    SurveyError
        For texts, a column or a statistic that is not there, and for a folder with another survey.
    """
    from ropewalk.model.survey.running import survey_steps

    for text in asked.texts:
        if not Path(text).exists():
            raise SurveyError(f"There is no file {text}; check the path of the texts.")
    model = yield from _opened(asked.path, asked.device, asked.dtype, asked.options)
    found = yield from survey_steps(
        model,
        [Path(text) for text in asked.texts],
        out=Path(asked.folder),
        column=asked.column,
        windows=asked.windows,
        limit=asked.limit,
        seed=asked.seed,
        tokens=asked.tokens,
        statistics=asked.statistics or None,
    )
    return found.texts


def _opened(path: str | None, device: str, dtype: str, options: Options) -> Steps[Model]:
    """A model as a window has it open."""
    from ropewalk.model.checkpoints import open_steps
    from ropewalk.model.notebooks.model import CheckpointModel

    if running.is_via_transformers(options, path) and path is not None:
        from ropewalk.model.notebooks.transformers_model import TransformersNotebookModel

        found: Any = yield from running.open_via_transformers(path, device, dtype)
        made = TransformersNotebookModel(found.model.module, name=found.name)
        made.tokenizer = found.tokenizer
        return made
    return CheckpointModel((yield from open_steps(path, device=device, dtype=dtype, options=options)), options)
