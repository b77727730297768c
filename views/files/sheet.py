"""Text for paper: paragraphs of spans, tables, lines to write on, formulas and figures as shapes, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final

from PySide6.QtCore import QByteArray, QPointF, QRect, QRectF, QSizeF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QPainter,
    QPdfWriter,
    QPicture,
    QPyTextObject,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextLength,
    QTextTableFormat,
)
from PySide6.QtSvg import QSvgRenderer

from ropewalk.model.lessons.text import FilledText, Paragraph, Span
from ropewalk.views.style import theme
from ropewalk.views.style.formulas import formula_svg

BODY: Final = 15
"""Height of the type, in pixels of which 96 are an inch: 11 points."""
ROOM: Final = 5 * BODY
"""What must follow a heading on its page."""
DRAWING: Final = QTextFormat.ObjectTypes.UserObject.value + 1
PLACE: Final = QTextFormat.Property.UserProperty.value + 1
MONO: Final = frozenset({"code", "value", "formula", "missing"})

Draw = Callable[[QPainter, QRectF], None]


class _Drawings(QPyTextObject):
    """What stands between the words as shapes: a size and a function for each."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self.kept: list[tuple[QSizeF, Draw]] = []
        self.shown = QRectF()
        """The page that is being painted."""

    def intrinsicSize(self, doc: QTextDocument, position: int, form: QTextFormat) -> QSizeF:
        """Return the size of a drawing."""
        return self.kept[int(form.property(PLACE))][0]

    def drawObject(
        self, painter: QPainter, rect: QRectF | QRect, doc: QTextDocument, position: int, form: QTextFormat
    ) -> None:
        """Draw it, unless it stands on another page: a recorded picture does not keep to a clip."""
        box = QRectF(rect)
        if self.shown.top() <= box.center().y() < self.shown.bottom():
            self.kept[int(form.property(PLACE))][1](painter, box)


