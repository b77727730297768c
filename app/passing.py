"""The closed list of what passes between a window and its processes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ropewalk.app.files import requests as files
from ropewalk.app.files.session_file import SavedSession
from ropewalk.app.lessons import requests as lessons
from ropewalk.app.lessons.plan import Asked, FilledStep, Lesson, Problem
from ropewalk.app.models import requests as models
from ropewalk.app.models.local_models import LocalModel
from ropewalk.model.engine import passing as engine

PASSING: Final = (
    *(*engine.PASSING, *files.PASSING, *lessons.PASSING, *models.PASSING),
    *(FilledStep, Asked, tuple[LocalModel, ...], str, Path, SavedSession, tuple[Problem, ...], Lesson),
)
"""Every type of what is said, but for what only stands in others."""
