"""Texts in which a head looks hardest: the query and the key are marked in each, and never out of sight."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFont,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPen,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.charts.plot import Table
from ropewalk.views.style import ink, theme, wording
from ropewalk.views.style.lettering import face

Index = QModelIndex | QPersistentModelIndex
LETTERS: Final = 400
"""Letters that are looked at on either side of a token: more never fit in a line."""
KEPT: Final = 1024
"""Excerpts that are kept: a window that is made larger asks for many."""
LARGEST: Final = 0.35
"""Of the width, what the query or the key has at most; a longer one is cut."""
SIGNS: Final = {"\n": "⏎", "\r": "⏎", "\t": "⇥"}
JOINERS: Final = "\u200c\u200d"
"""Characters without a picture of their own that letters and emoji are joined or parted by."""


@dataclass(frozen=True)
class ExampleText:
    """A text with a cell.

    Attributes
    ----------
    tokens
        The text, cut as the model has it.
    query, key
        Places of tokens.
    value
        What the statistic is there.
    name
        Where the text is from, for the tooltip.
    """

    tokens: tuple[str, ...]
    query: int
    key: int
    value: float
    name: str = ""


class Excerpt(NamedTuple):
    """What of a text is written in a line: and from where to where its query and its key are."""

    text: str
    query: tuple[int, int]
    key: tuple[int, int]


def plain(text: str) -> str:
    """Write a stranger's text on one line: what has no picture, or would turn the line around, is named."""
    return text if text.isprintable() else "".join(_drawn(letter) for letter in text)


def _drawn(letter: str) -> str:
    if letter in SIGNS:
        return SIGNS[letter]
    kind = unicodedata.category(letter)
    if letter in JOINERS or not kind.startswith(("C", "Z")) or letter == " ":
        return letter
    if kind == "Zs":
        return " "
    return f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"U+{ord(letter):04X}"


def excerpt_of(example: ExampleText, font: QFont, width: float) -> Excerpt:
    """As much of a text as fits, with both tokens in it: their neighbourhoods, and what is between them, are cut."""
    tokens = example.tokens
    if not (0 <= example.query < len(tokens) and 0 <= example.key < len(tokens)):
        return Excerpt(plain("".join(tokens)[:LETTERS]), (0, 0), (0, 0))
    metrics, end = face(font).metrics, Qt.TextElideMode.ElideRight
    first, second = sorted((example.query, example.key))
    before = _from_end("".join(tokens[max(first - LETTERS, 0) : first]))
    middle = "" if first == second else "".join(tokens[first + 1 : second])
    if len(middle) > 2 * LETTERS:
        middle = middle[:LETTERS] + middle[-LETTERS:]  # its middle is cut in any case
    after = "".join(tokens[second + 1 : second + 1 + LETTERS])[:LETTERS]
    marked = []
    gaps = [before, middle]
    for place, token in enumerate([tokens[first]] if first == second else [tokens[first], tokens[second]]):
        bare = token.lstrip(" ")
        gaps[place] += token[: len(token) - len(bare)] if bare else ""
        said = plain(bare[:LETTERS]) or "·" * max(len(token), 1)
        marked.append(metrics.elidedText(theme.drawable(said, "body"), end, LARGEST * width))
    before, middle, after = (theme.drawable(plain(gap), "body") for gap in (*gaps, after))
    room = max(width - sum(map(metrics.horizontalAdvance, marked)), 0.0)
    wide = [metrics.horizontalAdvance(gap) for gap in (before, middle, after)]
    if sum(wide) > room:
        inner = min(wide[1], max(room / 2, room - wide[0] - wide[2]))
        outer = room - inner
        left = min(wide[0], max(outer / 2, outer - wide[2]))
        before = metrics.elidedText(before, Qt.TextElideMode.ElideLeft, left)
        middle = metrics.elidedText(middle, Qt.TextElideMode.ElideMiddle, inner)
        after = metrics.elidedText(after, end, outer - left)
    starts = [len(before), len(before) + len(marked[0]) + len(middle)]
    spans = [(start, start + len(token)) for start, token in zip(starts, marked, strict=False)]
    text = before + marked[0] + middle + "".join(marked[1:]) + after
    return Excerpt(text, spans[-1 if example.query == second else 0], spans[-1 if example.key == second else 0])


