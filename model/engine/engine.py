"""The engine, all that has torch and answers the window: opens models, runs prompts, decodes, and answers questions.

Every function here is a job: a generator that pauses where it may be stopped or where something more urgent may run.
The window's process never imports this file. It keeps no state: a model and a run
live in the handles that it returns.
"""

from __future__ import annotations

import time
from bisect import bisect
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from ropewalk.model.checkpoints import Checkpoint, available_devices, device_name, open_steps, outline_checkpoint
from ropewalk.model.checkpoints.opening import free_bytes
from ropewalk.model.decoder import product_choice
from ropewalk.model.decoder.interventions import Intervention, permuted
from ropewalk.model.decoder.product_names import BY_TORCH
from ropewalk.model.decoder.rope_scaling import as_run
from ropewalk.model.engine import running, saved_runs, surveys
from ropewalk.model.engine.answers import ANSWERS, in_view, texts, texts_on
from ropewalk.model.engine.interface import (
    TRANSFORMERS_ADVICE,
    CheckpointOutline,
    Choice,
    ModelHandle,
    OpenedTrace,
    RunHandle,
    unanswerable,
    why_missing,
)
from ropewalk.model.engine.prompts import ReadPrompt, check_length, read_prompt
from ropewalk.model.engine.questions import Capability, Question
from ropewalk.model.errors import PromptError, TraceError, UnknownFamilyError
from ropewalk.model.lessons.models import LessonModel
from ropewalk.model.lessons.runs import Runs
from ropewalk.model.lessons.toy_spec import ToySpec
from ropewalk.model.lessons.toys import toy_checkpoint
from ropewalk.model.options import PRODUCTS, Options
from ropewalk.model.progress import Progress, Steps, finished
from ropewalk.model.readings.next_token import draw
from ropewalk.model.readings.patterns import formulas_of, head_scores, repeated_ids
from ropewalk.model.readings.readout import numbers_steps, read_row
from ropewalk.model.readings.records import Doubles, HeadNumbers, ModelCard, Run, Sampling, TokenTexts
from ropewalk.model.readings.tiles import TileCache
from ropewalk.model.runs.budget import Logits, check_budget, chunk_rows, run_budget
from ropewalk.model.runs.memory import OPENING, give_back, within_memory
from ropewalk.model.runs.trace import Trace
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.header import Origin
from ropewalk.model.trace_files.trace_file import is_trace, save_trace
from ropewalk.model.training.grading import Bar, bars
from ropewalk.model.transformers_models.offering import with_offer

Result = TypeVar("Result")


# ----------------------------------------------------------------------------------------------------------------------
# Opening


@partial(within_memory, sentence=OPENING)
def open_model(
    path: str | None,
    device: str,
    dtype: str,
    *,
    options: Options | None = None,
) -> Steps[ModelHandle]:
    """Open a checkpoint; None is the bundled one.

    Parameters
    ----------
    path
        A trace file is opened as it is, on the CPU and in its own dtype: a model without weights.
    options
        Answers to what the checkpoint leaves open, and what else was asked for (``model.options``).
    """
    _leave_a_core_to_the_window()
    if path is not None and is_trace(path):
        yield Progress(0, 1, "Opening the trace")
        return saved_runs.open_file(Path(path), options)
    checkpoint: running.Opened
    if running.is_via_transformers(options, path) and path is not None:
        checkpoint = yield from running.open_via_transformers(path, device, dtype)
    else:
        try:
            checkpoint = yield from open_steps(path, device=device, dtype=dtype, options=options, large_pages=True)
        except UnknownFamilyError as error:
            raise with_offer(error, path) from error
    card = ModelCard(
        name=checkpoint.name,
        path=checkpoint.path,
        config=checkpoint.config,
        parameters=checkpoint.parameters,
        weight_bytes=checkpoint.weight_bytes,
        device=device_name(device),
        dtype=dtype,
        family=checkpoint.family,
        has_tokenizer=checkpoint.tokenizer is not None,
        bos=_bos(checkpoint),
        chats=() if checkpoint.tokenizer is None else tuple(one.name for one in checkpoint.tokenizer.chats),
        notes=checkpoint.notes,
        ends=tuple(sorted(checkpoint.ends)),
    )
    answered = tuple(sorted((options or {}).items()))
    notice = f"{checkpoint.unread} Until then, type token ids instead of text." if checkpoint.unread else ""
    if checkpoint.tokenizer is not None:
        notice = " ".join(checkpoint.tokenizer.notes)
    can = running.abilities(checkpoint)
    opened = ModelHandle(card, available_devices(), checkpoint, checkpoint.shapes_only, answered, notice, can=can)
    if not isinstance(checkpoint, Checkpoint):
        return replace(opened, advice=TRANSFORMERS_ADVICE)
    return opened if checkpoint.has_logits else replace(opened, advice=running.HEADLESS_ADVICE)


