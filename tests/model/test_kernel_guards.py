"""Each guard of the fused kernel, in a process of its own: without the guard some of these calls kill it.

A fork server imports torch once and every case runs in a fresh child of it, so that a crash is an exit code here and
not the end of the tests.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder.attention import explicit_attention, fused_kernel
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.errors import AttentionError

if sys.platform == "win32":
    from multiprocessing.context import SpawnContext as FreshContext
else:
    from multiprocessing.context import ForkServerContext as FreshContext

PATIENCE = 120  # seconds for a child to import torch and answer
CONTEXT = FreshContext()


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def call(
    query: tuple[int, ...] = (2, 4, 5, 8),
    key: tuple[int, ...] = (2, 2, 5, 8),
    value: tuple[int, ...] | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype] = (torch.float32,) * 3,
    device: str = "cpu",
) -> None:
    q, k, v = (drawn(*shape, dtype=dtype) for shape, dtype in zip((query, key, value or key), dtypes, strict=True))
    fused_kernel(q.to(device), k.to(device), v.to(device), scale=1.0, causal=causal, mask=mask)


F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16

# What is wrong → the call, and what the sentence must name.
REFUSED: dict[str, tuple[Callable[[], None], str]] = {
    "no queries": (lambda: call(query=(2, 4, 0, 8)), "0 queries and 5 keys"),
    "no keys": (lambda: call(key=(2, 2, 0, 8)), "5 queries and 0 keys"),
    "no queries and no keys": (lambda: call(query=(2, 4, 0, 8), key=(2, 2, 0, 8)), "0 queries and 0 keys"),
    "an empty batch": (lambda: call(query=(0, 4, 5, 8), key=(0, 2, 5, 8)), "batch of 0"),
    "heads that do not divide": (lambda: call(key=(2, 3, 5, 8)), "4 query heads .* 3 kv heads"),
    "more kv heads than heads": (lambda: call(key=(2, 8, 5, 8)), "4 query heads .* 8 kv heads"),
    "another batch": (lambda: call(key=(1, 2, 5, 8)), "batch 2 and head width 8, keys 1 and 8"),
    "another width": (lambda: call(key=(2, 2, 5, 6)), "batch 2 and head width 8, keys 2 and 6"),
    "wide V": (lambda: call(value=(2, 2, 5, 16)), r"\(2, 2, 5, 8\) and \(2, 2, 5, 16\)"),
    "V of other keys": (lambda: call(value=(2, 2, 4, 8)), r"\(2, 2, 5, 8\) and \(2, 2, 4, 8\)"),
    "three axes": (lambda: call(query=(4, 5, 8)), r"\(4, 5, 8\).* \[B, H, T, Dh\]"),
    "causal on a past": (lambda: call(key=(2, 2, 9, 8), causal=True), "5 queries and 9 keys"),
    "causal with too few keys": (lambda: call(key=(2, 2, 3, 8), causal=True), "5 queries and 3 keys"),
    "mixed dtypes": (lambda: call(dtypes=(F32, BF16, F32)), "float32, torch.bfloat16 and torch.float32"),
    "float64": (lambda: call(dtypes=(F64, F64, F64)), "float64"),
    "integers": (lambda: call(dtypes=(torch.int64,) * 3), "int64"),
    "another device": (lambda: call(device="meta"), "on meta"),
    "a mask of another dtype": (
        lambda: call(dtypes=(BF16, BF16, BF16), mask=torch.zeros(2, 1, 1, 5)),
        "mask is torch.float32.* torch.bfloat16",
    ),
    "a mask of integers": (lambda: call(mask=torch.ones(2, 1, 1, 5, dtype=torch.int64)), "mask is torch.int64"),
    "a mask of too few keys": (lambda: call(mask=torch.zeros(2, 1, 1, 4)), r"\(2, 1, 1, 4\).* \[2, 1, 5, 5\]"),
    "a mask of one key": (lambda: call(mask=torch.zeros(2, 1, 1, 1)), r"\(2, 1, 1, 1\).* \[2, 1, 5, 5\]"),
    "a mask of another batch": (lambda: call(mask=torch.zeros(3, 1, 1, 5)), r"\(3, 1, 1, 5\).* \[2, 1, 5, 5\]"),
    "a mask of two axes": (lambda: call(mask=torch.zeros(5, 5)), r"\(5, 5\).* \[2, 1, 5, 5\]"),
    "a mask of each head": (lambda: call(mask=torch.zeros(2, 4, 5, 5)), r"\(2, 4, 5, 5\).* \[2, 1, 5, 5\]"),
}


def hidden_mask() -> Tensor:
    """[B, 1, T, S] bool with a hole, and one row of the second batch hidden altogether."""
    seen = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    seen[0, 0, 1, 2:] = False
    seen[1, 0, 3] = False
    return seen


def unlike(x: Tensor, kind: str) -> Tensor:
    """The same values in another layout."""
    if kind == "last stride 5":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if kind == "last stride 2":
        return x.repeat_interleave(2, -1)[..., ::2]
    if kind == "split heads":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    room = torch.full((2, x.shape[1], 64, 8), math.nan)  # a cache with room after its rows
    room[:, :, : x.shape[2]] = x
    return room[:, :, : x.shape[2]]


LAYOUTS = ["last stride 5", "last stride 2", "split heads", "a cache"]


def difference(mask: Tensor | None = None, layout: tuple[str, str] = ("", ""), causal: bool = False) -> float:
    """Largest difference between the kernel and the explicit definition, over out and lse."""
    q, k, v = drawn(2, 4, 5, 8, seed=1), drawn(2, 2, 5, 8, seed=2), drawn(2, 2, 5, 8, seed=3)
    moved = {name: unlike(x, layout[1]) if name in layout[0] else x for name, x in (("q", q), ("k", k), ("v", v))}
    out, lse = fused_kernel(moved["q"], moved["k"], moved["v"], scale=0.5, causal=causal, mask=mask)
    scores = 0.5 * q @ k.repeat_interleave(2, 1).transpose(-1, -2)
    seen = torch.ones(5, 5, dtype=torch.bool).tril() if causal else torch.ones(5, 5, dtype=torch.bool)
    if mask is not None:
        seen = seen & (mask if mask.dtype == torch.bool else mask == 0)
    scores = scores.masked_fill(~seen, -math.inf)
    blind = ~seen.any(-1).expand(2, 4, 5)  # the caller knows these rows: the kernel gives them lse 0 and out 0
    expected = scores.softmax(-1).masked_fill(blind[..., None], 0.0) @ v.repeat_interleave(2, 1)
    off = (lse - scores.logsumexp(-1).masked_fill(blind, 0.0)).abs().max()
    return float(torch.maximum((out - expected).abs().max(), off))


ANSWERED: dict[str, Callable[[], float]] = {
    **{
        f"{names} of {kind}": partial(difference, layout=(names, kind))
        for names in ("q", "k", "v", "qkv")
        for kind in LAYOUTS
    },
    "a boolean mask": lambda: difference(hidden_mask()),
    "a boolean mask for all rows": lambda: difference(hidden_mask()[:, :, 1:2]),
    "a boolean mask for all batches": lambda: difference(hidden_mask()[:1]),
    "a float mask": lambda: difference(torch.zeros(2, 1, 5, 5).masked_fill(~hidden_mask(), -math.inf)),
    "a causal call with a mask": lambda: difference(hidden_mask()[:, :, 1:2], causal=True),
    "a causal call": lambda: difference(causal=True),
}


def child(name: str, pipe: Connection) -> None:
    """Run one case and send what came of it."""
    try:
        if name in REFUSED:
            REFUSED[name][0]()
            pipe.send("answered")
        else:
            pipe.send(ANSWERED[name]())
    except AttentionError as error:
        pipe.send(error.sentence)


def outcome(name: str) -> tuple[str | float | None, int | None]:
    """What a case sent, and the exit code of its process."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    if sys.platform != "win32":
        CONTEXT.set_forkserver_preload(["__main__", __name__])
    process = CONTEXT.Process(target=child, args=(name, theirs))
    process.start()
    theirs.close()
    try:
        sent = ours.recv() if ours.poll(PATIENCE) else None
    except EOFError:  # it died before it answered
        sent = None
    process.join(PATIENCE)
    code = process.exitcode
    process.close()
    ours.close()
    return sent, code


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_kernel_cannot_do_is_refused_in_a_sentence(name: str) -> None:
    sentence, code = outcome(name)
    assert code == 0, f"the process died with {code}"
    assert isinstance(sentence, str)
    with pytest.raises(AttentionError, match=REFUSED[name][1]):
        raise AttentionError(sentence)
    assert sentence.endswith(".")


@pytest.mark.parametrize("name", ANSWERED)
def test_what_the_kernel_gets_wrong_by_itself_is_answered_rightly(name: str) -> None:
    off, code = outcome(name)
    assert code == 0, f"the process died with {code}"
    assert isinstance(off, float)
    assert off < 2e-6


def test_explicit_attention_agrees_with_this_files_own_definition() -> None:
    q, k, v = drawn(2, 4, 5, 8, seed=1), drawn(2, 2, 5, 8, seed=2), drawn(2, 2, 5, 8, seed=3)
    rule = AttentionSpec(layer=0, heads=4, kv_heads=2, head_width=8, scale=0.5)
    got = explicit_attention(q, k, v, rule)
    out, lse = fused_kernel(q, k, v, scale=0.5, causal=True)
    torch.testing.assert_close(got.out, out, rtol=0, atol=2e-6)
    torch.testing.assert_close(got.lse, lse, rtol=0, atol=2e-6)
