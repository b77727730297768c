"""The only door from the window to torch: opens models, runs prompts, decodes, and answers questions.

Every function here is a job: a generator that pauses where it may be stopped or where something more urgent may run.
The session imports this file lazily, on the compute thread, never at start-up. It keeps no state: a model and a run
live in the handles that it returns.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch

from app.door import Choice, Held, Opened, Outlined, Typed
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
from model.arithmetic import read_arithmetic
from model.attribution import direct_attribution, head_needs_steps
from model.budget import SLICE_FLOPS, Logits, check_budget, chunk_rows, run_budget
from model.chat import conversation, rendered_steps
from model.checkpoints import Checkpoint, available_devices, open_steps, outline_checkpoint
from model.checkpoints.opening import free_bytes
from model.comparison import align, head_difference, next_token_difference
from model.config import ModelConfig
from model.errors import ChatError, ExperimentError, PromptError, TooLongError
from model.experiments import (
    AblateHeads,
    AblateMlp,
    AblatePlane,
    Experiment,
    RopeScaling,
    check_experiments,
    permuted,
)
from model.generation import draw, next_token_reading, row_logits
from model.grading import Bar, bars
from model.intervention import mean_heads, mean_mlp, mean_plane
from model.ledger import ShapeLedger, build_ledger, checked
from model.lens import cache_steps, read_cell, read_planes, read_row
from model.lessons.bench import Bench
from model.lessons.models import LessonModel
from model.measure import measure_steps
from model.memory import give_back, within_memory
from model.numbers import numbers_steps
from model.patterns import atlas_steps, formulas_of, head_scores, repeated_ids
from model.progress import Progress, Steps
from model.proof import branch_proof_steps, cached_proof_steps
from model.random_layer import random_layers
from model.readings import (
    Arithmetic,
    DirectAttribution,
    Doubles,
    HeadDifference,
    HeadNumbers,
    HeadPicture,
    Line,
    ModelCard,
    NextTokenDifference,
    Proof,
    RopeRule,
    Routing,
    Run,
    Sampling,
    TokenText,
)
from model.rope import other_rules
from model.rotations import as_run, offers, why_not
from model.routing import read_routing
from model.tiles import TileCache, read_head, refine_steps
from model.toy_spec import ToySpec
from model.toys import toy_checkpoint
from model.trace import Trace, append_steps, capture_steps
from model.trace_file import save_trace

Result = TypeVar("Result")

IDS = re.compile(r"\s*\d+(?:[\s,]+\d+)*[\s,]*")
"""What is taken for token ids where a model has no tokenizer."""

LONGEST_ID = 18
"""Digits of a typed id; no vocabulary comes near, and more would not fit into 64 bits."""


# ----------------------------------------------------------------------------------------------------------------------
# Opening


def open_model(
    path: str | None,
    device: str,
    dtype: str,
    *,
    options: Mapping[str, int] | None = None,
) -> Steps[Opened]:
    """Open a checkpoint; None is the bundled one.

    Parameters
    ----------
    options
        Answers to what the checkpoint leaves open.
    """
    _leave_a_core_to_the_window()
    checkpoint = yield from open_steps(path, device=device, dtype=dtype, options=options, large_pages=True)
    card = ModelCard(
        name=checkpoint.name,
        path=checkpoint.path,
        config=checkpoint.config,
        parameters=checkpoint.parameters,
        weight_bytes=checkpoint.weight_bytes,
        device=device,
        dtype=dtype,
        family=checkpoint.family,
        has_tokenizer=checkpoint.tokenizer is not None,
        bos=_bos(checkpoint),
        chats=() if checkpoint.tokenizer is None else tuple(one.name for one in checkpoint.tokenizer.chats),
    )
    answered = tuple(sorted((options or {}).items()))
    notice = f"{checkpoint.unread} Until then, type token ids instead of text." if checkpoint.unread else ""
    return Opened(card, available_devices(), checkpoint, checkpoint.shapes_only, answered, notice)


def open_toy(toy: ToySpec, name: str) -> Steps[Opened]:
    """Open a lesson's toy: a real decoder with the numbers of its file."""
    yield Progress(0, 1, "Building a toy")
    checkpoint = toy_checkpoint(toy, name)
    card = ModelCard(
        name=name,
        path="",
        config=checkpoint.config,
        parameters=checkpoint.parameters,
        weight_bytes=checkpoint.weight_bytes,
        device="cpu",
        dtype="float32",
        family=checkpoint.family,
    )
    return Opened(card, available_devices(), checkpoint)


