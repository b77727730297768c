"""A right click on a table or a list of a survey offers what it does on a plot."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPoint
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QHBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.views.plots.menus.plot_menu import PlotMenu
from ropewalk.views.plots.survey.error_table import ErrorTable
from ropewalk.views.plots.survey.example_list import ExampleList, ExampleText


def test_rows_are_copied_and_exported(qtbot: QtBot) -> None:
    window, table, examples = QWidget(), ErrorTable(), ExampleList()
    qtbot.addWidget(window)
    layout = QHBoxLayout(window)
    layout.addWidget(table)
    layout.addWidget(examples)
    table.show_heads(("L0H0", "L0H1"), np.array([0.25, 0.5]), np.array([0.01, 0.02]), 200)
    examples.show_examples((ExampleText(("a", " b"), 1, 0, 0.5),))
    window.resize(640, 240)
    window.show()
    menu, exported = PlotMenu(window), list[object]()
    menu.exported.connect(exported.append)
    menu.serve(window)
    rows = {table: "head\tmean\terror\tn\nL0H1\t0.5\t0.02\t200\nL0H0\t0.25\t0.01\t200"}
    for part, text in (*rows.items(), (examples, "value\tquery\tkey\ttext\n0.5\t1\t0\ta b")):
        at = QPoint(20, 20)
        event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, part.viewport().mapToGlobal(at))
        QApplication.sendEvent(part.viewport(), event)
        assert menu.isVisible()
        menu.close()
        offered = {action.text(): action for action in menu.actions() if action.isVisible()}
        assert "View all" not in offered
        offered["Copy the numbers"].trigger()
        assert QGuiApplication.clipboard().text() == text
        offered["Copy as a picture"].trigger()
        assert QGuiApplication.clipboard().image().size() == part.size() * 2
        offered["Export…"].trigger()
    assert exported == [table, examples]
