"""Every line of random cells, recomputed from raw weights in plain numpy, for five kinds of model.

The twin below knows only the state dict and the ids: no hooks, no trace, no torch operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ropewalk.model.decoder.config import ModelConfig, MoeConfig, RopeConfig
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.readings.arithmetic import read_arithmetic
from ropewalk.model.readings.records import Arithmetic
from ropewalk.model.runs.trace import append, capture
from tests.model.small_models import BASE, random_ids

Array = NDArray[np.float64]

FAMILIES: dict[str, ModelConfig] = {
    "qk_norm": BASE.changed(qk_norm="head", tied=True),
    "moe": BASE.changed(moe=MoeConfig(experts=4, per_token=2, width=24)),
    "partial_rotary_parallel_layer_norm": BASE.changed(
        rope=RopeConfig(width=4, pairing="adjacent"),
        norm="layer",
        norm_bias=True,
        parallel_residual=True,
        mlp="plain",
        activation="relu",
        query_bias=True,
        key_bias=True,
        value_bias=True,
        output_bias=True,
        mlp_bias=True,
    ),
    "sliding_window": BASE.changed(window=4, rope=RopeConfig(scaling="yarn", factor=4.0, original_max_position=16)),
    "soft_cap_both_norms": BASE.changed(score_cap=2.0, norm_place="both", norm_offset=1.0, score_scale=0.5),
}


def build(config: ModelConfig) -> Decoder:
    """Random weights, gains and biases that matter."""
    model = Decoder(config, seed=2)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            torch.nn.init.normal_(parameter, mean=0.3, std=0.5, generator=generator)
    return model


class Twin:
    """The same decoder in numpy."""

    def __init__(self, model: Decoder, ids: list[int]) -> None:
        self.c = model.config
        self.w = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
        self.theta, self.factor = self._theta(model)
        self.ids = ids
        self.points: list[dict[str, Array]] = []
        x = self.w["embed.weight"][ids]
        for layer in range(self.c.layers):
            x = self._block(layer, x)
        self.logits = self._linear("head", self._norm("norm", x))

    def _theta(self, model: Decoder) -> tuple[Array, float]:
        segment = model.segments(0, 0, 1, 1)[0]  # held to the reference implementations by the rotary tests
        return np.array(segment.frequencies), segment.factor

    def _linear(self, name: str, x: Array) -> Array:
        out: Array = x @ self.w[f"{name}.weight"].T
        return out + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else out

    def _norm(self, name: str, x: Array) -> Array:
        if self.c.norm == "layer":
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.c.norm_eps)
        x = x * (self.w[f"{name}.weight"] + self.c.norm_offset)
        return x + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else x

    def _heads(self, x: Array) -> Array:
        return x.reshape(len(x), -1, self.c.head_width).transpose(1, 0, 2)  # [heads, S, Dh]

    def _turn(self, x: Array) -> Array:
        assert self.c.rope is not None
        planes = len(self.theta)
        angle = np.arange(x.shape[1])[:, None] * self.theta
        cos, sin = np.cos(angle) * self.factor, np.sin(angle) * self.factor
        half = self.c.rope.pairing == "half"
        i = np.arange(planes)
        first, second = (i, i + planes) if half else (2 * i, 2 * i + 1)
        out = x.copy()
        out[..., first] = x[..., first] * cos - x[..., second] * sin
        out[..., second] = x[..., second] * cos + x[..., first] * sin
        return out

    def _block(self, layer: int, x: Array) -> Array:
        c, p = self.c, f"blocks.{layer}."
        normed = self._norm(p + "attn_norm", x)
        q, k, v = (self._heads(self._linear(f"{p}attn.{name}", normed)) for name in ("query", "key", "value"))
        keep: dict[str, Array] = {"pre": x, "normed": normed, "q": q, "k": k, "v": v}
        if c.qk_norm == "head":
            q, k = (self._qk_norm(f"{p}attn.{name}", y) for name, y in (("query_norm.norm", q), ("key_norm.norm", k)))
            keep |= {"q_normed": q, "k_normed": k}
        q, k = self._turn(q), self._turn(k)
        group = c.heads // c.kv_heads
        scores = np.stack([q[h] @ k[h // group].T for h in range(c.heads)])
        keep |= {"rot_q": q, "rot_k": k, "dot": scores, "scaled": scores * c.scale}
        scores = scores * c.scale
        if c.score_cap is not None:
            scores = c.score_cap * np.tanh(scores / c.score_cap)
        far, near = np.arange(len(x))[None, :], np.arange(len(x))[:, None]
        hidden = (far > near) | (far <= near - (c.window or len(x)))
        scores = np.where(hidden, -np.inf, scores)
        lse = np.log(np.exp(scores).sum(-1))
        weights = np.exp(scores - lse[..., None])
        z = np.stack([weights[h] @ v[h // group] for h in range(c.heads)])
        joined = z.transpose(1, 0, 2).reshape(len(x), -1)
        attn = self._linear(p + "attn.output", joined)
        if c.norm_place == "both":
            attn = self._norm(p + "attn_post_norm", attn)
        mid = x + attn
        read = x if c.parallel_residual else mid
        mlp_normed = self._norm(p + "mlp_norm", read)
        mlp = self._mlp(p + "mlp", mlp_normed, keep)
        if c.norm_place == "both":
            mlp = self._norm(p + "mlp_post_norm", mlp)
        keep |= {"score": scores, "lse": lse, "w": weights, "z": z, "joined": joined, "attn": attn, "mid": mid}
        keep |= {"mlp_normed": mlp_normed, "mlp": mlp, "post": mid + mlp, "mlp_read": read}
        self.points.append(keep)
        return mid + mlp

    def _qk_norm(self, name: str, x: Array) -> Array:
        normed: Array = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.c.norm_eps) * self.w[f"{name}.weight"]
        return normed

    def _mlp(self, name: str, x: Array, keep: dict[str, Array]) -> Array:
        if self.c.moe is None:
            return self._dense(name, x)
        logits = self._linear(f"{name}.router", x)
        share = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        keep["router"] = share
        out = np.zeros_like(x)
        for row in range(len(x)):
            chosen = np.argsort(-share[row])[: self.c.moe.per_token]
            for expert in chosen:
                part = self._dense(f"{name}.experts.{expert}", x[row : row + 1])[0]
                out[row] += part * share[row, expert] / share[row, chosen].sum()
        return out

    def _dense(self, name: str, x: Array) -> Array:
        up = self._linear(f"{name}.up", x)
        if self.c.mlp == "plain":
            return self._linear(f"{name}.down", np.maximum(up, 0))
        gate = self._linear(f"{name}.gate", x)
        return self._linear(f"{name}.down", gate / (1 + np.exp(-gate)) * up)


@dataclass(frozen=True)
class Cell:
    layer: int
    head: int
    query: int
    key: int


CELLS = [Cell(0, 0, 0, 0), Cell(1, 3, 9, 7), Cell(2, 2, 10, 2), Cell(2, 1, 11, 11), Cell(0, 2, 3, 8)]


def expected_lines(twin: Twin, cell: Cell) -> dict[str, Any]:
    """Every line's number or vector, by its key."""
    c, at, h, kv = twin.c, twin.points[cell.layer], cell.head, cell.head // (twin.c.heads // twin.c.kv_heads)
    q, k = cell.query, cell.key
    p = f"blocks.{cell.layer}."

    def root(x: Array) -> float:
        x = x - x.mean() if c.norm == "layer" else x
        return float(np.sqrt((x**2).mean() + c.norm_eps))

    rot_q, rot_k = at["rot_q"][h, q], at["rot_k"][kv, k]
    expected: dict[str, Any] = {
        "norm.query.stream": at["pre"][q],
        "norm.query.root": root(at["pre"][q]),
        "norm.query.normed": at["normed"][q],
        "norm.key.stream": at["pre"][k],
        "norm.key.root": root(at["pre"][k]),
        "norm.key.normed": at["normed"][k],
        "project.q": at["q"][h, q],
        "project.k": at["k"][kv, k],
        "project.v": at["v"][kv, k],
        "rotate.q": rot_q,
        "rotate.k": rot_k,
        "score.dot": rot_q @ rot_k,
        "score.scaled": at["scaled"][h, q, k],
        "score.masked": at["score"][h, q, k],
        "softmax.lse": at["lse"][h, q],
        "softmax.weight": at["w"][h, q, k],
        "softmax.row": at["w"][h, q],
        "softmax.taken": at["w"][h, q, k] * at["v"][kv, k],
        "softmax.z": at["z"][h, q],
        "output.concat": at["joined"][q],
        "output.head": twin.w[p + "attn.output.weight"][:, h * c.head_width : (h + 1) * c.head_width] @ at["z"][h, q],
        "output.all": at["attn"][q],
        "residual.first": at["mid"][q],
        "mlp.root": root(at["mlp_read"][q]),
        "mlp.normed": at["mlp_normed"][q],
        "mlp.out": at["mlp"][q],
        "residual.second": at["post"][q],
    }
    if "q_normed" in at:
        expected |= {"qk_norm.q": at["q_normed"][h, q], "qk_norm.k": at["k_normed"][kv, k]}
    if "router" in at:
        expected["mlp.router"] = at["router"][q]
    if c.score_cap is not None:
        expected["score.capped"] = c.score_cap * np.tanh(at["scaled"][h, q, k] / c.score_cap)
    planes = len(twin.theta)
    assert c.rope is not None
    for i in range(planes):
        pair = [i, i + planes] if c.rope.pairing == "half" else [2 * i, 2 * i + 1]
        expected[f"score.plane.{i}"] = c.scale * float(rot_q[pair] @ rot_k[pair])
    if 2 * planes < c.head_width:
        expected["score.rest"] = c.scale * float(rot_q[2 * planes :] @ rot_k[2 * planes :])
    return expected


