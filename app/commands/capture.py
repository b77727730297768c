"""`ropewalk capture`: runs as trace files."""

from __future__ import annotations

import argparse
import re
import string
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.app.commands.options import Commands, command, count, natural, token_ids
from ropewalk.app.commands.output import check_folder, finished, model_handle_of, runnable
from ropewalk.app.commands.prompting import end_option, prompt_of, prompt_option, prompt_options, say_end, stretched
from ropewalk.app.commands.prompts_file import PromptLine, read_prompts
from ropewalk.app.commands.traces import check_asked, saved_run, trace_options
from ropewalk.model.decoder.costs import format_bytes
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.decoder.rope_scaling import scaling_for
from ropewalk.model.engine.interface import ModelHandle, RunHandle
from ropewalk.model.errors import PromptError, RopewalkError
from ropewalk.model.readings.records import Run, Sampling
from ropewalk.model.tokens.prompt import Prompt

if TYPE_CHECKING:
    from ropewalk.model.engine.prompts import ReadPrompt

FIELDS = ("n", "name")
"""What the name of a file may hold of its prompt."""
TOO_WIDE = re.compile(r"\d{4}|[{]")
"""What is no width of a name: a thousand characters, or a field's own."""


@dataclass(frozen=True)
class Wanted:
    """A prompt of a file, read, and where its run goes."""

    line: int
    read: ReadPrompt
    out: Path


def declare(commands: Commands) -> None:
    """Add the command."""
    capture = command(commands, "capture", "run prompts and write what they were to .safetensors files", write_capture)
    prompt = capture.add_mutually_exclusive_group()
    prompt_option(prompt, "what to run")
    prompt.add_argument("--ids", type=token_ids, metavar="1,2,3", help="token ids to run")
    prompt.add_argument("--prompts", type=Path, metavar="FILE", help="a prompt on each line, as text or a JSON object")
    prompt_options(capture)
    trace_options(capture)
    capture.add_argument("--steps", type=natural, default=0, metavar="N", help="tokens to decode after it, greedily")
    end_option(capture)
    capture.add_argument("--pattern", action="store_true", help="add q and k before RoPE, scores and weights")
    capture.add_argument("--logits", choices=("last", "all"), help="rows whose logits are kept (all up to 1,024)")
    capture.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="where to write; of --prompts, with {n} or {name} in it"
    )
    capture.add_argument("--batch", type=count, default=8, metavar="N", help="of --prompts: run so many at once (8)")
    capture.add_argument(
        "--existing",
        choices=("refuse", "skip", "replace"),
        default="refuse",
        help="of --prompts: what to do about files that are there already (refuse)",
    )
    capture.set_defaults(misused=capture.error)


def write_capture(parsed: argparse.Namespace) -> None:
    """Run prompts and write the trace files."""
    if parsed.prompts is None:
        check_folder(parsed.out)
    model_handle = model_handle_of(parsed)
    saved = saved_run(parsed, model_handle)
    if saved is None:
        check_asked(parsed, "prompt", "ids", "prompts")
        runnable(model_handle)
    if parsed.prompts is not None:
        _capture_all(parsed, model_handle)
        return
    handle = _captured(parsed, model_handle) if saved is None else saved.handle
    if saved is not None and parsed.pattern:
        _check_pattern(handle.model_handle, handle.run.length + parsed.steps)
    _decode_and_save(parsed, handle, () if saved is None else saved.drawn)


def _captured(parsed: argparse.Namespace, model_handle: ModelHandle) -> RunHandle:
    from ropewalk.model.engine import engine

    prompt = prompt_of(parsed, model_handle, parsed.prompt or "")
    if parsed.ids is not None:
        prompt = Prompt.of_ids(parsed.ids)
    changed = stretched(parsed, model_handle, prompt, parsed.steps)
    if parsed.pattern:
        _check_pattern(model_handle, finished(engine.length_of(model_handle, prompt)) + parsed.steps)
    return finished(engine.run(model_handle, prompt, 1, (0, 0), parsed.logits, changed, alone=True))


def _decode_and_save(parsed: argparse.Namespace, handle: RunHandle, drawn: Sequence[Sampling]) -> None:
    from ropewalk.model.engine import engine

    if parsed.steps:
        handle = finished(engine.step(handle, parsed.steps, Sampling(), parsed.ignore_eos))
    greedily = [Sampling()] * (handle.run.steps - len(drawn))
    finished(engine.save_steps(handle, parsed.out, parsed.pattern, drawn=[*drawn, *greedily]))
    say_end(handle.run, parsed.steps)
    _say(parsed.out, handle.run)


def _check_pattern(model_handle: ModelHandle, tokens: int) -> None:
    from ropewalk.model.trace_files.trace_file import check_pattern

    check_pattern(model_handle.card.config, tokens)


def _say(out: Path, run: Run) -> None:
    print(f"{out}: {run.length} rows ({run.prefill} of the prompt), {format_bytes(out.stat().st_size)}")


# ----------------------------------------------------------------------------------------------------------------------
# Many prompts


