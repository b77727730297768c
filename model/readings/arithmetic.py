"""Why one attention weight is what it is: every step from the token's residual to the logits, with its numbers.

What the trace does not keep comes from replaying two rows, the query's and the key's. The numbers are the run's own;
sums that the kernel made in float32 are shown in float64. Each stage is one function and adds its lines in the order
in which the block computes them. Nothing here draws, and nothing here decides how a number is written on screen beyond
four significant digits in a substituted formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ropewalk.model.decoder.decoder import Block, Decoder, MoeMlp
from ropewalk.model.decoder.norms import Norm
from ropewalk.model.readings.attribution import direct_attribution
from ropewalk.model.readings.readout import read_cell, read_planes, read_row
from ropewalk.model.readings.records import Arithmetic, CellReading, Doubles, Line, PlaneReading, RowReading, Stage
from ropewalk.model.runs.trace import Trace, replay

TOP = 3
"""Next tokens whose logits are followed."""


@dataclass(frozen=True, eq=False)
class _Case:
    """Everything the stages read."""

    model: Decoder
    trace: Trace
    layer: int
    head: int
    batch: int
    cell: CellReading
    row: RowReading
    planes: PlaneReading | None
    at_query: dict[str, Tensor]
    at_key: dict[str, Tensor]
    logits: Tensor

    @property
    def block(self) -> Block:
        return self.model.block(self.layer)

    def of_query(self, name: str) -> Tensor:
        """A hook point of this block for the query's row: [D], or [heads, Dh]."""
        return _row_of(self.at_query[f"blocks.{self.layer}.{name}"], self.batch)

    def of_key(self, name: str) -> Tensor:
        """The same for the key's row."""
        return _row_of(self.at_key[f"blocks.{self.layer}.{name}"], self.batch)


def _row_of(tensor: Tensor, batch: int) -> Tensor:
    """[B, 1, D] → [D]; [B, heads, 1, Dh] → [heads, Dh]; [B, 1, H, D] → [H, D]."""
    return tensor[batch].squeeze(0) if tensor.ndim == 3 or tensor.shape[1] == 1 else tensor[batch].squeeze(1)


def read_arithmetic(
    model: Decoder, trace: Trace, layer: int, head: int, query: int, key: int, *, batch: int = 0
) -> Arithmetic:
    """Explain one cell.

    Raises
    ------
    TraceError
        For a head or row that is not there, or a run that was given vectors.
    """
    cell = read_cell(trace[layer], head, query, key, batch=batch)
    at_query = replay(model, trace, query)
    at_key = at_query if key == query else replay(model, trace, key)
    case = _Case(
        model,
        trace,
        layer,
        head,
        batch,
        cell,
        read_row(trace[layer], head, query, batch=batch),
        read_planes(trace[layer], head, query, key, batch=batch),
        at_query.points,
        at_key.points,
        at_query.logits[batch],
    )
    stages = (_norm, _projections, _rotation, _score, _softmax, _output, _first_residual, _second_residual, _logits)
    with torch.no_grad():
        return Arithmetic(layer, head, cell.kv_head, cell.sharing, query, key, tuple(stage(case) for stage in stages))


def _norm(case: _Case) -> Stage:
    """What attention reads: the stream of both tokens, normed."""
    lines = []
    for who, x in (("query", case.of_query("hook_resid_pre")), ("key", case.of_key("hook_resid_pre"))):
        row = case.cell.query if who == "query" else case.cell.key
        lines.append(_vector(f"norm.{who}.stream", f"x[{row}]", x, "the residual stream of the " + who, "tokens"))
        norm = case.block.attn_norm
        if isinstance(norm, Norm):
            lines += _normed(f"norm.{who}", f"x[{row}]", x, norm, "ledger:attn_norm")
    return Stage("Normalise", tuple(lines))


def _normed(key: str, name: str, x: Tensor, norm: Norm, place: str) -> list[Line]:
    wide = x.double()
    centred = wide - wide.mean() if norm.kind == "layer" else wide
    root = math.sqrt(float(centred.square().mean()) + norm.eps)
    symbol = f"√(mean(({name} − mean)²) + ε)" if norm.kind == "layer" else f"√(mean({name}²) + ε)"
    mean = float(centred.square().mean())
    return [
        Line(f"{key}.root", symbol, f"√({mean:.4g} + {norm.eps:g})", root, place=place),
        _vector(f"{key}.normed", f"norm({name})", norm(x), f"{name} ÷ {root:.4g} × γ", place),
    ]


def _projections(case: _Case) -> Stage:
    """The head's query, its kv head's key and value, and the QK-norm where the model has one."""
    c, head, kv = case.model.config, case.head, case.cell.kv_head
    q, k = case.of_query("attn.hook_q")[head], case.of_key("attn.hook_k")[kv]
    v = case.of_key("attn.hook_v")[kv]
    shared = ", ".join(f"H{one}" for one in case.cell.sharing)
    lines = [
        _vector("project.q", f"q = W_Q[{head}] · norm(x)", q, f"rows {_rows(head, c.head_width)} of W_Q", "ledger:q"),
        _vector("project.k", f"k = W_K[{kv}] · norm(x)", k, f"kv head {kv} serves {shared}", "ledger:k"),
        _vector("project.v", f"v = W_V[{kv}] · norm(x)", v, f"kv head {kv} serves {shared}", "cache:value"),
    ]
    if c.qk_norm != "none" and not c.qk_norm_after_rope:
        lines += _qk_normed(case)
    return Stage("Project to q, k, v", tuple(lines))


