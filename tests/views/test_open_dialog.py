"""The Open dialog: what is listed, what is stated before loading, questions, progress, cancel, and what fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLabel
from pytestqt.qtbot import QtBot

from app.door import Choice, Outlined
from app.local_models import LocalModel
from model.config import FIRST_LAYERS
from model.prompt import Prompt
from tests.views.fake_session import FakeSession, card
from views.main_window import MainWindow
from views.open_dialog import OpenDialog
from views.prompt_bar import PromptBar

LEFT = Qt.MouseButton.LeftButton
CHOICE = Choice("heads", "How many query heads does it have?", (4, 8, 16), 8)


def outlined(session: FakeSession, path: str, **changes: Any) -> Outlined:
    sizes = {"float32": 540_000_000, "bfloat16": 270_000_000, "float16": 270_000_000}
    kv = {"float32": 92_160_000, "bfloat16": 46_080_000, "float16": 46_080_000}
    values: dict[str, Any] = {"holds_weights": True} | changes
    return Outlined("smol", path, "llama", session.config, 135_000_000, sizes, kv, **values)


@pytest.fixture
def dialog(qtbot: QtBot, running: FakeSession) -> OpenDialog:
    running.outlines = {None: outlined(running, ""), "/models/smol": outlined(running, "/models/smol")}
    running.outlines["/models/mini.pth"] = outlined(running, "/models/mini.pth", choices=(CHOICE,))
    running.outlines["/models/shapes"] = outlined(running, "/models/shapes", holds_weights=False)
    running.settings.remember_checkpoint("/models/smol")
    running.local = (LocalModel("org/tiny", "/cache/tiny", 5_000_000),)
    running.opens_at_once = False
    made = OpenDialog(running)  # type: ignore[arg-type]
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(made)
    made.show()
    return made


def said(dialog: OpenDialog) -> str:
    QApplication.processEvents()
    return "\n".join(label.text() for label in dialog.findChildren(QLabel) if label.isVisible())


def click_on(dialog: OpenDialog, text: str) -> None:
    item = dialog.known.findItems(text, Qt.MatchFlag.MatchStartsWith)[0]
    box = dialog.known.visualItemRect(item)
    QTest.mouseClick(dialog.known.viewport(), LEFT, pos=box.center())


def test_it_lists_recent_ones_and_the_local_cache(dialog: OpenDialog) -> None:
    listed = [dialog.known.item(i).text() for i in range(dialog.known.count())]
    assert listed[0] == "Bundled model"
    assert any(text.startswith("smol ") for text in listed)
    assert "org/tiny   5.00 MB" in listed


def test_a_click_states_the_costs_and_open_opens(dialog: OpenDialog, running: FakeSession) -> None:
    click_on(dialog, "smol")
    assert "135 M parameters" in said(dialog)
    assert "540 MB" in said(dialog)
    assert "270 MB" in said(dialog)
    assert "92.2 MB" in said(dialog)
    dialog.dtype.setCurrentText("bfloat16")
    QTest.mouseClick(dialog.open_button, LEFT)
    assert running.calls[-1] == ("open", "/models/smol", None, "bfloat16")
    running.report("Loading layer 3", 3, 30)
    assert (dialog.bar.value(), dialog.bar.maximum()) == (3, 30)
    assert "Loading layer 3" in dialog.notice.text()
    running.model_changed.emit(running.model)
    assert not dialog.isVisible()


def test_the_first_layers_can_be_opened_alone(dialog: OpenDialog, running: FakeSession) -> None:
    click_on(dialog, "smol")
    assert dialog.outlined is not None
    layers = dialog.outlined.config.layers
    assert (dialog.layers.value(), dialog.layers.text()) == (layers, f"{layers} of {layers}")
    dialog.layers.setFocus()
    dialog.layers.selectAll()
    QTest.keyClicks(dialog.layers, "1")
    QTest.mouseClick(dialog.open_button, LEFT)
    assert running.calls[-1] == ("open", "/models/smol", None, "float32", {"first_layers": 1})


def test_cancel_while_opening_cancels_and_stays(dialog: OpenDialog, running: FakeSession) -> None:
    click_on(dialog, "smol")
    QTest.mouseClick(dialog.open_button, LEFT)
    QTest.mouseClick(dialog.cancel, LEFT)
    assert running.calls[-1] == ("cancel",)
    assert dialog.isVisible()
    assert "stays open" in dialog.notice.text()
    QTest.mouseClick(dialog.cancel, LEFT)
    assert not dialog.isVisible()


def test_a_failure_is_one_sentence_and_the_dialog_stays(dialog: OpenDialog, running: FakeSession) -> None:
    click_on(dialog, "smol")
    QTest.mouseClick(dialog.open_button, LEFT)
    running.failed.emit("model.safetensors ends early.", "")
    assert dialog.notice.text() == "model.safetensors ends early."
    assert dialog.isVisible()
    assert dialog.open_button.isEnabled()


def test_a_path_that_is_not_there_says_so(dialog: OpenDialog) -> None:
    QTest.keyClicks(dialog.path, "/nowhere")
    assert dialog.notice.text() == "There is nothing at /nowhere; check the path."
    assert not dialog.open_button.isEnabled()


def test_what_a_file_leaves_open_is_asked(dialog: OpenDialog, running: FakeSession) -> None:
    dialog.path.setText("/models/mini.pth")
    assert CHOICE.sentence in said(dialog)
    box = next(box for box in dialog.findChildren(QComboBox) if box.accessibleName() == "heads")
    assert box.currentText() == "8"
    box.setCurrentText("4")
    QTest.mouseClick(dialog.open_button, LEFT)
    assert running.calls[-1][-1] == {"heads": 4}


def test_shapes_alone_state_costs_but_do_not_open(dialog: OpenDialog) -> None:
    dialog.path.setText("/models/shapes")
    assert "540 MB" in said(dialog)
    assert "only shapes" in dialog.notice.text()
    assert not dialog.open_button.isEnabled()


def drop(window: MainWindow, path: str) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path)])
    actions, buttons, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    entered = QDragEnterEvent(QPoint(200, 200), actions, data, buttons, none)
    QApplication.sendEvent(window, entered)
    assert entered.isAccepted()
    QApplication.sendEvent(window, QDropEvent(QPointF(200, 200), actions, data, buttons, none))


@pytest.mark.parametrize(("path", "asks"), [("/models/smol", False), ("/models/mini.pth", True)])
def test_a_dropped_path_opens_unless_it_leaves_something_open(
    qtbot: QtBot, running: FakeSession, path: str, asks: bool
) -> None:
    running.outlines = {
        None: outlined(running, ""),
        "/models/smol": outlined(running, "/models/smol"),
        "/models/mini.pth": outlined(running, "/models/mini.pth", choices=(CHOICE,)),
    }
    window = MainWindow(running, restore=False)  # type: ignore[arg-type]
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    drop(window, path)
    asked = [dialog for dialog in window.findChildren(OpenDialog) if dialog.isVisible()]
    assert bool(asked) is asks
    assert (("open", path, None, "float32") in running.calls) is not asks
    for dialog in asked:
        dialog.reject()


@pytest.mark.parametrize(("path", "asks"), [("/models/smol", False), ("/models/mini.pth", True)])
def test_a_recent_one_from_the_menu_comes_through_the_same_door(
    qtbot: QtBot, running: FakeSession, path: str, asks: bool
) -> None:
    running.outlines = {
        None: outlined(running, ""),
        "/models/smol": outlined(running, "/models/smol"),
        "/models/mini.pth": outlined(running, "/models/mini.pth", choices=(CHOICE,)),
    }
    running.settings.remember_checkpoint(path)
    window = MainWindow(running, restore=False)  # type: ignore[arg-type]
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    menu = window.bar.checkpoint.menu()
    menu.popup(QPoint(0, 0))
    entry = next(action for action in menu.actions() if action.toolTip().startswith(path))
    QTest.mouseClick(menu, LEFT, pos=menu.actionGeometry(entry).center())
    asked = [dialog for dialog in window.findChildren(OpenDialog) if dialog.isVisible()]
    assert bool(asked) is asks
    assert (("open", path, None, "float32") in running.calls) is not asks
    for dialog in asked:
        assert dialog.path.text() == path
        QTest.mouseClick(dialog.open_button, LEFT)
        assert running.calls[-2] == ("open", path, None, "float32", {"heads": 8})


def test_what_was_answered_once_is_not_asked_again(dialog: OpenDialog, running: FakeSession) -> None:
    running.settings.remember_checkpoint("/models/mini.pth", {"heads": 16, FIRST_LAYERS: 3})
    dialog.look_at("/models/mini.pth")
    assert dialog.options() == {"heads": 16, FIRST_LAYERS: 3}, "the dialog proposes it"
    dialog.look_at("", at_once=False)
    dialog.look_at("/models/mini.pth", at_once=True)
    assert running.calls[-1] == ("open", "/models/mini.pth", None, "float32", {"heads": 16, FIRST_LAYERS: 3})


def test_ids_and_special_tokens_are_chosen_in_the_bar(
    qtbot: QtBot, running: FakeSession, shown: Callable[..., Any]
) -> None:
    bar = PromptBar(running)  # type: ignore[arg-type]
    qtbot.addWidget(bar)
    bar.resize(1280, 40)
    bar.show()
    assert not bar.special.isVisible()
    running.model = card(running.config, bos="<s>")
    running.model_changed.emit(running.model)
    assert bar.special.isVisible()
    assert bar.special.text() == "<s>"
    QTest.mouseClick(bar.special, LEFT)
    QTest.mouseClick(bar.run, LEFT)
    assert (running.prompt.as_ids, running.prompt.special) == (False, False)
    QTest.mouseClick(bar.ids, LEFT)
    bar.prompt.setText("1, 2, 3")
    QTest.keyClick(bar.prompt, Qt.Key.Key_Return)
    assert running.prompt == Prompt("1, 2, 3", as_ids=True, special=False)
    assert running.calls[-1] == ("start", "1, 2, 3")
    assert not bar.special.isVisible()


def test_a_model_without_a_tokenizer_takes_ids(qtbot: QtBot, running: FakeSession) -> None:
    bar = PromptBar(running)  # type: ignore[arg-type]
    qtbot.addWidget(bar)
    running.model = card(running.config, has_tokenizer=False)
    running.model_changed.emit(running.model)
    assert "ids" in bar.prompt.placeholderText()
    assert not bar.ids.isEnabled()


def test_a_name_is_downloaded_only_when_that_is_pressed(dialog: OpenDialog, running: FakeSession) -> None:
    running.outlines["/cache/org/small"] = outlined(running, "/cache/org/small")
    QTest.keyClicks(dialog.path, "org/small")
    assert dialog.download.isVisible()
    assert not any(call[0] == "download" for call in running.calls)
    QTest.mouseClick(dialog.download, LEFT)
    assert ("download", "org/small") in running.calls
    assert running.calls[-1] == ("open", "/cache/org/small", None, "float32")
    assert not dialog.download.isVisible()


def test_what_goes_on_beside_a_download_does_not_end_it(
    dialog: OpenDialog, running: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.outlines["/cache/small"] = outlined(running, "/cache/small")
    fetched: list[Callable[[str], None]] = []
    monkeypatch.setattr(running, "download", lambda name, arrived, failed: fetched.append(arrived))
    dialog.path.setText("org/small")
    QTest.mouseClick(dialog.download, LEFT)
    running.failed.emit("Length 513 was asked for.", "")
    running.model_changed.emit(running.model)
    assert dialog.isVisible()
    assert dialog.opening
    assert "Downloading org/small" in said(dialog)
    fetched[0]("/cache/small")
    assert running.calls[-1] == ("open", "/cache/small", None, "float32")
    running.failed.emit("It is damaged.", "")
    assert not dialog.opening
    assert "It is damaged." in said(dialog)


def test_the_focus_on_the_list_is_no_choice(dialog: OpenDialog, running: FakeSession) -> None:
    dialog.look_at("/models/smol")
    dialog.known.setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    assert dialog.path.text() == "/models/smol"
    click_on(dialog, "Bundled")
    assert dialog.path.text() == ""
    assert dialog.outlined is running.outlines[None]
