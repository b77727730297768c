"""`ropewalk info`: what a checkpoint is."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from ropewalk.app.commands.options import Commands, command, json_option
from ropewalk.app.commands.output import dtype_in, finished, model_handle_of, outline_of, print_json, print_table
from ropewalk.model.decoder.costs import format_bytes, format_count, kv_bytes, parameters
from ropewalk.model.engine.interface import ModelHandle


def declare(commands: Commands) -> None:
    """Add the command."""
    added = command(commands, "info", "what a checkpoint is: shapes, parameters, bytes", show_info)
    json_option(added)


def show_info(parsed: argparse.Namespace) -> None:
    """What a checkpoint is."""
    from ropewalk.model.checkpoints import available_devices, device_name
    from ropewalk.model.trace_files.trace_file import is_trace

    outline = outline_of(parsed, tokenizer=True)
    config, devices = outline.config, available_devices()
    dtype = dtype_in(outline, parsed)
    per_token = kv_bytes(config, 1, dtype)
    chats = () if outline.tokenizer is None else tuple(one.name for one in outline.tokenizer.chats)
    trace = _trace_of(model_handle_of(parsed)) if parsed.path and is_trace(parsed.path) else None
    if parsed.json:
        print_json(
            {
                "name": outline.name,
                "path": outline.path,
                "family": outline.family,
                "device": device_name(parsed.device),
                "dtype": dtype,
                "parameters": outline.parameters,
                "parameters_by_part": asdict(parameters(config)),
                "weight_bytes": outline.bytes_in[dtype],
                "weight_bytes_by_dtype": dict(outline.bytes_in),
                "kv_bytes_per_token": per_token,
                "has_tokenizer": outline.tokenizer is not None,
                "chat_templates": list(chats),
                "devices": list(devices),
                "notes": list(outline.notes),
                "config": asdict(config),
                **({} if trace is None else {"trace": trace}),
            }
        )
        return
    rope = config.rope
    turns = "none" if config.position != "rotary" or rope is None else f"base {rope.base:g}, {rope.pairing} pairs"
    if rope is not None and rope.scaling != "default":
        turns += f", {rope.scaling} × {rope.factor:g}"
    held = [f"{format_bytes(size)} as {kind}" for kind, size in outline.bytes_in.items()]
    rows = [
        ("name", outline.name),
        ("path", outline.path),
        ("family", outline.family),
        ("parameters", f"{format_count(outline.parameters)} ({outline.parameters:,})"),
        ("weights", "none" if trace is not None else ", ".join(held)),
        ("layers", str(config.layers)),
        ("width D", str(config.width)),
        ("heads", f"{config.heads} query, {config.kv_heads} kv, {config.head_width} wide"),
        ("MLP", f"{config.mlp}, {config.mlp_width} wide, {config.activation}"),
        ("vocabulary", f"{config.vocabulary:,}{', tied' if config.tied else ''}"),
        ("positions", f"{config.max_position:,}, {config.position}"),
        ("RoPE", turns),
        ("KV cache", f"{format_bytes(per_token)} a token, {format_bytes(per_token * config.max_position)} in all"),
        ("tokenizer", "none: give token ids" if outline.tokenizer is None else "yes"),
        ("chat template", ", ".join(chats) or "none"),
        ("devices", ", ".join(devices)),
        *([] if trace is None else _trace_rows(trace)),
        *(("note", note) for note in outline.notes),
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
    return [
        ("run", f"{trace['rows']:,} rows, {trace['prompt_rows']:,} of the prompt; {format_bytes(trace['bytes'])}"),
        ("prompt", asked if len(asked) <= 80 else f"{asked[:80]}…"),
        ("logits", f"of {trace['logit_rows']:,} rows"),
        ("experiments", ", ".join(trace["experiments"]) or "none"),
        ("made with", "unknown" if made is None else " ".join(filter(None, (made["name"], made["path"])))),
        ("fingerprint", "unknown" if made is None or not made["fingerprint"] else made["fingerprint"]),
        ("written by", f"Ropewalk {trace['software']}"),
    ]
