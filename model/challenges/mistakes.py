"""The classic mistakes of the challenges: what kind each is, and the sentence that names it. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ropewalk.model.challenges.challenge import Kind

SENTENCES: Final[Mapping[str, tuple[Kind, str]]] = {
    "viewed": (
        "order",
        "It views [B, T, H·Dh] straight as [B, H, T, Dh], which scrambles positions into heads; cut the last "
        "axis into (H, Dh) first, then transpose the head axis in front of the positions.",
    ),
    "strided": (
        "order",
        "It deals the features out to the heads in turn; a head takes Dh neighbouring features, so the last axis "
        "is cut into (H, Dh), not (Dh, H).",
    ),
    "not_moved": (
        "shape",
        "The head axis still stands behind the positions: transpose [B, T, H, Dh] to [B, H, T, Dh].",
    ),
    "features_first": ("shape", "Positions and features have changed places: the last axis must be Dh."),
    "adjacent": (
        "pairing",
        "It pairs feature 2i with 2i + 1 (adjacent); this asks for half-split pairs, feature i with i + Dh/2.",
    ),
    "shuffled": (
        "pairing",
        "It turns adjacent pairs but lays the two halves of the result side by side; turn feature i with i + "
        "Dh/2 and keep each in its place.",
    ),
    "backwards": (
        "pairing",
        "It turns the wrong way: the first of a pair becomes first·cos − second·sin, the second second·cos + "
        "first·sin.",
    ),
    "exponent": ("scale", "Its planes turn at the wrong speed: θ_i = base^(−2i/Dh), and the 2 is missing."),
    "counted_anew": ("position", "It counts the positions from 0 again instead of using those that were given."),
    "from_one": ("position", "It counts positions from 1; the first position is 0."),
    "q_still": ("value", "Q has not been turned; RoPE turns Q and K."),
    "k_still": ("value", "K has not been turned; RoPE turns Q and K."),
    "v_turned": ("value", "V has been turned; RoPE turns Q and K, and never V."),
    "tiled": (
        "order",
        "K and V are tiled: the heads stand as A B A B, but neighbours share, so each head is repeated in place, "
        "A A B B (repeat_interleave).",
    ),
    "positions_repeated": ("shape", "The positions were repeated instead of the heads: repeat along axis 1."),
    "batch_repeated": ("shape", "The batch was repeated instead of the heads: repeat along axis 1."),
    "features_repeated": ("shape", "The features were repeated instead of the heads: repeat along axis 1."),
    "transposed": (
        "order",
        "The weights are used the wrong way round: they are stored as (out, in), so it is x · Wᵀ.",
    ),
    "unscaled": ("scale", "The scores are not divided by √Dh."),
    "scaled_by_width": (
        "scale",
        "The scores are divided by √D; one head's q·k is a sum of Dh products, so it is √Dh.",
    ),
    "scaled_up": ("scale", "The scores are multiplied by √Dh; they must be divided by it."),
    "no_root": ("scale", "The scores are divided by Dh; it is the square root of it."),
    "unmasked": ("mask", "There is no causal mask: a row sees tokens that come after it."),
    "sees_next": ("mask", "The mask is off by one: a row sees the token after it. Hide every key with k > q."),
    "sees_not_itself": (
        "mask",
        "The mask is off by one: a row does not see its own token. Hide keys with k > q, not k ≥ q.",
    ),
    "masked_late": (
        "mask",
        "The mask comes after the softmax, so the rows no longer sum to one; put −∞ into the scores before it.",
    ),
    "masked_with_zero": ("mask", "Masked scores are set to 0, but exp(0) is 1; set them to −∞."),
    "top_left": (
        "mask",
        "The causal mask is aligned top-left, so the one query sees key 0 alone; it comes last and sees every key.",
    ),
    "softmax_over_queries": (
        "order",
        "The softmax runs over the queries; each row of weights must sum to one over the keys (the last axis).",
    ),
    "swapped": ("order", "The scores are K·Qᵀ; they must be Q·Kᵀ, with a row for each query."),
    "blends_keys": ("value", "The weights blend K; they must blend V."),
    "joined_unmoved": (
        "order",
        "The heads are joined without moving the head axis back: transpose [B, H, T, Dh] to [B, T, H, Dh] before "
        "the reshape.",
    ),
    "no_output": ("value", "W_O is missing at the end."),
    "at_zero": (
        "position",
        "The new token is turned as if it stood at position 0; it stands at P, the number of cached tokens.",
    ),
    "one_late": ("position", "The new token is turned to position P + 1; positions count from 0, so it stands at P."),
    "stored_unturned": ("position", "The new key is stored before it is turned; the cache holds turned keys."),
    "turned_again": ("position", "Cached keys are turned a second time; they were stored turned."),
    "prepended": ("order", "The new key and value are put in front of the cache; append them behind it."),
    "without_itself": ("mask", "The query does not see its own key: append first, then attend."),
    "only_itself": ("mask", "The query attends to its own key alone; it must see the whole cache."),
    "cache_kept": ("value", "The cache comes back as it was; it must have grown by the new key and value."),
    "cache_replaced": ("value", "Only the new key and value come back; the cache must hold the old ones too."),
    "attention_unnormed": ("value", "Attention reads the stream itself; it reads it through the first norm."),
    "mlp_unnormed": ("value", "The MLP reads the stream itself; it reads it through the second norm."),
    "mlp_reads_input": (
        "value",
        "The MLP reads the block's input; it reads the stream after attention has been added.",
    ),
    "residual_normed": ("value", "The residual adds to the normed copy; it adds to the stream itself."),
    "no_first_residual": ("value", "The first residual is missing: attention's output is added to the stream."),
    "no_second_residual": ("value", "The second residual is missing: the MLP's output is added to the stream."),
    "second_from_input": (
        "value",
        "The second residual starts from the block's input, so what attention wrote is lost.",
    ),
    "layer_norm": ("value", "The norm takes the mean away (LayerNorm); this asks for RMSNorm, which only scales."),
    "length_norm": (
        "scale",
        "The norm divides by the length of the row; RMSNorm divides by the root of the mean square.",
    ),
    "eps_outside": ("value", "The ε is added outside the square root; it belongs inside."),
    "no_gain": ("value", "The norm's gain is not used."),
    "gate_swapped": ("order", "Gate and up have changed places: it is silu(gate x) · up x."),
    "no_gate": ("value", "The gate is missing: it is silu(gate x) · up x."),
    "no_silu": ("value", "The silu is missing: it is silu(gate x) · up x."),
    "gelu": ("value", "The activation is GELU; SwiGLU uses SiLU."),
    "no_rope": ("position", "Q and K are not turned by their positions."),
}