def laboratory(models: Mapping[str, LessonModel], opened: Opened | None, held: Held | None) -> Steps[Bench]:
    """What a lesson's numbers are measured in: its own models, and what the person has open."""
    yield Progress(0, 1, "Reading the lesson's numbers")
    return Bench(models, None if opened is None else opened.checkpoint, None if held is None else _in_view(held))


def outline(path: str | None, options: Mapping[str, int]) -> Steps[Outlined]:
    """Say what a checkpoint is and would cost, without loading it."""
    yield Progress(0, 1, "Looking at the checkpoint")
    found = outline_checkpoint(path, options=options)
    return Outlined(
        name=found.name,
        path=found.path,
        family=found.family,
        config=found.config,
        parameters=found.parameters,
        bytes_in=found.bytes_in,
        kv_bytes_in=found.kv_bytes_in,
        holds_weights=found.holds_weights,
        choices=tuple(Choice(one.option, one.sentence, one.choices, one.assumed) for one in found.questions),
        notes=found.notes,
    )


def _bos(checkpoint: Checkpoint) -> str:
    """What the tokenizer puts before a text, told from what it does to one; empty where that is nothing."""
    tokenizer = checkpoint.tokenizer
    if tokenizer is None:
        return ""
    dressed, bare = tokenizer.encode("a"), tokenizer.encode("a", add_special=False)
    before = next((i for i in range(len(dressed)) if dressed[i : i + len(bare)] == bare), 0)
    return "".join(token.text for token in tokenizer.describe(dressed[:before]))


@cache
def _leave_a_core_to_the_window() -> None:
    """Keep one core for drawing, where there are enough; once, because torch's pool is made once."""
    threads = torch.get_num_threads()
    if threads > 2:
        torch.set_num_threads(threads - 1)


# ----------------------------------------------------------------------------------------------------------------------
# Running


@within_memory
def run(
    opened: Opened,
    prompt: str | Sequence[int],
    run_id: int,
    head: tuple[int, int] | None = None,
    logits: Logits | None = None,
    experiments: Sequence[Experiment] = (),
    decoded: Sequence[int] = (),
    typed: Typed = Typed(),  # noqa: B008 - frozen
) -> Steps[Held]:
    """Prefill a prompt.

    Parameters
    ----------
    prompt
        Text, or token ids.
    head
        The (layer, head) in view; None looks for the head whose pattern is worth showing first.
    logits
        Whose logits to keep.
    experiments
        What to change in the model while it runs.
    decoded
        Tokens of an earlier run that follow the prompt and are run with it; they still count as decoded.
    typed
        Whether a prompt is ids or text, whether special tokens are put around text, and the chat template it goes into.

    Raises
    ------
    ExperimentError
        When an experiment names what the model does not have.
    ChatError
        When the chat template cannot be applied.
    PromptError
        For an empty prompt, one over the limit, or text where the model has no tokenizer.
    MemoryBudgetError
        When the run would take more memory than is free.
    """
    checkpoint: Checkpoint = opened.checkpoint
    check_experiments(experiments, checkpoint.config)
    read, rendered = yield from _read(checkpoint, prompt, typed)
    prompted = permuted(read, experiments)
    ids = [*prompted, *decoded]
    _check_length(checkpoint.config, len(ids), experiments)
    rows = _chunk(checkpoint.config, len(ids))
    free = free_bytes(checkpoint.model.embed.weight.device)
    budget = run_budget(checkpoint.config, len(ids), opened.card.dtype, logits=logits, rows=rows)
    check_budget(budget, checkpoint.config, free, rows=rows)
    steps = capture_steps(
        checkpoint.model,
        ids,
        run_id=run_id,
        logits=logits,
        chunk=rows,
        experiments=experiments,
        what="Running the prompt" + (f", {budget.told(free)}" if budget.is_worth_saying(free) else ""),
    )
    trace, seconds = yield from _timed(steps)
    trace = replace(trace, prefill=len(prompted))
    described = Run(
        run_id=run_id,
        model=opened.card,
        specs=trace.specs,
        prompt=prompt if isinstance(prompt, str) else " ".join(map(str, prompted)),
        tokens=_texts(checkpoint, ids),
        length=trace.length,
        prefill=trace.prefill,
        newest=trace.length,
        first_logit_row=trace.first_logit_row,
        seconds=seconds,
        trace_bytes=trace.kept_bytes,
        rendered=rendered,
        reach=as_run(checkpoint.config, experiments).max_position,
    )
    yield Progress(1, 1, "Looking for a head to show")
    return Held(described, opened, trace, _cell(trace, head), typed=typed, tiles=TileCache())