def open_toy(toy: ToySpec, name: str) -> Steps[ModelHandle]:
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
    return ModelHandle(card, available_devices(), checkpoint)


def lesson_runs(
    models: Mapping[str, LessonModel], model_handle: ModelHandle | None, handle: RunHandle | None
) -> Steps[Runs]:
    """What a lesson's numbers are measured on: its own models, and what the person has open."""
    yield Progress(0, 1, "Reading the lesson's numbers")
    own = model_handle is not None and isinstance(model_handle.checkpoint, Checkpoint)
    checkpoint = model_handle.checkpoint if model_handle is not None and own else None
    return Runs(models, checkpoint, None if handle is None or not own else in_view(handle))


@partial(within_memory, sentence=OPENING)
def outline(path: str | None, options: Options) -> Steps[CheckpointOutline]:
    """Say what a checkpoint is and would cost, without loading it."""
    yield Progress(0, 1, "Looking at the checkpoint")
    if path is not None and is_trace(path):
        return saved_runs.outline_file(Path(path))
    if running.is_via_transformers(options, path) and path is not None:
        found = running.outline_via_transformers(path)
    else:
        try:
            found = outline_checkpoint(path, options=options)
        except UnknownFamilyError as error:
            raise with_offer(error, path) from error
    return CheckpointOutline(
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


def _bos(checkpoint: running.Opened) -> str:
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
    model_handle: ModelHandle,
    prompt: Prompt,
    run_id: int,
    head: tuple[int, int] | None = None,
    logits: Logits | None = None,
    interventions: Sequence[Intervention] = (),
    decoded: Sequence[int] = (),
    *,
    alone: bool = False,
) -> Steps[RunHandle]:
    """Prefill a prompt.

    Parameters
    ----------
    head
        The (layer, head) in view; None looks for the head whose pattern is worth showing first.
    logits
        Whose logits to keep.
    interventions
        What to change in the model while it runs.
    decoded
        Tokens of an earlier run that follow the prompt and are run with it; they still count as decoded.
    alone
        Whether nobody waits for anything else meanwhile, as on the command line.

    Raises
    ------
    InterventionError
        When an intervention names what the model does not have.
    ChatError
        When the chat template cannot be applied.
    PromptError
        For an empty prompt, one over the limit, or text where the model has no tokenizer.
    MemoryBudgetError
        When the run would take more memory than is free.
    """
    require(model_handle, model_handle.can, {"run", "interventions"} if interventions else {"run"})
    checkpoint: running.Opened = model_handle.checkpoint
    logits = logits if checkpoint.has_logits else "none"
    running.check_changes(checkpoint, interventions)
    model = running.decoder_of(checkpoint)
    read, rendered = yield from read_prompt(checkpoint, prompt)
    if model is not None:
        product_choice.adopt(model, dict(model_handle.options).get(PRODUCTS))
        model.products = product_choice.keep_for(model, read, model.products)
    prompted = permuted(read, interventions)
    ids = [*prompted, *decoded]
    check_length(checkpoint.config, len(ids), interventions)
    rows = chunk_rows(checkpoint.config, len(ids), alone=alone)
    free = free_bytes(running.device_of(checkpoint))
    budget = run_budget(checkpoint.config, len(ids), model_handle.card.dtype, logits=logits, rows=rows)
    check_budget(budget, checkpoint.config, free, rows=rows)
    yield Progress(0, 1, "Running the prompt")
    steps = running.capture_steps(
        checkpoint,
        ids,
        run_id=run_id,
        logits=logits,
        chunk=rows,
        interventions=interventions,
        what="Running the prompt" + (f", {budget.sentence(free)}" if budget.is_notable(free) else ""),
    )
    trace, seconds = yield from _timed(steps)
    trace = replace(trace, prefill=len(prompted))
    yield Progress(1, 1, "Looking for a head to show")
    return _described(model_handle, trace, ReadPrompt(prompt, tuple(prompted), rendered), seconds, _cell(trace, head))


