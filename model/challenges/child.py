"""The process that runs a learner's file: loads it, calls its function, and says what that gave.

Started by ``judging``, so that whatever the learner's code does (loop for ever, eat memory, crash) happens here. It
compares too, so that it goes on for as long as the results are right; but what it finds is not what counts, and it has
no way to say that. What the code prints is caught and handed back.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ropewalk.model.challenges.challenge import Kind, Verdict

MOST_PRINTED = 4000
"""Characters of what the code prints that are kept."""
MEBI = 1 << 20


class Printed(io.TextIOBase):
    """Keeps the first of what is printed and lets the rest go."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        """Take some text."""
        self.text += text[: max(0, MOST_PRINTED - len(self.text))]
        return len(text)

    def writable(self) -> bool:
        """It can be printed to."""
        return True


def main() -> int:
    """Run: challenge, file, MiB."""
    name, file, memory = sys.argv[1:]
    stream = _claimed()
    import torch

    from ropewalk.model.challenges.grading import grade
    from ropewalk.model.challenges.replies import Reply, write

    torch.set_num_threads(1)
    _limit_address_space(int(memory))
    write(stream, Reply("ready"))
    printed = Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        verdict = run(name, Path(file), telling(stream, Path(file), grade))
    write(stream, Reply("end", None, verdict.kind, verdict.sentence, verdict.details, printed=printed.text))
    return 0


def _claimed() -> BinaryIO:
    """Stdout, for messages alone: what the code writes there goes nowhere."""
    stream = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return stream


def telling(
    stream: BinaryIO, file: Path, grade: Callable[[str, Callable[..., Any]], Verdict]
) -> Callable[[str, Callable[..., Any]], Verdict]:
    """Grading that says what each call of the function gave."""
    from ropewalk.model.challenges.replies import Reply, plain, write

    def told(name: str, function: Callable[..., Any]) -> Verdict:
        def call(*given: Any, **named: Any) -> Any:
            try:
                found = function(*given, **named)
                data = plain(found)
            except BaseException as error:
                said = _raised(error, file, name)
                refuses = isinstance(error, Exception)
                write(stream, Reply("raised", None, said.kind, said.sentence, said.details, refuses=refuses))
                raise
            write(stream, Reply("result", data))
            return found

        return grade(name, call)

    return told


def run(name: str, file: Path, grade: Callable[[str, Callable[..., Any]], Verdict]) -> Verdict:
    """Load a learner's file and grade its function; whatever goes wrong becomes a verdict."""
    try:
        module = _loaded(file)
    except SystemExit:
        return Verdict("file", f"{file.name} ended the program while it was loaded; leave out exit().")
    except BaseException as error:  # noqa: BLE001 - a learner's file may raise anything
        return _raised(error, file, f"{file.name} cannot be loaded")
    function = getattr(module, name, None)
    if not callable(function):
        return Verdict("file", f"{file.name} has no function {name}; write one, or begin with the starter file.")
    try:
        return grade(name, function)
    except (MemoryError, SystemExit) as error:
        return _raised(error, file, name)
    except BaseException as error:  # noqa: BLE001 - and so may its function
        return _raised(error, file, name)


def _loaded(file: Path) -> Any:
    sys.path.append(str(file.parent))
    spec = importlib.util.spec_from_file_location("challenge_of_a_learner", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _raised(error: BaseException, file: Path, doing: str) -> Verdict:
    """Say which line of the learner's file raised, and what."""
    message = _message(error).strip().split("\n")[0] or "no message"
    kind: Kind = "error"
    what = f"{type(error).__name__}: {message}"
    if isinstance(error, MemoryError) or "can't allocate memory" in message:
        kind, what = "limit", "it asked for more memory than it may have"
    if isinstance(error, SyntaxError) and error.lineno is not None and error.filename == str(file):
        return Verdict("file", f"Line {error.lineno} of {file.name} cannot be read: {error.msg}.")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    if isinstance(error, NotImplementedError) and any(
        "raise" in str(frame.line) for frame in frames
    ):  # else it is torch's
        what = "it is not written yet"
    where = f"line {frames[-1].lineno} of {file.name}" if frames else file.name
    listing = "\n".join(f"line {frame.lineno}, in {frame.name}: {frame.line}" for frame in frames)
    return Verdict(kind, f"{doing}, {where}: {what.rstrip('.')}.", listing)


def _message(error: BaseException) -> str:
    """What an exception says; a learner's own kind may fail even at that."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - it is the learner's code too
        return ""


def _limit_address_space(memory: int) -> None:
    """Where the system can: let an allocation past the limit of MiB fail at once, in the line that asks for it."""
    try:
        import resource
    except ImportError:  # Windows has none; the watch is enough
        return
    import psutil

    most = psutil.Process().memory_info().vms + 2 * memory * MEBI
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
