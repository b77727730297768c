"""Lessons in course order, and the contract for whoever shows them.

**Loading** is ``app.lessons.loading``, in a process of its own, without torch: ``load_shelf()`` reads every lesson of
``resources/lessons``; a broken file becomes a :class:`Problem` with its line and reason, and the others still load.
``load_lesson(path)`` opens one from anywhere. ``docs/lessons.md`` tells how to write one.

**Playing.** A lesson as loaded holds expressions; ``app.lessons.player.LessonPlayer`` has them filled in by the engine,
a step at a time, and moves the session. A view needs nothing else:

- ``LessonPlayer(session)``; ``open(lesson)``, ``forward()``, ``back()``, ``go(step)``, ``close()``.
- ``lesson``, ``step`` (a place in ``lesson.steps``), ``filled`` (the :class:`FilledStep` that is on, None while its
  numbers are on their way), ``ledger`` (of a scene whose model is a config alone: there is no run to show, only this).
- Signals ``lesson_changed(lesson or None)``, ``step_changed(place)``, ``step_filled(place, filled)``,
  ``scene_changed(scene)``, ``check_changed(place, asked)``, ``judged(asked, verdict)``, ``failed(sentence)``.
- ``filled.checks`` are questions (:class:`Asked`); ``reply(place, reply)`` judges one (``app.lessons.checks``:
  ``Entered``, ``Chosen``, ``Clicked``, ``Marked``), records it and returns a ``Verdict``; a reply that cannot be read
  raises ``LessonError`` with a sentence. ``click(place)`` replies with the selection as it is. ``again(place)`` asks a
  practice problem with fresh numbers; ``check_changed`` brings it.
- ``records`` is a ``ProgressStore``: ``lesson(id)``, ``now.challenges``, ``reset(id)``, ``reset()``.

**Showing a step.** ``title``, ``text``, ``notes`` (for the teacher alone) and ``look_at`` (one large line: what to look
at now) are paragraphs of spans (``model.lessons.text``): ``words``, ``strong``, ``emphasis``, ``code``; ``formula`` is
LaTeX for ziamath; ``value`` is a number that the engine gave, the expression it came from as ``source`` (a tooltip);
``missing`` is a gap whose ``source`` says why. A paragraph of kind ``point`` is a list item, ``row`` a table row with
its cells, ``formula`` a formula on a line of its own.

**The scene** says what is on screen. The player applies what the session owns: model, prompt, decoded tokens,
interventions, selection. When that is done ``scene_changed`` comes, and the view applies the rest: ``panels`` (what a
projector shows, one to three), ``highlights``, ``toggles``, and ``play``. Scenes are whole: shown after any other, one
looks the same, so going back is the same as going on.

**Challenges.** A step's ``challenge`` names a build challenge; ``app.lessons.challenges`` writes the starter and runs a
file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ropewalk.app.lessons.plan import Asked, FilledStep, Lesson, Problem, Scene
from ropewalk.model.errors import LessonError

__all__ = ["Asked", "FilledStep", "Lesson", "Problem", "Scene", "Shelf"]


@dataclass(frozen=True)
class Shelf:
    """The lessons of a folder in course order, and the files that could not be read."""

    lessons: tuple[Lesson, ...]
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, lessons: Iterable[Lesson], problems: tuple[Problem, ...]) -> Shelf:
        """Put lessons into course order."""
        return cls(tuple(sorted(lessons, key=lambda lesson: (lesson.number, lesson.id))), problems)

    def lesson(self, lesson_id: str) -> Lesson:
        """A lesson by id or number.

        Raises
        ------
        LessonError
            When there is none, with those there are.
        """
        for lesson in self.lessons:
            if lesson_id in (lesson.id, str(lesson.number)):
                return lesson
        known = ", ".join(lesson.id for lesson in self.lessons) or "none"
        raise LessonError(f"There is no lesson {lesson_id!r}; there are {known}.")
