"""Build challenge: a whole block.

Run it:  python main.py challenge transformer_block THIS_FILE.py
"""

from torch import Tensor


def transformer_block(
    x: Tensor, weights: dict[str, Tensor], heads: int, kv_heads: int, base: float, eps: float
) -> Tensor:
    """Walk the eight stages.

    x         [B, T, D], at positions 0 … T − 1
    weights   "q" [H·Dh, D], "k" and "v" [Hkv·Dh, D], "o" [D, H·Dh], "gate" and "up" [F, D], "down" [D, F], stored as
              (out, in); "attn_norm" and "mlp_norm" [D], the gains of the two norms
    heads     H; query head h reads kv head h // (H / Hkv)
    base      RoPE: plane i turns by position · base^(−2i/Dh), in half-split pairs (i, i + Dh/2)
    eps       inside the square root of RMSNorm: x / √(mean(x²) + eps) · gain

    x + attention(norm(x)), then that + down(silu(gate n) · up n) with n the norm of it.

    Returns [B, T, D].
    """
    raise NotImplementedError
