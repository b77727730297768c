"""Reads input after input in a process that may be ended, and says on stdout what was wrong with which, as JSON.

A file that is mapped holds how many inputs were begun and how many of them refused; the one that is being read lies in
the folder.
"""

from __future__ import annotations

import base64
import json
import logging
import mmap
import os
import random
import struct
import sys
import warnings
from pathlib import Path

from tests.fuzz.mutations import mutated
from tests.fuzz.outcome import outcome_of
from tests.fuzz.readers import READERS

COUNTS = struct.Struct("<QQ")
MOST_KEPT = 400
"""Inputs that came to something new, to be changed further."""


def main() -> None:
    """Serve one reader in one folder until ended."""
    name, folder, seed = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a panic of a library prints its whole stack
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    logging.disable()
    reader = READERS[name]
    file, seeds = reader.seeds(folder / "original")
    for whole in seeds[:5]:
        file.write_bytes(whole)
        outcome_of(reader.read, file)
    print(json.dumps({"file": str(file)}), file=answers, flush=True)
    draw, seen = random.Random(f"ropewalk {name} {seed}"), set[str]()
    begun = refused = 0
    with (folder / "counts").open("r+b") as opened, mmap.mmap(opened.fileno(), COUNTS.size) as counts:
        while True:
            data = mutated(draw.choice(seeds), draw)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            begun += 1
            COUNTS.pack_into(counts, 0, begun, refused)
            found = outcome_of(reader.read, file)
            refused += found.kind != "read"
            if found.kind not in seen:
                seen.add(found.kind)
                if len(seeds) < MOST_KEPT and len(data) < 200_000:
                    seeds.append(data)
            if found.fault:
                said = {"fault": found.fault, "data": base64.b64encode(data).decode()}
                print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
