"""The answer to every question of a panel: one entry for each, read from the run in view.

It is a part of the engine, which asks it. A reading that may take long pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ropewalk.model.checkpoints import Checkpoint
from ropewalk.model.decoder.intervention_contexts import mean_heads, mean_mlp, mean_plane
from ropewalk.model.decoder.interventions import (
    AblateHeads,
    AblateMlp,
    AblatePlane,
    Intervention,
    PermuteTokens,
    RopeScaling,
    check_interventions,
)
from ropewalk.model.decoder.rope import other_rules
from ropewalk.model.decoder.rope_scaling import as_run
from ropewalk.model.engine.interface import RunHandle
from ropewalk.model.engine.questions import (
    AskArithmetic,
    AskAtlas,
    AskAttribution,
    AskBoard,
    AskBranchCheck,
    AskCache,
    AskCachedCheck,
    AskCell,
    AskHead,
    AskHeadDifference,
    AskLedger,
    AskLens,
    AskMean,
    AskNeeds,
    AskNextToken,
    AskNextTokenDifference,
    AskNextTokenUnder,
    AskPlanes,
    AskRandomLayers,
    AskRefined,
    AskRepeats,
    AskRouting,
    AskRow,
    AskRules,
    AskScoreChanges,
    AskStrongWeights,
    AskTraining,
    AskWalk,
    Question,
)
from ropewalk.model.engine.running import (
    Opened,
    capture_steps,
    check_changes,
    head_needs_steps,
    logits_under_steps,
    row_logits,
)
from ropewalk.model.errors import InterventionError
from ropewalk.model.ledger.ledger import ShapeLedger, build_ledger, checked
from ropewalk.model.ledger.measurement import measure_steps
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.readings.arithmetic import read_arithmetic
from ropewalk.model.readings.attribution import direct_attribution
from ropewalk.model.readings.board import board_steps
from ropewalk.model.readings.comparison import align, head_difference, next_token_difference, score_changes
from ropewalk.model.readings.consistency import branch_check_steps, cached_check_steps
from ropewalk.model.readings.lens import lens_steps
from ropewalk.model.readings.next_token import reading_of
from ropewalk.model.readings.patterns import head_score_steps, repeated_ids
from ropewalk.model.readings.random_layer import random_layers
from ropewalk.model.readings.readout import cache_steps, read_cell, read_planes, read_row
from ropewalk.model.readings.records import (
    Arithmetic,
    BoardReading,
    ConsistencyCheck,
    DirectAttribution,
    HeadDifference,
    HeadPicture,
    Line,
    LogitLens,
    NextTokenDifference,
    RepeatScores,
    RopeRule,
    Routing,
    ScoreChanges,
    TokenText,
    TokenTexts,
    TrainingHistory,
)
from ropewalk.model.readings.routing import read_routing
from ropewalk.model.readings.strong import strong_weights_steps
from ropewalk.model.readings.thumbnails import atlas_steps
from ropewalk.model.readings.tiles import read_head, refine_steps
from ropewalk.model.readings.walk import walk_steps
from ropewalk.model.runs.budget import SLICE_FLOPS, chunk_rows
from ropewalk.model.runs.trace import Trace
from ropewalk.model.training.history import read_history


def in_view(handle: RunHandle) -> Trace:
    """The run as far as it is in view."""
    trace: Trace = handle.trace
    return trace if trace.length == handle.run.length else trace.at(handle.run.length)


def texts(checkpoint: Opened, ids: Sequence[int]) -> tuple[TokenText, ...]:
    """How to show token ids; without a tokenizer, by their numbers."""
    if checkpoint.tokenizer is None:
        return tuple(TokenText(token, f"#{token}") for token in ids)
    return checkpoint.tokenizer.describe(ids)


def texts_on(checkpoint: Opened, described: Sequence[TokenText], ids: Sequence[int]) -> TokenTexts:
    """How to show a run to which tokens were added; those described before are not looked at again."""
    if checkpoint.tokenizer is None:
        return TokenTexts.of(described) + texts(checkpoint, ids)
    return checkpoint.tokenizer.describe_on(described, ids)


class TextsById(dict[int, TokenText]):
    """Token texts by id, looked up when asked for: a vocabulary is long."""

    def __init__(self, checkpoint: Opened) -> None:
        super().__init__()
        self._checkpoint = checkpoint

    def __missing__(self, token: int) -> TokenText:
        return texts(self._checkpoint, [token])[0]

    def get(self, token: int, default: Any = None) -> Any:
        """How to show an id."""
        return texts(self._checkpoint, [token])[0]


def _at_once(read: Callable[[Trace, Any], Any]) -> Callable[[RunHandle, Trace, Any], Steps[Any]]:
    """A reading that is short enough for one slice."""

    def steps(handle: RunHandle, trace: Trace, asked: Any) -> Steps[Any]:
        yield from ()
        return read(trace, asked)

    return steps


def _next_token(handle: RunHandle, trace: Trace, asked: AskNextToken) -> Steps[Any]:
    checkpoint: Opened = handle.model_handle.checkpoint
    yield from ()
    logits, again = row_logits(checkpoint, trace, asked.query)
    return reading_of(logits, trace, asked.query, asked.count, asked.sampling, TextsById(checkpoint), replayed=again)


def _next_token_under(handle: RunHandle, trace: Trace, asked: AskNextTokenUnder) -> Steps[Any]:
    checkpoint: Opened = handle.model_handle.checkpoint
    logits = yield from logits_under_steps(checkpoint, trace, asked.query, asked.interventions)
    return reading_of(logits, trace, asked.query, asked.count, asked.sampling, TextsById(checkpoint), replayed=True)


def _ledgers(handle: RunHandle, trace: Trace, asked: AskLedger) -> Steps[tuple[ShapeLedger, ShapeLedger | None]]:
    """Prefill and, after a step, decode, each with its checks decided by what the run measures.

    A run under interventions is held to what these change, and to nothing else.
    """
    card, model = handle.model_handle.card, handle.model_handle.checkpoint.model
    config = as_run(trace.config, trace.interventions)

    def built(tokens: int, past: int) -> ShapeLedger:
        return build_ledger(config, asked.layer, trace.batch, tokens, past, card.dtype, card.device, trace.branch)

    if "replay" not in handle.can:
        decode = built(1, trace.length - 1) if trace.length > trace.prefill else None
        return built(trace.prefill, 0), decode
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


def _check(handle: RunHandle, trace: Trace, asked: AskCachedCheck) -> Steps[ConsistencyCheck]:
    checkpoint: Checkpoint = handle.model_handle.checkpoint
    chunk = chunk_rows(checkpoint.config, trace.length)
    dtype = handle.model_handle.card.dtype
    return cached_check_steps(checkpoint.model, trace, dtype, chunk=chunk, by_layer=asked.by_layer)


def _branch_check(handle: RunHandle, trace: Trace, asked: AskBranchCheck) -> Steps[ConsistencyCheck]:
    return branch_check_steps(handle.model_handle.checkpoint.model, trace, handle.model_handle.card.dtype)


def _arithmetic(handle: RunHandle, trace: Trace, asked: AskArithmetic) -> Steps[Arithmetic]:
    """Every line of a cell; the tokens whose logits are followed get their text beside their id."""
    yield from ()
    checkpoint: Checkpoint = handle.model_handle.checkpoint
    read = read_arithmetic(checkpoint.model, trace, asked.layer, asked.head, asked.query, asked.key)

    def named(line: Line) -> Line:
        if not line.key.startswith("logit."):
            return line
        token = texts(checkpoint, [int(line.symbol.removeprefix("token "))])[0]
        return replace(line, symbol=f"{line.symbol} {token.inline}")

    stages = tuple(replace(stage, lines=tuple(map(named, stage.lines))) for stage in read.stages)
    return replace(read, stages=stages)


def _attribution(handle: RunHandle, trace: Trace, asked: AskAttribution) -> Steps[DirectAttribution]:
    yield from ()
    return direct_attribution(handle.model_handle.checkpoint.model, trace, asked.query, asked.token)


def _routing(handle: RunHandle, trace: Trace, asked: AskRouting) -> Steps[Routing | None]:
    yield from ()
    return read_routing(handle.model_handle.checkpoint.model, trace, asked.layer)


def _lens(handle: RunHandle, trace: Trace, asked: AskLens) -> Steps[LogitLens]:
    checkpoint: Checkpoint = handle.model_handle.checkpoint
    return lens_steps(checkpoint.model, trace, TextsById(checkpoint), asked.rows, count=asked.count)


def _mean(handle: RunHandle, trace: Trace, asked: AskMean) -> Steps[Intervention]:
    """The ablation to the mean over this run's rows in the model without interventions, but for its stretch."""
    checkpoint: Opened = handle.model_handle.checkpoint
    if trace.ids is None:
        raise InterventionError("This run was given vectors, not tokens, so no mean can be taken; run a prompt.")
    layer, heads, plane = asked.layer, asked.heads, asked.plane
    if not isinstance(checkpoint, Checkpoint):
        wanted = AblateMlp(layer) if heads is None else AblateHeads(layer, heads)
        check_changes(checkpoint, [wanted if plane is None or heads is None else AblatePlane(layer, heads[0], plane)])
        return (yield from checkpoint.mean_heads_steps(trace, layer, heads or ()))
    model = checkpoint.model
    stretched = [one for one in trace.interventions if isinstance(one, RopeScaling)]
    if heads is None:
        check_interventions([AblateMlp(layer)], trace.config)
        return mean_mlp(model, trace.ids, layer, stretched)
    if plane is None:
        check_interventions([AblateHeads(layer, heads)], trace.config)
        return mean_heads(model, trace.ids, layer, heads, stretched)
    check_interventions([AblatePlane(layer, heads[0], plane)], trace.config)
    return mean_plane(model, trace.ids, layer, heads[0], plane, stretched)


