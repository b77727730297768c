"""Head scores against their formulas on the explicit weights, and thumbnails against the lens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model import lens, patterns
from model.decoder import Decoder
from model.progress import finished
from model.trace import capture
from tests.model.small_models import BASE, CONFIGS, make, random_ids


@pytest.mark.parametrize("name", CONFIGS)
def test_scores_follow_their_formulas(name: str) -> None:
    once = random_ids(9)
    trace = capture(make(name), torch.cat((once, once), 1))
    found, undefined = patterns.head_scores(trace)
    assert undefined == {}
    rows, later = np.arange(1, 18), np.arange(9, 17)  # N = 9: q = N … 2N − 2
    for layer in range(3):
        for head in range(4):
            w = lens.weights(trace, layer, head).astype(np.float64)
            assert found["previous"][layer, head] == pytest.approx(w[rows, rows - 1].mean(), abs=1e-6)
            assert found["sink"][layer, head] == pytest.approx(w[rows, 0].mean(), abs=1e-6)
            assert found["induction"][layer, head] == pytest.approx(w[later, later - 9 + 1].mean(), abs=1e-6)
            entropy = np.mean([lens.read_row(trace, layer, head, query).entropy for query in range(18)])
            assert found["entropy"][layer, head] == pytest.approx(entropy, abs=1e-5)


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
    assert set(undefined) == {"previous", "sink", "induction"}
    assert np.isnan(found["previous"]).all()
    found, undefined = patterns.head_scores(capture(make("plain"), [4, 5, 6, 4, 5, 7]))
    assert undefined == {"induction": patterns.NOT_TWICE}
    assert not np.isnan(found["previous"]).any()


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
    atlas = finished(patterns.atlas_steps(trace, pixels=16))
    assert atlas.reduction == "exact"
    assert atlas.thumbnails.shape == (3, 4, 12, 12)
    weights = lens.weights(trace, 2, 3)
    seen = ~np.isnan(atlas.thumbnails[2, 3])
    assert np.array_equal(seen, np.isfinite(lens.scores(trace, 2, 3)))
    assert atlas.thumbnails[2, 3][seen] == pytest.approx(weights[seen])
    smaller = finished(patterns.atlas_steps(trace, pixels=5))
    assert (smaller.reduction, smaller.thumbnails.shape) == ("max", (3, 4, 4, 4))
    assert set(atlas.scores) == set(atlas.formulas)
