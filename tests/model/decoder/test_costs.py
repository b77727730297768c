"""Costs against numbers from the literature and from arithmetic done by hand."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ropewalk.model.decoder.config import ModelConfig, MoeConfig
from ropewalk.model.decoder.costs import (
    Flops,
    attention_flops,
    attention_matrices_bytes,
    attention_matrix_bytes,
    bytes_per_number,
    format_bytes,
    format_count,
    format_flops,
    format_shape,
    forward_flops,
    kv_bytes,
    kv_bytes_at_bits,
    kv_bytes_visible,
    layer_parameters,
    parameters,
    trace_bytes,
    visible_pairs,
    weight_bytes,
)
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.known_configs import KNOWN
from ropewalk.model.errors import ConfigError

KIB, GIB = 2**10, 2**30


def config(**changes: object) -> ModelConfig:
    values: dict[str, object] = {
        "vocabulary": 32,
        "width": 12,
        "layers": 2,
        "heads": 3,
        "kv_heads": 1,
        "head_width": 4,
        "mlp_width": 20,
    }
    return ModelConfig(**(values | changes))  # type: ignore[arg-type]


LLAMA_3_8B, LLAMA_3_70B = KNOWN["llama3_8b"], KNOWN["llama3_70b"]
QWEN_3_06B = KNOWN["qwen3_0_6b"]
MINIMIND_3 = KNOWN["minimind3"]
SMOLLM2_135M = KNOWN["smollm2_135m"]


# Parameters -------------------------------------------------------------------------------------------------------


def test_known_models_have_their_published_parameter_counts() -> None:
    assert parameters(LLAMA_3_8B).total == 8_030_261_248
    assert parameters(QWEN_3_06B).total == 596_049_920
    assert parameters(SMOLLM2_135M).total == 134_515_008


def test_a_block_of_llama_3_8b_is_mostly_mlp() -> None:
    block = layer_parameters(LLAMA_3_8B, 0)
    assert block.mlp == 3 * 4096 * 14_336 == 176_160_768
    assert block.attention == 41_943_040
    assert layer_parameters(LLAMA_3_8B.changed(kv_heads=32), 0).attention == 67_108_864
    assert (block.q, block.k, block.v, block.o) == (4096 * 4096, 1024 * 4096, 1024 * 4096, 4096 * 4096)
    assert format_count(block.mlp) == "176.2 M"
    assert format_count(block.attention) == "41.9 M"


def test_every_part_is_counted_once() -> None:
    everything = config(
        position="learned",
        max_position=7,
        norm="layer",
        norm_place="both",
        norm_bias=True,
        qk_norm="heads",
        query_bias=True,
        key_bias=True,
        value_bias=True,
        output_bias=True,
        sink=True,
        mlp="plain",
        mlp_bias=True,
        logit_bias=True,
    )
    block = layer_parameters(everything, 1)
    assert (block.q, block.k, block.v, block.o) == (12 * 12 + 12, 4 * 12 + 4, 4 * 12 + 4, 12 * 12 + 12)
    assert (block.qk_norm, block.sink, block.norms) == (12 + 4, 3, 4 * 24)
    assert (block.gate, block.up, block.down) == (0, 12 * 20 + 20, 20 * 12 + 12)
    whole = parameters(everything)
    assert (whole.embedding, whole.positions, whole.final_norm, whole.lm_head) == (384, 84, 24, 384 + 32)
    assert whole.total == 384 + 84 + 24 + 416 + 2 * block.total


def test_norms_depend_on_their_place_and_on_sharing() -> None:
    assert layer_parameters(config(), 0).norms == 2 * 12
    assert layer_parameters(config(norm_place="post"), 0).norms == 2 * 12
    assert layer_parameters(config(norm_place="both"), 0).norms == 4 * 12
    assert layer_parameters(config(parallel_residual=True, shared_norm=True), 0).norms == 12
    assert layer_parameters(config(norm_gain=False), 0).norms == 0
    assert parameters(config(final_norm=False)).final_norm == 0


def test_qk_norm_widths() -> None:
    assert [layer_parameters(config(qk_norm=kind), 0).qk_norm for kind in ("none", "head", "heads", "full")] == [
        0,
        4 + 4,
        12 + 4,
        12 + 4,
    ]


def test_a_mixture_stores_all_experts_and_uses_some() -> None:
    moe = MoeConfig(experts=4, per_token=2, width=8, shared_width=6, shared_gate=True, layers=(False, True))
    dense, mixed = (layer_parameters(config(moe=moe), layer) for layer in range(2))
    assert dense.mlp == 3 * 12 * 20
    assert (mixed.gate, mixed.up, mixed.down) == (4 * 96, 4 * 96, 4 * 96)
    assert (mixed.router, mixed.shared) == (4 * 12, 3 * 12 * 6 + 12)
    assert mixed.active_mlp == 2 * 3 * 96 + 48 + 228
    whole = parameters(config(moe=moe))
    assert whole.total - whole.active == 2 * 3 * 96


def test_tied_weights_are_stored_once() -> None:
    assert parameters(config()).total - parameters(config(tied=True)).total == 32 * 12


def test_weight_bytes_follow_the_dtype() -> None:
    assert weight_bytes(SMOLLM2_135M, "float32") == 4 * 134_515_008
    assert weight_bytes(SMOLLM2_135M, "bfloat16") == 2 * 134_515_008


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(ConfigError, match="'int3'"):
        bytes_per_number("int3")


VARIANTS = {
    "plain": config(),
    "tied": config(tied=True),
    "gpt2-like": config(
        position="learned",
        max_position=9,
        norm="layer",
        norm_bias=True,
        query_bias=True,
        key_bias=True,
        value_bias=True,
        output_bias=True,
        mlp="plain",
        activation="gelu",
        mlp_bias=True,
        tied=True,
    ),
    "post": config(norm_place="post", qk_norm="full"),
    "both": config(norm_place="both", qk_norm="head", norm_offset=1.0, score_cap=50.0, logit_cap=30.0),
    "parallel": config(parallel_residual=True, logit_bias=True, qk_norm="heads"),
    "parallel, shared": config(parallel_residual=True, shared_norm=True, norm_place="both"),
    "parallel, post": config(parallel_residual=True, shared_norm=True, norm_place="post"),
    "shared without parallel": config(shared_norm=True),
    "no gains": config(norm_gain=False, final_norm=False, position="none"),
    "sinks": config(sink=True, window=3, window_layers=(True, False)),
    "mixture": config(moe=MoeConfig(experts=4, per_token=2, width=8, layers=(False, True), router_bias=True)),
    "QK-norm with β": config(qk_norm="heads", qk_norm_bias=True),
    "learned activation": config(mlp="plain", activation="xielu"),
    "shared expert": config(moe=MoeConfig(experts=4, per_token=1, width=8, shared_width=6, shared_gate=True)),
    "plain experts": config(mlp="plain", mlp_bias=True, moe=MoeConfig(experts=3, per_token=2, width=8, shared_width=6)),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_count_is_that_of_the_real_decoder(name: str) -> None:
    with torch.device("meta"):
        model = Decoder(VARIANTS[name])
    assert parameters(VARIANTS[name]).total == sum(weight.numel() for weight in model.parameters())
    for layer, block in enumerate(model.blocks):
        assert layer_parameters(VARIANTS[name], layer).total == sum(weight.numel() for weight in block.parameters())


@pytest.mark.parametrize("known", [LLAMA_3_8B, QWEN_3_06B, SMOLLM2_135M, MINIMIND_3])
def test_known_models_are_built_with_that_count(known: ModelConfig) -> None:
    with torch.device("meta"):
        model = Decoder(known)
    assert parameters(known).total == sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("name", VARIANTS)
def test_flops_are_those_that_a_counter_meets(name: str) -> None:
    model = Decoder(VARIANTS[name])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.tensor([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]]), branch="explicit")
    assert forward_flops(VARIANTS[name], 5, batch=2).full == counter.get_total_flops()


# The cache --------------------------------------------------------------------------------------------------------


def test_kv_bytes_of_known_models() -> None:
    assert kv_bytes(QWEN_3_06B, 40_960, "bfloat16") == 4.375 * GIB
    assert kv_bytes(LLAMA_3_70B, 1, "bfloat16") == 320 * KIB
    assert kv_bytes(LLAMA_3_70B, 4096, "bfloat16") == 1.25 * GIB
    assert kv_bytes(LLAMA_3_70B, 1, "bfloat16", kv_heads=64) == 2.5 * 1024 * KIB
    assert kv_bytes(LLAMA_3_70B, 4096, "bfloat16", kv_heads=64) == 10 * GIB
    assert kv_bytes(MINIMIND_3, 1, "float16") == 12_288
    assert kv_bytes(LLAMA_3_70B, 4096, "bfloat16", kv_heads=1) == 1.25 * GIB / 8
    assert kv_bytes(LLAMA_3_70B, 4096, "bfloat16", batch=3) == 3.75 * GIB


def test_kv_bytes_at_fewer_bits() -> None:
    assert kv_bytes_at_bits(LLAMA_3_70B, 4096, 16) == kv_bytes(LLAMA_3_70B, 4096, "float16")
    assert kv_bytes_at_bits(LLAMA_3_70B, 4096, 4) == 1.25 * GIB / 4


def test_a_window_hides_cached_rows() -> None:
    windowed = config(window=4, window_layers=(True, False))
    assert kv_bytes(windowed, 10, "float32") == 2 * 10 * 2 * 4 * 4
    assert kv_bytes_visible(windowed, 10, "float32") == 2 * (4 + 10) * 4 * 4
    assert kv_bytes_visible(windowed, 3, "float32") == kv_bytes(windowed, 3, "float32")


def test_what_a_trace_keeps() -> None:
    # Per layer and row: 3·4 + 2·1·4 = 20 numbers and 3 lse; 2 layers, 5 rows; logits 5 × 32 in float32.
    assert trace_bytes(config(), 5, "float32") == 2 * 5 * (20 * 4 + 3 * 4) + 5 * 32 * 4
    assert trace_bytes(config(), 5, "bfloat16", batch=2, logit_rows=1) == 2 * (2 * 5 * (20 * 2 + 3 * 4) + 32 * 4)


def test_a_trace_of_smollm2_is_the_size_that_was_measured() -> None:
    # The design's table: 60 MB at 512 tokens, 238 MB at 2,048 (float32, without logits), against 283 and 4,530.
    assert trace_bytes(SMOLLM2_135M, 512, "float32", logit_rows=0) == pytest.approx(60e6, rel=0.02)
    assert trace_bytes(SMOLLM2_135M, 2048, "float32", logit_rows=0) == pytest.approx(238e6, rel=0.02)
    assert attention_matrices_bytes(SMOLLM2_135M, 2048, "float32") == pytest.approx(4530e6, rel=0.001)


# Attention matrices and FLOPs -------------------------------------------------------------------------------------


def test_attention_matrices_of_a_long_prompt() -> None:
    assert attention_matrix_bytes(LLAMA_3_8B, 32_768, "bfloat16") == 64 * GIB
    assert attention_matrices_bytes(LLAMA_3_8B, 32_768, "bfloat16") == 2048 * GIB
    assert attention_matrix_bytes(LLAMA_3_8B, 4096, "bfloat16") == GIB
    assert attention_matrices_bytes(LLAMA_3_8B, 4096, "bfloat16") == 32 * GIB
    assert attention_matrix_bytes(config(), 1, "float32", batch=2, past=9) == 2 * 3 * 10 * 4


def test_scores_and_blend_of_4096_tokens() -> None:
    flops = attention_flops(LLAMA_3_8B, 4096)
    assert flops.full == 4 * 32 * 32 * 4096**2 * 128
    assert flops.causal == 4 * 32 * 32 * (4096 * 4097 // 2) * 128
    assert format_flops(flops.full) == "8.8 TFLOP"
    assert format_flops(flops.causal) == "4.4 TFLOP"


@pytest.mark.parametrize("tokens", [1, 2, 7])
@pytest.mark.parametrize("past", [0, 1, 5])
@pytest.mark.parametrize("window", [None, 1, 3, 6, 40])
def test_visible_pairs_are_counted_cell_by_cell(tokens: int, past: int, window: int | None) -> None:
    cells = [
        (query, key)
        for query in range(past, past + tokens)
        for key in range(past + tokens)
        if key <= query and (window is None or query - key < window)
    ]
    assert visible_pairs(tokens, past, window) == len(cells)


def test_forward_flops_by_hand() -> None:
    # T 5, D 12: q and o 2·5·12·12 each, k and v 2·5·12·4 each, MLP 3·2·5·12·20, two layers, lm_head 2·5·12·32.
    dense = 2 * (2 * 1440 + 2 * 480 + 7200) + 3840
    assert forward_flops(config(), 5) == Flops(full=dense + 2 * 4 * 3 * 4 * 25, causal=dense + 2 * 4 * 3 * 4 * 15)


def test_a_decode_step_costs_one_row() -> None:
    # Every one of the P + 1 keys is visible to the newest query, so full and causal agree.
    step = forward_flops(LLAMA_3_8B, 1, past=4095)
    assert step.full == step.causal
    weights = parameters(LLAMA_3_8B)
    matrices = weights.total - weights.embedding - 65 * 4096
    assert step.full == 2 * matrices + 4 * 32 * 32 * 4096 * 128


def test_only_some_logit_rows() -> None:
    assert forward_flops(config(), 5).full - forward_flops(config(), 5, logit_rows=1).full == 4 * 2 * 12 * 32


def test_a_mixture_counts_the_experts_that_run() -> None:
    moe = MoeConfig(experts=4, per_token=2, width=8, shared_width=6, shared_gate=True)
    mlp = 2 * 5 * 12 * 4 + 2 * 3 * 2 * 5 * 12 * 8 + 3 * 2 * 5 * 12 * 6 + 2 * 5 * 12
    change = forward_flops(config(moe=moe), 5).full - forward_flops(config(), 5).full
    assert change == 2 * (mlp - 7200)


# Numbers for people -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (12_288, "12 KiB"),
        (320 * KIB, "320 KiB"),
        (2**20 - 1, "1 MiB"),
        (2_621_440, "2.5 MiB"),
        (1_047_552, "1,023 KiB"),
        (4_697_620_480, "4.375 GiB"),
        (2**41, "2 TiB"),
    ],
)
def test_bytes_are_written_in_binary_units(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (9216, "9,216"), (14_848, "14.8 K"), (134_515_008, "134.5 M"), (8_030_261_248, "8 B"), (999_999, "1 M")],
)
def test_counts_are_written_in_short(count: int, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 FLOP"), (480, "480 FLOP"), (1440, "1.4 KFLOP"), (10**13, "10 TFLOP")]
)
def test_flops_are_written_in_short(count: int, text: str) -> None:
    assert format_flops(count) == text


def test_shapes_are_written_with_crosses() -> None:
    assert format_shape((1, 8, 12, 12)) == "1×8×12×12"
