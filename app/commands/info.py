"""`ropewalk info`: what a checkpoint is."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ropewalk.app.commands.options import Commands, command, json_option
from ropewalk.app.commands.output import outline_of, print_json, print_table
from ropewalk.model.decoder.costs import format_bytes, format_count, kv_bytes, parameters


def declare(commands: Commands) -> None:
    """Add the command."""
    added = command(commands, "info", "what a checkpoint is: shapes, parameters, bytes", show_info)
    json_option(added)


def show_info(parsed: argparse.Namespace) -> None:
    """What a checkpoint is."""
    from ropewalk.model.checkpoints import available_devices, device_name

    outline = outline_of(parsed, tokenizer=True)
    config, devices = outline.config, available_devices()
    per_token = kv_bytes(config, 1, parsed.dtype)
    chats = () if outline.tokenizer is None else tuple(one.name for one in outline.tokenizer.chats)
    if parsed.json:
        print_json(
            {
                "name": outline.name,
                "path": outline.path,
                "family": outline.family,
                "device": device_name(parsed.device),
                "dtype": parsed.dtype,
                "parameters": outline.parameters,
                "parameters_by_part": asdict(parameters(config)),
                "weight_bytes": outline.bytes_in[parsed.dtype],
                "weight_bytes_by_dtype": dict(outline.bytes_in),
                "kv_bytes_per_token": per_token,
                "has_tokenizer": outline.tokenizer is not None,
                "chat_templates": list(chats),
                "devices": list(devices),
                "notes": list(outline.notes),
                "config": asdict(config),
            }
        )
        return
    rope = config.rope
    turns = "none" if config.position != "rotary" or rope is None else f"base {rope.base:g}, {rope.pairing} pairs"
    if rope is not None and rope.scaling != "default":
        turns += f", {rope.scaling} × {rope.factor:g}"
    rows = [
        ("name", outline.name),
        ("path", outline.path),
        ("family", outline.family),
        ("parameters", f"{format_count(outline.parameters)} ({outline.parameters:,})"),
        ("weights", ", ".join(f"{format_bytes(size)} as {dtype}" for dtype, size in outline.bytes_in.items())),
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
        *(("note", note) for note in outline.notes),
    ]
    print_table(rows)
