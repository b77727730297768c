"""What several tests of checkpoints share."""

from __future__ import annotations

import pytest

from ropewalk.model.checkpoints import weights
from ropewalk.model.progress import Pace, Watch


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are read in pieces of 64 numbers, with a pause after every one of them."""
    monkeypatch.setattr(weights, "_pace", lambda: Pace(64, 64))
    monkeypatch.setattr(Watch, "over", property(lambda self: True))
