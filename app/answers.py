"""The answer to every question of a panel: one entry for each, read from the run in view.

It is a part of the engine, which asks it. A reading that may take long pauses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.door import Held
from app.questions import (
    AskArithmetic,
    AskAtlas,
    AskAttribution,
    AskBranchProof,
    AskCache,
    AskCell,
    AskHead,
    AskHeadDifference,
    AskLedger,
    AskMean,
    AskNeeds,
    AskNextToken,
    AskNextTokenDifference,
    AskPlanes,
    AskProof,
    AskRandomLayers,
    AskRefined,
    AskRouting,
    AskRow,
    AskRules,
    Question,
)
from app.shown import Shown, in_view, texts
from model.arithmetic import read_arithmetic
from model.attribution import direct_attribution, head_needs_steps
from model.budget import SLICE_FLOPS, chunk_rows
from model.checkpoints import Checkpoint
from model.comparison import align, head_difference, next_token_difference
from model.errors import ExperimentError
from model.experiments import AblateHeads, AblateMlp, AblatePlane, Experiment, RopeScaling, check_experiments
from model.generation import next_token_reading, row_logits
from model.intervention import mean_heads, mean_mlp, mean_plane
from model.ledger import ShapeLedger, build_ledger, checked
from model.lens import cache_steps, read_cell, read_planes, read_row
from model.measurement import measure_steps
from model.patterns import atlas_steps
from model.progress import Progress, Steps
from model.proof import branch_proof_steps, cached_proof_steps
from model.random_layer import random_layers
from model.readings import (
    Arithmetic,
    DirectAttribution,
    HeadDifference,
    HeadPicture,
    Line,
    NextTokenDifference,
    Proof,
    RopeRule,
    Routing,
)
from model.rope import other_rules
from model.rotations import as_run
from model.routing import read_routing
from model.tiles import read_head, refine_steps
from model.trace import Trace


def _at_once(read: Callable[[Trace, Any], Any]) -> Callable[[Held, Trace, Any], Steps[Any]]:
    """A reading that is short enough for one slice."""

    def steps(held: Held, trace: Trace, asked: Any) -> Steps[Any]:
        yield from ()
        return read(trace, asked)

    return steps


def _next_token(held: Held, trace: Trace, asked: AskNextToken) -> Steps[Any]:
    checkpoint: Checkpoint = held.opened.checkpoint
    yield from ()
    return next_token_reading(checkpoint.model, trace, asked.query, asked.count, asked.sampling, Shown(checkpoint))


def _ledgers(held: Held, trace: Trace, asked: AskLedger) -> Steps[tuple[ShapeLedger, ShapeLedger | None]]:
    """Prefill and, after a step, decode, each with its checks decided by what the run measures.

    A run under experiments is held to what these change, and to nothing else.
    """
    checkpoint: Checkpoint = held.opened.checkpoint
    card, model = held.opened.card, checkpoint.model
    config = as_run(checkpoint.config, trace.experiments)

    def built(tokens: int, past: int) -> ShapeLedger:
        return build_ledger(config, asked.layer, trace.batch, tokens, past, card.dtype, card.device, trace.branch)

    start = trace.at(trace.prefill)
    # running the prompt again takes one slice, so a long one is measured by its last row
    rows = trace.prefill if 2 * card.parameters * trace.prefill <= SLICE_FLOPS / 8 else 1
    measured = yield from measure_steps(model, start, asked.layer, rows=rows)
    prefill = checked(built(trace.prefill, 0), measured)
    yield Progress(1, 2, "Checking shapes")
    if trace.length == trace.prefill:
        return prefill, None
    measured = yield from measure_steps(model, trace, asked.layer, rows=1)
    return prefill, checked(built(1, trace.length - 1), measured)


def _proof(held: Held, trace: Trace, asked: AskProof) -> Steps[Proof]:
    checkpoint: Checkpoint = held.opened.checkpoint
    chunk = chunk_rows(checkpoint.config, trace.length)
    dtype = held.opened.card.dtype
    return cached_proof_steps(checkpoint.model, trace, dtype, chunk=chunk, by_layer=asked.by_layer)


def _branch_proof(held: Held, trace: Trace, asked: AskBranchProof) -> Steps[Proof]:
    return branch_proof_steps(held.opened.checkpoint.model, trace, held.opened.card.dtype)


def _arithmetic(held: Held, trace: Trace, asked: AskArithmetic) -> Steps[Arithmetic]:
    """Every line of a cell; the tokens whose logits are followed get their text beside their id."""
    yield from ()
    checkpoint: Checkpoint = held.opened.checkpoint
    read = read_arithmetic(checkpoint.model, trace, asked.layer, asked.head, asked.query, asked.key)

    def named(line: Line) -> Line:
        if not line.key.startswith("logit."):
            return line
        token = texts(checkpoint, [int(line.symbol.removeprefix("token "))])[0]
        return replace(line, symbol=f"{line.symbol} {token.inline}")

    stages = tuple(replace(stage, lines=tuple(map(named, stage.lines))) for stage in read.stages)
    return replace(read, stages=stages)


def _attribution(held: Held, trace: Trace, asked: AskAttribution) -> Steps[DirectAttribution]:
    yield from ()
    return direct_attribution(held.opened.checkpoint.model, trace, asked.query, asked.token)


def _routing(held: Held, trace: Trace, asked: AskRouting) -> Steps[Routing | None]:
    yield from ()
    return read_routing(held.opened.checkpoint.model, trace, asked.layer)


def _mean(held: Held, trace: Trace, asked: AskMean) -> Steps[Experiment]:
    """The ablation to the mean over this run's rows in the model as it is without experiments, but for its stretch."""
    yield from ()
    model = held.opened.checkpoint.model
    if trace.ids is None:
        raise ExperimentError("This run was given vectors, not tokens, so no mean can be taken; run a prompt.")
    layer, heads, plane = asked.layer, asked.heads, asked.plane
    stretched = [one for one in trace.experiments if isinstance(one, RopeScaling)]
    if heads is None:
        check_experiments([AblateMlp(layer)], trace.config)
        return mean_mlp(model, trace.ids, layer, stretched)
    if plane is None:
        check_experiments([AblateHeads(layer, heads)], trace.config)
        return mean_heads(model, trace.ids, layer, heads, stretched)
    check_experiments([AblatePlane(layer, heads[0], plane)], trace.config)
    return mean_plane(model, trace.ids, layer, heads[0], plane, stretched)


