"""Each reading function against its twin: the explicit branch of the model, or plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.errors import TraceError
from ropewalk.model.readings import readout
from ropewalk.model.readings.magnitudes import magnitudes
from ropewalk.model.runs.trace import Trace, append, capture, replay
from tests.model.small_models import CONFIGS, make, random_ids

TOKENS = 14


def explicit(name: str, ids: torch.Tensor, kind: str) -> torch.Tensor:
    """[L, B, H, T, S] of the explicit branch."""
    model = make(name)
    names = [f"blocks.{layer}.attn.hook_{kind}" for layer in range(3)]
    with torch.no_grad(), recording(model, names) as record:
        model(ids, branch="explicit")
    return torch.stack([record[one] for one in names])


@pytest.mark.parametrize("name", CONFIGS)
def test_scores_and_weights_equal_the_explicit_branch(name: str) -> None:
    ids = random_ids(TOKENS, batch=2)
    trace = capture(make(name), ids)
    scores, weights = explicit(name, ids, "attn_scores").numpy(), explicit(name, ids, "pattern").numpy()
    for layer in range(3):
        for head in range(4):
            for batch in range(2):
                expected = scores[layer, batch, head]
                bar = max(1e-5, 1e-7 * np.abs(expected[np.isfinite(expected)]).max())
                found = readout.scores(trace[layer], head, batch=batch)
                assert np.array_equal(np.isneginf(found), np.isneginf(expected))
                seen = np.isfinite(expected)
                assert np.abs(found[seen] - expected[seen]).max() <= bar
                found = readout.weights(trace[layer], head, batch=batch)
                assert np.abs(found - weights[layer, batch, head]).max() <= 1e-5


def test_any_rectangle_is_cut_from_the_whole() -> None:
    trace = capture(make("window"), random_ids(TOKENS))
    whole = readout.weights(trace[1], 2)
    assert readout.weights(trace[1], 2, (3, 9), (2, 11)) == pytest.approx(whole[3:9, 2:11])
    assert readout.scores(trace[1], 2, (13, 14), (0, 1)).shape == (1, 1)


def test_results_are_read_only_float32() -> None:
    trace = capture(make("plain"), random_ids(4))
    for array in (readout.scores(trace[0], 0), readout.weights(trace[0], 0)):
        assert array.dtype == np.float32
        assert not array.flags.writeable


@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_in_float64(name: str) -> None:
    ids = random_ids(TOKENS)
    trace = capture(make(name), ids)
    weights = explicit(name, ids, "pattern")[1, 0, 3].double().numpy()
    for query in (0, 6, TOKENS - 1):
        row = readout.read_row(trace[1], 3, query)
        assert row.weights.dtype == np.float64
        assert row.weights == pytest.approx(weights[query], abs=1e-6)
        assert row.weights.sum() + row.sink_weight == pytest.approx(1.0, abs=1e-6)
        shares = np.append(row.weights[row.weights > 0], [row.sink_weight] if row.sink_weight > 0 else [])
        assert row.entropy == pytest.approx(max(-(shares * np.log(shares)).sum(), 0.0), abs=1e-9)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_cell_in_float64(name: str) -> None:
    trace = capture(make(name), random_ids(TOKENS))
    for query, key in ((0, 0), (9, 2), (9, 8), (2, 9)):
        cell, row = readout.read_cell(trace[2], 1, query, key), readout.read_row(trace[2], 1, query)
        assert cell.dot == pytest.approx(float(np.dot(cell.q, cell.k)), abs=1e-12)
        assert cell.scaled == pytest.approx(cell.dot * cell.scale, abs=1e-12)
        assert cell.score == pytest.approx(row.scores[key], abs=1e-12)
        assert cell.weight == pytest.approx(row.weights[key], abs=1e-12)
        assert bool(cell.hidden_because) == (not row.visible[key])


def test_a_hidden_cell_says_why() -> None:
    trace = capture(make("window"), random_ids(TOKENS))
    assert readout.read_cell(trace[0], 0, 2, 5).hidden_because == "key 5 comes after query 2"
    assert readout.read_cell(trace[0], 0, 9, 5).hidden_because == "key 5 is further back than the window of 4"
    assert readout.read_cell(trace[0], 0, 9, 6).hidden_because == ""
    padding = torch.tensor([[False, True, True]])
    padded = capture(make("plain"), random_ids(3), padding=padding)
    assert readout.read_cell(padded[0], 0, 2, 0).hidden_because == "key 0 is padding"


def test_a_cell_names_the_kv_head_and_who_shares_it() -> None:
    trace = capture(make("plain"), random_ids(5))  # H 4, Hkv 2
    cells = [readout.read_cell(trace[0], head, 4, 1) for head in range(4)]
    assert [cell.kv_head for cell in cells] == [0, 0, 1, 1]
    assert [cell.sharing for cell in cells] == [(0, 1), (0, 1), (2, 3), (2, 3)]


@pytest.mark.parametrize(
    "name", [name for name in CONFIGS if name not in ("norm_after_rope", "some_layers_without_rope")]
)
def test_planes_add_up_to_the_score_and_start_from_the_projected_vectors(name: str) -> None:
    model = make(name)
    trace = append(model, append(model, capture(model, random_ids(TOKENS)), 3), 4)
    query, key = TOKENS + 1, TOKENS
    planes = readout.read_planes(trace[1], 2, query, key)
    assert planes is not None
    assert planes.shares.sum() + planes.rest == pytest.approx(
        readout.read_cell(trace[1], 2, query, key).scaled, abs=1e-12
    )
    normed = "hook_q_normed" if model.config.qk_norm != "none" else "hook_q"
    before = replay(model, trace, query).points[f"blocks.1.attn.{normed}"][0, 2, 0].double().numpy()
    assert planes.q_before == pytest.approx(before[planes.features], abs=1e-6)
    # the paper's own formula: scale |q||k| cos(arg q − arg k + (m − n) θ), the factor entering squared
    q, k = (x[:, 0] + 1j * x[:, 1] for x in (planes.q_before, planes.k_before))
    angle = planes.query_position * planes.query_frequencies - planes.key_position * planes.key_frequencies
    expected = planes.scale * planes.factor**2 * np.abs(q) * np.abs(k) * np.cos(np.angle(q) - np.angle(k) + angle)
    assert planes.shares == pytest.approx(expected, abs=1e-5)


def test_a_layer_without_rope_has_no_planes() -> None:
    trace = capture(make("some_layers_without_rope"), random_ids(4))
    assert readout.read_planes(trace[1], 0, 3, 1) is None
    assert readout.read_planes(trace[0], 0, 3, 1) is not None


def test_scores_before_the_mask_are_those_after_it_where_a_key_is_visible() -> None:
    trace = capture(make("plain"), random_ids(6))
    raw, masked = readout.raw_scores(trace[0], 0), readout.scores(trace[0], 0)
    seen = np.isfinite(masked)
    assert np.array_equal(seen, np.tril(np.ones((6, 6), dtype=bool)))
    assert raw[seen] == pytest.approx(masked[seen])
    assert np.isfinite(raw).all()
    assert raw[0, 5] != 0.0


def test_the_cache_and_its_bytes() -> None:
    model = make("plain")  # L 3, H 4, Hkv 2, Dh 8, float32
    trace = append(model, capture(model, random_ids(6)), 1)
    cache = readout.read_cache(trace)
    assert cache.keys.shape == (3, 2, 7, 8)
    assert np.array_equal(cache.keys[1, 0], trace[1].keys.tensor[0, 0].numpy())
    assert cache.bytes_per_token == 2 * 3 * 2 * 8 * 4
    assert cache.bytes_measured == cache.bytes_formula == 7 * cache.bytes_per_token
    assert (cache.bytes_full_heads, cache.bytes_one_head) == (2 * cache.bytes_formula, cache.bytes_formula // 2)
    assert cache.bytes_reserved >= cache.bytes_measured
    assert readout.read_cache(trace, positions=3).stride == 3
    assert np.array_equal(cache.key_magnitudes[1], magnitudes(cache.keys[1]))
    assert np.array_equal(cache.value_magnitudes[2], magnitudes(cache.values[2]))


def test_a_cache_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.model.progress.Watch.over", True)
    trace = capture(make("plain"), random_ids(6))
    assert [point.done for point in readout.cache_steps(trace)] == list(range(2 * trace.config.layers))


@pytest.fixture
def tiny() -> Trace:
    return capture(make("plain"), random_ids(4))


def test_what_is_not_there_is_refused(tiny: Trace) -> None:
    with pytest.raises(TraceError, match="Layer 3 was asked for, but this run's layers are 0 to 2"):
        readout.weights(tiny[3], 0)
    with pytest.raises(TraceError, match="L2H4 was asked for, but the layer has 4 heads, from 0 to 3"):
        readout.weights(tiny[2], 4)
    with pytest.raises(TraceError, match="Row 4 was asked for, but this run has 4 rows"):
        readout.read_row(tiny[0], 0, 4)
    with pytest.raises(TraceError, match="Columns 2 to 9"):
        readout.scores(tiny[0], 0, None, (2, 9))
