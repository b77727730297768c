"""The lessons that come along, each filled once by the engine, for the tests that read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from ropewalk.app.lessons.filling import fill_lesson
from ropewalk.app.lessons.loading import load_shelf
from ropewalk.app.lessons.plan import FilledLesson, FilledStep, Lesson
from ropewalk.model.lessons.models import LessonModel
from ropewalk.model.lessons.runs import Runs
from ropewalk.model.lessons.text import FilledText, Span, plain_text
from ropewalk.model.progress import finished

SHELF = load_shelf()
IDS = tuple(lesson.id for lesson in SHELF.lessons)


@cache
def lesson_of(lesson_id: str) -> Lesson:
    return SHELF.lesson(lesson_id)


@cache
def runs_of(lesson_id: str) -> Runs:
    """The runs of a lesson that comes along."""
    return runs_for(lesson_of(lesson_id))


def runs_for(lesson: Lesson) -> Runs:
    """A lesson's runs, in which the bundled model stands for what is open."""
    yours = [replace(model, kind="bundled") for model in lesson.models.values() if model.kind == "open"]
    stands_in = {"open": LessonModel("open", "bundled"), **{model.name: model for model in yours}}
    return Runs({**lesson.models, **stands_in})


@cache
def filled_of(lesson_id: str) -> FilledLesson:
    return finished(fill_lesson(lesson_of(lesson_id), runs_of(lesson_id)))


def texts_of(step: FilledStep) -> Iterator[FilledText]:
    """Every finished text of a step, as paragraphs."""
    yield from (step.text, step.notes)
    for asked in step.checks:
        yield from (asked.ask, asked.why, asked.hint, asked.reveal)


def lines_of(step: FilledStep) -> Iterator[tuple[Span, ...]]:
    """Every finished line of a step."""
    yield from (step.title, step.look_at)
    for asked in step.checks:
        yield from asked.points
        yield from (says for _, says in asked.mistakes)
        yield from (line for option in asked.options for line in (option.text, option.why))


def spans_of(step: FilledStep) -> Iterator[Span]:
    for text in texts_of(step):
        for paragraph in text:
            yield from paragraph.spans
    for line in lines_of(step):
        yield from line


def plain_text_of(lesson_id: str) -> str:
    """All of a filled lesson as plain characters."""
    parts = []
    for step in filled_of(lesson_id).steps:
        parts += [plain_text(text) for text in texts_of(step)] + [plain_text(line) for line in lines_of(step)]
        parts += [asked.written for asked in step.checks]
    return "\n".join(parts)
