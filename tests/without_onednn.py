"""A plugin of pytest, ``-p tests.without_onednn``: torch multiplies without oneDNN, as it does on many machines."""

from __future__ import annotations

import torch


def pytest_configure() -> None:
    """Switch it off before anything is computed."""
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
