"""Levels that unfold: the stages of a cell's arithmetic, their lines, and the long vectors inside them."""

from __future__ import annotations

import re
from typing import Final

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from ropewalk.model.readings.records import Arithmetic, Line, Stage
from ropewalk.views.style import ink, theme, wording

LINE: Final = Qt.ItemDataRole.UserRole
"""Holds the :class:`Line` of an item, or of the item it unfolds."""
EXACT: Final = Qt.ItemDataRole.UserRole + 1
"""Holds what is copied from an item: every digit, as Python reads it."""

CHUNK = 8
"""Numbers of a vector in one row."""


def result_text(line: Line) -> str:
    """Write what a line comes to: a number, or how many numbers."""
    if line.value is not None:
        return wording.number(line.value, 4)
    return f"{len(line.vector)} numbers" if line.vector is not None else ""


def formula_text(text: str) -> str:
    """Write negative numbers with a minus sign instead of a hyphen."""
    return re.sub(r"-(?=\d)", wording.MINUS, text)


def exact_text(line: Line) -> str:
    """Write a line's numbers in full: the name, and the value or the vector."""
    parts = []
    if line.value is not None:
        parts.append(repr(line.value))
    if line.vector is not None:
        parts.append(repr([float(v) for v in line.vector]))
    return f"{line.key} = {'  '.join(parts)}"


def stage_text(stage: Stage) -> str:
    """Write every line of a stage in full."""
    return "\n".join(exact_text(line) for line in stage.lines)