def _qk_normed(case: _Case) -> list[Line]:
    q = case.of_query("attn.hook_q_normed")[case.head]
    k = case.of_key("attn.hook_k_normed")[case.cell.kv_head]
    return [
        _vector("qk_norm.q", "q ← norm(q)", q, f"over {_norm_width(case)} numbers, before the scores", "ledger:q_norm"),
        _vector("qk_norm.k", "k ← norm(k)", k, "k is normed from k, not from q", "ledger:k_norm"),
    ]


def _norm_width(case: _Case) -> int:
    c = case.model.config
    return c.head_width * (c.heads if c.qk_norm == "full" else 1)


def _rotation(case: _Case) -> Stage:
    """Both vectors turned to their positions; the QK-norm that some families put after it."""
    planes, lines = case.planes, []
    if planes is None:
        lines.append(Line("rotate.none", "this layer does not rotate", place="ledger:rope_q"))
    else:
        m, n, theta = planes.query_position, planes.key_position, planes.query_frequencies
        angles = f"plane i turns by m·θ_i, m = {m}, θ = {theta[0]:.4g} … {theta[-1]:.4g}"
        lines += [
            Line("rotate.q", "q' = R_m q", angles, vector=_locked(case.cell.q), place="plane:0"),
            Line("rotate.k", "k' = R_n k", f"by n·θ_i, n = {n}", vector=_locked(case.cell.k), place="cache:key"),
        ]
    if case.model.config.qk_norm != "none" and case.model.config.qk_norm_after_rope:
        lines += _qk_normed(case)
    return Stage("Rotate by position", tuple(lines))


def _score(case: _Case) -> Stage:
    """From products to the masked score."""
    cell = case.cell
    lines = _products(case)
    lines += [
        Line("score.dot", "q'·k'", f"Σ of {len(cell.q)} products", cell.dot, _locked(cell.q * cell.k), "cell"),
        Line("score.scaled", "scale · q'·k'", f"{cell.scale:.4g} × {cell.dot:.4g}", cell.scaled, place="cell"),
    ]
    if cell.cap is not None:
        filled = f"{cell.cap:g} × tanh({cell.scaled:.4g} ÷ {cell.cap:g})"
        lines.append(Line("score.capped", "c · tanh(score ÷ c)", filled, cell.score, place="cell"))
    spec = case.trace[case.layer].spec
    visible = f"key {cell.key} ≤ query {cell.query}" if spec.causal else "there is no causal mask"
    if spec.window is not None:
        visible += f" and within the last {spec.window}"
    if cell.written:
        lines.append(Line("score.written", "ln of the weight that was written", "", cell.score, place="cell"))
    value = -math.inf if cell.hidden_because else cell.score
    lines.append(Line("score.masked", "mask", cell.hidden_because or f"{visible}: visible", value, place="ledger:mask"))
    return Stage("Score and mask", tuple(lines))


def _products(case: _Case) -> list[Line]:
    planes = case.planes
    if planes is None:
        return []
    m, n = planes.query_position, planes.key_position
    lines = [
        Line(
            f"score.plane.{i}",
            f"plane {i}: scale·|q||k|·cos(φ + (m − n)θ)",
            _plane_filled(planes, i, m, n),
            float(share),
            place=f"plane:{i}",
        )
        for i, share in enumerate(planes.shares)
    ]
    if case.model.config.head_width > 2 * len(planes.shares):
        lines.append(Line("score.rest", "features that do not turn", "", planes.rest, place="cell"))
    return lines


def _plane_filled(planes: PlaneReading, i: int, m: int, n: int) -> str:
    (qx, qy), (kx, ky) = planes.q_before[i], planes.k_before[i]
    phase = math.atan2(qy, qx) - math.atan2(ky, kx)
    turn = m * planes.query_frequencies[i] - n * planes.key_frequencies[i]
    scale = planes.scale * planes.factor**2
    return f"{scale:.4g} × {math.hypot(qx, qy):.4g} × {math.hypot(kx, ky):.4g} × cos({phase:.4g} + {turn:.4g})"


