"""Heads as a table: name, mean, standard error, number of texts, and a bar with the error at its end; sorted by any."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QGuiApplication,
    QImage,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.charts.plot import Table
from ropewalk.views.plots.maps.signed import signed_colour
from ropewalk.views.plots.survey.statistic_map import with_error
from ropewalk.views.style import ink, theme, wording

Index = QModelIndex | QPersistentModelIndex
HEAD, MEAN, ERROR, COUNT, BAR = range(5)
WIDEST: Final = "−1.23e−4"
"""The longest that a number is written."""
MEANINGS: Final = (
    "The head, by layer",
    "Mean over texts",
    "Standard error of the mean",
    "Texts that have a value",
    "The mean, and its error at the end",
)
LEAST_BAR: Final = 10
"""Digits' widths that a bar has at least, where it is shown at all."""


class ErrorModel(QAbstractTableModel):
    """The rows in the order that they are sorted in: those chosen first, those without a number last."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.names: Sequence[str] = ()
        self.means: Doubles = np.zeros(0)
        self.errors: Doubles = np.zeros(0)
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)
        self.title = "mean"
        self.chosen: frozenset[int] = frozenset()
        self.order: NDArray[np.intp] = np.zeros(0, np.intp)
        """The place of the head in each row."""
        self.rows: NDArray[np.intp] = np.zeros(0, np.intp)
        """The row of each head."""
        self.extent = (0.0, 1.0)
        """Where bars begin and end; zero is in it."""
        self.by, self.down = MEAN, True

    def show(
        self, names: Sequence[str], means: Doubles, errors: Doubles, counts: NDArray[np.int64], title: str
    ) -> None:
        """Take other numbers, sorted as before."""
        self.beginResetModel()
        self.names, self.means, self.errors, self.counts, self.title = names, means, errors, counts, title
        self.chosen = frozenset(place for place in self.chosen if place < len(names))
        reach = np.stack((means, means - np.nan_to_num(errors), means + np.nan_to_num(errors)))
        reach = reach[np.isfinite(reach)]
        low, high = min(float(reach.min(initial=0.0)), 0.0), max(float(reach.max(initial=0.0)), 0.0)
        self.extent = (low, high) if high > low else (0.0, 1.0)
        self._sort()
        self.endResetModel()

    def choose(self, places: Collection[int]) -> None:
        """Put some heads first."""
        self.chosen = frozenset(places)
        self.sort(self.by, Qt.SortOrder.DescendingOrder if self.down else Qt.SortOrder.AscendingOrder)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; rows that are selected stay selected."""
        self.by, self.down = column, order == Qt.SortOrder.DescendingOrder
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        heads = [int(self.order[index.row()]) for index in before]
        self._sort()
        after = [self.index(int(self.rows[head]), at.column()) for head, at in zip(heads, before, strict=True)]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, HEAD, BAR)

    def _sort(self) -> None:
        places = np.arange(len(self.names))
        values = {ERROR: self.errors, COUNT: self.counts.astype(np.float64), HEAD: places.astype(np.float64)}
        keys = values.get(self.by, self.means)
        others = ~np.isin(places, np.fromiter(self.chosen, np.intp))
        self.order = np.lexsort((places, -keys if self.down else keys, others))  # which puts NaN last either way
        self.rows = np.argsort(self.order)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        """Return how many heads there are."""
        return 0 if parent.isValid() else len(self.names)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        """Return how many columns there are, shown or not."""
        return 0 if parent.isValid() else BAR + 1

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a column's heading, its alignment, or what it means."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            arrow = (" ▾" if self.down else " ▴") if section == self.by else ""
            return f"{self.heading(section)}{arrow}"
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{MEANINGS[section]}; a click sorts by it, another one the other way round"
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return ink.LEFT if section in (HEAD, BAR) else ink.RIGHT
        return None

    def heading(self, column: int) -> str:
        """What a column is called."""
        return ("head", self.title, "± error", "n", "")[column]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return the text of a cell, or what a screen reader says of its bar."""
        if role == Qt.ItemDataRole.DisplayRole:
            return self.text(int(self.order[index.row()]), index.column())
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return self.words(int(self.order[index.row()])) if index.column() == BAR else None
        return None

    def text(self, head: int, column: int) -> str:
        """What is written in a column of a head."""
        if column == HEAD:
            return self.names[head]
        if column == COUNT:
            return f"{self.counts[head]:,}"
        value = float((self.means if column == MEAN else self.errors)[head])
        return "" if column == BAR else "–" if math.isnan(value) else wording.number(value)

    def words(self, head: int) -> str:
        """Everything about a head in a line."""
        if math.isnan(self.means[head]):
            return f"{self.names[head]}: no text has a value"
        said = with_error(float(self.means[head]), float(self.errors[head]))
        return f"{self.names[head]}: {said}{ink.PART}n = {self.counts[head]:,}"


class ErrorDelegate(QStyledItemDelegate):
    """Paints a cell."""

    def __init__(self, model: ErrorModel, rows: QTableView) -> None:
        super().__init__(rows)
        self.model, self.rows = model, rows

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one cell with the theme's fonts and colours."""
        look, head, column = theme.current(), int(self.model.order[index.row()]), index.column()
        box, state = QRectF(option.rect), option.state
        if box.bottom() > self.rows.viewport().height():
            return  # no row is cut in two; it comes whole when it is scrolled to
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(box, look.chosen)
            if column == HEAD:
                painter.fillRect(QRectF(box.left(), box.top(), look.grid(0.25), box.height()), look.accent)
        inner = box.adjusted(look.grid(0.75), 0, -look.grid(0.75), 0)
        if column == BAR:
            self._paint_bar(painter, inner, head)
            return
        if column == HEAD:
            side = look.grid(0.5)
            if head in self.model.chosen:
                self._paint_diamond(painter, inner, side)
            inner.adjust(2.5 * side, 0, 0, 0)
        colour = look.faint if column in (ERROR, COUNT) else look.text
        align = ink.LEFT if column == HEAD else ink.RIGHT
        ink.draw_text(painter, inner, self.model.text(head, column), look.font("number"), colour, align)

    def _paint_diamond(self, painter: QPainter, box: QRectF, side: float) -> None:
        """What chosen heads are in the scatter, too."""
        at = box.center()
        at.setX(box.left() + side)
        corners = [at + QPointF(*far) for far in ((0, -side), (0.8 * side, 0), (0, side), (-0.8 * side, 0))]
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().text)
        painter.drawPolygon(QPolygonF(corners))
        painter.restore()

    def _paint_bar(self, painter: QPainter, box: QRectF, head: int) -> None:
        """A bar from zero to the mean, and a line from one end of its error to the other."""
        look, (low, high) = theme.current(), self.model.extent
        mean, error = float(self.model.means[head]), float(self.model.errors[head])
        if not math.isfinite(mean):
            return

        def across(value: float) -> float:
            return box.left() + (value - low) / (high - low) * box.width()

        middle, thick = box.center().y(), max(box.height() * 0.45, 4.0)
        start, end = sorted((across(0.0), across(mean)))
        colour = ink.faded(look.key, 0.85) if low >= 0 else signed_colour(mean)
        painter.fillRect(QRectF(start, middle - thick / 2, max(end - start, 1.0), thick), colour)
        if low < 0:
            painter.fillRect(QRectF(across(0.0) - 0.5, box.top(), 1, box.height()), look.faint)
        if error > 0:
            wide, cap = max(look.grid(0.125), 1), thick / 2
            left, right = across(mean - error), across(mean + error)
            for colour, width in ((look.panel, wide + 2), (look.text, wide)):  # read over a bar and beside it
                painter.setPen(QPen(colour, width))
                painter.drawLine(QPointF(left, middle), QPointF(right, middle))
                for end in (left, right):
                    painter.drawLine(QPointF(end, middle - cap), QPointF(end, middle + cap))


