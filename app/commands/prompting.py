"""How a prompt is meant on the command line: through a chat template, or on stretched positions.

Every command that takes a prompt has these options; what they mean is the engine's business.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from ropewalk.app.commands.output import finished
from ropewalk.app.commands.prompts_file import LARGEST
from ropewalk.model.decoder.config import Scaling
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.decoder.rope_scaling import rule_named, scaling_for
from ropewalk.model.engine.interface import ModelHandle
from ropewalk.model.errors import ChatError, RopewalkError
from ropewalk.model.limits import regular
from ropewalk.model.readings.records import Run
from ropewalk.model.tokens.prompt import Prompt


def prompt_option(command: argparse._ActionsContainer, what: str) -> None:
    """The option that is a prompt."""
    command.add_argument(
        "--prompt", type=prompt_text, metavar="TEXT", help=f"{what}; @FILE reads a file, - standard input"
    )


def prompt_text(typed: str) -> str:
    """A prompt as it is typed, of a file (``@FILE``) or of standard input (``-``); ``@@`` begins a text with one @.

    A line end at the end of a file or of the input is left out.
    """
    if typed.startswith("@@"):
        return typed[1:]
    if typed != "-" and not typed.startswith("@"):
        return typed
    if typed == "@":
        raise argparse.ArgumentTypeError("@ names no file; a text that begins with @ is typed @@")
    try:
        text = _read("" if typed == "-" else typed[1:]).decode("utf-8-sig")
    except OSError as error:
        where = "standard input" if typed == "-" else typed[1:]
        raise argparse.ArgumentTypeError(
            f"{where} cannot be read ({error.strerror or error}); a text that begins with @ is typed @@"
        ) from error
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{typed.lstrip('@')} is not text in UTF-8") from error
    return text.removesuffix("\n").removesuffix("\r")


def _read(place: str) -> bytes:
    """What is in a file, or in standard input; no more than anybody could run."""
    if place:
        with regular(Path(place), piped=True).open("rb") as file:
            data = file.read(LARGEST + 1)
    elif sys.stdin is None:
        raise OSError("it is closed")
    else:
        data = sys.stdin.buffer.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(f"it has more than {LARGEST:,} bytes")
    return data


def prompt_options(command: argparse.ArgumentParser) -> None:
    """Options that say what becomes of a prompt before it runs."""
    command.add_argument("--chat", action="store_true", help="put the prompt into the checkpoint's chat template")
    command.add_argument("--system", default="", metavar="TEXT", help="a system line for the template (with --chat)")
    command.add_argument(
        "--rope-scaling",
        type=rope_scaling,
        metavar="RULE[:FACTOR]",
        help="linear, ntk, yarn or llama3, for what is longer than the model; the factor that is needed if left out",
    )


def end_option(command: argparse.ArgumentParser) -> None:
    """Whether decoding goes on where the text ends."""
    command.add_argument("--ignore-eos", action="store_true", help="decode on after a token that ends the text")


def say_end(run: Run, steps: int) -> None:
    """Say that fewer tokens were decoded than asked for."""
    if run.steps < steps:
        print(
            f"The text ends after {run.steps} of {steps} tokens, with {run.tokens[run.length - 1].inline}; "
            "--ignore-eos decodes on.",
            file=sys.stderr,
        )


def rope_scaling(text: str) -> tuple[Scaling, float | None]:
    """A rule such as ``yarn``, or one with its factor such as ``yarn:4``."""
    name, colon, factor = text.partition(":")
    try:
        rule = rule_named(name)
    except RopewalkError as error:
        raise argparse.ArgumentTypeError(error.sentence.rstrip(".")) from error
    if not colon:
        return rule, None
    try:
        number = float(factor)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 1):
        raise argparse.ArgumentTypeError(f"{factor!r} is not a factor of 1 or more")
    return rule, number


def prompt_of(parsed: argparse.Namespace, model_handle: ModelHandle, text: str) -> Prompt:
    """A text as it is meant by the options.

    Raises
    ------
    ChatError
        When a template was asked for and there is none, or a system line without one.
    """
    if not parsed.chat:
        if parsed.system:
            raise ChatError("A system line was given, but only a chat template can hold it; add --chat.")
        return Prompt(text)
    if not model_handle.card.chats:
        raise ChatError(f"{model_handle.card.name} has no chat template; leave --chat out to run the text as it is.")
    return Prompt(text, chat=model_handle.card.chats[0], system=parsed.system)


def stretched(
    parsed: argparse.Namespace, model_handle: ModelHandle, prompt: Prompt | int, steps: int = 0
) -> tuple[Intervention, ...]:
    """The RoPE scaling that was asked for.

    Parameters
    ----------
    prompt
        What will be run, or how many ids.
    steps
        Tokens that are to be decoded after it.
    """
    if parsed.rope_scaling is None:
        return ()
    from ropewalk.model.engine import engine

    rule, factor = parsed.rope_scaling
    length = prompt if isinstance(prompt, int) else finished(engine.length_of(model_handle, prompt))
    config = model_handle.card.config
    found = scaling_for(config, length + steps, rule, factor)
    if not found:
        print(
            f"{length + steps} tokens fit the model's {config.max_position} positions, so nothing is stretched.",
            file=sys.stderr,
        )
    return found
