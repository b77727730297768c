"""`ropewalk ledger`: every operation of a block with its shape and price."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from ropewalk.app.commands.options import Commands, command, count, json_option, natural
from ropewalk.app.commands.output import described, print_json, print_table
from ropewalk.model.decoder.costs import format_bytes, format_count, format_flops, format_shape
from ropewalk.model.ledger.ledger import LedgerEntry, ShapeLedger, build_ledger


def declare(commands: Commands) -> None:
    """Add the command."""
    ledger = command(commands, "ledger", "every operation of a block with its shape and price", show_ledger)
    ledger.add_argument("--tokens", type=count, default=12, metavar="T", help="tokens of the call (12)")
    ledger.add_argument("--past", type=natural, default=0, metavar="P", help="tokens already in the cache (0)")
    ledger.add_argument("--batch", type=count, default=1, metavar="B", help="sequences (1)")
    ledger.add_argument("--layer", type=natural, default=0, metavar="L", help="which block, from 0 (0)")
    json_option(ledger)


def show_ledger(parsed: argparse.Namespace) -> None:
    """Every operation of a block."""
    shown = described(parsed)
    ledger = build_ledger(
        shown.config, parsed.layer, parsed.batch, parsed.tokens, parsed.past, shown.dtype, shown.device
    )
    if parsed.json:
        print_json(_ledger_data(ledger))
        return
    print(
        f"Layer {ledger.layer}, {ledger.mode}: B {ledger.batch}, T {ledger.tokens}, P {ledger.past}, "
        f"S {ledger.tokens + ledger.past}, {ledger.dtype}"
    )
    head = ("operation", "symbol", "shape", "bytes", "parameters", "FLOPs", "causal")
    print_table([head, *(_ledger_row(entry) for entry in ledger.entries)], frozenset({3, 4, 5, 6}))
    print(
        f"Whole model: {format_count(ledger.model_parameters)} parameters, "
        f"{format_flops(ledger.model_flops.full)} full, {format_flops(ledger.model_flops.causal)} causal; "
        f"KV cache {format_bytes(ledger.cache_bytes)}."
    )


def _ledger_row(entry: LedgerEntry) -> tuple[str, ...]:
    size = format_bytes(entry.bytes) if entry.stored == "stored" else entry.stored
    return (
        entry.name,
        entry.symbol,
        format_shape(entry.shape),
        size,
        f"{entry.parameters:,}" if entry.parameters else "",
        format_flops(entry.flops_full) if entry.flops_full else "",
        format_flops(entry.flops_causal) if entry.flops_causal else "",
    )


def _ledger_data(ledger: ShapeLedger) -> dict[str, Any]:
    return asdict(ledger)
