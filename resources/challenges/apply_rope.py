"""Build challenge: rotate Q and K, and leave V alone.

Run it:  python main.py challenge apply_rope THIS_FILE.py
"""

from torch import Tensor


def apply_rope(q: Tensor, k: Tensor, v: Tensor, positions: Tensor, base: float) -> tuple[Tensor, Tensor, Tensor]:
    """Turn every plane of q and k by its token's position.

    q           [B, H, T, Dh]
    k, v        [B, Hkv, T, Dh]
    positions   [T] whole numbers; they need not begin at 0
    base        plane i turns by position · base^(−2i/Dh) radians

    Half-split pairs: plane i holds features i and i + Dh/2. A plane (a, b) becomes
    (a·cos − b·sin, b·cos + a·sin).

    Returns q, k and v of the same shapes. Assert for yourself that v has not changed.
    """
    raise NotImplementedError
