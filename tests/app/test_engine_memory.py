"""Memory before a run: one that cannot fit is refused before it begins, with what would fit."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch

from ropewalk.model.engine import engine
from ropewalk.model.errors import MemoryBudgetError
from ropewalk.model.progress import finished
from ropewalk.model.runs.budget import run_budget
from ropewalk.model.tokens.prompt import Prompt


def free_for(size: int) -> object:
    def free_bytes(device: torch.device) -> int:
        return size

    return free_bytes


def test_a_run_that_cannot_fit_is_refused_before_it_begins(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_handle = finished(engine.open_model(str(tiny), "cpu", "float32"))
    needed = run_budget(model_handle.card.config, 12, "float32").total
    monkeypatch.setattr(engine, "free_bytes", free_for(needed - 1))
    with pytest.raises(MemoryBudgetError, match="shorten it to 11 tokens"):
        next(engine.run(model_handle, Prompt("abcdefabcdef"), 1))


def test_a_large_run_says_what_it_takes(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_handle = finished(engine.open_model(str(tiny), "cpu", "float32"))
    needed = run_budget(model_handle.card.config, 12, "float32").total
    monkeypatch.setattr(engine, "free_bytes", free_for(3 * needed))
    begins = islice(engine.run(model_handle, Prompt("abcdefabcdef"), 1), 2)
    assert any(" of " in progress.what for progress in begins)
    monkeypatch.setattr(engine, "free_bytes", free_for(5 * needed))
    assert next(engine.run(model_handle, Prompt("abcdefabcdef"), 1)).what == "Running the prompt"
