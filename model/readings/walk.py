"""The matrices of one block for one head: the run's own numbers and weights, in the steps of ``model.ledger.walk``.

Of a short run of a small model every token is walked; of any other the selected one, over the K' and V of all. What
the trace does not keep comes from running those rows again; what no hook shows (a norm's root, gate and up) is worked
out from the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from ropewalk.model.decoder.attention import Attention, last_points
from ropewalk.model.decoder.costs import parameters
from ropewalk.model.decoder.decoder import Block, Decoder, Mlp, MoeMlp
from ropewalk.model.decoder.hooks import hook_points
from ropewalk.model.decoder.norms import Norm, QkNorm
from ropewalk.model.decoder.scores import soft_capped
from ropewalk.model.ledger.walk import is_whole
from ropewalk.model.progress import Progress, Steps, finished
from ropewalk.model.readings.records import Floats, WalkAxis, WalkMatrix, WalkReading
from ropewalk.model.runs.budget import SLICE_FLOPS
from ropewalk.model.runs.layer_trace import check_row
from ropewalk.model.runs.trace import Trace, replay

MOST_ROWS: Final = 48
"""Tokens up to which all are walked."""
EXACT: Final = 1 << 16
"""Numbers up to which a matrix is not reduced."""


def read_walk(model: Decoder, trace: Trace, layer: int, head: int, query: int, *, pixels: int = 256) -> WalkReading:
    """Do what :func:`walk_steps` does without pausing."""
    return finished(walk_steps(model, trace, layer, head, query, pixels=pixels))


def walk_steps(
    model: Decoder, trace: Trace, layer: int, head: int, query: int, *, pixels: int = 256
) -> Steps[WalkReading]:
    """Read one block for one head.

    Parameters
    ----------
    pixels
        Rows and columns of what a large matrix is reduced to.

    Raises
    ------
    TraceError
        For a head or row that is not there, or a run that was given vectors.
    """
    trace[layer].check_head(head)
    check_row(query, trace.length)
    rows = walked_rows(trace, layer, query)
    prefix, met = f"blocks.{layer}.", []
    # what each head writes apart is not shown, and would be worked out only because somebody watches
    names = [name for name in hook_points(model) if name.startswith(prefix) and not name.endswith("hook_result")]
    for start, count in _calls(rows, trace.prefill):
        met.append(replay(model, trace, start, names, count=count).points)
        yield Progress(len(met), trace.length, "Walking through the block")
    points = {name.removeprefix(prefix): torch.cat([one[name] for one in met], _token_axis(name)) for name in met[0]}
    case = _Case(model, trace, layer, head, rows, points, pixels)
    with torch.no_grad():
        for stage in (_read, _attend, _written):
            stage(case)
            yield Progress(1, 2, "Walking through the block")
    return WalkReading(layer, head, trace[layer].spec.kv_head_of(head), query, rows, case.matrices)


def walked_rows(trace: Trace, layer: int, query: int) -> tuple[int, int]:
    """All rows where running them again is next to nothing, else the query's; experts differ from token to token."""
    work = 2 * parameters(trace.config).total * trace.length
    small = trace.length <= MOST_ROWS and work <= SLICE_FLOPS / 8 and not trace.config.is_moe(layer)
    return (0, trace.length) if small else (query, query + 1)


def _calls(rows: tuple[int, int], prefill: int) -> Iterable[tuple[int, int]]:
    """The rows in calls as the run made them: the prompt in one, since its length may set how it was rotated."""
    start, stop = rows
    if stop - start == 1:
        return ((start, 1),)
    return ((start, prefill), *((row, 1) for row in range(prefill, stop)))


def _token_axis(name: str) -> int:
    """Which axis of a hook point counts tokens: [B, heads, T, Dh], [N, E] of a router, else [B, T, …]."""
    point = name.rpartition(".hook_")[2]
    if point in ("router_logits", "expert_index"):
        return 0
    return 2 if ".attn." in name else 1


