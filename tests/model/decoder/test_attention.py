"""Two branches of attention against each other and against plain loops in numpy, by value.

The reference visits every row and lists the keys it sees; nothing in it is shared with the code under test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ropewalk.model.decoder import attention
from ropewalk.model.decoder.attention import Attended, explicit_attention, fused_attention
from ropewalk.model.decoder.spec import AttentionSpec
from tests.covering import covering

B, H, DH, PAST = 2, 4, 8, 5
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# |out| stays below 4 here: half an ulp is 2⁻⁷ in bfloat16 and 2⁻¹⁰ in float16, once for the weights and once for out
OUT_TOLERANCE = {"float32": 2e-6, "bfloat16": 2e-2, "float16": 2e-3}
LSE_TOLERANCE = {"float32": 2e-6, "bfloat16": 1e-4, "float16": 1e-4}  # accumulated in float32 from rounded q and k


def drawn(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def spec(heads: int = H, kv_heads: int = 2, **changes: Any) -> AttentionSpec:
    return AttentionSpec(layer=0, heads=heads, kv_heads=kv_heads, head_width=DH, scale=DH**-0.5, **changes)


def inputs(
    kv_heads: int, tokens: int, past: int, dtype: torch.dtype = torch.float32, batch: int = B, heads: int = H
) -> tuple[Tensor, Tensor, Tensor]:
    keys = past + tokens
    return (
        drawn(batch, heads, tokens, DH, seed=1, dtype=dtype),
        drawn(batch, kv_heads, keys, DH, seed=2, dtype=dtype),
        drawn(batch, kv_heads, keys, DH, seed=3, dtype=dtype),
    )


def padding_of(kind: str, keys: int) -> Tensor | None:
    """[B, S]: the second sequence is shorter than the first by up to three tokens."""
    if kind == "none":
        return None
    padding = torch.ones(B, keys, dtype=torch.bool)
    short = min(3, keys)
    padding[1, slice(0, short) if kind == "left" else slice(keys - short, keys)] = False
    return padding


@dataclass
class Reference:
    """What attention should give, in float64."""

    out: NDArray[np.float64]
    lse: NDArray[np.float64]
    scores: NDArray[np.float64]
    weights: NDArray[np.float64]


def reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rule: AttentionSpec,
    past: int,
    padding: Tensor | None,
    sinks: Tensor | None,
) -> Reference:
    q, k, v = (x.double().numpy() for x in (query, key, value))
    batch, heads, tokens, width = q.shape
    keys = k.shape[2]
    found = Reference(
        np.zeros((batch, heads, tokens, width)),
        np.full((batch, heads, tokens), np.inf),
        np.full((batch, heads, tokens, keys), -np.inf),
        np.zeros((batch, heads, tokens, keys)),
    )
    for b, h, i in product(range(batch), range(heads), range(tokens)):
        row = past + i
        first = 0 if rule.window is None else max(0, row - rule.window + 1)  # W keys, itself included
        sees = [j for j in range(first, row + 1) if padding is None or bool(padding[b, j])]
        if not sees:
            continue
        kv_head = h // (heads // k.shape[1])
        scores = rule.scale * (k[b, kv_head, sees] @ q[b, h, i])
        if rule.cap is not None:
            scores = rule.cap * np.tanh(scores / rule.cap)
        logits = scores if sinks is None else np.append(scores, float(sinks[h]))
        found.lse[b, h, i] = logits.max() + math.log(np.exp(logits - logits.max()).sum())
        found.scores[b, h, i, sees] = scores
        found.weights[b, h, i, sees] = np.exp(scores - found.lse[b, h, i])
        found.out[b, h, i] = found.weights[b, h, i, sees] @ v[b, kv_head, sees]
    return found


def assert_agrees(got: Attended, expected: Reference, dtype: str) -> None:
    assert got.lse.dtype == torch.float32
    np.testing.assert_allclose(got.lse.numpy(), expected.lse, rtol=1e-6, atol=LSE_TOLERANCE[dtype])
    np.testing.assert_allclose(got.out.float().numpy(), expected.out, rtol=0, atol=OUT_TOLERANCE[dtype])
    assert got.out.dtype == DTYPES[dtype]


GROUPS, TOKENS, PASTS, PADS, WINDOWS = (1, 2, H), (1, 6), (0, PAST), ("none", "left", "right"), (None, 1, 3, 50)
CAPS, SINKS = (None, 1.5), (False, True)
WHICH = ("group", "tokens", "past", "pad", "window", "cap", "sink", "dtype")


@pytest.mark.parametrize(WHICH, covering(GROUPS, TOKENS, PASTS, PADS, WINDOWS, CAPS, SINKS, tuple(DTYPES)))
def test_both_branches_are_the_definition(
    group: int, tokens: int, past: int, pad: str, window: int | None, cap: float | None, sink: bool, dtype: str
) -> None:
    assert_both_branches_are_the_definition(group, tokens, past, pad, window, cap, sink, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pad", PADS)
def test_both_branches_are_the_definition_in_every_combination(pad: str, dtype: str) -> None:
    for group, tokens, past, window, cap, sink in product(GROUPS, TOKENS, PASTS, WINDOWS, CAPS, SINKS):
        assert_both_branches_are_the_definition(group, tokens, past, pad, window, cap, sink, dtype)


def assert_both_branches_are_the_definition(
    group: int, tokens: int, past: int, pad: str, window: int | None, cap: float | None, sink: bool, dtype: str
) -> None:
    query, key, value = inputs(H // group, tokens, past, DTYPES[dtype])
    rule = spec(kv_heads=H // group, window=window, cap=cap)
    padding = padding_of(pad, past + tokens)
    sinks = drawn(H, seed=4) if sink else None
    expected = reference(query, key, value, rule, past, padding, sinks)
    fused = fused_attention(query, key, value, rule, past=past, padding=padding, sinks=sinks)
    explicit = explicit_attention(query, key, value, rule, past=past, padding=padding, sinks=sinks)
    assert_agrees(fused, expected, dtype)
    assert_agrees(explicit, expected, dtype)
    assert fused.scores is fused.weights is None
    assert explicit.scores is not None
    assert explicit.weights is not None
    assert explicit.scores.dtype == explicit.weights.dtype == torch.float32
    np.testing.assert_allclose(explicit.scores.numpy(), expected.scores, rtol=0, atol=LSE_TOLERANCE[dtype])
    np.testing.assert_allclose(explicit.weights.numpy(), expected.weights, rtol=0, atol=LSE_TOLERANCE[dtype])


@pytest.mark.parametrize("sink", [False, True], ids=["", "sink"])
@pytest.mark.parametrize("cap", [None, 1.5], ids=["kernel", "row blocks"])
@pytest.mark.parametrize(
    ("past", "tokens", "window", "hidden", "blind"),
    [
        (0, 5, None, [0, 1, 2], [0, 1, 2]),  # left padding: its own rows see nothing
        (0, 5, None, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
        (0, 5, 1, [2, 4], [2, 4]),  # W = 1: a padded row sees only itself
        (0, 5, 2, [3, 4], [4]),
        (4, 1, None, [0, 1, 2, 3, 4], [0]),
        (4, 2, None, [0, 1, 2, 3, 4], [0]),  # the past all padding, the chunk half
        (4, 3, 2, [0, 1, 2, 3, 4], [0]),
    ],
)
def test_a_row_that_sees_nothing_is_marked_and_never_nan(
    past: int, tokens: int, window: int | None, hidden: list[int], blind: list[int], cap: float | None, sink: bool
) -> None:
    query, key, value = inputs(2, tokens, past)
    padding = torch.ones(B, past + tokens, dtype=torch.bool)
    padding[1, hidden] = False
    sinks = drawn(H, seed=4) if sink else None
    rule = spec(window=window, cap=cap)
    for attend in (fused_attention, explicit_attention):
        got = attend(query, key, value, rule, past=past, padding=padding, sinks=sinks)
        assert_agrees(got, reference(query, key, value, rule, past, padding, sinks), "float32")
        marked = torch.zeros(B, H, tokens, dtype=torch.bool)
        marked[1, :, blind] = True
        assert torch.equal(got.lse == math.inf, marked)
        assert torch.equal((got.out == 0).all(-1), marked)
        assert not got.out.isnan().any()
        if got.weights is not None:
            assert torch.equal((got.weights == 0).all(-1), marked)


def test_padding_longer_than_the_kernels_own_blocks_of_keys() -> None:
    # the kernel walks keys in blocks of 512; here whole blocks hold nothing but padding
    query, key, value = inputs(2, 1400, 0)
    padding = torch.ones(B, 1400, dtype=torch.bool)
    padding[0, :1100] = False
    padding[1, 200:1300] = False
    fused = fused_attention(query, key, value, spec(), padding=padding)
    explicit = explicit_attention(query, key, value, spec(), padding=padding)
    torch.testing.assert_close(fused.out, explicit.out, rtol=0, atol=2e-6)
    torch.testing.assert_close(fused.lse, explicit.lse, rtol=1e-6, atol=2e-6)


def test_weights_and_the_sinks_share_sum_to_one() -> None:
    query, key, value = inputs(2, 6, 0)
    sinks = drawn(H, seed=4)
    got = explicit_attention(query, key, value, spec(), sinks=sinks)
    assert got.weights is not None
    share = (sinks[None, :, None] - got.lse).exp()
    torch.testing.assert_close(got.weights.sum(-1) + share, torch.ones(B, H, 6))
    assert float(share.min()) > 0.01


def test_scores_that_overflow_float16_do_not_become_nan() -> None:
    query, key, value = inputs(2, 6, 0, torch.float16)
    query, key = query * 200, key * 200  # q·k reaches 5·10⁵, float16 ends at 65,504
    expected = reference(query, key, value, spec(), 0, None, None)
    assert np.abs(expected.scores[np.isfinite(expected.scores)]).max() > 65_504
    for attend in (fused_attention, explicit_attention):
        got = attend(query, key, value, spec())
        np.testing.assert_allclose(got.lse.numpy(), expected.lse, rtol=1e-6, atol=0.01)  # sums of terms near 10⁵
        np.testing.assert_allclose(got.out.float().numpy(), expected.out, rtol=0, atol=2e-3)


@pytest.mark.parametrize("window", [None, 3])
def test_without_causality_every_key_within_reach_is_seen(window: int | None) -> None:
    query, key, value = inputs(2, 6, 0)
    rule = spec(causal=False, window=window)
    fused, explicit = (attend(query, key, value, rule) for attend in (fused_attention, explicit_attention))
    assert explicit.weights is not None
    assert (explicit.weights[..., 0, :] > 0).all()
    torch.testing.assert_close(fused.out, explicit.out, rtol=0, atol=2e-6)
    torch.testing.assert_close(fused.lse, explicit.lse, rtol=0, atol=2e-6)


# Blocks


@pytest.mark.parametrize("elements", [1, B * H * 12 * 2, 1 << 23], ids=["a row", "two rows", "everything"])
@pytest.mark.parametrize("pad", ["none", "left", "right"])
@pytest.mark.parametrize("window", [None, 1, 4])
@pytest.mark.parametrize("past", [0, PAST])
def test_row_blocks_are_the_kernel(
    monkeypatch: pytest.MonkeyPatch, past: int, window: int | None, pad: str, elements: int
) -> None:
    monkeypatch.setattr(attention, "BLOCK_ELEMENTS", elements)
    query, key, value = inputs(2, 7, past)
    padding = padding_of(pad, past + 7)
    kernel = fused_attention(query, key, value, spec(window=window), past=past, padding=padding)
    with monkeypatch.context() as patched:
        patched.setattr(attention, "KERNEL_DTYPES", ())
        blocks = fused_attention(query, key, value, spec(window=window), past=past, padding=padding)
    torch.testing.assert_close(blocks.out, kernel.out, rtol=0, atol=2e-6)
    torch.testing.assert_close(blocks.lse, kernel.lse, rtol=0, atol=2e-6)


@pytest.mark.parametrize("pad", ["none", "left", "right"])
@pytest.mark.parametrize("past", [0, 3, 20])
@pytest.mark.parametrize("window", [1, 7, 8, 9, 16])
def test_windows_that_cross_their_blocks(monkeypatch: pytest.MonkeyPatch, window: int, past: int, pad: str) -> None:
    monkeypatch.setattr(attention, "WINDOW_BLOCK", 8)
    query, key, value = inputs(2, 25, past)
    padding = padding_of(pad, past + 25)
    rule = spec(window=window)
    fused = fused_attention(query, key, value, rule, past=past, padding=padding)
    explicit = explicit_attention(query, key, value, rule, past=past, padding=padding)
    torch.testing.assert_close(fused.out, explicit.out, rtol=0, atol=2e-6)
    torch.testing.assert_close(fused.lse, explicit.lse, rtol=0, atol=2e-6)


def test_a_window_at_the_real_block_size() -> None:
    query, key, value = inputs(2, 2 * attention.WINDOW_BLOCK + 3, 11)
    fused, explicit = (
        attend(query, key, value, spec(window=100), past=11) for attend in (fused_attention, explicit_attention)
    )
    assert explicit.weights is not None
    assert int((explicit.weights[0, 0] > 0).sum(-1).max()) == 100
    torch.testing.assert_close(fused.out, explicit.out, rtol=0, atol=2e-6)
    torch.testing.assert_close(fused.lse, explicit.lse, rtol=0, atol=2e-6)


@pytest.mark.parametrize("cuts", [(1,), (4,), (1, 2, 3, 4, 5, 6, 7, 8), (3, 4, 7)], ids=str)
@pytest.mark.parametrize("window", [None, 3])
def test_chunks_against_the_cache_are_one_call(window: int | None, cuts: tuple[int, ...]) -> None:
    query, key, value = inputs(2, 9, 0)
    rule = spec(window=window)
    whole = fused_attention(query, key, value, rule)
    bounds = (0, *cuts, 9)
    parts = [
        fused_attention(query[:, :, start:stop], key[:, :, :stop], value[:, :, :stop], rule, past=start)
        for start, stop in pairwise(bounds)
    ]
    torch.testing.assert_close(torch.cat([part.out for part in parts], 2), whole.out, rtol=0, atol=2e-6)
    torch.testing.assert_close(torch.cat([part.lse for part in parts], 2), whole.lse, rtol=0, atol=2e-6)


# What is never made

FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


class Watched(TorchDispatchMode):
    """Records the largest tensor made, and the heads of K and V that reach the kernel."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = 0
        self.kernel_heads: set[tuple[int, ...]] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is FLASH:
            self.kernel_heads.add(tuple(x.shape[1] for x in args[:3]))
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, Tensor):
                self.largest = max(self.largest, made.numel())
        return result


