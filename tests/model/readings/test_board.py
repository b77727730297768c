"""Mean and difference of heads against plain numpy on explicit weights, exact, pooled and sampled."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ropewalk.model.errors import TraceError
from ropewalk.model.progress import finished
from ropewalk.model.readings import readout, tiles
from ropewalk.model.readings.board import board_steps
from ropewalk.model.readings.records import NO_HEAD, BoardReading
from ropewalk.model.runs.trace import Trace, capture
from tests.model.small_models import CONFIGS, make, random_ids

HEADS = ((0, 1), (2, 3), (1, 0))
Doubles = NDArray[np.float64]


def explicit(trace: Trace) -> tuple[Doubles, Doubles, NDArray[np.bool_]]:
    """Weights, scores and what is visible of the heads, each [n, T, T]."""
    scores = np.stack([readout.scores(trace[layer], head) for layer, head in HEADS]).astype(np.float64)
    weights = np.stack([readout.weights(trace[layer], head) for layer, head in HEADS]).astype(np.float64)
    return weights, scores, np.isfinite(scores)


@pytest.mark.parametrize("name", CONFIGS)
def test_mean_and_difference_are_those_of_the_explicit_matrices(name: str) -> None:
    trace = capture(make(name), random_ids(12))
    weights, scores, seen = explicit(trace)
    board = finished(board_steps(trace, HEADS, (0, 2), average=True, difference=(2, 0)))
    assert [(one.layer, one.head) for one in board.pictures] == [(0, 1), (2, 3)]
    assert board.pictures[1].weights.values == pytest.approx(weights[1], abs=1e-6)
    average, difference = board.average, board.difference
    assert average is not None
    assert difference is not None
    assert (average.layer, average.weights.head, average.weights.reduction) == (NO_HEAD, NO_HEAD, "exact")
    assert average.weights.values == pytest.approx(weights.mean(0), abs=1e-6)
    assert difference.weights.values == pytest.approx(weights[2] - weights[0], abs=1e-6)
    both, either = seen[[2, 0]].all(0), seen[[2, 0]].any(0)
    assert np.array_equal(average.weights.visible, seen.any(0))
    assert np.array_equal(difference.weights.visible, either)
    assert np.array_equal(difference.scores.visible, both)
    assert difference.scores.values[both] == pytest.approx(scores[2][both] - scores[0][both], abs=1e-4)
    assert average.scores.values[seen.all(0)] == pytest.approx(scores[:, seen.all(0)].mean(0), abs=1e-4)


def test_where_heads_are_shown_by_their_largest_cells_the_mean_is_of_means() -> None:
    trace = capture(make("plain"), random_ids(12))
    weights, _, seen = explicit(trace)
    board = finished(board_steps(trace, HEADS, (0, 3), pixels=4, average=True, difference=(0, 1)))
    assert board.average is not None
    assert board.difference is not None
    assert [one.weights.reduction for one in (*board.pictures, board.average, board.difference)] == [
        *("max",) * 3,
        *("mean",) * 2,
    ]
    blocks = weights.reshape(3, 4, 3, 4, 3)
    count = seen[0].reshape(4, 3, 4, 3).sum((1, 3))
    there = count > 0
    means = blocks.sum((2, 4)) / np.maximum(count, 1)
    assert board.pictures[0].weights.values == pytest.approx(blocks[0].max((1, 3)), abs=1e-6)
    assert board.average.weights.values[there] == pytest.approx(means.mean(0)[there], abs=1e-6)
    assert board.difference.weights.values[there] == pytest.approx((means[0] - means[1])[there], abs=1e-6)


def test_of_a_long_run_they_are_exact_at_the_cells_that_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "AT_ONCE", 20)
    trace = capture(make("plain"), random_ids(12))
    weights, _, seen = explicit(trace)
    board = finished(board_steps(trace, HEADS, (0, 0), pixels=4, average=True))
    assert board.pictures == ()
    assert board.average is not None
    assert board.average.weights.reduction == "sampled"
    below = np.tril_indices(4, -1)
    assert board.average.weights.values[below] == pytest.approx(weights.mean(0)[::3, ::3][below], abs=1e-6)
    part: BoardReading = finished(board_steps(trace, HEADS, (1, 2), (3, 6), (0, 4), average=True))
    assert part.average is not None
    assert part.average.weights.values == pytest.approx(weights.mean(0)[3:6, 0:4], abs=1e-6)
    assert seen[0, 5, 3]


@pytest.mark.parametrize("asked", [((0, 9),), ((7, 0),)])
def test_a_head_that_is_not_there_is_refused(asked: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(TraceError):
        finished(board_steps(capture(make("plain"), random_ids(5)), asked, (0, 1)))


@pytest.mark.parametrize("name", ["plain", "window", "sink"])
def test_a_refined_board_looks_at_every_cell_of_what_was_sampled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = capture(make(name), random_ids(12))

    def read(refined: bool) -> BoardReading:
        asked = board_steps(trace, HEADS, (0, 3), pixels=4, average=True, difference=(0, 1), refined=refined)
        return finished(asked)

    whole = read(False)
    monkeypatch.setattr(tiles, "AT_ONCE", 0)
    coarse, fine = read(False), read(True)
    for one, sampled, other in zip(
        (*whole.pictures, whole.average, whole.difference),
        (*coarse.pictures, coarse.average, coarse.difference),
        (*fine.pictures, fine.average, fine.difference),
        strict=True,
    ):
        assert one is not None
        assert sampled is not None
        assert other is not None
        assert sampled.weights.reduction == "sampled"
        assert other.weights.reduction == one.weights.reduction
        assert other.weights.values == pytest.approx(one.weights.values, abs=1e-6)
        assert other.scores.values == pytest.approx(one.scores.values, abs=1e-5)
