"""A slow line to another machine: runs a command and forwards its descriptors late and slowly, as ``ssh`` would.

``python tests/relay.py [--delay SECONDS] [--rate BYTES] COMMAND …`` needs nothing but Python. The command's stdin ends
with the relay's, or with the relay; the relay ends with the command, and gives its exit status. :func:`elsewhere` is
the command line of a program on a machine that greets.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Queue
from typing import IO

DELAY = 0.02
RATE = 5e6
PIECE = 1 << 14
UNREAD = 16
"""Pieces that the line holds while nobody reads at its far end; then it takes no more."""

LOGIN = 'echo "Welcome to another machine"; cd /; umask 077; exec env -i HOME="$0" PATH=/usr/bin:/bin "$@"'


def elsewhere(home: Path, *command: str, delay: float = DELAY, rate: float = RATE) -> list[str]:
    """The command line that runs a program on a slow line, from a shell whose profile prints to stdout.

    Environment, home, folder and umask are not those of the caller.
    """
    line = [sys.executable, str(Path(__file__).resolve()), "--delay", str(delay), "--rate", str(rate)]
    return [*line, "sh", "-c", LOGIN, str(home), *command]


class Line:
    """When pieces that are sent one after the other have left, and when they arrive."""

    def __init__(self, delay: float, rate: float) -> None:
        self._delay, self._rate = delay, rate
        self._free = 0.0

    def send(self, now: float, size: int) -> tuple[float, float]:
        """When a piece of ``size`` bytes that is ready ``now`` has left, and when it arrives."""
        self._free = max(self._free, now) + size / self._rate
        return self._free, self._free + self._delay


def forward(source: int, sink: int, line: Line) -> threading.Thread:
    """Carry what is read to where it is written until its end, or until nobody reads it; closes both."""
    underway: Queue[tuple[float, bytes]] = Queue(UNREAD)
    given_up = threading.Event()

    def read() -> None:
        while not given_up.is_set() and (piece := os.read(source, PIECE)):
            left, arrives = line.send(time.monotonic(), len(piece))
            _wait(left)
            underway.put((arrives, piece))
        os.close(source)
        underway.put((line.send(time.monotonic(), 0)[1], b""))

    def write() -> None:
        try:
            while True:
                arrives, piece = underway.get()
                _wait(arrives)
                if not piece:
                    break
                while piece:
                    piece = piece[os.write(sink, piece) :]
        except BrokenPipeError:
            given_up.set()
        os.close(sink)
        while given_up.is_set() and underway.get()[1]:
            pass

    threading.Thread(target=read, daemon=True).start()
    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    return writing


def _wait(until: float) -> None:
    time.sleep(max(until - time.monotonic(), 0.0))


def _taken(stream: IO[bytes] | None) -> int:
    """The descriptor of a stream, which is closed instead."""
    assert stream is not None
    with stream:
        return os.dup(stream.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command at the far end of a line; its exit status, or 128 and the signal that ended it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=float, default=DELAY, help="seconds, each way")
    parser.add_argument("--rate", type=float, default=RATE, help="bytes a second, each way")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    process = subprocess.Popen(
        given.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    stdin, stdout, stderr = map(_taken, (process.stdin, process.stdout, process.stderr))
    forward(0, stdin, Line(given.delay, given.rate))
    arriving = [forward(source, sink, Line(given.delay, given.rate)) for source, sink in ((stdout, 1), (stderr, 2))]
    for thread in arriving:
        thread.join()
    status = process.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())  # whatever still waits to be read
