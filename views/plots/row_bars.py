"""One query row as bars: a weight for every key, with numbers and token labels where they fit.

A painted widget: it draws a ``RowReading`` and says which key was clicked or pointed at.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.bidi import isolated
from ropewalk.model.readings.records import Doubles, RowReading
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.levels import in_cell
from ropewalk.views.style import ink, theme
from ropewalk.views.style.lettering import face

_FLOOR = 1e-4
LEAST_MARKED = 0.005
"""A smaller weight has no number of its own, unless its key is selected: it would read 0.00."""


class RowBars(QWidget):
    """Bars of the weights of one row.

    Signals
    -------
    picked(key), pointed(key)
        A key was clicked; the pointer is over one (-1 when it left).
    """

    picked = Signal(int)
    pointed = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row: RowReading | None = None
        self._labels: tuple[str, ...] = ()
        self._scale: Literal["linear", "log"] = "linear"
        self._skip_first = False
        self._key = -1
        self._hover = -1
        self._readout = ""
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("weights of the selected query; arrow keys select the key")

    def set_row(self, row: RowReading, labels: tuple[str, ...]) -> None:
        """Show a row; ``labels`` are the token texts."""
        self._row, self._labels = row, labels
        self.setAccessibleDescription(self.heading())
        self.update()

    def set_scale(self, scale: Literal["linear", "log"], *, skip_first: bool) -> None:
        """Spread the heights linearly or over powers of ten, with or without the first key in the scale."""
        if (scale, skip_first) != (self._scale, self._skip_first):
            self._scale, self._skip_first = scale, skip_first
            self.update()

    def set_key(self, key: int) -> None:
        """Mark the selected key."""
        if key != self._key:
            self._key = key
            self.update()

    def set_hover(self, key: int) -> None:
        """Mark the key under the pointer; -1 for none."""
        if key != self._hover:
            self._hover = key
            self.update()

    def set_readout(self, text: str) -> None:
        """Show words about what is pointed at, right of the heading."""
        if text != self._readout:
            self._readout = text
            self.update()

    def theme_changed(self) -> None:
        """Repaint in the theme in use."""
        self.updateGeometry()
        self.update()

    def heading(self) -> str:
        """What is shown, in words."""
        row = self._row
        if row is None:
            return ""
        token = isolated(self._labels[row.query]) if row.query < len(self._labels) else ""
        sink = f" · sink logit {in_cell(row.sink_weight)}" if row.sink_weight else ""
        return f"row of query {row.query} {token} · entropy {in_cell(row.entropy)} nats{sink}"

    @property
    def top(self) -> float:
        """The weight that reaches the top."""
        row = self._row
        if row is None:
            return 1.0
        start = 1 if self._skip_first else 0
        return float(max(np.max(row.weights[start:], initial=0.0), 10 * _FLOOR))

    def shares(self) -> Doubles:
        """Heights of the bars [S], 0 to 1."""
        row = self._row
        if row is None:
            return np.zeros(0)
        if self._scale == "log":
            shares = np.log(np.maximum(row.weights, _FLOOR) / _FLOOR) / math.log(max(self.top, 10 * _FLOOR) / _FLOOR)
        else:
            shares = row.weights / self.top
        heights: Doubles = np.clip(np.nan_to_num(shares), 0, 1)
        return heights

    def bar_rect(self, key: int) -> QRectF:
        """The full-height column of a key, in widget coordinates."""
        return self._bar(self._plot(), key)

    def _bar(self, plot: QRectF, key: int) -> QRectF:
        """The column of a key in a plot that is known already: there may be hundreds of keys."""
        count = 0 if self._row is None else len(self._row.weights)
        step = plot.width() / count if count else 0.0
        return QRectF(plot.left() + key * step, plot.top(), step, plot.height())

    def sizeHint(self) -> QSize:
        """Room for a heading, numbers, bars and labels."""
        return QSize(300, 7 * theme.current().size("label"))

    def minimumSizeHint(self) -> QSize:
        """The smallest size that still shows bars."""
        return QSize(80, round(6 * theme.current().size("label")))

    def _lines(self) -> tuple[float, float]:
        now = theme.current()
        return face(now.font("label")).height, face(now.font("number")).height

    def _plot(self) -> QRectF:
        heading, line = self._lines()
        count = 0 if self._row is None else len(self._row.weights)
        width = min(float(self.width()), count * theme.current().grid(7))
        return QRectF(0, heading + line + 2, width, max(self.height() - heading - 2 * line - 6, 4))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw everything."""
        row = self._row
        if row is None or len(row.weights) == 0:
            return
        painter = QPainter(self)
        self._paint_heading(painter)
        plot, step = self._plot(), self.bar_rect(0).width()
        shares = self.shares()
        if step >= 2:
            for key in range(len(shares)):
                self._paint_bar(painter, self._bar(plot, key), key, float(shares[key]), bool(row.visible[key]))
            self._paint_labels(painter, step)
        else:
            self._paint_dense(painter, plot, shares)
        painter.end()

    def _paint_heading(self, painter: QPainter) -> None:
        now = theme.current()
        painter.setFont(now.font("label"))
        painter.setPen(now.faint)
        metrics = QFontMetricsF(painter.font())
        box = QRectF(0, 0, self.width(), metrics.height())
        right = metrics.elidedText(self._readout, Qt.TextElideMode.ElideRight, box.width() * 0.65)
        taken = metrics.horizontalAdvance(right) + (theme.current().grid(2) if right else 0)
        left = metrics.elidedText(self.heading(), Qt.TextElideMode.ElideRight, box.width() - taken)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft, left)
        painter.setPen(now.text)
        painter.drawText(box, Qt.AlignmentFlag.AlignRight, right)

    def _paint_bar(self, painter: QPainter, column: QRectF, key: int, share: float, visible: bool) -> None:
        now = theme.current()
        inset = min(column.width() * 0.15, now.grid(1))
        column = column.adjusted(inset, 0, -inset, 0)
        if key == self._hover:
            painter.fillRect(column, now.hover)
        if not visible:
            stub = QRectF(column.left(), column.bottom() - 6, column.width(), 6)
            painter.fillRect(stub, now.masked_ground)
            painter.fillRect(stub, QBrush(now.masked, Qt.BrushStyle.BDiagPattern))
            return
        height = max(share * column.height(), 1.0)
        painter.fillRect(QRectF(column.left(), column.bottom() - height, column.width(), height), self._colour(key))

    def _colour(self, key: int) -> QColor:
        now = theme.current()
        if key == self._key:
            return now.key
        faded = QColor(now.key)
        faded.setAlpha(120)
        return faded

    def _paint_labels(self, painter: QPainter, step: float) -> None:
        """Numbers above and tokens below, as many as fit; the selected key always has them."""
        row, now = self._row, theme.current()
        if row is None:
            return
        font = now.font("number")
        line, plot, shares = face(font).height, self._plot(), self.shares()
        widest = max((face(font).line(start).width for start in {label[:5] for label in self._labels}), default=0.0)
        room = max(face(font).line("0.00").width, widest) + 3
        stride = max(math.ceil(room / step), 1)
        chosen = [k for k in range(len(shares)) if k % stride == 0 and (k == self._key or abs(k - self._key) >= stride)]
        if 0 <= self._key < len(shares) and self._key not in chosen:
            chosen.append(self._key)
        width = step * stride - 2
        for key in chosen:
            centre = min(max(self._bar(plot, key).center().x(), width / 2), self.width() - width / 2)
            colour = now.key if key == self._key else now.faint
            label = self._labels[key] if stride == 1 and key < len(self._labels) else str(key)
            under = QRectF(centre - width / 2, plot.bottom() + 2, width, line)
            ink.draw_text(painter, under, label, font, colour, ink.CENTRE)
        for key in self.numbered(stride):
            centre = min(max(self._bar(plot, key).center().x(), width / 2), self.width() - width / 2)
            top = plot.bottom() - max(float(shares[key]) * plot.height(), 1.0) - line
            over = QRectF(centre - room, top, 2 * room, line)
            ink.draw_text(painter, over, in_cell(float(row.weights[key])), font, now.text, ink.CENTRE)

    def numbered(self, stride: int) -> list[int]:
        """Keys whose weights are written: the selected one, then the largest, one in ``stride`` neighbours at most."""
        row, kept = self._row, list[int]()
        if row is None:
            return kept
        largest = np.argsort(-row.weights, kind="stable").tolist()
        for key in [self._key, *largest] if self._key in largest else largest:
            marked = row.visible[key] and (row.weights[key] >= LEAST_MARKED or key == self._key)
            if marked and all(abs(key - other) >= stride for other in kept):
                kept.append(key)
        return kept

    def _paint_dense(self, painter: QPainter, plot: QRectF, shares: Doubles) -> None:
        """More keys than pixels: every pixel shows the largest weight under it."""
        columns = max(int(min(plot.width(), len(shares))), 1)
        starts = np.arange(columns) * len(shares) // columns
        step = plot.width() / columns
        heights = np.maximum(np.maximum.reduceat(shares, starts) * plot.height(), 1.0).tolist()
        left, bottom, now = plot.left(), plot.bottom(), theme.current()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(now.key)
        painter.drawRects([QRectF(left + i * step, bottom - height, step, height) for i, height in enumerate(heights)])
        painter.setFont(now.font("number"))
        painter.setPen(now.faint)
        box = QRectF(plot.left(), plot.bottom() + 2, plot.width(), self._lines()[1])
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft, "key 0")
        painter.drawText(box, Qt.AlignmentFlag.AlignRight, str(len(shares) - 1))
        top = QRectF(plot.left(), plot.top() - self._lines()[1] - 1, plot.width(), self._lines()[1])
        painter.drawText(top, Qt.AlignmentFlag.AlignLeft, f"up to {in_cell(self.top)}")

    def key_at(self, point: QPointF) -> int:
        """Return the key under a point, -1 where there is none."""
        plot, step = self._plot(), self.bar_rect(0).width()
        if self._row is None or step <= 0 or not 0 <= point.x() < plot.right() or point.y() < plot.top():
            return -1
        return min(int(point.x() / step), len(self._row.weights) - 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Pick the key beside the selected one."""
        step = arrow_keys.step_of(event, arrow_keys.SIDEWAYS)
        if step is None or self._row is None:
            super().keyPressEvent(event)
        elif 0 <= self._key + step[0] < len(self._row.weights):
            self.picked.emit(self._key + step[0])

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused."""
        return arrow_keys.kept(event, arrow_keys.SIDEWAYS) or super().event(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Pick a key."""
        key = self.key_at(event.position())
        if key >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.picked.emit(key)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a key."""
        self.pointed.emit(self.key_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        """Point at nothing."""
        self.pointed.emit(-1)