@contextmanager
def watched() -> Iterator[Watched]:
    with torch.no_grad(), Watched() as seen:
        yield seen


LONG = 4096


@pytest.mark.parametrize("pad", [False, True], ids=["", "padded"])
@pytest.mark.parametrize(
    ("tokens", "changes"),
    [(LONG, {}), (LONG, {"window": 1500}), (LONG // 2, {}), (LONG // 2, {"window": 300}), (1, {})],
    ids=["causal", "window", "chunk", "window on a chunk", "decode"],
)
def test_the_fused_branch_makes_nothing_of_size_t_times_t(tokens: int, changes: dict[str, Any], pad: bool) -> None:
    past = LONG - tokens
    query, key, value = inputs(1, tokens, past, batch=1, heads=2)
    padding = (torch.arange(LONG) >= 10)[None] if pad else None
    with watched() as seen:
        fused_attention(query, key, value, spec(2, 1, **changes), past=past, padding=padding)
    # K and V are never expanded to H heads; in a decode step the query heads of one kv head go in as its rows
    assert seen.kernel_heads == {(1 if tokens == 1 else 2, 1, 1)}
    allowed = 0 if "window" not in changes else attention.WINDOW_BLOCK * (attention.WINDOW_BLOCK + changes["window"])
    assert seen.largest <= max(2 * LONG * DH, allowed)
    assert seen.largest < LONG * LONG / 16


def test_row_blocks_stay_within_their_bound() -> None:
    query, key, value = inputs(1, LONG, 0, batch=1, heads=2)
    with watched() as seen:
        fused_attention(query, key, value, spec(2, 1, cap=30.0))
    assert seen.kernel_heads == set()
    assert seen.largest <= attention.BLOCK_ELEMENTS < 2 * LONG * LONG


def test_the_watch_itself_sees_the_explicit_branchs_matrices() -> None:
    query, key, value = inputs(1, 64, 0, batch=1, heads=2)
    with watched() as seen:
        explicit_attention(query, key, value, spec(2, 1))
    assert seen.largest == 2 * 64 * 64


# Gradients


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize(
    ("past", "changes", "sink", "pad"),
    [
        (0, {}, False, "none"),
        (0, {}, False, "right"),
        (0, {}, False, "left"),
        (0, {"window": 3}, False, "none"),
        (0, {"cap": 2.0}, False, "none"),
        (0, {}, True, "none"),
        (0, {}, True, "left"),
        (4, {}, False, "none"),
        (4, {"window": 3}, True, "left"),
    ],
)
def test_the_fused_branch_has_the_explicit_branchs_gradient(
    past: int, changes: dict[str, Any], sink: bool, pad: str, kv_heads: int
) -> None:
    query, key, value = leaves = tuple(x.requires_grad_() for x in inputs(kv_heads, 6, past))
    rule = spec(kv_heads=kv_heads, **changes)
    sinks = drawn(H, seed=4).requires_grad_() if sink else None
    wanted = [*leaves, *([] if sinks is None else [sinks])]
    towards = drawn(B, H, 6, DH, seed=5)
    found = []
    for attend in (fused_attention, explicit_attention):
        out = attend(query, key, value, rule, past=past, padding=padding_of(pad, past + 6), sinks=sinks).out
        found.append(torch.autograd.grad((out * towards).sum(), wanted))
    for ours, theirs in zip(*found, strict=True):
        assert float(theirs.abs().max()) > 0.01
        torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-6)
