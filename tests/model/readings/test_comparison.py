"""Two runs compared: alignment by token, differences cell by cell, Kullback-Leibler by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import NoScale
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import finished
from ropewalk.model.readings import readout
from ropewalk.model.readings.comparison import align, aligned, head_difference, next_token_difference, score_changes
from ropewalk.model.readings.patterns import NOT_DOUBLED, NOT_REPEATED
from ropewalk.model.readings.records import TokenText
from ropewalk.model.runs.trace import capture
from tests.model.small_models import BASE, make, random_ids


def test_prompts_are_aligned_by_token_and_gaps_are_kept() -> None:
    assert aligned([1, 2, 3], [1, 9, 2, 3]) == ((0, 0), (None, 1), (1, 2), (2, 3))
    assert aligned([1, 2], [1, 5]) == ((0, 0), (1, None), (None, 1))
    assert aligned([], [4]) == ((None, 0),)


def test_an_intervention_is_compared_cell_by_cell() -> None:
    model, ids = make("plain"), random_ids(7)
    a, b = capture(model, ids), capture(model, ids, interventions=[NoScale()])
    found = head_difference(a[1], b[1], 2, align(a, b))
    seen = np.tril(np.ones((7, 7), dtype=bool))
    assert np.array_equal(~np.isnan(found.weights), seen)
    assert found.weights[seen] == pytest.approx((readout.weights(b[1], 2) - readout.weights(a[1], 2))[seen])
    assert found.scores[seen] == pytest.approx(readout.scores(b[1], 2)[seen] - readout.scores(a[1], 2)[seen])


def test_statistics_move_by_those_of_the_one_run_less_those_of_the_other() -> None:
    model, ids = make("plain"), random_ids(7)
    a, b = capture(model, ids), capture(model, ids, interventions=[NoScale()])
    found = finished(score_changes(a, b))
    assert found.undefined == {"induction": NOT_REPEATED, "duplicate": NOT_DOUBLED}
    assert np.isnan(found.scores["induction"]).all()
    rows = np.arange(1, 7)
    of_b, of_a = (readout.weights(one[1], 2).astype(np.float64)[rows, rows - 1].mean() for one in (b, a))
    assert found.scores["previous"][1, 2] == pytest.approx(of_b - of_a, abs=1e-6)
    means = [np.mean([readout.read_row(one[1], 2, row).entropy for row in range(7)]) for one in (b, a)]
    assert found.scores["entropy"][1, 2] == pytest.approx(means[0] - means[1], abs=1e-5)
    with pytest.raises(TraceError, match="so their heads cannot be compared"):
        finished(score_changes(a, capture(Decoder(BASE.changed(layers=1)), ids)))


def test_another_prompt_leaves_gaps() -> None:
    model = make("plain")
    a, b = capture(model, [1, 2, 3]), capture(model, [1, 9, 2, 3])
    found = head_difference(a[0], b[0], 0, align(a, b))
    assert np.isnan(found.weights[1]).all()
    assert np.isnan(found.weights[:, 1]).all()
    expected = readout.weights(b[0], 0)[3, 2] - readout.weights(a[0], 0)[2, 1]
    assert found.weights[3, 2] == pytest.approx(expected)


def test_runs_of_two_models_are_aligned_by_what_their_tokens_say() -> None:
    a, b = capture(make("plain"), [1, 2, 3]), capture(make("plain", seed=1), [7, 1, 8, 9])
    texts = ["to", "be", "or"], ["to", "not", "be", "or"]
    rows = align(a, b, texts)
    assert rows == ((0, 0), (None, 1), (1, 2), (2, 3))
    found = head_difference(a[1], b[1], 3, rows)
    expected = readout.weights(b[1], 3)[3, 2] - readout.weights(a[1], 3)[2, 1]
    assert found.weights[3, 2] == pytest.approx(expected)
    with pytest.raises(TraceError, match="A and B have no token in common"):
        align(a, b, (["to", "be", "or"], ["das", "ist", "die", "Frage"]))


def test_models_of_another_shape_are_refused() -> None:
    a = capture(make("plain"), [1, 2])
    b = capture(Decoder(BASE.changed(layers=2)), [1, 2])
    with pytest.raises(TraceError, match="A has 3 layers of 4 heads and B 2 of 4"):
        align(a, b)


def test_divergence_by_hand() -> None:
    a, b = torch.tensor([0.75, 0.25]).log(), torch.tensor([0.5, 0.5]).log()
    names = {0: TokenText(0, "zero"), 1: TokenText(1, "one")}
    found = next_token_difference(a, b, names)
    assert found.kl_forward == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    assert found.kl_backward == pytest.approx(0.5 * math.log(2 / 3) + 0.5 * math.log(2))
    assert (found.top_before.text, found.top_after.text) == ("zero", "zero")
    assert found.changes[0].before == pytest.approx(0.75)
    assert next_token_difference(a, a, names).kl_forward == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(TraceError, match="2 tokens in its vocabulary and B 3"):
        next_token_difference(a, torch.zeros(3), names)