def _described(
    model_handle: ModelHandle, trace: Trace, read: ReadPrompt, seconds: float, cell: tuple[int, int, int, int]
) -> RunHandle:
    """A run that was made of a prompt."""
    run = Run(
        run_id=trace.run_id,
        model=model_handle.card,
        specs=trace.specs,
        prompt=read.prompt.text,
        tokens=TokenTexts.of(texts(model_handle.checkpoint, ids_of_trace(trace))),
        length=trace.length,
        prefill=trace.prefill,
        newest=trace.length,
        first_logit_row=trace.first_logit_row,
        seconds=seconds,
        trace_bytes=trace.kept_bytes,
        rendered=read.rendered,
        extended_limit=as_run(trace.config, trace.interventions).max_position,
    )
    return RunHandle(run, model_handle, trace, cell, prompt=read.prompt, tiles=TileCache(), can=model_handle.can)


def read(model_handle: ModelHandle, prompt: Prompt) -> Steps[ReadPrompt]:
    """A prompt as token ids."""
    require(model_handle, model_handle.can, {"run"})
    ids, rendered = yield from read_prompt(model_handle.checkpoint, prompt)
    return ReadPrompt(prompt, tuple(ids), rendered)


def fitting_batch(model_handle: ModelHandle, tokens: int, most: int, logits: Logits | None = None) -> int:
    """How many prompts of so many tokens fit into the free memory at once, ``most`` at most.

    Raises
    ------
    MemoryBudgetError
        When not even one does.
    """
    checkpoint: running.Opened = model_handle.checkpoint
    config, free = checkpoint.config, free_bytes(running.device_of(checkpoint))
    rows, dtype = chunk_rows(config, tokens), model_handle.card.dtype

    def too_many(batch: int) -> bool:
        return run_budget(config, tokens, dtype, batch=batch, logits=logits, rows=rows).total > free

    if too_many(1):
        check_budget(run_budget(config, tokens, dtype, logits=logits, rows=rows), config, free, rows=rows)
    return max(bisect(range(1, most + 1), False, key=too_many), 1)


@within_memory
def run_batch(
    model_handle: ModelHandle,
    prompts: Sequence[ReadPrompt],
    *,
    steps: int = 0,
    logits: Logits | None = None,
    interventions: Sequence[Intervention] = (),
    past_end: bool = False,
) -> Steps[tuple[RunHandle, ...]]:
    """Prefill prompts of equal length together and decode greedily after each; a run of its own for every prompt.

    Parameters
    ----------
    past_end
        As in :func:`step`; the others of the batch go on after one that ends.

    Raises
    ------
    PromptError
        When the lengths differ, or are over the limit.
    """
    require(model_handle, model_handle.can, {"run", "decode"} if steps else {"run"})
    lengths = {len(one.ids) for one in prompts}
    if len(lengths) != 1:
        raise PromptError(f"Prompts of {sorted(lengths)} tokens cannot be run together; give some of one length.")
    checkpoint: running.Opened = model_handle.checkpoint
    (length,) = lengths
    check_length(checkpoint.config, length + steps, interventions)
    ids = [permuted(one.ids, interventions) for one in prompts]
    captured = running.capture_steps(
        checkpoint,
        ids,
        logits=logits,
        chunk=chunk_rows(checkpoint.config, length, alone=True),
        interventions=interventions,
    )
    trace, seconds = yield from _timed(captured)
    ended: dict[int, int] = {}
    for done in range(steps):
        row = trace.length - 1
        drawn = [running.row_logits(checkpoint, trace, row, batch=batch)[0] for batch in range(trace.batch)]
        tokens = [draw(one, Sampling(), row) for one in drawn]
        yield Progress(done, steps, "Decoding")
        trace = yield from _renamed(running.append_steps(checkpoint, trace, tokens), done, steps)
        for batch, token in enumerate(tokens):
            if token in checkpoint.ends and not past_end:
                ended.setdefault(batch, trace.length)
        if len(ended) == len(prompts):
            break
    alone = [trace.prompt(batch).at(ended.get(batch, trace.length)) for batch in range(len(prompts))]
    return tuple(
        _described(model_handle, one, prompt, seconds, _cell(one, (0, 0)))
        for one, prompt in zip(alone, prompts, strict=True)
    )