class ErrorTable(QTableView):
    """A row for every head; a click on a heading sorts, the keys of a list move, Copy copies the selected rows.

    Signals
    -------
    picked(head)
        A person went to the row of a head: its place among those shown.
    menu_wanted(None, at)
        The right button or the Menu key was pressed, and where on the screen.
    """

    picked = Signal(int)
    menu_wanted = Signal(object, QPoint)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.heads = ErrorModel(self)
        self._quiet = False
        self.setModel(self.heads)
        self.setItemDelegate(ErrorDelegate(self.heads, self))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setMinimumSectionSize(1)  # a column is as wide as it is told to be
        header.setHighlightSections(False)
        header.setSectionsClickable(True)
        header.sectionClicked.connect(self.sort_by)
        self.setAccessibleName("heads with their means and errors")
        self.theme_changed()

    def show_heads(
        self, names: Sequence[str], means: Doubles, errors: Doubles, counts: Doubles | int, title: str = "mean"
    ) -> None:
        """Show heads [N], their means and errors [N], and of how many texts each is; the order and the row stay."""
        selected = self.selected if len(names) == len(self.heads.names) else -1
        whole = np.broadcast_to(np.asarray(counts), means.shape).astype(np.int64)
        self._quiet = True
        self.heads.show(names, means, errors, whole, title)
        self._quiet = False
        self.mark(selected)
        self.fit_columns()

    def mark(self, head: int) -> None:
        """Select the row of a head and bring it into sight; −1 for none."""
        rows = [index.row() for index in self.selectionModel().selectedRows()]
        if rows == ([int(self.heads.rows[head])] if 0 <= head < len(self.heads.names) else []):
            return
        self._quiet = True
        if 0 <= head < len(self.heads.names):
            self.selectRow(int(self.heads.rows[head]))
            self.scrollTo(self.currentIndex())
        else:
            self.clearSelection()
            self.setCurrentIndex(QModelIndex())
        self._quiet = False

    def choose(self, heads: Collection[int]) -> None:
        """Put chosen heads first, under a mark."""
        if frozenset(heads) != self.heads.chosen:
            self.heads.choose(heads)
            self.scrollToTop()

    def sort_by(self, column: int) -> None:
        """Sort by a column, the largest first and names from the first on, or the other way round."""
        column = MEAN if column == BAR else column
        down = not self.heads.down if column == self.heads.by else column != HEAD
        self.heads.sort(column, Qt.SortOrder.DescendingOrder if down else Qt.SortOrder.AscendingOrder)
        at = self.currentIndex()
        self.scrollTo(at) if at.isValid() else self.scrollToTop()

    @property
    def selected(self) -> int:
        """The head of the current row, −1 for none."""
        at = self.currentIndex()
        return int(self.heads.order[at.row()]) if at.isValid() else -1

    # What it can say ----------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """All rows, in the order that is seen, as columns."""
        heads, order = self.heads, self.heads.order
        return (
            ("head", [heads.names[place] for place in order.tolist()]),
            (heads.title, heads.means[order].tolist()),
            ("error", heads.errors[order].tolist()),
            ("n", heads.counts[order].tolist()),
        )

    def text(self, rows: Iterable[int] | None = None) -> str:
        """Rows as lines parted by tabs under the names of the columns; None for all."""
        columns = self.table()
        wanted = range(len(self.heads.names)) if rows is None else sorted(rows)
        lines = ["\t".join(name for name, _ in columns)]
        return "\n".join([*lines, *("\t".join(str(column[row]) for _, column in columns) for row in wanted)])

    def picture(self) -> QImage:
        """What is seen, as pixels, twice as fine as on an ordinary screen."""
        image = QImage(self.size() * 2, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(2)
        image.fill(theme.current().panel)
        self.render(image)
        return image

    # How it is drawn ----------------------------------------------------------------------------------------------

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        look = theme.current()
        self.verticalHeader().setDefaultSectionSize(round(ink.line_height(look.font("number")) + look.grid(0.75)))
        self.fit_columns()
        self.viewport().update()

    def fit_columns(self) -> None:
        """Give numbers the width that they want and the bar the rest; leave columns out that there is no room for."""
        look, heads = theme.current(), self.heads
        font, pad = look.font("number"), look.grid(1.5) + 2
        longest = max(heads.names, key=len, default="L0H0")
        label = look.font("label")
        titles = [ink.text_width(label, f"{heads.heading(column)} ▾") + pad for column in range(BAR)]
        texts = (longest, WIDEST, WIDEST, f"{heads.counts.max(initial=0):,}")
        widths = [
            math.ceil(max(ink.text_width(font, text) + pad, min(title, look.grid(14))))
            for text, title in zip(texts, titles, strict=True)
        ]
        widths[HEAD] += math.ceil(look.grid(1.25))
        room, least = self.viewport().width(), math.ceil(LEAST_BAR * look.face("number").width("0"))
        counted = sum(widths) + least <= room
        barred = sum(widths[:COUNT]) + least <= room
        self.setColumnHidden(COUNT, not counted)
        self.setColumnHidden(BAR, not barred)
        for column, width in enumerate(widths):
            self.setColumnWidth(column, width)
        self.setColumnWidth(BAR, max(room - sum(widths[: BAR if counted else COUNT]), least))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the columns."""
        super().resizeEvent(event)
        self.fit_columns()

    # What a person does -------------------------------------------------------------------------------------------

    def currentChanged(self, current: Index, previous: Index) -> None:
        """Say which head a person went to."""
        super().currentChanged(current, previous)
        if current.isValid() and not self._quiet and current.row() != previous.row():
            self.picked.emit(int(self.heads.order[current.row()]))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy the selected rows, or go to another one."""
        if event.matches(QKeySequence.StandardKey.Copy):
            rows = [index.row() for index in self.selectionModel().selectedRows()]
            QGuiApplication.clipboard().setText(self.text(rows or None))
        elif event.key() in (Qt.Key.Key_Home, Qt.Key.Key_End) and self.heads.names:  # Qt's own go along a row
            self.selectRow(0 if event.key() == Qt.Key.Key_Home else len(self.heads.names) - 1)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Keep the keys of a list, and that which copies, from the window's shortcuts while focused."""
        copies = isinstance(event, QKeyEvent) and event.matches(QKeySequence.StandardKey.Copy)
        if event.type() == QEvent.Type.ShortcutOverride and copies:
            event.accept()
            return True
        return arrow_keys.kept(event, arrow_keys.IN_A_LIST) or super().event(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of plots."""
        self.menu_wanted.emit(None, event.globalPos())
