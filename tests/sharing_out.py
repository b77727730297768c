"""How two workers share the tests: by file; those of one model's window and those of filled lessons together."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

EVERY_MODEL = "tests/views/every_model/"
FILLED_LESSONS = tuple(
    f"tests/app/{name}.py::"
    for name in ("lessons/test_checks", "lessons/test_claims", "lessons/test_reader", "lessons/test_shelf",
                 "test_lesson_course", "test_lesson_guide", "test_lesson_numbers")
)  # fmt: skip
"""Tests over :mod:`tests.app.filled_lessons`, which every process that has some of them fills anew."""


class BySharedFixture(LoadFileScheduling):
    """Gives a worker what shares a fixture.

    That are the tests of a file, those of all files that have one window, or those that have the same lessons filled.
    """

    def _split_scope(self, nodeid: str) -> str:
        """What a test is given out with."""
        if nodeid.startswith(EVERY_MODEL):
            return EVERY_MODEL + nodeid.partition("[")[2]
        if nodeid.startswith(FILLED_LESSONS):
            return "filled lessons"
        return super()._split_scope(nodeid)
