"""The guide to lessons says where each topic of a course is answered; the steps tell their teacher something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.app.filled_lessons import SHELF
from tests.app.test_lesson_course import REACHED

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "lessons.md"
ROW = re.compile(r"^\| ([^*|`]+) \| ((?:`[^`]+`(?:, )?)+) \|$", re.MULTILINE)


def rows() -> dict[str, tuple[str, ...]]:
    """Topic → places, as the guide's table has them."""
    section = GUIDE.read_text(encoding="utf-8").split("## What a course asks", 1)[1]
    return {topic: tuple(re.findall(r"`([^`]+)`", places)) for topic, places in ROW.findall(section)}


def test_the_guide_names_every_topic_and_where_it_is() -> None:
    assert rows() == REACHED


@pytest.mark.parametrize("topic", rows())
def test_a_place_in_the_guide_is_there(topic: str) -> None:
    for place in rows()[topic]:
        if "#" in place:
            number, check = place.split("#")
            assert SHELF.lesson(number).place_of(check)
        elif "@" in place:
            number, step = place.split("@")
            assert int(step) < len(SHELF.lesson(number).steps)
        else:
            assert place[0] in "!$"  # challenges and commands are held to by test_lesson_course


def test_nearly_every_step_has_notes_for_the_teacher_and_each_is_short() -> None:
    for lesson in SHELF.lessons:
        with_notes = [step for step in lesson.steps if step.notes]
        assert lesson.steps[0].notes, lesson.id
        assert len(with_notes) >= len(lesson.steps) - 1, lesson.id
        for step in with_notes:
            words = sum(
                len(part.text.split())
                for block in step.notes
                for cell in block.cells
                for part in cell
                if hasattr(part, "text")
            )
            assert words <= 60, f"{lesson.id}: nobody reads that while speaking"
