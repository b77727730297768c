"""The walk through one block: its operations in the order they run, each with the matrices that it takes and makes.

A plan is made from a config alone, so that the engine, the window and a lesson mean the same steps. Matrices are called
by names such as ``normed`` and ``w_q``; what one equation makes, a later one takes under the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.costs import shares_norm

Form = Literal["product", "each"]

WHOLE: Final = 1 << 18
"""Numbers of W_q up to which all heads are projected in sight; of a larger one, the selected head's part is shown."""

STEPS: Final = (
    *("stream", "attn_norm", "q", "k", "v", "split_q", "q_norm", "rope_q", "scores", "scale", "score_cap", "mask"),
    *("softmax", "blend", "concatenate", "o", "attn_post_norm", "residual_mid", "mlp_norm", "router", "gate", "up"),
    *("activation", "down", "combine", "mlp_post_norm", "residual_post"),
)
"""Keys of all steps that there are; a block has those that its family has."""


@dataclass(frozen=True)
class Equation:
    """Operands, the sign behind each of them, and what comes of them.

    Attributes
    ----------
    form
        ``product``: rows of the first operand times columns of the second, plus the third where there is one;
        ``each``: number by number.
    """

    form: Form
    operands: tuple[str, ...]
    signs: tuple[str, ...]
    result: str


@dataclass(frozen=True)
class WalkStep:
    """One step.

    Attributes
    ----------
    key, title
        What keys, lessons and the ledger call it, and what a person reads.
    rows
        Its rows of the shape ledger, by their keys.
    equations
        What is done; empty for the stream that the block begins with.
    """

    key: str
    title: str
    rows: tuple[str, ...]
    equations: tuple[Equation, ...] = ()


def is_whole(config: ModelConfig) -> bool:
    """Whether all heads are projected in sight."""
    return config.width * config.heads * config.head_width <= WHOLE


def plan_of(config: ModelConfig, layer: int) -> tuple[WalkStep, ...]:
    """The steps of one block."""
    c, whole, moe = config, is_whole(config), config.moe if config.is_moe(layer) else None
    pre, post = c.norm_place != "post", c.norm_place != "pre"
    steps = [WalkStep("stream", "the stream", ("embedding",) if layer == 0 else ())]
    normed = "x"
    if pre:
        normed = "normed"
        steps.append(WalkStep("attn_norm", "normalise", ("attn_norm",), (_norm(c, "x", "norm", normed),)))
    heads = tuple(f"{one}_all" if whole else one for one in "qkv")
    biases = (c.query_bias, c.key_bias, c.value_bias)
    for one, made, biased in zip("qkv", heads, biases, strict=True):
        steps.append(WalkStep(one, f"project {one}", (one,), (_product(normed, f"w_{one}", made, f"b_{one}", biased),)))
    if whole:
        cut = tuple(Equation("each", (f"{one}_all",), ("→",), one) for one in "qkv")
        steps.append(WalkStep("split_q", "split into heads", ("split_q", "split_k", "split_v"), cut))
    q, k = "q", "k"
    for key in ("rope_q", "q_norm") if c.qk_norm_after_rope else ("q_norm", "rope_q"):
        if key == "q_norm" and c.qk_norm != "none":
            made = tuple(_qk_norm(c, one, f"{source}", f"{one}_normed") for one, source in (("q", q), ("k", k)))
            steps.append(WalkStep(key, "normalise q and k", ("q_norm", "k_norm"), made))
            q, k = "q_normed", "k_normed"
        elif key == "rope_q" and c.rotary_width(layer):
            turned = tuple(Equation("each", (one, "angles"), ("↻", "="), f"{one[0]}_turned") for one in (q, k))
            steps.append(WalkStep(key, "rotate by position", ("rope_q", "rope_k"), turned))
            q, k = "q_turned", "k_turned"
    steps.append(WalkStep("scores", "scores q·k", ("scores",), (Equation("product", (q, "keys"), ("·", "="), "dots"),)))
    steps.append(_each("scale", "scale", ("scores",), ("dots", "factor"), ("×", "="), "scaled"))
    score = "scaled"
    if c.score_cap is not None:
        steps.append(_each("score_cap", "soft cap", ("score_cap",), (score, "cap"), ("tanh", "="), "capped"))
        score = "capped"
    steps.append(_each("mask", "mask", ("mask",), (score, "seen"), ("if", "="), "masked"))
    steps.append(_each("softmax", "softmax", ("softmax",), ("masked", "lse"), ("−", "exp"), "weights"))
    blend = Equation("product", ("weights", "values"), ("·", "="), "z")
    steps.append(WalkStep("blend", "blend the values", ("blend",), (blend,)))
    steps.append(_each("concatenate", "heads side by side", ("concatenate",), ("z",), ("→",), "z_all"))
    steps.append(WalkStep("o", "W_o", ("o",), (_product("z_all", "w_o", "attn", "b_o", c.output_bias),)))
    added = "attn"
    if post:
        added = "attn_normed"
        steps.append(
            WalkStep(
                "attn_post_norm", "normalise what is written", ("attn_post_norm",), (_norm(c, "attn", "attn", added),)
            )
        )
    stream = "x"
    if not c.parallel_residual:
        stream = "middle"
        steps.append(_added(c, "residual_mid", "add to the stream", ("x",), (added,), stream))
    read = stream
    if pre and shares_norm(c):
        read = "normed"
    elif pre:
        read = "mlp_read"
        steps.append(WalkStep("mlp_norm", "normalise", ("mlp_norm",), (_norm(c, stream, "mlp", read),)))
    if moe is None:
        steps += _mlp(c, read)
    else:
        router = _product(read, "w_router", "router", "b_router", moe.router_bias)
        steps.append(WalkStep("router", "route to experts", ("router",), (router,)))
        inside = ("gate", "up", "activation", "down")
        rows = (*inside, *(f"shared_{one}" for one in (*inside, "scale")), "combine")
        experts = Equation("product", ("shares", "experts"), ("·", "="), "mlp")
        steps.append(WalkStep("combine", "the chosen experts", rows, (experts,)))
    written = "mlp"
    if post:
        written = "mlp_normed"
        steps.append(
            WalkStep(
                "mlp_post_norm",
                "normalise what is written",
                ("mlp_post_norm",),
                (_norm(c, "mlp", "mlp_post", written),),
            )
        )
    both = (added, written) if c.parallel_residual else (written,)
    steps.append(_added(c, "residual_post", "add to the stream", (stream,), both, "after"))
    return tuple(steps)


