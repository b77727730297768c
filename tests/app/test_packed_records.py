"""What the window knows of lessons, sessions and files comes back from another process as it was."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ropewalk.app.files import session_file
from ropewalk.app.files.provenance import Provenance
from ropewalk.app.lessons import plan
from ropewalk.app.lessons.loading import FOLDER, load_lesson
from ropewalk.app.lessons.shelf import Problem, Shelf
from ropewalk.app.models.download_child import Report
from ropewalk.app.models.local_models import LocalModel
from ropewalk.app.session.selection import Selection
from ropewalk.model.challenges.challenge import Verdict
from ropewalk.model.engine.packing import Packing
from ropewalk.model.engine.requests import Failure
from tests.examples import alike, example, records_of

TYPES = [
    *records_of(plan, session_file),
    *(Failure, LocalModel, Problem, Provenance, Report, Selection, Shelf, Verdict),
]  # fmt: skip
PACKING = Packing(TYPES)


def back(value: Any) -> Any:
    packed = PACKING.pack(value)
    return PACKING.unpack(packed.type, packed.data, packed.arrays)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_record_comes_back_as_it_was(kind: Any) -> None:
    for seed in range(6):
        value = example(kind, Random(seed))
        assert alike(value, back(value)), value


def test_a_lesson_of_the_course_comes_back_as_it_was() -> None:
    lesson = load_lesson(sorted(FOLDER.glob("*.toml"))[0])
    assert back(lesson) == lesson
