"""``make fuzz MINUTES=n`` or ``INPUTS=n``: damaged files for every reader, each in a process under a limit.

Any exception that is not ours, any hang and any growth is kept as a file, with the command that repeats it. With
``GUIDED=1`` atheris chooses the inputs by what code they reach, where it installs (``tests.fuzz.guided``).
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import psutil

from tests.fuzz.outcome import outcome_of
from tests.fuzz.worker import COUNTS

SECONDS = 2.0
"""Of a processor that one input may take."""
PATIENCE = 30.0
"""Seconds by the clock that it may: the machine may have other work."""
GROWTH = 500 << 20
"""Bytes by which the process may grow with one input."""
BEGINNING = 120.0
"""Seconds that the process may take to begin."""
MOST_ENDED = 30
"""Processes of one reader that may have to be ended before the others have their turn."""
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
        folder.mkdir(parents=True)
        self._counts = folder / "counts"
        self._counts.write_bytes(bytes(COUNTS.size))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", name, str(folder), seed], stdout=subprocess.PIPE, bufsize=0
        )
        self._watched = psutil.Process(self.process.pid)
        self._came = b""

    def said(self, timeout: float) -> dict[str, str] | None:
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
        found: dict[str, str] = json.loads(line)
        return found

    @property
    def counts(self) -> tuple[int, int]:
        """How many inputs were begun, and how many of those before the last one refused."""
        begun, refused = COUNTS.unpack(self._counts.read_bytes())
        return begun, refused

    def taken(self) -> tuple[float, int]:
        """Seconds of a processor and bytes so far."""
        try:
            times = self._watched.cpu_times()
            return times.user + times.system, int(self._watched.memory_info().rss)
        except psutil.Error:
            return 0.0, 0

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def fuzzed(name: str, seed: str, enough: Callable[[int], bool]) -> Report:
    """Try inputs on one reader until there are enough."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="ropewalk-fuzz-") as place:
        for round_ in range(MOST_ENDED):
            worker = Worker(name, Path(place) / str(round_), f"{seed} {round_}")
            try:
                fault, file = _watched(worker, name, report, enough)
            finally:
                worker.end()
            begun, refused = worker.counts
            report.inputs += begun
            report.refused += refused
            if not fault:
                break
            if file is None:
                report.faults[fault] += 1
                break
            keep(report, name, fault, file.name, file.read_bytes())
            if enough(report.inputs):
                break
    return report


def _watched(worker: Worker, name: str, report: Report, enough: Callable[[int], bool]) -> tuple[str, Path | None]:
    """Look at a process until there are enough inputs, or one has to be ended: with which fault, and its file."""
    first = worker.said(BEGINNING)
    if not first:
        return "the process did not begin", None
    file = Path(first["file"])
    now, (before, size), began = 0, worker.taken(), time.monotonic()
    while True:
        said = worker.said(LOOK)
        if said == {}:
            return f"the process ended ({worker.process.wait()})", file
        if said:
            keep(report, name, said["fault"], file.name, base64.b64decode(said["data"]))
        begun, _ = worker.counts
        seconds, bytes_ = worker.taken()
        if begun != now:
            now, before, size, began = begun, seconds, bytes_, time.monotonic()
            if enough(report.inputs + begun):
                return "", file
        report.slowest = max(report.slowest, seconds - before)
        if seconds - before > SECONDS or time.monotonic() - began > PATIENCE:
            return f"a hang: more than {SECONDS:g} seconds", file
        if bytes_ - size > GROWTH:
            return f"growth: more than {GROWTH >> 20} MB", file


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
