"""Programs run in processes of their own, and a look at what they leave behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
DEADLINE = 10.0
"""Seconds after which a process is taken to stay."""

HOLDS_THE_INTERPRETER = "import itertools; any(itertools.repeat(0))"
"""A program that never lets another thread or a handler of its process run again."""


def python(program: str, *arguments: str) -> list[str]:
    """The command that runs a program; to be started in ``ROOT``, where our packages are found."""
    return [sys.executable, "-c", program, *arguments]


@contextmanager
def started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program with pipes where nothing else is said, and wait for its end."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=ROOT, **(pipes | options)) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def family(pid: int) -> list[int]:
    """Descriptors of a process and of all that it started, directly or not."""
    members = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return [os.pidfd_open(member) for member in members]


def staying(descriptors: list[int]) -> int:
    """How many processes have not ended by the deadline; ends those, and closes all descriptors."""
    waiting, until = set(descriptors), time.monotonic() + DEADLINE
    try:
        while waiting and (left := until - time.monotonic()) > 0:
            waiting -= set(select.select(waiting, [], [], left)[0])
        for descriptor in waiting:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return len(waiting)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
