"""Options that several commands share, and how what was typed is read; every refusal is argparse's."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

from ropewalk.app.address import read_address
from ropewalk.app.commands.typed import ENGINE
from ropewalk.model.decoder.config import FIRST_LAYERS
from ropewalk.model.errors import RopewalkError
from ropewalk.model.options import CHOICES, TRANSFORMERS, VIA, Option, with_asked

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
DTYPES = ("float32", "bfloat16", "float16")
LONGEST_SIDE = 16_384
LARGEST = 2**63 - 1
"""What torch can count to."""


def command(
    commands: Commands,
    name: str,
    summary: str,
    act: Callable[[argparse.Namespace], None],
    *,
    several: bool = False,
) -> argparse.ArgumentParser:
    """A command that takes a checkpoint, or several, and where to compute."""
    added = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    model_options(added, several=several)
    added.add_argument("--layers", type=count, metavar="N", help="open the first N layers only (all)")
    added.set_defaults(act=act)
    return added


def model_options(command: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Options that say what to open, and where."""
    command.add_argument(
        "path",
        nargs="*" if several else "?",
        metavar="PATH",
        help=f"{'checkpoints or traces' if several else 'a checkpoint or a trace'}; the bundled model when left out",
    )
    command.add_argument("--adapter", metavar="FOLDER", help="a LoRA adapter to merge into it (none)")
    command.add_argument(
        "--family", metavar="NAME", help="open it as a model of this family, whatever its config says (as it says)"
    )
    command.add_argument(
        "--ignore", type=names, default=(), metavar="NAME[,NAME]", help="leave these fields of its config out (none)"
    )
    command.add_argument(
        "--via", choices=(TRANSFORMERS,), help="let transformers run it, for a folder of no family of Ropewalk's"
    )
    command.add_argument(
        "--products", choices=CHOICES, help="what multiplies on a CPU in float32 (auto: what was quickest here)"
    )
    device_options(command)


def device_options(command: argparse.ArgumentParser) -> None:
    """Options that say where to compute, and in what."""
    command.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 or mps (cpu)")
    command.add_argument("--dtype", default="float32", help=f"{', '.join(DTYPES)} (float32)")


def engine_option(command: argparse.ArgumentParser, text: str) -> None:
    """The option of whatever has a window's engine."""
    command.add_argument(ENGINE, default="", metavar="COMMAND", help=text)


def json_option(command: argparse._ActionsContainer) -> None:
    """The option of every command whose output a script may read."""
    command.add_argument("--json", action="store_true", help="print one JSON object")


def natural(text: str) -> int:
    """A whole number, 0 or more."""
    return at_least(text, 0)


def count(text: str) -> int:
    """A whole number, 1 or more."""
    return at_least(text, 1)


def at_least(text: str, least: int) -> int:
    """A whole number from ``least`` up."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    if number > LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is above 2^63 - 1")
    return number


def token_ids(text: str) -> list[int]:
    """Token ids between commas or spaces."""
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of token ids such as 1,2,3") from None


def names(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def opened_with(parsed: argparse.Namespace) -> dict[str, Option]:
    """What was typed for :func:`model_options`, as options of an opening."""
    layers = getattr(parsed, "layers", None)
    first: dict[str, Option] = {} if layers is None else {FIRST_LAYERS: layers}
    if parsed.via is not None:
        first[VIA] = parsed.via
    return with_asked(
        first, adapter=parsed.adapter, family=parsed.family, ignore=parsed.ignore, products=parsed.products
    )


def pixels(text: str) -> tuple[int, int]:
    """A size such as 1920x1080."""
    try:
        width, height = (int(part) for part in text.lower().replace("×", "x").split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 1920x1080") from None
    if not (200 <= width <= LONGEST_SIDE and 150 <= height <= LONGEST_SIDE):
        raise argparse.ArgumentTypeError(f"{text!r} is not between 200x150 and {LONGEST_SIDE}x{LONGEST_SIDE}")
    return width, height


def head_address(text: str) -> tuple[tuple[str, int], ...]:
    """An address such as ``L1H3 q=27 k=14``, as fields of the selection."""
    try:
        return tuple(read_address(text).items())
    except RopewalkError as error:
        raise argparse.ArgumentTypeError(error.sentence) from error
