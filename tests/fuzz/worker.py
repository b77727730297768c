"""Reads input after input in a process that may be ended: says before each that it begins, and what came of faults.

On stdin come lines of JSON, how many inputs of which seed; on stdout go lines of JSON.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import warnings
from pathlib import Path

from tests.fuzz.mutations import mutated
from tests.fuzz.outcome import outcome_of
from tests.fuzz.readers import READERS

MOST_KEPT = 400
"""Inputs that came to something new, to be changed further."""


def main() -> None:
    """Serve one reader in one folder."""
    name, folder, seed = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a panic of a library prints its whole stack
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    logging.disable()
    reader = READERS[name]
    file, seeds = reader.seeds(folder / "original")
    draw = random.Random(f"ropewalk {name} {seed}")
    seen: set[str] = set()
    for whole in seeds[:5]:
        file.write_bytes(whole)
        outcome_of(reader.read, file)
    while True:
        data = mutated(draw.choice(seeds), draw)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        print(json.dumps({"begins": str(file)}), file=answers, flush=True)
        if not sys.stdin.readline():
            return
        found = outcome_of(reader.read, file)
        if found.kind not in seen:
            seen.add(found.kind)
            if len(seeds) < MOST_KEPT and len(data) < 200_000:
                seeds.append(data)
        print(json.dumps({"kind": found.kind, "fault": found.fault}), file=answers, flush=True)


if __name__ == "__main__":
    main()
