"""Trace files on the command line: a run in the place of a checkpoint, and the checkpoint that it is given."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ropewalk.app.commands.options import opened_with
from ropewalk.app.commands.output import finished
from ropewalk.model.engine.interface import ModelHandle, OpenedTrace
from ropewalk.model.errors import RopewalkError

OF_A_PROMPT = ("prompt", "ids", "prompts", "repeat", "chat", "system", "rope_scaling", "layers", "logits")
"""Options that say what is run, which a trace says itself."""


def trace_options(command: argparse.ArgumentParser) -> None:
    """Options that give a trace its checkpoint."""
    command.add_argument(
        "--checkpoint", metavar="CHECKPOINT", help="where PATH is a trace: what it was made with, for its weights"
    )
    command.add_argument(
        "--other-weights", action="store_true", help="take --checkpoint although the trace was not made with it"
    )


def saved_run(parsed: argparse.Namespace, model_handle: ModelHandle) -> OpenedTrace | None:
    """The run of a trace file, attached where a checkpoint was named; None where a checkpoint is open itself.

    Raises
    ------
    RopewalkError
        When options do not go together.
    """
    checkpoint = getattr(parsed, "checkpoint", None)
    if model_handle.origin is None:
        if checkpoint is not None:
            raise RopewalkError(f"{parsed.path} is a checkpoint itself; --checkpoint is what a trace was made with.")
        return None
    for name in OF_A_PROMPT:
        if getattr(parsed, name, None):
            raise RopewalkError(
                f"{parsed.path} is a trace, which says itself what was run; leave --{name.replace('_', '-')} out, or "
                "give the checkpoint in the place of the trace."
            )
    from ropewalk.model.engine import engine

    opened = finished(engine.open_trace(model_handle, 1, (0, 0)))
    if checkpoint is None:
        return opened
    attaching = engine.attach(
        opened.handle, checkpoint, parsed.device, options=opened_with(parsed), confirmed=parsed.other_weights
    )
    return replace(opened, handle=finished(attaching))


def check_asked(parsed: argparse.Namespace, *options: str) -> None:
    """Refuse a command that says neither what to run nor names a trace."""
    if all(getattr(parsed, name) is None for name in options):
        wanted = " or ".join(f"--{name}" for name in options)
        parsed.misused(f"{wanted} is needed, unless PATH is a trace")
