"""The field of the prompt shows its beginning, and that there is more."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.views.style import theme
from ropewalk.views.window.prompt_field import PromptField

LONG = "wizards ate seven purple plums and then went on to other things"


@pytest.mark.parametrize("projector", [False, True])
def test_what_cannot_be_seen_of_a_prompt_fades_and_is_in_the_tooltip(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, projector: bool
) -> None:
    theme.apply("dark", projector=projector)
    window = QWidget()
    qtbot.addWidget(window)
    field, other = PromptField(window), PromptField(window)
    told: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda at, text, *rest: told.append(text))
    for one in (field, other):
        one.setFont(theme.current().font("body"))
        one.setText(LONG)
        one.resize(200, 40)
    window.show()
    other.setFocus()
    field.resize(200, 40)
    assert field.is_cut
    QApplication.sendEvent(field, QHelpEvent(QEvent.Type.ToolTip, QPoint(5, 5), field.mapToGlobal(QPoint(5, 5))))
    assert told[-1].startswith(LONG)
    end = field.grab().toImage().copy(184, 0, 14, 40)
    field.setText(LONG[:3] + LONG[3:].replace("p", "q"))
    assert field.grab().toImage().copy(184, 0, 14, 40) == end, "the dots are all that is seen there"
    field.resize(1400, 40)
    assert not field.is_cut
    QApplication.sendEvent(field, QHelpEvent(QEvent.Type.ToolTip, QPoint(5, 5), field.mapToGlobal(QPoint(5, 5))))
    assert not told[-1].startswith(LONG)


def test_a_prompt_that_was_typed_is_seen_from_its_beginning(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    field, other = PromptField(window), PromptField(window)
    window.show()
    window.activateWindow()
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    field.insert(LONG)
    assert field.cursorPosition() == len(LONG)
    other.setFocus()
    assert field.cursorPosition() == 0
