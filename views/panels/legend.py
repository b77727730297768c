"""What the marks of a picture mean, as a line or more of swatches and words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from ropewalk.views.panels.panel import Mark
from ropewalk.views.style import ink, theme


def placed(marks: Sequence[Mark], width: float, margin: float) -> Iterator[tuple[Mark, float, int]]:
    """Each mark, how far right it stands in a width, and in which row."""
    font = theme.current().font("label")
    x, row = margin, 0
    for mark in marks:
        taken = ink.line_height(font) + ink.text_width(font, mark.words) + theme.current().grid(2)
        if x > margin and x + taken > width:
            x, row = margin, row + 1
        yield mark, x, row
        x += taken + theme.current().grid(2)


def paint_marks(painter: QPainter, marks: Sequence[Mark], width: float, margin: float, top: float) -> None:
    """Write the marks from a height on."""
    now = theme.current()
    font, line = now.font("label"), ink.line_height(now.font("label"))
    for mark, x, row in placed(marks, width, margin):
        y = top + row * line
        _paint_swatch(painter, mark, QRectF(x, y + line * 0.15, line * 0.7, line * 0.7))
        room = ink.text_width(font, mark.words) + 1
        ink.draw_text(painter, QRectF(x + line, y, room, line), mark.words, font, now.text)


def rows(marks: Sequence[Mark], width: float, margin: float) -> int:
    """How many rows the marks take."""
    return max((row + 1 for *_, row in placed(marks, width, margin)), default=0)


def _paint_swatch(painter: QPainter, mark: Mark, box: QRectF) -> None:
    colour = QColor(mark.colour) if mark.colour[0] == "#" else getattr(theme.current(), mark.colour)
    painter.setPen(QPen(colour, 2, Qt.PenStyle.DotLine if mark.kind == "dash" else Qt.PenStyle.SolidLine))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if mark.kind == "outline":
        painter.drawRect(box.adjusted(1, 1, -1, -1))
    elif mark.kind == "hollow":
        painter.drawEllipse(box.adjusted(1, 1, -1, -1))
    elif mark.kind in ("line", "dash"):
        painter.drawLine(QPointF(box.left(), box.center().y()), QPointF(box.right(), box.center().y()))
    else:
        hatched = mark.kind == "hatch"
        painter.fillRect(box, theme.current().masked_ground if hatched else colour)
        if hatched:
            painter.fillRect(box, QBrush(colour, Qt.BrushStyle.BDiagPattern))


class Legend(QWidget):
    """The marks under a picture on screen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.marks: Sequence[Mark] = ()
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_marks(self, marks: Sequence[Mark]) -> None:
        """Explain others."""
        if marks != self.marks:
            self.marks = marks
            self.setAccessibleName(f"Legend: {'; '.join(mark.words for mark in marks)}")
            self.updateGeometry()
            self.update()

    def heightForWidth(self, width: int) -> int:
        """The rows that a width needs."""
        return round(rows(self.marks, width, 0) * ink.line_height(theme.current().font("label")))

    def sizeHint(self) -> QSize:
        """One row."""
        return QSize(100, round(ink.line_height(theme.current().font("label"))))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint them."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_marks(painter, self.marks, self.width(), 0, 0)
        painter.end()