@dataclass(eq=False)
class _Case:
    """What the stages read, and the matrices that they add."""

    model: Decoder
    trace: Trace
    layer: int
    head: int
    rows: tuple[int, int]
    points: dict[str, Tensor]
    pixels: int
    matrices: dict[str, WalkMatrix] = field(default_factory=dict)

    @property
    def block(self) -> Block:
        return self.model.block(self.layer)

    @property
    def kv_head(self) -> int:
        return self.trace[self.layer].spec.kv_head_of(self.head)

    def stream(self, name: str) -> Tensor:
        """A hook point of the stream, [n, D]."""
        return self.points[name][0]

    def heads(self, name: str) -> Tensor:
        """One of attention's, [heads, n, Dh]."""
        return self.points[f"attn.{name}"][0]

    def add(
        self,
        key: str,
        name: str,
        kind: str,
        values: Tensor,
        axes: tuple[WalkAxis, WalkAxis],
        *,
        columns: tuple[int, int] | None = None,
        whole: int = 0,
        hidden: Tensor | None = None,
        of: str = "",
        names: tuple[str, ...] = (),
    ) -> None:
        """Add a matrix [h, w]; rows that count tokens are those that are walked.

        ``columns`` are where it stands in a whole of ``whole`` columns.
        """
        height, width = values.shape
        rows = self.rows if axes[0] == "token" else (0, height)
        shape = (self.trace.length if axes[0] == "token" else height, whole or width)
        shown, unseen = strongest(values, self.pixels), None
        if hidden is not None:
            unseen = _blocks(hidden.float().neg(), self.pixels, torch.amax) == -1.0
            shown = np.where(unseen, np.float32(0), strongest(values.masked_fill(hidden, 0.0), self.pixels))
            unseen.setflags(write=False)
        shown.setflags(write=False)
        self.matrices[key] = WalkMatrix(name, kind, shown, rows, columns or (0, width), shape, axes, unseen, of, names)

    def norm(self, key: str, name: str, x: Tensor, norm: Norm, made: Tensor | None = None) -> Tensor:
        """Add the parts of a norm of rows [n, D] under ``key``."""
        wide = x.float()
        if norm.kind == "layer":
            mean = wide.mean(-1, keepdim=True)
            self.add(f"{key}_mean", "mean", "plain", mean, ("token", "one"))
            wide = wide - mean
        root = (wide.square().mean(-1, keepdim=True) + norm.eps).sqrt()
        self.add(f"{key}_root", "root", "plain", root, ("token", "one"))
        self._gain(key, norm, slice(None))
        return norm(x) if made is None else made

    def _gain(self, key: str, norm: Norm, part: slice) -> None:
        if norm.weight is not None:
            gain = norm.weight.float().flatten()[part] + norm.offset
            self.add(
                f"{key}_gain", f"γ + {norm.offset:g}" if norm.offset else "γ", "plain", gain[None], ("one", "feature")
            )
        if norm.bias is not None:
            self.add(f"{key}_shift", "β", "plain", norm.bias.float().flatten()[part][None], ("one", "feature"))

    def qk_norm(self, side: str, norm: QkNorm, joined: Tensor) -> None:
        """Add the parts of the norm of one head of q or k, [heads, n, Dh]."""
        head, width = self.head if side == "q" else self.kv_head, joined.shape[-1]
        wide = (joined.transpose(0, 1).flatten(1) if norm.over_all else joined[head]).float()
        if norm.norm.kind == "layer":
            mean = wide.mean(-1, keepdim=True)
            self.add(f"{side}_mean", "mean", "plain", mean, ("token", "one"))
            wide = wide - mean
        root = (wide.square().mean(-1, keepdim=True) + norm.norm.eps).sqrt()
        self.add(f"{side}_root", "root", "plain", root, ("token", "one"))
        apart = norm.over_all or (norm.norm.weight is not None and norm.norm.weight.ndim > 1)
        self._gain(side, norm.norm, slice(head * width, (head + 1) * width) if apart else slice(None))

    def linear(self, key: str, name: str, kind: str, linear: nn.Linear, axes: tuple[WalkAxis, WalkAxis]) -> None:
        """Add a weight as it stands right of rows, transposed, and its bias."""
        self._weight(key, name, kind, linear, axes, slice(None))

    def projection(self, side: str, kind: str, linear: nn.Linear, points: Tensor, head: int) -> None:
        """Add W_q, W_k or W_v and what it makes: all heads, or the selected one's part of a large one."""
        width = points.shape[-1]
        part = slice(head * width, (head + 1) * width)
        large = not is_whole(self.model.config)
        self._weight(
            f"w_{side}", f"W_{side.upper()}ᵀ", kind, linear, ("feature", "heads"), part if large else slice(None)
        )
        if not large:
            joined = points.transpose(0, 1).flatten(1)
            self.add(f"{side}_all", side.upper(), kind, joined, ("token", "heads"))
        self.add(side, side, kind, points[head], ("token", "feature"))

    def _weight(
        self, key: str, name: str, kind: str, linear: nn.Linear, axes: tuple[WalkAxis, WalkAxis], part: slice
    ) -> None:
        outputs = linear.out_features
        columns = part.indices(outputs)[:2]
        self.add(key, name, kind, linear.weight[part].T, axes, columns=columns, whole=outputs)
        if linear.bias is not None:
            bias = linear.bias[part][None]
            self.add(key.replace("w_", "b_", 1), "b", kind, bias, ("one", axes[1]), columns=columns, whole=outputs)


