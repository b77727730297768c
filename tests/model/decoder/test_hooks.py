"""Hook points: where they are, what may be done there, and that nothing stays attached."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder.config import ModelConfig, MoeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture, hook_points, intervening, watching
from ropewalk.model.errors import HookError
from tests.closeness import assert_close, terms_of

IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
B, T, H, HKV, DH, D, V, E = 2, 5, 4, 2, 8, 16, 20, 3


def decoder(**changes: Any) -> Decoder:
    c = ModelConfig(vocabulary=V, width=D, layers=2, heads=H, kv_heads=HKV, head_width=DH, mlp_width=24)
    return Decoder(c.changed(**changes)).requires_grad_(False)


PLAIN = {"hook_q", "hook_k", "hook_v", "hook_attn_scores", "hook_pattern", "hook_lse", "hook_z", "hook_result"}
NORMED = {"hook_q_normed", "hook_k_normed"}
TURNED = {"hook_rot_q", "hook_rot_k"}
ROUTED = {"hook_router_logits", "hook_expert_index"}
STREAM = {"hook_resid_pre", "hook_resid_mid", "hook_resid_post", "hook_attn_out", "hook_mlp_out"}


@pytest.mark.parametrize(
    ("changes", "attention", "mlp"),
    [
        ({}, PLAIN | TURNED, set()),
        ({"qk_norm": "head"}, PLAIN | TURNED | NORMED, set()),
        ({"position": "none"}, PLAIN, set()),
        ({"position": "learned", "qk_norm": "full"}, PLAIN | NORMED, set()),
        ({"moe": MoeConfig(E, 1, 8)}, PLAIN | TURNED, ROUTED),
        ({"parallel_residual": True, "norm_place": "both"}, PLAIN | TURNED, set()),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else str(value),
)
def test_points_are_exactly_where_the_config_has_them(
    changes: dict[str, Any], attention: set[str], mlp: set[str]
) -> None:
    expected = {"hook_embed", "hook_final"}
    for layer in range(2):
        expected |= {f"blocks.{layer}.{name}" for name in STREAM}
        expected |= {f"blocks.{layer}.attn.{name}" for name in attention}
        expected |= {f"blocks.{layer}.mlp.{name}" for name in mlp}
    assert set(hook_points(decoder(**changes))) == expected


def test_a_layer_has_only_its_own_points() -> None:
    points = hook_points(decoder(rope_layers=(True, False), moe=MoeConfig(E, 1, 8, layers=(False, True))))
    assert "blocks.0.attn.hook_rot_q" in points
    assert "blocks.1.attn.hook_rot_q" not in points
    assert "blocks.0.mlp.hook_router_logits" not in points
    assert "blocks.1.mlp.hook_router_logits" in points


SHAPES = {
    "hook_embed": (B, T, D),
    "blocks.1.hook_resid_pre": (B, T, D),
    "blocks.1.attn.hook_q": (B, H, T, DH),
    "blocks.1.attn.hook_k": (B, HKV, T, DH),
    "blocks.1.attn.hook_v": (B, HKV, T, DH),
    "blocks.1.attn.hook_q_normed": (B, H, T, DH),
    "blocks.1.attn.hook_k_normed": (B, HKV, T, DH),
    "blocks.1.attn.hook_rot_q": (B, H, T, DH),
    "blocks.1.attn.hook_rot_k": (B, HKV, T, DH),
    "blocks.1.attn.hook_attn_scores": (B, H, T, T),
    "blocks.1.attn.hook_pattern": (B, H, T, T),
    "blocks.1.attn.hook_lse": (B, H, T),
    "blocks.1.attn.hook_z": (B, H, T, DH),
    "blocks.1.attn.hook_result": (B, T, H, D),
    "blocks.1.hook_attn_out": (B, T, D),
    "blocks.1.hook_resid_mid": (B, T, D),
    "blocks.1.mlp.hook_router_logits": (B * T, E),
    "blocks.1.mlp.hook_expert_index": (B * T, 2),
    "blocks.1.hook_mlp_out": (B, T, D),
    "blocks.1.hook_resid_post": (B, T, D),
    "hook_final": (B, T, D),
}


def test_every_point_passes_the_shape_it_is_known_for() -> None:
    model = decoder(qk_norm="head", moe=MoeConfig(E, 2, 8))
    with capture(model, SHAPES) as seen:
        model(IDS, branch="explicit")
    assert {name: tuple(x.shape) for name, x in seen.items()} == SHAPES
    assert next(iter(seen)) == "hook_embed"
    assert set(hook_points(model)) == set(SHAPES) | {name.replace("s.1.", "s.0.") for name in SHAPES}


def test_the_fused_branch_makes_no_matrices_to_see() -> None:
    model = decoder()
    with capture(model, ["blocks.0.attn.hook_pattern", "blocks.0.attn.hook_lse"]) as seen:
        model(IDS)
    assert list(seen) == ["blocks.0.attn.hook_lse"]


def test_the_stream_adds_up() -> None:
    model = decoder()
    names = [
        name for name in hook_points(model) if name.startswith("blocks.0.hook") or name.endswith("0.attn.hook_result")
    ]
    with capture(model, names) as seen:
        model(IDS)
    x = {name.removeprefix("blocks.0."): tensor for name, tensor in seen.items()}
    torch.testing.assert_close(x["hook_resid_pre"] + x["hook_attn_out"], x["hook_resid_mid"])
    torch.testing.assert_close(x["hook_resid_mid"] + x["hook_mlp_out"], x["hook_resid_post"])
    torch.testing.assert_close(x["attn.hook_result"].sum(2), x["hook_attn_out"])  # W_O has no bias here


def test_watching_changes_nothing() -> None:
    model = decoder()
    plain = model(IDS)
    with capture(model, hook_points(model)):
        assert len(attached(model)) == len(hook_points(model))
        assert_close(model(IDS), plain, terms_of(width=4 * D, layers=2))


CHANGEABLE = [
    "hook_embed",
    "hook_final",
    *[f"blocks.1.{name}" for name in sorted(STREAM)],
    *[
        f"blocks.1.attn.{name}"
        for name in sorted((PLAIN | TURNED | NORMED) - {"hook_attn_scores", "hook_pattern", "hook_lse", "hook_result"})
    ],
    "blocks.1.mlp.hook_router_logits",
]


@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_change_reaches_the_logits(name: str) -> None:
    model = decoder(qk_norm="head", moe=MoeConfig(E, 2, 8))
    plain = model(IDS)
    with intervening(model, {name: lambda x: x.flip(-1)}):
        changed = model(IDS)
    assert not torch.allclose(plain, changed, atol=1e-3)
    assert torch.equal(model(IDS), plain)


@pytest.mark.parametrize("name", ["attn.hook_attn_scores", "attn.hook_pattern", "attn.hook_lse", "attn.hook_result"])
def test_a_read_only_point_cannot_be_changed(name: str) -> None:
    model = decoder()
    change = intervening(model, {"blocks.0.attn.hook_q": torch.neg, f"blocks.0.{name}": torch.neg})
    with pytest.raises(HookError, match=f"'blocks.0.{name}' can be read but not changed"), change:
        raise AssertionError("nothing runs under a refused change")
    assert attached(model) == []


@pytest.mark.parametrize("inner", ["capture", "change"])
def test_capture_sees_what_was_used_whichever_was_attached_first(inner: str) -> None:
    model = decoder()
    name = "blocks.0.attn.hook_v"
    zeroed = intervening(model, {name: torch.zeros_like})
    if inner == "capture":
        with zeroed, capture(model, [name, "blocks.0.attn.hook_z"]) as seen:
            model(IDS)
    else:
        with capture(model, [name, "blocks.0.attn.hook_z"]) as seen, zeroed:
            model(IDS)
    assert not seen[name].any()
    assert not seen["blocks.0.attn.hook_z"].any()


def test_of_two_changes_the_inner_one_runs_first() -> None:
    model = decoder()
    name = "blocks.0.hook_mlp_out"
    with (
        intervening(model, {name: lambda x: x + 1}),
        intervening(model, {name: torch.zeros_like}),
        capture(model, [name]) as seen,
    ):
        model(IDS)
    assert torch.equal(seen[name], torch.ones(B, T, D))


def attached(model: Decoder) -> list[str]:
    return [name for name, point in hook_points(model).items() if point.is_watched]


class Halt(Exception):
    pass


def halting(x: Tensor) -> None:
    raise Halt


def test_nothing_stays_attached_after_an_exception_in_the_pass() -> None:
    model = decoder()
    everything, halt = capture(model, hook_points(model)), watching(model, {"blocks.1.attn.hook_k": halting})
    with pytest.raises(Halt), everything as seen, halt:
        model(IDS)
    assert attached(model) == []
    assert "blocks.0.hook_resid_post" in seen
    assert "blocks.1.attn.hook_v" not in seen


def test_nothing_stays_attached_when_a_name_is_unknown() -> None:
    model = decoder()
    with pytest.raises(HookError), capture(model, ["hook_embed", "nowhere"]):
        raise AssertionError("nothing runs under an unknown name")
    assert attached(model) == []


def test_a_change_of_shape_is_refused_with_both_shapes() -> None:
    model = decoder()
    with (
        pytest.raises(HookError, match=r"returned shape \(2, 4, 4, 8\), but \(2, 4, 5, 8\)"),
        intervening(model, {"blocks.0.attn.hook_q": lambda x: x[:, :, 1:]}),
    ):
        model(IDS)
    assert attached(model) == []


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("blocks.0.attn.hook_querry", "blocks.0.attn.hook_"),
        ("blocks.1.attn.hook_rot_Q", "blocks.1.attn.hook_rot_q"),
        ("block.1.hook_mlp_out", "blocks.1.hook_mlp_out"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(asked: str, nearest: str) -> None:
    with pytest.raises(HookError, match=f"named '{asked}'.*Did you mean '{nearest}"), capture(decoder(), [asked]):
        pass


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(HookError) as refusal, capture(decoder(), ["???"]):
        pass
    assert "Did you mean" not in refusal.value.sentence


def test_a_captured_tensor_carries_no_graph() -> None:
    model = decoder().requires_grad_(True)
    with capture(model, ["blocks.0.hook_resid_post"]) as seen:
        model(IDS)
    assert not seen["blocks.0.hook_resid_post"].requires_grad


def test_ablating_a_heads_z_removes_its_result() -> None:
    model = decoder()
    with capture(model, ["blocks.0.attn.hook_result", "blocks.0.hook_attn_out"]) as plain:
        model(IDS)

    def without_head_2(z: Tensor) -> Tensor:
        return z.index_fill(1, torch.tensor([2]), 0.0)

    with (
        intervening(model, {"blocks.0.attn.hook_z": without_head_2}),
        capture(model, ["blocks.0.hook_attn_out"]) as ablated,
    ):
        model(IDS)
    lost = plain["blocks.0.hook_attn_out"] - ablated["blocks.0.hook_attn_out"]
    torch.testing.assert_close(lost, plain["blocks.0.attn.hook_result"][:, :, 2])
