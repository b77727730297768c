"""`ropewalk train`: make or measure the bundled model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.app.commands.options import Commands, device_options, json_option, natural
from ropewalk.app.commands.output import finished, print_json, print_table, stoppable
from ropewalk.model.errors import DeviceError

if TYPE_CHECKING:
    from ropewalk.model.training.grading import Bar

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


def declare(commands: Commands) -> None:
    """Add the command."""
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
        train.add_argument(f"--{name.replace('_', '-')}", type=natural, metavar="N", help=meaning)
    json_option(train)
    device_options(train)
    train.set_defaults(act=train_model)


def train_model(parsed: argparse.Namespace) -> None:
    """Make the bundled model again."""
    from ropewalk.model.engine import engine

    if (parsed.device, parsed.dtype) != ("cpu", "float32"):
        raise DeviceError(
            f"Training was asked for in {parsed.dtype} on {parsed.device}, but the recipe is for float32 on cpu alone."
        )
    if parsed.grade is not None:
        _print_grades(finished(engine.grade(parsed.grade, parsed.text)), parsed.json)
        return
    chosen = {name: getattr(parsed, name) for name in SIZES if getattr(parsed, name) is not None}
    bars = stoppable(engine.train(parsed.text, parsed.out, **chosen))
    _print_grades(bars, parsed.json)
    if not parsed.json:
        print(parsed.out)


def _print_grades(bars: Sequence[Bar], as_json: bool) -> None:
    """What a model of this kind is held to, and what was found."""
    if as_json:
        print_json({"bars": [{**asdict(bar), "holds": bar.holds} for bar in bars]})
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
    print_table(rows, frozenset({1}))