@within_memory
def step(held: Held, count: int, sampling: Sampling) -> Steps[Held]:
    """Decode ``count`` tokens after the rows in view; decoding from an earlier row branches the run."""
    checkpoint: Checkpoint = held.opened.checkpoint
    trace = _in_view(held)
    seconds = 0.0
    _check_length(checkpoint.config, trace.length + count, trace.experiments)
    for done in range(count):
        logits, _ = row_logits(checkpoint.model, trace, trace.length - 1)
        token = draw(logits, sampling, trace.length - 1)
        yield Progress(done, count, "Decoding")
        trace, took = yield from _timed(_renamed(append_steps(checkpoint.model, trace, token), done, count))
        seconds += took
    return replace(held, run=_lengthened(held.run, checkpoint, trace, seconds, held.run.length), trace=trace)


@within_memory
def branch(held: Held, row: int, token: int) -> Steps[Held]:
    """Put another token in the place of a decoded row, and forget what came after it."""
    checkpoint: Checkpoint = held.opened.checkpoint
    trace, seconds = yield from _timed(append_steps(checkpoint.model, held.trace.at(row), token))
    return replace(held, run=_lengthened(held.run, checkpoint, trace, seconds, row), trace=trace)


def _lengthened(run: Run, checkpoint: Checkpoint, trace: Trace, seconds: float, since: int) -> Run:
    """The description of a run whose trace has been decoded further, from row ``since`` on."""
    return replace(
        run,
        specs=trace.specs,
        tokens=_texts_on(checkpoint, run.tokens[:since], ids_of_trace(trace, since)),
        length=trace.length,
        newest=trace.length,
        seconds=seconds,
        trace_bytes=trace.kept_bytes,
    )


def _read(checkpoint: Checkpoint, prompt: str | Sequence[int], typed: Typed) -> Steps[tuple[list[int], str]]:
    """The ids of a prompt, and what a chat template made of it (nothing without one)."""
    tokenizer = checkpoint.tokenizer
    if not isinstance(prompt, str) or typed.as_ids or not typed.chat:
        return _ids_of(checkpoint, prompt, typed), ""
    template = None if tokenizer is None else next((one for one in tokenizer.chats if one.name == typed.chat), None)
    if tokenizer is None or template is None:
        raise ChatError(f"{checkpoint.name} has no chat template named {typed.chat!r}; run the text as it is.")
    text = yield from rendered_steps(template, conversation(prompt, typed.system))
    ids = list(tokenizer.encode(text, add_special=False, names_special=True))
    if not ids:
        raise ChatError("The chat template writes nothing for this prompt; switch it off to run the text as it is.")
    return ids, text


def _ids_of(checkpoint: Checkpoint, prompt: str | Sequence[int], typed: Typed = Typed()) -> list[int]:  # noqa: B008
    if not isinstance(prompt, str):
        return _known_ids(checkpoint, prompt)
    if checkpoint.tokenizer is not None and not typed.as_ids:
        return list(checkpoint.tokenizer.encode(prompt, add_special=typed.special))
    if IDS.fullmatch(prompt) is None:
        why = "Ids were asked for" if checkpoint.tokenizer is not None else f"{checkpoint.name} has no tokenizer"
        why += " that can be read" if checkpoint.unread else ""
        raise PromptError(f"{why}, so text cannot be run on it; type token ids such as 1, 2, 3.")
    digits = re.findall(r"\d+", prompt)
    longest = max(digits, key=len)
    if len(longest) > LONGEST_ID:
        raise PromptError(f"A token id of {len(longest)} digits was typed, but there is none; separate ids by spaces.")
    return _known_ids(checkpoint, [int(number) for number in digits])


def _known_ids(checkpoint: Checkpoint, ids: Sequence[int]) -> list[int]:
    largest = checkpoint.config.vocabulary - 1
    outside = [token for token in ids if not 0 <= token <= largest]
    if outside:
        raise PromptError(f"Token id {outside[0]} is not there; the ids of this model are 0 to {largest}.")
    return list(ids)


def _check_length(config: ModelConfig, tokens: int, experiments: Sequence[Experiment] = ()) -> None:
    if tokens == 0:
        raise PromptError("The prompt is empty, but a run needs at least one token; type something.")
    limit = as_run(config, experiments).max_position
    if tokens > limit:
        why = why_not(config)
        raise TooLongError(
            f"This would be {tokens} tokens, but the model's positions end after {limit}; make it {tokens - limit} "
            f"shorter{f': {why}' if why else ', or pick a RoPE scaling'}.",
            offers(config, tokens),
        )


