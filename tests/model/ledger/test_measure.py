"""Measurements of tiny random models: sound ones pass every check of the ledger, broken ones fail the right one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ropewalk.model.decoder import attention
from ropewalk.model.decoder.attention import Attended
from ropewalk.model.decoder.cache import KvCache, Rows
from ropewalk.model.decoder.config import Branch, ModelConfig, MoeConfig, RopeConfig
from ropewalk.model.decoder.decoder import Decoder, MoeMlp
from ropewalk.model.decoder.hooks import hook_points, intervening
from ropewalk.model.decoder.intervention_contexts import changed_block
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    AblatePlane,
    Intervention,
    NoCausalMask,
    NoScale,
    ReadKvHead,
    RopeBase,
    RopeOff,
    ScaleScores,
)
from ropewalk.model.decoder.products import Linear
from ropewalk.model.decoder.rope import rotate
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.errors import TraceError
from ropewalk.model.ledger.ledger import ShapeLedger, build_ledger, checked
from ropewalk.model.ledger.measurement import measure, measure_call, measure_steps, sampled
from ropewalk.model.ledger.observation import watch_call
from ropewalk.model.ledger.reference import relative
from ropewalk.model.ledger.weight_shapes import block_of, measure_weights
from ropewalk.model.runs.trace import append, capture
from tests.model.small_models import make, random_ids

IDS = [3, 1, 4, 1, 5, 9]


def config(**changes: Any) -> ModelConfig:
    values: dict[str, Any] = {
        "vocabulary": 32,
        "width": 24,
        "layers": 2,
        "heads": 6,
        "kv_heads": 2,
        "head_width": 4,
        "mlp_width": 20,
        "max_position": 64,
    }
    return ModelConfig(**(values | changes))


SOUND = {
    "plain": config(),
    "qk-norm": config(qk_norm="head", tied=True),
    "qk-norm of everything": config(qk_norm="full", norm_place="post"),
    "qk-norm of each head, late": config(qk_norm="heads", qk_norm_after_rope=True, qk_norm_kind="layer"),
    "partial, adjacent": config(rope=RopeConfig(width=2, pairing="adjacent")),
    "yarn": config(rope=RopeConfig(scaling="yarn", factor=4.0, original_max_position=16)),
    "dynamic": config(rope=RopeConfig(scaling="dynamic", factor=2.0, original_max_position=4)),
    "no rope here": config(rope_layers=(True, False), qk_norm="head"),
    "window and sinks": config(window=3, sink=True),
    "capped": config(score_cap=5.0, norm_place="both", norm_offset=1.0, embedding_scale=3.0, logit_cap=30.0),
    "parallel": config(parallel_residual=True, shared_norm=True, mlp="plain", mlp_bias=True, output_bias=True),
    "learned": config(position="learned", norm="layer", norm_bias=True, query_bias=True, logit_bias=True),
    "sinusoidal": config(position="sinusoidal", residual_scale=0.5),
    "mixture": config(moe=MoeConfig(experts=4, per_token=2, width=8, shared_width=6, shared_gate=True)),
    "plain experts": config(mlp="plain", moe=MoeConfig(experts=4, per_token=1, width=8)),
    "clipped, with β": config(qkv_clip=0.5, qk_norm="head", qk_norm_bias=True),
    "cut off": config(mlp_limit=1.0, up_offset=1.0, moe=MoeConfig(experts=4, per_token=2, width=8, router_bias=True)),
    "learned activation": config(mlp="plain", activation="xielu"),
    "nothing learned in norms": config(norm_gain=False, final_norm=False),
}


def ledger_of(model: Decoder, rows: int, past: int, branch: Branch = "fused", batch: int = 1) -> ShapeLedger:
    return build_ledger(model.config, 1, batch, rows, past, "float32", "cpu", branch)


def failures(ledger: ShapeLedger) -> list[str]:
    return [f"{entry.key}: {entry.check.found}" for entry in ledger.failed if entry.check is not None]


def failed(ledger: ShapeLedger) -> set[str]:
    return {entry.key for entry in ledger.failed}


# Sound models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("branch", ["fused", "explicit"])
def test_a_sound_model_passes_every_check(name: str, branch: Branch) -> None:
    model = Decoder(SOUND[name], seed=1)
    trace = append(model, capture(model, IDS, branch=branch), 7)
    prefill = trace.at(trace.prefill)
    at_prefill = checked(ledger_of(model, 6, 0, branch), measure(model, prefill, 1, rows=6))
    at_step = checked(ledger_of(model, 1, 6, branch), measure(model, trace, 1))
    for ledger in (at_prefill, at_step):
        assert failures(ledger) == []
        undecided = {e.key for e in ledger.entries if e.check is not None and e.check.passed is None}
        assert undecided == set()


INTERVENTIONS: dict[str, tuple[Intervention, ...]] = {
    "no scale": (NoScale(),),
    "scores doubled here": (ScaleScores(2.0, 1),),
    "no rope": (RopeOff(),),
    "base": (RopeBase(500.0),),
    "no mask": (NoCausalMask(),),
    "heads to zero": (AblateHeads(1, (0, 4)),),
    "a head to a mean": (AblateHeads(1, (2,), ((1.0, 2.0, 3.0, 4.0),)),),
    "elsewhere": (AblateHeads(0, (0,)), AblateMlp(0)),
    "a plane": (AblatePlane(1, 3, 0),),
    "a plane to a mean": (AblatePlane(1, 2, 1, (0.5, -2.0)),),
    "mlp": (AblateMlp(1),),
    "another kv head": (ReadKvHead(1, 0, 1),),
    "all of it": (NoScale(), RopeBase(500.0), NoCausalMask(), AblateHeads(1, (5,)), ReadKvHead(1, 1, 1)),
}


@pytest.mark.parametrize("name", ["plain", "qk-norm of each head, late", "yarn"])
@pytest.mark.parametrize("changed", INTERVENTIONS)
def test_a_run_under_interventions_passes_every_check(name: str, changed: str) -> None:
    model = Decoder(SOUND[name], seed=1)
    trace = append(model, capture(model, IDS, interventions=INTERVENTIONS[changed]), 7)
    at_prefill = checked(ledger_of(model, 6, 0), measure(model, trace.at(6), 1, rows=6))
    at_step = checked(ledger_of(model, 1, 6), measure(model, trace, 1))
    for ledger in (at_prefill, at_step):
        assert failures(ledger) == []
        assert {e.key for e in ledger.entries if e.check is not None and e.check.passed is None} == set()


@pytest.mark.parametrize(("changed", "row"), [("heads to zero", "blend"), ("a plane", "rope_q")])
def test_a_change_that_the_run_does_not_tell_of_fails_its_row(changed: str, row: str) -> None:
    model = Decoder(SOUND["plain"], seed=1)
    trace = capture(model, IDS)
    with changed_block(model.block(1), 1, INTERVENTIONS[changed]):
        assert row in failed(checked(ledger_of(model, 6, 0), measure(model, trace, 1, rows=6)))
    assert not failed(checked(ledger_of(model, 6, 0), measure(model, trace, 1, rows=6)))


def test_a_scale_that_the_run_does_not_tell_of_fails_the_softmax() -> None:
    model = Decoder(SOUND["plain"], seed=1)
    unscaled, specs = capture(model, IDS, interventions=(NoScale(),)), capture(model, IDS).specs
    layers = tuple(replace(layer, spec=spec) for layer, spec in zip(unscaled, specs, strict=True))
    trace = replace(unscaled, interventions=(), layers=layers)
    assert "softmax" in failed(checked(ledger_of(model, 6, 0), measure(model, trace, 1, rows=6)))


@pytest.mark.parametrize("branch", ["fused", "explicit"])
def test_padding_and_a_batch(branch: Branch) -> None:
    model = Decoder(config(sink=True, window=4), seed=2)
    padding = torch.tensor([[False, False, True, True, True, True], [True] * 6])
    trace = capture(model, [IDS, IDS[::-1]], padding=padding, branch=branch)
    ledger = checked(ledger_of(model, 6, 0, branch, batch=2), measure(model, trace, 1, rows=6))
    assert failures(ledger) == []


def test_half_precision_passes_within_its_tolerance() -> None:
    model = Decoder(config(qk_norm="head"), seed=3).to(torch.bfloat16)
    trace = capture(model, IDS)
    ledger = build_ledger(model.config, 1, 1, 6, 0, "bfloat16")
    assert failures(checked(ledger, measure(model, trace, 1, rows=6))) == []


def test_shapes_are_met_where_the_ledger_predicts_them() -> None:
    model = Decoder(config(qk_norm="head"))
    points = watch_call(model, 0, torch.tensor([IDS]), branch="explicit").points
    assert points["split_q"].shape == (1, 6, 6, 4)
    assert points["cache_k"].shape == (1, 2, 6, 4)
    assert points["softmax"].shape == (1, 6, 6, 6)
    assert points["concatenate"].shape == (1, 6, 24)
    assert points["lm_head"].shape == (1, 6, 32)
    assert points["lm_head"].dtype == "float32"


def test_experts_are_counted_together() -> None:
    model = Decoder(config(moe=MoeConfig(experts=4, per_token=2, width=8)))
    points = watch_call(model, 0, torch.tensor([IDS])).points
    assert points["gate"].shape == points["activation"].shape == (12, 8)
    assert points["down"].shape == (12, 24)


def test_shapes_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = Decoder(config(heads=32, kv_heads=8, head_width=128, width=4096))
        measured = measure_call(watch_call(model, 1, torch.zeros(1, 10, dtype=torch.long)))
    assert measured.points["split_q"].shape == (1, 32, 10, 128)
    assert measured.points["o"].shape == (1, 10, 4096)
    assert measured.weight_sum_error is None
    ledger = checked(build_ledger(model.config, 1, 1, 10, device="meta"), measured)
    assert failures(ledger) == []


def test_weights_alone() -> None:
    with torch.device("meta"):
        model = Decoder(config(tied=True))
    measured = measure(model, None, 0)
    assert measured == measure_weights(model, 0)
    assert measured.tied is True
    assert measured.weights["q"].shape == (24, 24)
    assert measured.points == {}


def test_nothing_is_left_attached() -> None:
    model = Decoder(config())
    measure(model, capture(model, IDS), 0)
    assert all(not module._forward_hooks for module in model.modules())
    assert not any(point.is_watched for point in hook_points(model).values())


def test_measuring_leaves_the_trace_as_it_was() -> None:
    model = Decoder(config())
    trace = capture(model, IDS)
    before = trace[1].keys.tensor.clone()
    measure(model, trace, 1, rows=6)
    assert trace.length == 6
    assert torch.equal(trace[1].keys.tensor, before)


# Broken models ----------------------------------------------------------------------------------------------------


def test_an_untied_copy_is_found() -> None:
    model = Decoder(config(tied=True))
    model.head.weight = nn.Parameter(model.embed.weight.detach().clone())
    assert failed(checked(ledger_of(model, 6, 0), measure(model, None, 1))) == {"lm_head"}


def test_a_projection_of_the_wrong_height_is_found() -> None:
    model = Decoder(config())
    block_of(model, 1).attn.query = Linear(24, 20, bias=False)
    ledger = checked(ledger_of(model, 6, 0), measure(model, None, 1))
    assert failed(ledger) == {"q", "concatenate", "lm_head"}
    assert "W_Q's rows 20, W_O's columns 24" in failures(ledger)[0]


def broken_run(model: Decoder, branch: Branch = "fused") -> set[str]:
    """Run and measure a model that was broken; return the rows that fail."""
    trace = capture(model, IDS, branch=branch)
    return failed(checked(ledger_of(model, 6, 0, branch), measure(model, trace, 1, rows=6)))


def test_a_rotation_that_stretches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.model.decoder.attention.rotate", lambda x, *rest: 1.01 * rotate(x, *rest))
    assert broken_run(Decoder(config())) == {"rope_q", "rope_k"}


def test_a_cache_that_rotates_values_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = KvCache.append

    def turning(cache: KvCache, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return keep(cache, layer, key, value.roll(1, dims=-1))

    monkeypatch.setattr(KvCache, "append", turning)
    assert "cache_v" in broken_run(Decoder(config()))


def test_a_cache_that_keeps_keys_before_rope_is_found() -> None:
    model = Decoder(config())
    trace = capture(model, IDS)
    unturned = measure_call(watch_call(model, 1, torch.tensor([IDS])))
    assert unturned.key_error == 0.0
    with intervening(model, {"blocks.1.attn.hook_rot_k": lambda k: k.roll(1, dims=-1)}):
        measured = measure(model, trace, 1, rows=6)
    assert failed(checked(ledger_of(model, 6, 0), measured)) >= {"cache_k"}


def attends(
    change: Callable[[Tensor, Tensor, AttentionSpec], tuple[Tensor, Tensor, AttentionSpec]], branch: Branch
) -> Any:
    """The branch, but given changed keys, values or spec."""
    right = attention.BRANCHES[branch]

    def wrong(query: Tensor, key: Tensor, value: Tensor, spec: AttentionSpec, **rest: Any) -> Attended:
        return right(query, *change(key, value, spec), **rest)

    return wrong


@pytest.mark.parametrize("branch", ["fused", "explicit"])
def test_heads_that_read_the_wrong_kv_head_are_found(monkeypatch: pytest.MonkeyPatch, branch: Branch) -> None:
    swapped = attends(lambda k, v, spec: (k.flip(1), v.flip(1), spec), branch)
    monkeypatch.setitem(attention.BRANCHES, branch, swapped)
    rows = broken_run(Decoder(config()), branch)
    assert rows >= {"softmax", "blend"}
    assert ("scores" in rows) == (branch == "explicit")


@pytest.mark.parametrize("branch", ["fused", "explicit"])
def test_a_forgotten_mask_is_found(monkeypatch: pytest.MonkeyPatch, branch: Branch) -> None:
    blind = attends(lambda k, v, spec: (k, v, replace(spec, causal=False)), branch)
    monkeypatch.setitem(attention.BRANCHES, branch, blind)
    rows = broken_run(Decoder(config()), branch)
    assert rows >= {"softmax", "blend"}
    assert ("mask" in rows) == (branch == "explicit")


def test_a_forgotten_scale_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    unscaled = attends(lambda k, v, spec: (k, v, replace(spec, scale=1.0)), "explicit")
    monkeypatch.setitem(attention.BRANCHES, "explicit", unscaled)
    assert broken_run(Decoder(config()), "explicit") >= {"scores", "softmax", "blend"}


def test_a_trace_whose_log_sum_exp_is_off_is_found() -> None:
    model = Decoder(config())
    trace = capture(model, IDS)
    off = replace(trace, layers=tuple(replace(layer, lse=Rows.of(layer.lse.tensor + 0.1)) for layer in trace))
    assert failed(checked(ledger_of(model, 6, 0), measure(model, off, 1, rows=6))) == {"softmax"}


def test_a_qk_norm_with_another_epsilon_is_found() -> None:
    model = Decoder(config(qk_norm="head"))
    block_of(model, 1).attn.key_norm.norm.eps = 0.5
    assert broken_run(model) == {"k_norm"}


@pytest.mark.parametrize(("point", "row"), [("hook_resid_mid", "residual_mid"), ("hook_resid_post", "residual_post")])
def test_a_stream_that_changes_by_more_than_was_written_is_found(point: str, row: str) -> None:
    model = Decoder(config())
    with intervening(model, {f"blocks.1.{point}": lambda x: 1.1 * x}):
        assert broken_run(model) == {row}


def test_a_head_output_that_is_not_its_blend_is_found() -> None:
    model = Decoder(config())
    with intervening(model, {"blocks.1.attn.hook_z": torch.zeros_like}):
        assert broken_run(model) == {"blend"}


def test_an_expert_visited_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(mlp: MoeMlp, logits: Tensor) -> tuple[Tensor, Tensor]:
        best = logits.argmax(-1, keepdim=True).expand(-1, 2)
        return torch.full(best.shape, 0.5), best

    monkeypatch.setattr(MoeMlp, "choose", twice)
    assert broken_run(Decoder(config(moe=MoeConfig(experts=4, per_token=2, width=8)))) == {"router"}


# Refusals and small parts -----------------------------------------------------------------------------------------


def test_what_cannot_be_measured_is_refused() -> None:
    model = Decoder(config())
    trace = capture(model, IDS)
    with pytest.raises(TraceError, match="Layer 2 was asked for"):
        measure(model, trace, 2)
    with pytest.raises(TraceError, match="7 rows were to be run again"):
        measure(model, trace, 0, rows=7)
    with pytest.raises(TraceError, match="vectors"):
        measure(model, capture(model, torch.zeros(1, 3, 24)), 0)


def test_relative_errors() -> None:
    one = torch.tensor([1.0, -2.0])
    assert relative(one + 0.5, one) == 0.25
    assert relative(torch.tensor([0.5]), torch.tensor([0.0])) == 0.5
    assert relative(one, torch.zeros(3)) == float("inf")


def test_sampled_rows_have_both_ends() -> None:
    assert sampled(4, 9).tolist() == [0, 1, 2, 3]
    assert sampled(101, 3).tolist() == [0, 50, 100]
    assert sampled(9, 0).tolist() == [0, 8]
    assert sampled(1, 0).tolist() == [0]


def test_a_run_is_measured_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.model.progress.Watch.over", True)
    model = make("plain")
    trace = capture(model, random_ids(6))
    heads = [point.done for point in measure_steps(model, trace, 1)][1:]
    assert heads == list(range(model.config.heads))
