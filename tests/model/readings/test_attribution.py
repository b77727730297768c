"""Which heads a token needs, against a plain run for each; direct parts that add up to the logit."""

from __future__ import annotations

import pytest
import torch

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import AblateHeads, ScaleScores
from ropewalk.model.progress import finished
from ropewalk.model.readings.attribution import direct_attribution, head_needs_steps, logits_under_steps
from ropewalk.model.runs.trace import append, capture
from tests.model.small_models import BASE, CONFIGS, make, random_ids

VARIANTS = {
    **CONFIGS,
    "post_norm": BASE.changed(norm_place="post"),
    "both_norms_scaled": BASE.changed(norm_place="both", residual_scale=0.5, logit_scale=0.25, embedding_scale=3.0),
    "layer_norm_biases": BASE.changed(
        norm="layer", norm_bias=True, output_bias=True, mlp_bias=True, parallel_residual=True, logit_bias=True
    ),
}


def build(name: str) -> Decoder:
    if name in CONFIGS:
        return make(name)
    model = Decoder(VARIANTS[name])
    generator = torch.Generator().manual_seed(3)
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name or "bias" in parameter_name:
            torch.nn.init.normal_(parameter, mean=1.0, generator=generator)
    return model


@pytest.mark.parametrize("name", VARIANTS)
def test_direct_parts_add_up_to_the_logit(name: str) -> None:
    model = build(name)
    trace = append(model, capture(model, random_ids(8)), 4)
    for row, token in ((8, 3), (2, 40)):
        expected = trace.logits_of(row)
        assert expected is not None
        found = direct_attribution(model, trace, row, token)
        assert found.logit == pytest.approx(float(expected[0, token]), abs=1e-4)
        parts = found.heads.sum() + found.mlps.sum() + found.embedding + found.rest
        assert parts == pytest.approx(found.logit, abs=1e-5)
        if not name.startswith("layer_norm"):
            assert found.rest == pytest.approx(0.0, abs=1e-4), "a model without biases has nothing left over"


@pytest.mark.parametrize("name", ["plain", "window", "dynamic", "some_layers_without_rope"])
def test_needs_are_those_of_a_run_without_the_head(name: str) -> None:
    model, ids = make(name), random_ids(8)
    trace = capture(model, ids, interventions=[ScaleScores(2.0)])
    needs = finished(head_needs_steps(model, trace, 6, 11))
    clean = trace.logits_of(6)
    assert clean is not None
    assert needs.logit == pytest.approx(float(clean[0, 11]), abs=1e-5)
    for layer, head in ((0, 0), (1, 3), (2, 2)):
        without = capture(model, ids, interventions=[ScaleScores(2.0), AblateHeads(layer, (head,))]).logits_of(6)
        assert without is not None
        assert needs.change[layer, head] == pytest.approx(float(without[0, 11] - clean[0, 11]), abs=1e-4)


@pytest.mark.parametrize("name", ["plain", "window", "dynamic", "some_layers_without_rope"])
def test_the_logits_without_heads_are_those_of_a_model_without_their_columns_of_w_o(name: str) -> None:
    model, ids = make(name), random_ids(8)
    trace = capture(model, ids)
    silenced = {0: (1,), 2: (0, 3)}
    interventions = [AblateHeads(layer, heads) for layer, heads in silenced.items()]
    found = finished(logits_under_steps(model, trace, 6, interventions))
    without, width = make(name), model.config.head_width
    with torch.no_grad():
        for layer, heads in silenced.items():
            for head in heads:
                without.block(layer).attn.output.weight[:, head * width : (head + 1) * width] = 0
        expected = without(ids)[0, 6]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    clean = trace.logits_of(6)
    assert clean is not None
    assert not torch.allclose(found, clean[0], atol=1e-3)
    torch.testing.assert_close(finished(logits_under_steps(model, trace, 6, ())), clean[0], rtol=0, atol=1e-4)


def test_progress_and_giving_up() -> None:
    model = make("plain")
    steps = head_needs_steps(model, capture(model, random_ids(5)), 4, 1)
    assert [next(steps).done, next(steps).total] == [1, 12]
    steps.close()
    with torch.no_grad():
        assert torch.equal(model(random_ids(5)), make("plain")(random_ids(5)))


def test_a_padded_prompt_needs_what_it_needs_alone() -> None:
    model, ids = make("plain"), random_ids(8)
    alone = finished(head_needs_steps(model, capture(model, ids), 6, 11))
    padding = torch.ones(2, 10, dtype=torch.bool)
    padding[1, 8:] = False
    both = torch.cat((random_ids(10), torch.nn.functional.pad(ids, (0, 2))))
    needs = finished(head_needs_steps(model, capture(model, both, padding=padding), 6, 11, batch=1))
    assert needs.logit == pytest.approx(alone.logit, abs=1e-5)
    assert needs.change == pytest.approx(alone.change, abs=1e-5)
