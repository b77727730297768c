"""The logit lens against plain numpy: the stream that hooks see, the last norm, the head, the softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ropewalk.model.decoder.config import RopeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture as recording
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    Intervention,
    NoCausalMask,
    PermuteTokens,
    RopeOff,
)
from ropewalk.model.decoder.norms import Norm
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Partial, finished
from ropewalk.model.readings import lens as lens_module
from ropewalk.model.readings.lens import lens_steps, logit_lens
from ropewalk.model.readings.records import LogitLens, TokenText
from ropewalk.model.runs.trace import Trace, append, capture, replay
from tests.model.small_models import BASE, random_ids

Array = NDArray[np.float64]

VARIANTS = {
    "untied": BASE,
    "tied": BASE.changed(tied=True),
    "final soft cap": BASE.changed(logit_cap=2.0),
    "tied, scaled, soft cap": BASE.changed(tied=True, logit_scale=0.25, embedding_scale=3.0, logit_cap=1.5),
    "norm offset": BASE.changed(norm_offset=1.0),
    "norms on both sides": BASE.changed(norm_place="both", residual_scale=0.5),
    "norms after": BASE.changed(norm_place="post", final_norm=False),
    "parallel, LayerNorm, biases": BASE.changed(
        norm="layer", norm_bias=True, output_bias=True, mlp_bias=True, parallel_residual=True, logit_bias=True
    ),
    "window, learned places": BASE.changed(window=4, position="learned", rope=None),
    "dynamic": BASE.changed(rope=RopeConfig(scaling="dynamic", factor=2.0, original_max_position=8)),
}


def build(name: str) -> Decoder:
    model = Decoder(VARIANTS[name], seed=2).eval()
    generator = torch.Generator().manual_seed(3)
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name or "bias" in parameter_name:
            torch.nn.init.normal_(parameter, mean=1.0, std=0.3, generator=generator)
    return model


def streams(model: Decoder, ids: torch.Tensor, interventions: Sequence[Intervention] = ()) -> Array:
    """[L + 1, S, D]: what hooks see of the first prompt of a batch while it runs."""
    names = ["hook_embed", *(f"blocks.{layer}.hook_resid_post" for layer in range(model.config.layers))]
    with recording(model, names) as record:
        capture(model, ids, interventions=interventions)
    return np.stack([record[name][0].double().numpy() for name in names])


def normed(norm: torch.nn.Module, x: Array) -> Array:
    """The last norm in numpy."""
    if not isinstance(norm, Norm):
        return x
    if norm.kind == "layer":
        x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + norm.eps)
    if norm.weight is not None:
        x = x * (norm.weight.detach().double().numpy() + norm.offset)
    return x if norm.bias is None else x + norm.bias.detach().double().numpy()


def chances_of(model: Decoder, x: Array) -> Array:
    """[..., V] of streams [..., D]."""
    c = model.config
    matrix = (model.embed if c.tied else model.head).weight.detach().double().numpy()
    logits = normed(model.norm, x) @ matrix.T
    if model.head.bias is not None:
        logits = logits + model.head.bias.detach().double().numpy()
    logits = logits * c.logit_scale
    if c.logit_cap is not None:
        logits = c.logit_cap * np.tanh(logits / c.logit_cap)
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result


def hold(lens: LogitLens, chances: Array, ids: list[int]) -> None:
    """Compare a lens with distributions [L + 1, n, V]; ``ids`` are its rows' and the next one's, where there is one."""
    n = lens.rows[1] - lens.rows[0]
    assert lens.top.shape == (chances.shape[0], n, 5)
    named = np.take_along_axis(chances, lens.top, axis=-1)
    assert np.allclose(lens.probabilities, named, atol=1e-6)
    assert np.allclose(lens.probabilities, -np.sort(-chances, axis=-1)[..., :5], atol=1e-6)
    assert np.allclose(lens.entropy, -(chances * np.log(chances)).sum(-1), atol=1e-5)
    last = np.broadcast_to(lens.top[-1:, :, :1], (*lens.top.shape[:2], 1))
    assert np.allclose(lens.final, np.take_along_axis(chances, last, axis=-1)[..., 0], atol=1e-6)
    for place, token in enumerate(ids[1 : n + 1]):
        assert np.allclose(lens.actual[:, place], chances[:, place, token], atol=1e-6)
        apart = chances[:, place] - chances[:, place, token, None]
        least, most = 1 + (apart > 1e-6).sum(-1), (apart > -1e-6).sum(-1)  # itself is among those that are alike
        assert ((least <= lens.rank[:, place]) & (lens.rank[:, place] <= most)).all()
    if len(ids) == n:
        assert np.isnan(lens.actual[:, -1]).all()
        assert not lens.rank[:, -1].any()


@pytest.mark.parametrize("name", VARIANTS)
def test_every_place_of_the_stream_is_read_with_the_models_own_norm_and_head(name: str) -> None:
    model, ids = build(name), random_ids(12)
    trace = capture(model, ids)
    lens = logit_lens(model, trace)
    assert lens.rows == (0, 12)
    hold(lens, chances_of(model, streams(model, ids)), ids[0].tolist())


@pytest.mark.parametrize("name", VARIANTS)
def test_the_last_place_is_the_models_output(name: str) -> None:
    model = build(name)
    trace = append(model, append(model, capture(model, random_ids(12)), 7), 31)
    lens = logit_lens(model, trace)
    for row in range(trace.length):
        logits = trace.logits_of(row)
        assert logits is not None
        expected = logits[0].double().softmax(-1).topk(5)
        assert np.allclose(lens.probabilities[-1, row], expected.values.numpy(), atol=1e-5)
        assert lens.top[-1, row, 0] == expected.indices[0]
    assert np.array_equal(lens.final[-1], lens.probabilities[-1, :, 0])


@pytest.mark.parametrize(
    "changed",
    [
        [AblateHeads(1, (0, 2)), AblateMlp(0)],
        [RopeOff()],
        [NoCausalMask()],
        [PermuteTokens((2, 1, 0))],
    ],
    ids=lambda changed: changed[0].label,
)
def test_interventions_of_the_run_are_kept(changed: list[Intervention]) -> None:
    model, ids = build("untied"), random_ids(12)
    trace = capture(model, ids, interventions=changed)
    chances = chances_of(model, streams(model, ids, changed))
    hold(logit_lens(model, trace), chances, ids[0].tolist())
    if not isinstance(changed[0], PermuteTokens):  # which the caller applies to the ids
        assert not np.allclose(chances[-1], chances_of(model, streams(model, ids))[-1], atol=1e-3)


@pytest.mark.parametrize("name", ["untied", "dynamic"])
def test_decoded_rows_are_read_as_they_were_decoded(name: str) -> None:
    model = build(name)
    trace = capture(model, random_ids(7))
    for token in (3, 44, 9):
        trace = append(model, trace, token)
    names = ["hook_embed", *(f"blocks.{layer}.hook_resid_post" for layer in range(3))]
    lens = logit_lens(model, trace, (5, 10))
    assert trace.ids is not None
    replayed = [replay(model, trace, row, names).points for row in range(5, 10)]
    stream = np.stack([[points[name][0, 0].double().numpy() for points in replayed] for name in names])
    hold(lens, chances_of(model, stream), trace.ids[0, 5:].tolist())


def test_a_padded_prompt_of_a_batch_says_what_it_says_alone() -> None:
    model, ids = build("tied"), random_ids(8)
    padding = torch.ones(2, 10, dtype=torch.bool)
    padding[1, 8:] = False
    both = torch.cat((random_ids(10, seed=5), torch.nn.functional.pad(ids, (0, 2))))
    found = logit_lens(model, capture(model, both, padding=padding), (0, 7), batch=1)
    hold(found, chances_of(model, streams(model, ids))[:, :7], ids[0].tolist())


def test_rows_come_in_parts_that_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lens_module, "ROWS", 5)
    monkeypatch.setattr(lens_module, "MOST_NUMBERS", 100)  # two rows of this vocabulary
    model, trace = build("untied"), capture(build("untied"), random_ids(14))
    sizes: list[int] = []
    finish = model.finish

    def watched(x: torch.Tensor) -> torch.Tensor:
        sizes.append(x.shape[1])
        return finish(x)

    monkeypatch.setattr(model, "finish", watched)
    steps = lens_steps(model, trace, {9: TokenText(9, "nine")}, (1, 13))
    parts: list[LogitLens] = []
    try:
        while True:
            point = next(steps)
            if isinstance(point, Partial):
                assert isinstance(point.reading, LogitLens)
                parts.append(point.reading)
    except StopIteration as stop:
        whole: LogitLens = stop.value
    assert [part.rows for part in parts] == [(1, 6), (6, 11), (11, 13)]
    assert max(sizes) == 2
    monkeypatch.undo()
    expected = logit_lens(model, trace, (1, 13))
    for name in ("top", "probabilities", "entropy", "final", "actual", "rank"):
        joined = np.concatenate([getattr(part, name) for part in parts], axis=1)
        assert np.array_equal(getattr(whole, name), joined)
        assert np.allclose(getattr(whole, name), getattr(expected, name), atol=1e-6), name
    shown = {token.id: token.text for token in whole.tokens}
    assert shown.keys() == set(whole.top.ravel().tolist())
    assert all(text == ("nine" if number == 9 else f"#{number}") for number, text in shown.items())


def test_what_cannot_be_read_is_refused() -> None:
    model = build("untied")
    trace: Trace = capture(model, random_ids(4))
    with pytest.raises(TraceError, match="Rows 2 to 9 were asked for, but this run has 4 rows"):
        logit_lens(model, trace, (2, 9))
    vectors = capture(model, torch.randn(1, 4, 32, generator=torch.Generator().manual_seed(0)))
    with pytest.raises(TraceError, match="given vectors, not tokens"):
        finished(lens_steps(model, vectors, {}))
