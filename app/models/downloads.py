"""Downloading a checkpoint from Hugging Face, when and only when the person asked for it.

A process of its own does it (``app.models.download_child``), so that a cancel ends it at once, whatever the network
does. What comes lands in the ordinary Hugging Face cache, so that other programs find it too.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Generator, Iterator

from ropewalk.app.models.download_child import Report
from ropewalk.model.child_process import child_command
from ropewalk.model.codec import CodecError, from_plain, read_json
from ropewalk.model.errors import CheckpointError
from ropewalk.model.progress import Progress

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
"""What names a repository: ``org/name``."""

CHILD = "app.models.download_child"
"""What the other process runs: our packages come before whatever lies in the current directory."""
POLL = 0.05
"""Seconds between two looks at whether the download was cancelled."""
GRACE = 0.5
"""Seconds that the other process has for taking its unfinished file away."""


def is_name(text: str, *, elsewhere: bool = False) -> bool:
    """Whether a text could be ``org/name``, and is no path that exists on this machine, if that is where to look."""
    return NAME.fullmatch(text) is not None and (elsewhere or not os.path.exists(text))


def download_steps(name: str) -> Generator[Progress, None, str]:
    """Download what is needed of ``org/name``; returns the folder or file to open.

    Closing the generator ends the process that downloads, whatever it waits for.

    Raises
    ------
    CheckpointError
        For a repository that is not there, is closed, or holds nothing to open, and when the network fails.
    """
    report = Report(what=f"Asking Hugging Face about {name}")
    yield Progress(0, 0, report.what)
    reading, kept = os.pipe()
    with os.fdopen(kept, "wb"):  # the other process ends when nobody holds this any more
        with os.fdopen(reading, "rb") as stdin:
            process = subprocess.Popen(
                child_command(CHILD, name, tidies=True),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"HF_HUB_DISABLE_XET": "1", **os.environ},  # Xet cannot be ended without leaving its file behind
                start_new_session=True,
            )
        with process:
            try:
                for line in _lines(process):
                    if line is not None:
                        report = _report(name, line)
                    if report.place or report.why:
                        break
                    yield Progress(report.done, report.total, report.what)
            finally:
                _end(process)
    if report.why:
        raise CheckpointError(report.why, report.details)
    return report.place


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes | None]:
    """Every line as it comes, nothing where none came for a while, and an empty one at the end.

    On Windows all lines come at the end.
    """
    come = 0
    ended = False
    while not ended:
        try:
            said, ended = process.communicate(timeout=POLL)[0], True
        except subprocess.TimeoutExpired as waiting:
            said = waiting.output or b""  # from the beginning
            yield None
        lines = [line for line in said.splitlines(keepends=True)[come:] if line.endswith(b"\n")]
        come += len(lines)
        yield from lines
    yield b""


def _report(name: str, line: bytes) -> Report:
    try:
        return from_plain(Report, read_json(line))
    except CodecError as error:
        raise CheckpointError(
            f"{name} could not be downloaded: the process that does it ended before it was done; try again.", str(error)
        ) from error


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process: by asking, then by force."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