class ArithmeticTree(QTreeWidget):
    """A tree of stages, lines and vectors; arrows unfold and walk, Ctrl+C copies the number."""

    place_pointed = Signal(str, str)
    """Place and key of the line under the pointer or the cursor, empty for none."""
    place_chosen = Signal(str)
    """A line was activated (Enter or a double click); carries its place."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._open: set[str] = set()
        self.setColumnCount(3)
        self.setHeaderHidden(True)
        self.setFrameShape(QTreeWidget.Shape.NoFrame)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setMouseTracking(True)
        self.setExpandsOnDoubleClick(False)
        self.setUniformRowHeights(True)
        self.setTabKeyNavigation(False)
        self.setAccessibleName("Every step of the arithmetic; right and left unfold and fold, Ctrl+C copies")
        header = self.header()
        header.setStretchLastSection(True)
        header.setMinimumSectionSize(20)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.itemEntered.connect(lambda item, column: self._point(item))
        self.currentItemChanged.connect(lambda now, before: self._point(now))
        self.itemActivated.connect(lambda item, column: self._choose(item))
        self.itemExpanded.connect(lambda item: self._remember(item, True))
        self.itemCollapsed.connect(lambda item: self._remember(item, False))

    def show_arithmetic(self, read: Arithmetic) -> None:
        """Fill the tree; what was unfolded stays unfolded, and the cursor stays on its line."""
        current = self.currentItem()
        at = None if current is None else self._name(current)
        self.blockSignals(True)
        self.clear()
        for number, stage in enumerate(read.stages, start=1):
            self.addTopLevelItem(self._stage_item(number, stage))
        for item in self._items():
            item.setExpanded(self._name(item) in self._open)
            if self._name(item) == at:
                self.setCurrentItem(item)
        self.blockSignals(False)
        self.fit()

    def line_height(self) -> int:
        """Height of one row."""
        return round(ink.line_height(theme.current().font("formula"))) + theme.GRID // 2

    def fit(self) -> None:
        """Give each column what its texts want, the middle one what is left."""
        look = theme.current()
        font = look.font("formula")
        self.setFont(font)
        self.setIndentation(2 * theme.GRID)
        room = self.viewport().width()
        widest = [
            max((ink.text_width(font, item.text(column)) for item in self._items() if item.text(column)), default=0)
            for column in (0, 2)
        ]
        first = min(round(widest[0]) + 5 * theme.GRID, round(room * 0.42))
        last = min(round(widest[1]) + 2 * theme.GRID, round(room * 0.22))
        self.setColumnWidth(0, first)
        self.setColumnWidth(1, max(room - first - last, 40))
        for item in self._items():
            self._colour(item)

    def line_of(self, item: QTreeWidgetItem | None) -> Line | None:
        """The line that an item shows or belongs to."""
        line = None if item is None else item.data(0, LINE)
        return line if isinstance(line, Line) else None

    def item_of(self, key: str) -> QTreeWidgetItem | None:
        """The item of the line with that key."""
        return next((item for item in self._items() if self._name(item) == key), None)

    def copied(self) -> str:
        """What Ctrl+C copies: the current line, the rest of a vector, or a whole stage, in full precision."""
        item = self.currentItem()
        return "" if item is None else str(item.data(0, EXACT))

    def createMimeDataFromSelection(self) -> QMimeData:
        """Return plain text."""
        data = QMimeData()
        data.setText(self.copied())
        return data

    # Items --------------------------------------------------------------------------------------------------------

    def _stage_item(self, number: int, stage: Stage) -> QTreeWidgetItem:
        item = QTreeWidgetItem([f"{number}  {stage.name}", "", f"{len(stage.lines)} lines"])
        item.setData(0, EXACT, stage_text(stage))
        item.setData(1, LINE, stage.name)
        for line in stage.lines:
            item.addChild(self._line_item(line))
        return item

    def _line_item(self, line: Line) -> QTreeWidgetItem:
        item = QTreeWidgetItem([formula_text(line.symbol), formula_text(line.substituted), result_text(line)])
        item.setData(0, LINE, line)
        item.setData(0, EXACT, exact_text(line))
        for column in range(3):
            item.setToolTip(column, wording.tooltip(f"{item.text(0)}\n{item.text(1)}\n= {item.text(2)}"))
        if line.vector is not None:
            for start in range(0, len(line.vector), CHUNK):
                item.addChild(self._chunk_item(line, start))
        return item

    def _chunk_item(self, line: Line, start: int) -> QTreeWidgetItem:
        assert line.vector is not None
        part = line.vector[start : start + CHUNK]
        item = QTreeWidgetItem(
            [f"[{start} … {start + len(part) - 1}]", "  ".join(wording.number(float(v)) for v in part), ""]
        )
        item.setData(0, LINE, line)
        item.setData(0, EXACT, repr([float(v) for v in part]))
        return item

    def _items(self) -> list[QTreeWidgetItem]:
        """Stages and lines; chunks of vectors have no state of their own."""
        found = []
        for i in range(self.topLevelItemCount()):
            stage = self.topLevelItem(i)
            if stage is not None:
                found += [stage, *_children(stage)]
        return found

    def _name(self, item: QTreeWidgetItem) -> str:
        line = self.line_of(item)
        return str(item.data(1, LINE)) if line is None else line.key

    def _colour(self, item: QTreeWidgetItem) -> None:
        look = theme.current()
        item.setForeground(0, look.text)
        item.setForeground(1, look.faint)
        item.setForeground(2, look.faint if self.line_of(item) is None else look.accent)
        for child in _children(item):
            if self.line_of(child) is self.line_of(item):
                child.setForeground(0, look.faint)
                child.setForeground(1, look.text)

    def _remember(self, item: QTreeWidgetItem, is_open: bool) -> None:
        if is_open:
            self._open.add(self._name(item))
        else:
            self._open.discard(self._name(item))

    def _point(self, item: QTreeWidgetItem | None) -> None:
        line = self.line_of(item)
        self.place_pointed.emit(*(("", "") if line is None else (line.place, line.key)))

    def _choose(self, item: QTreeWidgetItem) -> None:
        line = self.line_of(item)
        if line is None:
            item.setExpanded(not item.isExpanded())
        elif line.place:
            self.place_chosen.emit(line.place)

    # Hands --------------------------------------------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Keep the arrows from the window's shortcuts while focused."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            walking = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)
            if event.key() in walking or event.matches(QKeySequence.StandardKey.Copy):
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy, or walk."""
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.copied())
            return
        super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Fold or unfold a stage wherever it is clicked."""
        super().mousePressEvent(event)
        point = event.position().toPoint()
        item = self.itemAt(point)
        if item is None or event.button() != Qt.MouseButton.LeftButton or self.line_of(item) is not None:
            return
        if self.visualItemRect(item).contains(point):
            item.setExpanded(not item.isExpanded())

    def leaveEvent(self, event: QEvent) -> None:
        """Point at nothing."""
        super().leaveEvent(event)
        self.place_pointed.emit("", "")


def _children(item: QTreeWidgetItem) -> list[QTreeWidgetItem]:
    children = (item.child(i) for i in range(item.childCount()))
    return [child for child in children if child is not None]
