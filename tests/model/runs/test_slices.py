"""A chunk that runs in slices is what the block makes of it in one go, however the slices fall."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder import attention
from ropewalk.model.decoder.interventions import AblateHeads, AblatePlane, Intervention, ReadKvHead, ScaleScores
from ropewalk.model.progress import Pace, finished
from ropewalk.model.runs import slices
from ropewalk.model.runs.trace import Trace, capture, capture_steps
from tests.model.small_models import CONFIGS, make, random_ids

CHUNK = 16
HEADS = ("one head", "all heads")
WAYS = [
    pytest.param(name, heads, marks=pytest.mark.slow if (place + turn) % 2 else ())
    for place, name in enumerate(CONFIGS)
    for turn, heads in enumerate(HEADS)
]
"""Every model in slices of one head and of all; the ordinary run takes them by turns."""


@pytest.fixture(params=HEADS)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of three rows, and of one head and five keys or of all heads."""
    monkeypatch.setattr(slices, "PIECE_ROWS", 3)
    monkeypatch.setattr(slices, "LEAST_KEYS", 5)
    monkeypatch.setattr(slices, "SLICE_SCORES", 1 if request.param == "one head" else 1 << 20)
    monkeypatch.setattr(Pace, "took", lambda self, seconds, size=0: None)


def _same(whole: Trace, pieces: Trace, what: str) -> None:
    for layer, (one, other) in enumerate(zip(whole, pieces, strict=True)):
        for name, a, b in zip(("queries", "keys", "values", "lse"), one.rows, other.rows, strict=True):
            assert torch.allclose(a.tensor, b.tensor, atol=1e-5), f"{what}: {name} of layer {layer}"
    assert whole.logits is not None
    assert pieces.logits is not None
    assert torch.allclose(whole.logits.tensor, pieces.logits.tensor, atol=1e-5), what


@pytest.mark.parametrize(("name", "small"), WAYS, indirect=["small"])
def test_slices_equal_one_go(name: str, small: None) -> None:
    decoder, ids = make(name), random_ids(2 * CHUNK + 5)
    _same(capture(decoder, ids), finished(capture_steps(decoder, ids, chunk=CHUNK)), name)


@pytest.mark.parametrize(("name", "small"), WAYS, indirect=["small"])
def test_slices_of_a_padded_batch_equal_one_go(name: str, small: None) -> None:
    decoder, tokens = make(name), 2 * CHUNK + 5
    ids = random_ids(tokens, batch=2)
    padding = torch.arange(tokens)[None] >= torch.tensor([[0], [CHUNK + 3]])
    positions = (padding.long().cumsum(1) - 1).clamp_min(0)
    whole = capture(decoder, ids, padding=padding, positions=positions)
    pieces = finished(capture_steps(decoder, ids, padding=padding, positions=positions, chunk=CHUNK))
    _same(whole, pieces, name)
    assert torch.isposinf(pieces[1].lse.tensor[1, :, : CHUNK + 3]).all()


@pytest.mark.parametrize(
    "intervention",
    [
        ScaleScores(3.0),
        AblateHeads(1, (0, 2)),
        AblatePlane(1, 1, 0, (0.3, -0.2)),
        ReadKvHead(1, 3, 0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_slices_are_run_under_the_interventions(intervention: Intervention, small: None) -> None:
    decoder, ids = make("plain"), random_ids(2 * CHUNK + 1)
    whole = capture(decoder, ids, interventions=[intervention])
    steps = capture_steps(decoder, ids, interventions=[intervention], chunk=CHUNK)
    others, pieces = random_ids(4, seed=7), None
    plain = capture(decoder, others).logits
    while pieces is None:
        try:
            for _ in range(7):  # some slices of every layer
                next(steps)
            between = capture(decoder, others).logits  # another job, between two slices
            assert plain is not None
            assert between is not None
            assert torch.equal(plain.tensor, between.tensor)
        except StopIteration as stop:
            pieces = stop.value
    _same(whole, pieces, "under the experiment")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Heads, rows and keys of every call of the kernel."""
    seen: list[tuple[int, int, int]] = []
    kernel = attention.fused_kernel

    def counted(query: Tensor, key: Tensor, value: Tensor, **asked: object) -> tuple[Tensor, Tensor]:
        seen.append((query.shape[1], query.shape[2], key.shape[2]))
        return kernel(query, key, value, **asked)  # type: ignore[arg-type]

    monkeypatch.setattr(attention, "fused_kernel", counted)
    return seen


def test_the_past_is_read_once_for_all_rows_of_a_chunk(calls: list[tuple[int, int, int]], small: None) -> None:
    decoder, ids = make("plain"), random_ids(3 * CHUNK)
    finished(capture_steps(decoder, ids, chunk=CHUNK))
    config = decoder.config
    assert {rows for _, rows, _ in calls} == {CHUNK}
    read = sum(heads * keys for heads, _, keys in calls)
    assert read == config.layers * config.heads * (CHUNK + 2 * CHUNK + 3 * CHUNK)


@pytest.mark.parametrize("small", ["one head"], indirect=True)
def test_a_long_past_is_read_a_few_keys_at_a_time(calls: list[tuple[int, int, int]], small: None) -> None:
    decoder, ids = make("plain"), random_ids(3 * CHUNK)
    pauses = sum(1 for _ in capture_steps(decoder, ids, chunk=CHUNK))
    assert pauses > len(calls) / 2  # a chunk's own keys go with the first of the past's
    assert {keys for _, _, keys in calls} == {CHUNK, 5, 1, 2}
    assert {heads for heads, _, _ in calls} == {1}