def _read(case: _Case) -> None:
    """The stream, normed, projected, and Q and K as attention uses them."""
    attn, x = case.block.attn, case.stream("hook_resid_pre")
    case.add("x", "x", "plain", x, ("token", "feature"))
    if isinstance(case.block.attn_norm, Norm):
        normed = case.norm("norm", "x", x, case.block.attn_norm)
        case.add("normed", "norm(x)", "plain", normed, ("token", "feature"))
    case.projection("q", "query", attn.query, case.heads("hook_q"), case.head)
    case.projection("k", "key", attn.key, case.heads("hook_k"), case.kv_head)
    case.projection("v", "value", attn.value, case.heads("hook_v"), case.kv_head)
    _normed_and_turned(case, attn)


def _normed_and_turned(case: _Case, attn: Attention) -> None:
    c, turns = case.model.config, case.model.config.rotary_width(case.layer) > 0
    if c.qk_norm != "none":
        after = c.qk_norm_after_rope and turns
        for side, norm in (("q", attn.query_norm), ("k", attn.key_norm)):
            case.qk_norm(side, norm, case.heads(f"hook_rot_{side}" if after else f"hook_{side}"))
            _head(case, f"{side}_normed", f"norm({side}′)" if after else f"norm({side})", f"hook_{side}_normed", side)
    if turns:
        for side in "qk":
            _head(case, f"{side}_turned", f"{side}′", f"hook_rot_{side}", side)
        start, stop = case.rows
        spec, positions = case.trace[case.layer].spec, case.trace.positions[0, start:stop].double().cpu()
        thetas = [one.frequencies for row in range(start, stop) if (one := spec.segment_of(row)) is not None]
        angles = positions[:, None] * torch.tensor(thetas, dtype=torch.float64)
        case.add("angles", "mθ", "plain", angles, ("token", "plane"))


def _head(case: _Case, key: str, name: str, point: str, side: str) -> None:
    """One head of q or k at a hook point."""
    head, kind = (case.head, "query") if side == "q" else (case.kv_head, "key")
    case.add(key, name, kind, case.heads(point)[head], ("token", "feature"))


def _attend(case: _Case) -> None:
    """Scores, scale, cap, mask, softmax and blend, from what the trace keeps."""
    kept, head, rows = case.trace[case.layer], case.head, case.rows
    spec = kept.spec
    square: tuple[WalkAxis, WalkAxis] = ("token", "key")
    last = {"hook_k": "k", "hook_k_normed": "k_normed", "hook_rot_k": "k_turned"}[
        last_points(case.model.config, case.layer)[1]
    ]
    q, keys = kept.query_vectors(head, rows, dtype=torch.float64), kept.key_vectors(head, dtype=torch.float64)
    case.add("keys", "K′ᵀ", "key", keys.T, ("feature", "key"), of=last)
    dots = q @ keys.T
    case.add("dots", "q′·k′", "score", dots, square)
    case.add("factor", "scale", "plain", torch.tensor([[spec.scale]]), ("one", "one"))
    score = dots * spec.scale
    case.add("scaled", "score", "score", score, square)
    if spec.cap is not None:
        case.add("cap", "c", "plain", torch.tensor([[spec.cap]]), ("one", "one"))
        score = soft_capped(score.clone(), spec.cap)
        case.add("capped", "capped", "score", score, square)
    seen = kept.visible(rows)
    case.add("seen", "seen", "mask", seen.float(), square, hidden=~seen)
    case.add("masked", "masked", "score", score, square, hidden=~seen)
    case.add("lse", "ln Σ exp", "plain", kept.normaliser(head, rows)[:, None], ("token", "one"))
    case.add("weights", "P", "score", kept.weights(head, rows, dtype=torch.float64), square, hidden=~seen)
    values = kept.values.tensor[0, spec.kv_head_of(head)]
    case.add("values", "V", "value", values, ("key", "feature"), of="v")
    case.add("z", "z", "value", case.heads("hook_z")[head], ("token", "feature"))


