"""The first experiment of a teacher's hour: theory, a twin in numpy, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ropewalk.model.errors import InterventionError
from ropewalk.model.readings.random_layer import drawn, random_layers
from ropewalk.model.readings.records import Init


def test_without_the_scale_rows_are_driven_towards_one_hot() -> None:
    scaled, raw, library, library_raw = random_layers(2, 16, 128, 4, seed=0)
    assert [(one.init, one.scaled) for one in (scaled, raw, library, library_raw)] == [
        ("normal", True), ("normal", False), ("library", True), ("library", False),
    ]  # fmt: skip
    assert raw.spread == pytest.approx(math.sqrt(32), rel=0.15)
    assert scaled.spread == pytest.approx(raw.spread / math.sqrt(32), rel=1e-5)
    assert library_raw.spread == pytest.approx(math.sqrt(32) / 3, rel=0.15)
    assert (scaled.features, library.features) == pytest.approx((1.0, math.sqrt(1 / 3)), rel=0.05)
    assert scaled.even == library.even == pytest.approx(sum(math.log(n) for n in range(1, 17)) / 16)
    assert library.entropy > scaled.entropy > 1.4 > 1.2 > library_raw.entropy > 0.5 > raw.entropy
    assert raw.largest > 0.8 > library_raw.largest > 0.5 > scaled.largest > library.largest


@pytest.mark.parametrize("init", ["normal", "library"])
def test_the_numbers_are_those_of_numpy(init: Init) -> None:
    made = drawn(init, 2, 16, 128, seed=3)
    x, query, key = (tensor.double().numpy() for tensor in (made.x, made.query, made.key))
    q, k = ((x @ w.T).reshape(2, 16, 4, 32).transpose(0, 2, 1, 3) for w in (query, key))
    later = np.triu(np.ones((16, 16), dtype=bool), 1)
    for reading in random_layers(seed=3):
        if reading.init != init:
            continue
        scores = q @ k.transpose(0, 1, 3, 2) * (32**-0.5 if reading.scaled else 1.0)
        powers = np.where(later, 0.0, np.exp(scores - scores.max(-1, keepdims=True)))
        weights = powers / powers.sum(-1, keepdims=True)
        entropy = -(weights * np.log(np.where(weights > 0, weights, 1.0))).sum(-1)
        assert reading.entropy == pytest.approx(entropy.mean(), abs=1e-4)
        assert reading.largest == pytest.approx(weights.max(-1).mean(), abs=1e-4)
        assert np.allclose(reading.weights, weights[0, 0], atol=1e-4)


def test_nothing_else_is_drawn_differently_afterwards() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    random_layers()
    assert torch.equal(torch.rand(1), expected)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InterventionError, match="cannot be split into 5 heads"):
        random_layers(heads=5)
    with pytest.raises(InterventionError, match="each must be 1 or more"):
        random_layers(batch=0)
    with pytest.raises(InterventionError, match="at once"):
        random_layers(batch=64, tokens=4096)
