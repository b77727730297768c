"""The process that measures: reads one JSON line ``[name, options]`` after another, answers each with one.

Its memory holds nothing of the measurements of other processes, and its failure is one more thing to report.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from typing import Any

WHERE = {
    "machine": "meters",
    "prefill": "ours",
    "prefill_memory": "ours",
    "long_prefill": "ours",
    "pictures": "ours",
    "heads": "ours",
    "decoding": "ours",
    "many_runs": "ours",
    "eager": "theirs",
    "eager_memory": "theirs",
    "transformer_lens": "theirs",
    "bertviz": "theirs",
    "heads_of_a_process": "whole_process",
    "capture_beside_sdpa": "theirs",
    "decoding_beside_generate": "theirs",
    "agreement": "theirs",
    "survey_speed": "surveys",
    "survey_beside_eager": "surveys",
    "survey_beside_lens": "surveys",
    "survey_memory": "surveys",
    "survey_memory_of_eager": "surveys",
    "survey_memory_of_lens": "surveys",
}
"""The module of each measurement."""


def measure(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """One measurement; peers are imported only where one is asked for."""
    module = importlib.import_module(f"tests.benchmarks.peers.{WHERE[name]}")
    numbers: dict[str, Any] = getattr(module, name)(**options)
    return numbers


def main() -> int:
    """Answer until the input ends; what else is printed goes to stderr."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        name, options = json.loads(line)
        try:
            answer: dict[str, Any] = {"numbers": measure(name, options)}
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way, and that is what is reported
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
