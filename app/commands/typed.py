"""What stands beside a command on the command line, and where there is none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ropewalk.app.survey_folders import holds_surveys
from ropewalk.model.errors import quoted

ENGINE = "--engine"
SERVES = "This serves a window; see ropewalk --engine."
"""What a person is told who starts an engine in a terminal."""


TRACE = ".safetensors"
FILES = {".ropewalk": "session", TRACE: "trace"}
"""Files that the window begins with, by their endings."""


def names_file(typed: Sequence[str]) -> bool:
    """Whether a file, or the folder of a survey, was named in the place of a command."""
    return bool(typed) and (Path(typed[0]).suffix in FILES or _is_survey(typed))


def absent_file(typed: Sequence[str]) -> str:
    """Why the file that was named cannot be opened, a sentence; empty where it is there, or none was named."""
    if not names_file(typed) or os.path.isfile(typed[0]) or _is_survey(typed):
        return ""
    return f"There is no {FILES[Path(typed[0]).suffix]} {quoted(typed[0])}; check the path."


def drawn_instead(typed: Sequence[str], picture: str) -> list[str]:
    """The command that draws the window into a file where it cannot be shown."""
    if not typed:
        return ["snapshot", picture]
    if _is_survey(typed):
        return ["snapshot", picture, "--workspace", "survey", "--survey", *typed]
    return ["snapshot", picture, *typed] if Path(typed[0]).suffix == TRACE else ["export", picture, "--session", *typed]


def _is_survey(typed: Sequence[str]) -> bool:
    """Whether a survey's folder was named and nothing else: one that is called as a command is leaves that alone."""
    return len(typed) == 1 and holds_surveys(typed[0])


def split_engine(typed: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take ``--engine COMMAND`` out of what was typed; None where it is not there."""
    rest = list(typed)
    for place, word in enumerate(rest):
        name, equals, command = word.partition("=")
        if name == ENGINE and equals:
            return command, rest[:place] + rest[place + 1 :]
        if name == ENGINE and place + 1 < len(rest):
            return rest[place + 1], rest[:place] + rest[place + 2 :]
    return None, rest
