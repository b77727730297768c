"""A process that measures, seen from outside: asked, waited for, given up. No torch here."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ropewalk.app.waiting import WAITING

ROOT = str(Path(__file__).resolve().parents[3])
EXACT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
"""Have the C library return what is freed, or resident memory would say what was needed before, not now."""

Numbers = dict[str, Any]


class Measuring:
    """One process; a context manager, because it must not outlive whoever asks.

    Parameters
    ----------
    exact_memory
        Whether memory is measured in it, which makes everything in it a little slower.
    """

    def __init__(self, exact_memory: bool = False) -> None:
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - closed when the process is
        environment = {
            **os.environ,
            **WAITING,
            **(EXACT_MEMORY if exact_memory else {}),
            "PYTHONPATH": ROOT,
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.peers.child"],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Measuring:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether it can be asked again."""
        return self._process.poll() is None

    def ask(self, name: str, options: Numbers, timeout: float | None = None) -> tuple[Numbers | None, str]:
        """One measurement: its numbers, or None and why there are none. One that takes too long ends the process."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([name, options]) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=timeout)
        except BrokenPipeError:
            line = ""
        except queue.Empty:
            self.close()
            return None, f"not done after {timeout:.0f} s"
        if not line:
            return None, self._why_ended()
        answer = json.loads(line)
        return answer.get("numbers"), answer.get("failed", "")

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with suppress(BrokenPipeError):  # what was asked of a process that is gone
                    stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _why_ended(self) -> str:
        status = self._process.wait()
        if status < 0:
            return f"ended by signal {-status}" + (", out of memory" if status == -9 else "")
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {status}"