class Sheet:
    """A document that grows at its end.

    Parameters
    ----------
    width, height
        Of the text on a page, in pixels of which 96 are an inch.
    """

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._look = theme.themed("light")
        self._document = QTextDocument()
        self._document.setDocumentMargin(0)
        self._document.setDefaultFont(self._font(BODY))
        self._drawings = _Drawings(self._document)
        self._document.documentLayout().registerHandler(DRAWING, self._drawings)
        self._document.setPageSize(QSizeF(width, height))
        self._cursor = QTextCursor(self._document)
        self._begun = False

    # Writing ------------------------------------------------------------------------------------------------------

    def heading(self, spans: tuple[Span, ...], size: int, *, new_page: bool = False) -> None:
        """Write a heading, kept with what follows it."""
        form = QTextBlockFormat()
        form.setTopMargin(size)
        form.setBottomMargin(size / 4)
        if new_page:
            form.setPageBreakPolicy(QTextFormat.PageBreakFlag.PageBreak_AlwaysBefore)
        self._block(form)
        for span in spans:
            self._insert(span, size, strong=True)
        self._keep_with_next()

    def question(self, name: str) -> None:
        """Begin a question, kept with what is asked."""
        self.line((), mark=name)
        self._keep_with_next()

    def text(self, filled: FilledText, size: int = BODY, *, indent: float = 0) -> None:
        """Write paragraphs, points, formulas and tables."""
        for is_table, group in groupby(filled, key=lambda paragraph: paragraph.kind == "row"):
            if is_table:
                self._table(tuple(group), size)
                continue
            for paragraph in group:
                self._paragraph(paragraph, size, indent)

    def line(self, spans: tuple[Span, ...], size: int = BODY, *, indent: float = 0, mark: str = "") -> None:
        """Write one line of spans, after a mark where there is one."""
        form = QTextBlockFormat()
        form.setTopMargin(size / 2)
        form.setLeftMargin(indent)
        self._block(form)
        if mark:
            self._insert(Span("strong", f"{mark}  "), size)
        for span in spans:
            self._insert(span, size)

    def rules(self, count: int, indent: float = 0) -> None:
        """Leave lines to write on."""
        size = QSizeF(self.width - indent - 1, 2 * BODY)
        for _ in range(count):
            self._block_of_drawing(size, self._draw_rule, indent)

    def figure(self, picture: QPicture, size: QSizeF, caption: str) -> None:
        """Show a picture, at most as wide as the page and a third as high, and name it."""
        scale = min(self.width / size.width(), self.height / 3 / size.height(), 1.0)

        def draw(painter: QPainter, box: QRectF) -> None:
            painter.save()
            painter.translate(box.topLeft())
            painter.scale(scale, scale)
            painter.drawPicture(QPointF(), picture)
            painter.restore()

        self._block_of_drawing(size * scale, draw)
        self.line((Span("words", caption),), BODY - 3)

    # Printing -----------------------------------------------------------------------------------------------------

    def pages(self) -> int:
        """How many pages there are."""
        return self._document.pageCount()

    def printed(self, writer: QPdfWriter, painter: QPainter, foot: str) -> Iterator[int]:
        """Paint page after page; yields after each, so that the window can live on."""
        count = self.pages()
        painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
        for page in range(count):
            if page:
                writer.newPage()
            painter.save()
            painter.translate(0, -page * self.height)
            shown = QRectF(0, page * self.height, self.width, self.height)
            self._drawings.shown = shown
            self._document.drawContents(painter, shown)
            painter.restore()
            painter.setFont(self._font(BODY - 4))
            painter.setPen(self._look.faint)
            box = QRectF(0, self.height + BODY / 2, self.width, 2 * BODY)
            painter.drawText(box, Qt.AlignmentFlag.AlignLeft, foot)
            painter.drawText(box, Qt.AlignmentFlag.AlignRight, f"{page + 1} of {count}")
            yield page

    # How it works -------------------------------------------------------------------------------------------------

    def _block(self, form: QTextBlockFormat) -> None:
        form.setLineHeight(118, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        if self._begun:
            self._cursor.insertBlock(form)
        else:
            self._cursor.setBlockFormat(form)
        self._begun = True

    def _keep_with_next(self) -> None:
        """Begin a page with the last line where it would stand alone at the foot of one."""
        line = self._document.documentLayout().blockBoundingRect(self._cursor.block())
        if self.height - line.bottom() % self.height < ROOM:
            form = self._cursor.blockFormat()
            form.setPageBreakPolicy(QTextFormat.PageBreakFlag.PageBreak_AlwaysBefore)
            self._cursor.setBlockFormat(form)

    def _block_of_drawing(self, size: QSizeF, draw: Draw, indent: float = 0) -> None:
        form = QTextBlockFormat()
        form.setTopMargin(BODY / 2)
        form.setLeftMargin(indent)
        self._cursor.insertBlock(form)  # no line height: the drawing is the line
        self._begun = True
        self._drawing(size, draw)

    def _paragraph(self, paragraph: Paragraph, size: int, indent: float) -> None:
        form = QTextBlockFormat()
        form.setTopMargin(size / 2)
        form.setLeftMargin(indent)
        if paragraph.kind == "point":
            form.setLeftMargin(indent + 1.5 * size)
            form.setTextIndent(-1.2 * size)
        if paragraph.kind == "formula":
            form.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._block(form)
        if paragraph.kind == "point":
            self._insert(Span("words", "•  "), size)
        for span in paragraph.spans:
            self._insert(span, size, inline=paragraph.kind != "formula")

    def _table(self, rows: tuple[Paragraph, ...], size: int) -> None:
        form = QTextTableFormat()
        form.setBorder(1)
        form.setBorderBrush(self._look.line)
        form.setBorderCollapse(True)
        form.setCellPadding(size / 3)
        form.setTopMargin(size / 2)
        form.setWidth(QTextLength())
        table = self._cursor.insertTable(len(rows), max(len(row.cells) for row in rows), form)
        outer = self._cursor
        for at, row in enumerate(rows):
            for column, cell in enumerate(row.cells):
                self._cursor = table.cellAt(at, column).firstCursorPosition()
                for span in cell:
                    self._insert(span, size)
        self._cursor = outer
        self._cursor.movePosition(QTextCursor.MoveOperation.End)

    def _insert(self, span: Span, size: int, *, inline: bool = True, strong: bool = False) -> None:
        if span.kind == "formula" and self._formula(span.text, size, inline):
            return
        form = QTextCharFormat()
        font = self._font(size, mono=span.kind in MONO)
        if strong or span.kind == "strong":
            font.setWeight(QFont.Weight.DemiBold)
        font.setItalic(span.kind == "emphasis")
        form.setFont(font)
        form.setForeground(self._look.bad if span.kind == "missing" else QColor("#000000"))
        self._cursor.insertText(theme.drawable(span.text), form)

    def _formula(self, latex: str, size: int, inline: bool) -> bool:
        """Insert a formula as shapes; says whether it could be drawn."""
        svg = formula_svg(latex, round(size * 1.1), "#000000", inline)
        if not svg:
            return False
        # in a PDF Qt outlines in black what has no stroke; one that cannot be seen keeps it from that
        unseen = svg.replace("<svg ", '<svg stroke="#000000" stroke-opacity="0" ', 1)
        renderer = QSvgRenderer(QByteArray(unseen.encode()))
        room = QSizeF(renderer.defaultSize())
        if room.isEmpty():
            return False
        room *= min(1.0, (self.width - 2 * size) / room.width())
        self._drawing(room, renderer.render)
        return True

    def _drawing(self, size: QSizeF, draw: Draw) -> None:
        self._drawings.kept.append((size, draw))
        form = QTextCharFormat()
        form.setObjectType(DRAWING)
        form.setProperty(PLACE, len(self._drawings.kept) - 1)
        form.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
        self._cursor.insertText("\ufffc", form)

    def _draw_rule(self, painter: QPainter, box: QRectF) -> None:
        painter.setPen(self._look.line.darker(130))
        painter.drawLine(box.bottomLeft(), box.bottomRight())

    def _font(self, size: int, mono: bool = False) -> QFont:
        font = self._look.font("number" if mono else "body")
        font.setPixelSize(round(size * 0.95) if mono else size)
        return font
