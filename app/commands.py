"""The command line: what Ropewalk does without a window, for scripts and for people who like numbers as text.

It parses, calls the engine, and prints; the engine computes. Errors are one sentence on stderr and exit status 1,
wrong usage is 2, Ctrl-C is 130. It never imports views: what draws a picture of the window is handed in.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from app.address import head_name, read_address
from app.door import Held, Opened, without_weights
from app.settings import sampling_refusal
from model.challenges.names import CHALLENGES
from model.costs import format_bytes, format_count, format_flops, format_shape, kv_bytes, parameters
from model.errors import (
    Cancelled,
    ChallengeError,
    CheckpointError,
    DeviceError,
    PromptError,
    RopewalkError,
    unforeseen,
)
from model.ledger import LedgerEntry, ShapeLedger, build_ledger
from model.progress import Progress, Steps
from model.readings import Sampling
from model.whole_file import obstacle

if TYPE_CHECKING:
    from app.lesson_plan import Lesson
    from model.grading import Bar

Result = TypeVar("Result")

DTYPES = ("float32", "bfloat16", "float16")
PANELS = (
    "tokens",
    "ledger",
    "heads",
    "scores",
    "rope",
    "cache",
    "next_token",
    "why",
    "experiments",
    "lesson",
    "compare",
    "needs",
    "routing",
    "timeline",
)
LONGEST_SIDE = 16_384
LARGEST = 2**63 - 1
"""What torch can count to."""
SIZES = {
    "steps": "optimiser steps",
    "seed": "seed of weights and rows",
    "layers": "L",
    "width": "D",
    "heads": "H",
    "kv_heads": "Hkv",
    "vocabulary": "V",
    "context": "positions",
}
"""What of the recipe may be chosen; the bundled model's values are the defaults."""


@dataclass(frozen=True)
class Shot:
    """A picture that was asked for. ``select`` holds fields of the selection; ``panel`` is "" for the whole window."""

    out: Path
    path: str | None = None
    device: str = "cpu"
    dtype: str = "float32"
    prompt: str | None = None
    width: int = 1920
    height: int = 1080
    theme: str = "dark"
    projector: bool = False
    select: tuple[tuple[str, int], ...] = ()
    steps: int = 0
    panel: str = ""


TakeShot = Callable[[Shot], None]


