"""What reads a stranger's file is ended at a limit by the process beside it, and says so in a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from ropewalk.model.child_process import Limits, taken_bytes
from ropewalk.model.limits import limited
from tests.processes import ROOT, python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process beside")

PROGRAM = """
import os, signal, sys
from ropewalk.model import child_process, limits
child_process.fork_watcher(None)
limits.LIMITS = {{"text": limits.Limit("the text", {seconds}, 64)}}
{then}
"""
FOR_EVER = """
nested = ("a",)
for _ in range(60):
    nested = (nested, nested)
with limits.limited("text", "odd\\nname"):
    hash(nested)
"""
"""Holds the interpreter in one call of native code."""
GROWS = """
with limits.limited("text", "work"):
    held = []
    while True:
        held.append(bytes(1 << 20))
"""


def ended(then: str, seconds: float = 60.0) -> tuple[int, str]:
    """The exit status of a program that reads, and what it says."""
    program = PROGRAM.format(seconds=seconds, then=then)
    done = subprocess.run(python(program), cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr


def test_native_code_that_never_returns_is_ended_in_a_sentence() -> None:
    assert ended(FOR_EVER, 0.1) == (
        1,
        "Reading the text of odd name took more than 0.1 seconds, and was stopped; it is damaged, or made to hold up "
        "whoever reads it.\n",
    )


def test_what_grows_without_end_is_ended_in_a_sentence() -> None:
    assert ended(GROWS) == (
        1,
        "Reading the text of work took more than 64 MiB of memory, and was stopped; it is damaged, or made to hold up "
        "whoever reads it.\n",
    )


def test_what_is_read_in_time_is_held_to_nothing_afterwards() -> None:
    reads = "[limits.limited('text', 'a', 1 << 20).__enter__() for _ in range(3)]"
    within = "for _ in range(3):\n    with limits.limited('text', 'a'), limits.limited('text', 'b'): pass\n"
    assert ended(f"{within}held = bytes(range(256)) * (1 << 19); signal.pause if held else {reads}", 0.5) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_line_that_is_hung_up_ends_the_process_as_ever_once_it_has_read() -> None:
    within = "with limits.limited('text', 'a'), limits.limited('text', 'b'): pass\n"
    assert ended(f"{within}os.kill(os.getpid(), signal.SIGHUP)")[0] == -signal.SIGHUP
    ignored = "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    assert ended(f"{ignored}{within}os.kill(os.getpid(), signal.SIGHUP)") == (0, "")


def test_a_process_without_a_watcher_reads_as_ever() -> None:
    with limited("text", "a"):
        pass


def test_the_watcher_hears_lines_in_pieces_and_forgets_what_has_ended() -> None:
    held = Limits(os.getpid())
    held.hear(b"+1\t-1\t99\tlate\tlar")
    assert held.passed() == ""
    held.hear(b"ge\n+2\t60\t-1\tlater\tlarger\n")
    assert held.passed() == "late"
    held.hear(b"-1\n")
    assert held.passed() == "larger"
    held.hear(b"-2\n")
    assert (held.passed(), held.are_set) == ("", False)
    assert taken_bytes(os.getpid()) > 1 << 20
