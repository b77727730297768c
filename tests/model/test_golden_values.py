"""Numbers that were worked out by hand, and properties every decoder must have: (a) to (g) of the model's requirements.

(a) and (b) can be followed with pencil and paper; (c) and (d) are shapes; (e) to (g) hold for any weights.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder.attention import BRANCHES
from ropewalk.model.decoder.cache import KvCache
from ropewalk.model.decoder.config import Branch, ModelConfig, RopeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import capture, intervening
from ropewalk.model.decoder.spec import AttentionSpec

ROOT2 = math.sqrt(2)


def decoder(**fields: Any) -> Decoder:
    return Decoder(ModelConfig(**({"vocabulary": 50, "layers": 1, "mlp_width": 8} | fields))).requires_grad_(False)


def test_a_four_features_in_two_heads() -> None:
    """(a) x = (1, 2, 0, −1); W_Q = I, W_K swaps the last two features, W_V = diag(2, 1, ½, −1); two heads."""
    model = decoder(width=4, heads=2, kv_heads=2, head_width=2, position="none")
    attn = model.block(0).attn
    attn.query.weight.copy_(torch.eye(4))
    attn.key.weight.copy_(torch.eye(4)[[0, 1, 3, 2]])
    attn.value.weight.copy_(torch.diag(torch.tensor([2.0, 1.0, 0.5, -1.0])))
    x = torch.tensor([[[1.0, 2.0, 0.0, -1.0]]])
    _, call = model.begin(x)
    names = ["hook_q", "hook_k", "hook_v"]
    with capture(attn, names) as seen:
        attn(x, call)
    assert seen["hook_q"][0, :, 0].tolist() == [[1, 2], [0, -1]]
    assert seen["hook_k"][0, :, 0].tolist() == [[1, 2], [-1, 0]]  # (1, 2, 0, −1) with the last two swapped
    assert seen["hook_v"][0, :, 0].tolist() == [[2, 2], [0, 1]]  # (2·1, 1·2, ½·0, −1·−1)


@pytest.mark.parametrize("branch", ["fused", "explicit"])
def test_b_one_block_with_a_quarter_turn_a_position(branch: Branch) -> None:
    """(b) X = [[1, 1], [1, −1]], unit RMSNorm with ε 0, identity projections, one plane turning π/2 a position.

    Both rows have RMS 1, so the norm changes nothing. Row 1 turns by 90°: (1, −1) → (1, 1). So q'·k' = 2 everywhere,
    divided by √2; V is not turned, so row 1 blends (1, 1) and (1, −1) to (1, 0).
    """
    quarter = RopeConfig(frequencies=(math.pi / 2,))
    model = decoder(width=2, heads=1, kv_heads=1, head_width=2, rope=quarter, norm_eps=0.0)
    block = model.block(0)
    for matrix in (block.attn.query, block.attn.key, block.attn.value, block.attn.output):
        matrix.weight.copy_(torch.eye(2))
    x = torch.tensor([[[1.0, 1.0], [1.0, -1.0]]])
    mlp_out = torch.tensor([[[0.1, -0.2], [0.3, 0.1]]])
    attention = ["attn.hook_rot_q", "attn.hook_rot_k", "attn.hook_attn_scores", "attn.hook_pattern", "attn.hook_z"]
    _, call = model.begin(x, branch=branch)
    with (
        intervening(block, {"hook_mlp_out": lambda _: mlp_out}),
        capture(block, [*attention, "hook_resid_mid", "attn.hook_lse"]) as seen,
    ):
        returned = block(x, call)

    def close(found: Tensor, expected: Any) -> None:
        torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-6)

    close(seen["attn.hook_rot_q"][0, 0], [[1.0, 1.0], [1.0, 1.0]])
    close(seen["attn.hook_rot_k"][0, 0], [[1.0, 1.0], [1.0, 1.0]])
    if branch == "explicit":
        close(seen["attn.hook_attn_scores"][0, 0], [[ROOT2, -math.inf], [ROOT2, ROOT2]])
        close(seen["attn.hook_pattern"][0, 0], [[1.0, 0.0], [0.5, 0.5]])
    close(seen["attn.hook_lse"][0, 0], [ROOT2, ROOT2 + math.log(2)])  # log e^√2 and log 2·e^√2
    close(seen["attn.hook_z"][0, 0], [[1.0, 1.0], [1.0, 0.0]])
    close(seen["hook_resid_mid"][0], [[2.0, 2.0], [2.0, -1.0]])
    close(returned[0], [[2.1, 1.8], [2.3, -0.9]])


def test_c_shapes_of_three_heads() -> None:
    """(c) B = 2, T = 5, D = 12, 3 heads: Q 2×3×5×4, scores 2×3×5×5, concatenated 2×5×12."""
    model = decoder(width=12, heads=3, kv_heads=3, head_width=4)
    names = ["blocks.0.attn.hook_q", "blocks.0.attn.hook_attn_scores"]
    joined: list[tuple[int, ...]] = []
    hook = model.block(0).attn.output.register_forward_pre_hook(lambda _, args: joined.append(tuple(args[0].shape)))
    with capture(model, names) as seen:
        model(torch.arange(10).view(2, 5), branch="explicit")
    hook.remove()
    assert [tuple(seen[name].shape) for name in names] == [(2, 3, 5, 4), (2, 3, 5, 5)]
    assert joined == [(2, 5, 12)]


def test_d_shapes_of_llama_3_8b_on_the_meta_device() -> None:
    """(d) D = 4096, H = 32, Hkv = 8, Dh = 128, T = 10: Q 1×32×10×128, K 1×8×10×128, out 1×10×4096, no memory."""
    with torch.device("meta"):
        model = decoder(width=4096, heads=32, kv_heads=8, head_width=128, mlp_width=14_336)
        ids = torch.zeros(1, 10, dtype=torch.long)
    names = ["blocks.0.attn.hook_rot_q", "blocks.0.attn.hook_rot_k", "blocks.0.hook_attn_out"]
    with capture(model, names) as seen:
        logits = model(ids)
    assert [tuple(seen[name].shape) for name in names] == [(1, 32, 10, 128), (1, 8, 10, 128), (1, 10, 4096)]
    assert logits.is_meta
    assert logits.shape == (1, 10, 50)


# (e) A cached step is the full pass. Two models that between them have every part.

PLAIN: dict[str, Any] = {"width": 32, "layers": 2, "heads": 4, "kv_heads": 2, "head_width": 8, "mlp_width": 48}
MODELS: dict[str, dict[str, Any]] = {
    "llama": PLAIN,
    "everything": PLAIN
    | {
        "qk_norm": "head",
        "window": 20,
        "window_layers": (True, False),
        "rope_layers": (True, False),
        "rope": RopeConfig(width=4, pairing="adjacent", scaling="yarn", factor=4.0, original_max_position=64),
        "sink": True,
        "query_bias": True,
        "norm_place": "both",
    },
    "soft cap": PLAIN | {"score_cap": 5.0, "logit_cap": 10.0, "position": "learned"},
}
STEPS, PAD = 50, 5
# Logits here have a spread of about 1 and reach 4, where a unit in the last place is 0.03 in bfloat16 and 0.004 in
# float16. The two ways round differently along the way; measured: 2e-6, 0.033 and 0.006.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.07, torch.float16: 0.01}


def batch_of(pad: str, tokens: int) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Ids [2, N], position ids and padding; the second sequence lacks PAD tokens at the start of the prompt or later.

    Padding on the right of a prompt becomes a hole once decoding goes on: rows 1 … PAD of the second sequence.
    """
    ids = torch.randint(0, 50, (2, tokens), generator=torch.Generator().manual_seed(7))
    if pad == "none":
        return ids, None, None
    padding = torch.ones(2, tokens, dtype=torch.bool)
    padding[1, slice(0, PAD) if pad == "left" else slice(1, 1 + PAD)] = False
    return ids, (padding.cumsum(1) - 1).clamp_min(0), padding