def run_command(arguments: Sequence[str], take_shot: TakeShot) -> int:
    """Run one command.

    Parameters
    ----------
    arguments
        As typed, without the program's name.
    take_shot
        Draws the window into a file.

    Returns
    -------
    int
        The exit status.
    """
    _prepare_streams()
    try:
        parsed = parser(take_shot).parse_args(arguments)
    except SystemExit as stop:  # argparse has said why
        return stop.code if isinstance(stop.code, int) else 2
    try:
        parsed.act(parsed)
        sys.stdout.flush()
    except (KeyboardInterrupt, Cancelled):
        print("Cancelled.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # whoever read the output has had enough; keep Python from complaining about it at exit
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except RopewalkError as error:
        print(error.sentence, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.strerror or error}: {error.filename or 'the file'} could not be used.", file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001 - whoever typed a command is owed a sentence, whatever happened
        print(unforeseen(error), file=sys.stderr)
        return 1
    return 0


def _prepare_streams() -> None:
    """Let everything be printed anywhere: a closed stream swallows it, one that lacks a character shows its escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for as long as we run
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


# ----------------------------------------------------------------------------------------------------------------------
# What may be typed


def parser(take_shot: TakeShot) -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="ropewalk",
        description="A microscope for attention. Without a command the window opens.",
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    info = _command(commands, "info", "what a checkpoint is: shapes, parameters, bytes", show_info)
    _json_option(info)

    ledger = _command(commands, "ledger", "every operation of a block with its shape and price", show_ledger)
    ledger.add_argument("--tokens", type=_count, default=12, metavar="T", help="tokens of the call (12)")
    ledger.add_argument("--past", type=_natural, default=0, metavar="P", help="tokens already in the cache (0)")
    ledger.add_argument("--batch", type=_count, default=1, metavar="B", help="sequences (1)")
    ledger.add_argument("--layer", type=_natural, default=0, metavar="L", help="which block, from 0 (0)")
    _json_option(ledger)

    capture = _command(commands, "capture", "run a prompt and write what it was to a .safetensors file", write_capture)
    prompt = capture.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", metavar="TEXT", help="what to run")
    prompt.add_argument("--ids", type=_ids, metavar="1,2,3", help="token ids to run")
    capture.add_argument("--steps", type=_natural, default=0, metavar="N", help="tokens to decode after it, greedily")
    capture.add_argument("--pattern", action="store_true", help="add q and k before RoPE, scores and weights")
    capture.add_argument("--logits", choices=("last", "all"), help="rows whose logits are kept (all up to 1,024)")
    capture.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write")

    generate = _command(commands, "generate", "continue a prompt", generate_text)
    generate.add_argument("--prompt", required=True, metavar="TEXT", help="what to continue")
    generate.add_argument("--steps", type=_count, required=True, metavar="N", help="tokens to decode")
    generate.add_argument("--temperature", type=float, default=0.0, metavar="X", help="0 is greedy (0)")
    generate.add_argument("--top-k", type=int, default=0, metavar="K", help="keep the K most probable; 0 keeps all (0)")
    generate.add_argument("--top-p", type=float, default=1.0, metavar="P", help="keep the top that reaches P (1)")
    generate.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the draws (0)")
    _json_option(generate)

    heads = _command(commands, "heads", "score every head by its pattern", score_heads)
    text = heads.add_mutually_exclusive_group(required=True)
    text.add_argument("--prompt", metavar="TEXT", help="what to run")
    text.add_argument("--repeat", type=_count, metavar="N", help="N random tokens, twice")
    heads.add_argument("--seed", type=_natural, default=0, metavar="S", help="seed of the random tokens (0)")
    _json_option(heads)

    snapshot = commands.add_parser("snapshot", help="draw the window into a PNG", description="Draw the window.")
    snapshot.add_argument("out", type=Path, metavar="OUT.png", help="where to write")
    _model_options(snapshot)
    snapshot.add_argument("--prompt", metavar="TEXT", help="what to run")
    snapshot.add_argument("--size", type=_size, default=(1920, 1080), metavar="WxH", help="pixels (1920x1080)")
    snapshot.add_argument("--theme", choices=("dark", "light"), default="dark", help="colours (dark)")
    snapshot.add_argument("--projector", action="store_true", help="large type, few panels")
    snapshot.add_argument("--select", type=_address, default=(), metavar="'L1H3 q=4 k=2'", help="head and cell")
    snapshot.add_argument("--steps", type=_natural, default=0, metavar="N", help="tokens to decode first")
    snapshot.add_argument("--panel", choices=PANELS, default="", metavar="NAME", help=f"one of {', '.join(PANELS)}")
    snapshot.set_defaults(act=lambda parsed: _shoot(parsed, take_shot))

    _train_command(commands)
    _lesson_commands(commands)
    return top


def _train_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    train = commands.add_parser(
        "train",
        help="train the bundled model from a text",
        description="Train the bundled model from a text. A run that was stopped goes on where it was.",
    )
    train.add_argument("--text", type=Path, required=True, metavar="FILE", help="what to learn from, UTF-8")
    place = train.add_mutually_exclusive_group(required=True)
    place.add_argument("--out", type=Path, metavar="DIR", help="the checkpoint folder to make")
    place.add_argument("--grade", type=Path, metavar="DIR", help="only measure the checkpoint in this folder")
    for name, meaning in SIZES.items():
        train.add_argument(f"--{name.replace('_', '-')}", type=_natural, metavar="N", help=meaning)
    _json_option(train)
    _device_options(train)
    train.set_defaults(act=train_model)


def _lesson_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Lessons and build challenges; both belong to whoever learns."""
    listed = "\n".join(f"  {name:18} {what}" for name, what in CHALLENGES.items())
    challenge = commands.add_parser(
        "challenge",
        help="run a function of yours against the engine",
        description="Run a function of yours against the engine, or write a file to begin with.",
        epilog=f"challenges:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    challenge.add_argument("name", metavar="NAME", help="one of the challenges below")
    challenge.add_argument("file", type=Path, nargs="?", metavar="FILE.py", help="your file (NAME.py)")
    challenge.add_argument("--start", action="store_true", help="write a file to begin with instead")
    challenge.set_defaults(act=take_challenge)

    lessons = commands.add_parser(
        "lessons",
        help="list the lessons, or check lesson files",
        description="List the lessons; or read lesson files, and say what is wrong with them.",
    )
    lessons.add_argument("files", type=Path, nargs="*", metavar="FILE.toml", help="lesson files to check")
    lessons.set_defaults(act=show_lessons)


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    act: Callable[[argparse.Namespace], None],
) -> argparse.ArgumentParser:
    added = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    _model_options(added)
    added.set_defaults(act=act)
    return added


def _model_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("path", nargs="?", metavar="PATH", help="a checkpoint; the bundled model when left out")
    _device_options(command)


def _device_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", default="cpu", help="cpu, cuda or mps (cpu)")
    command.add_argument("--dtype", default="float32", help=f"{', '.join(DTYPES)} (float32)")


def _json_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON object")


def _natural(text: str) -> int:
    """A whole number, 0 or more."""
    return _at_least(text, 0)


def _count(text: str) -> int:
    """A whole number, 1 or more."""
    return _at_least(text, 1)


def _at_least(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    if number > LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is above 2^63 - 1")
    return number


def _ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of token ids such as 1,2,3") from None


def _size(text: str) -> tuple[int, int]:
    try:
        width, height = (int(part) for part in text.lower().replace("×", "x").split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 1920x1080") from None
    if not (200 <= width <= LONGEST_SIDE and 150 <= height <= LONGEST_SIDE):
        raise argparse.ArgumentTypeError(f"{text!r} is not between 200x150 and {LONGEST_SIDE}x{LONGEST_SIDE}")
    return width, height


def _address(text: str) -> tuple[tuple[str, int], ...]:
    try:
        return tuple(read_address(text).items())
    except RopewalkError as error:
        raise argparse.ArgumentTypeError(error.sentence) from error


# ----------------------------------------------------------------------------------------------------------------------
# Working and printing


def _finished(steps: Steps[Result], every: int = 0) -> Result:
    """Run a job to its end, with its progress on one line of stderr where somebody may watch.

    Where nobody does, a line is written for every ``every``-th point, none for 0.
    """
    watched = sys.stderr.isatty()
    try:
        while True:
            point = next(steps)
            if watched and point.total > 1:
                sys.stderr.write(f"\r{_bar(point)} {point.what}\x1b[K")
                sys.stderr.flush()
            elif every and not watched and point.done % every == 0:
                print(f"{point.done} of {point.total}: {point.what}", file=sys.stderr, flush=True)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        if watched:
            sys.stderr.write("\r\x1b[K")


def _bar(point: Progress) -> str:
    width = 24
    filled = width * point.done // point.total
    return f"[{'#' * filled}{'.' * (width - filled)}] {point.done}/{point.total}"


def _opened(parsed: argparse.Namespace) -> Opened:
    from app import engine

    return _finished(engine.open_model(parsed.path, parsed.device, parsed.dtype))


def _opened_to_run(parsed: argparse.Namespace) -> Opened:
    opened = _opened(parsed)
    if opened.shapes_only:
        raise CheckpointError(without_weights(opened.card))
    return opened


def _print_json(data: dict[str, Any]) -> None:
    print(json.dumps(_plain(data)))  # in ASCII, which any stream can carry


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _print_table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> None:
    """Print columns, each as wide as its widest cell; those in ``right`` end together."""
    if not rows:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


# ----------------------------------------------------------------------------------------------------------------------
# The commands


def show_info(parsed: argparse.Namespace) -> None:
    """What a checkpoint is."""
    opened = _opened(parsed)
    card, config = opened.card, opened.card.config
    per_token = kv_bytes(config, 1, card.dtype)
    notes = list(opened.checkpoint.notes)
    if parsed.json:
        _print_json(
            {
                "name": card.name,
                "path": card.path,
                "family": card.family,
                "device": card.device,
                "dtype": card.dtype,
                "parameters": card.parameters,
                "parameters_by_part": asdict(parameters(config)),
                "weight_bytes": card.weight_bytes,
                "kv_bytes_per_token": per_token,
                "has_tokenizer": card.has_tokenizer,
                "devices": list(opened.devices),
                "notes": notes,
                "config": config.to_dict(),
            }
        )
        return
    rope = config.rope
    turns = "none" if config.position != "rotary" or rope is None else f"base {rope.base:g}, {rope.pairing} pairs"
    if rope is not None and rope.scaling != "default":
        turns += f", {rope.scaling} × {rope.factor:g}"
    rows = [
        ("name", card.name),
        ("path", card.path),
        ("family", card.family),
        ("parameters", f"{format_count(card.parameters)} ({card.parameters:,})"),
        ("weights", f"{format_bytes(card.weight_bytes)} as {card.dtype} on {card.device}"),
        ("layers", str(config.layers)),
        ("width D", str(config.width)),
        ("heads", f"{config.heads} query, {config.kv_heads} kv, {config.head_width} wide"),
        ("MLP", f"{config.mlp}, {config.mlp_width} wide, {config.activation}"),
        ("vocabulary", f"{config.vocabulary:,}{', tied' if config.tied else ''}"),
        ("positions", f"{config.max_position:,}, {config.position}"),
        ("RoPE", turns),
        ("KV cache", f"{format_bytes(per_token)} a token, {format_bytes(per_token * config.max_position)} in all"),
        ("tokenizer", "yes" if card.has_tokenizer else "none: give token ids"),
        ("devices", ", ".join(opened.devices)),
        *(("note", note) for note in notes),
    ]
    _print_table(rows)


def show_ledger(parsed: argparse.Namespace) -> None:
    """Every operation of a block."""
    config = _opened(parsed).card.config
    ledger = build_ledger(config, parsed.layer, parsed.batch, parsed.tokens, parsed.past, parsed.dtype, parsed.device)
    if parsed.json:
        _print_json(_ledger_data(ledger))
        return
    print(
        f"Layer {ledger.layer}, {ledger.mode}: B {ledger.batch}, T {ledger.tokens}, P {ledger.past}, "
        f"S {ledger.tokens + ledger.past}, {ledger.dtype}"
    )
    head = ("operation", "symbol", "shape", "bytes", "parameters", "FLOPs", "causal")
    _print_table([head, *(_ledger_row(entry) for entry in ledger.entries)], frozenset({3, 4, 5, 6}))
    print(
        f"Whole model: {format_count(ledger.model_parameters)} parameters, "
        f"{format_flops(ledger.model_flops.full)} full, {format_flops(ledger.model_flops.causal)} causal; "
        f"KV cache {format_bytes(ledger.cache_bytes)}."
    )


def _ledger_row(entry: LedgerEntry) -> tuple[str, ...]:
    size = format_bytes(entry.bytes) if entry.stored == "stored" else entry.stored
    return (
        entry.name,
        entry.symbol,
        format_shape(entry.shape),
        size,
        f"{entry.parameters:,}" if entry.parameters else "",
        format_flops(entry.flops_full) if entry.flops_full else "",
        format_flops(entry.flops_causal) if entry.flops_causal else "",
    )


def _ledger_data(ledger: ShapeLedger) -> dict[str, Any]:
    data = asdict(ledger)
    data["config"] = ledger.config.to_dict()
    return data


def write_capture(parsed: argparse.Namespace) -> None:
    """Run a prompt and write the trace file."""
    from app import engine

    _check_folder(parsed.out)
    opened = _opened_to_run(parsed)
    prompt = parsed.prompt if parsed.ids is None else parsed.ids
    held = _finished(engine.run(opened, prompt, 1, (0, 0), parsed.logits))
    if parsed.steps:
        held = _finished(engine.step(held, parsed.steps, Sampling()))
    engine.save(held, parsed.out, parsed.pattern)
    run = held.run
    print(f"{parsed.out}: {run.length} rows ({run.prefill} of the prompt), {format_bytes(parsed.out.stat().st_size)}")


def generate_text(parsed: argparse.Namespace) -> None:
    """Continue a prompt."""
    from app import engine

    sampling = Sampling(parsed.temperature, parsed.top_k, parsed.top_p, parsed.seed)
    refusal = sampling_refusal(sampling)
    if refusal:
        raise PromptError(refusal)
    opened = _opened_to_run(parsed)
    before = _finished(engine.run(opened, parsed.prompt, 1, (0, 0), "last"))
    held = _finished(engine.step(before, parsed.steps, sampling))
    ids = [token.id for token in held.run.tokens]
    prompt, new = ids[: held.run.prefill], ids[held.run.prefill :]
    if parsed.json:
        _print_json(
            {
                "prompt": parsed.prompt,
                "prompt_ids": prompt,
                "ids": new,
                "tokens": [token.text for token in held.run.tokens[held.run.prefill :]],
                "text": engine.text_of(opened, new),
                "sampling": asdict(sampling),
                "prefill_seconds": before.run.seconds,
                "decode_seconds": held.run.seconds,
            }
        )
        return
    print(engine.text_of(opened, ids))


def score_heads(parsed: argparse.Namespace) -> None:
    """Score every head by its pattern."""
    from app import engine

    opened = _opened_to_run(parsed)
    config = opened.card.config
    if parsed.repeat is None:
        prompt: str | list[int] = parsed.prompt
    else:
        prompt = engine.random_repeat(opened, parsed.repeat, parsed.seed)
    held: Held = _finished(engine.run(opened, prompt, 1, (0, 0), "last"))
    scores, formulas, undefined = engine.scores_of(held)
    if parsed.json:
        _print_json(
            {
                "tokens": held.run.length,
                "formulas": formulas,
                "undefined": undefined,
                "scores": {name: values.tolist() for name, values in scores.items() if name not in undefined},
                "best": {
                    name: {"head": head_name(*_best(values)), "score": float(values[_best(values)])}
                    for name, values in scores.items()
                    if name not in undefined
                },
            }
        )
        return
    defined = [name for name in scores if name not in undefined]
    rows = [
        (head_name(layer, head), *(f"{scores[name][layer, head]:.3f}" for name in defined))
        for layer in range(config.layers)
        for head in range(config.heads)
    ]
    _print_table([("head", *defined), *rows], frozenset(range(1, len(defined) + 1)))
    print()
    for name in defined:
        best = _best(scores[name])
        print(f"{name}: most {head_name(*best)} ({scores[name][best]:.3f}); {formulas[name]}")
    for name, why in undefined.items():
        print(f"{name}: not defined, {why}; {formulas[name]}")


def _best(values: Any) -> tuple[int, int]:
    layer, head = divmod(int(values.argmax()), values.shape[1])
    return layer, head


def _shoot(parsed: argparse.Namespace, take_shot: TakeShot) -> None:
    _check_folder(parsed.out)
    width, height = parsed.size
    take_shot(
        Shot(
            out=parsed.out,
            path=parsed.path,
            device=parsed.device,
            dtype=parsed.dtype,
            prompt=parsed.prompt,
            width=width,
            height=height,
            theme=parsed.theme,
            projector=parsed.projector,
            select=parsed.select,
            steps=parsed.steps,
            panel=parsed.panel,
        )
    )
    print(parsed.out)


def train_model(parsed: argparse.Namespace) -> None:
    """Make the bundled model again."""
    from app import engine

    if (parsed.device, parsed.dtype) != ("cpu", "float32"):
        raise DeviceError(
            f"Training was asked for in {parsed.dtype} on {parsed.device}, but the recipe is for float32 on cpu alone."
        )
    if parsed.grade is not None:
        _print_grades(_finished(engine.grade(parsed.grade, parsed.text)), parsed.json)
        return
    chosen = {name: getattr(parsed, name) for name in SIZES if getattr(parsed, name) is not None}
    bars = _stoppable(engine.train(parsed.text, parsed.out, **chosen))
    _print_grades(bars, parsed.json)
    if not parsed.json:
        print(parsed.out)


def _print_grades(bars: Sequence[Bar], as_json: bool) -> None:
    """What a model of this kind is held to, and what was found."""
    if as_json:
        _print_json({"bars": [{**asdict(bar), "holds": bar.holds} for bar in bars]})
        return
    rows = [
        (
            bar.name,
            f"{bar.found:.3f}",
            f"{'≥' if bar.at_least else '≤'} {bar.limit:g}",
            "✓" if bar.holds else "missed",
            bar.where,
        )
        for bar in bars
    ]
    _print_table(rows, frozenset({1}))


def _stoppable(steps: Steps[Result]) -> Result:
    """Run a long job so that Ctrl-C ends it at its next point, where it can save what it has; a second one at once."""
    stopped: list[bool] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(True)
        signal.signal(signal.SIGINT, before)

    def until_stopped() -> Steps[Result]:
        while not stopped:
            try:
                yield next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
        steps.close()
        raise Cancelled

    before = signal.signal(signal.SIGINT, stop)
    try:
        return _finished(until_stopped(), every=100)
    finally:
        signal.signal(signal.SIGINT, before)


def take_challenge(parsed: argparse.Namespace) -> None:
    """Run a learner's file, or write one to begin with."""
    from app.challenges import check_name, run_challenge, write_starter
    from app.lesson_progress import ProgressStore

    check_name(parsed.name)
    file = parsed.file or Path(f"{parsed.name}.py")
    if parsed.start:
        write_starter(parsed.name, file)
        print(f"{file}: {CHALLENGES[parsed.name]}. Then: challenge {parsed.name} {file}")
        return
    verdict = run_challenge(parsed.name, file)
    if not verdict.passed:
        if verdict.details:
            print(verdict.details)
        raise ChallengeError(verdict.sentence)
    ProgressStore().pass_challenge(parsed.name)
    print(verdict.sentence)


def show_lessons(parsed: argparse.Namespace) -> None:
    """List the lessons that come along, or check files."""
    from app.lessons import load_lesson, load_shelf

    if not parsed.files:
        shelf = load_shelf()
        rows = [("", "lesson", "minutes", "checks", "challenges")]
        for lesson in shelf.lessons:
            minutes, checks = str(lesson.minutes), str(len(lesson.checks))
            rows.append((str(lesson.number), lesson.title, minutes, checks, ", ".join(lesson.challenges)))
        _print_table(rows, frozenset({0, 2, 3}))
        return
    for file in parsed.files:
        lesson = load_lesson(file)
        gaps = _gaps(lesson)
        print(f"{file}: {len(lesson.steps)} steps, {len(lesson.checks)} checks, {gaps or 'every number is there'}")


def _gaps(lesson: Lesson) -> str:
    """The numbers of a lesson that the engine cannot give here, each with its reason."""
    from app import engine
    from app.lesson_telling import tell_lesson

    told = _finished(tell_lesson(lesson, _finished(engine.laboratory(lesson.models, None, None))))
    spans = (span for step in told.steps for block in step.text for span in block.spans if span.kind == "missing")
    reasons = [*(span.source for span in spans), *(one.missing for step in told.steps for one in step.checks)]
    return "; ".join(dict.fromkeys(reason.rstrip(".") for reason in reasons if reason))


def _check_folder(out: Path) -> None:
    """Refuse a place that cannot be written to before anything is computed."""
    why = obstacle(out)
    if why:
        raise RopewalkError(f"{out} cannot be written: {why}.")
