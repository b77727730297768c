"""What a lesson asks of the engine: its numbers, a step or a check at a time. Frozen records, as of any request."""

from __future__ import annotations

from dataclasses import dataclass, field

from ropewalk.app.lessons.plan import Lesson
from ropewalk.model.engine.requests import RunInView
from ropewalk.model.lessons.models import LessonModel


@dataclass(frozen=True)
class OpenRuns:
    """Keep runs of a lesson's models, and of what the person has open → the number of them."""

    models: dict[str, LessonModel]
    model: int | None = None
    run: RunInView | None = None


@dataclass(frozen=True)
class FillStep:
    """Fill the only step that is left of a lesson with numbers → ``FilledStep``.

    ``runs`` is the number of what they are measured on; ``seeds`` are those of its checks' fresh numbers.
    """

    lesson: Lesson
    runs: int
    seeds: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FillCheck:
    """Fill a check, by its id, with numbers drawn by a seed → ``Asked``."""

    lesson: Lesson
    runs: int
    check: str
    seed: int
