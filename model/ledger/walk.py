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
    c, pre = config, config.norm_place != "post"
    begin = WalkStep("stream", "the stream", ("embedding",) if layer == 0 else ())
    norm = [WalkStep("attn_norm", "normalise", ("attn_norm",), (_norm(c, "x", "norm", "normed"),))] * pre
    read = "normed" if pre else "x"
    return (begin, *norm, *_projected(c, read), *_turned(c, layer), *_attended(c), *_written(c, layer))


def _projected(c: ModelConfig, read: str) -> list[WalkStep]:
    """Q, K and V, cut into heads where all heads are in sight."""
    whole, biases = is_whole(c), (c.query_bias, c.key_bias, c.value_bias)
    steps = []
    for one, biased in zip("qkv", biases, strict=True):
        product = _product(read, f"w_{one}", f"{one}_all" if whole else one, f"b_{one}", biased)
        steps.append(WalkStep(one, f"project {one}", (one,), (product,)))
    cut = tuple(Equation("each", (f"{one}_all",), ("→",), one) for one in "qkv")
    return steps + [WalkStep("split_q", "split into heads", ("split_q", "split_k", "split_v"), cut)] * whole


def _turned(c: ModelConfig, layer: int) -> list[WalkStep]:
    """QK-norm and rotation, in the order of the family, and the scores of what has come of them."""
    steps, now = [], {"q": "q", "k": "k"}
    norms, turns = c.qk_norm != "none", c.rotary_width(layer) > 0
    for key in ("rope_q", "q_norm") if c.qk_norm_after_rope else ("q_norm", "rope_q"):
        if key == "q_norm" and norms:
            made = tuple(_qk_norm(c, one, now[one], f"{one}_normed") for one in "qk")
            steps.append(WalkStep(key, "normalise q and k", ("q_norm", "k_norm"), made))
            now = {one: f"{one}_normed" for one in "qk"}
        elif key == "rope_q" and turns:
            made = tuple(Equation("each", (now[one], "angles"), ("↻", "="), f"{one}_turned") for one in "qk")
            steps.append(WalkStep(key, "rotate by position", ("rope_q", "rope_k"), made))
            now = {one: f"{one}_turned" for one in "qk"}
    product = Equation("product", (now["q"], "keys"), ("·", "="), "dots")
    return [*steps, WalkStep("scores", "scores q · k", ("scores",), (product,))]


def _attended(c: ModelConfig) -> list[WalkStep]:
    """Scale, soft cap, mask, softmax, blend, and the heads side by side through W_o."""
    steps, score = [_each("scale", "scale", "scores", ("dots", "factor"), ("×", "="), "scaled")], "scaled"
    if c.score_cap is not None:
        steps.append(_each("score_cap", "soft cap", "score_cap", (score, "cap"), ("tanh", "="), "capped"))
        score = "capped"
    blend = Equation("product", ("weights", "values"), ("·", "="), "z")
    output = _product("z_all", "w_o", "attn", "b_o", c.output_bias)
    return [
        *steps,
        _each("mask", "mask", "mask", (score, "seen"), ("if", "="), "masked"),
        _each("softmax", "softmax", "softmax", ("masked", "lse"), ("−", "exp"), "weights"),
        WalkStep("blend", "blend the values", ("blend",), (blend,)),
        _each("concatenate", "heads side by side", "concatenate", ("z",), ("→",), "z_all"),
        WalkStep("o", "mix the heads: W_O", ("o",), (output,)),
    ]


