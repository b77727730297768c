"""What happens in a step of the walk, in a sentence with the numbers of the selected row and column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.ledger.walk import WalkStep
from ropewalk.model.readings.records import Floats, TokenText, WalkReading
from ropewalk.views.plots.block_view import Spot
from ropewalk.views.style import wording


@dataclass(frozen=True)
class Told:
    """What a sentence is about.

    Attributes
    ----------
    query, key
        The selected token and key, as rows of the run.
    focus
        The cell of the result that is explained.
    """

    reading: WalkReading
    step: WalkStep
    config: ModelConfig
    spec: AttentionSpec
    tokens: Sequence[TokenText]
    query: int
    key: int
    focus: Spot

    def values(self, key: str) -> Floats:
        """The numbers of a matrix."""
        return self.reading.matrices[key].values

    def at(self, key: str) -> float:
        """The number of a matrix in the selected row, and column where it has that many."""
        values = self.values(key)
        return float(values[min(self.focus.row, len(values) - 1), min(self.focus.column, values.shape[1] - 1)])

    def text(self, key: str) -> str:
        """The same as it is written."""
        return wording.number(self.at(key))

    @property
    def row(self) -> int:
        """The token whose row is explained."""
        matrix = self.reading.matrices[self.focus.key]
        return matrix.rows[0] + self.focus.row if matrix.axes[0] == "token" else self.query

    @property
    def column(self) -> int:
        """The column that is explained, counted in the whole matrix."""
        matrix = self.reading.matrices[self.focus.key]
        block = -(-(matrix.columns[1] - matrix.columns[0]) // len(matrix.values[0]))
        return matrix.columns[0] + self.focus.column * block

    def named(self, row: int) -> str:
        """A token by its place and text."""
        return f"{row} {self.tokens[row].inline}" if row < len(self.tokens) else str(row)


def sentence(told: Told) -> str:
    """What happens in the step."""
    return SENTENCES[told.step.key](told)


def _stream(t: Told) -> str:
    wide = t.reading.matrices["x"].shape[1]
    return (
        f"Token {t.named(t.query)} comes into layer {t.reading.layer} as a row of {wide} numbers. Every step from here "
        "on works on such rows; what leaves the block is a row of the same width."
    )


def _norm(t: Told) -> str:
    """Any norm: less the mean where it has one, divided by the root, times the gain."""
    equation = t.step.equations[0]
    source, operands = equation.operands[0], equation.operands[1:]
    parts = {key.rpartition("_")[2]: t.text(key) for key in operands}
    text = f"Row {t.row} of {t.reading.matrices[source].name} "
    if "mean" in parts:
        text += f"loses its mean {parts['mean']} and "
    text += f"is divided by {parts['root']}, the root of its mean square"
    if "gain" in parts:
        text += ", and each number is multiplied by its gain"
    made = f"({t.text(source)}{' − ' + parts['mean'] if 'mean' in parts else ''}) ÷ {parts['root']}"
    made = made if "mean" in parts else f"{t.text(source)} ÷ {parts['root']}"
    made += f" × {parts['gain']}" if "gain" in parts else ""
    made += f" + {parts['shift']}" if "shift" in parts else ""
    return f"{text}: {made} = {t.text(equation.result)}."


def _project(t: Told) -> str:
    side = t.step.key
    what = {"q": "query", "k": "key", "v": "value"}[side]
    head = t.column // t.spec.head_width
    whose = f"head {head}" if side == "q" else f"kv head {head}"
    inner = t.values(t.step.equations[0].operands[0]).shape[1]
    why = {"q": "what it asks with", "k": "what it is found by", "v": "what it hands over"}[side]
    return (
        f"Row {t.row} times column {t.column} of W_{side.upper()}ᵀ, a sum of {_count(inner, 'product')}, is "
        f"{t.text(t.focus.key)}: one number of the {what} of {whose}, {why}."
    )


def _split(t: Told) -> str:
    width, head, kv = t.spec.head_width, t.reading.head, t.reading.kv_head
    shared = "" if t.config.heads == t.config.kv_heads else f"; it reads kv head {kv}"
    return (
        f"Head {head} takes {width} neighbouring features, {head * width} … {(head + 1) * width - 1}, of each row"
        f"{shared}. Nothing is computed: the rows are only read in pieces."
    )


def _qk_norm(t: Told) -> str:
    over = "all heads together" if t.config.qk_norm == "full" else "each head alone"
    return (
        f"q and k are normalised, {over}: row {t.row} of q is divided by {t.text('q_root')} and row {t.row} of k by "
        f"{t.text('k_root')}, so that only their directions count."
    )


def _rope(t: Told) -> str:
    planes = t.values("angles").shape[1]
    place = min(t.focus.column % planes if t.spec.pairing == "half" else t.focus.column // 2, planes - 1)
    first, second = (place, place + planes) if t.spec.pairing == "half" else (2 * place, 2 * place + 1)
    source = t.step.equations[0].operands[0]
    before, after = t.values(source)[t.focus.row], t.values("q_turned")[t.focus.row]
    angle = float(t.values("angles")[t.focus.row, place])
    segment = t.spec.segment_of(t.row)
    theta = segment.frequencies[place] if segment is not None else 0.0
    way = f"{round(angle / theta)} × {wording.significant(theta)} = " if theta else ""
    old, new = (f"({wording.number(float(v[first]))}, {wording.number(float(v[second]))})" for v in (before, after))
    return (
        f"Features {first} and {second} of q turn together by position × θ = {way}{wording.number(angle)} radians: "
        f"{old} becomes {new}. k turns likewise; v is never turned."
    )


def _scores(t: Told) -> str:
    return (
        f"Query {t.named(t.row)} meets key {t.named(t.column)}: {_count(t.spec.head_width, 'product')} add up to "
        f"{t.text('dots')}. This is the first place where tokens meet."
    )


def _scale(t: Told) -> str:
    return (
        f"{t.text('dots')} × {wording.number(t.spec.scale, 4)} = {t.text('scaled')}: scores of wide heads would "
        "otherwise grow with the width."
    )


def _cap(t: Told) -> str:
    cap = f"{t.spec.cap:g}"
    return f"{cap} × tanh({t.text('scaled')} ÷ {cap}) = {t.text('capped')}: no score passes ±{cap}."


def _mask(t: Told) -> str:
    hidden = t.reading.matrices["masked"].hidden
    assert hidden is not None
    unseen, total = int(hidden[t.focus.row].sum()), hidden.shape[1]
    if hidden[t.focus.row, t.focus.column]:
        why = "it comes later" if t.column > t.row else "it is out of sight"
        return f"Query {t.named(t.row)} may not look at key {t.named(t.column)}: {why}. Its score is struck out."
    return (
        f"Query {t.named(t.row)} may look at key {t.named(t.column)}, so {t.text('masked')} stays; "
        f"{unseen} of {_count(total, 'key')} are struck out for it."
    )


def _softmax(t: Told) -> str:
    hidden = t.reading.matrices["masked"].hidden
    if hidden is not None and hidden[t.focus.row, t.focus.column]:
        return f"Key {t.named(t.column)} is struck out, so its weight is 0; the weights of the row add up to 1."
    rest = "" if t.spec.sinks is None else ", less what the sink takes"
    return (
        f"exp({t.text('masked')} − {t.text('lse')}) = {t.text('weights')}: that much of the attention of query "
        f"{t.named(t.row)} goes to key {t.named(t.column)}, and its row adds up to 1{rest}."
    )


def _blend(t: Told) -> str:
    weights = t.values("weights")[t.focus.row]
    best = np.argsort(-weights, kind="stable")[:2].tolist()
    block = -(-t.reading.matrices["values"].shape[0] // len(weights)) or 1
    parts = [f"{wording.number(float(weights[one]))} of the value of {t.named(one * block)}" for one in best]
    others = "" if np.count_nonzero(weights) <= len(best) else " and a little of others"
    taken = " and ".join(part for one, part in zip(best, parts, strict=True) if weights[one] > 0)
    return f"Token {t.named(t.row)} takes {taken}{others}: feature {t.column} comes to {t.text('z')}."


def _concatenate(t: Told) -> str:
    width, head = t.spec.head_width, t.reading.head
    return (
        f"Head {head} puts its {width} numbers back into features {head * width} … {(head + 1) * width - 1}, beside "
        f"those of the other heads: {_count(t.config.heads, 'head')}, {t.config.heads * width} numbers a row."
    )


def _output(t: Told) -> str:
    inner = t.config.heads * t.spec.head_width
    return (
        f"Row {t.row} of Z times column {t.column} of W_Oᵀ, {_count(inner, 'product')} from all heads, is "
        f"{t.text('attn')}: the heads are mixed, and the row has the width of the stream again."
    )


def _added(t: Told) -> str:
    equation = t.step.equations[0]
    text = ""
    for key, sign in zip(equation.operands, equation.signs, strict=True):
        text += f"{t.text(key)} {sign} "
    if t.step.key == "residual_mid":
        return f"{text}{t.text('middle')}: what attention wrote is added to the stream itself, not to its normed copy."
    return f"{text}{t.text('after')}: this row goes on to the next block."


def _router(t: Told) -> str:
    names = t.reading.matrices["shares"].names
    return f"The router gives token {t.named(t.query)} a number for each expert; it goes to {' and '.join(names)}."


def _combine(t: Told) -> str:
    names, shares = t.reading.matrices["shares"].names, t.values("shares")[0].tolist()
    parts = [f"{wording.number(share)} of {name}" for name, share in zip(names, shares, strict=True)]
    return f"Each chosen expert is an MLP of its own; the token takes {' + '.join(parts)}: {t.text('mlp')}."


def _inner(t: Told) -> str:
    what = {"gate": "opens or shuts", "up": "carries"}[t.step.key]
    inner = t.values(t.step.equations[0].operands[0]).shape[1]
    own = "This one works" if t.config.mlp == "plain" else f"It {what}"
    return (
        f"Row {t.row} times column {t.column} of W_{t.step.key}ᵀ, {_count(inner, 'product')}, is "
        f"{t.text(t.focus.key)}. {own} feature {t.column} of the {t.config.mlp_width}, one token at a time."
    )


def _activation(t: Told) -> str:
    name = t.config.activation
    up = t.text("up") if not t.config.up_offset else f"({t.text('up')} + {t.config.up_offset:g})"
    cut = "" if t.config.mlp_limit is None else f", both cut off at {t.config.mlp_limit:g}"
    if t.config.mlp == "plain":
        return f"{name}({t.text('up')}) = {t.text('hidden')}: the one step of the MLP that bends."
    return f"{name}({t.text('gate')}) × {up} = {t.text('hidden')}{cut}: the one step of the MLP that bends."


def _down(t: Told) -> str:
    inner = t.values("hidden").shape[1]
    return (
        f"{_count(inner, 'product')} add up to {t.text('mlp')}: the row is as wide as the stream again, "
        f"{t.config.width} numbers."
    )


def _count(value: int, what: str) -> str:
    return wording.counted(value, what)


SENTENCES: Final[dict[str, Callable[[Told], str]]] = {
    "stream": _stream,
    "attn_norm": _norm,
    "q": _project,
    "k": _project,
    "v": _project,
    "split_q": _split,
    "q_norm": _qk_norm,
    "rope_q": _rope,
    "scores": _scores,
    "scale": _scale,
    "score_cap": _cap,
    "mask": _mask,
    "softmax": _softmax,
    "blend": _blend,
    "concatenate": _concatenate,
    "o": _output,
    "attn_post_norm": _norm,
    "residual_mid": _added,
    "mlp_norm": _norm,
    "router": _router,
    "gate": _inner,
    "up": _inner,
    "activation": _activation,
    "down": _down,
    "combine": _combine,
    "mlp_post_norm": _norm,
    "residual_post": _added,
}
"""Each step's sentence."""
