"""A panel as a figure: without its controls, and with a line that says what it is of and what its marks mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter
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
from ropewalk.views.panels import legend
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
    marks
        What its marks mean.
    moving
        Whether it is one of the pictures of a film, which are all of one size: nothing is cut off or put under it.
    """

    widget: QWidget
    caption: str
    marks: Sequence[Mark] = ()
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
        legend.paint_marks(painter, self.marks, self.widget.width(), margin, y)
        if self.marks:
            y += self._rows() * line + margin / 4
        painter.setFont(font)
        painter.setPen(now.faint)
        painter.drawText(self._text_box().translated(0, y), self._flags(), self.caption)

    def _bottom(self) -> int:
        """Where the picture ends: rows of controls at the foot of the panel are no part of it."""
        if self.moving:
            return self.widget.height()
        ends = [
            part.at.y() + part.widget.height() if part.clip is None else part.clip.bottom() + 1
            for part in parts_of(self.widget, self.hides)
            if not any(
                isinstance(child, QWidget) and child.isVisibleTo(part.widget) for child in part.widget.children()
            )
        ]
        return min(max(ends, default=self.widget.height()) + self._margin() // 2, self.widget.height())

    def _rows(self) -> int:
        return legend.rows(self.marks, self.widget.width(), self._margin())

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
