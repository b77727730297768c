"""`ropewalk generate`: continue a prompt."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ropewalk.app.commands.options import Commands, command, count, json_option
from ropewalk.app.commands.output import finished, model_handle_of, print_json, runnable
from ropewalk.app.commands.prompting import end_option, prompt_of, prompt_option, prompt_options, say_end, stretched
from ropewalk.app.commands.traces import check_asked, saved_run, trace_options
from ropewalk.app.settings import sampling_refusal
from ropewalk.model.errors import PromptError
from ropewalk.model.readings.records import Run, Sampling


def declare(commands: Commands) -> None:
    """Add the command."""
    generate = command(commands, "generate", "continue a prompt", generate_text)
    prompt_option(generate, "what to continue")
    prompt_options(generate)
    trace_options(generate)
    generate.add_argument("--steps", type=count, required=True, metavar="N", help="tokens to decode")
    generate.add_argument("--temperature", type=float, default=0.0, metavar="X", help="0 is greedy (0)")
    generate.add_argument("--top-k", type=int, default=0, metavar="K", help="keep the K most probable; 0 keeps all (0)")
    generate.add_argument("--top-p", type=float, default=1.0, metavar="P", help="keep the top that reaches P (1)")
    generate.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the draws (0)")
    end_option(generate)
    json_option(generate)
    generate.set_defaults(misused=generate.error)


def _finish_reason(run: Run, ignore_eos: bool) -> str:
    """Why there are no more tokens, in the words that servers of models use."""
    return "stop" if run.ends_at(run.length) and not ignore_eos else "length"


def generate_text(parsed: argparse.Namespace) -> None:
    """Continue a prompt."""
    from ropewalk.model.engine import engine

    sampling = Sampling(parsed.temperature, parsed.top_k, parsed.top_p, parsed.seed)
    refusal = sampling_refusal(sampling)
    if refusal:
        raise PromptError(refusal)
    model_handle = model_handle_of(parsed)
    saved = saved_run(parsed, model_handle)
    if saved is None:
        check_asked(parsed, "prompt")
        asked = prompt_of(parsed, runnable(model_handle), parsed.prompt)
        changed = stretched(parsed, model_handle, asked, parsed.steps)
        before = finished(engine.run(model_handle, asked, 1, (0, 0), "last", changed, alone=True))
    else:
        before, changed = saved.handle, saved.interventions
        model_handle = before.model_handle
    handle = finished(engine.step(before, parsed.steps, sampling, parsed.ignore_eos))
    ids, start = [token.id for token in handle.run.tokens], before.run.length
    prompt, new = ids[:start], ids[start:]
    if parsed.json:
        print_json(
            {
                "prompt": before.run.prompt,
                "rendered": before.run.rendered,
                "experiments": [intervention.label for intervention in changed],
                "prompt_ids": prompt,
                "ids": new,
                "tokens": [token.text for token in handle.run.tokens[start:]],
                "text": engine.text_of(model_handle, new),
                "finish_reason": _finish_reason(handle.run, parsed.ignore_eos),
                "sampling": asdict(sampling),
                "prefill_seconds": before.run.seconds,
                "decode_seconds": handle.run.seconds,
            }
        )
        return
    print(engine.text_of(model_handle, ids))
    say_end(handle.run, parsed.steps)
