"""The shape ledger: every operation of a layer with its symbol, shape, bytes, parameters, FLOPs and check.

It computes no shape: the entries come from ``model.ledger``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import QAbstractTableModel, QEvent, QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskLedger, Question
from ropewalk.model.readings.records import Run
from ropewalk.views.panels.panel import NOTHING_YET, Panel, plain_label
from ropewalk.views.style import highlight, ink, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session
    from ropewalk.model.ledger.ledger import LedgerEntry, ShapeLedger

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class LedgerRow:
    """One operation, as the prefill did it and as a decode step does it."""

    prefill: LedgerEntry | None
    decode: LedgerEntry | None = None

    @property
    def entry(self) -> LedgerEntry:
        """The prefill's entry, or the decode step's where the prefill has none."""
        entry = self.prefill or self.decode
        if entry is None:
            raise LookupError("A ledger row needs an entry of the prefill or of the decode step.")
        return entry

    @property
    def failed(self) -> bool:
        """Whether a check of either entry failed."""
        return any(
            e is not None and e.check is not None and e.check.passed is False for e in (self.prefill, self.decode)
        )

    @property
    def passed(self) -> bool:
        """Whether there is a check, and every check made has passed."""
        checks = [e.check for e in (self.prefill, self.decode) if e is not None and e.check is not None]
        return any(check.passed for check in checks) and not self.failed


def paired(prefill: ShapeLedger, decode: ShapeLedger | None) -> tuple[LedgerRow, ...]:
    """Put the entries of a prefill and of a decode step that are the same operation into one row."""
    if decode is None:
        return tuple(LedgerRow(entry) for entry in prefill.entries)
    later = {entry.key: entry for entry in decode.entries}
    rows = [LedgerRow(entry, later.pop(entry.key, None)) for entry in prefill.entries]
    return (*rows, *(LedgerRow(None, entry) for entry in later.values()))


def memory_text(entry: LedgerEntry | None, brief: bool = False) -> str:
    """Say what an entry takes in memory; unless ``brief``, also what a tensor that was never made would have taken."""
    if entry is None:
        return ""
    if entry.stored == "stored":
        return wording.byte_size(entry.bytes)
    if brief or not entry.would_cost_bytes or entry.stored == "view":
        return entry.stored
    return f"not stored · would be {wording.byte_size(entry.would_cost_bytes)}"


def check_text(entry: LedgerEntry | None) -> str:
    """Say what was checked and what came of it."""
    if entry is None or entry.check is None:
        return ""
    check = entry.check
    outcome = {True: "holds", False: "does not hold", None: "not yet checked"}[check.passed]
    return f"{check.statement}: {outcome}" + (f" ({check.found})" if check.found else "")


def _of(entry: LedgerEntry | None, text: Callable[[LedgerEntry], str]) -> str:
    return "" if entry is None else text(entry)


@dataclass(frozen=True)
class Column:
    """One column: its heading, what it writes, and whether it lines up on the right."""

    key: str
    heading: str
    text: Callable[[LedgerRow], str]
    right: bool = False
    explained: str = ""

    @property
    def role(self) -> theme.Role:
        """The type it is set in: words narrow, numbers with one width a digit."""
        if self.key == "operation":
            return "body"
        return "label" if self.key in ("symbol", "memory", "spared", "decode_memory") else "number"


COLUMNS: tuple[Column, ...] = (
    Column("operation", "Operation", lambda r: r.entry.name),
    Column("symbol", "Symbol", lambda r: r.entry.symbol),
    Column("shape", "Prefill", lambda r: _of(r.prefill, lambda e: wording.shape(e.shape))),
    Column("decode", "Decode", lambda r: _of(r.decode, lambda e: wording.shape(e.shape)), explained="One decode step"),
    Column("memory", "Memory", lambda r: memory_text(r.entry, brief=True), True),
    Column("spared", "Memory", lambda r: memory_text(r.entry), True),
    Column("parameters", "Params", lambda r: wording.count(r.entry.parameters), True),
    Column("flops", "FLOPs", lambda r: wording.count(r.entry.flops_full), True, "A multiply-add is 2; full T × S"),
    Column("causal", "causal", lambda r: wording.count(r.entry.flops_causal), True, "FLOPs of the causal part only"),
    Column("decode_flops", "step FLOPs", lambda r: _of(r.decode, lambda e: wording.count(e.flops_full)), True),
    Column("decode_memory", "step memory", lambda r: memory_text(r.decode, brief=True), True),
    Column("dtype", "dtype", lambda r: r.entry.dtype),
    Column("check", "", lambda r: "✗" if r.failed else "✓" if r.passed else "", explained="Checks"),
)
ESSENTIAL = ("operation", "check", "shape", "symbol", "decode", "memory")
"""Columns in order of importance; the rest follow when there is room."""
EXTRA = ("flops", "parameters", "causal", "decode_flops", "decode_memory", "dtype")


COSTS = ("flops", "causal", "shape", "parameters", "memory")
"""What a projector shows in place of all columns."""
COSTS_FIRST = ("operation", "shape", "decode", "flops", "causal", "parameters", "decode_flops", "decode_memory")
"""Where columns begin of which not all can be seen at a time."""


class LedgerModel(QAbstractTableModel):
    """The rows of a ledger for a table view."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.rows: tuple[LedgerRow, ...] = ()
        self.texts: tuple[tuple[str, ...], ...] = ()
        """What each cell of each row says; asking for it again and again would take longer than writing it."""
        self.highlighted: frozenset[str] = frozenset()
        self.pointed: str | None = None
        self.step_alone = False
        """Whether the shapes are those of a decode step that no prefill stands beside."""
        self.walked: frozenset[str] = frozenset()
        """Rows that the walk through the block is at."""
        self.folds: dict[int, int] = {}
        """Rows that stand for so many that are not shown."""

    def show(self, rows: tuple[LedgerRow, ...], step_alone: bool = False) -> None:
        """Take other rows; where they are the same operations, only cells that say something else are announced."""
        if step_alone != self.step_alone:
            self.step_alone = step_alone
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(COLUMNS) - 1)
        texts = tuple(tuple(column.text(row) for column in COLUMNS) for row in rows)
        if [row.entry.key for row in rows] != [row.entry.key for row in self.rows]:
            self.beginResetModel()
            self.rows, self.texts = rows, texts
            self.endResetModel()
            return
        before, marks = self.texts, [_marks(row) for row in self.rows]
        self.rows, self.texts = rows, texts
        for place, row in enumerate(rows):
            whole = _marks(row) != marks[place]
            for number, (old, new) in enumerate(zip(before[place], texts[place], strict=True)):
                if whole or old != new:
                    index = self.index(place, number)
                    self.dataChanged.emit(index, index)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        """Return how many operations there are."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        """Return how many columns there are, shown or not."""
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a column's heading, its alignment, or what it means."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = COLUMNS[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return "Decode" if column.key == "shape" and self.step_alone else column.heading
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.explained or None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return ink.RIGHT if column.right else ink.LEFT
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return the text of a cell, its tooltip, or what a screen reader says."""
        row = self.rows[index.row()]
        if index.row() in self.folds:
            text = f"⋯ {self.folds[index.row()]} more" if COLUMNS[index.column()].key == "operation" else ""
            tip = "Show all operations" if role == Qt.ItemDataRole.ToolTipRole else None
            return text if role == Qt.ItemDataRole.DisplayRole else tip
        if role == Qt.ItemDataRole.DisplayRole:
            return self.texts[index.row()][index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return wording.tooltip(description(row))
        if role == Qt.ItemDataRole.AccessibleTextRole and COLUMNS[index.column()].key == "check":
            return check_text(row.entry)
        return None


def _marks(row: LedgerRow) -> tuple[str, str, bool]:
    """What a row's cells show beside their texts."""
    return row.entry.kind, row.entry.stored, row.failed


def description(row: LedgerRow) -> str:
    """Everything about a row, one fact a line, as plain text."""
    entry = row.entry
    lines = [check_text(entry), entry.formula, f"{entry.symbol} = {wording.shape(entry.shape)} {entry.dtype}"]
    lines.append(memory_text(entry))
    if entry.parameters:
        lines.append(f"{entry.parameters:,} parameters")
    if entry.flops_full:
        lines.append(f"{entry.flops_full:,} FLOPs, of which causal {entry.flops_causal:,}")
    if row.decode is not None and row.prefill is not None:
        step = row.decode
        lines.append(f"decode step: {wording.shape(step.shape)}, {memory_text(step)}, {step.flops_full:,} FLOPs")
        lines.append(check_text(step) if step.check != entry.check else "")
    return "\n".join(line for line in lines if line)


class LedgerDelegate(QStyledItemDelegate):
    """Paints a cell: a colour chip before the name, quiet symbols, a drawn tick or cross."""

    def __init__(self, model: LedgerModel, parent: QWidget) -> None:
        super().__init__(parent)
        self.model = model
        """Read directly: hundreds of cells are painted at a time."""

    @staticmethod
    def pad() -> int:
        """Air in a cell, left and right together."""
        return theme.current().grid(1.25)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Return the height of one line and some air."""
        look = theme.current()
        return QSize(24, round(ink.line_height(look.font("body")) + look.grid(0.5)))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one cell with the theme's fonts and colours."""
        look, place, number = theme.current(), index.row(), index.column()
        row, column, text = self.model.rows[place], COLUMNS[number], self.model.texts[place][number]
        box, key = QRectF(option.rect), row.entry.key
        state: QStyle.StateFlag = option.state
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(box, look.chosen)
        if key in self.model.highlighted:
            highlight.draw_band(painter, box)
        if key == self.model.pointed:
            self._paint_hover(painter, box)
        if key in self.model.walked:
            self._paint_walked(painter, box, number)
        inner = box.adjusted(self.pad() / 2, 0, -self.pad() / 2, 0)
        if place in self.model.folds:
            ink.draw_text(painter, inner.adjusted(12, 0, 0, 0), index.data() or "", look.font("label"), look.faint)
            return
        if column.key == "operation":
            self._paint_name(painter, inner, row)
        elif column.key == "check":
            if text:
                painter.save()
                ink.draw_tick(painter, box, not row.failed, look)
                painter.restore()
        elif text:
            align = ink.RIGHT if column.right else ink.LEFT
            ink.draw_text(painter, inner, text, look.font(column.role), self._colour(column, row), align)

    def _paint_hover(self, painter: QPainter, box: QRectF) -> None:
        """A ground, and a line in the accent under it, so that it differs from the chosen row."""
        look = theme.current()
        painter.fillRect(box, look.hover)
        painter.fillRect(QRectF(box.left(), box.bottom() - 2, box.width(), 2), look.accent)

    def _paint_walked(self, painter: QPainter, box: QRectF, number: int) -> None:
        """A part of the frame around the whole row."""
        line, accent = theme.current().grid(0.25), theme.current().accent
        for top in (box.top(), box.bottom() - line):
            painter.fillRect(QRectF(box.left(), top, box.width(), line), accent)
        if number == 0:
            painter.fillRect(QRectF(box.left(), box.top(), line, box.height()), accent)
        if number == len(COLUMNS) - 1:
            painter.fillRect(QRectF(box.right() - line, box.top(), line, box.height()), accent)

    def _paint_name(self, painter: QPainter, box: QRectF, row: LedgerRow) -> None:
        look = theme.current()
        chip = QRectF(box.left(), box.top() + box.height() * 0.25, 4, box.height() * 0.5)
        painter.fillRect(chip, ink.kind_colour(row.entry.kind, look))
        ink.draw_text(painter, box.adjusted(12, 0, 0, 0), row.entry.name, look.font("body"), look.text)

    def _colour(self, column: Column, row: LedgerRow) -> QColor:
        look = theme.current()
        quiet = column.key in ("symbol", "dtype")
        absent = column.key in ("memory", "spared") and row.entry.stored != "stored"
        return look.faint if quiet or absent else look.text


class LedgerTable(QTableView):
    """A table that says which row was clicked or entered, and asks to be fitted when its width changes."""

    row_chosen = Signal(int)
    resized = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Take Return for a click on the current row."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.row_chosen.emit(self.currentIndex().row())
            return
        super().keyPressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Announce the row under a left click."""
        super().mouseReleaseEvent(event)
        index = self.indexAt(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and index.isValid():
            self.row_chosen.emit(index.row())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Announce the new width."""
        super().resizeEvent(event)
        self.resized.emit()

    def event(self, event: QEvent) -> bool:
        """Keep ↑ and ↓ from the window's own shortcuts while the table has the focus."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and event.key() in OWN_KEYS:
            event.accept()
            return True
        return super().event(event)


OWN_KEYS = frozenset({int(key) for key in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Home, Qt.Key.Key_End)})
"""What the table takes while it has the focus."""


class WholeRows(QWidget):
    """Holds the table at a height that cuts no row in two."""

    def __init__(self, table: LedgerTable) -> None:
        super().__init__()
        self.table = table
        table.setParent(self)
        table.resized.connect(self.fit)  # the heading has its height only when it has been laid out

    def sizeHint(self) -> QSize:
        """Return the table's own."""
        return self.table.sizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the table."""
        super().resizeEvent(event)
        self.fit()

    def fit(self) -> None:
        """Round the height down to whole rows."""
        height = self._around + self.holds(self.height()) * self._row
        self.table.setGeometry(0, 0, self.width(), min(height, self.height()))

    def holds(self, height: int) -> int:
        """How many rows there are in a height, at least one."""
        return max((height - self._around) // self._row, 1)

    @property
    def _row(self) -> int:
        return max(self.table.verticalHeader().defaultSectionSize(), 1)

    @property
    def _around(self) -> int:
        """Height of the heading, and of the bar that scrolls sideways."""
        header, bar = self.table.horizontalHeader(), self.table.horizontalScrollBar()
        return (header.height() or header.sizeHint().height()) + (bar.sizeHint().height() if bar.isVisible() else 0)


class LedgerPanel(Panel):
    """Shows the shape ledger of the selected layer, prefill beside decode step."""

    name: ClassVar[str] = "ledger"
    title: ClassVar[str] = "Shape ledger"
    depends: ClassVar[frozenset[str]] = frozenset({"layer"})

    panel_requested = Signal(str)
    """A row was clicked whose operation another panel shows; carries that panel's name."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._sums = ("", "")
        """What is said of the whole ledger, briefly and at length."""
        self.outline: ShapeLedger | None = None
        """The ledger of a config alone, which is shown in place of the run's."""
        self._folds = True
        """Whether rows may be folded: a click on a fold shows them all, until others are named."""
        self.model = LedgerModel(self)
        self.table = self._make_table()
        self.totals = plain_label("", "label")
        self.totals.setWordWrap(True)
        self.all_columns = QPushButton("All columns")
        self.all_columns.setCheckable(True)
        self.all_columns.setToolTip("Show every column and scroll sideways; otherwise what fits is shown.")
        self.all_columns.toggled.connect(self.fit_columns)
        self.head_row.addWidget(self.all_columns)
        self._lines = QVBoxLayout(self.body)
        self._lines.setContentsMargins(0, 0, 0, 0)
        self._lines.setSpacing(8)
        self.frame = WholeRows(self.table)
        self._lines.addWidget(self.frame, 1)
        self._lines.addWidget(self.totals)
        session.walk.moved.connect(self._show_walked)
        self.theme_changed()

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the ledger of the selected layer, unless that of a config is shown."""
        return AskLedger(selection.layer) if self.outline is None else None

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Fill the table; the current row stays where it was."""
        if self.outline is not None:
            self._fill(self.outline, None)
        elif reading is not None:
            self._fill(*reading.value)

    def show_outline(self, ledger: ShapeLedger | None) -> None:
        """Show the ledger of a config alone, which needs no run; None goes back to the run's."""
        if ledger == self.outline:
            return
        self.outline = ledger
        if ledger is None:
            self.begin(None)
            self.explain("" if self.session.run is not None else NOTHING_YET)
            self.refresh()
            return
        self.explain("")
        self._fill(ledger, None)

    def show_highlights(self) -> None:
        """Band the rows that are named, and bring them into sight."""
        self.model.highlighted = frozenset(self.highlighted.get("rows", frozenset()))
        self._folds = True
        self.table.viewport().update()
        self._bring_highlights_into_sight()

    def _bring_highlights_into_sight(self) -> None:
        self._spare()
        self._fold()
        rows = self._places(self.model.highlighted)
        seen = self.table.viewport().rect()
        if not all(seen.contains(self.table.visualRect(self.model.index(place, 0)).center()) for place in rows):
            self.table.scrollTo(self.model.index(rows[0], 0), QAbstractItemView.ScrollHint.PositionAtTop)

    def _places(self, keys: frozenset[str]) -> list[int]:
        return [place for place, row in enumerate(self.model.rows) if row.entry.key in keys]

    def _spare(self) -> None:
        """Leave the sums out where the rows that are named would not all be seen beside them."""
        under = self.totals.heightForWidth(self.body.width()) + self._lines.spacing()
        named = set(self._places(self.model.highlighted))
        needed = 0
        if named:
            together = max(named) - min(named) + 1
            needed = min(together, len(named) + len(gaps(len(self.model.rows), named))) if self._folds else together
        self.totals.setVisible(self.frame.holds(self.body.height() - under) >= needed)
        self._lines.activate()

    def _fold(self) -> None:
        """Where the named rows are too far apart to be seen together, fold what lies between them."""
        rows, room = range(len(self.model.rows)), self.frame.holds(self.frame.height())
        shown = set(self._places(self.model.highlighted))
        apart = self._folds and bool(shown) and max(shown) - min(shown) >= room
        shown |= set(self._places(self.model.walked | {self.model.pointed or ""})) if apart else set()
        folds = folded(len(rows), shown, room) if apart else {}
        if folds != self.model.folds:
            self._unfold()
            self.model.folds = folds
            for first, count in folds.items():
                for place in range(first + 1, first + count):
                    self.table.hideRow(place)
            self.table.viewport().update()

    def _unfold(self) -> None:
        self.model.folds = {}
        for place in range(len(self.model.rows)):
            self.table.showRow(place)
            self.table.setRowHeight(place, self.table.verticalHeader().defaultSectionSize())  # else as high as it was

    def _show_walked(self) -> None:
        """Frame the rows that the walk is at, and bring them into sight."""
        self.model.walked = self.session.walk.lit if self.outline is None else frozenset()
        self._fold()
        for place in reversed(range(len(self.model.rows))):
            if self.model.rows[place].entry.key in self.model.walked:
                self.table.scrollTo(self.model.index(place, 0))
        self.table.viewport().update()

    def _fill(self, prefill: ShapeLedger, decode: ShapeLedger | None) -> None:
        current = self.table.currentIndex().row()
        self.model.show(paired(prefill, decode), prefill.mode == "decode")
        if 0 <= current < self.model.rowCount():
            self.table.selectRow(current)
        self.describe(_subtitle(prefill, decode))
        ledgers = (prefill,) if decode is None else (prefill, decode)
        self._sums = sums_text(ledgers, brief=True), sums_text(ledgers, brief=False)
        self._sum_up()
        self.fit_columns()
        self._bring_highlights_into_sight()
        self._show_walked()

    def show_hover(self, hover: Hover) -> None:
        """Mark the row of the operation that is pointed at elsewhere, and bring it into sight."""
        if hover.operation == self.model.pointed:
            return
        self.model.pointed = hover.operation
        self._fold()
        for place, row in enumerate(self.model.rows):
            if row.entry.key == hover.operation:
                self.table.scrollTo(self.model.index(place, 0))
        self.table.viewport().update()

    def theme_changed(self) -> None:
        """Take new fonts, row heights and columns."""
        look = theme.current()
        self.all_columns.setText("Costs" if look.projector else "All columns")
        rows = self.table.verticalHeader()
        self._unfold()
        rows.setDefaultSectionSize(round(ink.line_height(look.font("body")) + look.grid(0.5)))
        self.table.horizontalHeader().setFont(look.font("label"))
        self._sum_up()
        self.frame.fit()
        self.fit_columns()
        self._bring_highlights_into_sight()
        self.table.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Say the sums briefly where there is little room, and have what is named in sight."""
        super().resizeEvent(event)
        self._sum_up()
        self.body.layout().activate()  # type: ignore[union-attr]
        self._bring_highlights_into_sight()

    def _sum_up(self) -> None:
        wide = self.width() >= 3 * ink.text_width(theme.current().font("label"), "whole model: 886 K params")
        self.totals.setText(self._sums[wide])
        self.totals.setToolTip(self._sums[True])

    def shown_columns(self) -> tuple[str, ...]:
        """Return the keys of the columns on screen, from left to right."""
        return tuple(c.key for i, c in enumerate(COLUMNS) if not self.table.isColumnHidden(i))

    def fit_columns(self) -> None:
        """Show the columns that fit, the more important first, or all of them when asked."""
        widths = {column.key: self._width(number) for number, column in enumerate(COLUMNS)}
        wanted = self._asked_for(widths) if self.all_columns.isChecked() else self._fitting(widths)
        spare = self.table.viewport().width() - sum(widths[key] for key in wanted)
        if spare > 0:
            widths["operation"] += spare
        elif not self.all_columns.isChecked():
            widths["operation"] = max(widths["operation"] + spare, 40)
        header = self.table.horizontalHeader()
        scrolled = self.all_columns.isChecked() and not self._fits(wanted, widths)
        first = [column for key in COSTS_FIRST for column in COLUMNS if column.key == key] if scrolled else []
        order = dict.fromkeys((*first, *COLUMNS))
        for place, column in enumerate(order):
            header.moveSection(header.visualIndex(COLUMNS.index(column)), place)
        for i, column in enumerate(COLUMNS):
            self.table.setColumnHidden(i, column.key not in wanted)
            header.resizeSection(i, widths[column.key])  # once: each other width paints the table again

    def _asked_for(self, widths: dict[str, int]) -> set[str]:
        """All columns, to be scrolled; nobody scrolls on a projector, so there the costs replace other columns.

        Columns of a step have nothing to say where there is none, and the memory is said briefly where that is enough
        for all columns to be seen.
        """
        if not theme.current().projector:
            wanted = {key for key in widths if not key.startswith("decode") or self._has_decode}
            brief = wanted - {"spared"}
            return (
                brief
                if self._fits(brief, widths) and not self._fits(wanted - {"memory"}, widths)
                else wanted - {"memory"}
            )
        wanted, room = {"operation"}, self.table.viewport().width() - widths["operation"]
        for key in COSTS:
            if widths[key] <= room:
                wanted.add(key)
                room -= widths[key]
        return wanted

    @property
    def _has_decode(self) -> bool:
        return any(row.decode is not None for row in self.model.rows)

    def _fits(self, keys: set[str], widths: dict[str, int]) -> bool:
        return sum(widths[key] for key in keys) <= self.table.viewport().width()

    def _fitting(self, widths: dict[str, int]) -> set[str]:
        essential = [key for key in ESSENTIAL if key != "decode" or self._has_decode]
        extra = [key for key in EXTRA if not key.startswith("decode") or self._has_decode]
        room = self.table.viewport().width()
        wanted: set[str] = set()
        for key in essential:
            if key in ("operation", "check", "shape") or widths[key] <= room:
                wanted.add(key)
                room -= widths[key]
        if theme.current().projector or len(wanted) < len(essential):
            extra = []
        for key in extra:
            if widths[key] <= room:
                wanted.add(key)
                room -= widths[key]
        if "memory" in wanted and widths["spared"] - widths["memory"] <= room:
            wanted = wanted - {"memory"} | {"spared"}
        return wanted

    def _width(self, number: int) -> int:
        look, column = theme.current(), COLUMNS[number]
        if column.key == "check":
            return round(ink.line_height(look.font("body"))) + LedgerDelegate.pad()
        font = look.font(column.role)
        texts = {texts[number] for texts in self.model.texts}
        widest = max((ink.text_width(font, text) for text in texts), default=0)
        chip = 12 if column.key == "operation" else 0
        heading = ink.text_width(look.font("label"), column.heading) + 8
        return round(max(widest + chip, heading, 12)) + LedgerDelegate.pad()

    def _make_table(self) -> LedgerTable:
        table = LedgerTable(self)
        table.setModel(self.model)
        table.setItemDelegate(LedgerDelegate(self.model, table))
        table.setShowGrid(False)
        table.setFrameShape(LedgerTable.Shape.NoFrame)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        table.setTabKeyNavigation(False)
        table.setWordWrap(False)
        table.verticalHeader().hide()
        table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        table.horizontalHeader().setHighlightSections(False)
        table.horizontalHeader().setMinimumSectionSize(16)
        table.setAccessibleName("Shape ledger: one row per operation")
        table.row_chosen.connect(self._request_panel)
        table.resized.connect(self.fit_columns)
        table.resized.connect(self._bring_highlights_into_sight)
        return table

    def _request_panel(self, row: int) -> None:
        """Go to the operation in the walk, where that is looked at and has it, else to the panel that shows it."""
        if row in self.model.folds:
            self._folds = False
            self._fold()
            return
        entry, walk = self.model.rows[row].entry, self.session.walk
        if self.outline is None and walk.in_sight and walk.seek(entry.key):
            return
        if entry.panel:
            self.panel_requested.emit(entry.panel)


def folded(count: int, shown: set[int], room: int) -> dict[int, int]:
    """Which rows of a table stand for themselves and those after them, and for how many, so that it fits.

    Rows next to ``shown`` ones stay for as long as there is room. Nothing is folded where that would not be enough.
    """
    kept = set(shown)
    if len(kept) + len(gaps(count, kept)) > room:
        return {}
    for place in sorted(set(range(count)) - kept, key=lambda place: (min(abs(place - one) for one in shown), place)):
        if len(kept) + 1 + len(gaps(count, kept | {place})) <= room:
            kept.add(place)
    return gaps(count, kept)


def gaps(count: int, kept: set[int]) -> dict[int, int]:
    """Where rows follow each other that are not kept, and how many."""
    found: dict[int, int] = {}
    first = 0
    for place in (*sorted(kept), count):
        if place > first:
            found[first] = place - first
        first = place + 1
    return found


def _subtitle(prefill: ShapeLedger, decode: ShapeLedger | None) -> str:
    if prefill.mode == "decode":
        return f"layer {prefill.layer} · decode T = {prefill.tokens}, P = {prefill.past}"
    text = f"layer {prefill.layer} · prefill T = {prefill.tokens}"
    return text if decode is None else f"{text} · decode P = {decode.past}"


def sums_text(ledgers: tuple[ShapeLedger, ...], brief: bool) -> str:
    """Add up each ledger, and say what the whole model costs."""
    return "\n".join([*(totals_text(ledger, brief) for ledger in ledgers), model_text(ledgers[-1], brief)])


def totals_text(ledger: ShapeLedger, brief: bool = False) -> str:
    """Add up the rows of one ledger in a line."""
    stored = sum(e.bytes for e in ledger.entries if e.stored == "stored")
    spared = sum(e.would_cost_bytes for e in ledger.entries if e.stored == "not stored")
    full = sum(e.flops_full for e in ledger.entries)
    causal = sum(e.flops_causal for e in ledger.entries)
    parts = [f"{ledger.mode} rows: {wording.byte_size(stored)} stored", wording.amount(full, "FLOPs")]
    if brief:
        return _unbroken(parts)
    if spared:
        parts.insert(1, f"{wording.byte_size(spared)} not stored")
    if causal != full:
        parts.append(f"causal {wording.amount(causal, 'FLOPs')}")
    if ledger.mode == "prefill":
        parts.append(f"{wording.count(sum(e.parameters for e in ledger.entries)) or '0'} params")
    return _unbroken(parts)


def model_text(ledger: ShapeLedger, brief: bool = False) -> str:
    """Say what the whole model costs for the same call, in a line."""
    size = f"{wording.count(ledger.model_parameters)} params, {wording.byte_size(ledger.model_weight_bytes)}"
    if brief:
        return _unbroken([f"whole model: {size}"])
    parts = [
        f"whole model: {size}",
        f"{wording.amount(ledger.model_flops.full, 'FLOPs')} a {'step' if ledger.mode == 'decode' else 'prefill'}",
        f"cache {wording.byte_size(ledger.cache_bytes)}",
        f"trace {wording.byte_size(ledger.trace_bytes)}",
    ]
    if ledger.mode == "prefill":
        parts.append(f"all T × S weights would be {wording.byte_size(ledger.matrices_bytes)}")
    return _unbroken(parts)


def _unbroken(parts: list[str]) -> str:
    """Join parts so that a line breaks between them only."""
    return " · ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)
