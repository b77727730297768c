"""What stands beside a command on the command line, and where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ENGINE = "--engine"
SERVES = "This serves a window; see ropewalk --engine."
"""What a person is told who starts an engine in a terminal."""


def absent_session(typed: Sequence[str]) -> str:
    """Why the session that was named cannot be opened, a sentence; empty where it is there, or none was named."""
    if not typed or not typed[0].endswith(".ropewalk") or Path(typed[0]).is_file():
        return ""
    return f"There is no session {typed[0]}; check the path."


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
