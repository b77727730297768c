"""How the threads of torch and of numpy wait for work; told to their libraries before these are loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

WAITING: Final[Mapping[str, str]] = {
    "OMP_WAIT_POLICY": "passive",
    "GOMP_SPINCOUNT": "10000",
    "OPENBLAS_THREAD_TIMEOUT": "14",  # 2^14 cycles
}
"""Some microseconds for more work, then sleep: a run is many small steps, but spinning threads starve the window."""


def wait_briefly() -> None:
    """Let threads wait so, but for what whoever starts the program has set."""
    for name, value in WAITING.items():
        os.environ.setdefault(name, value)
