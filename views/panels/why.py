"""Why this number: the selected cell's arithmetic in one line, and every step of it in levels that unfold.

The numbers come from the reading; it adds and multiplies nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np
from PySide6.QtCore import QMimeData, Qt, Signal
from PySide6.QtGui import QResizeEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QApplication, QFrame, QPushButton, QTextEdit, QVBoxLayout, QWidget

from ropewalk.app.session.reading import Reading
from ropewalk.app.session.selection import Hover, Selection
from ropewalk.model.engine.questions import AskArithmetic, AskCell, Question
from ropewalk.model.readings.records import Arithmetic, CellReading, Doubles, Run
from ropewalk.views.panels.panel import Kept, Panel
from ropewalk.views.plots.arithmetic_tree import ArithmeticTree
from ropewalk.views.style import ink, theme, wording

if TYPE_CHECKING:
    from ropewalk.app.session.session import Session

Tone = Literal["text", "faint", "query", "key", "good", "bad", "accent"]
BETWEEN = " " * 6
"""What stands between two lines of the arithmetic that share a row."""


@dataclass(frozen=True)
class Piece:
    """A piece of a line in one colour."""

    text: str
    tone: Tone = "text"


Line = tuple[Piece, ...]


def arithmetic(cell: CellReading) -> tuple[Line, ...]:
    """Return the way from q·k to the weight as lines of coloured pieces."""
    n = wording.number
    if cell.written and not cell.hidden_because:
        return (
            (
                Piece(f"q·k = {n(cell.dot)}, but the weight was written for this head: "),
                Piece(n(cell.weight, 4), "accent"),
            ),
        )
    lines: list[Line] = [
        (Piece("q", "query"), Piece("·"), Piece("k", "key"), Piece(f" = {n(cell.dot)}")),
        (Piece(f"score = {n(cell.dot)} × {scale_text(cell)} = {n(cell.scaled)}"),),
    ]
    if cell.cap is not None:
        c = n(cell.cap)
        lines.append((Piece(f"soft cap {c}·tanh({n(cell.scaled)} / {c}) = {n(cell.score - cell.bias)}"),))
    if cell.bias:
        lines.append((Piece(f"bias {n(cell.score - cell.bias)} + {_bracketed(cell.bias)} = {n(cell.score)}"),))
    lines.append(_mask_line(cell))
    lines.append((Piece(f"row log-sum-exp = {n(cell.lse)}"),))
    if cell.hidden_because:
        lines.append((Piece("weight = 0"), Piece(" (masked before the softmax)", "faint")))
    else:
        lines.append(
            (Piece(f"weight = exp({n(cell.score)} − {_bracketed(cell.lse)}) = "), Piece(n(cell.weight, 4), "accent"))
        )
    return tuple(lines)


def _bracketed(value: float) -> str:
    text = wording.number(value)
    return f"({text})" if text.startswith(wording.MINUS) else text


def scale_text(cell: CellReading) -> str:
    """Write the scale as 1/√Dh where it is that, else as a number."""
    width = len(cell.q)
    if width and math.isclose(cell.scale, 1 / math.sqrt(width), rel_tol=1e-6):
        return f"1/√{width}"
    return f"{cell.scale:.5g}"


def _mask_line(cell: CellReading) -> Line:
    if cell.hidden_because:
        return (Piece(f"hidden: {cell.hidden_because}", "bad"),)
    sign = "≤" if cell.key <= cell.query else ">"
    head = (Piece(f"key {cell.key}", "key"), Piece(f" {sign} "), Piece(f"query {cell.query}", "query"))
    return (*head, Piece(": visible", "good"))


def vector_text(name: str, vector: Doubles) -> str:
    """Write a vector out."""
    return f"{name} = [{', '.join(wording.number(float(v)) for v in vector)}]"


def exact_text(cell: CellReading) -> str:
    """Write every number in full, as Python would read it, for the clipboard."""
    fields = {
        "layer": cell.layer,
        "head": cell.head,
        "kv_head": cell.kv_head,
        "query": cell.query,
        "key": cell.key,
        "dot": cell.dot,
        "scale": cell.scale,
        "scaled": cell.scaled,
        "cap": cell.cap,
        "bias": cell.bias,
        "score": cell.score,
        "lse": cell.lse,
        "weight": cell.weight,
        "q": np.asarray(cell.q).tolist(),
        "k": np.asarray(cell.k).tolist(),
    }
    return "\n".join(f"{name} = {value!r}" for name, value in fields.items())


class FormulaText(QTextEdit):
    """Read-only coloured text that can be selected and copied, and is never taken for markup."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lines: tuple[Line, ...] = ()
        self._paragraphs: tuple[Line, ...] = ()
        self._arranged_for = 0
        self.setReadOnly(True)
        self.setAcceptRichText(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.document().setDocumentMargin(0)
        self.viewport().setAutoFillBackground(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def show_lines(self, lines: tuple[Line, ...], paragraphs: tuple[Line, ...]) -> None:
        """Write ``lines`` beside one another, none broken where it fits, then each paragraph on its own."""
        self._lines, self._paragraphs = lines, paragraphs
        self._arranged_for = self.width()
        room = self.width() - self.verticalScrollBar().sizeHint().width()
        self.clear()
        cursor = QTextCursor(self.document())
        used = 0.0
        for line in lines:
            width = self._width("".join(piece.text for piece in line))
            if used and used + self._width(BETWEEN) + width > room:
                cursor.insertBlock()
                used = 0.0
            elif used:
                cursor.insertText(BETWEEN, self._format("text"))
                used += self._width(BETWEEN)
            self._insert(cursor, line)
            used += width
        for line in paragraphs:
            cursor.insertBlock()
            self._insert(cursor, line)
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def theme_changed(self) -> None:
        """Write the same in the colours and the type of the theme in use."""
        self.show_lines(self._lines, self._paragraphs)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange the lines in the new width; a scroll bar that comes or goes while writing changes nothing."""
        super().resizeEvent(event)
        if self.width() != self._arranged_for:
            self.show_lines(self._lines, self._paragraphs)

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy plain text."""
        data = QMimeData()
        data.setText(self.textCursor().selectedText().replace("\u2029", "\n"))
        return data

    def _insert(self, cursor: QTextCursor, line: Line) -> None:
        for piece in line:
            cursor.insertText(piece.text, self._format(piece.tone))

    def _width(self, text: str) -> float:
        return ink.text_width(theme.current().font("formula"), text)

    def _format(self, tone: Tone) -> QTextCharFormat:
        look = theme.current()
        form = QTextCharFormat()
        form.setFont(look.font("formula"))
        form.setForeground(getattr(look, tone))
        return form


PANELS: Final = {"cell": "scores", "row": "scores", "plane": "rope", "cache": "cache", "ledger": "ledger"}
"""Kinds of places whose panel has another name than the place."""

OPERATIONS: Final = {
    "norm.": "attn_norm",
    "project.v": "v",
    "rotate.q": "rope_q",
    "rotate.k": "rope_k",
    "score.": "scores",
    "softmax.taken": "blend",
    "softmax.": "softmax",
    "logit.": "lm_head",
}
"""Beginnings of a line's key → the row of the ledger that computes it, for lines that live elsewhere too."""


def panel_of(place: str) -> str:
    """The name of the panel that shows a place, empty for no place."""
    kind = place.partition(":")[0]
    return PANELS.get(kind, kind)


def operation_of(place: str, key: str) -> str | None:
    """The row of the ledger that computes a line, None where none does."""
    kind, _, which = place.partition(":")
    if kind == "ledger":
        return which
    return next((row for beginning, row in OPERATIONS.items() if key.startswith(beginning)), None)


def hover_of(place: str, key: str, now: Selection) -> Hover:
    """What to point at for a line: its row of the ledger, and the cell, row, plane, cached position or token.

    Parameters
    ----------
    place, key
        ``Line.place`` and ``Line.key``; a line about the query's token has ``query`` in its key.
    now
        The cell whose arithmetic it is.
    """
    return replace(_pointed(place, key, now), operation=operation_of(place, key))


def _pointed(place: str, key: str, now: Selection) -> Hover:
    kind, _, which = place.partition(":")
    if kind == "cell":
        return Hover(query=now.query, key=now.key, layer=now.layer, head=now.head)
    if kind in ("row", "next_token"):
        return Hover(query=now.query)
    if kind == "plane":
        return Hover(plane=int(which))
    if kind == "cache":
        return Hover(key=now.key, layer=now.layer, head=now.head, slot="K" if which == "key" else "V")
    if kind == "tokens":
        return Hover(query=now.query) if ".query." in key else Hover(key=now.key)
    return Hover()


class WhyPanel(Panel):
    """Shows how the selected cell's weight comes about."""

    name: ClassVar[str] = "why"
    title: ClassVar[str] = "Why this number"
    depends: ClassVar[frozenset[str]] = frozenset({"layer", "head", "query", "key"})
    cell = Kept[CellReading]()
    arithmetic = Kept[Arithmetic]()

    panel_requested = Signal(str)
    """A line was chosen whose number another panel shows; carries that panel's name."""

    LINES = 5
    """Rows of the levels, at the least."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.text = FormulaText()
        self.text.setAccessibleName("The arithmetic of the selected cell")
        self.tree = ArithmeticTree()
        self.hear(self.tree.place_pointed, self._point_at, WhyPanel.arithmetic)
        self.hear(self.tree.place_chosen, self._go, WhyPanel.arithmetic)
        self.tree.hide()
        self.fold_levels = self._fold("Show every step, from the residual to the logits", self._unfold)
        self.fold_q = self._fold("Show the vector q", self._write)
        self.fold_k = self._fold("Show the vector k", self._write)
        self.copy_button = QPushButton("Copy")
        self.copy_button.setToolTip("Copy every number of this cell in full precision.")
        self.copy_button.clicked.connect(self._copy)
        for button in (self.fold_levels, self.fold_q, self.fold_k, self.copy_button):
            self.head_row.addWidget(button)
        self._name_folds()
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.text, 1)
        layout.addWidget(self.tree, 5)

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the selected cell."""
        return AskCell(selection.layer, selection.head, selection.query, selection.key)

    def show_answer(self, run: Run, selection: Selection, reading: Any) -> None:
        """Write the cell's arithmetic, and ask for every step where the levels are unfolded."""
        self.cell = reading
        self.describe(_subtitle(run, reading.value))
        self._write()
        if self.fold_levels.isChecked():
            self._ask_steps()

    def theme_changed(self) -> None:
        """Write anew in the new colours; a projector needs no button to copy."""
        self.copy_button.setVisible(not theme.current().projector)
        self._name_folds()
        self.text.theme_changed()
        self._make_room()
        self.tree.fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the columns of the levels."""
        super().resizeEvent(event)
        self.tree.fit()

    def _write(self) -> None:
        if self.cell is None:
            return
        paragraphs: list[Line] = []
        if self.fold_q.isChecked():
            paragraphs.append((Piece(vector_text("q", self.cell.q), "query"),))
        if self.fold_k.isChecked():
            paragraphs.append((Piece(vector_text("k", self.cell.k), "key"),))
        self._name_folds()
        self.text.show_lines(arithmetic(self.cell), tuple(paragraphs))

    def _name_folds(self) -> None:
        for button, text in ((self.fold_levels, "every step"), (self.fold_q, "q"), (self.fold_k, "k")):
            button.setText(f"{'▾' if button.isChecked() else '▸'} {text}")

    def _fold(self, name: str, unfold: Callable[[], None]) -> QPushButton:
        button = QPushButton()
        button.setCheckable(True)
        button.setAccessibleName(name)
        button.setToolTip(name + ".")
        button.toggled.connect(unfold)
        return button

    # Every step ---------------------------------------------------------------------------------------------------

    def _unfold(self) -> None:
        self._name_folds()
        self.tree.setVisible(self.fold_levels.isChecked())
        self._make_room()
        if self.fold_levels.isChecked() and self.cell is not None:
            self._ask_steps()

    def _make_room(self) -> None:
        """Keep the summary whole above the levels."""
        unfolded = self.fold_levels.isChecked()
        line = round(ink.line_height(theme.current().font("formula")))
        self.tree.setMinimumHeight(self.LINES * self.tree.line_height() if unfolded else 0)
        self.text.setMinimumHeight(2 * line if unfolded else 0)

    def _ask_steps(self) -> None:
        now = self.session.selection.now
        question = AskArithmetic(now.layer, now.head, now.query, now.key)
        if why := self.lacks(question):
            self.describe(why)
            self.tree.setVisible(False)
        else:
            self.tree.setVisible(True)
            self.ask(question, self._show_steps, "steps")

    def _show_steps(self, reading: Reading[Arithmetic]) -> None:
        self.arithmetic = reading
        self.tree.show_arithmetic(reading.value)

    def _point_at(self, place: str, key: str) -> None:
        """Let the other panels mark where the number under the pointer lives."""
        self.session.selection.point_at(hover_of(place, key, self.session.selection.now) if place else Hover())

    def _go(self, place: str) -> None:
        """Bring the panel of a chosen line to the front, with its plane selected."""
        kind, _, which = place.partition(":")
        if kind == "plane":
            self.session.selection.update(plane=int(which))
        self.panel_requested.emit(panel_of(place))

    def _copy(self) -> None:
        if self.cell is not None:
            QApplication.clipboard().setText(exact_text(self.cell))


def _subtitle(run: Run, cell: CellReading) -> str:
    def named(row: int) -> str:
        return f"{row} {run.tokens[row].inline}" if row < len(run.tokens) else str(row)

    text = f"{wording.head_name(cell.layer, cell.head)} · query {named(cell.query)} → key {named(cell.key)}"
    text += f" · reads kv head {cell.kv_head}"
    others = [f"H{head}" for head in cell.sharing if head != cell.head]
    return f"{text}, shared with {', '.join(others)}" if others else f"{text}, its own"
