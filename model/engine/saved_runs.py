"""Runs that lie in trace files: opened without a checkpoint, and given theirs.

It is a part of the engine, which asks it. A run that is opened so can be looked at in everything that needs no weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ropewalk.model.checkpoints import available_devices, device_of
from ropewalk.model.checkpoints.formats.hub_cache import place_of
from ropewalk.model.checkpoints.opening import BUNDLED, free_bytes
from ropewalk.model.decoder.cache import GROWTH, Rows
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.costs import format_bytes, kv_bytes, parameters
from ropewalk.model.decoder.rope_scaling import as_run
from ropewalk.model.engine.interface import CheckpointOutline, Choice, ModelHandle, RunHandle, without_weights
from ropewalk.model.engine.questions import Capability
from ropewalk.model.errors import CheckpointError, MemoryBudgetError, OtherCheckpointError, TraceError
from ropewalk.model.fingerprint import fingerprint_steps
from ropewalk.model.limits import limited
from ropewalk.model.options import ADAPTER, PROMPT, VIA, Option, Options
from ropewalk.model.progress import Steps
from ropewalk.model.readings.records import ModelCard, Run, Sampling, TokenText, TokenTexts
from ropewalk.model.readings.tiles import TileCache
from ropewalk.model.runs.alone import alone
from ropewalk.model.runs.trace import Trace
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.header import About, Origin, check_fits
from ropewalk.model.trace_files.trace_file import TraceFile, candidates_of, load_trace

QUICKLY_READ = 64 << 20
"""Bytes of a trace of which every head is looked at to choose the one that is shown first."""

MOST_LISTED = 100
"""Prompts of a trace that are listed to choose from; of more the number is typed."""


class KnownTokens:
    """In the place of a tokenizer: how the tokens of a run, and those that may follow, were shown when it was saved."""

    def __init__(self, about: About) -> None:
        self._known = {token.id: token for token in about.candidates}
        self._known |= {token.id: token for token in about.tokens if token.kind != "bytes"}

    def describe(self, ids: Sequence[int]) -> tuple[TokenText, ...]:
        """How to show token ids; those of which nothing is known by their numbers."""
        return tuple(self._known.get(token) or TokenText(token, f"#{token}") for token in ids)


@dataclass(frozen=True, eq=False)
class Unattached:
    """In the place of a checkpoint: a trace file, without weights and without a tokenizer."""

    file: TraceFile
    config: ModelConfig
    tokenizer: KnownTokens
    notes: tuple[str, ...]
    model: None = None
    path: str = ""
    prompts: int = 1


def open_file(path: Path, options: Options | None = None) -> ModelHandle:
    """A trace file as a model without weights, whose run :func:`run_of` gives: of several prompts, one.

    Raises
    ------
    TraceError
        When it cannot be read, or has no such prompt.
    """
    with limited("trace", path.name):
        file = load_trace(path)
    prompts, shown = file.trace.batch, (options or {}).get(PROMPT, 1)
    if prompts > 1:
        file = _one_prompt(file, shown)
    which = f" (prompt {shown} of {prompts})" if prompts > 1 else ""
    trace, origin = file.trace, file.about.origin or Origin()
    can: set[Capability] = {"attention"}
    if trace.config.position != "unknown":
        can.add("rotation")
    if trace.ids is not None:
        can.add("tokens")
    if trace.logits is not None:
        can.add("logits")
    card = ModelCard(
        name=f"{f'{origin.name}, a trace' if origin.name else path.name}{which}",
        path=str(path.absolute()),
        config=trace.config,
        parameters=parameters(trace.config).total if "rotation" in can else 0,
        weight_bytes=0,
        device="cpu",
        dtype=str(trace.dtype).removeprefix("torch."),
        family=origin.family or "unknown",
        has_tokenizer=False,
        bos=origin.bos,
        notes=_made_with(origin),
    )
    what = f"{path.name} is a trace of {trace.length:,} tokens: a run without the weights of its model."
    return ModelHandle(
        card,
        available_devices(),
        Unattached(file, trace.config, KnownTokens(file.about), (what, *file.notes), prompts=prompts),
        options=((PROMPT, shown),) if prompts > 1 else (),
        notice=" ".join(file.notes),
        can=frozenset(can),
        advice=_advice(trace, origin),
        origin=origin,
    )


def _advice(trace: Trace, origin: Origin) -> str:
    """What to do about what the run cannot."""
    if trace.ids is None:
        return "it was given vectors, not tokens, so no checkpoint can go on with it"
    return "attach its checkpoint" + (f" ({called(origin)})" if origin.name else "")


def _one_prompt(file: TraceFile, shown: Option) -> TraceFile:
    """The run of one prompt of several, from 1."""
    prompts = file.trace.batch
    if not isinstance(shown, int) or not 1 <= shown <= prompts:
        raise TraceError(f"The trace holds {prompts} prompts, counted from 1, so there is no prompt {shown!r:.20}.")
    trace, about = alone(file.trace, shown - 1), file.about
    if shown == 1:
        about = replace(about, tokens=about.tokens[: trace.length])
    else:
        ids = [] if trace.ids is None else trace.ids[0].tolist()
        tokens = KnownTokens(about).describe(ids) if ids else about.tokens
        about = replace(about, tokens=tokens, prompt=None, rendered="")
    return replace(file, trace=trace, about=about)


def _choices(prompts: int) -> tuple[Choice, ...]:
    """What a file of several prompts leaves open."""
    listed = tuple(range(1, prompts + 1)) if prompts <= MOST_LISTED else ()
    return (
        (Choice(PROMPT, f"The trace holds {prompts} prompts; the one to be shown:", listed, 1),) if prompts > 1 else ()
    )


def _made_with(origin: Origin) -> tuple[str, ...]:
    """What a run was made with, as far as its file says so."""
    if not origin.name:
        return ()
    said = dict(origin.options)
    by = f", run by {said[VIA]}" if VIA in said else ""
    return (f"It was made with {called(origin)}{f' at {origin.path}' if origin.path else ''}{by}.",)


def called(origin: Origin) -> str:
    """The checkpoint of a run by its name, for somebody who did not choose its folder."""
    return origin.name.replace("bundled", "the built-in model", 1) if origin.name.startswith("bundled") else origin.name


def outline_file(path: Path) -> CheckpointOutline:
    """What a trace file is, as the Open dialog shows it."""
    model_handle = open_file(path)
    card = model_handle.card
    return CheckpointOutline(
        name=path.name,
        path=card.path,
        family=card.family,
        config=card.config,
        parameters=card.parameters,
        bytes_in={card.dtype: 0},
        kv_bytes_in={card.dtype: kv_bytes(card.config, 1000, card.dtype)},
        holds_weights=False,
        choices=_choices(model_handle.checkpoint.prompts),
        notes=(*model_handle.checkpoint.notes, "Its checkpoint can be attached to it."),
        holds_run=True,
    )


def run_of(model_handle: ModelHandle, run_id: int, cell: tuple[int, int, int, int]) -> RunHandle:
    """The run of a trace file that is open."""
    file: TraceFile = model_handle.checkpoint.file
    trace, about = replace(file.trace, run_id=run_id), file.about
    prompt = about.prompt
    if prompt is None:
        prompt = Prompt() if trace.ids is None else Prompt.of_ids(trace.ids[0, : trace.prefill].tolist())
    run = Run(
        run_id=run_id,
        model=model_handle.card,
        specs=trace.specs,
        prompt=prompt.text,
        tokens=TokenTexts.of(about.tokens),
        length=trace.length,
        prefill=trace.prefill,
        newest=trace.length,
        first_logit_row=trace.first_logit_row,
        trace_bytes=trace.kept_bytes,
        rendered=about.rendered,
        extended_limit=as_run(trace.config, trace.interventions).max_position,
    )
    return RunHandle(run, model_handle, trace, cell, prompt=prompt, tiles=TileCache(), can=model_handle.can)


def drawn_with(model_handle: ModelHandle) -> tuple[Sampling, ...]:
    """How each decoded token of a trace file was drawn; greedily, where the file does not say."""
    file: TraceFile = model_handle.checkpoint.file
    return file.about.drawn or (Sampling(),) * (file.trace.length - file.trace.prefill)


# ----------------------------------------------------------------------------------------------------------------------
# Saving


def origin_steps(model_handle: ModelHandle) -> Steps[Origin]:
    """What a file says of the checkpoint that a run was made with."""
    if model_handle.origin is not None:
        return model_handle.origin
    card = model_handle.card
    place = Path(card.path).absolute() if card.path else None
    adapter = str(dict(model_handle.options).get(ADAPTER, ""))
    there = place is not None and _is_there(place)
    fingerprint = (yield from fingerprint_steps(place, adapter)) if place is not None and there else ""
    return Origin(card.name, str(place or ""), card.family, fingerprint, model_handle.options, card.bos)


def told_of(handle: RunHandle, origin: Origin, drawn: Sequence[Sampling]) -> About:
    """What a file says of the rows in view."""
    run, tokenizer = handle.run, handle.model_handle.checkpoint.tokenizer
    return About(
        tokens=run.tokens[: run.length],
        prompt=handle.prompt,
        rendered=run.rendered,
        drawn=tuple(drawn[: run.steps]) if len(drawn) >= run.steps else (),
        origin=origin,
        candidates=() if tokenizer is None else candidates_of(handle.trace, run.tokens, tokenizer.describe),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Attaching


def check_goes_on(handle: RunHandle) -> None:
    """Refuse a run from a file that no checkpoint could go on with.

    Raises
    ------
    TraceError
        When it is no run from a file, was given vectors, or its interventions are not known.
    """
    if handle.model_handle.origin is None:
        raise TraceError("This run has its checkpoint; only a run from a trace file can be given one.")
    file: TraceFile = handle.model_handle.checkpoint.file
    if file.trace.ids is None:
        raise TraceError("This run was given vectors, not tokens, so no checkpoint can go on with it.")
    if not file.goes_on:
        raise TraceError(f"{file.notes[0]} Capture it again to have a file that says everything.")


def check_is_origin(origin: Origin, path: str | None, options: Options) -> Steps[None]:
    """Refuse a checkpoint, with the adapter that is merged into it, that is not known to have made a run.

    Raises
    ------
    OtherCheckpointError
        When its fingerprint is another, or the file holds none.
    CheckpointError
        When there is nothing.
    """
    place = BUNDLED if path is None else Path(path)
    if not _is_there(place):
        raise CheckpointError(f"There is nothing at {place}; check the path.")
    name = "the built-in model" if path is None else place.name
    found = yield from fingerprint_steps(place_of(place).path, str(options.get(ADAPTER, "")))
    if not origin.fingerprint:
        raise OtherCheckpointError(
            f"The trace does not say which checkpoint it was made with, so nothing tells whether it was {name}; "
            "confirm it, and the run goes on with these weights."
        )
    if found != origin.fingerprint:
        raise OtherCheckpointError(
            f"The run was made with {called(origin)}, but the files of {name} are not those; confirm it, and the run "
            "goes on with other weights than it was made with."
        )


def _is_there(place: Path) -> bool:
    """Whether a path that may come from a file leads to something; one that is too long does not."""
    try:
        return place.exists()
    except OSError:
        return False


def attached(handle: RunHandle, opened: ModelHandle) -> RunHandle:
    """A run from a file on the checkpoint that was opened for it.

    Raises
    ------
    TraceError, CheckpointError, MemoryBudgetError
        When the checkpoint has other shapes than the run, or no weights, or the run does not fit into memory.
    """
    if opened.shapes_only:
        raise CheckpointError(without_weights(opened.card))
    trace: Trace = handle.trace
    check_fits(opened.card.name, opened.card.config, trace.config)
    device, needed = device_of(opened.card.device), trace.kept_bytes * (GROWTH + 1) // GROWTH
    if needed > (free := free_bytes(device)):
        raise MemoryBudgetError(
            f"Going on with {trace.length:,} tokens takes {format_bytes(needed)} of memory, but {format_bytes(free)} "
            "are free; the trace can be looked at without its checkpoint."
        )
    trace = replace(_moved(trace, device), config=opened.card.config)
    return replace(
        handle,
        run=replace(handle.run, model=opened.card),
        model_handle=opened,
        trace=trace,
        tiles=TileCache(),
        can=opened.can,
    )


def options_of(origin: Origin, options: Options | None) -> dict[str, Option]:
    """Answers to what a checkpoint leaves open: those that the run was made with, unless others are given."""
    return dict(origin.options) | dict(options or {})


def _moved(trace: Trace, device: torch.device) -> Trace:
    """The same run on another device; on its own, the very same."""
    if trace.positions.device == device:
        return trace
    positions = trace.positions.to(device)
    padding = None if trace.padding is None else trace.padding.to(device)

    def moved(rows: Rows) -> Rows:
        return Rows.of(rows.tensor.to(device))

    return replace(
        trace,
        ids=None if trace.ids is None else trace.ids.to(device),
        positions=positions,
        padding=padding,
        logits=None if trace.logits is None else moved(trace.logits),
        layers=tuple(
            replace(
                layer,
                positions=positions,
                padding=padding,
                queries=moved(layer.queries),
                keys=moved(layer.keys),
                values=moved(layer.values),
                lse=moved(layer.lse),
            )
            for layer in trace
        ),
    )
