"""Measuring: seconds, resident memory at its peak, and what the machine can do at best."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import torch

LARGE = 64 << 20
"""Numbers in the buffers that the copy bandwidth is measured with: 256 MB, more than a cache holds."""
SAMPLE_SECONDS = 0.002


class PeakMemory:
    """Resident memory at most during the ``with`` block, beyond what there was at its start.

    The kernel keeps the peak where it can be told to start anew; elsewhere a thread looks every two milliseconds.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._process = psutil.Process()
        self._before = 0
        self._seen = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> PeakMemory:
        gc.collect()
        self._before = self._seen = self._process.memory_info().rss
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            self._thread = threading.Thread(target=self._look)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            peak = _high_water()
        else:
            self._stop.set()
            self._thread.join()
            peak = self._seen
        self.bytes = max(peak - self._before, 0)

    def _look(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._seen = max(self._seen, self._process.memory_info().rss)


def _high_water() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def resident() -> int:
    """Resident memory of this process now."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def seconds_of(work: Callable[[], Any]) -> float:
    """How long a piece of work takes, once."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn(works: Sequence[Callable[[], Any]], times: int) -> list[list[float]]:
    """Seconds of each work, run in turn so that what else the machine does falls on all of them alike."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for number, work in enumerate(works):
            gc.collect()
            taken[number].append(seconds_of(work))
    return taken


def alternating(works: Sequence[Callable[[], Any]], times: int) -> list[float]:
    """Median seconds of each work, run in turn."""
    return [statistics.median(one) for one in in_turn(works, times)]


def copy_bandwidth() -> float:
    """Bytes a second that a large copy reads and writes, at best."""
    source, target = torch.ones(LARGE), torch.empty(LARGE)
    best = min(seconds_of(lambda: target.copy_(source)) for _ in range(5))
    return 2 * source.nbytes / best


def machine() -> dict[str, Any]:
    """What is measured on, in words and numbers."""
    return {
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "memory": psutil.virtual_memory().total,
        "copy_bandwidth": copy_bandwidth(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "wait_policy": os.environ.get("OMP_WAIT_POLICY", "default"),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0,
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
