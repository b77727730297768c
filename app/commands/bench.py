"""`ropewalk bench`: speed and memory beside the peers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from app.commands.options import Commands, json_option
from app.commands.output import check_folder, finished, print_json, print_table
from model.errors import RopewalkError

if TYPE_CHECKING:
    from model.bench.report import Report


def declare(commands: Commands) -> None:
    """Add the command."""
    bench = commands.add_parser(
        "bench",
        help="measure speed and memory beside the peers",
        description="Measure speed and memory beside transformers, TransformerLens and BertViz (ropewalk[bench]).",
    )
    bench.add_argument("path", nargs="?", metavar="PATH", help="a Llama; SmolLM2-135M's shapes when left out")
    bench.add_argument("--quick", action="store_true", help="end within a minute")
    bench.add_argument("--again", type=Path, metavar="FILE.json", help="measure nothing, show what --json printed")
    bench.add_argument("--plot", type=Path, metavar="OUT.png", help="draw how time and memory grow with the tokens")
    bench.add_argument("--markdown", action="store_true", help="print tables for a README")
    json_option(bench)
    bench.set_defaults(act=run_bench)


def run_bench(parsed: argparse.Namespace) -> None:
    """Measure, or take an earlier report, and print it."""
    if parsed.plot is not None:
        check_folder(parsed.plot)
    report = _measured(parsed) if parsed.again is None else _read(parsed.again)
    if parsed.plot is not None:
        from model.bench.plot import draw_growth

        draw_growth(report.figures, parsed.plot)
    if parsed.json:
        print_json(report.to_dict())
    elif parsed.markdown:
        print(report.markdown())
    else:
        _print_report(report)


def _measured(parsed: argparse.Namespace) -> Report:
    from model.bench.suite import bench_steps

    return finished(bench_steps(parsed.path, quick=parsed.quick), every=1)


def _read(file: Path) -> Report:
    from model.bench.report import Report

    try:
        return Report.from_dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RopewalkError(f"{file} is not a report of this command; write one with bench --json.") from error


def _print_report(report: Report) -> None:
    from model.bench.report import machine_in_words

    print(f"{machine_in_words(report.machine)}\nModel: {report.model['name']}.")
    for section in report.sections():
        print(f"\n{section}")
        print_table(report.rows(section), frozenset({1, 2, 4}))
    for left_out in report.skipped:
        print(f"left out: {left_out}")
