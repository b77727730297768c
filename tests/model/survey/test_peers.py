"""Means of a survey against a loop over the attentions that transformers gives out."""

from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

import ropewalk
from ropewalk.model.notebooks.prompts import batch_of
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import RunHeader
from tests.model.checkpoints.reference import CASES, build, save
from tests.model.survey.small_survey import texts_of


@pytest.mark.parametrize("family", ["gemma2", pytest.param("llama", marks=pytest.mark.slow)])
def test_means_are_those_of_a_loop_over_eager_attentions(family: str, tmp_path: Path) -> None:
    theirs = build(next(case for case in CASES if case.family == family))
    texts = texts_of((20, 7, 13))
    loops: dict[str, list[np.ndarray]] = {"previous": [], "sink": [], "duplicate": []}
    for ids in texts:
        with torch.no_grad():
            layers = theirs(torch.tensor([ids]), output_attentions=True).attentions
        w = torch.stack(layers)[:, 0].double().numpy()
        rows = np.arange(1, len(ids))
        loops["previous"].append(w[:, :, rows, rows - 1].mean(-1))
        loops["sink"].append(w[:, :, rows, 0].mean(-1))
        again = [(q, [p for p in range(q) if ids[p] == ids[q]]) for q in rows]
        sums = [w[:, :, q, earlier].sum(-1) for q, earlier in again if earlier]
        loops["duplicate"] += [np.mean(sums, axis=0)] if sums else []
    for model in (ropewalk.open(save(theirs, tmp_path)), ropewalk.from_transformers(theirs)):
        found = ropewalk.survey(model, texts)
        for name, values in loops.items():
            assert found.mean(name) == pytest.approx(np.mean(values, axis=0), abs=5e-6)
        assert ("output" in found.names) == (type(model).__name__ == "CheckpointModel")


class Forgetting:
    """Lets every layer go, and looks whether it is the only one that held it."""

    def __init__(self) -> None:
        self.layers: list[weakref.ref[LayerTrace]] = []

    def add(self, layer: LayerTrace) -> None:
        assert all(one() is None for one in self.layers)
        self.layers.append(weakref.ref(layer))

    def finish(self, run: RunHeader) -> int:
        assert run.logits is None
        return len(self.layers)


def test_a_layer_that_transformers_ran_is_freed_before_the_next() -> None:
    theirs = build(next(case for case in CASES if case.family == "llama"))
    model = ropewalk.from_transformers(theirs)
    assert model.record(batch_of([[3, 4, 5], [6, 7]], None), Forgetting()) == model.config.layers
