"""Two checkpoints compared in the real window: row by row where heads agree in number, refused where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication

from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.compare import ELSEWHERE, ComparePanel
from ropewalk.views.pictures import snapshot
from tests.model.checkpoints import reference
from tests.views.driving import click, front, opened_window, run_of
from tests.views.shown_numbers import assert_shown
from tests.views.twin import Twin

IDS = "5 17 3 42 61 90 8 2"


def checkpoint(folder: Path, family: str, variant: str, seed: int = 0) -> Path:
    case = next(case for case in reference.CASES if (case.family, case.variant) == (family, variant))
    return reference.save(reference.build(case, seed), folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints of as many heads."""
    made = tmp_path_factory.mktemp("checkpoints")
    checkpoint(made / "dense", "qwen3", "plain")
    checkpoint(made / "experts", "qwen3_moe", "plain", seed=1)
    return made


@pytest.fixture(scope="module")
def shared(qapp: QApplication, folder: Path) -> Iterator[MainWindow]:
    with opened_window(folder, str(folder / "dense"), IDS, workspace="compare") as window:
        front(window, "compare")  # here, for the lists of its panels live as long as this window, and not as one test
        yield window


@pytest.fixture
def window(shared: MainWindow, folder: Path) -> MainWindow:
    """A window that shows a run of one checkpoint, pinned."""
    session = shared.session
    if run_of(shared).model.name != "dense":
        session.opening.open(str(folder / "dense"))
        snapshot.wait_until_drawn(shared)
    if run_of(shared).prompt != IDS:
        session.start(Prompt(IDS))
        snapshot.wait_until_drawn(shared)
    panel: ComparePanel = front(shared, "compare")
    click(shared, panel.pin_button)
    return shared


def open_other(window: MainWindow, path: Path | None) -> None:
    """Open another checkpoint, in which the same prompt is run."""
    window.session.opening.open(None if path is None else str(path))
    snapshot.wait_until_drawn(window)


def test_a_baseline_of_another_checkpoint_is_compared_row_by_row(window: MainWindow, folder: Path) -> None:
    panel: ComparePanel = front(window, "compare")
    a = Twin(window.session)
    said: list[str] = []
    window.session.run_changed.connect(lambda before, after: said.append(panel.notice.text()))
    open_other(window, folder / "experts")
    assert said == [ELSEWHERE]
    assert not panel.notice.isVisible()
    assert run_of(window).model.name == "experts"
    b, difference = Twin(window.session), panel.difference
    assert difference is not None
    assert "A: dense, B: experts" in panel.subtitle.text()
    assert difference.rows == tuple((row, row) for row in range(8))
    for layer, head in ((0, 0), (3, 5)):
        window.session.selection.update(layer=layer, head=head)
        snapshot.wait_until_drawn(window)
        difference = panel.difference
        assert difference is not None
        seen = np.tril(np.ones((8, 8), dtype=bool))
        assert np.array_equal(np.isfinite(difference.scores), seen)
        expected = (
            b.scores(layer, head)[seen] - a.scores(layer, head)[seen],
            b.weights(layer, head) - a.weights(layer, head),
        )
        assert np.allclose(difference.scores[seen], expected[0], atol=1e-4)
        assert np.allclose(difference.weights[seen], expected[1][seen], atol=1e-5)
        assert panel.scores.value(7, 3) == pytest.approx(difference.scores[7, 3], abs=1e-6)
    p, q = a.probabilities(7), b.probabilities(7)
    assert_shown(panel.sentence.text(), "KL(A‖B) {}", float((p * np.log(p / q)).sum()))
    assert f"{int(p.argmax())}" in panel.sentence.text()
    assert f"{int(q.argmax())}" in panel.sentence.text()


def test_another_prompt_on_another_checkpoint_leaves_the_rest_without_a_partner(
    window: MainWindow, folder: Path
) -> None:
    panel: ComparePanel = front(window, "compare")
    open_other(window, folder / "experts")
    window.session.start(Prompt(f"{IDS} 11 12"))
    snapshot.wait_until_drawn(window)
    difference = panel.difference
    assert difference is not None
    assert difference.rows[8:] == ((None, 8), (None, 9))
    assert not np.isfinite(difference.weights[9]).any()
    assert "2 rows have no partner" in panel.subtitle.text()


def test_heads_that_differ_in_number_are_refused_in_a_sentence(window: MainWindow) -> None:
    panel: ComparePanel = front(window, "compare")
    open_other(window, None)
    assert panel.notice.text() == ("A has 4 layers of 6 heads and this run 4 of 8, so their heads cannot be compared.")
    click(window, panel.pin_button)
    assert panel.difference is not None
    assert np.nanmax(np.abs(panel.difference.scores)) == 0
