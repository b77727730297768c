"""What every head does over many texts: the surveys of the bundled model that come along, ``text`` and ``repeats``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from ropewalk.model.errors import LessonError, SurveyError
from ropewalk.model.lessons.values import Head
from ropewalk.model.survey.result import Survey, load_survey
from ropewalk.model.survey.tally import Doubles
from ropewalk.resources import resource

SURVEYS = ("text", "repeats")


@cache
def _survey(survey: str) -> Survey:
    if survey not in SURVEYS:
        raise LessonError(f"There is no survey {survey!r}; there are {' and '.join(SURVEYS)}.")
    return load_survey(resource("surveys", survey))


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except SurveyError as error:
        raise LessonError(error.sentence) from error


def _means(survey: str, statistic: str) -> Doubles:
    """[L, H] of a statistic that some text has."""
    if not surveyed_texts(survey, statistic):
        raise LessonError(f"No text of the survey has a value of {statistic}.")
    return _survey(survey).mean(statistic)


def _checked(head: Head, means: Doubles) -> tuple[int, int]:
    layers, heads = means.shape
    if not (0 <= head.layer < layers and 0 <= head.head < heads):
        raise LessonError(f"L{head.layer}H{head.head} is no head of the bundled model.")
    return head.layer, head.head


def surveyed_texts(survey: str, statistic: str) -> int:
    """How many texts of a survey of the bundled model (text, repeats) have a value of a statistic."""
    with _told():
        return _survey(survey).count(statistic)


def surveyed_head(survey: str, statistic: str) -> Head:
    """The head with the largest mean of a statistic in a survey of the bundled model."""
    means = _means(survey, statistic)
    layer, head = divmod(int(means.argmax()), means.shape[1])
    return Head(layer, head)


def surveyed_mean(survey: str, head: Head, statistic: str) -> float:
    """The mean of a head's statistic over the texts of a survey of the bundled model."""
    means = _means(survey, statistic)
    return float(means[_checked(head, means)])


def surveyed_error(survey: str, head: Head, statistic: str) -> float:
    """The standard error of that mean."""
    means = _means(survey, statistic)
    return float(_survey(survey).error(statistic)[_checked(head, means)])
