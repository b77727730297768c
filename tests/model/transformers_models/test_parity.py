"""Models of many makes against themselves: the weights of their eager attention, their logits, their decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.model.errors import TraceError
from ropewalk.model.runs.trace import Trace
from ropewalk.model.transformers_models.model import TransformersModel
from tests.model.transformers_models.architectures import OTHERS, THEMSELVES, UNKNOWN, Own, own_numbers, tiny_model

BAR = 1e-5
TOKENS = 9
MAKES = [*UNKNOWN, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]


def make_ids(batch: int = 2, tokens: int = TOKENS) -> Tensor:
    return torch.randint(3, 60, (batch, tokens), generator=torch.Generator().manual_seed(1))


def check_weights(trace: Trace, own: Own, real: Tensor | None = None) -> None:
    """Compare every weight of real tokens' rows."""
    assert len(trace) == len(own.weights)
    for layer, theirs in zip(trace, own.weights, strict=True):
        for batch in range(trace.batch):
            rows = slice(None) if real is None else real[batch]
            far = (layer.weights(batch=batch) - theirs[batch])[:, rows].abs().max()
            assert float(far) < BAR, (layer.spec, float(far))


def check_logits(ours: Tensor, theirs: Tensor, factor: float = 1.0) -> None:
    assert float((ours - theirs).abs().max()) <= factor * BAR * max(float(theirs.abs().max()), 1.0)


def as_given(model: Any, ids: Tensor, padding: Tensor | None = None) -> dict[str, Any]:
    """What the model's own ``forward`` is given for the same run."""
    given: dict[str, Any] = {}
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = ids
    if padding is not None:
        given["attention_mask"] = padding.long()
        if model.config.is_encoder_decoder:
            given["decoder_attention_mask"] = padding.long()
    return given


@pytest.mark.parametrize("name", MAKES)
def test_weights_and_logits_are_the_models_own(name: str) -> None:
    model, ids = tiny_model(name), make_ids()
    ours = TransformersModel(model)
    trace = ours.capture(ids)
    own = own_numbers(model, ids, **as_given(model, ids))
    check_weights(trace, own)
    assert trace.logits is not None
    check_logits(trace.logits.tensor[:, 0], own.logits, factor=0.0)  # the same operations
    assert len({layer.spec.heads for layer in trace}) == 1
    assert trace.config.layers == len(trace)

    padding = torch.ones_like(ids, dtype=torch.bool)
    padding[1, :3] = False
    trace = ours.capture(ids, padding=padding)
    given = as_given(model, ids, padding)
    if ours.takes("position_ids"):
        given["position_ids"] = trace.positions
    own = own_numbers(model, ids, **given)
    check_weights(trace, own, padding)
    assert trace.logits is not None
    assert torch.equal(trace.logits.tensor[:, 0][padding], own.logits[padding])


@pytest.mark.parametrize("name", MAKES)
def test_decoding_goes_on_with_the_models_own_cache(name: str) -> None:
    ids = make_ids()
    ours = TransformersModel(tiny_model(name))
    prompt = ours.capture(ids)
    trace = prompt
    for step in range(4):
        trace = ours.append(trace, [5 + step, 6])
    branched = ours.append(trace.at(TOKENS + 2), [20, 21])
    assert [trace.length, branched.length, prompt.length] == [TOKENS + 4, TOKENS + 3, TOKENS]
    for decoded in (trace, branched):
        assert decoded.ids is not None
        whole = ours.capture(decoded.ids, inputs=prompt.inputs)
        for layer, other in zip(decoded, whole, strict=True):
            assert (layer.spec, layer.mask is None) == (other.spec, other.mask is None)
            for batch in range(2):
                assert float((layer.weights(batch=batch) - other.weights(batch=batch)).abs().max()) < 3 * BAR
        assert decoded.logits is not None
        assert whole.logits is not None
        check_logits(decoded.logits.tensor, whole.logits.tensor, factor=3.0)


@pytest.mark.parametrize("name", THEMSELVES)
def test_a_model_that_computes_attention_itself_is_refused_by_name(name: str) -> None:
    model = tiny_model(name)
    with pytest.raises(TraceError, match=f"^{type(model).__name__} computes its attention itself, not through"):
        TransformersModel(model)