def _chunk(config: ModelConfig, tokens: int) -> int:
    """Rows to run at a time, so that no slice is long; 0 for all at once."""
    return chunk_rows(config, tokens)


def _cell(trace: Trace, head: tuple[int, int] | None) -> tuple[int, int, int, int]:
    """The (layer, head, query, key) to look at first: the last row, and what it attends to most."""
    layer, number = _strongest(trace) if head is None else head
    if layer >= trace.config.layers or number >= trace.config.heads:
        layer, number = 0, 0
    query = trace.length - 1
    return layer, number, query, int(read_row(trace, layer, number, query).weights.argmax())


def _strongest(trace: Trace) -> tuple[int, int]:
    """The head with the clearest induction stripe, or else the clearest previous-token one."""
    scores, undefined = head_scores(trace, ("induction", "previous"))
    for name in scores:
        if name not in undefined:
            layer, head = divmod(int(scores[name].argmax()), trace.config.heads)
            return layer, head
    return 0, 0


def _texts(checkpoint: Checkpoint, ids: Sequence[int]) -> tuple[TokenText, ...]:
    if checkpoint.tokenizer is None:
        return tuple(TokenText(token, f"#{token}") for token in ids)
    return checkpoint.tokenizer.describe(ids)


def _texts_on(checkpoint: Checkpoint, described: tuple[TokenText, ...], ids: Sequence[int]) -> tuple[TokenText, ...]:
    """How to show a run to which tokens were added; those described before are not looked at again."""
    if checkpoint.tokenizer is None:
        return described + _texts(checkpoint, ids)
    return checkpoint.tokenizer.describe_on(described, ids)


def ids_of_trace(trace: Trace, since: int = 0) -> list[int]:
    """The token ids of a run, from row ``since`` on."""
    return [] if trace.ids is None else [int(token) for token in trace.ids[0, since:].tolist()]


def _in_view(held: Held) -> Trace:
    trace: Trace = held.trace
    return trace if trace.length == held.run.length else trace.at(held.run.length)


def _timed(steps: Steps[Result]) -> Steps[tuple[Result, float]]:
    """Pass progress on, and add the seconds of work, pauses left out."""
    seconds = 0.0
    while True:
        began = time.perf_counter()
        try:
            point = next(steps)
        except StopIteration as stop:
            return stop.value, seconds + time.perf_counter() - began
        seconds += time.perf_counter() - began
        yield point


def _renamed(steps: Steps[Result], done: int, count: int) -> Steps[Result]:
    """Show the tokens decoded instead of the layers of one token."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        yield Progress(done, count, "Decoding")


# ----------------------------------------------------------------------------------------------------------------------
# Questions


@within_memory
def answer(held: Held, question: Question) -> Steps[Any]:
    """Answer a panel's question about the rows in view."""
    yield Progress(0, 1, "Reading the run")
    return (yield from ANSWERS[type(question)](held, _in_view(held), question))


def tidy() -> Steps[None]:
    """Give the memory back that a run which is gone has left."""
    yield from ()
    give_back()


def _at_once(read: Callable[[Trace, Any], Any]) -> Callable[[Held, Trace, Any], Steps[Any]]:
    """A reading that is short enough for one slice."""

    def steps(held: Held, trace: Trace, asked: Any) -> Steps[Any]:
        yield from ()
        return read(trace, asked)

    return steps


def _next_token(held: Held, trace: Trace, asked: AskNextToken) -> Steps[Any]:
    checkpoint: Checkpoint = held.opened.checkpoint
    yield from ()
    return next_token_reading(checkpoint.model, trace, asked.query, asked.count, asked.sampling, _Shown(checkpoint))


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
    chunk = _chunk(checkpoint.config, trace.length)
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
        token = _texts(checkpoint, [int(line.symbol.removeprefix("token "))])[0]
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
    before = _in_view(held.pinned)
    rows = align(before, trace, by_row=held.pinned.opened is not held.opened)
    return head_difference(before, trace, asked.layer, asked.head, rows)


def _next_token_difference(
    held: Held, trace: Trace, asked: AskNextTokenDifference
) -> Steps[NextTokenDifference | None]:
    yield from ()
    if held.pinned is None:
        return None
    before = _in_view(held.pinned)
    a, _ = row_logits(held.pinned.opened.checkpoint.model, before, before.length - 1)
    b, _ = row_logits(held.opened.checkpoint.model, trace, trace.length - 1)
    return next_token_difference(a, b, _Shown(held.opened.checkpoint))


