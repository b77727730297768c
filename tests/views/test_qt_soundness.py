"""What this program relies on Qt's binding for."""

from __future__ import annotations

import sys

import pytest
from pytestqt.qtbot import QtBot

from ropewalk.views.panels.panel import plain_label


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal from Python 3.12 on")
def test_void_calls_leave_the_count_of_none_where_it_was(qtbot: QtBot) -> None:
    # PySide6 6.12.0 on Python 3.11 loses a reference to None with every void call, and aborts after some thousands
    label = plain_label("")
    qtbot.addWidget(label)
    before = sys.getrefcount(None)
    for _ in range(20_000):
        label.setText("a")
    assert abs(sys.getrefcount(None) - before) < 100
