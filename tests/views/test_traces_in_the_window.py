"""A window on a trace: what it says is open, what can be done with it and what cannot, and how it gets its weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QFileDialog

from ropewalk.app.files.shot import Shot
from ropewalk.model.decoder.config import FIRST_LAYERS
from ropewalk.model.engine import engine
from ropewalk.model.errors import RopewalkError
from ropewalk.model.options import ADAPTER, TRANSFORMERS, VIA
from ropewalk.model.progress import finished
from ropewalk.model.readings.records import Sampling
from ropewalk.model.runs.trace import capture
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.trace_file import save_trace
from ropewalk.views.main_window import MainWindow
from ropewalk.views.pictures import snapshot
from ropewalk.views.pictures.shot import take
from ropewalk.views.stage.workspaces import NAMED
from ropewalk.views.window.open_dialog import OpenDialog
from tests.app.tiny_checkpoint import write_checkpoint
from tests.views.driving import click, front, opened_window, run_of, settle
from tests.views.measuring import faults

SMALL = (1366, 768)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("traces") / "tiny")


@pytest.fixture(scope="module")
def trace(tiny: Path) -> Path:
    """A run of six tokens and two that were decoded."""
    model = finished(engine.open_model(str(tiny), "cpu", "float32"))
    handle = finished(engine.run(model, Prompt("abcabc"), 1, (0, 0)))
    path = tiny.parent / "run.safetensors"
    engine.save(finished(engine.step(handle, 2, Sampling(), past_end=True)), path)
    return path


@pytest.fixture(scope="module")
def several(tiny: Path) -> Path:
    """A run of three prompts at once."""
    model = finished(engine.open_model(str(tiny), "cpu", "float32"))
    path = tiny.parent / "several.safetensors"
    save_trace(capture(model.checkpoint.model, torch.arange(3 * 5).reshape(3, 5)), path)
    return path


@pytest.fixture
def window(qapp: QApplication, tmp_path: Path, trace: Path) -> Iterator[MainWindow]:
    with opened_window(tmp_path, str(trace), "abcabc") as made:
        yield made


def doing(window: MainWindow) -> dict[str, QAbstractButton]:
    """Buttons that need the model."""
    heads, experiments = front(window, "heads"), front(window, "experiments")
    next_token, timeline = front(window, "next_token"), front(window, "timeline")
    bar, cache = window.bar, front(window, "cache")
    cache.turn_to("proof")
    return {
        "run": bar.run,
        "step": bar.steps.buttons["step"],
        "play": bar.steps.buttons["toggle_play"],
        "run to": next_token.run_button,
        "branch": timeline.branch_button,
        "silence": heads.silence,
        "random repeats": heads.repeats,
        "zero": experiments.buttons["zero"],
        "no RoPE": experiments.buttons["rope_off"],
        "cached": cache.check.buttons["cached"],
        "fused": cache.check.buttons["branches"],
    }


def test_a_panel_that_lacks_the_weights_attaches_them(window: MainWindow, tiny: Path) -> None:
    panel = front(window, "walk")
    assert panel.notice.isVisible()
    assert panel.attach_button.isVisible()
    assert "made with tiny" in panel.attach_button.toolTip()
    QTest.mouseClick(panel.attach_button, Qt.MouseButton.LeftButton)
    dialog = window.findChildren(QFileDialog)[-1]
    assert dialog.windowTitle() == "Attach tiny"
    dialog.fileSelected.emit(str(tiny))
    dialog.close()
    snapshot.wait_until_drawn(window)
    assert panel.body.isVisible()
    assert not panel.attach_button.isVisible()
    assert all(button.isVisible() for button in panel.buttons.values())


def test_what_needs_the_model_is_offered_once_it_is_there(window: MainWindow, tiny: Path) -> None:
    for name, button in doing(window).items():
        assert not button.isEnabled(), name
        assert button.toolTip().endswith("attach its checkpoint (tiny)."), name
    assert not window.bar.device.isEnabled()
    assert window.bar.steps.buttons["step_back"].isEnabled()
    click(window, window.bar.steps.buttons["step_back"])
    click(window, window.bar.steps.buttons["step"])  # what was decoded can be looked at
    assert run_of(window).length == 8
    assert not window.bar.steps.buttons["step"].isEnabled()
    window.session.attaching.attach(str(tiny))
    snapshot.wait_until_drawn(window)
    for name, button in doing(window).items():
        assert button.isEnabled(), name
        assert "attach" not in button.toolTip(), name
    assert window.bar.device.isEnabled()


def test_the_window_says_what_is_open(window: MainWindow, trace: Path, tiny: Path) -> None:
    assert window.status.facts.text().startswith("tiny, a trace · run.safetensors · no weights · float32 · ")
    assert " ms" not in window.status.facts.text()
    assert f"It was made with tiny at {tiny}." in window.bar.checkpoint.toolTip()
    assert "attach its checkpoint (tiny)" in window.status.check.toolTip()
    settings = window.session.settings
    settings.remember_checkpoint("/models/base", {ADAPTER: "/adapters/mine"})
    settings.remember_checkpoint("/models/odd", {VIA: TRANSFORMERS})
    menu = window.bar.checkpoint.menu()
    menu.aboutToShow.emit()
    offered = {action.text() for action in menu.actions()}
    assert {"base + mine", "odd, via transformers", "run.safetensors"} <= offered


@pytest.mark.usefixtures("qapp")
def test_a_picture_of_a_trace_takes_no_options_of_weights(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(RopewalkError, match="is a trace, a run without weights; leave --layers out"):
        take(Shot(tmp_path / "a.png", str(trace), options=((FIRST_LAYERS, 1),)))


def test_heads_that_matter_are_explained_as_a_whole(window: MainWindow) -> None:
    panel = front(window, "needs")
    assert panel.notice.isVisible()
    assert panel.attach_button.isVisible()
    assert not panel.run_button.isVisible()


def test_one_prompt_of_several_is_shown_and_another_can_be_chosen(window: MainWindow, several: Path) -> None:
    dialog = window.choose_checkpoint(str(several))
    snapshot.wait_until_drawn(window)
    box = next(box for box in dialog.findChildren(QComboBox) if box.accessibleName() == "prompt")
    assert [box.itemText(place) for place in range(box.count())] == ["1", "2", "3"]
    box.setCurrentText("2")
    QTest.mouseClick(dialog.open_button, Qt.MouseButton.LeftButton)
    snapshot.wait_until_drawn(window)
    assert not any(one.isVisible() for one in window.findChildren(OpenDialog))
    assert [token.id for token in run_of(window).tokens[:5]] == [5, 6, 7, 8, 9]
    assert "several.safetensors (prompt 2 of 3)" in window.status.facts.text()
    assert "a trace; its file does not say of which checkpoint" in window.status.facts.text()
    assert window.session.handle is not None
    assert window.session.handle.trace is not None


def test_nothing_of_a_trace_is_cut_off_or_covered(window: MainWindow) -> None:
    found = []
    window.resize(*SMALL)
    for name in (*NAMED, "walk", "lens", "needs", "experiments"):
        if name in NAMED:
            window.show_workspace(name)
        else:
            window.reveal(name)
        for _ in range(2):  # the lessons are read a turn after they are seen
            snapshot.wait_until_drawn(window)
            settle(window.session)
        snapshot.settle(window)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)  # what helped to make the panels
        found += [f"{name}: {fault}" for fault in faults(window)]
    assert window.size().toTuple() == SMALL
    assert found == []


def test_two_that_cannot_be_compared_say_why_where_the_maps_would_be(window: MainWindow, several: Path) -> None:
    session = window.session
    session.baseline.pin()
    panel = front(window, "compare")
    session.opening.open(str(several))
    with pytest.raises(RopewalkError, match="no token in common"):
        snapshot.wait_until_drawn(window)
    snapshot.settle(window)
    assert panel.notice.text() == "A and B have no token in common, so no rows can be compared; run one text on both."
    assert panel.notice.isVisible()
    assert not panel.body.isVisible()


def test_the_built_in_model_is_attached_without_a_question(window: MainWindow, tmp_path: Path) -> None:
    model = finished(engine.open_model(None, "cpu", "float32"))
    path = tmp_path / "built_in.safetensors"
    engine.save(finished(engine.run(model, Prompt("abc"), 1, (0, 0))), path)
    window.session.opening.open(str(path))
    snapshot.wait_until_drawn(window)
    panel = front(window, "lens")
    assert panel.notice.text().endswith("; attach its checkpoint (the built-in model).")
    click(window, panel.attach_button)
    assert not window.findChildren(QFileDialog)
    assert panel.body.isVisible()
    assert window.status.facts.text().startswith("built-in model · ")