def open_trace(model_handle: ModelHandle, run_id: int, head: tuple[int, int] | None = None) -> Steps[OpenedTrace]:
    """The run of a trace file that is open; ``head`` is as in :func:`run`.

    Raises
    ------
    TraceError
        When the model is no trace file.
    """
    yield Progress(0, 1, "Opening the trace")
    if model_handle.origin is None:
        raise TraceError(f"{model_handle.card.name} is no trace file, so it has no run of its own; run a prompt.")
    trace: Trace = model_handle.checkpoint.file.trace
    if head is None and trace.kept_bytes > saved_runs.QUICKLY_READ:
        head = (0, 0)
    handle = saved_runs.run_of(model_handle, run_id, _cell(trace, head))
    return OpenedTrace(handle, saved_runs.drawn_with(model_handle), trace.interventions)


@within_memory
def attach(
    handle: RunHandle,
    path: str | None,
    device: str,
    *,
    options: Options | None = None,
    confirmed: bool = False,
) -> Steps[RunHandle]:
    """Open the checkpoint that a run from a file was made with, in the run's dtype; everything can be done then.

    Parameters
    ----------
    path
        A folder or a file; None is the model that comes with Ropewalk.
    options
        Answers to what the checkpoint leaves open, where others than in the file are meant.
    confirmed
        Whether a person wants it although it is not known to be that checkpoint.

    Raises
    ------
    OtherCheckpointError
        When it is not known to be that checkpoint.
    TraceError
        When nothing could go on with the run, or the checkpoint has other shapes.
    """
    saved_runs.check_goes_on(handle)
    origin = handle.model_handle.origin or Origin()
    answered = saved_runs.options_of(origin, options)
    if not confirmed:
        yield from saved_runs.check_is_origin(origin, path, answered)
    dtype = handle.model_handle.card.dtype
    opened = yield from open_model(path, device, dtype, options=answered)
    attached, model = saved_runs.attached(handle, opened), running.decoder_of(opened.checkpoint)
    trace = attached.trace
    if model is not None and trace.ids is not None:  # experiments are compared with this run
        model.products = product_choice.keep_for(model, trace.ids[0, : trace.prefill].tolist(), trace.products)
    return attached


@within_memory
def step(handle: RunHandle, count: int, sampling: Sampling, past_end: bool = False) -> Steps[RunHandle]:
    """Decode ``count`` tokens after the rows in view; decoding from an earlier row branches the run.

    Parameters
    ----------
    past_end
        Whether to go on after a token that ends the text; the run ends with it otherwise, shorter than asked.

    Raises
    ------
    TraceError
        When the run cannot be gone on with.
    """
    require(handle.model_handle, handle.can, {"decode"})
    checkpoint: running.Opened = handle.model_handle.checkpoint
    trace = in_view(handle)
    seconds = 0.0
    check_length(checkpoint.config, trace.length + count, trace.interventions)
    for done in range(count):
        logits, _ = running.row_logits(checkpoint, trace, trace.length - 1)
        token = draw(logits, sampling, trace.length - 1)
        yield Progress(done, count, "Decoding")
        trace, took = yield from _timed(_renamed(running.append_steps(checkpoint, trace, token), done, count))
        seconds += took
        if token in checkpoint.ends and not past_end:
            break
    return replace(handle, run=_lengthened(handle.run, checkpoint, trace, seconds, handle.run.length), trace=trace)


