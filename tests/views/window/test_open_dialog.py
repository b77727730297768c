"""The Open dialog: what is listed, what is stated before loading, questions, progress, cancel, and what fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QCursor, QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLabel
from pytestqt.qtbot import QtBot

from ropewalk.app.engine.connection import Connection
from ropewalk.app.session.session import Session
from ropewalk.model.decoder.config import FIRST_LAYERS
from ropewalk.model.engine.interface import CheckpointOutline, Choice
from ropewalk.model.options import ADAPTER, FAMILY, IGNORE, Option
from ropewalk.model.progress import Progress, Steps
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views import main_window
from ropewalk.views.main_window import MainWindow
from ropewalk.views.window.open_dialog import OpenDialog
from ropewalk.views.window.prompt_bar import PromptBar
from tests.fake_engine import Gate
from tests.views.canned import CONFIG, CannedEngine
from tests.views.driving import meant, run_on, settle, window_over

LEFT = Qt.MouseButton.LeftButton
CHOICE = Choice("heads", "How many query heads does it have?", (4, 8, 16), 8)


def outline(path: str, **changes: Any) -> CheckpointOutline:
    sizes = {"float32": 540_000_000, "bfloat16": 270_000_000, "float16": 270_000_000}
    kv = {"float32": 92_160_000, "bfloat16": 46_080_000, "float16": 46_080_000}
    values: dict[str, Any] = {"holds_weights": True} | changes
    return CheckpointOutline("smol", path, "llama", CONFIG, 135_000_000, sizes, kv, **values)


@pytest.fixture
def engine() -> CannedEngine:
    """An engine that knows some checkpoints."""
    known = (
        outline(""),
        outline("/models/smol"),
        outline("/models/mini.pth", choices=(CHOICE,)),
        outline("/models/shapes", holds_weights=False),
    )
    return CannedEngine(outlines={one.path or None: one for one in known})


@pytest.fixture
def dialog(qtbot: QtBot, running: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenDialog:
    snapshot = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").touch()
    with (snapshot / "model.safetensors").open("wb") as weights:
        weights.truncate(5_000_000)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    running.settings.remember_checkpoint("/models/smol")
    running.jobs.show_after = 0.0
    made = OpenDialog(running)
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(made)
    made.show()
    settle(running)
    return made


def texts_of(dialog: OpenDialog) -> str:
    QApplication.processEvents()
    return "\n".join(label.text() for label in dialog.findChildren(QLabel) if label.isVisible())


def click_on(dialog: OpenDialog, text: str) -> None:
    item = dialog.known.findItems(text, Qt.MatchFlag.MatchStartsWith)[0]
    box = dialog.known.visualItemRect(item)
    QTest.mouseClick(dialog.known.viewport(), LEFT, pos=box.center())
    settle(dialog.session)


def test_it_lists_recent_ones_and_the_local_cache(dialog: OpenDialog) -> None:
    listed = [dialog.known.item(i).text() for i in range(dialog.known.count())]
    assert listed[0] == "Built-in model"
    assert any(text.startswith("smol ") for text in listed)
    assert "org/tiny   4.768 MiB" in listed


def test_an_engine_is_there_by_the_time_that_something_is_chosen(dialog: OpenDialog, running: Session) -> None:
    current, fresh = running.engines.current, running.engines.prepare()
    assert fresh is not current
    assert len(running.engines.findChildren(Connection)) == 2
    dialog.reject()
    assert fresh.gone is not None
    assert current.gone is None


def test_closing_it_ends_no_engine_in_which_another_is_brought_back(
    qtbot: QtBot, dialog: OpenDialog, running: Session, engine: CannedEngine
) -> None:
    engine.gate.shut()
    running.engines.current.kill()
    running.recovery.restart()
    qtbot.waitUntil(engine.gate.reached.is_set)
    dialog.reject()
    engine.gate.open.set()
    with qtbot.waitSignal(running.recovery.engine_back):
        pass
    settle(running)


def test_an_opening_that_does_not_hear_its_cancel_is_ended(
    qtbot: QtBot, dialog: OpenDialog, running: Session, engine: CannedEngine
) -> None:
    click_on(dialog, "smol")
    before = running.run
    engine.gate.shut()
    QTest.mouseClick(dialog.open_button, LEFT)
    qtbot.waitUntil(engine.gate.reached.is_set)
    opener = running.engines.prepare()
    QTest.mouseClick(dialog.cancel, LEFT)
    opener.unheard.emit()
    assert opener.gone is not None
    settle(running)
    assert "did not hear the cancel, so it was ended" in dialog.notice.text()
    assert running.run is before
    assert running.engines.gone is None


def test_what_is_looked_at_is_said_at_once_and_nothing_of_another_is_shown(
    dialog: OpenDialog, running: Session, engine: CannedEngine
) -> None:
    click_on(dialog, "smol")
    asked: list[str | None] = []
    outlined = engine.outline_of

    def outline_of(path: str | None) -> CheckpointOutline:
        asked.append(path)
        return outlined(path)

    engine.outline_of = outline_of  # type: ignore[method-assign]
    item = dialog.known.findItems("Built-in", Qt.MatchFlag.MatchStartsWith)[0]
    QTest.mouseClick(dialog.known.viewport(), LEFT, pos=dialog.known.visualItemRect(item).center())
    assert dialog.notice.text() == "Looking at the built-in model …"
    assert not dialog.open_button.isEnabled()
    assert "135 M" not in texts_of(dialog)
    settle(running)
    assert asked == [None]
    assert "Looking" not in dialog.notice.text()
    assert dialog.open_button.isEnabled()
    dialog.path.setText("/models/nowhere/ ")
    assert dialog.notice.text() == "Looking at nowhere …"
    settle(running)
    assert "Looking" not in dialog.notice.text()


def test_a_click_states_the_costs_and_open_opens(
    qtbot: QtBot, dialog: OpenDialog, running: Session, engine: CannedEngine
) -> None:
    click_on(dialog, "smol")
    assert "135 M parameters" in texts_of(dialog)
    assert "515 MiB" in texts_of(dialog)
    assert "257.5 MiB" in texts_of(dialog)
    assert "87.89 MiB" in texts_of(dialog)
    dialog.dtype.setCurrentText("bfloat16")
    engine.gate.shut()
    QTest.mouseClick(dialog.open_button, LEFT)
    qtbot.waitUntil(lambda: dialog.notice.text() == "Loading the weights")
    assert (dialog.bar.value(), dialog.bar.maximum()) == (0, 4)
    assert dialog.isVisible()
    engine.gate.open.set()
    settle(running)
    assert "open /models/smol cpu bfloat16" in engine.calls
    assert (run_on(running).model.path, run_on(running).model.dtype) == ("/models/smol", "bfloat16")
    assert not dialog.isVisible()


def test_the_first_layers_can_be_opened_alone(dialog: OpenDialog, running: Session, engine: CannedEngine) -> None:
    click_on(dialog, "smol")
    assert dialog.outline is not None
    layers = dialog.outline.config.layers
    assert (dialog.layers.value(), dialog.layers.text()) == (layers, f"{layers} of {layers}")
    dialog.layers.setFocus()
    dialog.layers.selectAll()
    QTest.keyClicks(dialog.layers, "1")
    QTest.mouseClick(dialog.open_button, LEFT)
    settle(running)
    assert "open /models/smol cpu float32 {'first_layers': 1}" in engine.calls
    assert running.model_handle is not None
    assert running.model_handle.options == (("first_layers", 1),)


def test_transformers_may_run_it_instead(dialog: OpenDialog, running: Session, engine: CannedEngine) -> None:
    click_on(dialog, "smol")
    assert dialog.layers.isEnabled()
    QTest.mouseClick(dialog.via, LEFT, pos=QPoint(8, dialog.via.height() // 2))
    settle(running)
    assert dialog.via.isChecked()
    assert dialog.outline is not None
    assert not dialog.layers.isEnabled()
    QTest.mouseClick(dialog.open_button, LEFT)
    settle(running)
    assert "open /models/smol cpu float32 {'via': 'transformers'}" in engine.calls
    again = OpenDialog(running)
    again.look_at("/models/smol")
    assert again.via.isChecked()  # as it was opened the last time
    again.look_at("/models/mini.pth")
    assert not again.via.isChecked()
    again.close()


def test_cancel_while_opening_cancels_and_stays(
    qtbot: QtBot, dialog: OpenDialog, running: Session, engine: CannedEngine
) -> None:
    click_on(dialog, "smol")
    before = running.model_handle
    engine.gate.shut()
    QTest.mouseClick(dialog.open_button, LEFT)
    qtbot.waitUntil(engine.gate.reached.is_set)
    QTest.mouseClick(dialog.cancel, LEFT)
    assert not running.busy
    engine.gate.open.set()
    qtbot.waitUntil(lambda: engine.closed == ["loading /models/smol"])
    assert running.model_handle is before
    assert dialog.isVisible()
    assert "stays open" in dialog.notice.text()
    QTest.mouseClick(dialog.cancel, LEFT)
    assert not dialog.isVisible()


def test_a_failure_is_one_sentence_and_the_dialog_stays(
    dialog: OpenDialog, running: Session, engine: CannedEngine
) -> None:
    click_on(dialog, "smol")
    engine.devices = ("cuda",)
    QTest.mouseClick(dialog.open_button, LEFT)
    settle(running)
    assert dialog.notice.text() == "There is no cpu here; the devices are cuda."
    assert dialog.isVisible()
    assert dialog.open_button.isEnabled()


def test_a_path_that_is_not_there_says_so(dialog: OpenDialog) -> None:
    QTest.keyClicks(dialog.path, "/nowhere")
    settle(dialog.session)
    assert dialog.notice.text() == "There is nothing at /nowhere; check the path."
    assert not dialog.open_button.isEnabled()


def test_what_a_file_leaves_open_is_asked(dialog: OpenDialog, running: Session, engine: CannedEngine) -> None:
    dialog.path.setText("/models/mini.pth")
    settle(running)
    assert CHOICE.sentence in texts_of(dialog)
    box = next(box for box in dialog.findChildren(QComboBox) if box.accessibleName() == "heads")
    assert box.currentText() == "8"
    box.setCurrentText("4")
    QTest.mouseClick(dialog.open_button, LEFT)
    settle(running)
    assert "open /models/mini.pth cpu float32 {'heads': 4}" in engine.calls


def test_shapes_alone_state_costs_but_do_not_open(dialog: OpenDialog) -> None:
    dialog.path.setText("/models/shapes")
    settle(dialog.session)
    assert "515 MiB" in texts_of(dialog)
    assert "only shapes" in dialog.notice.text()
    assert not dialog.open_button.isEnabled()


def drop(window: MainWindow, *paths: str) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path) for path in paths])
    actions, buttons, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    entered = QDragEnterEvent(QPoint(200, 200), actions, data, buttons, none)
    QApplication.sendEvent(window, entered)
    assert entered.isAccepted()
    QApplication.sendEvent(window, QDropEvent(QPointF(200, 200), actions, data, buttons, none))


@pytest.mark.parametrize(("path", "asks"), [("/models/smol", False), ("/models/mini.pth", True)])
def test_a_dropped_path_opens_unless_it_leaves_something_open(
    qtbot: QtBot, running: Session, path: str, asks: bool, engine: CannedEngine
) -> None:
    window = window_over(running)
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    drop(window, path)
    settle(running)
    asked = [dialog for dialog in window.findChildren(OpenDialog) if dialog.isVisible()]
    assert bool(asked) is asks
    assert (f"open {path} cpu float32" in engine.calls) is not asks
    assert (run_on(running).model.path == path) is not asks
    for dialog in asked:
        dialog.reject()


def test_of_far_too_many_paths_none_is_looked_at(
    qtbot: QtBot, running: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def look(path: str) -> bool:
        looked.append(path)
        return False

    monkeypatch.setattr(main_window, "holds_surveys", look)
    window = window_over(running)
    qtbot.addWidget(window)
    drop(window, *map(str, range(main_window.MOST_DROPPED + 1)))
    assert looked == []
    assert window.failure.sentence.text() == (
        "1,001 files were dropped; drop one, or the folders of a series of surveys, of which there are at most 1,000."
    )
    drop(window, "/models/smol")
    assert looked == ["/models/smol"]


@pytest.mark.parametrize(("path", "asks"), [("/models/smol", False), ("/models/mini.pth", True)])
def test_a_recent_one_from_the_menu_is_opened_the_same_way(
    qtbot: QtBot, running: Session, path: str, asks: bool, engine: CannedEngine
) -> None:
    running.settings.remember_checkpoint(path)
    window = window_over(running)
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    menu = window.bar.checkpoint.menu()
    QCursor.setPos(window.mapToGlobal(window.rect().bottomRight()))  # a click where it rests would be that of opening
    QApplication.processEvents()
    menu.popup(QPoint(0, 0))
    assert QApplication.activePopupWidget() is menu
    entry = next(action for action in menu.actions() if action.toolTip().startswith(path))
    assert menu.actionAt(menu.actionGeometry(entry).center()) is entry
    QTest.mouseClick(menu, LEFT, pos=menu.actionGeometry(entry).center())
    settle(running)
    asked = [dialog for dialog in window.findChildren(OpenDialog) if dialog.isVisible()]
    assert bool(asked) is asks
    assert (f"open {path} cpu float32" in engine.calls) is not asks
    assert (run_on(running).model.path == path) is not asks
    for dialog in asked:
        assert dialog.path.text() == path
        QTest.mouseClick(dialog.open_button, LEFT)
        settle(running)
        assert f"open {path} cpu float32 {{'heads': 8}}" in engine.calls


def test_what_was_answered_once_is_not_asked_again(dialog: OpenDialog, running: Session) -> None:
    running.settings.remember_checkpoint("/models/mini.pth", {"heads": 16, FIRST_LAYERS: 3})
    dialog.look_at("/models/mini.pth")
    settle(running)
    assert dialog.options() == {"heads": 16, FIRST_LAYERS: 3}, "the dialog proposes it"
    dialog.look_at("", at_once=False)
    settle(running)
    dialog.look_at("/models/mini.pth", at_once=True)
    settle(running)
    assert running.model_handle is not None
    assert running.model_handle.card.path == "/models/mini.pth"
    assert dict(running.model_handle.options) == {"heads": 16, FIRST_LAYERS: 3}


def test_an_adapter_and_fields_to_ignore_are_asked_for_beside_the_path(
    dialog: OpenDialog, running: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[str | None, dict[str, Option]]] = []
    outline_of = running.checkpoints.outline

    def outline(path: str | None, answer: Any, failed: Any, options: dict[str, Option]) -> None:
        looked.append((path, options))
        outline_of(path, answer, failed, options)

    monkeypatch.setattr(running.checkpoints, "outline", outline)
    dialog.look_at("/models/smol")
    QTest.keyClicks(dialog.asked[ADAPTER], "/a/mine")
    QTest.keyClicks(dialog.asked[IGNORE], "x,y")
    settle(running)
    wanted = {ADAPTER: "/a/mine", IGNORE: "x,y"}
    assert looked[-1] == ("/models/smol", wanted)
    QTest.mouseClick(dialog.open_button, LEFT)
    settle(running)
    assert running.model_handle is not None
    assert dict(running.model_handle.options) == wanted
    assert running.opened.answers["/models/smol"] == wanted


def test_what_is_beside_the_path_is_proposed_again_and_what_was_typed_stays(
    dialog: OpenDialog, running: Session
) -> None:
    running.settings.remember_checkpoint("/models/smol", {ADAPTER: "/a/mine"})
    dialog.look_at("/models/smol")
    settle(running)
    assert dialog.options() == {ADAPTER: "/a/mine"}
    dialog.look_at("/models/mini.pth")
    settle(running)
    assert dialog.asked[ADAPTER].text() == "", "it was of the other one"
    QTest.keyClicks(dialog.asked[FAMILY], "llama")
    dialog.look_at("/models/smol", adapter="/a/other")
    settle(running)
    assert dialog.options() == {ADAPTER: "/a/other", FAMILY: "llama"}


def test_a_dropped_adapter_is_proposed_for_the_model_that_is_open(
    qtbot: QtBot, running: Session, tmp_path: Path, engine: CannedEngine
) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    running.opening.open("/models/smol")
    settle(running)
    window = window_over(running)
    qtbot.addWidget(window)
    window.show()
    for dropped in (tmp_path, tmp_path / "adapter_model.safetensors"):
        drop(window, str(dropped))
        settle(running)
        (dialog,) = window.findChildren(OpenDialog)
        assert (dialog.path.text(), dialog.asked[ADAPTER].text()) == ("/models/smol", str(tmp_path))
        assert not any("adapter" in call for call in engine.calls), "it is asked first"
    QTest.mouseClick(dialog.open_button, LEFT)
    settle(running)
    assert f"open /models/smol cpu float32 {{'adapter': '{tmp_path}'}}" in engine.calls


def test_ids_and_special_tokens_are_chosen_in_the_bar(qtbot: QtBot, running: Session, engine: CannedEngine) -> None:
    bar = PromptBar(running)
    qtbot.addWidget(bar)
    bar.resize(1280, 40)
    bar.show()
    assert not bar.special.isVisible()
    engine.known = {"bos": "<s>"}
    running.opening.open(None)
    settle(running)
    assert bar.special.isVisible()
    assert bar.special.text() == "<s>"
    QTest.mouseClick(bar.special, LEFT)
    QTest.mouseClick(bar.run, LEFT)
    settle(running)
    assert (running.prompt.as_ids, running.prompt.special) == (False, False)
    assert meant(running) == running.prompt
    QTest.mouseClick(bar.ids, LEFT)
    bar.prompt.setText("1, 2, 3")
    QTest.keyClick(bar.prompt, Qt.Key.Key_Return)
    settle(running)
    assert running.prompt == meant(running) == Prompt("1, 2, 3", as_ids=True, special=False)
    assert run_on(running).prompt == "1, 2, 3"
    assert not bar.special.isVisible()


def test_a_model_without_a_tokenizer_takes_ids(qtbot: QtBot, running: Session, engine: CannedEngine) -> None:
    bar = PromptBar(running)
    qtbot.addWidget(bar)
    engine.known = {"has_tokenizer": False}
    running.opening.open(None)
    settle(running)
    assert "ids" in bar.prompt.placeholderText()
    assert not bar.ids.isEnabled()


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Gate]:
    """What was downloaded, to ``/cache``, and where a download can be held."""
    fetched, gate = [], Gate()

    def download(name: str) -> Steps[str]:
        fetched.append(name)
        yield (point := Progress(0, 1, ""))
        yield from gate.pass_through(point)
        return f"/cache/{name}"

    monkeypatch.setattr("ropewalk.app.models.serving.download_steps", download)
    return fetched, gate


def test_a_name_is_downloaded_only_when_that_is_pressed(
    qtbot: QtBot, dialog: OpenDialog, running: Session, engine: CannedEngine, network: tuple[list[str], Gate]
) -> None:
    engine.outlines["/cache/org/small"] = outline("/cache/org/small")
    QTest.keyClicks(dialog.path, "org/small")
    settle(running)
    assert dialog.download.isVisible()
    assert network[0] == []
    QTest.mouseClick(dialog.download, LEFT)
    qtbot.waitUntil(lambda: run_on(running).model.path == "/cache/org/small")
    assert network[0] == ["org/small"]
    assert not dialog.download.isVisible()


def test_what_goes_on_beside_a_download_does_not_end_it(
    qtbot: QtBot, dialog: OpenDialog, running: Session, engine: CannedEngine, network: tuple[list[str], Gate]
) -> None:
    engine.outlines["/cache/org/small"] = outline("/cache/org/small")
    gate = network[1]
    gate.shut()
    dialog.path.setText("org/small")
    settle(running)
    QTest.mouseClick(dialog.download, LEFT)
    with qtbot.waitSignal(running.failed):
        running.timeline.run_to(513)
    with qtbot.waitSignal(running.model_changed):
        running.opening.open(None)
    settle(running)
    assert dialog.isVisible()
    assert dialog.opening
    assert "Downloading org/small" in texts_of(dialog)
    engine.devices = ("cuda",)
    gate.open.set()
    # between the download and the opening, which begins once it is known what came, the dialog is idle for a moment
    qtbot.waitUntil(lambda: "open /cache/org/small cpu float32" in engine.calls and not dialog.opening)
    assert "There is no cpu here" in texts_of(dialog)
    assert dialog.isVisible()


def test_the_focus_on_the_list_is_no_choice(dialog: OpenDialog, running: Session, engine: CannedEngine) -> None:
    dialog.look_at("/models/smol")
    settle(running)
    dialog.known.setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    assert dialog.path.text() == "/models/smol"
    click_on(dialog, "Built-in")
    assert dialog.path.text() == ""
    assert dialog.outline is engine.outlines[None]


def test_what_is_dropped_while_the_dialog_is_open_is_looked_at_in_it(qtbot: QtBot, running: Session) -> None:
    window = MainWindow(running, restore=False)
    window.show()
    dialog = window.choose_checkpoint()
    assert window.choose_checkpoint("/models/smol") is dialog
    settle(running)
    assert dialog.outline is not None
    dialog.reject()
    assert window.choose_checkpoint() is not dialog
    window.close()
    window.deleteLater()
