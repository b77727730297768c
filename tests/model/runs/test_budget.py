"""What a run is predicted to take against what its tensors took; and what is said when that is too much."""

from __future__ import annotations

import gc

import pytest
import torch

from ropewalk.model.decoder.config import Branch, ModelConfig, MoeConfig
from ropewalk.model.decoder.costs import weight_bytes
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import MemoryBudgetError
from ropewalk.model.progress import Pace, finished
from ropewalk.model.runs.budget import Logits, check_budget, longest_that_fits, run_budget
from ropewalk.model.runs.trace import capture_steps
from tests.model.memory_meter import MemoryMeter

CONFIG = ModelConfig(
    vocabulary=2048, width=96, layers=4, heads=6, kv_heads=2, head_width=16, mlp_width=256, max_position=4096, tied=True
)
CONFIGS = {
    "plain": CONFIG,
    "wide heads": CONFIG.changed(head_width=64, mlp_width=64),
    "qk_norm": CONFIG.changed(qk_norm="head"),
    "window": CONFIG.changed(window=100),
    "experts": CONFIG.changed(moe=MoeConfig(experts=4, per_token=2, width=128)),
    "two matrices": CONFIG.changed(mlp="plain", activation="gelu"),
}


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of one size, however long they take."""
    monkeypatch.setattr(Pace, "took", lambda self, seconds, size=0: None)


RUNS: tuple[tuple[int, int, Logits, Branch], ...] = (
    (512, 0, "all", "fused"),
    (1024, 128, "none", "fused"),
    (256, 0, "none", "explicit"),
    (256, 0, "last", "fused"),
    (512, 128, "all", "fused"),
    (2048, 256, "last", "fused"),
    (2048, 1024, "none", "fused"),
)
"""Tokens, rows at a time, logits and branch; the first three are whole, in pieces, and with its scores kept."""


@pytest.mark.parametrize(
    ("name", "tokens", "rows", "logits", "branch"),
    [
        pytest.param(name, *run, marks=() if name == "plain" or run in RUNS[:3] else pytest.mark.slow)
        for name in CONFIGS
        for run in RUNS
    ],
)
def test_a_run_takes_what_was_predicted_within_a_tenth(
    name: str, tokens: int, rows: int, logits: Logits, branch: Branch, steady: None
) -> None:
    model, ids = Decoder(CONFIGS[name]), torch.arange(tokens) % 2048
    gc.collect()
    with MemoryMeter() as meter:
        trace = finished(capture_steps(model, ids, logits=logits, chunk=rows, branch=branch))
    budget = run_budget(CONFIGS[name], tokens, "float32", logits=logits, rows=rows, branch=branch)
    assert budget.total == pytest.approx(meter.peak, rel=0.1)
    assert budget.kept == pytest.approx(meter.live, rel=0.02)
    assert trace.kept_bytes <= meter.live <= 1.02 * trace.kept_bytes


def test_a_run_in_half_precision_takes_half(steady: None) -> None:
    model = Decoder(CONFIG).to(torch.bfloat16)
    with MemoryMeter() as meter:
        finished(capture_steps(model, torch.arange(1024), logits="last", chunk=128))
    budget = run_budget(CONFIG, 1024, "bfloat16", logits="last", rows=128)
    assert budget.total == pytest.approx(meter.peak, rel=0.1)


def test_prefill_holds_nothing_tokens_by_tokens(steady: None) -> None:
    tokens = 8192
    config = CONFIG.changed(layers=1, max_position=tokens, vocabulary=64)
    model = Decoder(config)
    with MemoryMeter() as meter:
        finished(capture_steps(model, torch.arange(tokens) % 64, logits="last", chunk=512))
    assert meter.largest <= 2 * tokens * config.heads * config.head_width  # Q' with its room; T × T is 67 million
    assert meter.peak == pytest.approx(run_budget(config, tokens, "float32", rows=512).total, rel=0.1)


def test_a_run_that_fits_is_not_refused() -> None:
    budget = run_budget(CONFIG, 1000, "float32")
    check_budget(budget, CONFIG, budget.total)
    assert not budget.is_notable(5 * budget.total)
    assert budget.is_notable(3 * budget.total)


def _fits_with(layers: int, tokens: int, free: int) -> bool:
    fewer = CONFIG.first(layers)
    given_back = weight_bytes(CONFIG, "float32") - weight_bytes(fewer, "float32")
    return run_budget(fewer, tokens, "float32", rows=64).total <= free + given_back


def test_fewer_layers_are_offered_where_they_would_fit() -> None:
    budget = run_budget(CONFIG, 2000, "float32", rows=64)
    free = run_budget(CONFIG.first(CONFIG.layers - 1), 2000, "float32", rows=64).total
    assert free < budget.total
    with pytest.raises(MemoryBudgetError, match=f"first {CONFIG.layers - 1} of {CONFIG.layers} layers"):
        check_budget(budget, CONFIG, free, rows=64)


def test_a_run_that_cannot_fit_is_refused_with_what_would() -> None:
    free = run_budget(CONFIG, 1100, "float32", rows=64).total
    budget = run_budget(CONFIG, 4000, "float32", rows=64)
    assert free < budget.total
    with pytest.raises(MemoryBudgetError, match=r"4,000 tokens would take about .* but .* are free") as refusal:
        check_budget(budget, CONFIG, free, rows=64)
    assert "shorten it to 1,100 tokens" in refusal.value.sentence
    fewer = [layers for layers in range(1, CONFIG.layers) if _fits_with(layers, budget.tokens, free)]
    for layers in fewer[-1:]:
        assert f"open the model's first {layers} of {CONFIG.layers} layers" in refusal.value.sentence
    if not fewer:
        assert "first" not in refusal.value.sentence
    assert "bfloat16" not in refusal.value.sentence  # half of 4,000 tokens is still too much
    near = run_budget(CONFIG, 3000, "float32", rows=64)
    with pytest.raises(MemoryBudgetError, match="or open the model in bfloat16"):
        check_budget(near, CONFIG, near.total * 2 // 3, rows=64)
    with pytest.raises(MemoryBudgetError, match=r"are free\.$"):
        check_budget(near, CONFIG, 1000, rows=64)


def test_the_longest_run_that_fits_is_the_longest() -> None:
    for free in (2 * 10**6, 5 * 10**6, 10**7):
        longest = longest_that_fits(CONFIG, "float32", free, rows=64)
        assert run_budget(CONFIG, longest, "float32", rows=64).total <= free
        later = range(longest + 1, CONFIG.max_position + 1)
        assert all(run_budget(CONFIG, tokens, "float32", rows=64).total > free for tokens in later)
    assert longest_that_fits(CONFIG, "float32", 10**12) == CONFIG.max_position
    assert longest_that_fits(CONFIG, "float32", 0) == 0