class _Shown(dict[int, TokenText]):
    """Token texts by id, looked up when asked for: a vocabulary is long."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self._checkpoint = checkpoint

    def __missing__(self, token: int) -> TokenText:
        return _texts(self._checkpoint, [token])[0]

    def get(self, token: int, default: Any = None) -> Any:
        """How to show an id."""
        return _texts(self._checkpoint, [token])[0]


def _head(held: Held, trace: Trace, asked: AskHead) -> Steps[HeadPicture]:
    yield from ()
    return read_head(
        trace,
        asked.layer,
        asked.head,
        asked.rows,
        asked.columns,
        asked.pixels,
        reduction=asked.reduction,
        cache=held.tiles,
    )


def _refined(held: Held, trace: Trace, asked: AskRefined) -> Steps[HeadPicture]:
    a = asked.picture
    return refine_steps(trace, a.layer, a.head, a.rows, a.columns, a.pixels, reduction=a.reduction, cache=held.tiles)


ANSWERS: dict[type[Question], Callable[[Held, Trace, Any], Steps[Any]]] = {
    AskHead: _head,
    AskRefined: _refined,
    AskRow: _at_once(lambda trace, a: read_row(trace, a.layer, a.head, a.query)),
    AskCell: _at_once(lambda trace, a: read_cell(trace, a.layer, a.head, a.query, a.key)),
    AskPlanes: _at_once(lambda trace, a: read_planes(trace, a.layer, a.head, a.query, a.key)),
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


# ----------------------------------------------------------------------------------------------------------------------
# Taking a run home


def save(held: Held, path: str | Path, pattern: bool = False) -> None:
    """Write the rows in view to a trace file; ``pattern`` adds queries before RoPE, scores and weights."""
    strings = [token.text for token in held.run.tokens[: held.run.length]]
    save_trace(_in_view(held), path, strings=strings, model=held.opened.checkpoint.model, pattern=pattern)


def save_steps(held: Held, path: str | Path, pattern: bool = False) -> Steps[Path]:
    """The same as a job."""
    yield Progress(0, 1, "Writing the trace")
    save(held, path, pattern)
    return Path(path)


def numbers(held: Held, layer: int, head: int, queries: tuple[int, int], keys: tuple[int, int]) -> Steps[HeadNumbers]:
    """Scores and weights of a rectangle of the rows in view, in full precision."""
    return numbers_steps(_in_view(held), layer, head, queries, keys)


def scores_of(held: Held) -> tuple[dict[str, Doubles], dict[str, str], dict[str, str]]:
    """Scores of every head [L, H] by name, their formulas, and why some are not defined for these tokens."""
    trace = _in_view(held)
    scores, undefined = head_scores(trace)
    return scores, formulas_of(trace), undefined


def length_of(opened: Opened, prompt: str | Sequence[int], typed: Typed) -> Steps[int]:
    """How many tokens a prompt is."""
    ids, _ = yield from _read(opened.checkpoint, prompt, typed)
    return len(ids)


def random_repeat(opened: Opened, count: int, seed: int, experiments: Sequence[Experiment] = ()) -> list[int]:
    """``count`` random token ids, twice, with nothing before them."""
    _check_length(opened.card.config, 2 * count, experiments)  # first: this many may not fit into memory
    return repeated_ids(count, opened.card.config.vocabulary, seed)


def text_of(opened: Opened, ids: Sequence[int]) -> str:
    """Token ids as running text, or as numbers where the model has no tokenizer."""
    checkpoint: Checkpoint = opened.checkpoint
    if checkpoint.tokenizer is None:
        return " ".join(map(str, ids))
    known = [token for token in ids if token < checkpoint.tokenizer.vocabulary]  # an embedding may be padded
    return checkpoint.tokenizer.decode(known)


def train(text: Path, out: Path, **options: int) -> Steps[tuple[Bar, ...]]:
    """Train the bundled model, or go on with it; ``options`` are fields of the recipe. Returns what it is worth."""
    from model.training import TrainOptions
    from model.training import train as training

    trained = yield from training(text, out, TrainOptions(**options))
    return bars(trained.grades)


def grade(folder: Path, text: Path) -> Steps[tuple[Bar, ...]]:
    """Measure a checkpoint as the bundled model is measured."""
    from model.training import grade_folder

    return bars((yield from grade_folder(folder, text)))
