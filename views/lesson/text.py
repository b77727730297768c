"""The finished text of a lesson on screen: paragraphs, points, tables, drawn formulas, and numbers with their source.

It takes nothing for markup.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, QUrl
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QImage,
    QKeyEvent,
    QResizeEvent,
    QShowEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextImageFormat,
    QTextLength,
    QTextTableFormat,
)
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QTextEdit, QWidget

from ropewalk.model.lessons.text import FilledText, Paragraph, Span, plain_text
from ropewalk.views.plots import arrow_keys
from ropewalk.views.style import theme, wording
from ropewalk.views.style.formulas import FINE, formula_picture
from ropewalk.views.style.theme import Role

EDGES = 4
"""Pixels that the lines of a table take beside its columns."""


class LessonText(QTextEdit):
    """Read-only text that is as high as what it says.

    Parameters
    ----------
    name
        What a screen reader calls it.
    role
        Its place in the type scale.
    strong
        Whether all of it is in bold type.
    scale
        How many times as large as its role.
    """

    def __init__(self, name: str, role: Role = "heading", strong: bool = False, scale: float = 1.0) -> None:
        super().__init__()
        self.content: FilledText = ()
        self._scale = scale
        self.is_squeezed = False
        """Whether a formula had to be drawn smaller than the text."""
        self._widest = 0.0
        self._tables: list[float] = []
        """Widths of the tables with every cell on one line."""
        self._written_for = 0.0
        self._role, self._strong = role, strong
        self.setAccessibleName(name)
        self.setReadOnly(True)
        self.setAcceptRichText(False)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)

    def show_text(self, content: FilledText | tuple[Span, ...]) -> None:
        """Show a text, or a single line of spans."""
        spans = tuple(item for item in content if isinstance(item, Span))
        whole = tuple(item for item in content if isinstance(item, Paragraph))
        self.content = (Paragraph("paragraph", (spans,)),) if spans else whole
        self.setAccessibleDescription(plain_text(self.content))
        self._write()

    def theme_changed(self) -> None:
        """Write anew in the new colours and sizes."""
        self._write()

    def sizeHint(self) -> QSize:
        """A line, until it is seen and has a width to be broken at."""
        return QSize(super().sizeHint().width(), self.fontMetrics().height())

    def minimumSizeHint(self) -> QSize:
        """As narrow as it must be."""
        return QSize(120, 0)

    def showEvent(self, event: QShowEvent) -> None:
        """Take the height of what was written meanwhile."""
        super().showEvent(event)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Break the lines anew, and take the height that they need."""
        super().resizeEvent(event)
        width = self.viewport().width()
        broken = any(table > min(width, self._written_for) for table in self._tables)
        cut = broken or self._widest > width
        if (self.is_squeezed or cut) and event.size().width() != event.oldSize().width():
            self._write()  # a wide formula takes what width there is
        else:
            self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave the arrows up and down to the area that scrolls."""
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            event.ignore()
        else:
            super().keyPressEvent(event)

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy plain text."""
        data = QMimeData()
        data.setText(self.textCursor().selectedText().replace("\u2029", "\n"))
        return data

    # How it works -------------------------------------------------------------------------------------------------

    def _pixels(self) -> int:
        """Height of the type."""
        return round(theme.current().size(self._role) * self._scale)

    def _fit(self) -> None:
        if not self.isVisible():
            return  # at the width of a widget that nobody has laid out, a line is as high as the screen
        self.document().setTextWidth(self.viewport().width())
        height = round(self.document().size().height()) + 2
        if self.height() != height or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def _write(self) -> None:
        self.is_squeezed, self._widest, self._tables = False, 0.0, []
        self._written_for = self.viewport().width()
        self.clear()
        cursor = QTextCursor(self.document())
        first = True
        for is_table, group in groupby(self.content, key=lambda paragraph: paragraph.kind == "row"):
            paragraphs = tuple(group)
            if is_table:
                self._table(cursor, paragraphs)
                first = False
                continue
            for paragraph in paragraphs:
                self._begin(cursor, paragraph, first)
                for span in paragraph.spans:
                    self._insert(cursor, span, inline=paragraph.kind != "formula")
                first = False
        self.moveCursor(QTextCursor.MoveOperation.Start)
        self._fit()

    def _begin(self, cursor: QTextCursor, paragraph: Paragraph, first: bool) -> None:
        form = QTextBlockFormat()
        form.setTopMargin(0 if first else theme.current().grid(1))
        if paragraph.kind == "point":
            form.setLeftMargin(theme.current().grid(2))
            form.setTextIndent(-theme.current().grid(1.5))
        if paragraph.kind == "formula":
            form.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        if first:
            cursor.setBlockFormat(form)
        else:
            cursor.insertBlock(form)
        if paragraph.kind == "point":
            cursor.insertText("•  ", self._format("words"))

    def _table(self, cursor: QTextCursor, rows: tuple[Paragraph, ...]) -> None:
        """Write a table; where that would cut words in two, each row as lines of its own: heading and cell."""
        look = theme.current()
        form = QTextTableFormat()
        form.setBorder(1)
        form.setBorderBrush(look.line)
        form.setBorderCollapse(True)
        form.setCellPadding(look.grid(0.5))
        form.setTopMargin(look.grid(1))
        headings, *records = [tuple(row.cells) for row in rows]
        cells = [headings, *records]
        widths = self._widths(cells, between := 2 * (form.cellPadding() + form.border() + 1))
        if sum(widths) > self._written_for - EDGES and len(headings) > 2:
            pairs = [(pair, at == 0) for one in records for at, pair in enumerate(zip(headings, one, strict=False))]
            cells = [tuple(map(_strong, pair)) if first else pair for pair, first in pairs]
            widths = self._widths(cells, between)
        form.setColumnWidthConstraints([QTextLength(QTextLength.Type.FixedLength, width) for width in widths])
        table = cursor.insertTable(len(cells), len(widths), form)
        for at, row in enumerate(cells):
            for column, cell in enumerate(row):
                inside = table.cellAt(at, column).firstCursorPosition()
                for span in cell:
                    self._insert(inside, span, inline=True)
        cursor.movePosition(QTextCursor.MoveOperation.End)

    def _widths(self, cells: list[tuple[tuple[Span, ...], ...]], between: float) -> list[float]:
        """Widths of columns that cut no word, and keep as many cells on one line as there is room for."""
        columns = [[row[at] for row in cells if at < len(row)] for at in range(max(map(len, cells)))]
        least = [max(map(self._longest, column)) + between for column in columns]
        whole = [max(map(self._whole, column)) + between for column in columns]
        self._tables.append(sum(whole))
        share = (self._written_for - EDGES - sum(least)) / max(sum(whole) - sum(least), 1)
        return [low + (high - low) * min(max(share, 0.0), 1.0) for low, high in zip(least, whole, strict=True)]

    def _whole(self, cell: tuple[Span, ...]) -> int:
        """Width of a cell on one line."""
        return sum(self._longest((replace(span, text=span.text.replace(" ", "\N{NO-BREAK SPACE}")),)) for span in cell)

    def _longest(self, cell: tuple[Span, ...]) -> int:
        """Width of the widest of what a cell cannot break."""
        pictures = [self._picture(span, inline=True) for span in cell if span.kind == "formula"]
        drawn = [0.0 if picture is None else picture.width() / FINE for picture in pictures]
        parts = [(part, span.kind) for span in cell if span.kind != "formula" for part in span.text.split(" ")]
        written = [QFontMetricsF(self._format(kind).font()).horizontalAdvance(part) for part, kind in parts]
        return math.ceil(max((*drawn, *written), default=0.0))

    def _insert(self, cursor: QTextCursor, span: Span, inline: bool) -> None:
        form = self._format(span.kind)
        if span.source:
            form.setToolTip(wording.tooltip(span.source))
        if span.kind == "formula" and self._draw(cursor, span, inline):
            return
        cursor.insertText(theme.drawable(span.text), form)

    def _draw(self, cursor: QTextCursor, span: Span, inline: bool) -> bool:
        """Insert a formula as a picture; says whether it could be drawn."""
        look, picture = theme.current(), self._picture(span, inline)
        if picture is None:
            return False
        name = f"formula:{look.name}:{self._pixels()}:{span.text}"
        self.document().addResource(QTextDocument.ResourceType.ImageResource.value, QUrl(name), picture)
        form = QTextImageFormat()
        form.setName(name)
        share = min(1.0, max(self.viewport().width(), 120) * FINE / picture.width())
        self.is_squeezed = self.is_squeezed or share < 1
        self._widest = max(self._widest, picture.width() * share / FINE)
        form.setWidth(picture.width() * share / FINE)
        form.setHeight(picture.height() * share / FINE)
        form.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
        form.setToolTip(wording.tooltip(span.source or span.text))
        cursor.insertImage(form)
        return True

    def _picture(self, span: Span, inline: bool) -> QImage | None:
        """A formula as a picture, None where it cannot be drawn."""
        return formula_picture(span.text, round(self._pixels() * 1.1), theme.current().text.name(), inline)

    def _format(self, kind: str) -> QTextCharFormat:
        look = theme.current()
        mono = kind in ("code", "value", "formula", "missing")
        font = look.font("number" if mono else "body")
        font.setPixelSize(round(self._pixels() * (0.95 if mono else 1)))
        if kind == "strong" or self._strong:
            font.setWeight(QFont.Weight.DemiBold)
        font.setItalic(kind == "emphasis")
        form = QTextCharFormat()
        form.setFont(font)
        form.setForeground({"value": look.accent, "missing": look.bad}.get(kind, look.text))
        return form


def _strong(cell: tuple[Span, ...]) -> tuple[Span, ...]:
    """The same in bold type, formulas aside."""
    return tuple(span if span.kind == "formula" else replace(span, kind="strong") for span in cell)


class ReadingArea(QScrollArea):
    """Scrolls a text with the arrows while the focus is in it, whatever else they do in the window."""

    def __init__(self, name: str, page: QWidget) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(name)
        self.setWidget(page)
        self.viewport().setAutoFillBackground(False)
        page.setAutoFillBackground(False)

    def event(self, event: QEvent) -> bool:
        """Keep the arrows up and down."""
        return arrow_keys.kept(event, arrow_keys.UP_AND_DOWN) or super().event(event)


def words(text: str) -> tuple[Span, ...]:
    """A line of plain words."""
    return (Span("words", text),)
