"""The list of keys under ``?``. It shows the table of ``keys.py`` and knows nothing else."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDialog, QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from ropewalk.views import keys
from ropewalk.views.panels.panel import plain_label
from ropewalk.views.style import theme

MOST_COLUMNS = 3


class KeySheet(QDialog):
    """Every action and its keys, in groups: in as many columns as fit the window, scrolled where it is low."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        room = parent.size() if parent is not None else self.screen().availableSize()
        self.area = QScrollArea()
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setWidgetResizable(True)
        self.area.setAccessibleName("Every action and its keys")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.area)
        for count in range(MOST_COLUMNS, 0, -1):
            sheet = _sheet(count)
            self.area.setWidget(sheet)  # the one before is deleted with it
            sheet.ensurePolished()
            wanted = sheet.sizeHint()
            if wanted.width() + 2 * theme.GRID <= room.width():
                break
        bar = self.area.verticalScrollBar().sizeHint().width() + theme.GRID
        self.resize(QSize(wanted.width() + bar, wanted.height() + theme.GRID).boundedTo(room))


def _sheet(count: int) -> QWidget:
    """All groups in so many columns of about the same height."""
    sheet = QWidget()
    columns = QHBoxLayout(sheet)
    columns.setContentsMargins(*(3 * theme.GRID,) * 4)
    columns.setSpacing(5 * theme.GRID)
    for groups in _shared_out(count):
        column = QVBoxLayout()
        for group in groups:
            column.addWidget(plain_label(group, "heading"))
            column.addLayout(_rows(group))
            column.addSpacing(2 * theme.GRID)
        column.addStretch(1)
        columns.addLayout(column)
    return sheet


def _shared_out(count: int) -> list[list[str]]:
    """The groups in reading order, cut where a column has its share of the lines."""
    groups = list(dict.fromkeys(entry.group for entry in keys.ACTIONS))
    lines = {group: 2 + sum(entry.group == group for entry in keys.ACTIONS) for group in groups}
    share = sum(lines.values()) / count
    columns: list[list[str]] = [[] for _ in range(count)]
    done = 0.0
    for group in groups:
        columns[min(int((done + lines[group] / 2) / share), count - 1)].append(group)
        done += lines[group]
    return columns


def _rows(group: str) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(2 * theme.GRID)
    grid.setVerticalSpacing(theme.GRID // 2)
    for row, entry in enumerate(entry for entry in keys.ACTIONS if entry.group == group):
        grid.addWidget(plain_label(keys.written(entry.keys), "number"), row, 0)
        grid.addWidget(plain_label(entry.text, "body"), row, 1)
    grid.setColumnStretch(1, 1)
    return grid