def _capture_all(parsed: argparse.Namespace, model_handle: ModelHandle) -> None:
    """Run a file of prompts in batches of equal length; files that are whole stay, whatever happens after them."""
    from ropewalk.model.engine import engine

    wanted = [one for one in _wanted(parsed, model_handle) if parsed.existing != "skip" or not one.out.exists()]
    done: dict[Path, Run] = {}
    told = 0
    try:
        for some in _batches(parsed, model_handle, wanted):
            changed = _stretch(parsed, model_handle, len(some[0].read.ids))
            reads = [one.read for one in some]
            batch = engine.run_batch(
                model_handle,
                reads,
                steps=parsed.steps,
                logits=parsed.logits,
                interventions=changed,
                past_end=parsed.ignore_eos,
            )
            for one, handle in zip(some, finished(batch), strict=True):
                drawn = [Sampling()] * handle.run.steps
                finished(engine.save_steps(handle, one.out, parsed.pattern, drawn=drawn))
                done[one.out] = handle.run
            while told < len(wanted) and wanted[told].out in done:  # in the order of the prompts, not of the batches
                _tell(wanted[told].out, done, parsed.steps)
                told += 1
    except BaseException:
        for one in wanted[told:]:
            if one.out in done:
                _tell(one.out, done, parsed.steps)
        print(f"{len(done)} of {len(wanted)} files were written, each of them whole.", file=sys.stderr)
        raise


def _tell(out: Path, done: Mapping[Path, Run], steps: int) -> None:
    say_end(done[out], steps)
    _say(out, done[out])


def _stretch(parsed: argparse.Namespace, model_handle: ModelHandle, length: int) -> tuple[Intervention, ...]:
    """The RoPE scaling that prompts of one length need."""
    if parsed.rope_scaling is None:
        return ()
    return scaling_for(model_handle.card.config, length + parsed.steps, *parsed.rope_scaling)


def _wanted(parsed: argparse.Namespace, model_handle: ModelHandle) -> list[Wanted]:
    """Everything that is to be run, all of it checked before the first prompt runs."""
    from ropewalk.model.engine import engine
    from ropewalk.model.engine.prompts import check_length

    lines = read_prompts(parsed.prompts)
    outs = _outs(parsed.out, lines)
    there = [out for out in outs if out.exists()]
    if there and parsed.existing == "refuse":
        raise RopewalkError(
            f"{there[0]} is there already{f' and {len(there) - 1} more' if there[1:] else ''}; write somewhere else, "
            "or say --existing replace or --existing skip."
        )
    found = []
    for (number, line), out in zip(lines, outs, strict=True):
        try:
            if parsed.chat and line.ids is None and not line.chat:
                prompt = prompt_of(parsed, model_handle, line.text)
            else:
                prompt = line.prompt(model_handle)
            read = finished(engine.read(model_handle, prompt))
            changed = _stretch(parsed, model_handle, len(read.ids))
            check_length(model_handle.card.config, len(read.ids) + parsed.steps, changed)
            if parsed.pattern:
                _check_pattern(model_handle, len(read.ids) + parsed.steps)
        except RopewalkError as error:
            raise PromptError(f"Line {number} of {parsed.prompts} cannot be run: {error.sentence}") from error
        found.append(Wanted(number, read, out))
    return found


def _outs(pattern: Path, lines: Sequence[tuple[int, PromptLine]]) -> list[Path]:
    """A file for each prompt.

    Raises
    ------
    RopewalkError
        When the pattern is none, two files would be one, or one cannot be written.
    """
    try:
        named = [(name, how or "") for _, name, how, _ in string.Formatter().parse(str(pattern)) if name is not None]
        fields = {name for name, _ in named}
        if not fields or not fields <= set(FIELDS) or any(map(TOO_WIDE.search, (how for _, how in named))):
            raise ValueError(pattern)
        outs = [Path(str(pattern).format(n=place, name=line.name)) for place, (_, line) in enumerate(lines)]
    except (ValueError, LookupError, AttributeError) as error:
        raise RopewalkError(
            f"{pattern} does not name a file for each prompt; write {{n}} for its number, such as runs/{{n:04}}"
            ".safetensors, or {name} for the name that its line gives it."
        ) from error
    seen: dict[Path, int] = {}
    for out, (number, line) in zip(outs, lines, strict=True):
        if "name" in fields and (not line.name or Path(line.name).name != line.name or line.name in (".", "..")):
            has = f"its name is {line.name!r:.80}" if line.name else "it has none"
            raise RopewalkError(f"Line {number} needs a name that a file can have, but {has}.")
        if out in seen:
            raise RopewalkError(f"Lines {seen[out]} and {number} would both be written to {out}; add {{n}} to it.")
        seen[out] = number
        check_folder(out)
    return outs


def _batches(parsed: argparse.Namespace, model_handle: ModelHandle, wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """Prompts of equal length together, as many as fit; the lengths in the order in which they first come."""
    from ropewalk.model.engine import engine

    by_length: dict[int, list[Wanted]] = {}
    for one in wanted:
        by_length.setdefault(len(one.read.ids), []).append(one)
    for length, some in by_length.items():
        size = engine.fitting_batch(model_handle, length + parsed.steps, parsed.batch, parsed.logits)
        for start in range(0, len(some), size):
            yield some[start : start + size]
