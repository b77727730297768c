"""Measure what a model and one of its calls really are, as the plain numbers that the shape ledger is checked against.

:func:`observe` runs one call and watches one layer through the hook points and through PyTorch's own forward hooks on
the modules between them; :func:`measure` does so for rows of a trace, run again over the trace's own K' and V. The
arithmetic of every check is written out here a second time, from its definition and in float64, so that it can catch
the model's. This file must not know how the ledger predicts or judges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from model import lens
from model.attention import Attention, last_points
from model.cache import KvCache
from model.config import Branch, ModelConfig
from model.decoder import Block, Decoder, Mlp, MoeMlp
from model.errors import TraceError
from model.experiments import AblateHeads, AblatePlane, Experiment
from model.intervention import changed_block, changed_rule, turned
from model.ledger import Measured, Seen
from model.norms import Norm, QkNorm
from model.probes import capture, hook_points
from model.progress import Progress, Steps, Watch, finished
from model.rope import plane_features
from model.spec import AttentionSpec
from model.trace import Trace

READ_ROWS = 8
"""Rows of a trace whose weights are read back in every head."""
CELLS = 1 << 21
"""Weights that a check may hold at once (16 MiB in float64): rows are sampled beyond it."""


@dataclass
class _Notes:
    """What was met while a call ran: shapes by row key, and how many rows the experts worked on together."""

    points: dict[str, Seen] = field(default_factory=dict)

    def see(self, key: str, x: Tensor) -> None:
        self.points[key] = seen(x)

    def add_rows(self, key: str, x: Tensor) -> None:
        """Rows [n, width] of one expert, added to those of the others."""
        before = self.points[key].shape[0] if key in self.points else 0
        self.points[key] = Seen((before + x.shape[0], *x.shape[1:]), _dtype(x), str(x.device))


def seen(x: Tensor) -> Seen:
    """A tensor's shape, dtype and device in plain words."""
    return Seen(tuple(x.shape), _dtype(x), str(x.device))


