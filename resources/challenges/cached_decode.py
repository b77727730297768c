"""Build challenge: one decode step with one query over a cache.

Run it:  python main.py challenge cached_decode THIS_FILE.py
"""

from collections.abc import Callable

from torch import Tensor


def cached_decode(
    x: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: dict[str, Tensor],
    heads: int,
    kv_heads: int,
    rotate: Callable[[Tensor, int], Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Decode one token.

    x              [B, 1, D], the new token's row
    keys, values   [B, Hkv, P, Dh], the cache; keys are stored rotated. P may be 0.
    weights        "q" [H·Dh, D], "k" and "v" [Hkv·Dh, D], "o" [D, H·Dh], stored as (out, in)
    heads          H; query head h reads kv head h // (H / Hkv)
    rotate         rotate(a, position) turns a [B, heads, 1, Dh] to a position; it is given

    Returns the output [B, 1, D], and the cache with the new key and value behind the old ones: twice
    [B, Hkv, P + 1, Dh].
    """
    raise NotImplementedError
