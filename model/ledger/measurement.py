"""Measure what one layer of a run really is, as the plain numbers that the shape ledger is checked against.

What was met in a call (``model.ledger.observation``) and what readers of a trace get is compared with what it should
be, by ``model.ledger.reference``.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder, MoeMlp
from ropewalk.model.decoder.interventions import AblateHeads, AblatePlane
from ropewalk.model.decoder.rope import plane_features
from ropewalk.model.errors import TraceError
from ropewalk.model.ledger.ledger import Measured
from ropewalk.model.ledger.observation import Observation, watch_call
from ropewalk.model.ledger.reference import exact_blend, exact_scores, normed, pair_lengths, relative, visible, worst
from ropewalk.model.ledger.weight_shapes import measure_weights
from ropewalk.model.progress import Progress, Steps, Watch, finished
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import LentCache, Trace

READ_ROWS = 8
"""Rows of a trace whose weights are read back in every head."""
CELLS = 1 << 21
"""Weights that a check may hold at once (16 MiB in float64): rows are sampled beyond it."""


def measure(model: Decoder, trace: Trace | None, layer: int, *, rows: int = 1) -> Measured:
    """Measure one layer of a run: its newest rows run again over the trace's own K' and V, and the trace as it is read.

    Parameters
    ----------
    trace
        The run; None measures the weights alone.
    rows
        How many of the newest rows to run again: 1 is a decode step, all of them (of a run without decoded rows) the
        prefill. It costs a forward pass of so many tokens; nothing is copied and nothing T × T is made.

    Raises
    ------
    TraceError
        When the layer or the rows are not there, or the run was given vectors.
    """
    return finished(measure_steps(model, trace, layer, rows=rows))


def measure_steps(model: Decoder, trace: Trace | None, layer: int, *, rows: int = 1) -> Steps[Measured]:
    """Do what :func:`measure` does, pausing when a slice of time is over; the rows are run again in one slice."""
    if trace is None:
        return measure_weights(model, layer)
    if trace.ids is None:
        raise TraceError("This run was given vectors, not tokens, so its rows cannot be run again.")
    if not 1 <= rows <= trace.length:
        raise TraceError(f"{rows} rows were to be run again, but this run has {trace.length}.")
    met = watch_call(
        model,
        layer,
        trace.ids[:, -rows:],
        cache=LentCache(trace, (trace.length - rows, trace.length)),
        positions=trace.positions[:, -rows:],
        padding=trace.padding,
        branch=trace.branch,
        rotary_length=trace.rotary_length(trace.length - 1),
        interventions=trace.interventions,
    )
    measured = replace(measure_call(met), cache_expected=trace.length)
    yield Progress(1, 2, "Checking shapes")
    return (yield from _with_readings(measured, trace[layer]))


# ----------------------------------------------------------------------------------------------------------------------
# A call


@torch.no_grad()
def measure_call(met: Observation) -> Measured:
    """Measure one layer of a call, and the embedding and the logits; on the meta device only shapes.

    Where the call was changed, just these changes are expected and no others.
    """
    batch, tokens, _ = met.tensors["hook_resid_pre"].shape
    measured = replace(
        measure_weights(met.model, met.attn.layer),
        batch=batch,
        tokens=tokens,
        past=met.past,
        points=met.points,
        cache_length=met.keys.shape[2],
        cache_expected=met.past + tokens,
    )
    if met.keys.is_meta:
        return measured
    x, config = met.tensors, met.model.config
    measured = replace(
        measured,
        key_error=relative(met.keys[:, :, met.past :], x[met.last_key]),
        value_error=relative(met.values[:, :, met.past :], x["hook_v"]),
        attention_add_error=relative(x["hook_resid_mid"], x["hook_resid_pre"] + x["hook_attn_out"]),
        mlp_add_error=relative(x["hook_resid_post"], x["hook_resid_mid"] + x["hook_mlp_out"]),
        experts_distinct=_experts_distinct(met),
    )
    if config.rope_of(met.attn.layer) is not None:
        measured = replace(measured, query_turn_error=_turn_error(met, "q"), key_turn_error=_turn_error(met, "k"))
    if config.qk_norm != "none":
        measured = replace(measured, query_norm_error=_norm_error(met, "q"), key_norm_error=_norm_error(met, "k"))
    return _with_attention(measured, met)


def _experts_distinct(met: Observation) -> bool | None:
    """Whether every token visits different experts that exist; None without a mixture."""
    mlp = met.block.mlp
    if not isinstance(mlp, MoeMlp):
        return None
    ordered = met.tensors["mlp.hook_expert_index"].sort(-1).values
    inside = bool((ordered >= 0).all()) and bool((ordered < len(mlp.experts)).all())
    return inside and bool((ordered.diff(dim=-1) > 0).all())


def _turn_error(met: Observation, side: str) -> float:
    """How far RoPE changed the length of any pair, or touched a feature that does not turn."""
    config = met.model.config
    normed_first = config.qk_norm != "none" and not config.qk_norm_after_rope
    before = met.tensors[f"hook_{side}_normed" if normed_first else f"hook_{side}"].double()
    after = met.tensors[f"hook_rot_{side}"].double()
    if side == "q" and met.last_query == "hook_rot_q":
        before = _without_planes(met, before * met.factor) / met.factor  # planes are replaced once turned
    width, pairing = met.rule.rotary_width, met.rule.pairing
    off = relative(pair_lengths(after[..., :width], pairing), met.factor * pair_lengths(before[..., :width], pairing))
    if width == before.shape[-1]:
        return off
    return max(off, relative(after[..., width:], before[..., width:]))


def _norm_error(met: Observation, side: str) -> float:
    """How far the QK-norm is from its definition."""
    config, attn = met.model.config, met.attn
    late = config.qk_norm_after_rope and config.rope_of(attn.layer) is not None
    before = met.tensors[f"hook_rot_{side}" if late else f"hook_{side}"].double()
    expected = normed(config, attn.query_norm if side == "q" else attn.key_norm, before)
    if side == "q" and met.last_query == "hook_q_normed":
        expected = _without_planes(met, expected)
    return relative(met.tensors[f"hook_{side}_normed"], expected)


def _with_attention(measured: Measured, met: Observation) -> Measured:
    """Add the errors of weights of some rows, had from q', k' and the row's log-sum-exp, and of what they blend to."""
    query = met.tensors[met.last_query].double()  # [B, H, T, Dh]
    batch, heads, tokens, _ = query.shape
    length = met.keys.shape[2]
    chosen = sampled(tokens, CELLS // max(1, batch * heads * length)).to(query.device)
    scores = exact_scores(query[:, :, chosen], met.keys, met.rule)  # [B, H, n, S]
    seen_from = visible(chosen + met.past, length, met.rule, met.padding)
    lse = met.tensors["hook_lse"].double()[:, :, chosen]
    weights = torch.where(seen_from, (scores - lse[..., None]).exp(), 0.0)
    share = 0.0 if met.attn.sinks is None else (met.attn.sinks.double()[None, :, None] - lse).exp()
    off = torch.where(seen_from.any(-1).expand(lse.shape), weights.sum(-1) + share - 1.0, 0.0)
    blended = _without_heads(met, exact_blend(weights, met.values, met.rule))
    measured = replace(
        measured,
        weight_sum_error=float(off.abs().max()),
        blend_error=relative(met.tensors["hook_z"][:, :, chosen], blended),
    )
    if "hook_pattern" not in met.tensors:
        return measured
    pattern, own = (met.tensors[name][:, :, chosen].double() for name in ("hook_pattern", "hook_attn_scores"))
    return replace(
        measured,
        masked_weight=float(pattern.masked_fill(seen_from, 0.0).abs().max()),
        score_error=relative(own.masked_fill(~seen_from, 0.0), scores.masked_fill(~seen_from, 0.0)),
    )


def _without_planes(met: Observation, q: Tensor) -> Tensor:
    """Query heads [B, H, T, Dh] with the ablated planes as they were to be."""
    q = q.clone()
    for one in met.interventions:
        if isinstance(one, AblatePlane) and one.layer == met.attn.layer:
            features = list(plane_features(met.rule.rotary_width, met.rule.pairing)[one.plane])
            q[:, one.head, :, features] = q.new_tensor(one.mean or (0.0, 0.0))
    return q


def _without_heads(met: Observation, z: Tensor) -> Tensor:
    """Head outputs [B, H, T, Dh] with the ablated heads as they were to be."""
    z = z.clone()
    for one in met.interventions:
        if isinstance(one, AblateHeads) and one.layer == met.attn.layer:
            for place, head in enumerate(one.heads):
                z[:, head] = z.new_tensor(one.means[place]) if one.means else 0.0
    return z


# ----------------------------------------------------------------------------------------------------------------------
# What readers of a trace get


def _with_readings(measured: Measured, layer: LayerTrace) -> Steps[Measured]:
    """Add what is wrong with scores and weights as a trace gives them, on a few rows of every head."""
    sums, masked, scores = measured.weight_sum_error or 0.0, measured.masked_weight or 0.0, measured.score_error or 0.0
    spec, batches = layer.spec, layer.keys.tensor.shape[0]
    rows = sampled(layer.length, READ_ROWS).to(layer.positions.device)
    exact = exact_scores(layer.queries.tensor[:, :, rows], layer.keys.tensor, spec)  # [B, H, n, S]
    sees = visible(rows, layer.length, spec, layer.padding)[:, 0].expand(batches, -1, -1)  # [B, n, S]
    watch = Watch()
    for batch in range(batches):
        for head in range(spec.heads):
            if watch.over:
                yield Progress(head, spec.heads, "Checking shapes")
                watch.restart()
            read = layer.scores(head, rows, batch=batch), layer.weights(head, rows, batch=batch).double()  # [n, S]
            lse = layer.lse.tensor[batch, head, rows].tolist()
            for score, weight, expected, seen_from, total in zip(
                *read, exact[batch, head], sees[batch], lse, strict=True
            ):
                masked = worst(masked, float(weight.masked_fill(seen_from, 0.0).abs().max()))
                if not bool(seen_from.any()):
                    continue
                share = 0.0 if spec.sinks is None else math.exp(spec.sinks[head] - total)
                sums = worst(sums, abs(float(weight.sum()) + share - 1.0))
                scores = worst(scores, relative(score[seen_from], expected[seen_from]))
    return replace(measured, weight_sum_error=sums, masked_weight=masked, score_error=scores)


def sampled(rows: int, most: int) -> Tensor:
    """At most ``most`` (but at least 2) of ``rows`` row numbers, evenly spread, first and last among them."""
    count = min(rows, max(most, 2))
    if count == rows:
        return torch.arange(rows)
    return torch.linspace(0, rows - 1, count).round().long()
