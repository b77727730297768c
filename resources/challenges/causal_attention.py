"""Build challenge: causal self-attention, from the stream back to the stream. Thirty lines are plenty.

Run it:  python main.py challenge causal_attention THIS_FILE.py
"""

from torch import Tensor


def causal_attention(x: Tensor, weights: dict[str, Tensor], heads: int) -> Tensor:
    """Attend.

    x         [B, T, D]
    weights   "q", "k", "v", "o": [D, D] each, stored as (out, in), so that a projection is x @ W.T
    heads     H, each Dh = D / H wide; no sharing, no rotation, no biases

    Project; cut into heads; score, divide by √Dh; hide every key after the query; softmax; blend the values; lay the
    heads side by side; project with W_O.

    Returns [B, T, D].
    """
    raise NotImplementedError
