"""The surveys of the bundled model that come along: over the text it was not trained on, and over random repeats.

    python -m tests.bundled_survey TEXT          # make bundled-survey TEXT=…

TEXT is the file that the model was trained from; its last tenth was kept for measuring (``model/training``).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

import ropewalk
from ropewalk.model.readings.patterns import repeated_ids
from ropewalk.model.survey.folder import read_manifest, write_manifest
from ropewalk.model.training.training import TrainOptions, read_text, split_text

SURVEYS: Final = Path(__file__).resolve().parents[1] / "resources" / "surveys"
WINDOW: Final = 128
REPEATS, HALF = 128, 48
TOP: Final = 4


def take(text: Path, folder: Path = SURVEYS) -> tuple[Path, ...]:
    """Survey the bundled model twice, and say where that is."""
    model = ropewalk.open()
    assert model.tokenizer is not None
    kept = split_text(read_text(text), TrainOptions.validation_share)[1]
    ids = model.tokenizer.encode(kept, add_special=False)
    windows = [ids[start : start + WINDOW] for start in range(0, len(ids) - WINDOW + 1, WINDOW)]
    repeats = [repeated_ids(HALF, model.config.vocabulary, seed) for seed in range(REPEATS)]
    made = []
    surveys = (("text", windows, "validation text"), ("repeats", repeats, "random tokens twice"))
    for name, texts, source in surveys:
        out = folder / name
        shutil.rmtree(out, ignore_errors=True)
        ropewalk.survey(model, texts, out=out, top=TOP, values=False)
        (out / "examples.parquet").unlink()  # half as large as all the rest, and said by tally and texts
        manifest = read_manifest(out)
        manifest["corpus"]["sources"] = [source]
        write_manifest(out, manifest)
        made.append(out)
    return tuple(made)


if __name__ == "__main__":
    for one in take(Path(sys.argv[1])):
        print(one)
