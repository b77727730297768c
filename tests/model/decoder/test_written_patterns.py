"""A pattern that is written for a head: what the head then writes, and what every reader says of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ropewalk
from ropewalk.model.decoder import hooks
from ropewalk.model.decoder.interventions import ReadKvHead, SetPattern
from ropewalk.model.errors import InterventionError
from ropewalk.model.progress import finished
from ropewalk.model.readings import patterns, readout
from ropewalk.model.readings.tiles import read_head
from ropewalk.model.runs.trace import Trace, append, capture, capture_steps, replay
from tests.closeness import assert_close
from tests.model.small_models import CONFIGS, make, random_ids

TOKENS, LAYER, HEAD = 7, 1, 3
WRITTEN = torch.rand(TOKENS, TOKENS, generator=torch.Generator().manual_seed(3)).tril()
WRITTEN[4, 4] = 0.0  # one that is 0 though it is seen


def changed(pattern: Any = WRITTEN) -> SetPattern:
    return SetPattern(LAYER, HEAD, pattern)


def logits_of(trace: Trace) -> Tensor:
    assert trace.logits is not None
    return trace.logits.tensor[:, 0]


def blended(model: Any, ids: Tensor, seen: Tensor, kv_head: int) -> Tensor:
    """Logits of the model with the head's z replaced by hand."""
    name = f"blocks.{LAYER}.attn.hook_v"
    with torch.no_grad(), hooks.capture(model, [name]) as record:
        model(ids)
    z = (WRITTEN * seen) @ record[name][:, kv_head]

    def put(x: Tensor) -> Tensor:
        x = x.clone()
        x[:, HEAD] = z
        return x

    with torch.no_grad(), hooks.intervening(model, {f"blocks.{LAYER}.attn.hook_z": put}):
        logits: Tensor = model(ids)
    return logits


@pytest.mark.parametrize("branch", ["fused", "explicit"])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_head_blends_by_what_was_written(name: str, branch: Any) -> None:
    model, ids = make(name), random_ids(TOKENS)
    trace = capture(model, ids, interventions=[changed()], branch=branch)
    seen = trace[LAYER].visible()
    assert_close(logits_of(trace), blended(model, ids, seen, HEAD // (4 // CONFIGS[name].kv_heads)), terms=200)
    own = capture(model, ids)
    assert not torch.allclose(logits_of(own), logits_of(trace))
    layer, weights = trace[LAYER], WRITTEN * seen
    assert_close(layer.weights(HEAD), weights, terms=50)
    assert_close(layer.weights()[HEAD], weights, terms=50)
    assert_close(layer.weights()[:HEAD], own[LAYER].weights()[:HEAD], terms=200)
    rows, keys = torch.tensor([2, 5]), torch.tensor([1, 5])
    assert_close(layer.paired_weights(rows, keys, HEAD), weights[rows, keys], terms=50)
    assert_close(layer.paired_weights(rows, keys)[HEAD], weights[rows, keys], terms=50)
    assert layer.sink_weights()[HEAD].eq(0).all()


def test_every_reader_says_what_was_written() -> None:
    trace = capture(make("plain"), random_ids(TOKENS), interventions=[changed()])
    layer = trace[LAYER]
    for query in range(TOKENS):
        row = readout.read_row(layer, HEAD, query)
        assert row.weights == pytest.approx(WRITTEN[query].numpy(), abs=1e-6)
        for key in range(query + 1):
            cell = readout.read_cell(layer, HEAD, query, key)
            assert cell.weight == pytest.approx(float(WRITTEN[query, key]), abs=1e-6)
            assert cell.written
            assert cell.score == pytest.approx(np.log(WRITTEN[query, key].item()) if (query, key) != (4, 4) else -1000)
            assert (cell.weight == 0) == ((query, key) == (4, 4))
    assert read_head(layer, HEAD).weights.values == pytest.approx(WRITTEN.numpy(), abs=1e-6)
    small = read_head(layer, HEAD, pixels=4).weights.values
    cells = np.zeros((8, 8), np.float32)
    cells[:TOKENS, :TOKENS] = WRITTEN
    assert small == pytest.approx(cells.reshape(4, 2, 4, 2).max((1, 3)), abs=1e-6)
    found, _ = patterns.head_scores(trace, ["previous", "entropy"])
    lower = np.arange(1, TOKENS)
    assert found["previous"][LAYER, HEAD] == pytest.approx(WRITTEN.numpy()[lower, lower - 1].mean(), abs=1e-6)
    entropy = torch.special.entr(WRITTEN).sum(-1).mean()
    assert found["entropy"][LAYER, HEAD] == pytest.approx(float(entropy), abs=1e-5)


@pytest.mark.parametrize("chunk", [0, 3])
def test_rows_after_the_pattern_attend_as_they_would(chunk: int) -> None:
    model, ids = make("window"), random_ids(TOKENS + 4)
    whole = finished(capture_steps(model, ids, interventions=[changed()], chunk=chunk))
    step = capture(model, ids[:, :TOKENS], interventions=[changed()])
    for token in ids[0, TOKENS:].tolist():
        step = append(model, step, token)
    assert_close(logits_of(step), logits_of(whole), terms=300)
    weights = whole[LAYER].weights(HEAD)
    assert_close(weights[TOKENS:].sum(-1), torch.ones(4), terms=50)
    assert_close(weights[:TOKENS, :TOKENS], WRITTEN * whole[LAYER].visible((0, TOKENS), (0, TOKENS)), terms=50)
    assert_close(step[LAYER].weights(HEAD), weights, terms=200)
    assert_close(replay(model, whole, 5, ()).logits, logits_of(whole)[:, 5], terms=300)


def test_a_pattern_goes_with_other_changes_and_into_a_file(tmp_path: Path) -> None:
    model, ids = make("plain"), random_ids(TOKENS)
    trace = capture(model, ids, interventions=[ReadKvHead(LAYER, HEAD, 0), changed()])
    assert_close(logits_of(trace), blended(model, ids, trace[LAYER].visible(), 0), terms=200)
    ropewalk.save_trace(trace, tmp_path / "run.safetensors")
    loaded = ropewalk.load_trace(tmp_path / "run.safetensors").trace
    assert loaded.interventions == trace.interventions
    assert loaded.specs == trace.specs
    torch.testing.assert_close(loaded[LAYER].weights(), trace[LAYER].weights(), rtol=0.0, atol=1e-5)
    assert_close(logits_of(append(model, loaded, 3)), logits_of(append(model, trace, 3)), terms=1)


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        (5, "a square of numbers"),
        ([["a"]], "a square of numbers"),
        ([], "of 0 rows"),
        ([[1.0, 0.0]], "must be a square"),
        (torch.ones(600, 600).tril(), "of 600 rows"),
        ([[1.0, 0.5], [0.5, 0.5]], "after the diagonal"),
        ([[1.0, 0.0], [-0.5, 1.5]], "Row 1 of the pattern"),
        ([[math.nan]], "Row 0 of the pattern"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: Any, sentence: str) -> None:
    with pytest.raises(InterventionError, match=sentence):
        capture(make("plain"), random_ids(TOKENS), interventions=[changed(pattern)])


def test_a_head_that_is_not_there_is_refused() -> None:
    with pytest.raises(InterventionError, match="Head 4"):
        capture(make("plain"), random_ids(TOKENS), interventions=[SetPattern(LAYER, 4, ((1.0,),))])
