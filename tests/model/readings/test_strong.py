"""Strong weights against the softmax of explicit scores in plain numpy, and how many there are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ropewalk.model.decoder.interventions import ReadKvHead, RopeOff
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import finished
from ropewalk.model.readings import strong
from ropewalk.model.readings.records import StrongWeights
from ropewalk.model.readings.strong import strong_weights_steps
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import capture
from tests.model.small_models import CONFIGS, make, random_ids

Doubles = NDArray[np.float64]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that a short run needs many of them."""
    monkeypatch.setattr(strong, "BLOCK_QUERIES", 6)
    monkeypatch.setattr(strong, "BLOCK_KEYS", 9)


def softmax(layer: LayerTrace, head: int, kv_head: int, batch: int = 0) -> Doubles:
    """[S, S] weights from all scores of a head, written out; NaN where a key is hidden."""
    spec = layer.spec
    q = layer.queries.tensor[batch, head].double().numpy()
    k = layer.keys.tensor[batch, kv_head].double().numpy()
    scores = q @ k.T * spec.scale
    if spec.cap is not None:
        scores = spec.cap * np.tanh(scores / spec.cap)
    row, column = np.arange(len(q))[:, None], np.arange(len(k))
    seen = column <= row
    if spec.window is not None:
        seen &= column > row - spec.window
    if layer.padding is not None:
        seen &= layer.padding[batch].numpy()
    powers = np.where(seen, np.exp(scores), 0)
    sums = powers.sum(1, keepdims=True) + (0 if spec.sinks is None else np.exp(spec.sinks[head]))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(seen, powers / sums, np.nan)


def spread(found: StrongWeights, head: int, size: int) -> Doubles:
    """[S, S] the weights of a head at their places, NaN elsewhere."""
    made, own = np.full((size, size), np.nan), found.head == head
    made[found.query[own], found.key[own]] = found.weight[own]
    return made


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("batch", [0, 1])
def test_weights_that_reach_the_threshold_are_those_of_plain_numpy(name: str, batch: int, small_blocks: None) -> None:
    padding = torch.ones(2, 43, dtype=torch.bool)
    padding[1, :5] = False
    layer = capture(make(name), random_ids(43, batch=2), padding=padding)[1]
    config = CONFIGS[name]
    whole = {head: softmax(layer, head, head // (config.heads // config.kv_heads), batch) for head in (3, 1)}
    rows, columns = (7, 43), (2, 30)
    for threshold in (0.0, 0.03, 0.2):
        found = finished(
            strong_weights_steps(layer, (3, 1), rows, columns, thresholds=(threshold,), most=10_000, batch=batch)
        )
        reached = 0
        for head, weights in whole.items():
            expected = np.full_like(weights, np.nan)
            expected[7:43, 2:30] = weights[7:43, 2:30]
            expected[~(expected >= threshold)] = np.nan
            np.testing.assert_allclose(spread(found, head, 43), expected, rtol=2e-4, atol=1e-6)
            reached += int(np.isfinite(expected).sum())
        assert len(found.weight) == found.reached == reached
        assert found.total == sum(int(np.isfinite(weights).sum()) for weights in whole.values())
        assert (np.diff(found.weight) <= 0).all()
        assert (found.layer, found.heads, found.rows, found.columns) == (1, (3, 1), rows, columns)


def test_the_first_threshold_is_taken_that_few_enough_reach(small_blocks: None) -> None:
    layer = capture(make("plain"), random_ids(43))[1]
    every = np.sort(np.concatenate([readable(softmax(layer, head, head // 2)) for head in range(4)]))
    steps = (0.0, *(float(every[-count - 1] + every[-count]) / 2 for count in (3000, 1000, 60)))
    for most, expected, count in ((len(every), 0.0, len(every)), (3700, steps[1], 3000), (1000, steps[2], 1000)):
        found = finished(strong_weights_steps(layer, range(4), thresholds=steps, most=most))
        assert (found.threshold, len(found.weight), found.reached) == (expected, count, count)


def test_of_more_than_wanted_at_the_last_threshold_the_largest_are_given_and_all_counted(small_blocks: None) -> None:
    layer = capture(make("plain"), random_ids(43))[1]
    every = np.sort(np.concatenate([readable(softmax(layer, head, head // 2)) for head in range(4)]))
    found = finished(strong_weights_steps(layer, range(4), thresholds=(0.0, 0.01), most=25))
    assert (found.threshold, found.reached) == (0.01, (every >= 0.01).sum())
    np.testing.assert_allclose(found.weight, every[::-1][:25], rtol=2e-4)


def readable(weights: Doubles) -> Doubles:
    return weights[np.isfinite(weights)]


def test_the_weights_are_those_of_a_run_under_its_experiments() -> None:
    ids = random_ids(20)
    for changed in (RopeOff(), ReadKvHead(1, 0, 1)):
        layer = capture(make("plain"), ids, interventions=[changed])[1]
        kv_head = 1 if isinstance(changed, ReadKvHead) else 0
        found = finished(strong_weights_steps(layer, (0,), most=1000))
        np.testing.assert_allclose(spread(found, 0, 20), softmax(layer, 0, kv_head), rtol=2e-4, atol=1e-6)


def test_a_part_of_a_long_run_takes_no_more_than_its_own_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = capture(make("window"), random_ids(400))[1]
    looked: list[tuple[object, object]] = []
    weights = LayerTrace.weights

    def counted(self: LayerTrace, head: int, rows: object, keys: object, **named: object) -> torch.Tensor:
        looked.append((rows, keys))
        return weights(self, head, rows, keys, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(LayerTrace, "weights", counted)
    found = finished(strong_weights_steps(layer, (0,), (300, 320), (0, 310), most=1000))
    assert looked == [((300, 320), (297, 310))]  # of what a window of four sees
    assert len(found.weight) == 10 * 4 + 3 + 2 + 1
    assert found.total == 400 * 4 - 6


def test_what_is_not_there_is_refused() -> None:
    layer = capture(make("plain"), random_ids(8))[0]
    for heads, rows, thresholds, says in (
        ((0, 4), None, (0.0,), "L0H4 was asked for"),
        ((0,), (0, 9), (0.0,), "Rows 0 to 9"),
        ((0,), None, (), "without a threshold"),
    ):
        with pytest.raises(TraceError, match=says):
            finished(strong_weights_steps(layer, heads, rows, thresholds=thresholds, most=10))
    assert len(finished(strong_weights_steps(layer, (), most=10)).weight) == 0
