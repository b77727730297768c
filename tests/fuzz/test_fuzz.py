"""A fair sample of what ``make fuzz`` does, from a fixed seed: each damaged file is read or refused in a sentence."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.mutations import mutated
from tests.fuzz.outcome import outcome_of
from tests.fuzz.readers import READERS

INPUTS = 800
"""Of all readers together."""
TOTAL = sum(reader.share for reader in READERS.values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    file, seeds = reader.seeds(tmp_path / "original")
    file.write_bytes(seeds[0])
    reader.read(file)
    draw = random.Random(f"ropewalk {name}")
    kinds = set()
    for _ in range(max(4, INPUTS * reader.share // TOTAL)):
        data = mutated(draw.choice(seeds), draw)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        found = outcome_of(reader.read, file)
        assert not found.fault, data[:2000]
        kinds.add(found.kind)
    assert kinds != {"read"} or not reader.refuses
