"""Running a job where somebody may watch, and printing what came of it."""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from ropewalk.app.commands.options import opened_with
from ropewalk.app.commands.terminal import bare, in_line
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.engine.interface import ModelHandle, without_weights
from ropewalk.model.errors import Cancelled, CheckpointError, RopewalkError, UnknownFamilyError
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.progress import finished as unseen
from ropewalk.model.whole_file import obstacle

Result = TypeVar("Result")
OF_WEIGHTS = ("adapter", "family", "ignore", "via", "layers", "products")
"""Options that say how weights are opened."""


def finished(steps: Steps[Result], every: int = 0) -> Result:
    """Run a job to its end, with its progress on one line of stderr where somebody may watch.

    Where nobody does, a line is written for every ``every``-th point, none for 0.
    """
    watched, terminal = sys.stderr.isatty(), bare(sys.stderr)
    try:
        while True:
            point = next(steps)
            if watched and point.total > 1:
                terminal.write(f"\r{_bar(point)} {in_line(point.what)}\x1b[K")
                terminal.flush()
            elif every and not watched and point.done % every == 0:
                print(f"{point.done} of {point.total}: {point.what}", file=sys.stderr, flush=True)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        if watched:
            terminal.write("\r\x1b[K")


def stoppable(steps: Steps[Result], *, shown: bool = True) -> Result:
    """Run a long job so that Ctrl-C ends it at its next point, where it can save what it has; a second one at once.

    Parameters
    ----------
    shown
        Whether this process is the one, of several that do the job, that shows its progress.
    """
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
        return finished(until_stopped(), every=100) if shown else unseen(until_stopped())
    finally:
        signal.signal(signal.SIGINT, before)


def _bar(point: Progress) -> str:
    width = 24
    filled = width * point.done // point.total
    return f"[{'#' * filled}{'.' * (width - filled)}] {point.done}/{point.total}"


def model_handle_of(parsed: argparse.Namespace) -> ModelHandle:
    """What a command was told to open; options for weights are refused where a trace has none and is given none."""
    from ropewalk.model.engine import engine

    opened = finished(engine.open_model(parsed.path, parsed.device, parsed.dtype, options=opened_with(parsed)))
    finished(engine.measure_products(opened))
    if opened.origin is not None and getattr(parsed, "checkpoint", None) is None:
        for name in OF_WEIGHTS:
            if getattr(parsed, name, None):
                raise RopewalkError(f"{parsed.path} is a trace, a run without weights; leave --{name} out.")
    return opened


@dataclass(frozen=True)
class Described:
    """What there is to say of a checkpoint or a trace; ``model_handle`` is there where it had to be opened for that."""

    name: str
    path: str
    family: str
    device: str
    dtype: str
    config: ModelConfig
    parameters: int
    bytes_in: Mapping[str, int]
    has_tokenizer: bool
    chats: tuple[str, ...]
    devices: tuple[str, ...]
    notes: tuple[str, ...]
    model_handle: ModelHandle | None = None


def described(parsed: argparse.Namespace, *, tokenizer: bool = False) -> Described:
    """What a command was told to open, without its weights, so that it need not fit into memory.

    A trace holds none, and what transformers is to run is opened by it.
    """
    from ropewalk.model.checkpoints import available_devices, device_name, device_of, dtype_of, outline_checkpoint
    from ropewalk.model.trace_files.trace_file import is_trace
    from ropewalk.model.transformers_models.offering import with_offer

    if parsed.via is not None or (parsed.path is not None and is_trace(parsed.path)):
        model_handle = model_handle_of(parsed)
        card = model_handle.card
        return Described(
            *(card.name, card.path, card.family, card.device, card.dtype, card.config, card.parameters),
            {card.dtype: card.weight_bytes},
            *(card.has_tokenizer, card.chats, model_handle.devices, model_handle.checkpoint.notes, model_handle),
        )
    device_of(parsed.device)
    dtype_of(parsed.dtype)
    try:
        found = outline_checkpoint(parsed.path, options=opened_with(parsed), tokenizer=tokenizer)
    except UnknownFamilyError as error:
        raise with_offer(error, parsed.path) from error
    chats = () if found.tokenizer is None else tuple(one.name for one in found.tokenizer.chats)
    return Described(
        *(found.name, found.path, found.family, device_name(parsed.device), parsed.dtype, found.config),
        *(found.parameters, found.bytes_in, found.tokenizer is not None, chats, available_devices(), found.notes),
    )


def runnable_model_handle(parsed: argparse.Namespace) -> ModelHandle:
    """The same, refused where there are shapes only."""
    return runnable(model_handle_of(parsed))


def runnable(model_handle: ModelHandle) -> ModelHandle:
    """Refuse a model of shapes alone."""
    if model_handle.shapes_only:
        raise CheckpointError(without_weights(model_handle.card))
    return model_handle


def print_json(data: dict[str, Any]) -> None:
    """One JSON object on one line."""
    print(json.dumps(plain(data)))  # in ASCII, which any stream can carry


def plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> None:
    """Print columns, each as wide as its widest cell; those in ``right`` end together."""
    if not rows:
        return
    rows = [[in_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def check_folder(out: Path) -> None:
    """Refuse a place that cannot be written to before anything is computed."""
    why = obstacle(out)
    if why:
        raise RopewalkError(f"{out} cannot be written: {why}.")