def _written(case: _Case) -> None:
    """What attention and the MLP write, and the stream after each."""
    c, block = case.model.config, case.block
    joined = case.heads("hook_z").transpose(0, 1).flatten(1)
    case.add("z_all", "Z", "value", joined, ("token", "heads"))
    case.linear("w_o", "W_Oᵀ", "plain", block.attn.output, ("heads", "feature"))
    raw, added = block.attn.output(joined), case.stream("hook_attn_out")
    plain = isinstance(block.attn_post_norm, Norm) or c.residual_scale != 1.0
    case.add("attn", "a", "plain", raw if plain else added, ("token", "feature"))
    if isinstance(block.attn_post_norm, Norm):
        normed = case.norm("attn", "a", raw, block.attn_post_norm)
        case.add("attn_normed", "norm(a)", "plain", normed, ("token", "feature"))
    if c.residual_scale != 1.0:
        case.add("residual_scale", "scale", "plain", torch.tensor([[c.residual_scale]]), ("one", "one"))
    x, middle = case.stream("hook_resid_pre"), case.stream("hook_resid_mid")
    if not c.parallel_residual:
        case.add("middle", "x + a", "plain", middle, ("token", "feature"))
    read = x if c.parallel_residual else middle
    norm = block.attn_norm if block.shares_norm else block.mlp_norm
    if isinstance(norm, Norm) and not block.shares_norm:
        normed = case.norm("mlp", "x", read, norm)
        name = "norm(x)" if c.parallel_residual else "norm(x + a)"
        case.add("mlp_read", name, "plain", normed, ("token", "feature"))
    inside = norm(read)
    out = _experts(case, block.mlp, inside) if isinstance(block.mlp, MoeMlp) else _mlp(case, block.mlp, inside)
    written = case.stream("hook_mlp_out")
    plain = isinstance(block.mlp_post_norm, Norm) or c.residual_scale != 1.0
    case.add("mlp", "m", "plain", out if plain else written, ("token", "feature"))
    if isinstance(block.mlp_post_norm, Norm):
        normed = case.norm("mlp_post", "m", out, block.mlp_post_norm)
        case.add("mlp_normed", "norm(m)", "plain", normed, ("token", "feature"))
    name = "x + a + m" if c.parallel_residual else "after"
    case.add("after", name, "plain", case.stream("hook_resid_post"), ("token", "feature"))


def _mlp(case: _Case, mlp: Mlp, read: Tensor) -> Tensor:
    """Gate, up, what they make together, and down."""
    projected = []
    for key, name, linear in (("gate", "g", mlp.gate), ("up", "u", mlp.up)):
        if linear is not None:
            case.linear(f"w_{key}", f"W_{key}ᵀ", "plain", linear, ("feature", "feature"))
            projected.append(linear(read))
            case.add(key, name, "plain", projected[-1], ("token", "feature"))
    hidden = mlp.bend(*projected)
    case.add("hidden", "h", "plain", hidden, ("token", "feature"))
    case.linear("w_down", "W_downᵀ", "plain", mlp.down, ("feature", "feature"))
    out: Tensor = mlp.down(hidden)
    return out


def _experts(case: _Case, mlp: MoeMlp, read: Tensor) -> Tensor:
    """The router's logits, and the outputs of the chosen experts with their shares; one token."""
    experts = tuple(f"expert {one}" for one in range(mlp.moe.experts))
    case.linear("w_router", "W_rᵀ", "plain", mlp.router, ("feature", "expert"))
    logits = case.points["mlp.hook_router_logits"]
    case.add("router", "router", "plain", logits, ("token", "expert"), names=experts)
    share, chosen = mlp.choose(logits)
    names = [f"expert {one}" for one in chosen[0].tolist()]
    outputs = [mlp.experts[one](read) for one in chosen[0].tolist()]
    shares = share[0].tolist()
    if mlp.shared is not None:
        names.append("shared")
        outputs.append(mlp.shared(read))
        shares.append(1.0 if mlp.shared_gate is None else float(torch.sigmoid(mlp.shared_gate(read))))
    case.add("shares", "share", "plain", torch.tensor([shares]), ("token", "expert"), names=tuple(names))
    case.add("experts", "experts' outputs", "plain", torch.cat(outputs), ("expert", "feature"), names=tuple(names))
    return mlp(read[None])[0]  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------------------------------------------
# Large matrices


def strongest(values: Tensor, pixels: int) -> Floats:
    """A matrix as it is, or of a large one, of each block, the number that is furthest from 0."""
    if values.numel() <= EXACT:
        exact: Floats = values.detach().float().cpu().numpy().copy()
        return exact
    high, low = _blocks(values, pixels, torch.amax), _blocks(values, pixels, torch.amin)
    return np.ascontiguousarray(np.where(high >= -low, high, low))


def _blocks(values: Tensor, pixels: int, reduce: Callable[..., Tensor]) -> Floats:
    """The largest or smallest number of each block, at most ``pixels`` of them along a side; small ones as they are."""
    if values.numel() <= EXACT:
        return values.detach().float().cpu().numpy()
    if values.stride(0) < values.stride(1):  # a transposed weight, read as it lies in memory
        return _blocks(values.T, pixels, reduce).T
    down, across = (-(-size // pixels) for size in values.shape)
    strips = torch.stack([reduce(strip, 0) for strip in torch.split(values.detach(), down)]).float()  # [h, width]
    made: Floats = torch.stack([reduce(part, 1) for part in torch.split(strips, across, 1)], 1).cpu().numpy()
    return made
