"""Speed and memory beside the peers: transformers, TransformerLens and BertViz.

python -m tests.benchmarks.peers [PATH] [--quick], or `make bench`, which installs the peers first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ropewalk.app.commands.options import json_option
from ropewalk.app.commands.output import check_folder, finished, print_json, print_table
from ropewalk.model.errors import Cancelled, RopewalkError
from tests.benchmarks.peers.plot import draw_growth
from tests.benchmarks.peers.report import Report, machine_in_words
from tests.benchmarks.peers.suite import bench_steps


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or take an earlier report, and print it; returns the exit status."""
    parsed = _parser().parse_args(arguments)
    try:
        if parsed.plot is not None:
            check_folder(parsed.plot)
        report = _measured(parsed) if parsed.again is None else _read(parsed.again)
        if parsed.plot is not None:
            draw_growth(report.figures, parsed.plot)
    except (RopewalkError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except Cancelled:
        return 130
    if parsed.json:
        print_json(report.to_dict())
    elif parsed.markdown:
        print(report.markdown())
    else:
        _print_report(report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers", description=__doc__)
    parser.add_argument("path", nargs="?", metavar="PATH", help="a Llama; SmolLM2-135M's shapes when left out")
    parser.add_argument("--quick", action="store_true", help="end within a minute")
    parser.add_argument("--again", type=Path, metavar="FILE.json", help="measure nothing, show what --json printed")
    parser.add_argument("--plot", type=Path, metavar="OUT.png", help="draw how time and memory grow with the tokens")
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/performance.md")
    json_option(parser)
    return parser


def _measured(parsed: argparse.Namespace) -> Report:
    return finished(bench_steps(parsed.path, quick=parsed.quick), every=1)


def _read(file: Path) -> Report:
    try:
        return Report.from_dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RopewalkError(f"{file} is not a report of these measurements; write one with --json.") from error


def _print_report(report: Report) -> None:
    print(f"{machine_in_words(report.machine)}\nModel: {report.model['name']}.")
    for section in report.sections():
        print(f"\n{section}")
        print_table(report.rows(section), frozenset({1, 2, 4}))
    for left_out in report.skipped:
        print(f"left out: {left_out}")


if __name__ == "__main__":
    sys.exit(main())