def _softmax(case: _Case) -> Stage:
    """The row's normaliser, the weight, and what it takes from the value."""
    cell, row = case.cell, case.row
    seen = int(row.visible.sum())
    value = case.trace[case.layer].values.tensor[case.batch, cell.kv_head, cell.key]
    z = case.of_query("attn.hook_z")[case.head]
    sink = f" and the sink ({row.sink_weight:.4g} of the row)" if row.sink_weight else ""
    visible = np.where(row.visible, row.scores, -np.inf)
    weight = "0, masked" if cell.hidden_because else f"exp({cell.score:.4g} − {cell.lse:.4g})"
    lines = (
        Line(
            "softmax.lse", "lse = ln Σ exp(score)", f"over {seen} visible keys{sink}", row.lse, _locked(visible), "row"
        ),
        Line("softmax.weight", "w = exp(score − lse)", weight, cell.weight, place="ledger:softmax"),
        Line("softmax.row", "the row's weights", f"Σ = {row.weights.sum():.6f}", None, row.weights, "row"),
        _vector(
            "softmax.taken", "w · v", value.double() * cell.weight, f"{cell.weight:.4g} × v[{cell.key}]", "cache:value"
        ),
        _vector("softmax.z", "z = Σ w · v", z, f"over {seen} keys", "ledger:blend"),
    )
    return Stage("Softmax and blend", lines)


def _output(case: _Case) -> Stage:
    """The heads side by side, and W_O's block of columns for this one."""
    c, result = case.model.config, case.of_query("attn.hook_result")[case.head]
    joined = case.of_query("attn.hook_z").flatten()
    columns = _rows(case.head, c.head_width)
    lines = (
        _vector(
            "output.concat",
            "z of all heads, joined",
            joined,
            f"{c.heads} × {c.head_width} numbers",
            "ledger:concatenate",
        ),
        _vector("output.head", f"W_O[:, {columns}] · z", result, "what this head writes", "ledger:o"),
        _vector("output.all", "all heads together", case.of_query("hook_attn_out"), _bias_text(case), "ledger:o"),
    )
    return Stage("Concatenate and W_O", lines)


def _bias_text(case: _Case) -> str:
    parts = ["Σ over heads"]
    if case.block.attn.output.bias is not None:
        parts.append("the bias")
    terms = " + ".join(parts)
    if isinstance(case.block.attn_post_norm, Norm):
        terms = f"norm({terms})"
    scale = case.model.config.residual_scale
    return terms if scale == 1.0 else f"{terms}, × {scale:g}"


def _first_residual(case: _Case) -> Stage:
    pre, mid = case.of_query("hook_resid_pre"), case.of_query("hook_resid_mid")
    filled = f"|x| = {float(pre.norm()):.4g}, |x + a| = {float(mid.norm()):.4g}"
    return Stage("First residual", (_vector("residual.first", "x + attention", mid, filled, "ledger:residual_mid"),))


def _second_residual(case: _Case) -> Stage:
    """The MLP's reading, its output, and the stream that leaves the block."""
    block, c = case.block, case.model.config
    read = case.of_query("hook_resid_pre") if c.parallel_residual else case.of_query("hook_resid_mid")
    norm: nn.Module = block.attn_norm if c.parallel_residual and c.shared_norm else block.mlp_norm
    lines = _normed("mlp", "x", read, norm, "ledger:mlp_norm") if isinstance(norm, Norm) else []
    lines += _routed(case)
    out = case.of_query("hook_mlp_out")
    lines += [
        _vector("mlp.out", "what the MLP writes", out, f"|m| = {float(out.norm()):.4g}", "ledger:down"),
        _vector("residual.second", "x + attention + MLP", case.of_query("hook_resid_post"), "", "ledger:residual_post"),
    ]
    return Stage("Norm, MLP, second residual", tuple(lines))


def _routed(case: _Case) -> list[Line]:
    if not isinstance(case.block.mlp, MoeMlp):
        return []
    prefix = f"blocks.{case.layer}.mlp."
    logits = case.at_query[prefix + "hook_router_logits"][case.batch].double()  # [E]
    chosen = case.at_query[prefix + "hook_expert_index"][case.batch].tolist()
    named = ", ".join(f"expert {one}" for one in chosen)
    return [
        Line(
            "mlp.router", "softmax(router · x)", f"goes to {named}", None, _locked(logits.softmax(-1)), "ledger:router"
        )
    ]


def _logits(case: _Case) -> Stage:
    """What this head adds directly to the most probable next tokens."""
    lines: list[Line] = []
    if not bool(case.logits.isfinite().all()):  # there is no last matrix
        return Stage("Through to the logits", ())
    for place, token in enumerate(case.logits.topk(min(TOP, case.logits.shape[0])).indices.tolist()):
        parts = direct_attribution(case.model, case.trace, case.cell.query, token, batch=case.batch)
        share = float(parts.heads[case.layer, case.head])
        filled = f"{share:.4g} of a logit of {parts.logit:.4g}"
        lines.append(Line(f"logit.{place}", f"token {token}", filled, share, place="next_token"))
    return Stage("Through to the logits", tuple(lines))


def _rows(head: int, width: int) -> str:
    return f"{head * width} … {(head + 1) * width - 1}"


def _vector(key: str, symbol: str, values: Tensor, terms: str, place: str) -> Line:
    return Line(key, symbol, terms, None, _locked(values.detach().double().cpu()), place)


def _locked(values: Tensor | Doubles) -> Doubles:
    array = np.array(values.numpy() if isinstance(values, Tensor) else values, dtype=np.float64)
    array.setflags(write=False)
    return array
