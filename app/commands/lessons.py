"""`ropewalk lessons`: the lessons that come along, or what is wrong with a lesson file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.app.commands.options import Commands
from ropewalk.app.commands.output import finished, print_table

if TYPE_CHECKING:
    from ropewalk.app.lessons.plan import Lesson


def declare(commands: Commands) -> None:
    """Add the command."""
    lessons = commands.add_parser(
        "lessons",
        help="list the lessons, or check lesson files",
        description="List the lessons; or read lesson files, and say what is wrong with them.",
    )
    lessons.add_argument("files", type=Path, nargs="*", metavar="FILE.toml", help="lesson files to check")
    lessons.set_defaults(act=show_lessons)


def show_lessons(parsed: argparse.Namespace) -> None:
    """List the lessons that come along, or check files."""
    from ropewalk.app.lessons.loading import load_lesson, load_shelf
    from ropewalk.model.errors import LessonError, RopewalkError

    if not parsed.files:
        shelf = load_shelf()
        rows = [("", "lesson", "minutes", "checks", "challenges")]
        for lesson in shelf.lessons:
            minutes, checks = str(lesson.minutes), str(len(lesson.checks))
            rows.append((str(lesson.number), lesson.title, minutes, checks, ", ".join(lesson.challenges)))
        print_table(rows, frozenset({0, 2, 3}))
        return
    wrong = []
    for file in parsed.files:
        try:
            found = _check(file, load_lesson(file))
        except RopewalkError as error:
            found = error.sentence
        if found:
            wrong.append(found)
    for sentence in wrong[:-1]:
        print(sentence, file=sys.stderr)
    if wrong:
        raise LessonError(wrong[-1])


def _check(file: Path, lesson: Lesson) -> str:
    """Say whether a lesson's numbers are there, which of its sentences they contradict, and which nothing decides.

    What is left to do comes back in a sentence, empty where nothing is.
    """
    from ropewalk.app.lessons.contradictions import contradicted
    from ropewalk.model.engine import engine

    runs = finished(engine.lesson_runs(lesson.models, None, None))
    gaps = _gaps(lesson, runs) or "every number is there"
    claims = len(lesson.claims)
    print(f"{file}: {len(lesson.steps)} steps, {len(lesson.checks)} checks, {claims} claims, {gaps}")
    for problem in (*lesson.unclaimed, *lesson.unread):
        print(f"  line {problem.line}: {problem.why}")
    found = list(contradicted(lesson, runs))
    for one in found:
        print(f"  {one.sentence}")
    wrong = sum(one.is_sure for one in found)
    left = (
        (wrong, f"{wrong} of {claims} claims do not hold; put the words or the numbers right"),
        (len(lesson.unclaimed), f"said without a claim: {len(lesson.unclaimed)}; write what decides it"),
        (len(lesson.unread), f"not read as it stands: {len(lesson.unread)}; read it, and write the stamps"),
    )
    said = "; ".join(what for many, what in left if many)
    return f"{file.name}: {said}." if said else ""


def _gaps(lesson: Lesson, runs: Any) -> str:
    """The numbers of a lesson that the engine cannot give here, each with its reason."""
    from ropewalk.app.lessons.filling import fill_lesson

    filled = finished(fill_lesson(lesson, runs))
    spans = (span for step in filled.steps for block in step.text for span in block.spans if span.kind == "missing")
    reasons = [*(span.source for span in spans), *(one.missing for step in filled.steps for one in step.checks)]
    return "; ".join(dict.fromkeys(reason.rstrip(".") for reason in reasons if reason))