def _mlp(c: ModelConfig, read: str) -> list[WalkStep]:
    gated = c.mlp == "gated"
    steps = [
        WalkStep("gate", "MLP: gate", ("gate",), (_product(read, "w_gate", "gate", "b_gate", c.mlp_bias),))
    ] * gated
    steps.append(WalkStep("up", "MLP: up", ("up",), (_product(read, "w_up", "up", "b_up", c.mlp_bias),)))
    bent = ("gate", "up") if gated else ("up",)
    signs = (c.activation, "=") if gated else (c.activation,)
    steps.append(_each("activation", "MLP: activation", ("activation",), bent, signs, "hidden"))
    steps.append(WalkStep("down", "MLP: down", ("down",), (_product("hidden", "w_down", "mlp", "b_down", c.mlp_bias),)))
    return steps


def _each(
    key: str, title: str, rows: tuple[str, ...], operands: tuple[str, ...], signs: tuple[str, ...], result: str
) -> WalkStep:
    return WalkStep(key, title, rows, (Equation("each", operands, signs, result),))


def _product(first: str, second: str, result: str, bias: str, biased: bool) -> Equation:
    operands, signs = ((first, second, bias), ("·", "+", "=")) if biased else ((first, second), ("·", "="))
    return Equation("product", operands, signs, result)


def _added(
    c: ModelConfig, key: str, title: str, stream: tuple[str, ...], written: tuple[str, ...], result: str
) -> WalkStep:
    """What was written is added to the stream, times a factor where the model has one."""
    operands, signs = list(stream), ["+"]
    for one in written:
        operands += [one] if c.residual_scale == 1.0 else ["residual_scale", one]
        signs += ["+"] if c.residual_scale == 1.0 else ["×", "+"]
    return _each(key, title, (key,), tuple(operands), (*signs[:-1], "="), result)


def _norm(c: ModelConfig, source: str, name: str, result: str) -> Equation:
    return _normed(source, name, result, c.norm == "layer", c.norm_gain, c.norm_bias)


def _qk_norm(c: ModelConfig, name: str, source: str, result: str) -> Equation:
    return _normed(source, name, result, c.qk_norm_kind == "layer", True, c.qk_norm_bias)


def _normed(source: str, name: str, result: str, centred: bool, gain: bool, shift: bool) -> Equation:
    """Less the mean, divided by the root, times the gain, plus the shift: what of these the norm has."""
    parts = [(f"{name}_mean", "−")] * centred + [(f"{name}_root", "÷")]
    parts += [(f"{name}_gain", "×")] * gain + [(f"{name}_shift", "+")] * shift
    return Equation("each", (source, *(part for part, _ in parts)), (*(sign for _, sign in parts), "="), result)
