"""Layouts that Qt lacks: controls on as many lines as the width needs, and a page that is scrolled where it is low."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QScrollArea, QWidget


class FlowLayout(QLayout):
    """Places items like words in a paragraph."""

    def __init__(self, parent: QWidget | None = None, spacing: int = 4) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    def addItem(self, item: QLayoutItem) -> None:
        """Put an item at the end."""
        self._items.append(item)

    def count(self) -> int:
        """How many items there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """Return an item, None past the end."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Take an item out, None past the end."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """Never take more than is needed."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """Narrower is higher."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height that a width needs."""
        return self._place(QRect(0, 0, width, 0), move=False)

    def setGeometry(self, box: QRect) -> None:
        """Place the items."""
        super().setGeometry(box)
        self._place(box, move=True)

    def sizeHint(self) -> QSize:
        """Return the size of the largest item."""
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        """Return the size of the largest item."""
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size

    def _place(self, box: QRect, *, move: bool) -> int:
        y = box.top()
        for line in self._lines(box.width()):
            height = max(item.sizeHint().height() for item in line)
            x = box.left()
            for item in line:
                size = item.sizeHint()
                if move:
                    top = y + (height - size.height()) // 2
                    item.setGeometry(QRect(QPoint(x, top), QSize(min(size.width(), box.width()), size.height())))
                x += size.width() + self.spacing()
            y += height + self.spacing()
        return max(y - self.spacing() - box.top(), 0)

    def _lines(self, width: int) -> list[list[QLayoutItem]]:
        """Break the items into lines that fit a width."""
        lines: list[list[QLayoutItem]] = []
        used = 0
        for item in self._items:
            wanted = item.sizeHint().width()
            if not lines or used + wanted > width:
                lines.append([])
                used = 0
            lines[-1].append(item)
            used += wanted + self.spacing()
        return lines


def flowing(*widgets: QWidget) -> QWidget:
    """Put widgets into a row that breaks where it must."""
    holder = QWidget()
    layout = FlowLayout(holder)
    for widget in widgets:
        layout.addWidget(widget)
    return holder


def scrolled(page: QWidget, name: str = "") -> QScrollArea:
    """Put a page into a scroll area; one with a name can be reached by the keyboard, for what nothing else reaches."""
    area = QScrollArea()
    area.setWidget(page)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.viewport().setAutoFillBackground(False)
    page.setAutoFillBackground(False)
    if name:
        area.setAccessibleName(name)
    else:
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    return area
