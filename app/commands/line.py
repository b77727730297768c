"""The command line: what Ropewalk does without a window, for scripts and for people who like numbers as text.

It parses, calls one command, and turns whatever went wrong into a sentence on stderr and exit status 1; wrong usage is
2, Ctrl-C is 130. Each command is a file beside this one and a line in ``COMMANDS``.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType

from ropewalk.app.commands import (
    capture,
    challenge,
    export,
    generate,
    heads,
    info,
    ledger,
    lessons,
    snapshot,
    survey,
    train,
)
from ropewalk.app.commands.options import Commands, engine_option
from ropewalk.app.commands.terminal import bare, shown_streams
from ropewalk.app.commands.typed import ENGINE, SERVES, split_engine
from ropewalk.app.files.provenance import software
from ropewalk.app.files.shot import TakeShot
from ropewalk.model.errors import Cancelled, RopewalkError, quoted, unforeseen

PICKED, TYPED = "or pick a RoPE scaling", "or add --rope-scaling yarn"
"""How a window and how a command says what carries a prompt that is too long."""

AS_OPTIONS = {
    "attach its checkpoint": "name its checkpoint with --checkpoint",
    "confirm it, and": "add --other-weights, and",
}
"""The same of traces."""

COMMANDS = (info, ledger, capture, generate, heads, survey, snapshot, export, train, challenge, lessons)
WITH_AN_ENGINE = (snapshot, export)
"""Those that draw a window, and so ask an engine as it does."""


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
    with shown_streams():
        return _run(arguments, take_shot)


def _run(arguments: Sequence[str], take_shot: TakeShot) -> int:
    top = parser(take_shot)
    try:
        _check_engine(top, arguments)
        parsed = _parsed(top, arguments)
    except SystemExit as stop:  # argparse has said why
        return stop.code if isinstance(stop.code, int) else 2
    try:
        parsed.act(parsed)
        sys.stdout.flush()
    except SystemExit as stop:  # what was typed does not go together, which shows once PATH is open
        return stop.code if isinstance(stop.code, int) else 2
    except (KeyboardInterrupt, Cancelled):
        print("Cancelled.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # whoever read the output has had enough; keep Python from complaining about it at exit
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except RopewalkError as error:
        print(_as_typed(error.sentence, parsed), file=sys.stderr)
        return 1
    except OSError as error:
        name = quoted(str(error.filename or "the file"))
        print(f"{error.strerror or error}: {name} could not be used.", file=sys.stderr)
        return 1
    except BaseException as error:  # noqa: BLE001 - whoever typed a command is owed a sentence, whatever happened
        print(unforeseen(error), file=sys.stderr)
        return 1
    return 0


def _parsed(top: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse what was typed; PATH may come after options, where argparse has taken it for left out by then."""
    parsed, left = top.parse_known_args(arguments)
    path, words = getattr(parsed, "path", ""), not any(one.startswith("-") for one in left)
    if words and isinstance(path, list):
        path += left
    elif words and path is None and len(left) == 1:
        parsed.path = left[0]
    elif left:
        top.error(f"unrecognized arguments: {' '.join(left)}")
    return parsed


def _check_engine(top: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Refuse an engine for a command that asks none."""
    command, rest = split_engine(arguments)
    without = {_name(one) for one in COMMANDS if one not in WITH_AN_ENGINE}
    if command is not None and rest and rest[0] in without:
        top.error(f"{rest[0]} computes where it is typed; {ENGINE} is for the window, snapshot and export.")


def _name(command: ModuleType) -> str:
    return command.__name__.rpartition(".")[2]


def _as_typed(sentence: str, parsed: argparse.Namespace) -> str:
    """A sentence that tells to do something in the window, as whoever types a command can follow it."""
    if getattr(parsed, "rope_scaling", True) is None:
        sentence = sentence.replace(PICKED, TYPED)
    if hasattr(parsed, "checkpoint"):
        for shown, typed in AS_OPTIONS.items():
            sentence = sentence.replace(shown, typed)
    return sentence


def _prepare_streams() -> None:
    """Let everything be printed anywhere: a closed stream swallows it, one that lacks a character shows its escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for as long as we run
        elif isinstance(inner := bare(stream), io.TextIOWrapper):
            inner.reconfigure(errors="backslashreplace")


def parser(take_shot: TakeShot) -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="ropewalk",
        usage="%(prog)s [-h] [--version] [--engine COMMAND] [FILE.ropewalk | FILE.safetensors | SURVEY | COMMAND ...]",
        description="A microscope for attention. Without a command the window opens, with the session or the trace "
        "of a file such as work.ropewalk or run.safetensors, or the survey of a folder, where one is named.",
    )
    top.add_argument("--version", action="version", version=software())
    engine_option(top, "start the window's engine by a command, such as 'ssh gpu1 ropewalk engine' (on this machine)")
    top.set_defaults(take_shot=take_shot)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", prog="ropewalk", required=True)
    for one in COMMANDS:
        one.declare(commands)
    _declare_engine(commands)
    return top


def _declare_engine(commands: Commands) -> None:
    """List what serves a window: ``__main__`` starts it, before anything is imported that may print."""
    summary = "serve a window over stdin and stdout"
    description = f"{summary.capitalize()}; started by a window, see ropewalk {ENGINE}."
    commands.add_parser("engine", help=f"{summary}; see {ENGINE}", description=description).set_defaults(act=_refuse)


def _refuse(parsed: argparse.Namespace) -> None:
    raise RopewalkError(SERVES)
