"""Lesson files: where those of Ropewalk lie, and how one is opened; what reads them computes what needs no model."""

from __future__ import annotations

from pathlib import Path

from ropewalk.app.lessons.plan import Lesson, Problem
from ropewalk.app.lessons.reader import read_lesson
from ropewalk.app.lessons.shelf import Shelf
from ropewalk.app.lessons.table import LessonFileError
from ropewalk.model.errors import LessonError
from ropewalk.model.limits import regular
from ropewalk.model.progress import Partial, Progress, Steps
from ropewalk.resources import resource

FOLDER = resource("lessons")
LARGEST = 1_000_000
"""Bytes of a lesson file; a larger one is something else."""


def load_lesson(path: Path) -> Lesson:
    """Open one lesson file.

    Raises
    ------
    LessonError
        When it cannot be read; a :class:`~app.lessons.table.LessonFileError` says which line.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise LessonError(f"{path.name} has {path.stat().st_size:,} bytes, too many for a lesson.")
        source = regular(path, piped=True).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise LessonFileError(line, "this is not UTF-8 text.", path.name) from error
    except OSError as error:
        raise LessonError(f"{path} cannot be read: {error.strerror or error}.") from error
    return read_lesson(source, path)


def load_shelf(folder: Path = FOLDER) -> Shelf:
    """Read every lesson of a folder."""
    lessons: list[Lesson] = []
    steps = lessons_steps(folder)
    while True:
        try:
            point = next(steps)
        except StopIteration as stop:
            return Shelf.of(lessons, stop.value)
        if isinstance(point, Partial) and isinstance(point.reading, Lesson):
            lessons.append(point.reading)


def lessons_steps(folder: Path = FOLDER) -> Steps[tuple[Problem, ...]]:
    """Read every lesson of a folder, handing each out as a part; returns what is wrong with the others."""
    problems = []
    paths = sorted(folder.glob("*.toml"))
    for done, path in enumerate(paths):
        yield Progress(done, len(paths), "Reading the lessons")
        try:
            yield Partial(done, len(paths), "Reading the lessons", load_lesson(path))
        except LessonFileError as error:
            problems.append(Problem(path, error.line, error.why))
        except LessonError as error:
            problems.append(Problem(path, 1, error.sentence))
    return tuple(problems)
