"""The moments that a class remembers are each one key away from the first start; the pictures of three are taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.session import Session
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.board import BoardPanel
from ropewalk.views.panels.heads import HeadsPanel
from ropewalk.views.panels.rope import RopePanel
from ropewalk.views.pictures import snapshot
from tests.moments import SIZE
from tests.views.driving import run_of, window_over

ROOT = Path(__file__).resolve().parents[2]
NONE, CONTROL, ALT = (
    Qt.KeyboardModifier.NoModifier,
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.AltModifier,
)
MOMENTS = (("walk", "D"), ("dial", "Ctrl+3"), ("born", "Alt+H"))


@pytest.fixture
def window(qtbot: QtBot, running: Session) -> Iterator[MainWindow]:
    """The window of a first start."""
    window = window_over(running, restore=True)
    window.resize(1366, 768)
    window.show()
    window.activateWindow()
    snapshot.wait_until_drawn(window)
    yield window
    window.close()
    window.deleteLater()


def walks(window: MainWindow) -> bool:
    return window.panels["walk"].on_screen


def turns(window: MainWindow) -> bool:
    rope = cast("RopePanel", window.panels["rope"])
    return rope.on_screen and rope.dial.isVisible() and rope.view.isVisible() and rope.view.planes > 1


def decodes(window: MainWindow) -> bool:
    return run_of(window).steps == 1


def silences(window: MainWindow) -> bool:
    heads = cast("HeadsPanel", window.panels["heads"])
    return heads.on_screen and heads.view.silencing and window.panels["next_token"].on_screen


def compares(window: MainWindow) -> bool:
    board = cast("BoardPanel", window.panels["board"])
    now = window.session.selection.now
    return board.on_screen and len(board.grid.cards) > 2 and (now.layer, now.head) in board.heads


def bears(window: MainWindow) -> bool:
    return window.panels["training"].on_screen


@pytest.mark.parametrize(
    ("key", "modifier", "is_there"),
    [
        (Qt.Key.Key_D, NONE, walks),
        pytest.param(Qt.Key.Key_3, CONTROL, turns, marks=pytest.mark.slow),
        pytest.param(Qt.Key.Key_Right, NONE, decodes, marks=pytest.mark.slow),
        (Qt.Key.Key_Z, NONE, silences),
        pytest.param(Qt.Key.Key_B, ALT, compares, marks=pytest.mark.slow),
        (Qt.Key.Key_H, ALT, bears),
    ],
    ids=["walk", "dial and all planes", "decode", "live ablation", "head board", "heads being born"],
)
def test_it_is_one_key_away(
    window: MainWindow, key: Qt.Key, modifier: Qt.KeyboardModifier, is_there: Callable[[MainWindow], bool]
) -> None:
    assert window.welcome is not None
    QTest.keyClick(window, key, modifier)
    snapshot.wait_until_drawn(window)
    assert is_there(window)


def test_a_board_that_has_heads_gets_no_others(window: MainWindow) -> None:
    window.session.board.pin(0, 1)
    QTest.keyClick(window, Qt.Key.Key_B, ALT)
    assert window.session.board.now.heads == ((0, 1),)


def test_no_field_of_a_panel_that_a_key_brought_takes_the_next_key(window: MainWindow) -> None:
    window.resize(1600, 900)  # all maps fit, so that the buttons that turn the page go
    snapshot.wait_until_drawn(window)
    QTest.keyClick(window, Qt.Key.Key_B, ALT)
    snapshot.wait_until_drawn(window)
    QTest.keyClick(window, Qt.Key.Key_D)
    assert walks(window)


@pytest.mark.parametrize(("name", "key"), MOMENTS)
def test_the_readme_shows_it_with_its_key(name: str, key: str) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    path = ROOT / "docs" / f"moment_{name}.png"
    caption = rf"\[!\[[^\]]+\]\(docs/{path.name}\)\]\(docs/{path.name}\)"
    assert re.search(caption, page)
    assert re.search(rf"^\|.*\b{re.escape(key)}\b.*\|$", page, flags=re.MULTILINE)
    assert QImage(str(path)).size() == SIZE
    assert path.stat().st_size < 150_000
