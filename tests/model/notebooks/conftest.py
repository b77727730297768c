"""Two tiny models of transformers, with rotary and with learned positions, and the same ones opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ropewalk
from ropewalk.model.notebooks.model import Model
from tests.model.checkpoints.reference import GPT, SIZES, Case, build, save


class Pair(NamedTuple):
    """A model twice."""

    ours: Model
    theirs: Any


CASES = {"llama": Case("llama", "plain", SIZES), "gpt2": Case("gpt2", "plain", GPT)}


@pytest.fixture(scope="package", params=CASES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A model of transformers, and the same one opened by Ropewalk."""
    theirs = build(CASES[request.param])
    folder: Path = save(theirs, tmp_path_factory.mktemp(request.param))
    return Pair(ropewalk.open(folder), theirs)


@pytest.fixture(scope="package")
def bundled() -> Model:
    """The model that comes with Ropewalk."""
    return ropewalk.open()
