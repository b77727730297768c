"""A layer of a run: all heads at once, pairs and counts against single rectangles; and what a recorder hears of it."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder.interventions import ReadKvHead
from ropewalk.model.decoder.scores import count_visible, soft_capped, visible_keys
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.progress import finished
from ropewalk.model.readings.patterns import mean_weight
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import RunHeader, Trace, append, capture, record_steps
from tests.model.small_models import CONFIGS, make, random_ids

TOKENS = 13


def padded(name: str) -> Trace:
    """Two prompts, the second one padded on the left."""
    padding = torch.ones(2, TOKENS, dtype=torch.bool)
    padding[1, :4] = False
    return capture(make(name), random_ids(TOKENS, batch=2), padding=padding)


@pytest.mark.parametrize("name", CONFIGS)
def test_all_heads_at_once_are_each_of_them(name: str) -> None:
    for layer in padded(name):
        for read in (layer.raw_scores, layer.scores, layer.weights):
            together = read(None, (2, 9), (1, TOKENS), batch=1)
            apart = torch.stack([read(head, (2, 9), (1, TOKENS), batch=1) for head in range(4)])
            torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-6)


def test_all_heads_at_once_read_the_kv_heads_they_were_told_to() -> None:
    layer = capture(make("plain"), random_ids(TOKENS), interventions=[ReadKvHead(0, 0, 1)])[0]
    torch.testing.assert_close(layer.weights()[0], layer.weights(0), rtol=1e-5, atol=1e-6)
    rows = torch.arange(TOKENS)
    torch.testing.assert_close(layer.paired_scores(rows, rows)[0], layer.paired_scores(rows, rows, 0))
    assert not torch.allclose(layer.weights(0), capture(make("plain"), random_ids(TOKENS))[0].weights(0), atol=1e-3)


@pytest.mark.parametrize("name", CONFIGS)
def test_rows_by_number_and_pairs_are_cut_from_the_whole(name: str) -> None:
    layer = padded(name)[1]
    rows, keys = torch.tensor([11, 3, 7, 4]), torch.tensor([2, 9, 7, 0])
    for whole, picked, pairs in (
        (layer.raw_scores(batch=1), layer.raw_scores(None, rows, keys, batch=1), layer.paired_scores),
        (layer.weights(batch=1), layer.weights(None, rows, keys, batch=1), layer.paired_weights),
    ):
        torch.testing.assert_close(picked, whole[:, rows][:, :, keys], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(pairs(rows, keys, batch=1), whole[:, rows, keys], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(pairs(rows, keys, 2, batch=1), whole[2, rows, keys], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CONFIGS)
def test_float64_is_float32_but_for_its_rounding(name: str) -> None:
    layer = padded(name)[2]
    exact = layer.weights(1, batch=1, dtype=torch.float64)
    assert exact.dtype == torch.float64
    torch.testing.assert_close(layer.weights(1, batch=1).double(), exact, rtol=1e-4, atol=1e-6)
    seen = layer.normaliser(1, batch=1).isfinite()
    whole = exact.sum(-1) + layer.sink_weights(1, batch=1, dtype=torch.float64)
    torch.testing.assert_close(whole[seen], torch.ones_like(whole[seen]), rtol=0, atol=1e-6)
    assert not exact[~seen].any()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_visible_keys_are_counted_without_a_mask(causal: bool, window: int | None) -> None:
    spec = AttentionSpec(0, 1, 1, 8, 1.0, window=window, causal=causal)
    padding = torch.rand(2, TOKENS, generator=torch.Generator().manual_seed(3)) < 0.6
    rows, (left, right) = torch.arange(TOKENS), (torch.tensor([0, 2, 9]), torch.tensor([2, 9, TOKENS]))
    for real in (None, padding):
        mask = visible_keys(spec, rows, rows, real).expand(2, 1, -1, -1)[:, 0]
        expected = torch.stack([mask[..., a:b].sum(-1) for a, b in zip(left, right, strict=True)], -1)
        found = count_visible(spec, (rows[:, None], rows[:, None]), (left, right), real)
        assert torch.equal(found.expand(2, -1, -1), expected)


def test_the_soft_cap_keeps_its_gradient() -> None:
    scores = torch.linspace(-9, 9, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: soft_capped(x * 2, 3.0), (scores,))


# ----------------------------------------------------------------------------------------------------------------------
# Recorders


class PreviousToken:
    """Accumulates and drops: the sum of every head's mean weight on the previous token, over prompts."""

    def __init__(self) -> None:
        self.total: list[Tensor] = []
        self.last: weakref.ref[object] | None = None

    def add(self, layer: LayerTrace) -> None:
        """Read a layer and let it go; the one before is gone by now."""
        assert self.last is None or self.last() is None
        assert layer.spec.layer == len(self.total)
        rows = torch.arange(1, layer.length)
        prompts = range(layer.keys.tensor.shape[0])
        self.total.append(torch.stack([mean_weight(layer, rows, rows - 1, batch=one) for one in prompts]).sum(0))
        self.last = weakref.ref(layer.keys)

    def finish(self, run: RunHeader) -> tuple[Tensor, int]:
        """The sums [L, H] and how many prompts they are of."""
        assert self.last is not None
        assert self.last() is None
        return torch.stack(self.total), run.batch


@pytest.mark.parametrize("chunk", [0, 4, 6])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_recorder_that_drops_every_layer_finds_what_a_kept_trace_says(name: str, chunk: int) -> None:
    model, kept = make(name), padded(name)
    assert kept.ids is not None
    steps = record_steps(model, kept.ids, PreviousToken(), padding=kept.padding, chunk=chunk)
    total, prompts = finished(steps)
    expected = torch.zeros_like(total)
    rows = torch.arange(1, TOKENS)
    for number, layer in enumerate(kept):
        for batch in range(2):
            expected[number] += mean_weight(layer, rows, rows - 1, batch=batch)
    assert prompts == 2
    torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-5)


def test_a_trace_is_the_sequence_of_its_layers() -> None:
    model = make("window")
    trace = append(model, capture(model, random_ids(5)), 3)
    assert len(trace) == 3
    assert [layer.spec.layer for layer in trace] == [0, 1, 2]
    assert trace[2] is list(trace)[2]
    for run in (trace, trace.at(5)):
        for layer in run:
            assert layer.length == run.length
            assert torch.equal(layer.positions, run.positions)
