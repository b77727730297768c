"""The process that judges a learner's file: has it run by a process of its own, compares, and says what came of it.

Started by ``app.lessons.challenges``, which hears the verdict on this process's stdout. The learner's code runs in
``child``, which this one starts and which has no way to that: it says what its function gave, never whether that is
right. Time and memory are watched here, and at the end all that the code has started is ended: on Linux whatever it is,
for what a process leaves behind becomes a child of this one; elsewhere what is still a child of the code's process, or
in its group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ropewalk.model.challenges.challenge import Verdict
from ropewalk.model.child_process import child_command, fork_watcher
from ropewalk.model.errors import shortened

if TYPE_CHECKING:
    from ropewalk.model.challenges.replies import Reply

WATCH_EVERY = 0.05
MEBI = 1 << 20
MOST_DETAILS = 20_000


class Raised(Exception):
    """The learner's function raised something."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.sentence)
        self.verdict = verdict


class Over(BaseException):
    """There are no results any more; the last thing that was said, if anything was."""

    def __init__(self, last: Reply | None = None) -> None:
        super().__init__()
        self.last = last


class Watch(threading.Thread):
    """Ends the learner's process when it takes too long or too much.

    Attributes
    ----------
    verdict
        Why it was ended; None where it was not.
    """

    def __init__(self, process: int, start_seconds: float, seconds: float, memory: int, but: frozenset[int]) -> None:
        import psutil

        super().__init__(daemon=True)
        self.verdict: Verdict | None = None
        self._process = psutil.Process(process)
        self._seconds, self._memory, self._but = seconds, memory, but
        self._until, self._most = time.monotonic() + start_seconds, float("inf")

    def begin(self) -> None:
        """Count from now on: torch is loaded."""
        self._until = time.monotonic() + self._seconds
        self._most = self._taken() + self._memory * MEBI

    def run(self) -> None:
        """Look now and then."""
        while self.verdict is None:
            time.sleep(WATCH_EVERY)
            if time.monotonic() > self._until:
                self.verdict = Verdict(
                    "limit", f"It ran for more than {self._seconds:g} seconds and was stopped; is there a loop?"
                )
            elif self._taken() > self._most:
                self.verdict = Verdict("limit", f"It took more than {self._memory} MiB of memory and was stopped.")
        self.end()

    def end(self) -> None:
        """End the learner's process, and all that it has started."""
        from ropewalk.model.descendants import end_descendants

        end_descendants(self._but)

    def _taken(self) -> int:
        import psutil

        try:
            return int(self._process.memory_info().rss)
        except psutil.Error:  # it has ended
            return 0


def main() -> int:
    """Judge: challenge, file, seconds, MiB, seconds to start."""
    name, file, seconds, memory, start_seconds = sys.argv[1:]
    fork_watcher(sys.stdin.fileno())  # this ends with who started it, whatever holds the interpreter
    signal.signal(signal.SIGTERM, _end)
    from ropewalk.model.descendants import adopt_orphans, descendants, end_descendants, hide

    adopt_orphans()
    hide()
    watcher = descendants()
    try:
        process = subprocess.Popen(
            child_command("model.challenges.child", name, file, memory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        watch = Watch(process.pid, float(start_seconds), float(seconds), int(memory), watcher)
        watch.start()
        verdict = judged(name, Path(file), process, watch)
    finally:
        end_descendants(watcher)
    os.write(sys.stdout.fileno(), verdict.to_json().encode())
    return 0


def judged(name: str, file: Path, process: subprocess.Popen[bytes], watch: Watch) -> Verdict:
    """Compare what the learner's process says its function gave."""
    from ropewalk.model.challenges import replies
    from ropewalk.model.challenges.grading import grade
    from ropewalk.model.descendants import ending

    assert process.stdout is not None
    messages = replies.read(process.stdout)
    first, last = next(messages, None), None
    if first is not None and first.what == "ready":  # of this process's own; the learner's code can say it only later
        watch.begin()
    try:
        verdict = grade(name, lambda *given, **named: _result(messages))
    except Raised as raised:
        verdict = raised.verdict
    except Over as over:
        last = over.last
        if last is not None and last.sentence:
            verdict = _said(last)
        elif watch.verdict is not None:
            verdict = watch.verdict
        else:
            watch.end()
            verdict = Verdict("error", f"{file.name} took its whole process down ({ending(process.wait())}).")
    if last is None or last.what != "end":
        last = next((reply for reply in messages if reply.what == "end"), None)
    return _with_printed(verdict, "" if last is None else last.printed)


def _result(messages: Iterator[Reply]) -> Any:
    """What the function gave this time."""
    from ropewalk.model.challenges.replies import thing

    reply = next(messages, None)
    if reply is not None and reply.what == "result":
        with suppress(ValueError):
            return thing(reply.result)
        raise Over
    if reply is not None and reply.what == "raised" and reply.refuses:
        raise Raised(_said(reply))
    raise Over(reply)


def _said(reply: Reply) -> Verdict:
    """What was said instead of a result; whoever says that it passed has not."""
    kind = "error" if reply.kind == "passed" else reply.kind
    return Verdict(kind, shortened(reply.sentence), reply.details[:MOST_DETAILS])


def _with_printed(verdict: Verdict, printed: str) -> Verdict:
    if not printed.strip():
        return verdict
    details = "\n".join(part for part in (verdict.details, f"It printed:\n{printed.rstrip()}") if part)
    return Verdict(verdict.kind, verdict.sentence, details[:MOST_DETAILS])


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(1)
