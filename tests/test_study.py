"""The study of the documents is run again, and its means are held to a loop over the attentions of transformers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import ropewalk
from tests.model.checkpoints.fetch import FILE
from tests.test_docs import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FILE.is_file(), reason="the real model was not fetched"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the study can be run."""
    found = tmp_path_factory.mktemp("study")
    (found / FILE.name).symlink_to(FILE)
    return found


def test_the_study_gives_what_its_page_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert list(run("docs/study.md")) == []
    means, errors = eager(folder)
    found = ropewalk.load_survey("again")
    assert np.abs(found.mean("pairs") - means).max() < 5e-6
    assert np.abs(found.error("pairs") - errors).max() < 5e-6


def eager(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Mean and error [L, H] of the weight from a name to where it stood before, from the attentions themselves."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=FILE.name, attn_implementation="eager", dtype=torch.float32
    ).eval()
    tokenizer = ropewalk.open(FILE).tokenizer
    assert tokenizer is not None
    values = []
    for line in (folder / "names.jsonl").read_text().splitlines():
        row = json.loads(line)
        ids = tokenizer.encode(row["text"])
        words = [tokenizer.decode([one]).strip() for one in ids]
        places = [at for at, word in enumerate(words) if word == row["name"]]
        if len(places) < 2:
            continue
        with torch.no_grad():
            layers = model(torch.tensor([ids]), output_attentions=True).attentions
        weights = torch.stack(layers)[:, 0].double().numpy()  # [L, H, T, T]
        rows = [weights[:, :, query, places[:at]].sum(-1) for at, query in enumerate(places) if at]
        values.append(np.mean(rows, axis=0))
    return np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / len(values) ** 0.5
