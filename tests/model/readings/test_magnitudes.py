"""Magnitudes: one byte for how large a number is beside the others of its layer."""

from __future__ import annotations

import numpy as np
import pytest

from ropewalk.model.readings.magnitudes import FULL, SAMPLED, UNDEFINED, magnitudes
from ropewalk.model.readings.records import Floats


def test_a_magnitude_is_in_units_of_the_99th_percentile() -> None:
    contents: Floats = np.linspace(-1, 1, 2 * 3 * 4).astype(np.float32).reshape(2, 3, 4)  # [Hkv, S, Dh]
    seen = magnitudes(contents)
    full = np.percentile(np.abs(contents), 99)
    assert (seen.shape, seen.dtype.name, seen.flags.writeable) == ((8, 3), "uint8", False)
    for head, position, feature in ((0, 0, 0), (0, 2, 1), (1, 1, 3)):
        wanted = min(abs(float(contents[head, position, feature])) / full, 1) * FULL
        assert float(seen[head * 4 + feature, position]) == pytest.approx(wanted, abs=0.501)  # rounded, in float32
    assert seen.max() == FULL


def test_nothing_stored_is_dark_and_no_number_has_a_colour_of_its_own() -> None:
    contents: Floats = np.zeros((1, 2, 2), np.float32)
    assert not magnitudes(contents).any()
    contents[0, 1] = (np.nan, 3.0)
    assert magnitudes(contents).tolist() == [[0, UNDEFINED], [0, FULL]]
    assert magnitudes(np.full((1, 1, 1), np.nan, np.float32)).tolist() == [[UNDEFINED]]
    assert magnitudes(np.zeros((1, 0, 2), np.float32)).shape == (2, 0)


def test_a_large_layer_is_measured_by_some_of_its_numbers() -> None:
    rng = np.random.default_rng(0)
    contents: Floats = rng.standard_normal((3, 512, 64)).astype(np.float32)
    assert contents.size > SAMPLED
    exact = np.rint(np.minimum(np.abs(contents) / np.percentile(np.abs(contents), 99), 1) * FULL)
    seen = magnitudes(contents).reshape(3, 64, 512).transpose(0, 2, 1)
    assert np.abs(seen - exact).max() <= 0.05 * FULL
