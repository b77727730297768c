"""Pairing: where the two features of a plane sit in the head vector, and what reading them wrongly does."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.records import PlaneReading
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.rotation.turning import misread, reexpressed
from ropewalk.views.style import ink, theme, wording

Pairs = tuple[tuple[int, int], ...]


def pairs_of(count: int, *, adjacent: bool) -> Pairs:
    """The two features of each of ``count`` planes."""
    return tuple((2 * i, 2 * i + 1) if adjacent else (i, i + count) for i in range(count))


class PairingView(QWidget):
    """Two rows of features: as this model pairs them, and as the other pairing would."""

    plane_clicked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.reading: PlaneReading | None = None
        self.selected = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Features of a head vector, joined into planes; left and right select one")

    def show_reading(self, reading: PlaneReading) -> None:
        """Take the planes of a head."""
        self.reading = reading
        self.setAccessibleDescription(self.sentence())
        self.update()

    def mark(self, plane: int) -> None:
        """Mark the selected plane."""
        if plane != self.selected:
            self.selected = plane
            self.update()

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        self.update()

    @property
    def adjacent(self) -> bool:
        """Whether this model pairs neighbours."""
        r = self.reading
        return r is not None and len(r.features) > 1 and int(r.features[0, 1]) == 1

    def sentence(self) -> str:
        """Say what the wrong pairing would make of the score."""
        r = self.reading
        if r is None:
            return ""
        wrong = misread(r)
        own, other = ("adjacent", "half-split") if self.adjacent else ("half-split", "adjacent")
        return (
            f"Read as {own}, as it was trained: {wording.number(r.scaled)}. Read as {other}: {wording.number(wrong)}, "
            f"off by {wording.number(wrong - r.scaled)}. With its features reordered for {other}: "
            f"{wording.number(reexpressed(r))}, the same."
        )

    def sizeHint(self) -> QSize:
        """Two rows with their arcs."""
        return QSize(240, 160)

    def cell_of(self, row: int, feature: int) -> QRectF:
        """The square of a feature in one of the two rows."""
        count = 1 if self.reading is None else 2 * len(self.reading.features)
        width = self.width() / count
        line = ink.line_height(theme.current().font("label"))
        half = self.height() / 2
        height = min(max(half * 0.2, 10), 28)
        return QRectF(feature * width, row * half + half - height - line * 0.3, max(width - 1, 1), height)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the rows, an arc for every plane, the selected one strong."""
        r = self.reading
        if r is None:
            return
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        count = len(r.features)
        for row, adjacent in enumerate((self.adjacent, not self.adjacent)):
            name = "adjacent pairs (2i, 2i+1)" if adjacent else f"half-split pairs (i, i+{count})"
            name += ": this model" if row == 0 else ": the other pairing"
            line = ink.line_height(look.font("label"))
            place = QRectF(0, row * self.height() / 2, self.width(), line)
            ink.draw_text(painter, place, name, look.font("label"), look.text if row == 0 else look.faint)
            self._paint_row(painter, row, pairs_of(count, adjacent=adjacent), place.bottom())
        painter.end()

    def _paint_row(self, painter: QPainter, row: int, pairs: Pairs, top: float) -> None:
        look = theme.current()
        for plane, (first, second) in enumerate(pairs):
            chosen = plane == self.selected
            for feature in (first, second):
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(look.accent if chosen else ink.mixed(look.field, look.faint, 0.25 + 0.5 * (plane % 2)))
                painter.drawRect(self.cell_of(row, feature))
            a, b = self.cell_of(row, first), self.cell_of(row, second)
            rise = min((b.center().x() - a.center().x()) / 2, a.top() - top - 4)
            path = QPainterPath(QPointF(a.center().x(), a.top()))
            path.cubicTo(
                QPointF(a.center().x(), a.top() - rise),
                QPointF(b.center().x(), b.top() - rise),
                QPointF(b.center().x(), b.top()),
            )
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(look.accent if chosen else ink.faded(look.faint, 0.5), 2 if chosen else 1))
            painter.drawPath(path)

    def event(self, event: QEvent) -> bool:
        """Keep the arrows from the window's shortcuts while focused."""
        return arrow_keys.kept(event, arrow_keys.SIDEWAYS) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Select the next plane."""
        step = arrow_keys.step_of(event, arrow_keys.SIDEWAYS)
        if step is None:
            super().keyPressEvent(event)
        elif self.reading is not None and 0 <= self.selected + step[0] < len(self.reading.features):
            self.plane_clicked.emit(self.selected + step[0])

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select the plane of a feature."""
        r = self.reading
        if r is None or event.button() != Qt.MouseButton.LeftButton:
            return
        row = int(event.position().y() >= self.height() / 2)
        count = len(r.features)
        feature = int(event.position().x() / max(self.width(), 1) * 2 * count)
        adjacent = self.adjacent if row == 0 else not self.adjacent
        for plane, pair in enumerate(pairs_of(count, adjacent=adjacent)):
            if feature in pair:
                self.plane_clicked.emit(plane)