def _dtype(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


# ----------------------------------------------------------------------------------------------------------------------
# The weights


def measure_weights(model: Decoder, layer: int) -> Measured:
    """Measure what needs no run: the weights of a layer, the parameter count, whether lm_head is tied.

    Works on the meta device.

    Raises
    ------
    TraceError
        When the model has no such layer.
    """
    block = block_of(model, layer)
    return Measured(
        layer=layer,
        weights=_weights(model, block),
        parameters=sum(weight.numel() for weight in model.parameters()),
        tied=model.head.weight is model.embed.weight,
    )


def block_of(model: Decoder, layer: int) -> Block:
    """The block of a layer.

    Raises
    ------
    TraceError
        When the model has no such layer.
    """
    blocks = [block for block in model.blocks if isinstance(block, Block)]
    if not 0 <= layer < len(blocks):
        raise TraceError(f"Layer {layer} was asked for, but this model's layers are 0 to {len(blocks) - 1}.")
    return blocks[layer]


def _weights(model: Decoder, block: Block) -> dict[str, Seen]:
    attn = block.attn
    found = {
        "embedding": model.embed.weight,
        "q": attn.query.weight,
        "k": attn.key.weight,
        "v": attn.value.weight,
        "o": attn.output.weight,
        "lm_head": model.head.weight,
    }
    for key, norm in _norms(model, block).items():
        if norm.weight is not None:
            found[key] = norm.weight
    weights = {key: seen(weight) for key, weight in found.items()}
    mlp = block.mlp
    if isinstance(mlp, Mlp):
        return weights | {key: seen(linear.weight) for key, linear in _linears(mlp).items()}
    weights["router"] = seen(mlp.router.weight)
    for key in ("gate", "up", "down"):
        shapes = [seen(linears[key].weight) for linears in map(_linears, _experts(mlp)) if key in linears]
        if shapes:
            odd = next((shape for shape in shapes if shape != shapes[0]), shapes[0])
            weights[key] = Seen((len(shapes), *odd.shape), odd.dtype, odd.device)
    if mlp.shared is not None:
        weights |= {f"shared_{key}": seen(linear.weight) for key, linear in _linears(mlp.shared).items()}
    if mlp.shared_gate is not None:
        weights["shared_scale"] = seen(mlp.shared_gate.weight)
    return weights


def _norms(model: Decoder, block: Block) -> dict[str, Norm]:
    places = {
        "attn_norm": block.attn_norm,
        "attn_post_norm": block.attn_post_norm,
        "mlp_norm": block.mlp_norm,
        "mlp_post_norm": block.mlp_post_norm,
        "final_norm": model.norm,
    }
    return {key: norm for key, norm in places.items() if isinstance(norm, Norm)}


def _linears(mlp: Mlp) -> dict[str, nn.Linear]:
    found = {"gate": mlp.gate, "up": mlp.up, "down": mlp.down}
    return {key: linear for key, linear in found.items() if linear is not None}


def _experts(mlp: MoeMlp) -> list[Mlp]:
    return [expert for expert in mlp.experts if isinstance(expert, Mlp)]


# ----------------------------------------------------------------------------------------------------------------------
# One call


def observe(
    model: Decoder,
    layer: int,
    inputs: Tensor,
    *,
    cache: KvCache | None = None,
    positions: Tensor | None = None,
    padding: Tensor | None = None,
    branch: Branch = "fused",
    reach: int = 0,
    experiments: Sequence[Experiment] = (),
) -> Measured:
    """Run one call and measure one layer of it, and the embedding and the logits.

    On the meta device only shapes are measured.

    Parameters
    ----------
    inputs, cache, positions, padding, branch, reach
        As in ``Decoder.begin``; an empty cache is made when none is given. The cache grows by this call.
    experiments
        What is changed in the model meanwhile; the checks then expect just these changes and no others.

    Raises
    ------
    TraceError
        When the model has no such layer.
    """
    block = block_of(model, layer)
    cache = KvCache(model.config.layers) if cache is None else cache
    past = cache.length
    notes = _Notes()
    with torch.no_grad(), _noting(model, block, notes):
        with turned(model, experiments):
            x, call = model.begin(inputs, cache=cache, positions=positions, padding=padding, branch=branch, reach=reach)
            factor = _factor(model, layer, past, call.length)
        record: dict[str, Tensor] = {}
        for number in range(model.config.layers):
            each = model.block(number)
            with changed_block(each, number, experiments), ExitStack() as watched:
                if number == layer:  # after the changes, so that what was used is what is seen
                    record = watched.enter_context(capture(block, _names(block)))
                x = each(x, call)
        model.finish(x)
    keys, values = (rows[layer].tensor for rows in cache.filled())
    notes.see("cache_k", keys)
    notes.see("cache_v", values)
    met = {name.removeprefix("attn."): x for name, x in record.items()}
    rule = changed_rule(block.attn.rule, experiments)
    layer_met = _Met(model, block, met, keys, values, past, factor, padding, rule, tuple(experiments))
    measured = replace(
        measure_weights(model, layer),
        batch=inputs.shape[0],
        tokens=inputs.shape[1],
        past=past,
        points=notes.points,
        cache_length=keys.shape[2],
        cache_expected=past + inputs.shape[1],
    )
    if keys.is_meta:
        return measured
    with torch.no_grad():
        return layer_met.added_to(measured)


def _factor(model: Decoder, layer: int, past: int, length: int) -> float:
    """What cos and sin of this call are multiplied by; 1 where the layer does not rotate."""
    segments = model.segments(layer, past, length, length)
    return segments[0].factor if segments else 1.0


def _names(block: Block) -> list[str]:
    """The hook points whose values the checks need: all but what each head writes, which is large."""
    return [name for name in hook_points(block) if not name.endswith("hook_result")]


@contextmanager
def _noting(model: Decoder, block: Block, notes: _Notes) -> Iterator[None]:
    """Note the shape of every operation's result, by forward hooks that are gone afterwards."""
    attn, mlp = block.attn, block.mlp
    outputs: dict[str, nn.Module] = {
        "positions" if model.config.position in ("learned", "sinusoidal") else "embedding": model.hook_embed,
        "q": attn.query,
        "k": attn.key,
        "v": attn.value,
        "split_q": attn.hook_q,
        "split_k": attn.hook_k,
        "split_v": attn.hook_v,
        "scores": attn.hook_attn_scores,
        "softmax": attn.hook_pattern,
        "blend": attn.hook_z,
        "o": attn.output,
        "residual_post": block.hook_resid_post,
        "lm_head": model.head,
    }
    if not model.config.parallel_residual:
        outputs["residual_mid"] = block.hook_resid_mid
    if model.config.qk_norm != "none":
        outputs |= {"q_norm": attn.hook_q_normed, "k_norm": attn.hook_k_normed}
    if model.config.rope_of(attn.layer) is not None:
        outputs |= {"rope_q": attn.hook_rot_q, "rope_k": attn.hook_rot_k}
    outputs |= _norms(model, block)
    inputs: dict[str, nn.Module] = {"concatenate": attn.output}
    added: list[tuple[str, nn.Module]] = []
    if isinstance(mlp, Mlp):
        outputs |= _linears(mlp)
        inputs["activation"] = mlp.down
    else:
        outputs |= {"router": mlp.hook_router_logits, "combine": mlp}
        for expert in _experts(mlp):
            added += list(_linears(expert).items())
        if mlp.shared is not None:
            outputs |= {f"shared_{key}": linear for key, linear in _linears(mlp.shared).items()}
            inputs["shared_activation"] = mlp.shared.down
        if mlp.shared_gate is not None:
            outputs["shared_scale"] = mlp.shared_gate
    with ExitStack() as stack:
        for key, module in outputs.items():
            stack.callback(module.register_forward_hook(_of_output(key, notes.see)).remove)
        for key, module in inputs.items():
            stack.callback(module.register_forward_hook(_of_input(key, notes.see)).remove)
        for key, module in added:
            stack.callback(module.register_forward_hook(_of_output(key, notes.add_rows)).remove)
            if key == "down":
                stack.callback(module.register_forward_hook(_of_input("activation", notes.add_rows)).remove)
        yield


Note = Callable[[str, Tensor], None]


def _of_output(key: str, note: Note) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        note(key, output)

    return hook


def _of_input(key: str, note: Note) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        note(key, inputs[0])

    return hook


@dataclass(frozen=True, eq=False)
class _Met:
    """The tensors of one layer in one call, and the arithmetic that they must satisfy.

    Attributes
    ----------
    met
        Short hook name (``hook_q``, ``hook_resid_mid``, ``mlp.hook_expert_index``) → tensor.
    keys, values
        [B, Hkv, S, Dh], what the cache holds after the call.
    factor
        What cos and sin were multiplied by.
    rule, experiments
        What attention was told to do, and what was changed.
    """

    model: Decoder
    block: Block
    met: dict[str, Tensor]
    keys: Tensor
    values: Tensor
    past: int
    factor: float
    padding: Tensor | None
    rule: AttentionSpec
    experiments: tuple[Experiment, ...]

    @property
    def attn(self) -> Attention:
        return self.block.attn

    @property
    def config(self) -> ModelConfig:
        return self.model.config

    def added_to(self, measured: Measured) -> Measured:
        """``measured`` with every error that this layer has."""
        met = self.met
        measured = replace(
            measured,
            key_error=relative(self.keys[:, :, self.past :], met[last_points(self.config, self.attn.layer)[1]]),
            value_error=relative(self.values[:, :, self.past :], met["hook_v"]),
            attention_add_error=relative(met["hook_resid_mid"], met["hook_resid_pre"] + met["hook_attn_out"]),
            mlp_add_error=relative(met["hook_resid_post"], met["hook_resid_mid"] + met["hook_mlp_out"]),
            experts_distinct=self.experts_distinct(),
        )
        if self.config.rope_of(self.attn.layer) is not None:
            measured = replace(measured, query_turn_error=self._turn("q"), key_turn_error=self._turn("k"))
        if self.config.qk_norm != "none":
            measured = replace(measured, query_norm_error=self._norm("q"), key_norm_error=self._norm("k"))
        return self._with_attention(measured)

    def experts_distinct(self) -> bool | None:
        """Whether every token visits different experts that exist; None without a mixture."""
        chosen = self.met.get("mlp.hook_expert_index")
        if chosen is None:
            return None
        ordered = chosen.sort(-1).values
        inside = bool((ordered >= 0).all()) and bool((ordered < len(_mixture(self.block).experts)).all())
        return inside and bool((ordered.diff(dim=-1) > 0).all())

    def _turn(self, side: str) -> float:
        """How far RoPE changed the length of any pair, or touched a feature that does not turn."""
        normed_first = self.config.qk_norm != "none" and not self.config.qk_norm_after_rope
        before = self.met[f"hook_{side}_normed" if normed_first else f"hook_{side}"].double()
        after = self.met[f"hook_rot_{side}"].double()
        if side == "q" and last_points(self.config, self.attn.layer)[0] == "hook_rot_q":
            before = self._without_planes(before * self.factor) / self.factor  # planes are replaced once turned
        width, pairing = self.config.rotary_width(self.attn.layer), self.rule.pairing
        off = relative(_lengths(after[..., :width], pairing), self.factor * _lengths(before[..., :width], pairing))
        if width == before.shape[-1]:
            return off
        return max(off, relative(after[..., width:], before[..., width:]))

    def _without_planes(self, q: Tensor) -> Tensor:
        """Query heads [B, H, T, Dh] with the ablated planes as they were to be."""
        q = q.clone()
        for one in self.experiments:
            if isinstance(one, AblatePlane) and one.layer == self.attn.layer:
                features = list(plane_features(self.rule.rotary_width, self.rule.pairing)[one.plane])
                q[:, one.head, :, features] = q.new_tensor(one.mean or (0.0, 0.0))
        return q

    def _replaced(self, z: Tensor) -> Tensor:
        """Head outputs [B, H, T, Dh] with the ablated heads as they were to be."""
        z = z.clone()
        for one in self.experiments:
            if isinstance(one, AblateHeads) and one.layer == self.attn.layer:
                for place, head in enumerate(one.heads):
                    z[:, head] = z.new_tensor(one.means[place]) if one.means else 0.0
        return z

    def _norm(self, side: str) -> float:
        """How far the QK-norm is from its definition."""
        rotates = self.config.rope_of(self.attn.layer) is not None
        late = self.config.qk_norm_after_rope and rotates
        before = self.met[f"hook_rot_{side}" if late else f"hook_{side}"].double()
        norm = self.attn.query_norm if side == "q" else self.attn.key_norm
        expected = normed(self.config, norm, before)
        if side == "q" and last_points(self.config, self.attn.layer)[0] == "hook_q_normed":
            expected = self._without_planes(expected)
        return relative(self.met[f"hook_{side}_normed"], expected)

    def _with_attention(self, measured: Measured) -> Measured:
        """Weights of some rows, from q', k' and the row's log-sum-exp, and what they blend to."""
        query = self.met[last_points(self.config, self.attn.layer)[0]].double()  # [B, H, T, Dh]
        batch, heads, tokens, _ = query.shape
        length = self.keys.shape[2]
        chosen = sampled(tokens, CELLS // max(1, batch * heads * length)).to(query.device)
        scores = exact_scores(query[:, :, chosen], self.keys, self.rule)  # [B, H, n, S]
        seen_from = visible(chosen + self.past, length, self.rule.window, self.padding, causal=self.rule.causal)
        lse = self.met["hook_lse"].double()[:, :, chosen]
        weights = torch.where(seen_from, (scores - lse[..., None]).exp(), 0.0)
        share = 0.0 if self.attn.sinks is None else (self.attn.sinks.double()[None, :, None] - lse).exp()
        sees = seen_from.any(-1).expand(lse.shape)
        off = torch.where(sees, weights.sum(-1) + share - 1.0, 0.0)
        blended = self._replaced(exact_blend(weights, self.values, self.rule))
        measured = replace(
            measured,
            weight_sum_error=float(off.abs().max()),
            blend_error=relative(self.met["hook_z"][:, :, chosen], blended),
        )
        if "hook_pattern" not in self.met:
            return measured
        pattern, own = (self.met[name][:, :, chosen].double() for name in ("hook_pattern", "hook_attn_scores"))
        return replace(
            measured,
            masked_weight=float(pattern.masked_fill(seen_from, 0.0).abs().max()),
            score_error=relative(own.masked_fill(~seen_from, 0.0), scores.masked_fill(~seen_from, 0.0)),
        )


def _mixture(block: Block) -> MoeMlp:
    assert isinstance(block.mlp, MoeMlp)
    return block.mlp


# ----------------------------------------------------------------------------------------------------------------------
# A trace


class _Borrowed(KvCache):
    """Lends the trace's own K' and V to rows that are run again, and keeps nothing."""

    def __init__(self, trace: Trace, rows: int) -> None:
        super().__init__(trace.config.layers)
        self.keys, self.values = list(trace.keys), list(trace.values)
        self._past = trace.length - rows

    @property
    def length(self) -> int:
        """P, the rows before those that are run again."""
        return self._past

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return K' and V [B, Hkv, S, Dh] as the trace holds them."""
        keys, values = self.filled()
        return keys[layer].tensor, values[layer].tensor


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
    measured = observe(
        model,
        layer,
        trace.ids[:, -rows:],
        cache=_Borrowed(trace, rows),
        positions=trace.positions[:, -rows:],
        padding=trace.padding,
        branch=trace.branch,
        reach=trace.reach(trace.length - 1),
        experiments=trace.experiments,
    )
    yield Progress(1, 2, "Checking shapes")
    return (yield from _with_readings(replace(measured, cache_expected=trace.positions.shape[1]), trace, layer))


def _with_readings(measured: Measured, trace: Trace, layer: int) -> Steps[Measured]:
    """Add what is wrong with the weights as ``model.lens`` reads them, on a few rows of every head."""
    sums, masked, scores = measured.weight_sum_error or 0.0, measured.masked_weight or 0.0, measured.score_error or 0.0
    spec = trace.specs[layer]
    rows = sampled(trace.length, READ_ROWS).to(trace.positions.device)
    exact = exact_scores(trace.queries[layer].tensor[:, :, rows], trace.keys[layer].tensor, spec).cpu()  # [B, H, n, S]
    sees = visible(rows, trace.length, spec.window, trace.padding, causal=spec.causal)
    sees = sees[:, 0].expand(trace.batch, -1, -1).cpu()  # [B, n, S]
    watch = Watch()
    for batch in range(trace.batch):
        for head in range(spec.heads):
            if watch.over:
                yield Progress(head, spec.heads, "Checking shapes")
                watch.restart()
            for place, row in enumerate(rows.tolist()):
                seen_from, lse = sees[batch, place], float(trace.lse[layer].tensor[batch, head, row])
                weights = torch.tensor(lens.weights(trace, layer, head, (row, row + 1), batch=batch))[0].double()
                masked = _worst(masked, float(weights.masked_fill(seen_from, 0.0).abs().max()))
                if not bool(seen_from.any()):
                    continue
                share = 0.0 if spec.sinks is None else math.exp(spec.sinks[head] - lse)
                sums = _worst(sums, abs(float(weights.sum()) + share - 1.0))
                read = torch.tensor(lens.scores(trace, layer, head, (row, row + 1), batch=batch))[0]
                scores = _worst(scores, relative(read[seen_from], exact[batch, head, place][seen_from]))
    return replace(measured, weight_sum_error=sums, masked_weight=masked, score_error=scores)


def _worst(first: float, second: float) -> float:
    """The larger; NaN when either is, so that it is not lost in a maximum."""
    return second if math.isnan(second) or second > first else first


# ----------------------------------------------------------------------------------------------------------------------
# Definitions, written out a second time


def relative(found: Tensor, expected: Tensor) -> float:
    """Largest |found − expected| over the largest |expected| (over 1 where all of it is 0)."""
    if found.shape != expected.shape:
        return float("inf")
    wide = expected.double()
    largest = float(wide.abs().max())
    return float((found.double() - wide).abs().max()) / (largest or 1.0)


def normed(config: ModelConfig, norm: QkNorm, x: Tensor) -> Tensor:
    """QK-norm of [B, heads, T, Dh] by its definition, and the clip after it, in float64."""
    limit = math.inf if config.qkv_clip is None else config.qkv_clip
    weight, bias = norm.norm.weight, norm.norm.bias
    gain = 1.0 if weight is None else weight.double() + config.norm_offset
    shift = 0.0 if bias is None else bias.double()
    if config.qk_norm == "full":
        joined = x.transpose(1, 2)  # [B, T, heads, Dh]
        flat = _unit(joined.flatten(-2), config) * gain + shift
        return flat.view(joined.shape).transpose(1, 2).clamp(-limit, limit)
    return (_unit(x, config) * gain + shift).clamp(-limit, limit)


def exact_scores(query: Tensor, keys: Tensor, rule: AttentionSpec) -> Tensor:
    """scale · q'·k' and the soft cap in float64, [B, H, n, S], from Q' [B, H, n, Dh] and K' [B, Hkv, S, Dh].

    Head by head, each with its own kv head, so that no more than one head of K' is widened at once.
    """
    dots = [
        query[:, h].double() @ keys[:, rule.kv_head_of(h)].double().transpose(-1, -2) for h in range(query.shape[1])
    ]
    scores = rule.scale * torch.stack(dots, dim=1)
    return scores if rule.cap is None else rule.cap * torch.tanh(scores / rule.cap)


def exact_blend(weights: Tensor, values: Tensor, rule: AttentionSpec) -> Tensor:
    """Σ_k w[q, k] · v[k] in float64, [B, H, n, Dh], from weights [B, H, n, S] and V [B, Hkv, S, Dh]."""
    heads = range(weights.shape[1])
    return torch.stack([weights[:, h].double() @ values[:, rule.kv_head_of(h)].double() for h in heads], dim=1)


def visible(rows: Tensor, length: int, window: int | None, padding: Tensor | None, *, causal: bool = True) -> Tensor:
    """Which keys each row sees, [B or 1, 1, n, S], from positions alone: not later, within the window, not padding."""
    back = rows[:, None] - torch.arange(length, device=rows.device)[None, :]  # how far back each key lies
    seen_from = back >= 0 if causal else torch.ones_like(back, dtype=torch.bool)
    if window is not None:
        seen_from = seen_from & (back < window)
    each = seen_from[None, None]
    return each if padding is None else each & padding[:, None, None, :length]


def _unit(x: Tensor, config: ModelConfig) -> Tensor:
    if config.qk_norm_kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    return x / ((x * x).mean(-1, keepdim=True) + config.norm_eps).sqrt()


def _lengths(x: Tensor, pairing: str) -> Tensor:
    """Length of each pair of features, [..., d_rot] → [..., d_rot/2]."""
    if pairing == "half":
        first, second = x.chunk(2, dim=-1)
    else:
        first, second = x[..., 0::2], x[..., 1::2]
    return torch.hypot(first, second)


def sampled(rows: int, most: int) -> Tensor:
    """At most ``most`` (but at least 2) of ``rows`` row numbers, evenly spread, first and last among them."""
    count = min(rows, max(most, 2))
    if count == rows:
        return torch.arange(rows)
    return torch.linspace(0, rows - 1, count).round().long()