def _repeats(handle: RunHandle, trace: Trace, asked: AskRepeats) -> Steps[RepeatScores]:
    """Run random tokens twice under the run's interventions; an order is one of the run's own tokens."""
    c = trace.config
    count = max(min(asked.count, c.max_position // 2), 2)
    changed = [one for one in trace.interventions if not isinstance(one, PermuteTokens)]
    ids = repeated_ids(count, c.vocabulary, asked.seed)
    what = "Testing every head on random repeats"
    steps = capture_steps(handle.model_handle.checkpoint, ids, logits="none", interventions=changed, what=what)
    scores, _ = yield from head_score_steps((yield from steps))
    return RepeatScores(count, scores)


def _rules(handle: RunHandle, trace: Trace, asked: AskRules) -> Steps[tuple[RopeRule, ...]]:
    yield from ()
    config = as_run(trace.config, trace.interventions)
    rope, width = config.rope_of(asked.layer), config.rotary_width(asked.layer)
    if rope is None:
        return ()
    if rope == trace.config.rope_of(asked.layer):
        found = other_rules(rope, width, config.max_position)
    else:
        found = other_rules(rope, width, trace.length, "this run")
    return tuple(RopeRule(name, theta.double().numpy(), factor) for name, theta, factor in found)


def _training(handle: RunHandle, trace: Trace, asked: AskTraining) -> Steps[TrainingHistory | None]:
    yield from ()
    checkpoint: Checkpoint = handle.model_handle.checkpoint
    history = read_history(Path(checkpoint.path), checkpoint.config) if checkpoint.path else None
    return history and replace(history, tokens=texts(checkpoint, history.ids.tolist()))


def _head_difference(handle: RunHandle, trace: Trace, asked: AskHeadDifference) -> Steps[HeadDifference | None]:
    yield from ()
    if handle.baseline is None:
        return None
    before, texts = in_view(handle.baseline), None
    if handle.baseline.model_handle is not handle.model_handle:
        a, b = ([token.text for token in one.run.tokens[: one.run.length]] for one in (handle.baseline, handle))
        texts = a, b
    rows = align(before, trace, texts)
    return head_difference(before[asked.layer], trace[asked.layer], asked.head, rows)


def _score_changes(handle: RunHandle, trace: Trace, asked: AskScoreChanges) -> Steps[ScoreChanges | None]:
    if handle.baseline is None:
        return None
    return (yield from score_changes(in_view(handle.baseline), trace))


def _next_token_difference(
    handle: RunHandle, trace: Trace, asked: AskNextTokenDifference
) -> Steps[NextTokenDifference | None]:
    yield from ()
    if handle.baseline is None:
        return None
    before = in_view(handle.baseline)
    a, _ = row_logits(handle.baseline.model_handle.checkpoint, before, before.length - 1)
    b, _ = row_logits(handle.model_handle.checkpoint, trace, trace.length - 1)
    return next_token_difference(a, b, TextsById(handle.model_handle.checkpoint))


def _head(handle: RunHandle, trace: Trace, asked: AskHead) -> Steps[HeadPicture]:
    yield from ()
    return read_head(
        trace[asked.layer],
        asked.head,
        asked.rows,
        asked.columns,
        asked.pixels,
        reduction=asked.reduction,
        cache=handle.tiles,
    )


def _board(handle: RunHandle, trace: Trace, asked: AskBoard) -> Steps[BoardReading]:
    a = asked
    return board_steps(
        trace,
        a.heads,
        a.shown,
        a.rows,
        a.columns,
        a.pixels,
        average=a.average,
        difference=a.difference,
        reduction=a.reduction,
        cache=handle.tiles,
    )


def _refined(handle: RunHandle, trace: Trace, asked: AskRefined) -> Steps[HeadPicture]:
    a = asked.picture
    return refine_steps(trace[a.layer], a.head, a.rows, a.columns, a.pixels, reduction=a.reduction, cache=handle.tiles)


ANSWERS: dict[type[Question], Callable[[RunHandle, Trace, Any], Steps[Any]]] = {
    AskHead: _head,
    AskRefined: _refined,
    AskStrongWeights: lambda handle, trace, a: strong_weights_steps(
        trace[a.layer], a.heads, a.rows, a.columns, thresholds=a.thresholds, most=a.most
    ),
    AskRepeats: _repeats,
    AskRow: _at_once(lambda trace, a: read_row(trace[a.layer], a.head, a.query)),
    AskCell: _at_once(lambda trace, a: read_cell(trace[a.layer], a.head, a.query, a.key)),
    AskPlanes: _at_once(lambda trace, a: read_planes(trace[a.layer], a.head, a.query, a.key)),
    AskCache: lambda handle, trace, asked: cache_steps(trace, asked.positions),
    AskAtlas: lambda handle, trace, asked: atlas_steps(trace, asked.pixels, exact=asked.exact, first=asked.first),
    AskNextToken: _next_token,
    AskNextTokenUnder: _next_token_under,
    AskLedger: _ledgers,
    AskCachedCheck: _check,
    AskBranchCheck: _branch_check,
    AskArithmetic: _arithmetic,
    AskWalk: lambda handle, trace, a: walk_steps(
        handle.model_handle.checkpoint.model, trace, a.layer, a.head, a.query, pixels=a.pixels
    ),
    AskNeeds: lambda handle, trace, asked: head_needs_steps(
        handle.model_handle.checkpoint, trace, asked.query, asked.token
    ),
    AskAttribution: _attribution,
    AskRules: _rules,
    AskTraining: _training,
    AskMean: _mean,
    AskRandomLayers: _at_once(lambda trace, a: random_layers(a.batch, a.tokens, a.width, a.heads, a.seed)),
    AskRouting: _routing,
    AskLens: _lens,
    AskHeadDifference: _head_difference,
    AskScoreChanges: _score_changes,
    AskBoard: _board,
    AskNextTokenDifference: _next_token_difference,
}