def lines_of(arithmetic: Arithmetic) -> dict[str, Any]:
    lines = [line for stage in arithmetic.stages for line in stage.lines if not line.key.startswith("logit.")]
    return {line.key: line.vector if line.value is None else line.value for line in lines}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"L{cell.layer}H{cell.head}q{cell.query}k{cell.key}")
def test_every_line_from_raw_weights(family: str, cell: Cell) -> None:
    model = build(FAMILIES[family])
    trace = capture(model, random_ids(9))
    for token in (3, 4, 5):  # rows 9, 10 and 11 are decoded
        trace = append(model, trace, token)
    assert trace.ids is not None
    twin = Twin(model, trace.ids[0].tolist())
    found = lines_of(read_arithmetic(model, trace, cell.layer, cell.head, cell.query, cell.key))
    expected = expected_lines(twin, cell)
    assert set(found) == set(expected)
    for key, value in expected.items():
        wanted = value if key != "softmax.row" else np.pad(value, (0, 12 - len(value)))
        assert found[key] == pytest.approx(wanted, abs=2e-4, rel=2e-4), key


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_is_followed_to_the_logits_it_moves(family: str) -> None:
    model = build(FAMILIES[family])
    trace = capture(model, random_ids(9))
    assert trace.ids is not None
    twin = Twin(model, trace.ids[0].tolist())
    best = np.argsort(-twin.logits[8])[:3]
    stage = read_arithmetic(model, trace, 1, 2, 8, 3).stages[-1]
    assert [line.symbol for line in stage.lines] == [f"token {token}" for token in best]
    for line, token in zip(stage.lines, best, strict=True):
        assert f"of a logit of {twin.logits[8, token]:.3g}"[:-1] in line.substituted
        # by hand: what the head writes, over the final norm's root, times γ and the token's row of W_U
        written = twin.w["blocks.1.attn.output.weight"][:, 16:24] @ twin.points[1]["z"][2, 8]
        if twin.c.norm_place == "both":
            whole = twin.points[1]["joined"][8] @ twin.w["blocks.1.attn.output.weight"].T
            gain = twin.w["blocks.1.attn_post_norm.weight"] + twin.c.norm_offset
            written = written / np.sqrt((whole**2).mean() + twin.c.norm_eps) * gain
        final = twin.points[-1]["post"][8]
        if twin.c.norm == "layer":
            final, written = final - final.mean(), written - written.mean()
        gain = twin.w["norm.weight"] + twin.c.norm_offset
        expected = (written / np.sqrt((final**2).mean() + twin.c.norm_eps) * gain) @ twin.w["head.weight"][token]
        assert line.value == pytest.approx(expected, abs=2e-4)


def test_it_names_who_shares_the_kv_head_and_what_is_hidden() -> None:
    model = build(FAMILIES["sliding_window"])
    arithmetic = read_arithmetic(model, capture(model, random_ids(9)), 0, 3, 8, 2)
    assert arithmetic.kv_head == 1
    assert arithmetic.sharing == (2, 3)
    assert "kv head 1 serves H2, H3" in arithmetic.line("project.k").substituted
    assert arithmetic.line("score.masked").substituted == "key 2 is further back than the window of 4"
    assert arithmetic.line("softmax.weight").value == 0.0
    with pytest.raises(KeyError):
        arithmetic.line("mlp.router")
