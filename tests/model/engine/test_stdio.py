"""The descriptors of an engine's process: what reaches the window, and what is left when either is gone."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.processes import HOLDS_THE_INTERPRETER, family, python, started, staying

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs descriptors of processes")

CLAIM = """
from ropewalk.model.engine.stdio import claim
reading, writing = claim()
import os, subprocess, sys
"""
HANGING = f"""{CLAIM}
subprocess.Popen(["sleep", "600"])
os.write(writing, b"ready")
{HOLDS_THE_INTERPRETER}
"""
"""An engine with a child that never hears that its window is gone."""
SOON = "from ropewalk.model import child_process; child_process.GRACE = 0.01"
WINDOW = """
import subprocess, sys
engine = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
engine.wait()
"""


def test_only_frames_reach_stdout_whoever_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # C's buffer would be written before the claim
    program = f"""
import ctypes
libc = ctypes.CDLL(None)
libc.write(1, b"banner", 6)
libc.printf(b"kept by C. ")
{CLAIM}
libc.write(1, b"C writes. ", 10)
libc.puts(b"C puts. ")
print("Python prints. ")
subprocess.run(["echo", "a child prints. "])
libc.fflush(None)
os.write(writing, b"frame")
"""
    with started(python(program)) as engine:
        out, err = engine.communicate()
    assert (engine.returncode, out) == (0, b"bannerframe")
    for said in (b"kept by C. ", b"C writes. ", b"C puts. ", b"Python prints. ", b"a child prints. "):
        assert said in err


def test_what_the_window_writes_is_for_the_engine_alone() -> None:
    program = f"""{CLAIM}
theirs = subprocess.run(["cat"], stdout=subprocess.PIPE).stdout
os.write(writing, b"child %d, Python %d, engine " % (len(theirs), len(sys.stdin.read())) + os.read(reading, 99))
assert not any(map(os.get_inheritable, (reading, writing)))
"""
    with started(python(program)) as engine:
        out, err = engine.communicate(b"request")
    assert (engine.returncode, out, err) == (0, b"child 0, Python 0, engine request", b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_descriptors_that_are_closed_are_no_obstacle(closed: str, tmp_path: Path) -> None:
    program = f"""{CLAIM}
print("printed")
os.write(writing, b"frame")
open(sys.argv[1], "wb").write(os.read(reading, 99))
"""
    read = tmp_path / "read"
    with started(["sh", "-c", f'exec "$@" {closed}', "sh", *python(program, str(read))]) as engine:
        out, err = engine.communicate(b"request")
    assert engine.returncode == 0
    assert out == (b"" if ">&-" in closed.replace("2>&-", "") else b"frame")
    assert err == (b"" if "2>&-" in closed else b"printed\n")
    assert read.read_bytes() == (b"" if "<&-" in closed else b"request")


def test_ctrl_c_in_a_terminal_is_not_for_the_engine() -> None:
    with started(python(f"{CLAIM}\nos.write(writing, b'ready')\nos.read(reading, 1)")) as engine:
        assert engine.stdout is not None
        assert engine.stdout.read(5) == b"ready"
        assert os.getsid(engine.pid) == os.getpgid(engine.pid) == engine.pid != os.getpgrp()
        engine.communicate()


def test_a_window_that_is_killed_leaves_nothing_though_the_engine_hears_nothing() -> None:
    with started(python(WINDOW, HANGING)) as window:
        assert window.stdout is not None
        assert window.stdout.read(5) == b"ready"
        processes = family(window.pid)
        assert len(processes) == 4  # the window, its engine, the engine's child and the watcher
        window.kill()
        assert staying(processes) == 0
        window.communicate()


@pytest.mark.parametrize("half", [False, True], ids=["closed", "half closed"])
def test_a_socket_that_is_closed_ends_the_engine_too(half: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, started(python(f"{SOON}\n{HANGING}"), stdin=theirs, stdout=theirs) as engine, theirs:
        theirs.close()
        assert ours.recv(5) == b"ready"
        processes = family(engine.pid)
        ours.shutdown(socket.SHUT_WR) if half else ours.close()
        assert staying(processes) == 0
        assert engine.wait() == -signal.SIGKILL


def test_what_was_not_read_yet_keeps_no_engine() -> None:
    with started(python(f"{SOON}\n{HANGING}")) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        assert engine.stdout.read(5) == b"ready"
        processes = family(engine.pid)
        engine.stdin.write(b"requests that nobody reads")
        engine.stdin.close()
        assert staying(processes) == 0


def test_an_engine_that_ends_by_itself_is_not_killed() -> None:
    program = f"{CLAIM}\nos.write(writing, b'ready')\nos.read(reading, 1)\nsys.exit(3)"
    with started(python(program)) as engine:
        assert engine.stdout is not None
        assert engine.stdout.read(5) == b"ready"
        processes = family(engine.pid)
        assert len(processes) == 2
        engine.communicate()
        assert engine.returncode == 3
        assert staying(processes) == 0


def test_an_engine_that_is_killed_leaves_neither_children_nor_open_pipes() -> None:
    with started(python(HANGING)) as engine:
        assert engine.stdout is not None
        assert engine.stdout.read(5) == b"ready"
        processes = family(engine.pid)
        engine.kill()
        assert staying(processes) == 0
        assert engine.communicate() == (b"", b"")


def test_it_is_done_before_anything_large_is_imported() -> None:
    program = f"{CLAIM}\nprint({{'numpy', 'torch', 'msgspec', 'PySide6', 'ctypes'}} & set(sys.modules))"
    with started(python(program)) as engine:
        assert engine.communicate()[1] == b"set()\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals to ignore")
def test_a_signal_for_the_whole_group_leaves_the_watcher_at_its_post() -> None:
    program = f"""{CLAIM}
import signal
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
    os.killpg(0, number)
{HANGING.removeprefix(CLAIM)}"""
    with started(python(f"{SOON}\n{program}")) as engine:
        assert engine.stdout is not None
        assert engine.stdout.read(5) == b"ready"
        processes = family(engine.pid)
        engine.communicate()
        assert staying(processes) == 0
