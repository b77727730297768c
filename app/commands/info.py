"""`ropewalk info`: what a checkpoint is."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ropewalk.app.commands.options import Commands, command, json_option
from ropewalk.app.commands.output import described, finished, print_json, print_table
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.costs import format_bytes, format_count, kv_bytes, parameters
from ropewalk.model.engine.interface import ModelHandle
from ropewalk.model.options import AUTO


def declare(commands: Commands) -> None:
    """Add the command."""
    added = command(commands, "info", "what a checkpoint is: shapes, parameters, bytes", show_info)
    json_option(added)


def show_info(parsed: argparse.Namespace) -> None:
    """What a checkpoint is."""
    shown = described(parsed, tokenizer=True)
    config, per_token = shown.config, kv_bytes(shown.config, 1, shown.dtype)
    handle = shown.model_handle
    trace = None if handle is None or handle.origin is None else _trace_of(handle)
    products = multiplied_by(parsed, config) if trace is None else trace["products"]
    if parsed.json:
        print_json(
            {
                "name": shown.name,
                "path": shown.path,
                "family": shown.family,
                "device": shown.device,
                "dtype": shown.dtype,
                "parameters": shown.parameters or None,
                "parameters_by_part": asdict(parameters(config)) if config.position != "unknown" else None,
                "weight_bytes": shown.bytes_in[shown.dtype],
                "weight_bytes_by_dtype": dict(shown.bytes_in),
                "kv_bytes_per_token": per_token,
                "has_tokenizer": shown.has_tokenizer,
                "chat_templates": list(shown.chats),
                "devices": list(shown.devices),
                "products": products,
                "notes": list(shown.notes),
                "config": asdict(config),
                **({} if trace is None else {"trace": trace}),
            }
        )
        return
    rope = config.rope
    known = config.position != "unknown"  # else transformers runs it
    turns = "none" if config.position != "rotary" or rope is None else f"base {rope.base:g}, {rope.pairing} pairs"
    if rope is not None and rope.scaling != "default":
        turns += f", {rope.scaling} × {rope.factor:g}"
    rows = [
        ("name", shown.name),
        ("path", shown.path),
        ("family", shown.family),
        ("parameters", f"{format_count(shown.parameters)} ({shown.parameters:,})" if shown.parameters else "unknown"),
        ("weights", "none" if trace is not None else _weights(shown.bytes_in)),
        ("layers", str(config.layers)),
        ("width D", str(config.width)),
        ("heads", f"{config.heads} query, {config.kv_heads} kv, {_widths(config)} wide"),
        *([("MLP", f"{config.mlp}, {config.mlp_width} wide, {config.activation}")] if known else []),
        ("vocabulary", f"{config.vocabulary:,}{', tied' if config.tied else ''}"),
        ("positions", f"{config.max_position:,}, {config.position if known else 'as transformers takes them'}"),
        *([("RoPE", turns)] if known else []),
        ("KV cache", f"{format_bytes(per_token)} a token, {format_bytes(per_token * config.max_position)} in all"),
        ("tokenizer", "yes" if shown.has_tokenizer else f"none{': give token ids' if trace is None else ''}"),
        ("chat template", ", ".join(shown.chats) or "none"),
        ("devices", ", ".join(shown.devices)),
        ("products", products),
        *([] if trace is None else _trace_rows(trace)),
        *(("note", note) for note in shown.notes),
    ]
    print_table(rows)


def multiplied_by(parsed: argparse.Namespace, config: ModelConfig) -> str:
    """What multiplies in runs of this model with these options, in words."""
    from ropewalk.model.decoder import product_choice

    if parsed.device != "cpu" or parsed.dtype != "float32" or parsed.via is not None:
        return "torch"
    name = product_choice.wanted(parsed.products)
    if name != AUTO:
        return name
    choice = product_choice.kept(config)
    return "measured when the model is first opened" if choice is None else f"{choice}, as measured here"


def _weights(bytes_in: Mapping[str, int]) -> str:
    return ", ".join(f"{format_bytes(size)} as {dtype}" for dtype, size in bytes_in.items())


def _widths(config: ModelConfig) -> str:
    """How wide a head is; its values too, where they are wider or narrower."""
    own, value = config.head_width, config.width_of_value
    return f"{own}" if own == value else f"{own} (values {value})"


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
        "products": str(file.trace.products),
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
