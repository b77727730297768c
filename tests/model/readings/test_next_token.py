"""The distribution that is drawn from, the draw, and the reading of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ropewalk.model.errors import PromptError
from ropewalk.model.readings.next_token import distribution, draw, next_token_reading, row_logits
from ropewalk.model.readings.records import Sampling, TokenText
from ropewalk.model.runs.trace import append, capture
from tests.model.small_models import make, random_ids

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0])


def softmax(x: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    e = np.exp(np.array(x) - max(x))
    return np.asarray(e / e.sum())


def test_greedy_puts_everything_on_the_largest() -> None:
    assert distribution(LOGITS, Sampling()).tolist() == [1, 0, 0, 0]
    assert draw(LOGITS, Sampling(), row=3) == 0


def test_temperature_divides_the_logits() -> None:
    assert distribution(LOGITS, Sampling(temperature=2.0)).numpy() == pytest.approx(softmax([1.0, 0.5, 0.0, -0.5]))


def test_the_smallest_temperature_puts_everything_on_the_largest() -> None:
    assert distribution(LOGITS, Sampling(temperature=5e-324)).tolist() == [1, 0, 0, 0]


def test_top_k_keeps_the_largest() -> None:
    found = distribution(LOGITS, Sampling(temperature=1.0, top_k=2)).numpy()
    assert found == pytest.approx([*softmax([2.0, 1.0]), 0.0, 0.0])


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    # softmax: .644, .237, .087, .032; two tokens reach .88, three are needed for .9
    found = distribution(LOGITS, Sampling(temperature=1.0, top_p=0.88)).numpy()
    assert found == pytest.approx([*softmax([2.0, 1.0]), 0.0, 0.0])
    found = distribution(LOGITS, Sampling(temperature=1.0, top_p=0.9)).numpy()
    assert found == pytest.approx([*softmax([2.0, 1.0, 0.0]), 0.0])
    assert distribution(LOGITS, Sampling(temperature=1.0, top_p=1e-9)).tolist() == [1, 0, 0, 0]


def test_tokens_that_reach_p_exactly_are_enough() -> None:
    """Quarters are exact, so that two of them are a half and not nearly one."""
    four = Sampling(temperature=1.0, top_p=0.5)
    assert distribution(torch.zeros(4), four).tolist() == [0.5, 0.5, 0, 0]
    assert distribution(torch.zeros(4), Sampling(temperature=1.0, top_p=0.75)).tolist() == pytest.approx(
        [1 / 3] * 3 + [0]
    )
    assert distribution(torch.tensor([0.0, 0.0]), four).tolist() == [1, 0]


def test_a_draw_depends_on_seed_and_row_only() -> None:
    flat = torch.zeros(1000)
    hot = Sampling(temperature=1.0, seed=4)
    rows = [draw(flat, hot, row) for row in range(20)]
    assert rows == [draw(flat, hot, row) for row in range(20)]
    assert len(set(rows)) > 10
    assert rows != [draw(flat, Sampling(temperature=1.0, seed=5), row) for row in range(20)]


def test_draws_follow_the_distribution() -> None:
    sampling = [Sampling(temperature=1.0, seed=seed) for seed in range(4000)]
    counts = np.bincount([draw(LOGITS, one, row=0) for one in sampling], minlength=4) / 4000
    assert counts == pytest.approx(softmax([2.0, 1.0, 0.0, -1.0]), abs=0.03)  # three standard errors are 0.024


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        (Sampling(temperature=-1.0), "temperature is -1.0"),
        (Sampling(top_k=-2), "Top-k is -2"),
        (Sampling(top_p=0.0), "Top-p is 0.0"),
        (Sampling(top_p=1.5), "Top-p is 1.5"),
    ],
)
def test_settings_that_mean_nothing_are_refused(sampling: Sampling, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        distribution(LOGITS, sampling)


def test_the_reading_shows_the_most_probable_and_what_really_follows() -> None:
    model = make("plain")
    trace = append(model, capture(model, random_ids(6)), 11)
    logits = trace.logits_of(5)
    assert logits is not None
    plain = logits[0].double().softmax(-1)
    reading = next_token_reading(model, trace, 5, 3, Sampling(temperature=1.0, top_k=2), {11: TokenText(11, "eleven")})
    order = plain.argsort(descending=True)[:3].tolist()
    assert [one.token.id for one in reading.candidates] == order
    assert [one.probability for one in reading.candidates] == pytest.approx(plain[order].tolist())
    assert [one.kept for one in reading.candidates] == [True, True, False]
    assert reading.actual is not None
    assert reading.actual.token.text == "eleven"
    assert reading.actual.probability == pytest.approx(float(plain[11]))
    assert next_token_reading(model, trace, 6, 3, Sampling(), {}).actual is None
    assert not reading.replayed


def test_logits_that_were_not_kept_are_replayed() -> None:
    model, ids = make("plain"), random_ids(6)
    kept, dropped = capture(model, ids, logits="all"), capture(model, ids, logits="last")
    expected, replayed = row_logits(model, kept, 2)
    assert not replayed
    found, replayed = row_logits(model, dropped, 2)
    assert replayed
    assert torch.allclose(found, expected, atol=1e-5)
