"""Processes of our own end with the one that started them, whatever they do."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.processes import HOLDS_THE_INTERPRETER, ROOT, family, python, started, staying

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs descriptors of processes")

PARENT = """
import subprocess, sys
from ropewalk.model import child_process
child_process.START = child_process.START.rpartition("import_module(")[0] + sys.argv[1]
options = {"start_new_session": True} if "own group" in sys.argv else {}
command = child_process.child_command("model.errors", *sys.argv[2:], tidies="tidies" in sys.argv)
print(subprocess.Popen(command, stdin=subprocess.DEVNULL, **options).wait(), flush=True)
"""
"""Starts a child that runs a program instead of a module's ``main``."""
READY = "import os; os.write(1, b'ready')"


def killed(process: subprocess.Popen[bytes], members: int) -> int:
    """How many processes stay when a parent of so many is killed once its child is ready."""
    assert process.stdout is not None
    assert process.stdout.read(5) == b"ready"
    processes = family(process.pid)
    assert len(processes) == members
    process.kill()
    return staying(processes)


def test_a_child_that_holds_the_interpreter_ends_with_its_parent() -> None:
    with started(python(PARENT, f"{READY}; {HOLDS_THE_INTERPRETER}")) as process:
        assert killed(process, 2) == 0


def test_one_that_tidies_is_asked(tmp_path: Path) -> None:
    tidied = tmp_path / "tidied"
    program = (
        f"import signal; signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[-1], 'x'), sys.exit())); {READY}; "
        "signal.pause()"
    )
    with started(python(PARENT, program, "tidies", str(tidied))) as process:
        assert killed(process, 2) == 0
    assert tidied.exists()


def test_one_whose_parent_was_gone_before_it_began_ends_at_once() -> None:
    program = "from ropewalk.model.child_process import end_with_parent; end_with_parent(1, 9)"
    assert subprocess.run(python(program), cwd=ROOT, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("forked", [False, True], ids=["started", "forked"])
def test_what_a_child_starts_ends_too(forked: bool) -> None:
    start = "os.fork()" if forked else "import subprocess; subprocess.Popen(['sleep', '600'])"
    program = (
        f"from ropewalk.model.child_process import fork_watcher; import os; fork_watcher(0); {start}; "
        f"os.getpid() == os.getpgrp() and os.write(1, b'ready'); {HOLDS_THE_INTERPRETER}"
    )
    with started(python(PARENT, program, "own group")) as process:
        assert killed(process, 4) == 0


def test_elsewhere_a_thread_looks_now_and_then() -> None:
    child = f"""
import psutil, os, signal, sys
sys.platform = "darwin"
from ropewalk.model import child_process
child_process.LOOK = 0.01
child_process.end_with_parent(os.getppid(), signal.SIGKILL)
{READY}
signal.pause()
"""
    with started(
        python("import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]])", "-c", child)
    ) as process:
        assert killed(process, 2) == 0
