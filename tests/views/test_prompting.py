"""The prompt bar over a real session: the chat template, ids, the BOS, and prompts longer than the model, by clicks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot
from safetensors.torch import load_file, save_file

from ropewalk.app.processes import new_session
from ropewalk.app.session.session import Session
from ropewalk.app.settings import SettingsStore
from ropewalk.model.decoder.interventions import RopeScaling
from ropewalk.model.readings.records import Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.window.chat_button import ChatButton
from ropewalk.views.window.prompt_bar import PromptBar
from tests.app.tiny_checkpoint import write_chatty, write_checkpoint
from tests.qt_guards import delete_what_is_due
from tests.views import driving
from tests.views.canned import CannedEngine
from tests.views.driving import LIGHT, meant, run_on, window_over

LEFT = Qt.MouseButton.LeftButton
LONG = "abcdefgh" * 10
Open = Callable[[Path, str], MainWindow]


@pytest.fixture
def opened(qtbot: QtBot, tmp_path: Path) -> Iterator[Open]:
    """Open a checkpoint in a real window."""
    windows: list[MainWindow] = []

    def show(path: Path, prompt: str) -> MainWindow:
        session = new_session(SettingsStore(tmp_path / "settings.json"))
        window = window_over(session)
        window.show_workspace(LIGHT)
        windows.append(window)
        window.resize(1280, 800)
        window.show()
        session.opening.begin(str(path), Prompt(prompt))
        settle(qtbot, window)
        return window

    yield show
    for window in windows:
        window.close()
        window.deleteLater()


@pytest.fixture
def chatty(tmp_path: Path) -> Path:
    return write_chatty(tmp_path / "chatty")


def settle(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: not window.session.busy and window.session.run is not None, timeout=30_000)


def test_a_pasted_prompt_is_not_cut(qtbot: QtBot, opened: Open, chatty: Path) -> None:
    window = opened(chatty, "ab")
    text = "word " * 8_000
    QApplication.clipboard().setText(text)
    for field in (window.bar.prompt, window.bar.chat.system):
        field.selectAll()
        field.paste()
        assert field.text() == text
    with qtbot.waitSignal(window.session.failed) as failed:
        QTest.keyClick(window.bar.prompt, Qt.Key.Key_Return)
    assert failed.args is not None
    assert "40001 tokens" in failed.args[0]


def press(widget: Any) -> None:
    """Click on the word of a button, not on its arrow."""
    QTest.mouseClick(widget, LEFT, Qt.KeyboardModifier.NoModifier, QPoint(10, widget.height() // 2))


def run(qtbot: QtBot, window: MainWindow, text: str) -> None:
    window.bar.prompt.setText(text)
    press(window.bar.run)
    settle(qtbot, window)


def tokens(window: MainWindow) -> list[str]:
    found = window.session.run
    assert found is not None
    return [token.text for token in found.tokens]


def write_wider(folder: Path, vocabulary: int) -> Path:
    """Give the tiny checkpoint rows for more ids."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    extra = embedding[: vocabulary - len(embedding)]
    save_file({**weights, "model.embed_tokens.weight": torch.cat((embedding, extra))}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": vocabulary}), encoding="utf-8")
    return folder


# The chat template ----------------------------------------------------------------------------------------------------


def test_the_switch_puts_the_prompt_into_the_template(qtbot: QtBot, opened: Open, chatty: Path) -> None:
    window = opened(chatty, "abc")
    bar = window.bar
    assert bar.chat.isEnabled()
    assert not bar.chat.isChecked()
    assert tokens(window) == ["<s>", "a", "b", "c"]
    press(bar.chat)
    assert bar.chat.isChecked()
    assert not bar.special.isEnabled()
    run(qtbot, window, "hi")
    assert tokens(window) == ["<s>", "<|user|>", "h", "i", "<|end|>"]
    strip = window.panels["tokens"].strip  # type: ignore[attr-defined]
    assert "special token" in strip.tip(1)
    assert "special token" not in strip.tip(2)
    assert "<s><|user|>hi<|end|>" in bar.chat.accessibleDescription()
    assert bar.prompt.text() == "hi"
    press(bar.chat)
    run(qtbot, window, "hi")
    assert tokens(window) == ["<s>", "h", "i"]
    assert "hi<|end|>" not in bar.chat.accessibleDescription()


def test_a_system_line_is_typed_under_the_arrow(qtbot: QtBot, opened: Open, chatty: Path) -> None:
    window = opened(chatty, "abc")
    press(window.bar.chat)
    QTest.keyClicks(window.bar.chat.system, "be brief")
    run(qtbot, window, "hi")
    found = window.session.run
    assert found is not None
    assert found.rendered == "<s><|system|>be brief<|user|>hi<|end|>"


def test_a_template_that_fails_says_so_and_changes_nothing(qtbot: QtBot, opened: Open, tmp_path: Path) -> None:
    window = opened(write_chatty(tmp_path / "stubborn", "{{ raise_exception('Only tools.') }}"), "abc")
    before = window.session.run
    press(window.bar.chat)
    run(qtbot, window, "hi")
    assert window.session.run is before
    assert window.failure.isVisible()
    message = window.failure.sentence.text()
    assert message.startswith("The chat template refuses this prompt: Only tools;")
    assert window.failure.offered == ()


def test_without_a_template_the_switch_is_off_and_says_why(qtbot: QtBot, opened: Open, tmp_path: Path) -> None:
    window = opened(write_checkpoint(tmp_path / "tiny"), "abc")
    assert not window.bar.chat.isEnabled()
    assert "no chat template" in window.bar.chat.toolTip()
    assert window.bar.chat.template == ""


def test_another_model_without_a_template_takes_the_switch_back(
    qtbot: QtBot, opened: Open, chatty: Path, tmp_path: Path
) -> None:
    window = opened(chatty, "abc")
    press(window.bar.chat)
    run(qtbot, window, "hi")
    window.session.opening.open(str(write_checkpoint(tmp_path / "tiny")))
    settle(qtbot, window)
    qtbot.waitUntil(lambda: tokens(window) == ["h", "i"])
    assert not window.bar.chat.isChecked()
    assert not window.failure.isVisible()


def test_several_templates_are_listed_and_ids_need_none(qtbot: QtBot, running: Session, engine: CannedEngine) -> None:
    bar = PromptBar(running)
    qtbot.addWidget(bar)
    bar.resize(1280, 40)
    bar.show()
    engine.known = {"chats": ("default", "tool_use")}
    running.opening.open(None)
    driving.settle(running)
    press(bar.chat)
    assert [action.text() for action in bar.chat.templates.actions()] == ["default", "tool_use"]
    bar.chat.templates.actions()[1].trigger()
    press(bar.run)
    driving.settle(running)
    assert meant(running) == running.prompt
    assert running.prompt.chat == "tool_use"
    press(bar.ids)
    assert not bar.chat.isEnabled()
    press(bar.run)
    driving.settle(running)
    assert meant(running) == running.prompt
    assert (running.prompt.as_ids, running.prompt.chat) == (True, "")
    press(bar.ids)
    assert bar.chat.template == "tool_use"


def test_templates_of_the_model_before_are_gone(qtbot: QtBot, running: Session) -> None:
    button = ChatButton()
    qtbot.addWidget(button)
    before = len(button.findChildren(QObject))
    for names in (("default", "tool_use"), ()):
        button.show_model(replace(run_on(running).model, chats=names), as_ids=False)
    delete_what_is_due()
    assert len(button.findChildren(QObject)) == before


def test_a_long_text_is_cut_in_the_tooltip_only(qtbot: QtBot, running: Session) -> None:
    button = ChatButton()
    qtbot.addWidget(button)
    run = run_on(running)
    button.show_model(replace(run.model, chats=("default",)), as_ids=False)
    button.show_run(replace(run, rendered="<s>" + "x" * 5000))
    assert len(button.toolTip()) < 1000
    assert "&lt;s&gt;xxx" in button.toolTip()


def test_a_run_that_was_meant_otherwise_sets_the_switches(qtbot: QtBot, opened: Open, chatty: Path) -> None:
    window = opened(chatty, "abc")
    bar, session = window.bar, window.session
    asked = Prompt("hi", special=False, chat="default", system="be brief")
    session.start(asked)
    qtbot.waitUntil(lambda: tokens(window)[-1] == "<|end|>")
    assert bar.written_prompt() == asked
    press(bar.ids)
    session.interventions.apply([RopeScaling("linear", 2.0)])
    qtbot.waitUntil(window.status.changes.isVisible)
    assert bar.ids.isChecked(), "what was switched since stays as it is"


@pytest.mark.parametrize(
    "bos", ["<|begin_of_text|>", *(pytest.param(short, marks=pytest.mark.slow) for short in ("", "<s>"))]
)
def test_the_bar_fits_a_narrow_window_and_the_prompt_stays_readable(
    qtbot: QtBot, running: Session, engine: CannedEngine, bos: str
) -> None:
    running.timeline.set_sampling(Sampling(temperature=0.8, top_k=40, top_p=0.9, seed=7))
    window = window_over(running)
    window.show_workspace(LIGHT)
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    engine.known = {"bos": bos, "chats": ("default",)}
    running.opening.open(None)
    driving.settle(running)
    qtbot.waitUntil(lambda: window.bar.prompt.width() >= 160)
    assert window.width() == 1280
    window.resize(1920, 1080)
    qtbot.waitUntil(window.bar.brand.isVisible)
    assert window.bar.sampling.text() == "T 0.8 · top-k 40 · top-p 0.9 · seed 7"


# Longer than the model ------------------------------------------------------------------------------------------------


def test_a_long_prompt_is_refused_and_runs_once_a_scaling_is_picked(qtbot: QtBot, opened: Open, chatty: Path) -> None:
    window = opened(chatty, "abc")
    status = window.status
    assert not status.changes.isVisible()
    run(qtbot, window, LONG)
    assert tokens(window) == ["<s>", "a", "b", "c"]
    message = window.failure.sentence.text()
    assert "81 tokens" in message
    assert "pick a RoPE scaling" in message
    assert [button.text() for button in window.failure.offered] == [
        "RoPE linear × 1.5", "RoPE NTK × 1.5", "RoPE YaRN × 1.5", "RoPE llama3 × 1.5",
    ]  # fmt: skip
    assert all(window.failure.rect().contains(button.geometry().center()) for button in window.failure.offered)
    press(window.failure.offered[0])
    assert not window.failure.isVisible()
    settle(qtbot, window)
    qtbot.waitUntil(lambda: len(tokens(window)) == 81)
    assert status.changes.isVisible()
    assert status.changes.chips[0].text() == "RoPE linear × 1.5  ×"
    run(qtbot, window, "abc")
    assert status.changes.isVisible(), "it stays for the next prompts"
    press(status.changes.chips[0])
    settle(qtbot, window)
    qtbot.waitUntil(lambda: not status.changes.isVisible())
    assert window.session.interventions.now == ()


def test_the_rope_panel_turns_by_the_rule_that_was_picked(qtbot: QtBot, opened: Open, chatty: Path) -> None:
    window = opened(chatty, "abc")
    panel = window.panels["rope"]
    assert isinstance(panel, RopePanel)
    window.reveal("rope")
    qtbot.waitUntil(lambda: panel.settled and panel.reading is not None)
    assert panel.reading is not None
    plain = panel.reading.query_frequencies.copy()
    run(qtbot, window, LONG)
    press(window.failure.offered[0])
    qtbot.waitUntil(lambda: len(tokens(window)) == 81 and panel.settled)
    np.testing.assert_allclose(panel.reading.query_frequencies, plain / 1.5, rtol=1e-6)
    assert panel.reading.query_position == 80
    assert panel.position == 80
    panel.page_box.setCurrentText("spectrum")
    qtbot.waitUntil(lambda: panel.settled)
    assert "in the stretched 96 positions; " in panel.sum_label.text()


def test_the_last_intervention_is_undone_by_going_back_to_a_prompt_that_fits(
    qtbot: QtBot, opened: Open, chatty: Path
) -> None:
    window = opened(chatty, "abc")
    run(qtbot, window, LONG)
    press(window.failure.offered[2])
    qtbot.waitUntil(lambda: len(tokens(window)) == 81)
    window.reveal("experiments")
    undo: QPushButton = window.panels["experiments"].undo_button  # type: ignore[attr-defined]
    press(undo)
    qtbot.waitUntil(lambda: tokens(window) == ["<s>", "a", "b", "c"])
    assert window.session.interventions.now == ()
    assert "so the last one that fits was run again" in window.failure.sentence.text()
    qtbot.waitUntil(lambda: window.bar.prompt.text() == "abc")


def test_a_run_is_carried_past_the_limit_from_the_interventions(qtbot: QtBot, opened: Open, chatty: Path) -> None:
    window = opened(chatty, "x" * 60)
    window.reveal("experiments")
    panel: Any = window.panels["experiments"]
    panel.scaling.setCurrentText("YaRN")
    panel.stretch.setValue(4.0)
    panel.buttons["stretch"].click()
    settle(qtbot, window)
    qtbot.waitUntil(lambda: window.session.interventions.now == (RopeScaling("yarn", 4.0),))
    window.session.timeline.run_to(70)
    qtbot.waitUntil(lambda: len(tokens(window)) == 70)
    assert not window.failure.isVisible()


def test_offers_end_with_the_model_they_were_for(qtbot: QtBot, opened: Open, chatty: Path, tmp_path: Path) -> None:
    window = opened(chatty, "abc")
    run(qtbot, window, LONG)
    assert len(window.failure.offered) == 4
    window.session.opening.open(str(write_checkpoint(tmp_path / "tiny", tokenizer=False)))
    qtbot.waitUntil(lambda: window.failure.offered == () and not window.session.busy)


# Ids ------------------------------------------------------------------------------------------------------------------


def test_a_model_without_a_tokenizer_works_with_ids(qtbot: QtBot, opened: Open, tmp_path: Path) -> None:
    window = opened(write_checkpoint(tmp_path / "wordless", tokenizer=False), "abc")
    assert tokens(window)[:3] == ["#1", "#2", "#3"]
    assert "ids" in window.bar.prompt.placeholderText()
    assert not window.bar.chat.isEnabled()
    run(qtbot, window, "7, 9 11")
    assert tokens(window) == ["#7", "#9", "#11"]
    run(qtbot, window, "words")
    assert "has no tokenizer" in window.failure.sentence.text()
    assert tokens(window) == ["#7", "#9", "#11"]


def test_a_tokenizer_that_cannot_be_read_is_reported_when_its_model_opens(
    qtbot: QtBot, opened: Open, tmp_path: Path
) -> None:
    folder = write_checkpoint(tmp_path / "small")
    (folder / "tokenizer.json").write_bytes(b"")
    window = opened(folder, "abc")
    message = "tokenizer.json is empty; download it again. Until then, type token ids instead of text."
    assert window.failure.sentence.text() == message
    assert window.failure.isVisible()
    assert tokens(window)[:2] == ["#1", "#2"]
    run(qtbot, window, "words")
    assert "small has no tokenizer that can be read, so text" in window.failure.sentence.text()


def test_the_bos_is_left_out_and_ids_are_typed_with_clicks(qtbot: QtBot, opened: Open, chatty: Path) -> None:
    window = opened(chatty, "abc")
    bar = window.bar
    assert bar.special.isVisible()
    assert bar.special.isChecked()
    assert bar.special.text() == "<s>"
    press(bar.special)
    run(qtbot, window, "abc")
    assert tokens(window) == ["a", "b", "c"]
    press(bar.ids)
    run(qtbot, window, "0 2 70")
    assert tokens(window)[:2] == ["<s>", "<|end|>"]


# Tokens as what they are ----------------------------------------------------------------------------------------------


def test_white_space_bytes_and_scripts_are_shown_as_what_they_are(qtbot: QtBot, opened: Open, chatty: Path) -> None:
    window = opened(chatty, "abc")
    run(qtbot, window, "a\t 你👍ש<s>")
    assert tokens(window) == [
        "<s>", "a", "⇥", "·", "<E4>", "<BD>", "<A0>", "<F0>", "<9F>", "<91>", "<8D>", "<D7>", "<A9>", "<s>",
    ]  # fmt: skip
    strip: Any = window.panels["tokens"].strip  # type: ignore[attr-defined]
    assert "raw bytes of 你" in strip.tip(4)
    assert "raw bytes of 👍" in strip.tip(7)
    assert "raw bytes of \u2068ש\u2069" in strip.tip(11)
    assert "special token" in strip.tip(13)
    close = [strip.box_of(i + 1).left() - strip.box_of(i).right() for i in range(13)]
    inside = {4, 5, 7, 8, 9, 11}  # between the bytes of one character
    assert max(close[i] for i in inside) < min(close[i] for i in set(range(13)) - inside)
    window.session.selection.update(query=11, key=2)
    cell: Any = window.panels["tokens"].cell  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: cell.text() == "query 11 <D7> → key 2 ⇥")


