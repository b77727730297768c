"""Hook points by short names: ``z`` is the point of that name in every layer, ``blocks.3.attn.hook_z`` one alone."""

from __future__ import annotations

from typing import Final

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.hooks import hook_points
from ropewalk.model.errors import HookError

STREAM: Final = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")
"""Points of a block, [B, T, D]."""
ATTENTION: Final = ("q", "q_normed", "rot_q", "k", "k_normed", "rot_k", "v", "z", "attn_scores", "pattern")
"""Points of its attention, [B, heads, T, …]."""


def points_of(model: Decoder, at: str) -> dict[str, int]:
    """Names of hook points and the layer of each: −1 for what comes before the first one, L for what comes after.

    Raises
    ------
    HookError
        For a name that there is not.
    """
    if not isinstance(at, str):
        raise HookError(f"{at!r:.40} is no hook point; name one, such as 'z' or 'blocks.0.attn.hook_z'.")
    there, layers = hook_points(model), model.config.layers
    if at in there:
        _, blocks, rest = at.rpartition("blocks.")
        return {at: int(rest.partition(".")[0]) if blocks else (-1 if at == "hook_embed" else layers)}
    part = f"hook_{at}" if at in STREAM else f"attn.hook_{at}"
    named = {f"blocks.{layer}.{part}": layer for layer in range(layers)}
    found = {name: layer for name, layer in named.items() if name in there}
    if not found or at not in (*STREAM, *ATTENTION):
        raise HookError(
            f"There is no point {at!r:.60} in this model; name one of {', '.join((*STREAM, *ATTENTION))}, or a hook "
            "point such as 'blocks.0.attn.hook_z'."
        )
    return found
