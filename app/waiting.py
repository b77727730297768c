"""How the threads of torch and of numpy wait for work; told to their libraries before these are loaded."""

from __future__ import annotations

import os


def wait_briefly() -> None:
    """Let them wait some microseconds for more work, and then sleep.

    Spinning threads would starve the window, and one another; but a run is many small steps.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")  # 2^14 cycles