def cached_logits(
    model: Decoder, ids: Tensor, positions: Tensor | None, padding: Tensor | None, prefill: int, branch: Branch
) -> Tensor:
    """Logits [B, N, V]: a prefill, then one token at a time."""
    cache = KvCache(model.config.layers)
    bounds = [0, *range(prefill, ids.shape[1] + 1)]
    rows = [
        model(
            ids[:, start:stop],
            cache=cache,
            positions=None if positions is None else positions[:, start:stop],
            padding=None if padding is None else padding[:, :stop],
            branch=branch,
        )
        for start, stop in pairwise(bounds)
    ]
    assert cache.length == ids.shape[1]
    return torch.cat(rows, dim=1)


def model_of(name: str, dtype: torch.dtype = torch.float32) -> Decoder:
    model = decoder(**MODELS[name])
    for block in range(model.config.layers):
        sinks = model.block(block).attn.sinks
        if sinks is not None:
            sinks.copy_(torch.randn(sinks.shape, generator=torch.Generator().manual_seed(block)))
    return model.to(dtype)


def largest_difference(first: Tensor, second: Tensor, padding: Tensor | None) -> float:
    """Over the rows of real tokens."""
    off = (first - second).float().abs().amax(-1)
    return float(off.max() if padding is None else off[padding].max())