def _from_end(text: str) -> str:
    return text[-LETTERS:] if text else ""


class ExampleModel(QAbstractListModel):
    """The examples of a list."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.examples: tuple[ExampleText, ...] = ()
        self._excerpts: dict[tuple[int, str, int], Excerpt] = {}

    def show(self, examples: Sequence[ExampleText]) -> None:
        """Take others."""
        self.beginResetModel()
        self.examples = tuple(examples)
        self._excerpts.clear()
        self.endResetModel()

    def excerpt(self, place: int, font: QFont, width: int) -> Excerpt:
        """What is written of an example, found once for a font and a width."""
        asked = place, font.key(), width
        if asked not in self._excerpts:
            if len(self._excerpts) > KEPT:
                self._excerpts.clear()
            self._excerpts[asked] = excerpt_of(self.examples[place], font, width)
        return self._excerpts[asked]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        """Return how many there are."""
        return 0 if parent.isValid() else len(self.examples)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a tooltip or a screen reader says."""
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return wording.tooltip(words(self.examples[index.row()]))
        return None


def words(example: ExampleText) -> str:
    """Everything about an example, as plain text."""
    cell = []
    for what, place in (("query", example.query), ("key", example.key)):
        if 0 <= place < len(example.tokens):
            cell.append(f"{what} {place} {plain(example.tokens[place][:LETTERS]).strip() or '·'}")
    said = ink.PART.join(filter(None, (wording.number(example.value), *cell, example.name)))
    return f"{said}\n{plain(''.join(example.tokens)[: wording.LONGEST_TIP])}"


class ExampleDelegate(QStyledItemDelegate):
    """Paints a row: the text, its two tokens marked, the value at the right."""

    def __init__(self, model: ExampleModel, rows: QListView) -> None:
        super().__init__(rows)
        self.model, self.rows = model, rows

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Return the height of one line and air around it."""
        look = theme.current()
        return QSize(24, round(ink.line_height(look.font("body")) + look.grid(1.5)))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one row."""
        look, example, state = theme.current(), self.model.examples[index.row()], option.state
        box = QRectF(option.rect)
        if box.bottom() > self.rows.viewport().height():
            return  # no row is cut in two; it comes whole when it is scrolled to
        painter.save()
        painter.setClipRect(box, Qt.ClipOperation.IntersectClip)  # letters may have any number of marks above them
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(box, look.chosen)
            painter.fillRect(QRectF(box.left(), box.top(), look.grid(0.25), box.height()), look.accent)
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(box, look.hover)
        painter.fillRect(QRectF(box.left(), box.bottom() - 1, box.width(), 1), look.line)
        inner = box.adjusted(look.grid(1), 0, -look.grid(1), 0)
        value = wording.number(example.value, 2)
        font = look.font("number")
        ink.draw_text(painter, inner, value, font, look.text, ink.RIGHT)
        inner.setRight(inner.right() - ink.text_width(font, value) - look.grid(1.5))
        self._write(painter, inner, index.row())
        painter.restore()

    def _write(self, painter: QPainter, box: QRectF, place: int) -> None:
        look, font = theme.current(), theme.current().font("body")
        said = self.model.excerpt(place, font, int(box.width()))
        layout = QTextLayout(said.text, font)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.NoWrap)
        option.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute)
        layout.setTextOption(option)
        units = _Units(said.text)
        formats = []
        for (start, end), colour in ((said.query, look.query), (said.key, look.key)):
            made = QTextLayout.FormatRange()
            made.start, made.length = units.at(start), units.at(end) - units.at(start)
            made.format = _coloured(colour)
            formats.append(made)
        layout.setFormats(formats)
        layout.beginLayout()
        line = layout.createLine()
        line.setLineWidth(box.width())
        layout.endLayout()
        at = QPointF(box.left(), box.center().y() - line.height() / 2)
        painter.setPen(look.faint)
        layout.draw(painter, at)
        for (start, end), mark in ((said.query, self._frame), (said.key, self._underline)):
            if end > start:
                mark(painter, _place_of(layout, units.at(start), units.at(end), at))

    @staticmethod
    def _frame(painter: QPainter, place: QRectF) -> None:
        """The query has a frame around it, whoever tells colours apart or does not."""
        look = theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(look.query, max(look.grid(0.125), 1)))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(place.adjusted(-1.5, 0, 1.5, 0), 3, 3)

    @staticmethod
    def _underline(painter: QPainter, place: QRectF) -> None:
        """The key has a line under it."""
        look, thick = theme.current(), theme.current().grid(0.25)
        painter.fillRect(QRectF(place.left(), place.bottom() - thick, place.width(), thick), look.key)