def test_a_right_to_left_token_leaves_the_words_around_it_in_order(qtbot: QtBot, opened: Open, tmp_path: Path) -> None:
    folder = write_chatty(tmp_path / "hebrew")
    file = folder / "tokenizer.json"
    state = json.loads(file.read_text(encoding="utf-8"))
    state["added_tokens"].append({**state["added_tokens"][0], "id": 256, "content": "שלום", "special": False})
    file.write_text(json.dumps(state), encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["vocab_size"] == 256
    window = opened(write_wider(folder, 257), "a שלום 5")
    assert tokens(window) == ["<s>", "a", "·", "שלום", "·", "5"]
    window.reveal("why")
    window.session.selection.update(query=3, key=1)
    qtbot.waitUntil(lambda: "query 3" in window.panels["why"].subtitle.text())
    assert "query 3 \u2068שלום\u2069 → key 1 a" in window.panels["why"].subtitle.text()
    assert window.panels["tokens"].cell.text() == "query 3 \u2068שלום\u2069 → key 1 a"  # type: ignore[attr-defined]


def test_the_template_that_is_chosen_is_the_one_that_is_ticked(
    qtbot: QtBot, running: Session, engine: CannedEngine
) -> None:
    window = window_over(running)
    qtbot.addWidget(window)
    engine.known = {"chats": ("default", "tool_use")}
    running.opening.open(None)
    driving.settle(running)
    for name in ("tool_use", "default"):
        window.bar.chat.choose(name, "")
        assert window.bar.chat.template == name