@within_memory
def branch(handle: RunHandle, row: int, token: int) -> Steps[RunHandle]:
    """Put another token in the place of a decoded row, and forget what came after it."""
    require(handle.model_handle, handle.can, {"decode"})
    checkpoint: running.Opened = handle.model_handle.checkpoint
    trace, seconds = yield from _timed(running.append_steps(checkpoint, handle.trace.at(row), token))
    return replace(handle, run=_lengthened(handle.run, checkpoint, trace, seconds, row), trace=trace)


def require(model_handle: ModelHandle, can: frozenset[Capability], needs: AbstractSet[Capability]) -> None:
    """Refuse what cannot be done with a model or a run.

    Raises
    ------
    TraceError
        With what is missing, and what to do about it.
    """
    lacking = frozenset(needs - can)
    if lacking:
        raise TraceError(why_missing(lacking, model_handle))


def _lengthened(run: Run, checkpoint: running.Opened, trace: Trace, seconds: float, since: int) -> Run:
    """The description of a run whose trace has been decoded further, from row ``since`` on."""
    return replace(
        run,
        specs=trace.specs,
        tokens=texts_on(checkpoint, run.tokens[:since], ids_of_trace(trace, since)),
        length=trace.length,
        newest=trace.length,
        seconds=seconds,
        trace_bytes=trace.kept_bytes,
    )


def _cell(trace: Trace, head: tuple[int, int] | None) -> tuple[int, int, int, int]:
    """The (layer, head, query, key) to look at first: the last row, and what it attends to most."""
    layer, number = _strongest(trace) if head is None else head
    if layer >= trace.config.layers or number >= trace.config.heads:
        layer, number = 0, 0
    query = trace.length - 1
    return layer, number, query, int(read_row(trace[layer], number, query).weights.argmax())


def _strongest(trace: Trace) -> tuple[int, int]:
    """The head with the clearest induction stripe, or else the clearest previous-token one."""
    scores, undefined = head_scores(trace, ("induction", "previous"))
    for name in scores:
        if name not in undefined:
            layer, head = divmod(int(scores[name].argmax()), trace.config.heads)
            return layer, head
    return 0, 0


def ids_of_trace(trace: Trace, since: int = 0) -> list[int]:
    """The token ids of a run, from row ``since`` on."""
    return [] if trace.ids is None else [int(token) for token in trace.ids[0, since:].tolist()]


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
def answer(handle: RunHandle, question: Question) -> Steps[Any]:
    """Answer a panel's question about the rows in view.

    Raises
    ------
    TraceError
        When the run lacks what the question needs.
    """
    yield Progress(0, 1, "Reading the run")
    if why := unanswerable(handle, question):
        raise TraceError(why)
    return (yield from ANSWERS[type(question)](handle, in_view(handle), question))


def measure_products(model_handle: ModelHandle) -> Steps[str]:
    """Find what multiplies quickest where a model is, for runs to come; returns what it is, in words."""
    model, asked = running.decoder_of(model_handle.checkpoint), dict(model_handle.options).get(PRODUCTS)
    if model is None:
        return str(BY_TORCH)
    yield from product_choice.find_steps(model, asked)
    return str(product_choice.found(model, asked) or BY_TORCH)


def tidy() -> Steps[None]:
    """Give the memory back that a run which is gone has left."""
    yield from ()
    give_back()


# ----------------------------------------------------------------------------------------------------------------------
# Taking a run home


def save(handle: RunHandle, path: str | Path, pattern: bool = False, drawn: Sequence[Sampling] = ()) -> None:
    """Do what :func:`save_steps` does without pausing."""
    finished(save_steps(handle, path, pattern, drawn=drawn))


