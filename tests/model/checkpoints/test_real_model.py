"""A real model: SmolLM2-135M-Instruct from its GGUF against reference outputs made by transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from model.checkpoints import Checkpoint, open_checkpoint
from model.probes import capture
from tests.model.checkpoints.fetch import FILE

REFERENCE = Path(__file__).resolve().parents[4] / "shared" / "data" / "reference"
TEXT = "The cat sat on the mat because it was tired."
REPEATED = 32

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference outputs beside the checkout are not here"),
    pytest.mark.skipif(not FILE.is_file(), reason="the model is not fetched: python -m tests.model.checkpoints.fetch"),
]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return open_checkpoint(FILE)


def run(checkpoint: Checkpoint, ids: list[int]) -> tuple[torch.Tensor, NDArray[np.float32]]:
    """Logits [T, V] and weights [L, H, T, T]."""
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(checkpoint.config.layers)]
    with torch.no_grad(), capture(checkpoint.model, names) as record:
        logits = checkpoint.model(torch.tensor([ids]), branch="explicit")[0]
    return logits, torch.cat([record[name] for name in names]).numpy()


def arrays(name: str) -> dict[str, Any]:
    with np.load(REFERENCE / name) as found:
        return {key: found[key] for key in found}


def test_ids_logits_and_attention_match(checkpoint: Checkpoint) -> None:
    reference = arrays("ref_smollm2.npz")
    assert checkpoint.tokenizer is not None
    ids = checkpoint.tokenizer.encode(TEXT)
    assert ids == reference["input_ids"].tolist()
    logits, weights = run(checkpoint, ids)
    assert np.abs(logits.numpy() - reference["logits"]).max() <= 2e-3
    assert np.abs(weights - reference["attn_all"]).max() <= 1e-4
    top = logits[-1].softmax(-1).topk(5)
    assert [checkpoint.tokenizer.decode([token]) for token in top.indices.tolist()] == [
        "\n", " The", " She", " I", " It",
    ]  # fmt: skip
    assert top.values.tolist() == pytest.approx([0.158, 0.116, 0.070, 0.066, 0.066], abs=5e-4)


def test_what_it_is(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    assert (config.layers, config.width, config.heads, config.kv_heads) == (30, 576, 9, 3)
    assert config.rope is not None
    assert (config.rope.base, config.norm_eps, config.vocabulary, config.tied) == (1e5, 1e-5, 49_152, True)
    assert checkpoint.parameters == 134_515_008


def test_head_scores_agree(checkpoint: Checkpoint) -> None:
    reference = arrays("ref_smollm2_heads.npz")
    ids = reference["rep_ids"].reshape(-1).tolist()
    _, weights = run(checkpoint, ids)
    expected = reference["rep_attn"]
    for score in (_induction, _previous):
        assert np.abs(score(weights) - score(expected)).max() <= 1e-3
    assert divmod(int(_induction(weights).argmax()), 9) == (18, 6)
    assert divmod(int(_previous(weights).argmax()), 9) == (16, 0)


def _induction(weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean over q = N … 2N − 2 of w[q, q − N + 1]."""
    queries = np.arange(REPEATED, 2 * REPEATED - 1)
    scores: NDArray[np.float64] = weights[:, :, queries, queries - REPEATED + 1].astype(np.float64).mean(-1)
    return scores


def _previous(weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean over q ≥ 1 of w[q, q − 1]."""
    queries = np.arange(1, weights.shape[2])
    scores: NDArray[np.float64] = weights[:, :, queries, queries - 1].astype(np.float64).mean(-1)
    return scores