def _written(c: ModelConfig, layer: int) -> list[WalkStep]:
    """What attention and the MLP write, normed where the family does that, and added to the stream."""
    pre, post, steps = c.norm_place != "post", c.norm_place != "pre", []
    title, both = "normalise what is written", [("attn", "attn_normed"), ("mlp", "mlp_normed")]
    attn, mlp = (after if post else before for before, after in both)
    if post:
        steps.append(WalkStep("attn_post_norm", title, ("attn_post_norm",), (_norm(c, "attn", "attn", attn),)))
    stream = "x"
    if not c.parallel_residual:
        stream = "middle"
        steps.append(_added(c, "residual_mid", "x", (attn,), stream))
    read = "normed" if shares_norm(c) else "mlp_read" if pre else stream
    if read == "mlp_read":
        steps.append(WalkStep("mlp_norm", "normalise", ("mlp_norm",), (_norm(c, stream, "mlp", read),)))
    steps += _experts(c, read) if c.is_moe(layer) else _mlp(c, read)
    if post:
        steps.append(WalkStep("mlp_post_norm", title, ("mlp_post_norm",), (_norm(c, "mlp", "mlp_post", mlp),)))
    return [*steps, _added(c, "residual_post", stream, (attn, mlp) if c.parallel_residual else (mlp,), "after")]


def _experts(c: ModelConfig, read: str) -> list[WalkStep]:
    router = _product(read, "w_router", "router", "b_router", c.moe is not None and c.moe.router_bias)
    inside = ("gate", "up", "activation", "down")
    rows = (*inside, *(f"shared_{one}" for one in (*inside, "scale")), "combine")
    blend = Equation("product", ("shares", "experts"), ("·", "="), "mlp")
    return [
        WalkStep("router", "route to experts", ("router",), (router,)),
        WalkStep("combine", "the chosen experts", rows, (blend,)),
    ]


def _mlp(c: ModelConfig, read: str) -> list[WalkStep]:
    gated = c.mlp == "gated"
    gate = _product(read, "w_gate", "gate", "b_gate", c.mlp_bias)
    up = _product(read, "w_up", "up", "b_up", c.mlp_bias)
    down = _product("hidden", "w_down", "mlp", "b_down", c.mlp_bias)
    bent, signs = (("gate", "up"), (c.activation, "=")) if gated else (("up",), (c.activation,))
    return [
        *[WalkStep("gate", "MLP: gate", ("gate",), (gate,))] * gated,
        WalkStep("up", "MLP: up", ("up",), (up,)),
        _each("activation", "MLP: activation", "activation", bent, signs, "hidden"),
        WalkStep("down", "MLP: down", ("down",), (down,)),
    ]


def _each(key: str, title: str, row: str, operands: tuple[str, ...], signs: tuple[str, ...], result: str) -> WalkStep:
    return WalkStep(key, title, (row,), (Equation("each", operands, signs, result),))


def _product(first: str, second: str, result: str, bias: str, biased: bool) -> Equation:
    operands, signs = ((first, second, bias), ("·", "+", "=")) if biased else ((first, second), ("·", "="))
    return Equation("product", operands, signs, result)


def _added(c: ModelConfig, key: str, stream: str, written: tuple[str, ...], result: str) -> WalkStep:
    """What was written is added to the stream, times a factor where the model has one."""
    operands, signs = [stream], ["+"]
    for one in written:
        operands += [one] if c.residual_scale == 1.0 else ["residual_scale", one]
        signs += ["+"] if c.residual_scale == 1.0 else ["×", "+"]
    return _each(key, "add to the stream", key, tuple(operands), (*signs[:-1], "="), result)


def _norm(c: ModelConfig, source: str, name: str, result: str) -> Equation:
    return _normed(source, name, result, c.norm == "layer", c.norm_gain, c.norm_bias)


def _qk_norm(c: ModelConfig, name: str, source: str, result: str) -> Equation:
    return _normed(source, name, result, c.qk_norm_kind == "layer", True, c.qk_norm_bias)


def _normed(source: str, name: str, result: str, centred: bool, gain: bool, shift: bool) -> Equation:
    """Less the mean, divided by the root, times the gain, plus the shift: what of these the norm has."""
    parts = [(f"{name}_mean", "−")] * centred + [(f"{name}_root", "÷")]
    parts += [(f"{name}_gain", "×")] * gain + [(f"{name}_shift", "+")] * shift
    return Equation("each", (source, *(part for part, _ in parts)), (*(sign for _, sign in parts), "="), result)