def save_steps(
    handle: RunHandle, path: str | Path, pattern: bool = False, *, drawn: Sequence[Sampling] = ()
) -> Steps[Path]:
    """Write the rows in view to a trace file.

    Parameters
    ----------
    pattern
        Whether queries before RoPE, scores and weights are added.
    drawn
        How each decoded token was drawn.
    """
    if pattern:
        require(handle.model_handle, handle.can, {"replay"})
    origin = yield from saved_runs.origin_steps(handle.model_handle)
    yield Progress(0, 1, "Writing the trace")
    about = saved_runs.told_of(handle, origin, drawn)
    save_trace(in_view(handle), path, about=about, model=handle.model_handle.checkpoint.model, pattern=pattern)
    return Path(path)


def numbers(
    handle: RunHandle, layer: int, head: int, queries: tuple[int, int], keys: tuple[int, int]
) -> Steps[HeadNumbers]:
    """Scores and weights of a rectangle of the rows in view, in full precision."""
    return numbers_steps(in_view(handle)[layer], head, queries, keys)


def scores_of(
    handle: RunHandle, names: Collection[str] | None = None
) -> tuple[dict[str, Doubles], dict[str, str], dict[str, str]]:
    """Scores of every head [L, H] by name (all of them, or some), their formulas, and why some are not defined here."""
    trace = in_view(handle)
    scores, undefined = head_scores(trace, names)
    formulas = formulas_of(trace)
    return scores, {name: formulas[name] for name in scores}, undefined


def length_of(model_handle: ModelHandle, prompt: Prompt) -> Steps[int]:
    """How many tokens a prompt is."""
    require(model_handle, model_handle.can, {"run"})
    ids, _ = yield from read_prompt(model_handle.checkpoint, prompt)
    return len(ids)


def random_repeat(
    model_handle: ModelHandle,
    count: int,
    seed: int,
    interventions: Sequence[Intervention] = (),
    *,
    bos: bool = False,
) -> list[int]:
    """``count`` random token ids, twice, with nothing before them, or with the token that begins a text.

    Raises
    ------
    PromptError
        When there is no such token.
    """
    check_length(model_handle.card.config, 2 * count + bos, interventions)  # first: this many may not fit into memory
    ids = repeated_ids(count, model_handle.card.config.vocabulary, seed)
    if not bos:
        return ids
    tokenizer = model_handle.checkpoint.tokenizer
    if tokenizer is None or tokenizer.bos_id is None:
        raise PromptError(f"{model_handle.card.name} names no token that begins a text; leave --bos out.")
    return [tokenizer.bos_id, *ids]


def text_of(model_handle: ModelHandle, ids: Sequence[int]) -> str:
    """Token ids as running text, or as numbers where the model has no tokenizer."""
    checkpoint: running.Opened = model_handle.checkpoint
    if checkpoint.tokenizer is None:
        return " ".join(map(str, ids))
    known = [token for token in ids if token < checkpoint.tokenizer.vocabulary]  # an embedding may be padded
    return checkpoint.tokenizer.decode(known)


def train(text: Path, out: Path, **options: int) -> Steps[tuple[Bar, ...]]:
    """Train the bundled model, or go on with it; ``options`` are fields of the recipe. Returns what it is worth."""
    from ropewalk.model.training.training import TrainOptions
    from ropewalk.model.training.training import train as training

    trained = yield from training(text, out, TrainOptions(**options))
    return bars(trained.grades)


def grade(folder: Path, text: Path) -> Steps[tuple[Bar, ...]]:
    """Measure a checkpoint as the bundled model is measured."""
    from ropewalk.model.training.training import grade_folder

    return bars((yield from grade_folder(folder, text)))


def fingerprint(model_handle: ModelHandle) -> Steps[str]:
    """A hash over the files of a model; empty where it has none."""
    return (yield from saved_runs.origin_steps(model_handle)).fingerprint


open_survey, open_series = surveys.open_survey, surveys.open_series
run_survey, survey_statistics = surveys.run_survey, surveys.survey_statistics