@pytest.mark.parametrize("pad", ["none", "left", "right"])
@pytest.mark.parametrize("branch", ["fused", "explicit"])
@pytest.mark.parametrize(
    ("name", "prefill"),
    [
        ("llama", 1),
        pytest.param("llama", 7, marks=pytest.mark.slow),
        pytest.param("llama", 128, marks=pytest.mark.slow),
        pytest.param("everything", 7, marks=pytest.mark.slow),
        ("everything", 128),
        ("soft cap", 7),
    ],
)
def test_e_a_cached_step_is_the_full_pass(prefill: int, branch: Branch, pad: str, name: str) -> None:
    """(e) One-token logits with the cache equal the full prefix's within 1e-4, up to 50 steps after the prefill."""
    model = model_of(name)
    ids, positions, padding = batch_of(pad, prefill + STEPS)
    cached = cached_logits(model, ids, positions, padding, prefill, branch)
    full = model(ids, positions=positions, padding=padding, branch=branch)
    assert largest_difference(cached, full, padding) < 1e-4
    assert float(full.std()) > 0.5
    first = slice(0, prefill + 1)  # the prefix that ends with the first step, run by itself
    prefix = model(
        ids[:, first],
        positions=None if positions is None else positions[:, first],
        padding=None if padding is None else padding[:, first],
        branch=branch,
    )
    step = slice(prefill, prefill + 1)
    assert largest_difference(cached[:, step], prefix[:, -1:], None if padding is None else padding[:, step]) < 1e-4


@pytest.mark.parametrize("pad", ["left", "right"])
@pytest.mark.parametrize("branch", ["fused", "explicit"])
@pytest.mark.parametrize("name", ["llama", "soft cap"])
def test_e_a_padded_sequence_has_the_logits_it_has_alone(name: str, branch: Branch, pad: str) -> None:
    """(e) With position ids that skip the padding, padding changes nothing (where no window counts rows)."""
    model = model_of(name)
    ids, positions, padding = batch_of(pad, 40)
    assert padding is not None
    together = model(ids, positions=positions, padding=padding, branch=branch)[1, padding[1]]
    alone = model(ids[1:, padding[1]], branch=branch)[0]
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("branch", ["fused", "explicit"])
@pytest.mark.parametrize("name", MODELS)
def test_e_in_half_precision_within_its_own_tolerance(name: str, branch: Branch, dtype: torch.dtype) -> None:
    """(e) The same in bfloat16 (0.07 on logits that reach 4) and float16 (0.01)."""
    model = model_of(name, dtype)
    ids, positions, padding = batch_of("left", 7 + STEPS)
    cached = cached_logits(model, ids, positions, padding, 7, branch)
    full = model(ids, positions=positions, padding=padding, branch=branch)
    assert cached.dtype == dtype
    assert largest_difference(cached, full, padding) < TOLERANCE[dtype]


@pytest.mark.parametrize("offset", [1, 17, 128, 1000])
@pytest.mark.parametrize(
    "rope",
    [
        RopeConfig(),
        RopeConfig(pairing="adjacent", width=8),
        RopeConfig(scaling="linear", factor=4.0),
        RopeConfig(scaling="yarn", factor=4.0, original_max_position=64),
        RopeConfig(scaling="llama3", factor=8.0, original_max_position=64),
    ],
    ids=lambda rope: f"{rope.scaling} {rope.pairing}",
)
def test_f_scores_depend_on_distance_alone(rope: RopeConfig, offset: int) -> None:
    """(f) Shifting every position by the same offset, up to 1,000, leaves scores unchanged within 1e-4."""
    model = decoder(width=32, layers=2, heads=4, kv_heads=2, head_width=16, rope=rope)
    ids = torch.randint(0, 50, (1, 24), generator=torch.Generator().manual_seed(1))
    names = [f"blocks.{layer}.attn.hook_attn_scores" for layer in range(2)]
    turned = "blocks.0.attn.hook_rot_q"
    with capture(model, [*names, turned]) as here:
        model(ids, branch="explicit")
    with capture(model, [*names, turned]) as there:
        model(ids, positions=torch.arange(24)[None] + offset, branch="explicit")
    for name in names:
        torch.testing.assert_close(there[name], here[name], rtol=0, atol=1e-4)
    assert float((there[turned] - here[turned]).abs().max()) > 0.1  # the queries themselves did turn


@pytest.mark.parametrize("branch", ["fused", "explicit"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 6), (6, 3), (6, 2), (6, 1), (32, 8)])
def test_g_query_head_h_reads_kv_head_h_over_the_group(heads: int, kv_heads: int, branch: Branch) -> None:
    """(g) V of kv head j is j everywhere, K points along j: so out and scores say which kv head was read."""
    rule = AttentionSpec(layer=0, heads=heads, kv_heads=kv_heads, head_width=8, scale=1.0)
    number = torch.arange(kv_heads).float()
    value = number[None, :, None, None].expand(1, kv_heads, 4, 8)
    key = torch.nn.functional.one_hot(torch.arange(kv_heads), 8).float()[None, :, None].expand(1, kv_heads, 4, 8)
    query = torch.arange(8).float().expand(1, heads, 4, 8)  # q·k = j
    result = BRANCHES[branch](query, key, value, rule)
    reads = torch.tensor([head // (heads // kv_heads) for head in range(heads)]).float()
    torch.testing.assert_close(result.out[0, :, -1, 0], reads)
    torch.testing.assert_close(result.lse[0, :, -1], reads + math.log(4))  # four equal scores of j
