"""`ropewalk snapshot`: the window as a picture. What draws it is handed in, because commands never import views."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ropewalk.app.commands.options import (
    Commands,
    engine_option,
    head_address,
    model_options,
    natural,
    opened_with,
    pixels,
)
from ropewalk.app.commands.output import check_folder
from ropewalk.app.commands.prompting import prompt_option, prompt_options
from ropewalk.app.commands.traces import trace_options
from ropewalk.app.files.shot import Shot, TakeShot

WORKSPACES = ("overview", "scores", "rope", "decode", "shapes", "heads", "compare", "survey", "lesson")
PANELS = (
    "tokens",
    "ledger",
    "walk",
    "heads",
    "scores",
    "rope",
    "cache",
    "next_token",
    "why",
    "experiments",
    "lesson",
    "compare",
    "board",
    "lines",
    "needs",
    "routing",
    "training",
    "lens",
    "timeline",
    "survey_heads",
    "survey_scatter",
    "survey_head",
    "survey_table",
    "survey_examples",
)


def declare(commands: Commands) -> None:
    """Add the command."""
    snapshot = commands.add_parser("snapshot", help="draw the window into a PNG", description="Draw the window.")
    snapshot.add_argument("out", type=png, metavar="OUT.png", help="where to write")
    window_options(snapshot)
    snapshot.set_defaults(act=shoot)


def png(text: str) -> Path:
    """A file that is named after what is written into it."""
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(f"{text!r} does not end in png; `ropewalk export` writes svg, pdf and others")
    return path


def window_options(command: argparse.ArgumentParser) -> None:
    """Options that say what the window shows."""
    model_options(command)
    engine_option(command, "what starts the engine, on whose machine PATH then is (this one)")
    prompt_option(command, "what to run")
    prompt_options(command)
    trace_options(command)
    command.add_argument("--size", type=pixels, default=(1920, 1080), metavar="WxH", help="pixels (1920x1080)")
    command.add_argument("--theme", choices=("dark", "light"), default="dark", help="colours (dark)")
    command.add_argument("--projector", action="store_true", help="large type, few panels")
    command.add_argument("--select", type=head_address, default=(), metavar="'L1H3 q=4 k=2'", help="head and cell")
    command.add_argument("--steps", type=natural, default=0, metavar="N", help="tokens to decode first")
    command.add_argument(
        "--workspace", choices=WORKSPACES, default="", metavar="NAME", help=f"one of {', '.join(WORKSPACES)}"
    )
    command.add_argument("--survey", default="", metavar="DIR", help="the survey that its workspace shows")
    command.add_argument("--panel", choices=PANELS, default="", metavar="NAME", help=f"one of {', '.join(PANELS)}")


def shoot(parsed: argparse.Namespace) -> None:
    """Draw the window into a file."""
    check_folder(parsed.out)
    take_shot: TakeShot = parsed.take_shot
    take_shot(Shot(**window_fields(parsed)))
    print(parsed.out)


def window_fields(parsed: argparse.Namespace) -> dict[str, Any]:
    """What was typed for :func:`window_options`, as fields of a shot."""
    width, height = parsed.size
    same = (
        "out",
        "path",
        "device",
        "dtype",
        "prompt",
        "theme",
        "projector",
        "select",
        "steps",
        "panel",
        "workspace",
        "survey",
        "chat",
        "system",
        "engine",
        "checkpoint",
        "other_weights",
    )
    typed = {name: getattr(parsed, name) for name in same}
    options = tuple(opened_with(parsed).items())
    return {**typed, "width": width, "height": height, "scaling": parsed.rope_scaling, "options": options}
