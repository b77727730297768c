"""Loading a model of more than 1 GB adds little more private memory than its weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.checkpoint_loading import OURS, measure, write_model


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_private_memory_stays_near_the_weights(dtype: str, tmp_path: Path) -> None:
    _, added, handle = measure(OURS, write_model(tmp_path), dtype)
    assert handle > 5e8
    assert added <= 1.15 * handle
