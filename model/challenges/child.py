"""The process that runs a learner's file: loads it, grades its function, and writes the verdict to a file.

Started by ``app.lessons.challenges``, so that whatever the learner's code does (loop for ever, eat memory, crash)
happens here. Limits begin when torch is loaded. What the code prints is caught and handed back with the verdict.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ropewalk.model.challenges.challenge import Kind, Verdict
from ropewalk.model.child_process import fork_watcher

MOST_PRINTED = 4000
"""Characters of what the code prints that are kept."""
WATCH_EVERY = 0.05
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
    """Grade: challenge, file, where to write the verdict, seconds, MiB."""
    fork_watcher(sys.stdin.fileno())  # what the code starts ends with it
    name, file, out, seconds, memory = sys.argv[1:]
    import torch

    from ropewalk.model.challenges.grading import grade

    torch.set_num_threads(1)
    finish = _finisher(Path(out))
    _watch(finish, float(seconds), int(memory))
    printed = Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        verdict = run(name, Path(file), grade)
    if printed.text.strip():
        output = f"It printed:\n{printed.text.rstrip()}"
        verdict = Verdict(verdict.kind, verdict.sentence, "\n".join(part for part in (verdict.details, output) if part))
    finish(verdict)
    return 0


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


def _finisher(out: Path) -> Callable[[Verdict], None]:
    """Writes the first verdict it is given, whole or not at all, and only that one."""
    lock = threading.Lock()
    done = False

    def finish(verdict: Verdict) -> None:
        nonlocal done
        with lock:
            if done:
                return
            done = True
            part = out.with_suffix(".part")
            part.write_text(verdict.to_json(), encoding="utf-8")
            os.replace(part, out)

    return finish


def _watch(finish: Callable[[Verdict], None], seconds: float, memory: int) -> None:
    """End this process when the code takes too long or too much; from a thread, so that nothing can catch it."""
    import psutil

    process = psutil.Process()
    _limit_address_space(process.memory_info().vms + 2 * memory * MEBI)
    allowed, until = process.memory_info().rss + memory * MEBI, time.monotonic() + seconds

    def watch() -> None:
        while True:
            time.sleep(WATCH_EVERY)
            if time.monotonic() > until:
                finish(Verdict("limit", f"It ran for more than {seconds:g} seconds and was stopped; is there a loop?"))
                os._exit(1)
            if process.memory_info().rss > allowed:
                finish(Verdict("limit", f"It took more than {memory} MiB of memory and was stopped."))
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _limit_address_space(most: int) -> None:
    """Where the system can: let an allocation past the limit fail at once, in the line that asks for it."""
    try:
        import resource
    except ImportError:  # Windows has none; the watch is enough
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
