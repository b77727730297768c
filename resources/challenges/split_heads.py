"""Build challenge: cut a projected vector into heads.

Run it:  python main.py challenge split_heads THIS_FILE.py
"""

from torch import Tensor


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Cut the features of every token into heads, and move the head axis in front of the positions.

    x       [B, T, H·Dh], a projection of the stream
    heads   H; refuse a width that H does not divide (assert it)

    Returns [B, H, T, Dh]: head h holds features h·Dh … (h + 1)·Dh − 1 of every token.
    """
    raise NotImplementedError