def _rules(held: Held, trace: Trace, asked: AskRules) -> Steps[tuple[RopeRule, ...]]:
    yield from ()
    config = as_run(trace.config, trace.experiments)
    rope, width = config.rope_of(asked.layer), config.rotary_width(asked.layer)
    if rope is None:
        return ()
    if rope == trace.config.rope_of(asked.layer):
        found = other_rules(rope, width, config.max_position)
    else:
        found = other_rules(rope, width, trace.length, "this run")
    return tuple(RopeRule(name, theta.double().numpy(), factor) for name, theta, factor in found)


def _head_difference(held: Held, trace: Trace, asked: AskHeadDifference) -> Steps[HeadDifference | None]:
    yield from ()
    if held.pinned is None:
        return None
    before = in_view(held.pinned)
    rows = align(before, trace, by_row=held.pinned.opened is not held.opened)
    return head_difference(before[asked.layer], trace[asked.layer], asked.head, rows)


def _next_token_difference(
    held: Held, trace: Trace, asked: AskNextTokenDifference
) -> Steps[NextTokenDifference | None]:
    yield from ()
    if held.pinned is None:
        return None
    before = in_view(held.pinned)
    a, _ = row_logits(held.pinned.opened.checkpoint.model, before, before.length - 1)
    b, _ = row_logits(held.opened.checkpoint.model, trace, trace.length - 1)
    return next_token_difference(a, b, Shown(held.opened.checkpoint))


def _head(held: Held, trace: Trace, asked: AskHead) -> Steps[HeadPicture]:
    yield from ()
    return read_head(
        trace[asked.layer],
        asked.head,
        asked.rows,
        asked.columns,
        asked.pixels,
        reduction=asked.reduction,
        cache=held.tiles,
    )


def _refined(held: Held, trace: Trace, asked: AskRefined) -> Steps[HeadPicture]:
    a = asked.picture
    return refine_steps(trace[a.layer], a.head, a.rows, a.columns, a.pixels, reduction=a.reduction, cache=held.tiles)


ANSWERS: dict[type[Question], Callable[[Held, Trace, Any], Steps[Any]]] = {
    AskHead: _head,
    AskRefined: _refined,
    AskRow: _at_once(lambda trace, a: read_row(trace[a.layer], a.head, a.query)),
    AskCell: _at_once(lambda trace, a: read_cell(trace[a.layer], a.head, a.query, a.key)),
    AskPlanes: _at_once(lambda trace, a: read_planes(trace[a.layer], a.head, a.query, a.key)),
    AskCache: lambda held, trace, asked: cache_steps(trace, asked.positions),
    AskAtlas: lambda held, trace, asked: atlas_steps(trace, asked.pixels, exact=asked.exact, first=asked.first),
    AskNextToken: _next_token,
    AskLedger: _ledgers,
    AskProof: _proof,
    AskBranchProof: _branch_proof,
    AskArithmetic: _arithmetic,
    AskNeeds: lambda held, trace, asked: head_needs_steps(
        held.opened.checkpoint.model, trace, asked.query, asked.token
    ),
    AskAttribution: _attribution,
    AskRules: _rules,
    AskMean: _mean,
    AskRandomLayers: _at_once(lambda trace, a: random_layers(a.batch, a.tokens, a.width, a.heads, a.seed)),
    AskRouting: _routing,
    AskHeadDifference: _head_difference,
    AskNextTokenDifference: _next_token_difference,
}
