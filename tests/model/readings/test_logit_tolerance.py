"""The bound on what rounding does: real differences of cached and full logits stay below it, real mistakes do not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
from ropewalk.model.readings.consistency import UNIT, logit_tolerance
from tests.model.checkpoints import reference
from tests.model.checkpoints.parity import decode, prompt, read
from tests.model.checkpoints.reference import CASES

FAMILIES = ("llama", "qwen3", "olmo2", "arcee", "gpt_neox", "granite", "cohere")
"""Worst differences for their depth, parallel and serial residuals, and logits of small spread."""
PREFILL = 12


def checkpoint_of(family: str, layers: int, dtype: str, folder: Path) -> Checkpoint:
    case = next(case for case in CASES if case.family == family)
    deep = replace(case, fields=case.fields | {"num_hidden_layers": layers})
    return open_checkpoint(reference.save(reference.build(deep), folder), dtype=dtype)


def rows(checkpoint: Checkpoint) -> tuple[Tensor, Tensor]:
    """Logits of the last rows [B, T, V], through a cache and in a full pass."""
    full, _ = read(checkpoint, prompt(), None, "fused")
    return torch.stack(decode(checkpoint, prompt(), PREFILL), 1), full[:, PREFILL - 1 :]


@pytest.mark.parametrize(
    ("family", "layers", "dtype"),
    [
        pytest.param(family, layers, dtype, marks=pytest.mark.slow if (place + deep + half) % 2 else ())
        for place, family in enumerate(FAMILIES)
        for deep, layers in enumerate((2, 16))
        for half, dtype in enumerate(UNIT)
    ],  # any two of the three in the ordinary run
)
def test_cached_logits_differ_by_less_than_the_bound(family: str, layers: int, dtype: str, tmp_path: Path) -> None:
    checkpoint = checkpoint_of(family, layers, dtype, tmp_path)
    cached, full = rows(checkpoint)
    apart = (cached.double() - full.double()).abs().amax(-1)
    allowed = torch.tensor([[logit_tolerance(row, dtype, layers) for row in batch] for batch in full])
    assert float((apart / allowed).max()) <= 0.75
    # a bound far above what happens would say nothing; what happens is seen against float32 with the same weights:
    # some processors add up one row as they add up many, so that a cached row is rounded like that of a full pass
    exact, _ = read(replace(checkpoint, model=checkpoint.model.float()), prompt(), None, "fused")
    rounded = (full.double() - exact[:, PREFILL - 1 :].double()).abs().amax(-1)
    assert float((rounded / allowed).max()) >= 0.05


@pytest.mark.parametrize("dtype", UNIT)
def test_a_key_at_the_wrong_position_is_far_above_the_bound(dtype: str, tmp_path: Path) -> None:
    checkpoint = checkpoint_of("llama", 2, dtype, tmp_path)
    right = checkpoint.model(prompt())
    positions = torch.arange(prompt().shape[1])[None].clone()
    positions[0, 3:] += 4
    wrong = checkpoint.model(prompt(), positions=positions)
    apart = float((wrong.double() - right.double()).abs().max())
    assert apart > 3 * logit_tolerance(right, dtype, 2)


def test_the_formula_by_hand() -> None:
    logits = torch.linspace(-2, 2, 1024)
    spread, unit = float(logits.double().std()), 2.0**-8
    walked = spread * unit * math.sqrt(22 * 4 / 3) * math.sqrt(2 * math.log(1024))
    assert logit_tolerance(logits, "bfloat16", 4) == pytest.approx(2 * walked + 2 * unit * 2)
    assert logit_tolerance(logits, "bfloat16", 4) == pytest.approx(8 * logit_tolerance(logits, "float16", 4))
    assert logit_tolerance(logits, "float32", 4) == pytest.approx(2e-4)
    assert logit_tolerance(logits / 100, "float32", 4) == 1e-4


def test_units_are_those_of_the_dtypes() -> None:
    for name, unit in UNIT.items():
        assert unit == torch.finfo(getattr(torch, name)).eps / 2
