"""The list of keys under ``?``. It shows the table of ``keys.py`` and knows nothing else."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from views import keys, theme
from views.panel import plain_label


class KeySheet(QDialog):
    """Every action and its keys, in groups."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        columns = QHBoxLayout(self)
        columns.setContentsMargins(*(3 * theme.GRID,) * 4)
        columns.setSpacing(5 * theme.GRID)
        groups = list(dict.fromkeys(entry.group for entry in keys.ACTIONS))
        for some in (groups[:2], groups[2:4], groups[4:]):
            column = QVBoxLayout()
            for group in some:
                column.addWidget(plain_label(group, "heading"))
                column.addLayout(_rows(group))
                column.addSpacing(2 * theme.GRID)
            column.addStretch(1)
            columns.addLayout(column)


def _rows(group: str) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(2 * theme.GRID)
    grid.setVerticalSpacing(theme.GRID // 2)
    for entry in keys.ACTIONS:
        if entry.group == group:
            row = grid.rowCount()
            grid.addWidget(plain_label(keys.written(entry.keys), "number"), row, 0)
            grid.addWidget(plain_label(entry.text, "body"), row, 1)
    grid.setColumnStretch(1, 1)
    return grid
