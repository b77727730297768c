"""`ropewalk info`: what a checkpoint is."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from ropewalk.app.commands.options import Commands, command, json_option
from ropewalk.app.commands.output import finished, model_handle_of, print_json, print_table
from ropewalk.model.decoder.costs import format_bytes, format_count, kv_bytes, parameters
from ropewalk.model.engine.interface import ModelHandle


def declare(commands: Commands) -> None:
    """Add the command."""
    added = command(commands, "info", "what a checkpoint is: shapes, parameters, bytes", show_info)
    json_option(added)


def show_info(parsed: argparse.Namespace) -> None:
    """What a checkpoint is."""
    model_handle = model_handle_of(parsed)
    card, config = model_handle.card, model_handle.card.config
    per_token = kv_bytes(config, 1, card.dtype)
    notes = list(model_handle.checkpoint.notes)
    trace = None if model_handle.origin is None else _trace_of(model_handle)
    if parsed.json:
        print_json(
            {
                "name": card.name,
                "path": card.path,
                "family": card.family,
                "device": card.device,
                "dtype": card.dtype,
                "parameters": card.parameters,
                "parameters_by_part": asdict(parameters(config)),
                "weight_bytes": card.weight_bytes,
                "kv_bytes_per_token": per_token,
                "has_tokenizer": card.has_tokenizer,
                "chat_templates": list(card.chats),
                "devices": list(model_handle.devices),
                "notes": notes,
                "config": asdict(config),
                **({} if trace is None else {"trace": trace}),
            }
        )
        return
    rope = config.rope
    turns = "none" if config.position != "rotary" or rope is None else f"base {rope.base:g}, {rope.pairing} pairs"
    if rope is not None and rope.scaling != "default":
        turns += f", {rope.scaling} × {rope.factor:g}"
    rows = [
        ("name", card.name),
        ("path", card.path),
        ("family", card.family),
        ("parameters", f"{format_count(card.parameters)} ({card.parameters:,})"),
        ("weights", f"{format_bytes(card.weight_bytes)} as {card.dtype} on {card.device}" if trace is None else "none"),
        ("layers", str(config.layers)),
        ("width D", str(config.width)),
        ("heads", f"{config.heads} query, {config.kv_heads} kv, {config.head_width} wide"),
        ("MLP", f"{config.mlp}, {config.mlp_width} wide, {config.activation}"),
        ("vocabulary", f"{config.vocabulary:,}{', tied' if config.tied else ''}"),
        ("positions", f"{config.max_position:,}, {config.position}"),
        ("RoPE", turns),
        ("KV cache", f"{format_bytes(per_token)} a token, {format_bytes(per_token * config.max_position)} in all"),
        ("tokenizer", "yes" if card.has_tokenizer else "none: give token ids"),
        ("chat template", ", ".join(card.chats) or "none"),
        ("devices", ", ".join(model_handle.devices)),
        *([] if trace is None else _trace_rows(trace)),
        *(("note", note) for note in notes),
    ]
    print_table(rows)


def _trace_of(model_handle: ModelHandle) -> dict[str, Any]:
    """What the file of a run says of it."""
    from ropewalk.model.engine import engine

    opened = finished(engine.open_trace(model_handle, 1, (0, 0)))
    run, file = opened.handle.run, model_handle.checkpoint.file
    return {
        "prompt": asdict(opened.handle.prompt),
        "rows": run.length,
        "prompt_rows": run.prefill,
        "batch": file.trace.batch,
        "logit_rows": 0 if file.trace.logits is None else file.trace.logits.length,
        "bytes": run.trace_bytes,
        "experiments": [intervention.label for intervention in opened.interventions],
        "checkpoint": asdict(file.about.origin) if file.about.origin is not None else None,
        "software": file.version,
    }


def _trace_rows(trace: dict[str, Any]) -> list[tuple[str, str]]:
    made, asked = trace["checkpoint"], trace["prompt"]["text"]
    rows = [
        ("run", f"{trace['rows']:,} rows, {trace['prompt_rows']:,} of the prompt; {format_bytes(trace['bytes'])}"),
        ("prompt", asked if len(asked) <= 80 else f"{asked[:80]}…"),
        ("logits", f"of {trace['logit_rows']:,} rows"),
        ("experiments", ", ".join(trace["experiments"]) or "none"),
        ("made with", "unknown" if made is None else " ".join(filter(None, (made["name"], made["path"])))),
        ("fingerprint", "unknown" if made is None or not made["fingerprint"] else made["fingerprint"]),
        ("written by", f"Ropewalk {trace['software']}"),
    ]
    # what a file says is text, and moves no cursor
    return [(name, "".join(letter if letter.isprintable() else " " for letter in said)) for name, said in rows]
