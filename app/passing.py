"""The closed list of what passes between a window and its processes, and which reply is to which request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ropewalk.app.files.requests import (
    EncodeAnimation,
    EncodePng,
    FindCheckpoint,
    FinishSvg,
    Found,
    ReadLesson,
    ReadSession,
    ReadShelf,
    SaveSession,
    WriteBytes,
    WriteNumbers,
    WriteSvg,
)
from ropewalk.app.files.session_file import SavedSession
from ropewalk.app.lessons.plan import Asked, FilledStep, Lesson, Problem
from ropewalk.app.lessons.requests import FillCheck, FillStep, OpenRuns
from ropewalk.app.models.folders import Folder
from ropewalk.app.models.local_models import LocalModel
from ropewalk.app.models.requests import DownloadModel, ListFolder, ListModels
from ropewalk.model.engine import passing as engine
from ropewalk.model.engine.requests import AnswerQuestion, Failure, Greeting
from ropewalk.model.progress import Progress

REPLIES: Final[Mapping[type[Any], Any]] = {
    **engine.REPLIES,
    EncodePng: Path,
    WriteSvg: Path,
    WriteBytes: Path,
    EncodeAnimation: Path,
    WriteNumbers: Path,
    FinishSvg: bytes,
    SaveSession: Path,
    FindCheckpoint: Found,
    ReadSession: SavedSession,
    ReadLesson: Lesson,
    ReadShelf: tuple[Problem, ...],
    OpenRuns: int,
    FillStep: FilledStep,
    FillCheck: Asked,
    ListModels: tuple[LocalModel, ...],
    DownloadModel: str,
    ListFolder: Folder,
}
"""The result of every request."""

PARTS: Final[Mapping[type[Any], Any]] = {**engine.PARTS, ReadShelf: Lesson}
"""What comes in parts before that."""

ALWAYS: Final[Mapping[str, Any]] = {"hello": Greeting, "progress": Progress, "failed": Failure}
"""What else an engine says, whatever it was asked."""

PASSING: Final = (*ALWAYS.values(), AnswerQuestion, *REPLIES, *REPLIES.values(), *PARTS.values())
"""Every type of what is said, but for what only stands in others."""


def reply_to(asked: Any, kind: str) -> Any:
    """The type of what may be said in this way in reply to a request; none, ``()``, where nothing may."""
    if kind in ALWAYS:
        return ALWAYS[kind]
    question = asked.question if isinstance(asked, AnswerQuestion) else asked
    return (REPLIES if kind == "done" else PARTS).get(type(question), ())
