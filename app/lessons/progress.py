"""What a learner has done, kept on this machine: how far each lesson was walked, and how each check went.

One JSON file, written atomically; a file that cannot be read is kept aside and explained. Nothing is sent anywhere,
and all of it can be reset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ropewalk.app.settings import kept_aside, settings_path
from ropewalk.model.codec import from_plain, read_json, stored, to_json, to_plain
from ropewalk.model.file_lock import locked
from ropewalk.model.whole_file import whole_file

VERSION = 1


@stored("tries right last", closed=False)
@dataclass(frozen=True)
class CheckRecord:
    """How one check went.

    Attributes
    ----------
    tries, right
        Replies so far, and how many of them were right.
    last
        Whether the newest was.
    """

    tries: int = 0
    right: int = 0
    last: bool = False


@stored("step furthest finished checks", closed=False)
@dataclass(frozen=True)
class LessonRecord:
    """How far one lesson was walked: the step it was left at, the furthest one, and its checks by id."""

    step: int = 0
    furthest: int = 0
    finished: bool = False
    checks: dict[str, CheckRecord] = field(default_factory=dict)

    @property
    def passed(self) -> int:
        """Checks that were answered right at least once."""
        return sum(record.right > 0 for record in self.checks.values())


@stored("lessons challenges", closed=False)
@dataclass(frozen=True)
class LearnerProgress:
    """Everything: lessons by id, and the challenges that were passed."""

    lessons: dict[str, LessonRecord] = field(default_factory=dict)
    challenges: tuple[str, ...] = ()


class ProgressStore:
    """The file and what it says.

    Attributes
    ----------
    now
        The progress.
    notice
        One sentence for the person when the file could not be read or written, else empty.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = settings_path().with_name("progress.json") if path is None else path
        self.notice = ""
        self.now = self._read()

    def lesson(self, lesson_id: str) -> LessonRecord:
        """How far a lesson was walked."""
        return self.now.lessons.get(lesson_id, LessonRecord())

    def seed(self, lesson_id: str, check_id: str) -> int:
        """What the next fresh numbers of a check are drawn with: another seed after every reply."""
        return self.lesson(lesson_id).checks.get(check_id, CheckRecord()).tries

    def reach(self, lesson_id: str, step: int, steps: int) -> None:
        """Note that a step is on screen."""

        def after(record: LessonRecord) -> LessonRecord:
            furthest, finished = max(record.furthest, step), record.finished or step == steps - 1
            return replace(record, step=step, furthest=furthest, finished=finished)

        self._put(lesson_id, after)

    def answer(self, lesson_id: str, check_id: str, right: bool) -> None:
        """Note a reply."""

        def after(record: LessonRecord) -> LessonRecord:
            before = record.checks.get(check_id, CheckRecord())
            check = CheckRecord(before.tries + 1, before.right + int(right), right)
            return replace(record, checks={**record.checks, check_id: check})

        self._put(lesson_id, after)

    def pass_challenge(self, name: str) -> None:
        """Note that a build challenge was passed."""
        self._change(lambda known: replace(known, challenges=tuple(sorted({*known.challenges, name}))))

    def reset(self, lesson_id: str | None = None) -> None:
        """Forget one lesson, or everything."""

        def without(known: LearnerProgress) -> LearnerProgress:
            return replace(known, lessons={name: one for name, one in known.lessons.items() if name != lesson_id})

        self._change(without if lesson_id is not None else lambda known: LearnerProgress())

    def _put(self, lesson_id: str, after: Callable[[LessonRecord], LessonRecord]) -> None:
        def put(known: LearnerProgress) -> LearnerProgress:
            record = after(known.lessons.get(lesson_id, LessonRecord()))
            return replace(known, lessons={**known.lessons, lesson_id: record})

        self._change(put)

    def _change(self, change: Callable[[LearnerProgress], LearnerProgress]) -> None:
        """Change what this window knows, and in the file what is there by now: another window may have written it."""
        after = change(self.now)
        if after != self.now:
            before, self.now = self.now, after
            self._write(change, before)

    def _read(self) -> LearnerProgress:
        try:
            return decoded(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return LearnerProgress()
        except (OSError, ValueError) as error:
            kept = kept_aside(self.path)
            self.notice = f"The progress in {self.path} could not be read ({error}), so it starts afresh; {kept}."
            return LearnerProgress()

    def _write(self, change: Callable[[LearnerProgress], LearnerProgress], before: LearnerProgress) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.path):
                try:
                    there = decoded(self.path.read_text(encoding="utf-8"))
                except (OSError, ValueError):
                    there = before
                text = to_json({"version": VERSION, **to_plain(change(there))}, indent=1)
                with whole_file(self.path) as part:
                    part.write_text(text, encoding="utf-8")
        except OSError as error:
            self.notice = (
                f"The progress could not be written to {self.path} ({error}), so it lasts for this session only."
            )


def decoded(text: str) -> LearnerProgress:
    """Progress from the text of the file.

    Raises
    ------
    ValueError
        When it is of another form than was written.
    """
    data = read_json(text)
    if not isinstance(data, dict) or data.pop("version", None) != VERSION:
        raise ValueError(f"it is not progress of version {VERSION}")
    return from_plain(LearnerProgress, data)
