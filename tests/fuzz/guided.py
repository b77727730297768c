"""Lets atheris choose the inputs of one reader by what code they reach; what is wrong with one ends the process."""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    """Fuzz one reader for some seconds, and keep what is wrong in a folder."""
    name, seconds, kept = sys.argv[1:4]
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["ropewalk.app", "ropewalk.model"]):
        from tests.fuzz.mutations import mutated
        from tests.fuzz.outcome import outcome_of
        from tests.fuzz.readers import READERS

    reader = READERS[name]
    with tempfile.TemporaryDirectory(prefix="ropewalk-fuzz-") as place:
        file, seeds = reader.seeds(Path(place) / "original")
        corpus = Path(place) / "corpus"
        corpus.mkdir()
        for number, data in enumerate(seeds):
            (corpus / str(number)).write_bytes(data)

        def tried(data: bytes) -> None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            found = outcome_of(reader.read, file)
            if found.fault:
                raise AssertionError(found.fault)

        def changed(data: bytes, most: int, seed: int) -> bytes:
            return mutated(data, random.Random(seed))[:most]

        options = [f"-max_total_time={seconds}", "-timeout=2", "-rss_limit_mb=2000", "-max_len=300000"]
        atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={kept}/", str(corpus)], tried, custom_mutator=changed)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
