"""The surveys that come along are of the bundled model as it is, small, whole, and read without what most lack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ropewalk
from ropewalk.app.survey_folders import BUNDLED, bundled_statistics
from ropewalk.model.errors import LessonError
from ropewalk.model.fingerprint import fingerprint_steps
from ropewalk.model.lessons.measured import surveyed
from ropewalk.model.lessons.values import Head
from ropewalk.model.progress import finished
from ropewalk.model.survey.result import load_survey
from ropewalk.resources import resource

MEGABYTE = 1_000_000
READ = """
import sys
sys.modules["pyarrow"] = None
from pathlib import Path
from ropewalk.model.survey.reading import OpenedSurvey
for folder in sys.argv[1:]:
    opened = OpenedSurvey(Path(folder))
    print(opened.overview().name, len(opened.head(1, 0, "induction").examples))
"""


def test_they_are_small_and_all_of_them_is_named() -> None:
    files = [path for path in resource("surveys").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MEGABYTE
    assert {path.parent for path in files} == {folder for _, folder in BUNDLED.values()}
    assert tuple(BUNDLED) == surveyed.SURVEYS


@pytest.mark.parametrize("name", BUNDLED)
def test_they_are_of_the_bundled_model_as_it_is(name: str) -> None:
    what, folder = BUNDLED[name]
    survey, config = load_survey(folder), ropewalk.open_checkpoint(None).config
    assert survey.manifest["model"]["fingerprint"] == finished(fingerprint_steps(Path(resource("bundled"))))
    assert survey.manifest["corpus"]["sources"] == [what]
    assert survey.complete
    assert survey.mean("induction").shape == (config.layers, config.heads)
    assert bundled_statistics(name) == survey.names


def test_they_are_read_without_pyarrow() -> None:
    folders = [str(folder) for _, folder in BUNDLED.values()]
    read = subprocess.run([sys.executable, "-c", READ, *folders], capture_output=True, text=True, check=False)
    assert read.stdout.splitlines() == [f"bundled: {what} 4" for what, _ in BUNDLED.values()], read.stderr


def test_a_lesson_is_given_their_numbers() -> None:
    survey, head = load_survey(BUNDLED["text"][1]), surveyed.surveyed_head("text", "line_break")
    mean, error = survey.mean("line_break"), survey.error("line_break")
    assert mean[head.layer, head.head] == mean.max()
    assert surveyed.surveyed_mean("text", head, "line_break") == mean.max()
    assert surveyed.surveyed_error("text", head, "line_break") == error[head.layer, head.head]
    assert surveyed.surveyed_texts("text", "line_break") == survey.count("line_break")
    assert surveyed.surveyed_texts("text", "special") == 0


@pytest.mark.parametrize(
    ("survey", "statistic", "head", "why"),
    [
        ("poems", "sink", Head(0, 0), "no survey 'poems'; there are text and repeats"),
        ("text", "sinks", Head(0, 0), "no statistic 'sinks'"),
        ("text", "digit", Head(0, 0), "No text of the survey has a value of digit"),
        ("text", "sink", Head(4, 0), "L4H0 is no head"),
        ("text", "sink", Head(-1, 0), "no head of the bundled model"),
    ],
)
def test_a_lesson_is_told_what_they_have_not(survey: str, statistic: str, head: Head, why: str) -> None:
    with pytest.raises(LessonError, match=why):
        surveyed.surveyed_mean(survey, head, statistic)


def test_the_largest_head_is_one_that_numpy_finds() -> None:
    for name, (_, folder) in BUNDLED.items():
        mean = load_survey(folder).mean("previous")
        head = surveyed.surveyed_head(name, "previous")
        assert np.argwhere(mean == mean.max()).tolist() == [[head.layer, head.head]]
