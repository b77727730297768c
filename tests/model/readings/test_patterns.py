"""Head scores against their formulas on the explicit weights, and thumbnails against exact readings."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import ReadKvHead
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Partial, finished
from ropewalk.model.readings import layer_weights, patterns, readout, thumbnails
from ropewalk.model.readings.records import AtlasPart
from ropewalk.model.readings.tiles import read_head
from ropewalk.model.runs.trace import capture
from tests.model.small_models import BASE, CONFIGS, make, random_ids


@pytest.mark.parametrize("name", CONFIGS)
def test_scores_follow_their_formulas(name: str) -> None:
    once = random_ids(9)
    trace = capture(make(name), torch.cat((once, once), 1))
    found, undefined = patterns.head_scores(trace)
    assert undefined == {}
    rows, later = np.arange(1, 18), np.arange(9, 17)  # N = 9: q = N … 2N − 2
    ids = [*once[0].tolist()] * 2
    places = [[at for at, one in enumerate(ids) if one == token] for token in set(ids)]
    pairs = [pair for at in places for pair in pairwise(at)]
    for layer in range(3):
        for head in range(4):
            w = readout.weights(trace[layer], head).astype(np.float64)
            assert found["previous"][layer, head] == pytest.approx(w[rows, rows - 1].mean(), abs=1e-6)
            assert found["sink"][layer, head] == pytest.approx(w[rows, 0].mean(), abs=1e-6)
            assert found["induction"][layer, head] == pytest.approx(w[later, later - 9 + 1].mean(), abs=1e-6)
            assert found["duplicate"][layer, head] == pytest.approx(np.mean([w[q, p] for p, q in pairs]), abs=1e-6)
            entropy = np.mean([readout.read_row(trace[layer], head, query).entropy for query in range(18)])
            assert found["entropy"][layer, head] == pytest.approx(entropy, abs=1e-5)


def test_an_entry_of_the_table_says_how_it_is_computed_and_why_it_may_have_no_value() -> None:
    for name, one in patterns.STATISTICS.items():
        assert one.name == name
        assert (one.pairs is None) != (one.of_layer is None)
        assert (one.pairs is None) or one.undefined
        assert one.title
        assert one.formula
    with pytest.raises(TraceError, match="no head statistic 'luck'; there are previous, "):
        patterns.head_scores(capture(make("plain"), [4, 5]), ["luck"])


def test_a_new_entry_of_the_table_is_scored_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.arange(9)
    itself = patterns.Statistic("self", "itself", "mean of w[q, q]", lambda length, ids: (rows, rows), undefined="x")
    monkeypatch.setitem(patterns.STATISTICS, "self", itself)
    trace = capture(make("plain"), random_ids(9))
    diagonal = readout.weights(trace[1], 2).astype(np.float64).diagonal().mean()
    assert patterns.head_scores(trace, ["self"])[0]["self"][1, 2] == pytest.approx(diagonal, abs=1e-6)
    atlas = finished(thumbnails.atlas_steps(trace, pixels=4))
    assert atlas.scores["self"][1, 2] == pytest.approx(diagonal, abs=1e-6)
    assert (atlas.titles["self"], atlas.formulas["self"]) == ("itself", "itself: mean of w[q, q]")
    assert atlas.smallest_first == ("entropy",)


def test_padding_is_neither_asked_nor_looked_at() -> None:
    model, alone = make("plain"), random_ids(6)
    padded = torch.cat((torch.zeros(1, 2, dtype=torch.long), alone), 1)
    padding = torch.arange(8)[None] >= 2
    trace = capture(model, padded, padding=padding, positions=(torch.arange(8)[None] - 2).clamp_min(0))
    found, _ = patterns.head_scores(trace)
    expected, _ = patterns.head_scores(capture(model, alone))
    assert found["entropy"] == pytest.approx(expected["entropy"], abs=1e-5)


def test_a_score_that_has_no_value_says_why() -> None:
    found, undefined = patterns.head_scores(capture(make("plain"), [4]))
    assert set(undefined) == {"previous", "sink", "induction", "duplicate"}
    assert np.isnan(found["previous"]).all()
    found, undefined = patterns.head_scores(capture(make("plain"), [4, 5, 6, 4, 7, 5]))
    assert undefined == {"induction": patterns.NOT_REPEATED}
    assert not np.isnan(found["previous"]).any()


@pytest.mark.parametrize(
    ("ids", "cells"),
    [
        ([1, 2, 3, 1, 2, 3], [(3, 1), (4, 2)]),
        ([9, 1, 2, 3, 1, 2, 3], [(4, 2), (5, 3)]),  # as a prompt retyped without its first token
        ([1, 2, 3, 1, 2, 3, 7], [(3, 1), (4, 2)]),  # as after a step
        ([1, 2, 9, 1, 2, 8, 1, 2], [(3, 1), (6, 4)]),  # what followed the last time
        ([1, 2, 9, 2, 1], []),
        ([5, 5, 5], []),
    ],
)
def test_induction_is_looked_for_wherever_two_tokens_come_again(ids: list[int], cells: list[tuple[int, int]]) -> None:
    assert list(zip(*patterns.induction_pairs(torch.tensor(ids)), strict=True)) == cells
    trace = capture(make("plain"), [token % 32 for token in ids])
    found, undefined = patterns.head_scores(trace, ["induction"])
    assert ("induction" in undefined) == (not cells)
    if cells:
        w = readout.weights(trace[1], 2).astype(np.float64)
        assert found["induction"][1, 2] == pytest.approx(np.mean([w[q, k] for q, k in cells]), abs=1e-6)


@pytest.mark.parametrize(
    ("ids", "period"), [([1, 2, 1, 2], 2), ([1, 2, 3, 1, 2, 3], 3), ([1, 1], 0), ([1, 2, 1], 0), ([1, 2, 1, 3], 0)]
)
def test_the_repeat_is_recognised(ids: list[int], period: int) -> None:
    assert patterns.repeat_period(torch.tensor(ids)) == period


def test_repeated_ids_are_seeded_and_twice() -> None:
    ids = patterns.repeated_ids(24, 1024, seed=5)
    assert ids[:24] == ids[24:]
    assert ids == patterns.repeated_ids(24, 1024, seed=5)
    assert ids != patterns.repeated_ids(24, 1024, seed=6)


def test_a_head_that_only_looks_back_one_is_found() -> None:
    # no QK content: a large bias on the plane of θ = 1 makes the score cos((m − n) − 1), largest at distance one
    config = BASE.changed(layers=1, heads=1, kv_heads=1, head_width=2, query_bias=True, key_bias=True)
    model = Decoder(config)
    attention = model.block(0).attn
    with torch.no_grad():
        attention.query.weight.zero_()
        attention.key.weight.zero_()
        attention.query.bias.copy_(30 * torch.tensor([np.cos(-1.0), np.sin(-1.0)]))
        attention.key.bias.copy_(torch.tensor([30.0, 0.0]))
    found, _ = patterns.head_scores(capture(model, random_ids(6)))
    assert found["previous"][0, 0] > 0.999
    assert found["entropy"][0, 0] < 0.01


def test_thumbnails_are_the_weights_with_masked_cells_missing() -> None:
    trace = capture(make("window"), random_ids(12))
    atlas = finished(thumbnails.atlas_steps(trace, pixels=16))
    assert atlas.reduction == "exact"
    assert atlas.thumbnails.shape == (3, 4, 12, 12)
    weights = readout.weights(trace[2], 3)
    seen = ~np.isnan(atlas.thumbnails[2, 3])
    assert np.array_equal(seen, np.isfinite(readout.scores(trace[2], 3)))
    assert atlas.thumbnails[2, 3][seen] == pytest.approx(weights[seen])
    smaller = finished(thumbnails.atlas_steps(trace, pixels=5))
    assert (smaller.reduction, smaller.thumbnails.shape) == ("max", (3, 4, 4, 4))
    assert set(atlas.scores) == set(atlas.formulas)


@pytest.mark.parametrize("name", CONFIGS)
def test_thumbnails_are_small_pictures_of_their_heads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_weights, "BLOCK_CELLS", 60)
    monkeypatch.setattr(layer_weights, "LEAST_QUERIES", 5)
    monkeypatch.setattr(layer_weights, "BLOCK_QUERIES", 5)
    padding = torch.ones(2, 23, dtype=torch.bool)
    padding[1, :5] = False
    trace = capture(make(name), random_ids(23, batch=2), padding=padding)
    for batch in (0, 1):
        atlas = finished(thumbnails.atlas_steps(trace, pixels=8, batch=batch))
        for layer in range(3):
            for head in range(4):
                picture = read_head(trace[layer], head, pixels=8, raw=False, batch=batch).weights
                assert np.array_equal(~np.isnan(atlas.thumbnails[layer, head]), picture.visible)
                found = np.nan_to_num(atlas.thumbnails[layer, head])
                assert found == pytest.approx(picture.values, abs=3e-6)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_entropy_of_a_long_run_is_that_of_some_of_its_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "EXACT_ENTROPY_UP_TO", 10)
    monkeypatch.setattr(patterns, "ENTROPY_ROWS", 4)
    monkeypatch.setattr(layer_weights, "BLOCK_CELLS", 100)
    trace = capture(make(name), random_ids(31))
    found, _ = patterns.head_scores(trace, ["entropy"])
    assert set(found) == {"entropy"}
    for layer in range(3):
        for head in range(4):
            rows = [readout.read_row(trace[layer], head, query).entropy for query in (0, 10, 20, 30)]
            assert found["entropy"][layer, head] == pytest.approx(np.mean(rows), abs=1e-5)
    assert patterns.formulas_of(trace)["entropy"].startswith("entropy: mean over 4 of 31 rows q, sampled")
    monkeypatch.setattr(patterns, "EXACT_ENTROPY_UP_TO", 31)
    stated = {one.name: f"{one.title}: {one.formula}" for one in patterns.STATISTICS.values()}
    assert patterns.formulas_of(trace) == stated


def test_blocks_of_rows_do_not_change_the_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CONFIGS:
        trace = capture(make(name), random_ids(31))
        whole, _ = patterns.head_scores(trace, ["entropy"])
        monkeypatch.setattr(layer_weights, "BLOCK_CELLS", 100)
        monkeypatch.setattr(layer_weights, "BLOCK_QUERIES", 12)
        monkeypatch.setattr(layer_weights, "LEAST_QUERIES", 4)
        pieces, _ = patterns.head_scores(trace, ["entropy"])
        monkeypatch.undo()
        assert pieces["entropy"] == pytest.approx(whole["entropy"], abs=1e-5), name


def test_a_head_made_to_read_another_kv_head_is_scored_by_that_one() -> None:
    trace = capture(make("plain"), random_ids(12), interventions=[ReadKvHead(1, 0, 1)])
    found, _ = patterns.head_scores(trace)
    weights = readout.weights(trace[1], 0).astype(np.float64)
    rows = np.arange(1, 12)
    assert found["previous"][1, 0] == pytest.approx(weights[rows, rows - 1].mean(), abs=1e-6)
    assert found["entropy"][1, 0] == pytest.approx(
        np.mean([readout.read_row(trace[1], 0, query).entropy for query in range(12)]), abs=1e-5
    )


def test_the_atlas_comes_layer_by_layer_those_in_sight_first() -> None:
    trace = capture(make("plain"), random_ids(12))
    steps = thumbnails.atlas_steps(trace, pixels=8, first=(2, 7))
    parts = []
    while True:
        try:
            point = next(steps)
        except StopIteration as stop:
            whole = stop.value
            break
        if isinstance(point, Partial):
            assert isinstance(point.reading, AtlasPart)
            parts.append(point.reading)
    assert [part.layer for part in parts] == [2, 0, 1]
    for part in parts:
        assert np.array_equal(part.thumbnails, whole.thumbnails[part.layer], equal_nan=True)
        for name, values in part.scores.items():
            assert np.array_equal(values, whole.scores[name][part.layer])


def test_thumbnails_of_a_long_run_are_sampled_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thumbnails, "EXACT_UP_TO", 20)
    trace = capture(make("plain"), random_ids(30))
    sampled = finished(thumbnails.atlas_steps(trace, pixels=10))
    exact = finished(thumbnails.atlas_steps(trace, pixels=10, exact=True))
    assert (sampled.reduction, exact.reduction) == ("sampled", "max")
    assert sampled.thumbnails.shape == exact.thumbnails.shape == (3, 4, 10, 10)
    weights = readout.weights(trace[2], 1)
    assert sampled.thumbnails[2, 1][np.tril_indices(10)] == pytest.approx(weights[::3, ::3][np.tril_indices(10)])
    assert np.nanmax(exact.thumbnails - sampled.thumbnails) > 0
    assert np.nanmin(exact.thumbnails - sampled.thumbnails) >= -1e-6
