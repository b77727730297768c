"""The models that every control is tried on: the bundled one and a family with experts.

The slow run adds other families, and SmolLM2 with some and all of its layers.

A new model is one line in :data:`MODELS`. The families are tiny random checkpoints as transformers writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from _pytest.mark import ParameterSet

from ropewalk.model.engine.questions import AskArithmetic
from ropewalk.model.readings.records import Arithmetic
from ropewalk.views.main_window import MainWindow
from ropewalk.views.style import wording
from tests.model.checkpoints.fetch import FILE
from tests.views.driving import answer

WORDS = " hark, who goes there? hark, who goes there?"
IDS = "5 17 3 42 61 90 8 2 5 17 3 42 61 90 8 2"
OTHER_WORDS = " hark, who goes? hark, who goes there?"
OTHER_IDS = "5 17 3 42 90 8 2 5 17 3 42 61 90 8 2"
LAYER, HEAD, QUERY, KEY = 2, 1, 11, 9
FEW_HEADS = 40
"""As many are ablated in the ordinary run of the tests."""


@dataclass(frozen=True)
class Subject:
    """A model: how it is had (None: the bundled one), what is run on it, and of how many layers (None: all)."""

    name: str
    path: Callable[[Path], Path | None]
    prompt: str = IDS
    other: str = OTHER_IDS
    layers: int | None = None


def bundled(folder: Path) -> None:
    """Nothing has to be made."""


def family(name: str, variant: str = "plain") -> Callable[[Path], Path]:
    """A tiny random checkpoint of a family, as the parity tests make it."""

    def made(folder: Path) -> Path:
        from tests.model.checkpoints import reference

        case = next(case for case in reference.CASES if (case.family, case.variant) == (name, variant))
        return reference.save(reference.build(case), folder)

    return made


def fetched(folder: Path) -> Path:
    """The real model that ``make test`` fetches; skipped where it is not there."""
    if not FILE.is_file():
        pytest.skip("the model is not fetched: python -m tests.model.checkpoints.fetch")
    return FILE


MODELS: tuple[Subject | ParameterSet, ...] = (
    Subject("bundled", bundled, WORDS, OTHER_WORDS),
    Subject("experts, grouped heads with QK-norm", family("qwen3_moe")),
    pytest.param(Subject("partial rotary", family("phi3", "partial")), marks=pytest.mark.slow),
    pytest.param(Subject("soft cap, sliding window", family("gemma2")), marks=pytest.mark.slow),
    # more than FEW_HEADS heads
    pytest.param(Subject("SmolLM2", fetched, WORDS, OTHER_WORDS, layers=5), marks=pytest.mark.slow),
    pytest.param(Subject("grouped heads with QK-norm alone", family("qwen3")), marks=pytest.mark.slow),
    pytest.param(Subject("sliding window alone", family("mistral", "window")), marks=pytest.mark.slow),
    pytest.param(Subject("all of SmolLM2", fetched, WORDS, OTHER_WORDS), marks=pytest.mark.slow),
)


def read(text: str) -> float:
    """A number as the window writes it."""
    return float(text.replace(wording.MINUS, "-"))


def arithmetic_of(window: MainWindow) -> Arithmetic:
    now = window.session.selection.now
    return cast("Arithmetic", answer(window, AskArithmetic(now.layer, now.head, now.query, now.key)))
