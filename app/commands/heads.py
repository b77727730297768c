"""`ropewalk heads`: score every head by its pattern."""

from __future__ import annotations

import argparse
from typing import Any

from ropewalk.app.address import head_name
from ropewalk.app.commands.options import Commands, command, count, json_option, natural
from ropewalk.app.commands.output import finished, model_handle_of, print_json, print_table, runnable
from ropewalk.app.commands.prompting import prompt_of, prompt_options, stretched
from ropewalk.app.commands.traces import check_asked, saved_run
from ropewalk.model.engine.interface import ModelHandle, RunHandle
from ropewalk.model.tokens.prompt import Prompt


def declare(commands: Commands) -> None:
    """Add the command."""
    heads = command(commands, "heads", "score every head by its pattern", score_heads)
    text = heads.add_mutually_exclusive_group()
    text.add_argument("--prompt", metavar="TEXT", help="what to run")
    text.add_argument("--repeat", type=count, metavar="N", help="N random tokens, twice")
    prompt_options(heads)
    heads.add_argument("--seed", type=natural, default=0, metavar="S", help="seed of the random tokens (0)")
    json_option(heads)
    heads.set_defaults(misused=heads.error)


def score_heads(parsed: argparse.Namespace) -> None:
    """Score every head by its pattern."""
    from ropewalk.model.engine import engine

    model_handle = model_handle_of(parsed)
    config = model_handle.card.config
    saved = saved_run(parsed, model_handle)
    handle = _run(parsed, runnable(model_handle)) if saved is None else saved.handle
    scores, formulas, undefined = engine.scores_of(handle)
    if parsed.json:
        print_json(
            {
                "tokens": handle.run.length,
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
    print_table([("head", *defined), *rows], frozenset(range(1, len(defined) + 1)))
    print()
    for name in defined:
        best = _best(scores[name])
        print(f"{name}: most {head_name(*best)} ({scores[name][best]:.3f}); {formulas[name]}")
    for name, why in undefined.items():
        print(f"{name}: not defined, {why}; {formulas[name]}")


def _run(parsed: argparse.Namespace, model_handle: ModelHandle) -> RunHandle:
    from ropewalk.model.engine import engine

    check_asked(parsed, "prompt", "repeat")
    prompt = prompt_of(parsed, model_handle, parsed.prompt or "")
    if parsed.repeat is None:
        changed = stretched(parsed, model_handle, prompt)
    else:
        changed = stretched(parsed, model_handle, 2 * parsed.repeat)
        prompt = Prompt.of_ids(engine.random_repeat(model_handle, parsed.repeat, parsed.seed, changed))
    return finished(engine.run(model_handle, prompt, 1, (0, 0), "last", changed))


def _best(values: Any) -> tuple[int, int]:
    layer, head = divmod(int(values.argmax()), values.shape[1])
    return layer, head
