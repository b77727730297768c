"""`ropewalk heads`: score every head by its pattern, over prompts and checkpoints."""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.app.address import head_name
from ropewalk.app.commands.options import Commands, command, count, json_option, natural
from ropewalk.app.commands.output import finished, model_handle_of, print_json, print_table, runnable
from ropewalk.app.commands.own_score import OwnScore, scores_asked
from ropewalk.app.commands.prompting import prompt_of, prompt_option, prompt_options, stretched
from ropewalk.app.commands.prompts_file import read_prompts
from ropewalk.app.commands.traces import check_asked, saved_run
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.engine.interface import ModelHandle, RunHandle
from ropewalk.model.errors import PromptError, RopewalkError
from ropewalk.model.tokens.prompt import Prompt

if TYPE_CHECKING:
    from ropewalk.model.notebooks.readings import HeadScores

COLUMNS = ("checkpoint", "layer", "head", "score", "value", "deviation")


@dataclass(frozen=True, eq=False)
class Scored:
    """A checkpoint, what was run on it (the seed, where ids were drawn, and the ids), and the scores of its heads."""

    name: str
    path: str
    prompts: list[dict[str, Any]]
    scores: HeadScores

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each layer, head and score that is defined."""
        for row in self.scores.rows():
            yield {"checkpoint": self.name, **row, "deviation": _known(row["deviation"])}

    def best(self, score: str) -> dict[str, Any]:
        """The head with the largest value of a score."""
        layer, head = self.scores.best(score)
        return {"head": head_name(layer, head), "value": float(self.scores[score][layer, head])}


def declare(commands: Commands) -> None:
    """Add the command."""
    heads = command(commands, "heads", "score every head by its pattern", score_heads, several=True)
    text = heads.add_mutually_exclusive_group()
    prompt_option(text, "what to run")
    text.add_argument("--repeat", type=count, metavar="N", help="N random tokens, twice")
    text.add_argument("--prompts", type=Path, metavar="FILE", help="a prompt on each line, as text or a JSON object")
    prompt_options(heads)
    heads.add_argument("--seed", type=natural, default=0, metavar="S", help="seed of the random tokens (0)")
    heads.add_argument("--seeds", type=count, metavar="N", help="of --repeat: so many seeds from S on, mean and spread")
    heads.add_argument("--bos", action="store_true", help="of --repeat: the token that begins a text comes first")
    heads.add_argument(
        "--score",
        type=scores_asked,
        action="extend",
        metavar="NAME",
        help="previous, sink, induction, duplicate, entropy, or FILE.py:function of your own; commas between (all)",
    )
    output = heads.add_mutually_exclusive_group()
    json_option(output)
    output.add_argument("--csv", action="store_true", help="print a line for each checkpoint, head and score")
    heads.set_defaults(misused=heads.error)


def score_heads(parsed: argparse.Namespace) -> None:
    """Score every head by its pattern."""
    for option in ("seeds", "bos"):
        if getattr(parsed, option) and parsed.repeat is None:
            parsed.misused(f"--{option} goes with --repeat")
    scored = [_scored(argparse.Namespace(**{**vars(parsed), "path": path})) for path in parsed.path or [None]]
    if len({one.name for one in scored}) < len(scored):
        scored = [Scored(one.path, one.path, one.prompts, one.scores) for one in scored]
    if parsed.json:
        rows = [row for one in scored for row in one.rows()]
        print_json({"checkpoints": [_told(one) for one in scored], "rows": rows})
    elif parsed.csv:
        table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        table.writeheader()
        for one in scored:
            table.writerows(one.rows())
    else:
        _print(scored)


# ----------------------------------------------------------------------------------------------------------------------
# Scoring


def _scored(parsed: argparse.Namespace) -> Scored:
    """Score the heads of one checkpoint, over everything that is to be run on it."""
    from ropewalk.model.engine import engine
    from ropewalk.model.notebooks.readings import HeadScores

    asked: list[str | OwnScore] | None = parsed.score
    names = None if asked is None else [one for one in asked if isinstance(one, str)]
    own = {one.name: one.load() for one in asked or () if isinstance(one, OwnScore)}
    model_handle = model_handle_of(parsed)
    found, prompts, formulas = [], [], dict[str, str]()
    for seed, handle in _runs(parsed, model_handle):
        scores, formulas, undefined = engine.scores_of(handle, names)
        scores |= {name: measure(handle.trace) for name, measure in own.items()}
        formulas |= {name: f"{name}: of your own" for name in own}
        found.append((scores, undefined))
        prompts.append({"seed": seed, "ids": [token.id for token in handle.run.tokens]})
    card = model_handle.card
    return Scored(card.name, str(parsed.path or card.path), prompts, HeadScores.over(found, formulas))


def _runs(parsed: argparse.Namespace, model_handle: ModelHandle) -> Iterator[tuple[int | None, RunHandle]]:
    """Everything that is to be run, one after another, with its seed; or the run that a trace is."""
    from ropewalk.model.engine import engine

    saved = saved_run(parsed, model_handle)
    if saved is not None:
        yield None, saved.handle
        return
    check_asked(parsed, "prompt", "repeat", "prompts")
    runnable(model_handle)
    for seed, prompt, changed in _prompts(parsed, model_handle):
        yield seed, finished(engine.run(model_handle, prompt, 1, (0, 0), "last", changed, alone=True))


def _prompts(
    parsed: argparse.Namespace, model_handle: ModelHandle
) -> Iterator[tuple[int | None, Prompt, tuple[Intervention, ...]]]:
    """What is run under which RoPE scaling, with the seed where ids are drawn."""
    from ropewalk.model.engine import engine

    if parsed.repeat is not None:
        changed = stretched(parsed, model_handle, 2 * parsed.repeat + parsed.bos)
        for seed in range(parsed.seed, parsed.seed + (parsed.seeds or 1)):
            ids = engine.random_repeat(model_handle, parsed.repeat, seed, changed, bos=parsed.bos)
            yield seed, Prompt.of_ids(ids), changed
    elif parsed.prompts is None:
        prompt = prompt_of(parsed, model_handle, parsed.prompt)
        yield None, prompt, stretched(parsed, model_handle, prompt)
    else:
        for number, line in read_prompts(parsed.prompts):
            try:
                plain = parsed.chat and line.ids is None and not line.chat
                prompt = prompt_of(parsed, model_handle, line.text) if plain else line.prompt(model_handle)
                yield None, prompt, stretched(parsed, model_handle, prompt)
            except RopewalkError as error:
                raise PromptError(f"Line {number} of {parsed.prompts} cannot be run: {error.sentence}") from error


# ----------------------------------------------------------------------------------------------------------------------
# Showing


def _told(one: Scored) -> dict[str, Any]:
    """What is to be known of the rows of a checkpoint."""
    return {
        "name": one.name,
        "path": one.path,
        "prompts": one.prompts,
        "formulas": one.scores.formulas,
        "undefined": one.scores.undefined,
        "best": {name: one.best(name) for name in one.scores if name not in one.scores.undefined},
    }


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _print(scored: Sequence[Scored]) -> None:
    """A table of all heads, the checkpoints side by side, and under it what the scores are."""
    columns = [(name, one) for name in scored[0].scores for one in scored if name not in one.scores.undefined]
    layers, heads = (max(one.scores[name].shape[axis] for one in scored for name in one.scores) for axis in (0, 1))
    several = len(scored) > 1
    titles = [f"{name} {one.name}" if several else name for name, one in columns]
    rows = [
        (head_name(layer, head), *(_cell(one.scores, name, layer, head) for name, one in columns))
        for layer in range(layers)
        for head in range(heads)
    ]
    print_table([("head", *titles), *rows], frozenset(range(1, len(columns) + 1)))
    print()
    for one in scored:
        if several:
            print(f"{one.name}:")
        for name, formula in one.scores.formulas.items():
            if name in one.scores.undefined:
                print(f"{name}: not defined, {one.scores.undefined[name]}; {formula}")
            else:
                best = one.best(name)
                print(f"{name}: most {best['head']} ({best['value']:.3f}); {formula}")


def _cell(scores: HeadScores, name: str, layer: int, head: int) -> str:
    values = scores[name]
    if layer >= values.shape[0] or head >= values.shape[1]:
        return ""
    spread = scores.deviation[name][layer, head]
    return f"{values[layer, head]:.3f}" + ("" if math.isnan(spread) else f" ± {spread:.3f}")
