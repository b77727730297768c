"""What turns in the RoPE panel: the dial first, the score in large type, then all planes and their shares."""

from __future__ import annotations

from PySide6.QtCore import QRect
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.records import Doubles
from ropewalk.views.panels.panel import ElidedLabel
from ropewalk.views.plots.rotation.dial import Dial
from ropewalk.views.plots.rotation.large_score import BESIDE, LargeScore
from ropewalk.views.plots.rotation.planes import PlanesScroll, PlanesView
from ropewalk.views.plots.rotation.shares import SharesView
from ropewalk.views.plots.rotation.turning import Moves, Turned
from ropewalk.views.style import ink, theme

LOWEST = 6
"""Lines of type that the shares keep where a row of planes needs a little of theirs."""
CAPTIONS = {
    3: "λ: positions a turn · |q| |k| · share of score · own radius each",
    2: "λ: positions a turn · share of score · own radius each",
    1: "λ: positions a turn · own radius each",
}
"""What is written above the planes, by how many lines stand below each; where it is narrow, its end is left out."""


class TurningPage(QWidget):
    """The dial beside the rest, or above it where the page is narrow."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.dial, self.score, self.view, self.shares = Dial(), LargeScore(), PlanesView(), SharesView()
        self.scroller = PlanesScroll(self.view)
        self.caption = ElidedLabel()
        self.caption.setText(CAPTIONS[self.view.lines])
        for child in (self.dial, self.score, self.caption, self.scroller, self.shares):
            child.setParent(self)

    def show_turned(self, turned: Turned, moves: Moves, positions: Doubles, scores: Doubles) -> None:
        """Draw everything with query and key at their positions; ``scores`` [M] are those at ``positions``."""
        self.dial.show_turned(turned)
        self.score.show_turned(turned, moves)
        before = self.view.cell
        self.view.show_turned(turned)
        if self.view.cell != before:
            self.arrange()
        self.shares.show_turned(turned, positions, scores, moves)

    def mark(self, plane: int) -> None:
        """Show a plane in the dial, and mark it among the others."""
        for picture in (self.dial, self.view, self.shares):
            picture.mark(plane)
        self.scroller.show_selected()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        self.arrange()
        self.dial.theme_changed()
        self.view.lay_out()
        self.shares.theme_changed()
        self.score.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange anew."""
        super().resizeEvent(event)
        self.arrange()

    def arrange(self) -> None:
        """Give everything its place; what there is no room for is hidden, the shares first."""
        width, height = self.width(), self.height()
        line, gap = round(ink.line_height(theme.current().font("label"))), theme.current().grid(1)
        if width >= height or width >= 44 * line:
            side = round(min(max(height - 3 * line, 0.36 * width), 0.5 * width))
            self.dial.setGeometry(0, 0, side, height)
            rest = QRect(side + 2 * gap, 0, width - side - 2 * gap, height)
        else:
            side = round(min(max(0.5 * height, height - 18 * line), width + 4 * line))
            self.dial.setGeometry(0, 0, width, side)
            rest = QRect(0, side + gap, width, height - side - gap)
        low, narrow = rest.height() < 7 * line, rest.width() < BESIDE * line
        score = (
            0
            if low
            else round(
                min(max(0.13 * rest.height(), (4 if narrow and rest.height() >= 9 * line else 2) * line), 8 * line)
            )
        )
        shares = 0 if narrow or rest.height() < 26 * line else max(9 * line, round(0.3 * rest.height()))
        caption = line if rest.height() >= 9 * line else 0
        top, bottom = rest.top(), rest.bottom() + 1
        for child, high in ((self.score, score), (self.caption, caption)):
            child.setVisible(high > 0)
            child.setGeometry(rest.left(), top, rest.width(), high)
            top += high + (gap if high and child is self.score else 0)
        self.shares.setVisible(shares > 0)
        room = max(bottom - top - shares - (gap if shares else 0), 0)
        self.scroller.setGeometry(rest.left(), top, rest.width(), room)
        if self.view.height() > room >= self.view.cell.height():  # it scrolls: by whole rows, of which none is cut
            row, spare = self.view.cell.height(), max(shares - LOWEST * line, 0)
            most = min(self.view.height(), room + spare)
            self.scroller.setGeometry(rest.left(), top, rest.width(), most // row * row)
            shares = max(bottom - self.scroller.geometry().bottom() - 1 - gap, 0) if shares else 0
        self.shares.setGeometry(rest.left(), bottom - shares, rest.width(), shares)
        self.caption.setText(CAPTIONS[self.view.lines])
