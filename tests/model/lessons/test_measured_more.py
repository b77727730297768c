"""What lessons measure of sampling, few bits, a memory of fixed size and a training's record, held to numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.evaluation import Scope, evaluate
from ropewalk.model.lessons.expressions import read_expression
from ropewalk.model.lessons.models import LessonModel
from ropewalk.model.lessons.runs import Runs
from ropewalk.model.lessons.values import Head
from ropewalk.model.training.history import read_history
from ropewalk.resources import resource


@pytest.fixture(scope="module")
def scope() -> Scope:
    model = LessonModel("main", "bundled", prompt=" My lord, I will")
    return Scope({"near": (1.0, 2.0, 4.0)}, models=frozenset({"main"}), runs=Runs({"main": model}))


def worth(scope: Scope, source: str) -> Any:
    return evaluate(read_expression(source), scope)


def test_what_is_drawn_from(scope: Scope) -> None:
    everything = np.array(worth(scope, "drawn(main)"))
    assert len(everything) == 1024
    assert everything[0] == pytest.approx(worth(scope, "probability(main)"))
    cold = everything**2 / (everything**2).sum()
    np.testing.assert_allclose(worth(scope, "drawn(main, 0.5)"), cold, rtol=1e-6)
    np.testing.assert_allclose(worth(scope, "drawn(main, 1.0, 3)"), everything[:3] / everything[:3].sum(), rtol=1e-6)
    kept = int((np.cumsum(everything) < 0.8).sum()) + 1
    np.testing.assert_allclose(
        worth(scope, "drawn(main, top_p=0.8)"), everything[:kept] / everything[:kept].sum(), rtol=1e-6
    )
    with pytest.raises(LessonError, match="Top-p is 2"):
        worth(scope, "drawn(main, top_p=2.0)")


def test_few_bits(scope: Scope) -> None:
    assert worth(scope, 'rounded(0.1, "float16")') == float(np.float16(0.1))
    assert worth(scope, 'spacing(12, "float16")') == float(np.spacing(np.float16(12)))
    assert worth(scope, 'spacing(12, "float32")') == float(np.spacing(np.float32(12)))
    assert worth(scope, 'exponential(12, "float16")') == np.inf
    assert worth(scope, 'ones_added(3000, "float16")') == 2048
    exact = np.exp([1.0, 2.0, 4.0]) / np.exp([1.0, 2.0, 4.0]).sum()
    np.testing.assert_allclose(worth(scope, "softmax(near)"), exact, rtol=1e-12)
    assert worth(scope, 'row_sum(main, 0, 0, -1, "float64")') == pytest.approx(1, abs=1e-12)
    gaps = [worth(scope, f'softmax_gap(main, 0, 0, -1, "{dtype}")') for dtype in ("float64", "float32", "bfloat16")]
    assert gaps[0] == 0
    assert 0 < gaps[1] < 1e-6 < 1e-4 < gaps[2]
    for source, why in (('rounded(1, "int8")', "no dtype 'int8'"), ('spacing(0, "float16")', "from 1 on")):
        with pytest.raises(LessonError, match=why):
            worth(scope, source)


def test_a_memory_of_fixed_size(scope: Scope) -> None:
    assert worth(scope, 'recalled(16, 64, "attention")') == 1
    assert worth(scope, 'recalled(16, 64, "recurrence")') < 0.6
    assert worth(scope, 'recalled(16, 2, "recurrence")') == 1
    with pytest.raises(LessonError, match="attention or recurrence"):
        worth(scope, 'recalled(16, 2, "magic")')
    with pytest.raises(LessonError, match="1 to 4,096"):
        worth(scope, 'recalled(16, 0, "attention")')


def test_the_record_of_a_training(scope: Scope) -> None:
    history = read_history(resource("bundled"))
    assert history is not None
    scores, losses = history.scores["induction"], history.repeat_loss
    best = scores.max(axis=(1, 2))
    born = int(history.steps[np.argmax(best >= 0.5)])
    layer, head = np.unravel_index(scores[-1].argmax(), scores[-1].shape)
    assert worth(scope, "training_steps(main)") == history.steps[-1]
    assert worth(scope, "opening_steps(main)") == history.opened
    assert worth(scope, "checkpoints(main)") == len(history.steps)
    assert worth(scope, 'first_step(main, "induction", 0.5)') == born
    assert worth(scope, f"step_before(main, {born})") == history.steps[np.argmax(best >= 0.5) - 1]
    assert worth(scope, f'most_at(main, "induction", {born + 1})') == best[np.argmax(best >= 0.5)]
    assert worth(scope, 'head_at(main, "induction", training_steps(main))') == Head(int(layer), int(head))
    assert worth(scope, 'had(main, head_at(main, "induction", 99999), "induction", 0)') == scores[0, layer, head]
    assert worth(scope, 'loss_at(main, "repeats", 500)') == pytest.approx(float(np.nanmean(losses[475:500])))
    for source, why in (
        ('first_step(main, "induction", 2)', "ever reached 2"),
        ('most_at(main, "beauty", 0)', "No statistic 'beauty'"),
        ('loss_at(main, "songs", 0)', "none of 'songs'"),
    ):
        with pytest.raises(LessonError, match=why):
            worth(scope, source)


def test_a_reference_is_weighed_against_the_other_words(scope: Scope) -> None:
    call = '"it", ["crown", "hand"], ["Give me thy _, for I know it"]'
    head = worth(scope, f"reference_head(main, {call})")
    assert isinstance(head, Head)
    named, others = [], []
    for noun in ("crown", "hand"):
        text = f"Give me thy {noun}, for I know it"
        weights = np.array(worth(scope, f'weights(main, {head.layer}, {head.head}, "{text}")'))
        row, at = worth(scope, f'row_of(main, "it", "{text}")'), worth(scope, f'row_of(main, "{noun}", "{text}")')
        named.append(weights[row, at])
        others.append(np.mean([weights[row, key] for key in range(1, row - 1) if key != at]))
    assert worth(scope, f"reference_weight(main, reference_head(main, {call}), {call})") == pytest.approx(
        np.mean(named), rel=1e-5
    )
    assert worth(scope, f"other_weight(main, reference_head(main, {call}), {call})") == pytest.approx(
        np.mean(others), rel=1e-5
    )
    with pytest.raises(LessonError, match="has no 'crown' before 'it'"):
        worth(scope, 'reference_head(main, "it", ["crown"], ["it is my _"])')
