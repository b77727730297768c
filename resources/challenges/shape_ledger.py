"""Build challenge: the shape of every step of a block, with and without a past.

Run it:  python main.py challenge shape_ledger THIS_FILE.py
"""


def shape_ledger(
    batch: int,
    tokens: int,
    past: int,
    width: int,
    heads: int,
    kv_heads: int,
    head_width: int,
    mlp_width: int,
    vocabulary: int,
) -> dict[str, tuple[int, ...]]:
    """Write down the shape of every result, from sizes alone.

    Sizes are B, T (new tokens), P (tokens in the cache), D, H, Hkv, Dh, F and V. Mind that H·Dh need not be D, and that
    a decode step has T = 1.

    Returns a dict with these keys: embedding; q, k, v (projected, heads together); split_q, split_k (in heads,
    [B, heads, positions, Dh]); cache_k (what the cache holds afterwards); shared (K as attention reads it, a head for
    each query head); scores; blend (in heads); concatenate; o; residual_mid; gate; up; down; residual_post; lm_head.
    """
    raise NotImplementedError
