"""The score of a pair in large type, and whether it stands still while query and key move."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ropewalk.views.plots.rotation import hands
from ropewalk.views.plots.rotation.turning import Moves, Turned, common_decimals
from ropewalk.views.style import ink, theme, wording

DIGITS = 4
"""Decimals of the large number, where it is below ten."""
SAME = 2
"""Decimals that it must have in common with the run's to stand still."""

WHAT = "scaled score"
"""What the number is; how it comes about is said where there is room."""
BESIDE = 24
"""Lines of type in the width from which on words stand beside the number, and not below it."""


class LargeScore(QWidget):
    """The scaled score now, and beside it what it was before anything moved."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.turned: Turned | None = None
        self.moves: Moves = "query"
        self.setAccessibleName("Score of the pair")

    def show_turned(self, turned: Turned, moves: Moves) -> None:
        """Write the score with the hands elsewhere."""
        self.turned, self.moves = turned, moves
        words = f"{self.number()}: {'; '.join(text for text, _ in self.lines())}"
        self.setAccessibleDescription(words)
        self.setToolTip(wording.tooltip(words))
        self.update()

    def sizeHint(self) -> QSize:
        """Three lines."""
        return QSize(200, 4 * theme.current().size("label"))

    def number(self) -> str:
        """The score in large type."""
        return "" if self.turned is None else wording.number(self.turned.scaled, DIGITS)

    def lines(self) -> tuple[tuple[str, QColor], ...]:
        """What is written beside it, and in which colours: what the number is, and then what comes of moving."""
        turned = self.turned
        if turned is None:
            return ()
        now, r = theme.current(), turned.reading
        product = wording.number(turned.scaled / r.scale, DIGITS) if r.scale else "0"
        what = f"{WHAT} = q·k {product} × {wording.number(r.scale)}"
        apart = f"m − n = {hands.place(turned.distance)}"
        if not turned.moved:
            where = f"m = {r.query_position}, n = {r.key_position}"
            return (what, now.faint), (apart, now.text), (f"in the run: {where}", now.faint)
        same = common_decimals(turned)
        if self.moves == "both" and same >= SAME:
            said, colour = f"stands still: both move, {apart}", now.good
            before, here = (f"{value:.{same}f}".replace("-", wording.MINUS) for value in (r.scaled, turned.scaled))
            last = f"before {before} = now {here}"
        else:
            who = {"query": "only the query moves", "key": "only the key moves", "both": "both move"}[self.moves]
            said, colour = f"{who}, {apart}", now.text
            change = wording.number(turned.scaled - r.scaled)
            sign = "+" if turned.scaled > r.scaled else ""
            last = f"before {wording.number(r.scaled)} · changed by {sign}{change}"
        return (what, now.faint), (said, colour), (last, now.text)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the number as large as there is room for, and the lines beside it."""
        if self.turned is None:
            return
        now, painter = theme.current(), QPainter(self)
        label, width, height = now.font("label"), self.width(), self.height()
        label.setPixelSize(round(now.size("label") * (1.3 if height >= 6 * now.size("label") and width >= 500 else 1)))
        line = ink.line_height(label)
        beside = width >= BESIDE * line or height < 2.5 * line
        lines = self.lines()[: max(int(height / line) - (0 if beside else 1), 1)]
        font = now.font("number")
        room = height if beside else height - len(lines) * line
        font.setPixelSize(max(min(round(0.8 * room), round(width / (11 if beside else 6))), now.size("body")))
        number, words = QFontMetricsF(font), QFontMetricsF(label)
        flags = int(ink.LEFT | Qt.TextFlag.TextSingleLine)
        painter.setFont(font)
        painter.setPen(now.text)
        painter.drawText(QRectF(0, 0, width, room), flags, self.number())
        x = number.horizontalAdvance("−00.0000") + now.grid(1.5) if beside else 0.0
        y = (height - len(lines) * line) / 2 if beside else room
        painter.setFont(label)
        for said, colour in lines:
            brief = said.startswith(WHAT) and words.horizontalAdvance(said) > width - x
            painter.setPen(colour)
            fitted = words.elidedText(WHAT if brief else said, Qt.TextElideMode.ElideRight, width - x)
            painter.drawText(QRectF(x, y, width - x, line), flags, fitted)
            y += line
        painter.end()
