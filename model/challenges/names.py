"""The build challenges by name, and what each asks for. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CHALLENGES: Final[Mapping[str, str]] = {
    "split_heads": "cut a projected vector into heads: [B, T, H·Dh] to [B, H, T, Dh]",
    "apply_rope": "rotate Q and K, and leave V alone",
    "repeat_kv": "share K or V among the query heads of its group",
    "causal_attention": "causal self-attention from the stream back to the stream",
    "cached_decode": "one decode step with one query over a cache",
    "transformer_block": "norms, attention, SwiGLU and both residuals",
    "shape_ledger": "the shape of every step of a block, with and without a past",
}
