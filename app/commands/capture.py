"""`ropewalk capture`: a run as a trace file."""

from __future__ import annotations

import argparse
from pathlib import Path

from ropewalk.app.commands.options import Commands, command, natural, token_ids
from ropewalk.app.commands.output import check_folder, finished, runnable_model_handle
from ropewalk.app.commands.prompting import end_option, prompt_of, prompt_options, say_end, stretched
from ropewalk.model.decoder.costs import format_bytes
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt


def declare(commands: Commands) -> None:
    """Add the command."""
    capture = command(commands, "capture", "run a prompt and write what it was to a .safetensors file", write_capture)
    prompt = capture.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", metavar="TEXT", help="what to run")
    prompt.add_argument("--ids", type=token_ids, metavar="1,2,3", help="token ids to run")
    prompt_options(capture)
    capture.add_argument("--steps", type=natural, default=0, metavar="N", help="tokens to decode after it, greedily")
    end_option(capture)
    capture.add_argument("--pattern", action="store_true", help="add q and k before RoPE, scores and weights")
    capture.add_argument("--logits", choices=("last", "all"), help="rows whose logits are kept (all up to 1,024)")
    capture.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write")


def write_capture(parsed: argparse.Namespace) -> None:
    """Run a prompt and write the trace file."""
    from ropewalk.model.engine import engine

    check_folder(parsed.out)
    model_handle = runnable_model_handle(parsed)
    prompt = prompt_of(parsed, model_handle, parsed.prompt or "")
    if parsed.ids is not None:
        prompt = Prompt.of_ids(parsed.ids)
    changed = stretched(parsed, model_handle, prompt, parsed.steps)
    handle = finished(engine.run(model_handle, prompt, 1, (0, 0), parsed.logits, changed))
    if parsed.steps:
        handle = finished(engine.step(handle, parsed.steps, Sampling(), parsed.ignore_eos))
    engine.save(handle, parsed.out, parsed.pattern)
    run = handle.run
    say_end(run, parsed.steps)
    print(f"{parsed.out}: {run.length} rows ({run.prefill} of the prompt), {format_bytes(parsed.out.stat().st_size)}")
