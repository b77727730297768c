"""The slow line that tests put between the window and an engine."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.processes import HOLDS_THE_INTERPRETER, ROOT, family, started, staying
from tests.relay import Line, elsewhere

RELAY = [sys.executable, str(Path(__file__).with_name("relay.py")), "--delay", "0.001"]
MANY = bytes(range(256)) * 4000


def test_a_piece_leaves_at_the_lines_rate_and_arrives_later() -> None:
    line = Line(delay=2.0, rate=10.0)
    assert line.send(100.0, 10) == (101.0, 103.0)
    assert line.send(100.5, 20) == (103.0, 105.0)  # after the one before
    assert line.send(200.0, 0) == (200.0, 202.0)


def test_everything_comes_through_and_the_status_too() -> None:
    command = ["sh", "-c", "cat; echo details >&2; exit 3"]
    with started([*RELAY, "--rate", "1e9", *command]) as relay:
        assert relay.communicate(MANY) == (MANY, b"details\n")
    assert relay.returncode == 3


def test_a_command_that_ends_ends_the_relay_though_more_is_sent() -> None:
    with started([*RELAY, "sh", "-c", "kill -9 $$"]) as relay:
        assert relay.wait() == 128 + 9
        relay.communicate()


def test_a_far_end_that_stays_ends_with_its_input_and_when_nobody_reads() -> None:
    with started([*RELAY, "cat"]) as relay:
        assert relay.stdin is not None
        assert relay.stdout is not None
        relay.stdin.write(b"!")
        relay.stdin.flush()
        assert relay.stdout.read(1) == b"!"
        relay.stdout.close()
        relay.stdin.write(b"more that nobody reads")
        relay.stdin.close()
        relay.wait()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs descriptors of processes")
def test_a_relay_that_is_killed_ends_the_far_end_too() -> None:
    with started([*RELAY, "sh", "-c", "echo ready; exec cat"]) as relay:
        assert relay.stdout is not None
        assert relay.stdout.readline() == b"ready\n"
        processes = family(relay.pid)
        assert len(processes) == 2
        relay.kill()
        assert staying(processes) == 0


def test_another_machine_greets_and_is_another_one(tmp_path: Path) -> None:
    program = "import os; print(*sorted(set(os.environ) - {'LC_CTYPE'}), os.environ['HOME'], os.getcwd(), os.umask(0))"
    with started(elsewhere(tmp_path, sys.executable, "-c", program, delay=0.001)) as relay:
        out, err = relay.communicate()
    assert (relay.returncode, err) == (0, b"")
    assert out.decode() == f"Welcome to another machine\nHOME PATH {tmp_path} / {0o77}\n"


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs descriptors of processes")
def test_an_engine_on_another_machine_ends_with_the_window(tmp_path: Path) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from ropewalk.model import child_process
from ropewalk.model.engine.stdio import claim
child_process.GRACE = 0.01
_, writing = claim()
import os
print("printed")
os.write(writing, b"frame")
{HOLDS_THE_INTERPRETER}
"""
    with started(elsewhere(tmp_path, sys.executable, "-B", "-c", program, delay=0.001)) as relay:
        assert relay.stdout is not None
        assert relay.stdout.read(32) == b"Welcome to another machine\nframe"
        processes = family(relay.pid)
        assert len(processes) == 3  # the relay, the engine and its watcher
        assert relay.communicate() == (b"", b"printed\n")
        assert staying(processes) == 0
        assert relay.returncode == 128 + signal.SIGKILL
