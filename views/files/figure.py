"""A panel as a figure: without its controls, and with a line that says what it is of and what its marks mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QWidget,
)

from ropewalk.views.files.parts import parts_of
from ropewalk.views.panels.panel import Mark
from ropewalk.views.style import ink, theme

CONTROLS: Final = (QAbstractButton, QAbstractSlider, QAbstractSpinBox, QComboBox, QLineEdit)
"""What is for a hand, and says nothing on paper."""


@dataclass(frozen=True, eq=False)
class Figure:
    """What is drawn of a panel.

    Attributes
    ----------
    caption
        What it is of.
    legend
        What its marks mean.
    moving
        Whether it is one of the pictures of a film, which are all of one size: nothing is cut off or put under it.
    """

    widget: QWidget
    caption: str
    legend: Sequence[Mark] = ()
    moving: bool = False

    def hides(self, part: QWidget) -> bool:
        """Whether a part of the panel is left out: a control, or what names one."""
        named = part.buddy() if isinstance(part, QLabel) else None
        if self.moving and isinstance(named, QAbstractSlider):
            return False  # where it is says what moved; it is in the caption of a picture that stands
        return isinstance(part if named is None else named, CONTROLS)

    @property
    def size(self) -> QSize:
        """The picture and the lines under it."""
        return QSize(self.widget.width(), self._bottom() + math.ceil(self._foot()))

    def paint_foot(self, painter: QPainter) -> None:
        """Write the caption and the legend under the picture."""
        if self.moving:
            return
        now, margin = theme.current(), self._margin()
        font, line = now.font("label"), ink.line_height(now.font("label"))
        y = self._bottom() + margin / 2
        for mark, x, row in self._placed():
            top = y + row * line
            self._swatch(painter, mark, QRectF(x, top + line * 0.15, line * 0.7, line * 0.7))
            width = ink.text_width(font, mark.words) + 1
            ink.draw_text(painter, QRectF(x + line, top, width, line), mark.words, font, now.text)
        if self.legend:
            y += self._rows() * line + margin / 4
        painter.setFont(font)
        painter.setPen(now.faint)
        painter.drawText(self._text_box().translated(0, y), self._flags(), self.caption)

    def _swatch(self, painter: QPainter, mark: Mark, box: QRectF) -> None:
        colour = QColor(mark.colour) if mark.colour[0] == "#" else getattr(theme.current(), mark.colour)
        painter.setPen(QPen(colour, 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if mark.kind == "outline":
            painter.drawRect(box.adjusted(1, 1, -1, -1))
        elif mark.kind == "line":
            painter.drawLine(QPointF(box.left(), box.center().y()), QPointF(box.right(), box.center().y()))
        else:
            hatched = mark.kind == "hatch"
            painter.fillRect(box, theme.current().masked_ground if hatched else colour)
            if hatched:
                painter.fillRect(box, QBrush(colour, Qt.BrushStyle.BDiagPattern))

    def _bottom(self) -> int:
        """Where the picture ends: rows of controls at the foot of the panel are no part of it."""
        if self.moving:
            return self.widget.height()
        ends = [
            part.at.y() + part.widget.height()
            for part in parts_of(self.widget, self.hides)
            if not any(
                isinstance(child, QWidget) and child.isVisibleTo(part.widget) for child in part.widget.children()
            )
        ]
        return min(max(ends, default=self.widget.height()) + self._margin() // 2, self.widget.height())

    def _placed(self) -> Iterator[tuple[Mark, float, int]]:
        """The marks of the legend, how far right each stands and in which row."""
        font, margin = theme.current().font("label"), self._margin()
        x, row = float(margin), 0
        for mark in self.legend:
            width = ink.line_height(font) + ink.text_width(font, mark.words) + 2 * margin
            if x > margin and x + width > self.widget.width():
                x, row = float(margin), row + 1
            yield mark, x, row
            x += width

    def _rows(self) -> int:
        return max((row + 1 for *_, row in self._placed()), default=0)

    def _foot(self) -> float:
        if self.moving:
            return 0.0
        line = ink.line_height(theme.current().font("label"))
        return self._margin() * 1.5 + self._rows() * line + self._text_box().height()

    def _text_box(self) -> QRectF:
        margin = self._margin()
        room = QRectF(margin, 0, self.widget.width() - 2 * margin, 1e4)
        return QFontMetricsF(theme.current().font("label")).boundingRect(room, self._flags(), self.caption)

    @staticmethod
    def _flags() -> int:
        return int(Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap)

    @staticmethod
    def _margin() -> int:
        return theme.current().grid(2)
