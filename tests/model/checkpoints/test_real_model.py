"""A real model, SmolLM2-135M-Instruct, against a Llama written out in numpy on the matrices of the same GGUF file."""

from __future__ import annotations

from collections.abc import Mapping

import gguf
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
from ropewalk.model.decoder.hooks import capture
from tests.model.checkpoints.fetch import FILE

TEXT = "The cat sat on the mat because it was tired."
IDS = [504, 2644, 2643, 335, 260, 1171, 975, 357, 436, 12364, 30]
"""The text as transformers reads it with the tokenizer of the same file."""
REPEATED = 32
LAYERS, HEADS, KV_HEADS, HEAD_WIDTH, BASE, EPSILON = 30, 9, 3, 64, 1e5, 1e-5

pytestmark = pytest.mark.skipif(
    not FILE.is_file(), reason="the model is not fetched: python -m tests.model.checkpoints.fetch"
)

Floats = NDArray[np.float32]
Found = tuple[Floats, Floats]
"""Logits [T, V] and attention weights [L, H, T, T]."""


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return open_checkpoint(FILE)


@pytest.fixture(scope="module")
def matrices() -> dict[str, Floats]:
    """What the gguf package makes of the file."""
    return {one.name: gguf.dequantize(one.data, one.tensor_type) for one in gguf.GGUFReader(FILE).tensors}


def run(checkpoint: Checkpoint, ids: list[int]) -> Found:
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(checkpoint.config.layers)]
    with torch.no_grad(), capture(checkpoint.model, names) as record:
        logits = checkpoint.model(torch.tensor([ids]), branch="explicit")[0]
    return logits.numpy(), torch.cat([record[name] for name in names]).numpy()


def normed(x: Floats, gain: Floats) -> Floats:
    found: Floats = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON)) * gain
    return found


def turned(x: Floats) -> Floats:
    """[T, n, Dh] rotated pair by pair: the file has the two features of a plane side by side."""
    angles = np.arange(len(x))[:, None] * BASE ** (-np.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)  # [T, Dh/2]
    planes = x.reshape(*x.shape[:2], -1, 2)
    whole = (planes[..., 0] + 1j * planes[..., 1]) * np.exp(1j * angles)[:, None]
    return np.stack([whole.real, whole.imag], -1).reshape(x.shape).astype(np.float32)


def reference(matrices: Mapping[str, Floats], ids: list[int]) -> Found:
    x, tokens, patterns = matrices["token_embd.weight"][ids], len(ids), []
    hidden = np.triu(np.ones((tokens, tokens), bool), 1)
    for layer in range(LAYERS):

        def weight(name: str, layer: int = layer) -> Floats:
            return matrices[f"blk.{layer}.{name}.weight"]

        read = normed(x, weight("attn_norm"))
        q, k, v = (
            (read @ weight(f"attn_{name}").T).reshape(tokens, heads, HEAD_WIDTH)
            for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
        )
        k, v = (np.repeat(rows, HEADS // KV_HEADS, 1) for rows in (turned(k), v))
        scores = np.einsum("qhd,khd->hqk", turned(q), k) / np.float32(HEAD_WIDTH**0.5)
        scores = np.exp(np.where(hidden, -np.inf, scores - scores.max(-1, keepdims=True)))
        pattern = scores / scores.sum(-1, keepdims=True)
        patterns.append(pattern)
        joined = np.einsum("hqk,khd->qhd", pattern, v).reshape(tokens, -1)
        x = x + joined @ weight("attn_output").T
        read = normed(x, weight("ffn_norm"))
        gate = read @ weight("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (read @ weight("ffn_up").T)) @ weight("ffn_down").T
    return normed(x, matrices["output_norm.weight"]) @ matrices["token_embd.weight"].T, np.stack(patterns)


@pytest.mark.slow
def test_ids_logits_and_attention_match(checkpoint: Checkpoint, matrices: Mapping[str, Floats]) -> None:
    assert checkpoint.tokenizer is not None
    assert checkpoint.tokenizer.encode(TEXT) == IDS
    (logits, weights), (expected_logits, expected_weights) = run(checkpoint, IDS), reference(matrices, IDS)
    assert np.abs(logits - expected_logits).max() <= 2e-3
    assert np.abs(weights - expected_weights).max() <= 1e-4
    top = torch.from_numpy(logits[-1]).softmax(-1).topk(5)
    assert [checkpoint.tokenizer.decode([token]) for token in top.indices[:3].tolist()] == ["\n", " The", " She"]
    assert top.values.tolist() == pytest.approx([0.158, 0.116, 0.070, 0.066, 0.066], abs=5e-4)


def test_what_it_is(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    assert (config.layers, config.width, config.heads, config.kv_heads) == (30, 576, 9, 3)
    assert config.rope is not None
    assert (config.rope.base, config.norm_eps, config.vocabulary, config.tied) == (1e5, 1e-5, 49_152, True)
    assert checkpoint.parameters == 134_515_008


@pytest.mark.slow
def test_head_scores_agree(checkpoint: Checkpoint, matrices: Mapping[str, Floats]) -> None:
    ids = torch.randint(1000, 40_000, (REPEATED,), generator=torch.Generator().manual_seed(0)).tolist() * 2
    weights, expected = run(checkpoint, ids)[1], reference(matrices, ids)[1]
    for score in (_induction, _previous):
        assert np.abs(score(weights) - score(expected)).max() <= 1e-3
    assert divmod(int(_induction(weights).argmax()), HEADS) == (18, 6)
    assert divmod(int(_previous(weights).argmax()), HEADS) == (16, 0)


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
