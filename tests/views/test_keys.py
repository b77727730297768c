"""No two actions share a key, and a text field keeps its own."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QLineEdit, QTextEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.lessons.claims import UNREAD
from ropewalk.app.lessons.loading import FOLDER
from ropewalk.views import keys
from ropewalk.views.panels import interventions
from ropewalk.views.style import theme
from ropewalk.views.window.key_sheet import KeySheet

LESSONS = sorted(FOLDER.glob("*.toml"))


def test_no_two_actions_share_a_key() -> None:
    assert keys.collisions() == []


def test_a_collision_is_found() -> None:
    one, other = keys.Action("a", "A", "Run", ("Ctrl+R",)), keys.Action("b", "B", "Run", ("ctrl+r",))
    assert keys.collisions((one, other)) == [("ctrl+r", "a", "b")]


def test_names_are_unique() -> None:
    assert max(Counter(entry.name for entry in keys.ACTIONS).values()) == 1


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("step", "→"),
        ("step_back", "←"),
        ("lesson_on", "PageDown"),
        ("layer_down", "↓"),
        ("head_after", "]"),
        ("back", "Alt+←"),
    ],
)
def test_keys_are_those_of_the_design(name: str, written: str) -> None:
    assert keys.written(keys.action(name).keys) == written


SAID_OF_KEYS = {
    "Blank the screen (B)": ("blank",),
    "the spotlight (S)": ("spotlight",),
    "D and Shift+D go through every operation": ("walk_on", "walk_back"),
    "Switch the first column off and on again (K)": ("scores.skip_first",),
}
"""What lessons say of keys, and what those keys have to do."""
CHORD = re.compile(r"(?<=\()[A-Z](?=\))|\bD(?= and)|\b(?:Ctrl|Alt|Shift)\+\w+|\b(?:F\d{1,2}|PageDown|PageUp|Esc)\b")
SAID_IN = frozenset(("title", "about", "text", "notes", "look_at", "ask", "why", "hint", "reveal", "points", "says"))


def said_in(lesson: Any, key: str = "") -> Iterator[str]:
    """Every text of a lesson's file, its claims left out, without formulas and numbers."""
    if isinstance(lesson, str) and key in SAID_IN:
        yield " ".join(UNREAD.sub(" ", lesson).split())
    elif isinstance(lesson, list):
        yield from (said for one in lesson for said in said_in(one, key))
    elif isinstance(lesson, dict):
        yield from (said for key, one in lesson.items() if key != "claims" for said in said_in(one, key))


def test_the_keys_that_lessons_name_do_what_is_said() -> None:
    said = "\n".join(chain.from_iterable(said_in(tomllib.loads(path.read_text("utf-8"))) for path in LESSONS))
    for words, names in SAID_OF_KEYS.items():
        assert CHORD.findall(words) == [keys.action(name).keys[0] for name in names]
        assert words in said
        said = said.replace(words, "")
    assert CHORD.findall(said) == []


def test_the_experiments_that_lessons_name_are_in_their_panel() -> None:
    said = "\n".join(path.read_text("utf-8") for path in LESSONS)
    named = set(re.findall(rf"\*{interventions.InterventionsPanel.title}, ([^*]+)\*", said))
    assert named == {"no 1/√Dh", "no RoPE"}
    buttons = inspect.getsource(interventions)
    assert all(f', "{name}", lambda' in buttons for name in named)


class Recorder:
    """Counts what was done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def verbs(self) -> dict[str, object]:
        return {entry.name: lambda name=entry.name: self.done.append(name) for entry in keys.ACTIONS}


@pytest.fixture
def window(qtbot: QtBot) -> tuple[QWidget, QLineEdit, Recorder]:
    recorder, window, field = Recorder(), QWidget(), QLineEdit("ab")
    qtbot.addWidget(window)
    QVBoxLayout(window).addWidget(field)
    window.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    keys.Shortcuts(window, recorder.verbs())  # type: ignore[arg-type]
    with qtbot.waitActive(window):
        window.show()
        window.activateWindow()
    window.setFocus()
    return window, field, recorder


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (Qt.Key.Key_Right, "step"),
        (Qt.Key.Key_Left, "step_back"),
        (Qt.Key.Key_Down, "layer_down"),
        (Qt.Key.Key_Space, "toggle_play"),
        (Qt.Key.Key_Question, "keys"),
    ],
)
def test_a_key_does_its_action(
    qtbot: QtBot, window: tuple[QWidget, QLineEdit, Recorder], key: Qt.Key, name: str
) -> None:
    widget, _, recorder = window
    QTest.keyClick(widget, key)
    assert recorder.done == [name]


def test_a_text_field_keeps_bare_keys_and_gives_up_the_others(
    qtbot: QtBot, window: tuple[QWidget, QLineEdit, Recorder]
) -> None:
    widget, field, recorder = window
    field.setFocus()
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Home, Qt.Key.Key_Space, Qt.Key.Key_T):
        QTest.keyClick(field, key)
    assert recorder.done == []
    QTest.keyClick(field, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    assert recorder.done == ["run"]
    widget.setFocus()
    QTest.keyClick(widget, Qt.Key.Key_Up)
    assert recorder.done == ["run", "layer_up"]


def test_text_that_can_only_be_read_takes_no_key(qtbot: QtBot, window: tuple[QWidget, QLineEdit, Recorder]) -> None:
    widget, _, recorder = window
    text = QTextEdit("a step of a lesson", widget)
    text.setReadOnly(True)
    layout = widget.layout()
    assert layout is not None
    layout.addWidget(text)
    text.setFocus()
    QTest.keyClick(text, Qt.Key.Key_P)
    assert recorder.done == ["projector"]


def test_the_sheet_lists_every_action(qtbot: QtBot) -> None:
    sheet = KeySheet()
    qtbot.addWidget(sheet)
    texts = {label.text() for label in sheet.findChildren(QLabel)}
    for entry in keys.ACTIONS:
        assert {entry.text, keys.written(entry.keys)} <= texts


@pytest.mark.parametrize("projector", [False, True])
def test_the_list_of_keys_is_no_wider_than_the_window(qtbot: QtBot, projector: bool) -> None:
    theme.apply("dark", projector)
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(1280, 800)
    sheet = KeySheet(window)
    sheet.show()
    assert sheet.width() <= 1280
    assert sheet.height() <= 800
    assert sheet.area.horizontalScrollBar().maximum() == 0
    theme.apply("dark")
