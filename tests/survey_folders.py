"""Small surveys in folders: two models over the same texts, and a series of three."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ropewalk.model.survey.running import survey
from tests.model.survey.small_survey import SmallModel, texts_of

FAMILY = "plain"


def survey_in(
    folder: Path, seed: int = 0, statistics: Sequence[str] | None = None, fingerprint: str = "f", name: str = FAMILY
) -> Path:
    """A survey of a tiny model over a dozen texts of numbers."""
    model = SmallModel(name, seed)
    model.origin = type(model.origin)(name="small", fingerprint=fingerprint)
    survey(model, texts_of((9, 12, 14, 7, 11, 13, 10, 8, 12, 9, 15, 6)), out=folder, statistics=statistics, top=5)
    return folder


def series_in(folder: Path, count: int = 3) -> Path:
    """A folder of surveys of a model at several steps."""
    for step in range(count):
        survey_in(folder / f"step-{100 * step}", seed=step, statistics=("previous", "induction"))
    return folder
