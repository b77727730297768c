"""A copy of the tree in which one thing at a time is broken, and the tests that should notice.

:mod:`tests.breakages` breaks what somebody thought of, :mod:`tests.mutants` what chance picks. The tests run in a child
forked from this process, which has imported what takes long; nothing of the tree is among it.
"""

from __future__ import annotations

import ast
import importlib
import math
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ("model", "app", "views", "ropewalk")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "*.egg-info", "build", "dist")
SLOW_TO_IMPORT = ("numpy", "torch", "PySide6.QtWidgets", "pytest", "PIL.Image", "safetensors.torch", "tokenizers")
MEMORY = 24 << 30
"""Bytes of address space for a child: broken code may ask for any amount."""
NICENESS = 5
NO_TESTS = 5
"""Pytest's exit status where all tests were left out."""


@dataclass(frozen=True)
class Outcome:
    """What the tests said.

    Attributes
    ----------
    caught
        Whether one failed, or took too long.
    by
        Which; "" where none did.
    seconds
        How long they took.
    """

    caught: bool
    by: str
    seconds: float


class Enough:
    """A plugin of pytest that begins no further test after some seconds of the processor."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def pytest_runtest_logfinish(self) -> None:
        """Look at the clock; 0 is then the exit status."""
        if time.process_time() > self._seconds:
            sys.stdout.flush()
            os._exit(0)


class Tree:
    """A copy of a tree of sources and tests.

    Parameters
    ----------
    origin
        Its root.
    folder
        Where the copy goes.
    """

    def __init__(self, origin: Path, folder: Path) -> None:
        self.root = folder / "tree"
        shutil.copytree(origin, self.root, ignore=LEFT_OUT)  # with the times of files, so that their bytecode holds
        (self.root / ".venv").symlink_to(origin / ".venv")

    def text(self, path: str) -> str:
        """What a file says, broken or not."""
        return (self.root / path).read_text(encoding="utf-8")

    @contextmanager
    def changed(self, path: str, text: str) -> Iterator[None]:
        """Let a file say something else for as long as the context lasts."""
        file = self.root / path
        whole, times = file.read_bytes(), file.stat()
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 10**10))  # not the time that its bytecode is for
        try:
            yield
        finally:
            file.write_bytes(whole)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def says_when(self, path: str, text: str, tests: Sequence[str], enough: float = math.inf) -> Outcome:
        """What tests say while a file says something else; one that fails with nothing broken is no answer."""
        with self.changed(path, text):
            outcome = self.run(tests, enough)
        if outcome.by.startswith("tests/") and self.run([outcome.by], enough=2).caught:
            return Outcome(False, f"{outcome.by} fails with nothing broken", outcome.seconds)
        return outcome

    def run(self, tests: Sequence[str], enough: float = math.inf, limit: float = 300) -> Outcome:
        """Run tests until one fails.

        Parameters
        ----------
        tests
            Files, or names of single tests.
        enough
            Seconds of the processor after which no further test begins.
        limit
            Seconds after which what still runs counts as a failure.
        """
        report = self.root.parent / "report"
        began = time.monotonic()
        child = os.fork()
        if not child:
            self._run_in_child(tests, enough, report)
        status = _wait(child, began + limit)
        said = report.read_text(encoding="utf-8", errors="replace")
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
        if status in (0, NO_TESTS):
            by = ""
        elif status is None:
            by = f"more than {limit:.0f} s"
        else:
            by = failed[1] if failed else f"exit status {status}"
        return Outcome(bool(by), by, time.monotonic() - began)

    def _run_in_child(self, tests: Sequence[str], enough: float, report: Path) -> None:
        """Become a process that runs tests in this tree; never returns."""
        status = 70
        try:
            os.setsid()
            os.nice(NICENESS)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            output = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            os.chdir(self.root)
            for name in [name for name in sys.modules if name.partition(".")[0] in (*SOURCES, "tests")]:
                del sys.modules[name]
            sys.path[:] = [str(self.root), *(one for one in sys.path if one not in ("", str(ROOT)))]
            os.environ["PYTHONPATH"] = str(self.root)
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            sys.dont_write_bytecode = True
            import pytest

            scratch = self.root.parent / "scratch"  # of its own: other runs of tests clean up what they all share
            options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", f"--basetemp={scratch}"]
            status = pytest.main([*options, *tests], plugins=[Enough(enough)])
        finally:
            sys.stdout.flush()
            os._exit(int(status))

    # ------------------------------------------------------------------------------------------------------------------
    # Which tests are for what

    def tests_for(self, path: str) -> list[str]:
        """Test files for a source file, the nearest first.

        Those that bear its name; then those that import it; then the same for the files that import it, and so on.
        """
        found: dict[str, None] = {}
        seen, now = {path}, [path]
        while now:
            found.update(dict.fromkeys(test for one in now for test in self._named_for(one)))
            near = {test for one in now for test in self._imported_by.get(_module(one), ()) if _is_test(test)}
            found.update(dict.fromkeys(sorted(near, key=lambda test: self._distance(path, test))))
            users = [user for one in now for user in self._imported_by.get(_module(one), ()) if not _is_test(user)]
            now = [user for user in dict.fromkeys(users) if user not in seen]
            seen.update(now)
        return list(found)

    def _distance(self, path: str, test: str) -> tuple[bool, bool, int]:
        """Nearest is what lies in the same folder, then what is short."""
        here, there = Path(path).parent.parts, Path(test).parent.parts[1:]
        return "every_model" in test or here[0] not in there, here != there, (self.root / test).stat().st_size

    def _named_for(self, path: str) -> list[str]:
        """Test files with the name of a source file, those of its own folder first."""
        name, folder = Path(path).stem, Path("tests") / Path(path).parent
        pattern = re.compile(rf"test_{re.escape(name)}s?(_panel|_page)?\.py")
        named = [test for test in self._tests if pattern.fullmatch(Path(test).name)]
        alike = [test for test in named if Path(test).parts[1] == folder.parts[1]]
        own = [test for test in alike if Path(test).parent == folder]
        return own or alike

    @cached_property
    def _tests(self) -> list[str]:
        tests = (str(file.relative_to(self.root)) for file in sorted(self.root.glob("tests/**/test_*.py")))
        return [test for test in tests if "/benchmarks/" not in test]

    @cached_property
    def _imported_by(self) -> dict[str, list[str]]:
        """The files that import each module."""
        found: dict[str, list[str]] = {}
        for path in (*self.sources, *self._tests):
            for module in _imports(ast.parse(self.text(path))):
                found.setdefault(module, []).append(path)
        return found

    @cached_property
    def sources(self) -> list[str]:
        """The source files, in order."""
        return [
            str(file.relative_to(self.root)) for top in SOURCES for file in sorted(self.root.glob(f"{top}/**/*.py"))
        ]


def _is_test(path: str) -> bool:
    return path.startswith("tests/")


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(tree: ast.Module) -> Iterator[str]:
    """Modules that are imported anywhere in a file, as paths below the root."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("ropewalk.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.removeprefix("ropewalk.")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _wait(child: int, until: float) -> int | None:
    """The exit status of a child, None where it had to be stopped with all that it started."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        with suppress(ProcessLookupError):  # it ended just now
            os.killpg(child, signal.SIGKILL)

    timer = threading.Timer(max(0.0, until - time.monotonic()), stop)
    timer.start()
    _, status = os.waitpid(child, 0)
    timer.cancel()
    timer.join()  # the next child is forked from a process of one thread
    return None if late.is_set() else os.waitstatus_to_exitcode(status)


@contextmanager
def trees(*origins: Path) -> Iterator[list[Tree]]:
    """Copies of trees, gone afterwards."""
    _import_beforehand(SLOW_TO_IMPORT)
    with tempfile.TemporaryDirectory(prefix="ropewalk-broken-") as folder:
        copies = []
        for number, origin in enumerate(origins):
            place = Path(folder, str(number))
            place.mkdir()
            copies.append(Tree(origin, place))
        yield copies


def _import_beforehand(modules: Iterable[str]) -> None:
    """Import for all children at once, where a system can fork with that loaded."""
    os.environ |= {"QT_QPA_PLATFORM": "offscreen", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    if sys.platform == "linux":
        for module in modules:
            importlib.import_module(module)
