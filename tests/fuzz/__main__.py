"""``make fuzz MINUTES=n`` or ``INPUTS=n``: damaged files for every reader, each in a process under a limit.

Any exception that is not ours, any hang and any growth is kept as a file, with the command that repeats it. With
``GUIDED=1`` atheris chooses the inputs by what code they reach, where it installs (``tests.fuzz.guided``).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from tests.fuzz.outcome import outcome_of

SECONDS = 2.0
"""Of a processor that one input may take."""
PATIENCE = 30.0
"""Seconds by the clock that it may: the machine may have other work."""
GROWTH = 500 << 20
"""Bytes by which the process may grow with one input."""
LOOK = 0.02
REPEATS = "again: python -m tests.fuzz --again '{}' {}"
KEPT = Path(".fuzz")
"""Where inputs are kept that something is wrong with."""


@dataclass
class Report:
    """What came of one reader's inputs."""

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    kept: dict[str, Path] = field(default_factory=dict)


class Worker:
    """The process that reads."""

    def __init__(self, name: str, folder: Path, seed: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", name, str(folder), seed],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        self._watched = psutil.Process(self.process.pid)
        self._came = b""

    def said(self, timeout: float) -> dict[str, Any] | None:
        """The next thing it says; None where it says nothing for so long, and empty where it has ended."""
        assert self.process.stdout is not None
        while b"\n" not in self._came:
            if not select.select([self.process.stdout], [], [], timeout)[0]:
                return None
            came = self.process.stdout.read(1 << 16)
            if not came:
                return {}
            self._came += came
        line, _, self._came = self._came.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def go_on(self) -> None:
        """Let it read the input that it has written."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(b"\n")

    def taken(self) -> tuple[float, int]:
        """Seconds of a processor and bytes so far, those of its children too."""
        try:
            times = self._watched.cpu_times()
            return times.user + times.system, int(self._watched.memory_info().rss)
        except psutil.Error:
            return 0.0, 0

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def fuzzed(name: str, seed: str, enough: Any) -> Report:
    """Try inputs on one reader until there are enough."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="ropewalk-fuzz-") as place:
        round_ = 0
        worker = Worker(name, Path(place) / "0", f"{seed} 0")
        while not enough(report.inputs):
            begun = worker.said(120)
            fault = ""
            file = None
            if begun:
                file = Path(begun["begins"])
                data = file.read_bytes()
                before, size = worker.taken()
                began = time.monotonic()
                worker.go_on()
                found = None
                while found is None and not fault:
                    found = worker.said(LOOK)
                    now, grown = worker.taken()
                    if now - before > SECONDS or time.monotonic() - began > PATIENCE:
                        fault = f"a hang: more than {SECONDS:g} seconds"
                    elif grown - size > GROWTH:
                        fault = f"growth: more than {GROWTH >> 20} MB"
                report.inputs += 1
                report.slowest = max(report.slowest, now - before)
                if found == {} and not fault:
                    fault = f"the process ended ({worker.process.wait()})"
                if found:
                    report.refused += found["kind"] != "read"
                    fault = fault or found["fault"]
                if fault:
                    keep(report, name, fault, file.name, data)
            if not begun or found == {} or fault.startswith(("a hang", "growth", "the process")):
                if not begun:
                    report.faults["the process did not begin"] += 1
                    if report.faults["the process did not begin"] > 3:
                        break
                round_ += 1
                worker.end()
                worker = Worker(name, Path(place) / str(round_), f"{seed} {round_}")
        worker.end()
    return report


def keep(report: Report, name: str, fault: str, file: str, data: bytes) -> None:
    """Keep an input, one of each kind of fault."""
    kind = fault.split("'", maxsplit=1)[0][:100]
    report.faults[kind] += 1
    if kind in report.kept:
        return
    path = folder_of(name) / f"{hashlib.sha256(data).hexdigest()[:12]}-{file}"
    path.write_bytes(data)
    report.kept[kind] = path
    print(f"  {name}: {fault}\n    {REPEATS.format(name, path)}", flush=True)


def guided(name: str, seconds: float) -> Report:
    """Let atheris fuzz one reader; it ends at each fault, and begins anew."""
    report, until = Report(), time.monotonic() + seconds
    folder = folder_of(name)
    while (left := round(until - time.monotonic())) > 0:
        command = [sys.executable, "-m", "tests.fuzz.guided", name, str(left), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        counts = re.findall(r"^#(\d+)\s", done.stderr, flags=re.MULTILINE)
        report.inputs += int(counts[-1]) if counts else 0
        if done.returncode == 0:
            break
        wrong = re.findall(r"AssertionError: (.*)|ERROR: libFuzzer: (.*)", done.stderr)
        report.faults[next(filter(None, wrong[0]))[:100] if wrong else done.stderr[-300:]] += 1
        for path in re.findall(r"Test unit written to (\S+)", done.stderr):
            print(f"  {name}: {next(reversed(report.faults))}\n    {REPEATS.format(name, path)}", flush=True)
        if not counts:
            break
    return report


def folder_of(name: str) -> Path:
    """Where faults of a reader are kept."""
    folder = KEPT / name.replace(" ", "-").replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def again(name: str, path: Path) -> int:
    """Read one kept input once more, in this process."""
    from tests.fuzz.readers import READERS

    with tempfile.TemporaryDirectory(prefix="ropewalk-fuzz-") as place:
        file, _ = READERS[name].seeds(Path(place) / "original")
        file.write_bytes(path.read_bytes())
        found = outcome_of(READERS[name].read, file)
        print(found.fault or found.kind)
        if found.fault:
            READERS[name].read(file)
    return bool(found.fault)


def shares(names: list[str], inputs: int) -> Iterator[tuple[str, int]]:
    """How many inputs each reader gets."""
    from tests.fuzz.readers import READERS

    total = sum(READERS[name].share for name in names)
    for name in names:
        yield name, max(1, round(inputs * READERS[name].share / total))


def main() -> int:
    """Fuzz, and report by reader."""
    from tests.fuzz.readers import READERS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="for how long, all readers together")
    parser.add_argument("--inputs", type=int, help="how many inputs, all readers together (2000)")
    parser.add_argument("--guided", action="store_true", help="let atheris choose the inputs, where it is installed")
    parser.add_argument("--seed", default=str(int(time.time())), help="where to begin (the time)")
    parser.add_argument("--again", nargs=2, metavar=("READER", "FILE"), help="read a kept input once more")
    parser.add_argument("readers", nargs="*", help=f"{', '.join(READERS)} (all)")
    parsed = parser.parse_args()
    if parsed.again:
        return again(parsed.again[0], Path(parsed.again[1]))
    unknown = [name for name in parsed.readers if name not in READERS]
    if unknown:
        parser.error(f"there is no reader {unknown[0]!r}")
    names = parsed.readers or list(READERS)
    total = sum(READERS[name].share for name in names)
    print(f"Seed {parsed.seed}")
    reports = {}
    print(f"{'reader':24}{'inputs':>8}{'refused':>9}{'faults':>8}{'slowest s':>11}")
    for name, count in shares(names, parsed.inputs or 2000):
        until = time.monotonic() + 60 * (parsed.minutes or 0) * READERS[name].share / total

        def enough(done: int, count: int = count, until: float = until) -> bool:
            return time.monotonic() >= until if parsed.minutes else done >= count

        by_atheris = parsed.guided and find_spec("atheris") is not None
        report = reports[name] = (
            guided(name, max(10.0, until - time.monotonic())) if by_atheris else fuzzed(name, parsed.seed, enough)
        )
        print(
            f"{name:24}{report.inputs:8,}{report.refused:9,}{report.faults.total():8,}{report.slowest:11.2f}",
            flush=True,
        )
    faults = sum(report.faults.total() for report in reports.values())
    print(f"{'all':24}{sum(report.inputs for report in reports.values()):8,}{'':9}{faults:8,}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
