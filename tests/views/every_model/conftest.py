"""One window for every model, put back before each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures import snapshot
from tests import imported
from tests.views.driving import opened_window, run_of
from tests.views.every_model.models import HEAD, KEY, LAYER, MODELS, QUERY, Subject

FOLDER = Path(__file__).parent

TRAITS = {
    "test_interventions_on_scores": "soft cap, sliding window",
    "test_interventions_on_the_rotation": "partial rotary",
    "test_interventions_on_heads_and_mlps": "experts, grouped heads with QK-norm",
    "test_interventions_go_on_while_decoding": "soft cap, sliding window",
    "test_the_prompt_in_another_order": "experts, grouped heads with QK-norm",
    "test_timeline": "soft cap, sliding window",
    "test_compare": "partial rotary",
}
"""Tests that take long, and the model whose traits they are about; on others they are slow."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the slow run what is about no trait of a model."""
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname in TRAITS and item.path.parent == FOLDER:
            subject = item.callspec.params["whole"]
            assert isinstance(subject, Subject)
            if subject.name != TRAITS[item.originalname]:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package", params=MODELS, ids=lambda subject: subject.name)
def whole(
    request: pytest.FixtureRequest, qapp: QApplication, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MainWindow, Subject]]:
    """One window for every test of a model."""
    subject: Subject = request.param
    folder = tmp_path_factory.mktemp("model")
    path = subject.path(folder / "checkpoint")
    imported.set_aside()  # the classes of its family
    with opened_window(folder, None if path is None else str(path), subject.prompt, layers=subject.layers) as window:
        for card in window.cards.values():
            card.make_panel()  # here, for their menus live as long as this window, and not as one test
        yield window, subject


@pytest.fixture
def window(whole: tuple[MainWindow, Subject]) -> MainWindow:
    """The window with the prompt on screen, nothing changed in the model, and one cell selected."""
    window, subject = whole
    session = window.session
    session.baseline.unpin()
    if session.interventions.now:
        session.interventions.apply(())
        snapshot.wait_until_drawn(window)
    if run_of(window).prompt != subject.prompt or run_of(window).newest > run_of(window).prefill:
        session.start(Prompt(subject.prompt))
        snapshot.wait_until_drawn(window)
    session.selection.update(layer=LAYER, head=HEAD, query=QUERY, key=KEY, plane=0)
    snapshot.wait_until_drawn(window)
    assert session.consistency.check is not None
    assert session.consistency.check.holds
    return window
