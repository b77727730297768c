"""The shape ledger: rows and numbers by hand, every knob of the config, and checks that fail when they should."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ropewalk.model.decoder.config import Branch, ModelConfig, MoeConfig, RopeConfig
from ropewalk.model.decoder.costs import Flops, forward_flops, layer_flops, linear_flops, parameters
from ropewalk.model.errors import ConfigError, PositionError
from ropewalk.model.ledger.ledger import Check, Measured, Seen, ShapeLedger, build_ledger, checked


def config(**changes: Any) -> ModelConfig:
    values: dict[str, Any] = {
        "vocabulary": 32,
        "width": 12,
        "layers": 2,
        "heads": 3,
        "kv_heads": 3,
        "head_width": 4,
        "mlp_width": 20,
    }
    return ModelConfig(**(values | changes))


LLAMA = ModelConfig(vocabulary=128_256, width=4096, layers=32, heads=32, kv_heads=8, head_width=128, mlp_width=14_336)

PLAIN_ROWS = [
    "embedding",
    "attn_norm",
    "q",
    "k",
    "v",
    "split_q",
    "split_k",
    "split_v",
    "rope_q",
    "rope_k",
    "cache_k",
    "cache_v",
    "shared",
    "scores",
    "mask",
    "softmax",
    "blend",
    "concatenate",
    "o",
    "residual_mid",
    "mlp_norm",
    "gate",
    "up",
    "activation",
    "down",
    "residual_post",
    "final_norm",
    "lm_head",
]


def keys(ledger: ShapeLedger) -> list[str]:
    return [entry.key for entry in ledger.entries]


def shapes(ledger: ShapeLedger) -> dict[str, tuple[int, ...]]:
    return {entry.key: entry.shape for entry in ledger.entries}


def check_of(ledger: ShapeLedger, key: str) -> Check:
    check = ledger.entry(key).check
    assert check is not None
    return check


# Shapes by hand ---------------------------------------------------------------------------------------------------


def test_every_shape_of_a_layer_of_width_4096() -> None:
    # D 4096, H 32, Hkv 8, Dh 128, T 10: every shape from (1, 10, 4096) back to (1, 10, 4096).
    ledger = build_ledger(LLAMA, layer=3, tokens=10)
    assert keys(ledger) == PLAIN_ROWS
    assert shapes(ledger) == {
        "embedding": (1, 10, 4096),
        "attn_norm": (1, 10, 4096),
        "q": (1, 10, 4096),
        "k": (1, 10, 1024),
        "v": (1, 10, 1024),
        "split_q": (1, 32, 10, 128),
        "split_k": (1, 8, 10, 128),
        "split_v": (1, 8, 10, 128),
        "rope_q": (1, 32, 10, 128),
        "rope_k": (1, 8, 10, 128),
        "cache_k": (1, 8, 10, 128),
        "cache_v": (1, 8, 10, 128),
        "shared": (1, 32, 10, 128),
        "scores": (1, 32, 10, 10),
        "mask": (10, 10),
        "softmax": (1, 32, 10, 10),
        "blend": (1, 32, 10, 128),
        "concatenate": (1, 10, 4096),
        "o": (1, 10, 4096),
        "residual_mid": (1, 10, 4096),
        "mlp_norm": (1, 10, 4096),
        "gate": (1, 10, 14_336),
        "up": (1, 10, 14_336),
        "activation": (1, 10, 14_336),
        "down": (1, 10, 4096),
        "residual_post": (1, 10, 4096),
        "final_norm": (1, 10, 4096),
        "lm_head": (1, 10, 128_256),
    }


def test_weights_parameters_flops_and_bytes_of_that_layer() -> None:
    ledger = build_ledger(LLAMA, tokens=10, dtype="bfloat16")
    assert {key: ledger.entry(key).weight for key in ("q", "k", "v", "o", "gate", "down", "attn_norm")} == {
        "q": (4096, 4096),
        "k": (1024, 4096),
        "v": (1024, 4096),
        "o": (4096, 4096),
        "gate": (14_336, 4096),
        "down": (4096, 14_336),
        "attn_norm": (4096,),
    }
    assert ledger.entry("q").parameters == 16_777_216
    assert ledger.entry("k").parameters == 4_194_304
    assert ledger.entry("q").flops_full == ledger.entry("q").flops_causal == 2 * 10 * 4096 * 4096
    assert ledger.entry("scores").flops_full == 2 * 32 * 10 * 10 * 128
    assert ledger.entry("scores").flops_causal == 2 * 32 * 55 * 128
    assert ledger.entry("blend").flops_causal == ledger.entry("scores").flops_causal
    assert ledger.entry("rope_q").flops_full == 3 * 32 * 10 * 128
    assert ledger.entry("softmax").flops_causal == 5 * 32 * 55
    assert ledger.entry("q").bytes == 2 * 10 * 4096
    assert ledger.entry("cache_k").bytes == 2 * 8 * 10 * 128
    assert ledger.cache_bytes == 2 * 10 * 32 * 8 * 128 * 2
    assert ledger.model_parameters == 8_030_261_248
    assert ledger.model_weight_bytes == 2 * 8_030_261_248


def test_two_sequences_in_three_heads() -> None:
    # B 2, T 5, D 12, 3 heads: split Q 2×3×5×4, scores 2×3×5×5, concatenated 2×5×12, output 2×5×12.
    ledger = build_ledger(config(), batch=2, tokens=5)
    got = shapes(ledger)
    assert got["split_q"] == (2, 3, 5, 4)
    assert got["scores"] == (2, 3, 5, 5)
    assert got["concatenate"] == got["o"] == got["residual_post"] == (2, 5, 12)
    assert got["lm_head"] == (2, 5, 32)
    assert ledger.entry("scores").flops_full == 2 * 2 * 3 * 25 * 4
    assert ledger.entry("scores").flops_causal == 2 * 2 * 3 * 15 * 4
    assert ledger.entry("scores").would_cost_bytes == 2 * 3 * 25 * 4
    assert ledger.entry("mask").would_cost_bytes == 25


def test_a_decode_step_has_one_query_and_a_cache_that_grew() -> None:
    ledger = build_ledger(config(kv_heads=1), tokens=1, past=7)
    got = shapes(ledger)
    assert ledger.mode == "decode"
    assert ledger.keys == 8
    assert got["split_q"] == (1, 3, 1, 4)
    assert got["cache_k"] == (1, 1, 8, 4)
    assert got["scores"] == (1, 3, 1, 8)
    assert got["residual_post"] == (1, 1, 12)
    assert ledger.entry("scores").flops_full == ledger.entry("scores").flops_causal
    assert ledger.entry("concatenate").stored == "view"


def test_mode() -> None:
    assert build_ledger(config(), tokens=1).mode == "prefill"
    assert build_ledger(config(), tokens=2, past=3).mode == "prefill"


# The two branches -------------------------------------------------------------------------------------------------


def test_the_fused_branch_says_what_it_does_not_make_and_what_that_would_cost() -> None:
    fused = build_ledger(LLAMA.changed(max_position=32_768), tokens=32_768, dtype="bfloat16")
    for key in ("scores", "softmax"):
        row = fused.entry(key)
        assert (row.stored, row.bytes, row.would_cost_bytes) == ("not stored", 0, 64 * 2**30)
    assert (fused.entry("mask").stored, fused.entry("mask").bytes) == ("not stored", 0)
    assert fused.matrices_bytes == 2048 * 2**30


def test_the_explicit_branch_makes_them_in_float32() -> None:
    explicit = build_ledger(config(), tokens=5, dtype="bfloat16", branch="explicit")
    for key in ("scores", "softmax"):
        row = explicit.entry(key)
        assert (row.stored, row.dtype, row.bytes, row.would_cost_bytes) == ("stored", "float32", 3 * 25 * 4, 0)
    assert explicit.entry("mask").bytes == 25


def test_sharing_costs_nothing_on_the_fused_branch() -> None:
    grouped = config(heads=6, kv_heads=2)
    fused, explicit = (
        build_ledger(grouped, tokens=5, branch=branch).entry("shared") for branch in ("fused", "explicit")
    )
    assert (fused.stored, fused.bytes, fused.would_cost_bytes) == ("view", 0, 6 * 5 * 4 * 4)
    assert (explicit.stored, explicit.bytes) == ("stored", 6 * 5 * 4 * 4)
    assert "h // 3" in fused.formula


# Every knob -------------------------------------------------------------------------------------------------------


def test_qk_norm_stands_where_the_config_puts_it() -> None:
    before = keys(build_ledger(config(qk_norm="head"), tokens=5))
    after = keys(build_ledger(config(qk_norm="head", qk_norm_after_rope=True), tokens=5))
    assert before[before.index("split_v") + 1 :][:4] == ["q_norm", "k_norm", "rope_q", "rope_k"]
    assert after[after.index("split_v") + 1 :][:4] == ["rope_q", "rope_k", "q_norm", "k_norm"]
    grouped = config(kv_heads=1, qk_norm="full")
    assert build_ledger(grouped).entry("q_norm").parameters == 12
    assert build_ledger(grouped).entry("k_norm").parameters == 4


def test_a_layer_without_rope_has_no_rope_rows() -> None:
    mixed = config(rope_layers=(True, False))
    assert "rope_q" in keys(build_ledger(mixed, layer=0))
    assert "rope_q" not in keys(build_ledger(mixed, layer=1))


def test_partial_rotary_turns_only_some_features() -> None:
    row = build_ledger(config(rope=RopeConfig(width=2)), tokens=5).entry("rope_q")
    assert row.flops_full == 3 * 3 * 5 * 2
    assert "2 features pass through" in row.formula


def test_added_positions() -> None:
    learned = build_ledger(config(position="learned", max_position=9), tokens=5)
    assert keys(learned)[:3] == ["embedding", "positions", "attn_norm"]
    assert learned.entry("positions").parameters == 9 * 12
    sinusoidal = build_ledger(config(position="sinusoidal"), tokens=5)
    assert sinusoidal.entry("positions").parameters == 0
    assert "rope_q" not in keys(learned) + keys(sinusoidal)


def test_norms_after_the_sub_layers() -> None:
    post = keys(build_ledger(config(norm_place="post")))
    assert post[:2] == ["embedding", "q"]
    assert post[post.index("o") :][:3] == ["o", "attn_post_norm", "residual_mid"]
    assert post[post.index("down") :][:3] == ["down", "mlp_post_norm", "residual_post"]
    both = keys(build_ledger(config(norm_place="both")))
    assert [key for key in both if "norm" in key] == [
        "attn_norm",
        "attn_post_norm",
        "mlp_norm",
        "mlp_post_norm",
        "final_norm",
    ]


def test_parallel_sub_layers_are_added_once() -> None:
    parallel = build_ledger(config(parallel_residual=True))
    assert "residual_mid" not in keys(parallel)
    assert "mlp_norm" in keys(parallel)
    assert parallel.entry("residual_post").formula.startswith("x + attention + MLP")
    assert "mlp_norm" not in keys(build_ledger(config(parallel_residual=True, shared_norm=True)))


def test_a_plain_mlp_has_no_gate() -> None:
    plain = build_ledger(config(mlp="plain", activation="gelu", mlp_bias=True), tokens=5)
    assert "gate" not in keys(plain)
    assert plain.entry("up").parameters == 12 * 20 + 20
    assert plain.entry("activation").formula == "gelu(u)"


def test_formulas_name_clips_and_offsets() -> None:
    assert build_ledger(config(qkv_clip=8.0)).entry("k").formula == "K = W_K · x, clamped to ±8"
    cut = build_ledger(config(mlp_limit=7.0, up_offset=1.0)).entry("activation").formula
    assert cut == "silu(g) · (u + 1), g cut off above 7 and u clamped to ±7"
    assert build_ledger(config()).entry("activation").formula == "silu(g) · u"


def test_biases_count_and_show() -> None:
    biased = build_ledger(config(query_bias=True, output_bias=True))
    assert biased.entry("q").parameters == 12 * 12 + 12
    assert "+ b_Q" in biased.entry("q").formula
    assert biased.entry("o").parameters == 12 * 12 + 12
    assert biased.entry("k").parameters == 12 * 12


def test_a_window_hides_cells() -> None:
    windowed = build_ledger(config(window=2, window_layers=(True, False)), tokens=5)
    assert windowed.entry("scores").flops_causal == 2 * 3 * (1 + 2 * 4) * 4
    assert windowed.entry("mask").name == "Sliding-window mask"
    assert "9 of 25 cells" in windowed.entry("mask").formula


def test_soft_cap_and_sinks() -> None:
    ledger = build_ledger(config(score_cap=50.0, sink=True), tokens=5)
    rows = keys(ledger)
    assert rows[rows.index("scores") :][:4] == ["scores", "score_cap", "mask", "softmax"]
    assert ledger.entry("softmax").parameters == 3
    assert "1 minus the sink's share" in check_of(ledger, "softmax").statement


def test_a_mixture_of_experts() -> None:
    moe = MoeConfig(experts=4, per_token=2, width=8, shared_width=6, shared_gate=True)
    ledger = build_ledger(config(moe=moe), batch=2, tokens=5)
    rows = keys(ledger)
    assert rows[rows.index("mlp_norm") + 1 : rows.index("residual_post")] == [
        "router",
        "gate",
        "up",
        "activation",
        "down",
        "shared_gate",
        "shared_up",
        "shared_activation",
        "shared_down",
        "shared_scale",
        "combine",
    ]
    assert ledger.entry("router").shape == (10, 4)
    assert ledger.entry("gate").shape == (20, 8)
    assert ledger.entry("gate").weight == (4, 8, 12)
    assert ledger.entry("gate").parameters == 4 * 8 * 12
    assert ledger.entry("gate").flops_full == linear_flops(20, 12, 8)
    assert ledger.entry("combine").shape == (2, 5, 12)


def test_a_tied_head_owns_nothing() -> None:
    assert build_ledger(config(tied=True)).entry("lm_head").parameters == 0
    assert build_ledger(config()).entry("lm_head").parameters == 32 * 12


ALL_KNOBS = {
    "plain": config(),
    "grouped": config(kv_heads=1, qk_norm="head", tied=True),
    "post": config(norm_place="post", qk_norm="full"),
    "both, capped": config(norm_place="both", score_cap=50.0, norm_offset=1.0, embedding_scale=3.0, logit_cap=30.0),
    "parallel": config(parallel_residual=True, shared_norm=True, mlp="plain", mlp_bias=True, output_bias=True),
    "learned": config(position="learned", norm="layer", norm_bias=True, query_bias=True, logit_bias=True),
    "windowed sinks": config(window=3, sink=True),
    "mixture": config(moe=MoeConfig(experts=4, per_token=2, width=8, shared_width=6, shared_gate=True)),
    "clipped, with β": config(qkv_clip=0.5, qk_norm="head", qk_norm_bias=True),
    "cut off": config(mlp_limit=1.0, up_offset=1.0, moe=MoeConfig(experts=4, per_token=2, width=8, router_bias=True)),
    "learned activation": config(mlp="plain", activation="xielu"),
    "no gains": config(norm_gain=False, final_norm=False),
}


@pytest.mark.parametrize("name", ALL_KNOBS)
@pytest.mark.parametrize(("tokens", "past"), [(5, 0), (1, 6), (3, 4)])
@pytest.mark.parametrize("branch", ["fused", "explicit"])
def test_rows_add_up_to_the_costs_of_the_model(name: str, tokens: int, past: int, branch: Branch) -> None:
    subject = ALL_KNOBS[name]
    ledger = build_ledger(subject, 1, 2, tokens, past, "float32", "meta", branch)
    products = [entry for entry in ledger.entries if entry.product and entry.key != "lm_head"]
    assert Flops(
        sum(entry.flops_full for entry in products), sum(entry.flops_causal for entry in products)
    ) == layer_flops(subject, 1, tokens, past, 2)
    outside = {"embedding", "positions", "final_norm", "lm_head"}
    block = sum(entry.parameters for entry in ledger.entries if entry.key not in outside)
    assert block == parameters(subject).layers[1].total
    assert ledger.model_flops == forward_flops(subject, tokens, past, 2)
    assert len({entry.key for entry in ledger.entries}) == len(ledger.entries)
    for entry in ledger.entries:
        assert entry.flops_causal <= entry.flops_full
        assert entry.check is not None
        assert entry.device == "meta"
        assert (entry.bytes == 0) == (entry.stored != "stored")
        assert (entry.would_cost_bytes == 0) == (entry.stored == "stored")
        assert entry.panel in {"tokens", "why", "heads", "rope", "cache", "scores", "next_token"}


def test_impossible_ledgers_are_refused() -> None:
    with pytest.raises(ConfigError, match="Layer 2 was asked for"):
        build_ledger(config(), layer=2)
    with pytest.raises(ConfigError, match="0 tokens"):
        build_ledger(config(), tokens=0)
    with pytest.raises(ConfigError, match="'int3'"):
        build_ledger(config(), dtype="int3")
    with pytest.raises(PositionError, match="Position 2048"):
        build_ledger(config(), tokens=2049)
    with pytest.raises(ConfigError, match="no row 'rope_z'"):
        build_ledger(config()).entry("rope_z")


# Checks -----------------------------------------------------------------------------------------------------------


def test_a_config_alone_decides_its_arithmetic_and_nothing_else() -> None:
    ledger = checked(build_ledger(LLAMA, tokens=10), None)
    assert check_of(ledger, "shared") == Check(
        "Hkv divides H, and K and V agree with Q on H = 32 heads after sharing", True, "32 = 8 × 4"
    )
    assert check_of(ledger, "split_q").passed is True
    assert check_of(ledger, "softmax").passed is None
    assert check_of(ledger, "q") == Check("W_Q has H·Dh = 4096 rows, as many as W_O has columns")


def test_arithmetic_that_does_not_hold_fails() -> None:
    # A config refuses this by itself; here it is forced in, to see the ledger say so too.
    broken = config()
    object.__setattr__(broken, "kv_heads", 2)
    assert check_of(build_ledger(broken), "shared") == Check(
        "Hkv divides H, and K and V agree with Q on H = 3 heads after sharing", False, "3 = 2 × 1 + 1"
    )
    odd = config()
    object.__setattr__(odd, "rope", None)
    object.__setattr__(odd, "head_width", 3)
    object.__setattr__(odd, "rope", RopeConfig())
    assert check_of(build_ledger(odd), "rope_q").passed is False


GOOD = Measured(
    layer=0,
    tokens=5,
    weights={
        "q": Seen((12, 12), "float32", "cpu"),
        "k": Seen((12, 12), "float32", "cpu"),
        "v": Seen((12, 12), "float32", "cpu"),
        "o": Seen((12, 12), "float32", "cpu"),
        "gate": Seen((20, 12), "float32", "cpu"),
        "up": Seen((20, 12), "float32", "cpu"),
        "down": Seen((12, 20), "float32", "cpu"),
        "lm_head": Seen((32, 12), "float32", "cpu"),
    },
    points={"split_q": Seen((1, 3, 5, 4), "float32", "cpu")},
    parameters=parameters(config()).total,
    tied=False,
    cache_length=5,
    weight_sum_error=1e-7,
    masked_weight=0.0,
    score_error=1e-7,
    blend_error=1e-6,
    value_error=0.0,
    query_turn_error=1e-7,
    key_turn_error=1e-7,
    attention_add_error=0.0,
    mlp_add_error=0.0,
)


def test_a_sound_run_passes() -> None:
    ledger = checked(build_ledger(config(), tokens=5), GOOD)
    assert ledger.failed == ()
    undecided = [entry.key for entry in ledger.entries if entry.check is not None and entry.check.passed is None]
    assert undecided == ["embedding", "attn_norm", "mlp_norm", "final_norm"]
    assert check_of(ledger, "q").found == "W_Q's rows 12, W_O's columns 12; weight 12×12"
    assert check_of(ledger, "softmax").found == "sums off by 1.0e-07"


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        ({"weight_sum_error": 0.01}, ["softmax"]),
        ({"weight_sum_error": math.nan}, ["softmax"]),
        ({"masked_weight": 1e-9}, ["mask"]),
        ({"score_error": 0.1}, ["scores"]),
        ({"blend_error": 0.1}, ["blend"]),
        ({"value_error": 0.5}, ["cache_v"]),
        ({"query_turn_error": 0.2}, ["rope_q"]),
        ({"key_turn_error": 0.2}, ["rope_k"]),
        ({"attention_add_error": 0.2}, ["residual_mid"]),
        ({"mlp_add_error": 0.2}, ["residual_post"]),
        ({"cache_length": 4}, ["cache_k"]),
        ({"tied": True}, ["lm_head"]),
        ({"parameters": 7}, ["lm_head"]),
        (
            {"weights": {"q": Seen((8, 12), "float32", "cpu"), "o": Seen((12, 12), "float32", "cpu")}},
            ["q", "concatenate"],
        ),
        ({"weights": {"k": Seen((12, 12), "float32", "cpu"), "v": Seen((4, 12), "float32", "cpu")}}, ["k", "v"]),
        (
            {"weights": {"up": Seen((20, 12), "float32", "cpu"), "down": Seen((12, 9), "float32", "cpu")}},
            ["activation", "down"],
        ),
        ({"points": {"blend": Seen((1, 3, 5, 5), "float32", "cpu")}}, ["blend"]),
        ({"points": {"up": Seen((1, 5, 20), "bfloat16", "cpu")}}, ["up"]),
        ({"points": {"up": Seen((1, 5, 20), "float32", "cuda:0")}}, ["up"]),
    ],
)
def test_a_broken_run_fails_where_it_broke(change: dict[str, Any], rows: list[str]) -> None:
    ledger = checked(build_ledger(config(), tokens=5), replace(GOOD, **change))
    assert [entry.key for entry in ledger.failed] == rows


def test_a_failure_says_what_was_found_and_expected() -> None:
    broken = replace(GOOD, points={"split_q": Seen((1, 3, 5, 5), "float32", "cpu")}, weight_sum_error=0.01)
    ledger = checked(build_ledger(config(), tokens=5), broken)
    assert check_of(ledger, "split_q").found == "1×3×5×5 float32 on cpu instead of 1×3×5×4 float32 on cpu"
    assert check_of(ledger, "softmax").found == "sums off by 1.0e-02, above 0.0001"


def test_half_precision_has_its_own_tolerance() -> None:
    loose = replace(GOOD, weight_sum_error=0.01, weights={}, points={})
    assert checked(build_ledger(config(), tokens=5, dtype="bfloat16"), loose).failed == ()


def test_tensors_met_in_another_call_are_compared_with_that_call() -> None:
    row = replace(GOOD, tokens=1, past=4, points={"scores": Seen((1, 3, 1, 5), "float32", "cpu")})
    assert check_of(checked(build_ledger(config(), tokens=5), row), "scores").passed is True


def test_experts_that_repeat_are_found() -> None:
    subject = config(moe=MoeConfig(experts=4, per_token=2, width=8))
    good, bad = (checked(build_ledger(subject), Measured(0, experts_distinct=value)) for value in (True, False))
    assert check_of(good, "router").passed is True
    assert check_of(bad, "router").passed is False


def test_another_layer_cannot_be_checked() -> None:
    with pytest.raises(ConfigError, match="Layer 1 was measured"):
        checked(build_ledger(config()), Measured(layer=1))