class _Units:
    """Places in a text as Qt counts them: letters beyond the first plane are two."""

    def __init__(self, text: str) -> None:
        self._text = text

    def at(self, place: int) -> int:
        return place + sum(ord(letter) > 0xFFFF for letter in self._text[:place])


def _coloured(colour: QColor) -> QTextCharFormat:
    made = QTextCharFormat()
    made.setForeground(colour)
    return made


def _place_of(layout: QTextLayout, start: int, end: int, at: QPointF) -> QRectF:
    """Where some letters are: those that run from right to left lie where their line puts them."""
    line, found = layout.lineAt(0), QRectF()
    for run in layout.glyphRuns(start, end - start):
        found = found.united(run.boundingRect())
    if found.width() <= 0:  # space has no shape
        edges = sorted(float(line.cursorToX(place)[0]) for place in (start, end))  # type: ignore[index]
        found = QRectF(edges[0], 0, max(edges[1] - edges[0], 2), 0)
    return QRectF(at.x() + found.left(), at.y(), found.width(), line.height())


class ExampleList(QListView):
    """A row for every example.

    Signals
    -------
    opened(place)
        A row was clicked, or Return pressed on it.
    menu_wanted(None, at)
        The right button or the Menu key was pressed, and where on the screen.
    """

    opened = Signal(int)
    menu_wanted = Signal(object, QPoint)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows = ExampleModel(self)
        self.setModel(self.rows)
        self.setItemDelegate(ExampleDelegate(self.rows, self))
        self.setUniformItemSizes(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setAccessibleName("texts in which the head looks hardest; Return opens one")

    def show_examples(self, examples: Sequence[ExampleText]) -> None:
        """Show other examples, the first of them first."""
        if tuple(examples) != self.rows.examples:
            self.rows.show(examples)
            self.scrollToTop()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        self.scheduleDelayedItemsLayout()
        self.viewport().update()

    def table(self) -> Table:
        """The examples as columns."""
        rows = self.rows.examples
        return (
            ("value", [row.value for row in rows]),
            ("query", [row.query for row in rows]),
            ("key", [row.key for row in rows]),
            ("text", [plain("".join(row.tokens)) for row in rows]),
        )

    def picture(self) -> QImage:
        """What is seen, as pixels, twice as fine as on an ordinary screen."""
        image = QImage(self.size() * 2, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(2)
        image.fill(theme.current().panel)
        self.render(image)
        return image

    # What a person does -------------------------------------------------------------------------------------------

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Open the row under a left click."""
        super().mouseReleaseEvent(event)
        index = self.indexAt(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and index.isValid():
            self.opened.emit(index.row())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Take Return for a click on the current row."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.opened.emit(self.currentIndex().row())
            return
        super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Keep the keys of a list from the window's shortcuts while focused."""
        return arrow_keys.kept(event, arrow_keys.IN_A_LIST) or super().event(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of plots."""
        self.menu_wanted.emit(None, event.globalPos())
