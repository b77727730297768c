"""All planes of a head as circles: what turns beside the dial."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QScrollArea, QToolTip, QWidget

from ropewalk.model.readings.records import Doubles, PlaneReading
from ropewalk.views.plots.rotation import hands
from ropewalk.views.plots.rotation.dial import KEY
from ropewalk.views.plots.rotation.turning import Turned, lengths
from ropewalk.views.style import highlight, ink, theme, wording

GAP = 8
"""Pixels between two circles, and from a circle to its text."""


class PlanesView(QWidget):
    """The circles, each as large as its own longer hand: dashed before, solid after the rotation.

    Under each stand the plane and after how many positions it has turned once, the lengths of its hands, and what it
    adds to the score.
    """

    plane_clicked = Signal(int)
    plane_pointed = Signal(int)

    LEAST = 44
    """Pixels of a circle at ordinary type; where there is no room for that, planes are scrolled."""
    ARC = 36
    """Pixels from which on a circle has room for the angle between its hands."""
    LINES = 3
    SQUEEZED = 0.9
    """The share of that which a circle keeps where this leaves room for another line below it."""
    SHARE = "−00.00"
    """A share at its longest: nothing may be arranged anew while the hands turn."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.turned: Turned | None = None
        self.selected = 0
        self.pointed = -1
        self.highlighted: frozenset[int] = frozenset()
        self.columns = 1
        self.lines = self.LINES
        """Lines under each circle: without its lengths, and then without its share, where there is no room for them."""
        self.cell = QSize(1, 1)
        self.room = QSize(1, 1)
        self._font = theme.current().font("label")
        self._line = 1.0
        self._whole: Doubles = np.ones(0)
        self._words: tuple[tuple[str, str], ...] = ()
        """What stands under each circle and does not turn: its name, and how long its hands are."""
        self._still = QPixmap()
        self._still_drawn: tuple[float, ...] = ()
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Rotation planes; arrow keys select one")

    @property
    def planes(self) -> int:
        """How many planes there are."""
        return 0 if self.turned is None else len(self.turned.reading.features)

    def show_turned(self, turned: Turned) -> None:
        """Draw the planes with query and key at their positions."""
        before, self.turned = self.turned, turned
        if before is None or before.reading is not turned.reading:
            self._whole, self._words = hands.radii(turned.reading), _words(turned.reading)
            self.lay_out()
        self.update()

    def mark(self, plane: int) -> None:
        """Mark the selected plane."""
        self.setAccessibleDescription(self.description(plane))
        if plane != self.selected:
            self.selected = plane
            self.update()

    def highlight(self, planes: frozenset[int]) -> None:
        """Ring these planes."""
        self.highlighted = planes
        self.update()

    def fit(self, room: QSize) -> None:
        """Arrange the planes in a width and height."""
        self.room = room
        self.lay_out()

    def lay_out(self) -> None:
        """Choose the number of columns: the largest circles, full rows; scroll whole rows where they were too small."""
        if not self.planes:
            return
        self._font = theme.current().font("label")
        self._line = ink.line_height(self._font)
        text = math.ceil(self.LINES * self._line) + GAP
        words = (self.SHARE, *chain.from_iterable(self._words))
        widest = max(self.least, math.ceil(max(ink.text_width(self._font, text) for text in words)))
        most = max(self.room.width() // (widest + GAP), 1)
        ways = range(1, min(self.planes, most) + 1)

        def size(columns: int) -> tuple[int, int]:
            return self.room.width() // columns, self.room.height() // -(-self.planes // columns)

        def circle(columns: int) -> int:
            width, height = size(columns)
            return min(width - GAP, height - text - GAP)

        largest = max(circle(n) for n in ways)
        best = min(
            (n for n in ways if circle(n) >= min(0.9 * largest, largest)),
            key=lambda n: (-self.planes % n, -circle(n)),
        )
        if circle(best) < self.least:
            best = len(ways)
        width, height = size(best)
        side, room = min(self.least, width - GAP), self.room.height()

        def wanted(lines: int) -> int:
            return side + math.ceil(lines * self._line) + 2 * GAP

        spare = math.floor((1 - self.SQUEEZED) * side)
        self.lines = next((n for n in range(self.LINES, 1, -1) if wanted(n) - spare <= room), 1)
        row = wanted(self.lines)
        height = max(height, room if row - spare <= room < row else row)
        self.columns, self.cell = best, QSize(width, height)
        self.setFixedSize(self.room.width(), max(-(-self.planes // best) * height, self.room.height()))
        self.update()

    @property
    def least(self) -> int:
        """Pixels of the smallest circle in the type in use."""
        return round(self.LEAST * theme.current().grid(1) / theme.GRID)

    def cell_of(self, plane: int) -> QRectF:
        """Return where a plane is drawn, text included."""
        row, column = divmod(plane, self.columns)
        return QRectF(column * self.cell.width(), row * self.cell.height(), self.cell.width(), self.cell.height())

    def circle_of(self, plane: int) -> QRectF:
        """Return the square around a plane's circle."""
        box = self.cell_of(plane)
        side = min(box.width() - GAP, box.height() - self.lines * self._line - 2 * GAP)
        return QRectF(box.center().x() - side / 2, box.top() + GAP / 2, side, side)

    def plane_at(self, point: QPoint) -> int:
        """Return the plane under a point, −1 where there is none."""
        return next((i for i in range(self.planes) if self.cell_of(i).contains(QPointF(point))), -1)

    def description(self, plane: int) -> str:
        """Name a plane, its features, its angles and its share."""
        if self.turned is None or not 0 <= plane < self.planes:
            return ""
        r = self.turned.reading
        first, second = (int(f) for f in r.features[plane])
        theta = float(r.query_frequencies[plane])
        return (
            f"plane {plane} (features {first} and {second}) · θ = {wording.number(theta, 5)} rad a position · "
            f"query turned by {wording.number(self.turned.position * theta)}, "
            f"key by {wording.number(self.turned.key_position * float(r.key_frequencies[plane]))} rad · "
            f"angle from k to q {wording.number(float(self.turned.between[plane]))} rad · "
            f"a turn in {hands.wavelength(theta)} positions · "
            f"|q| {wording.number(float(lengths(r.q_before, r.factor)[plane]))}, "
            f"|k| {wording.number(float(lengths(r.k_before, r.factor)[plane]))} · "
            f"share of the score {wording.number(float(self.turned.shares[plane]))}"
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what stands still from a picture, and on it what turns."""
        turned = self.turned
        if turned is None:
            return
        look = theme.current()
        painter = QPainter(self)
        if ink.leaves_the_screen(painter, self):
            self._paint_still(painter)
        else:
            painter.drawPixmap(0, 0, self._still_picture())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        between, shares = turned.between.tolist(), turned.shares.tolist()
        pairs = ((turned.k_after, look.key, KEY), (turned.q_after, look.query, 1.0))
        arc = QPen(look.faint, 1)
        for plane in range(self.planes):
            if not self.cell_of(plane).intersects(QRectF(event.rect())):
                continue
            circle = self.circle_of(plane)
            centre, radius = circle.center(), self.radius_in(circle)
            if circle.width() >= self.ARC:
                hands.draw_arc(painter, centre, 0.35 * radius, turned.k_after[plane], between[plane], arc)
            for after, colour, width in pairs:
                end, hollow = hands.end_of(centre, radius, after[plane], float(self._whole[plane]))
                hands.draw_hand(painter, centre, end, colour, width * max(1.5, radius / 18), hollow)
            if self.lines > 1:
                self._write(painter, plane, self.lines - 1, hands.share(shares[plane]), look.text)
            if plane in self.highlighted:
                highlight.ring(painter, circle.adjusted(2, 2, -2, -2))
        painter.end()

    @staticmethod
    def radius_in(circle: QRectF) -> float:
        """Pixels of the longer hand in a circle."""
        return circle.width() / 2 - 5

    def _write(self, painter: QPainter, plane: int, row: int, text: str, colour: QColor) -> None:
        """Write one of the lines under a circle; that it fits is known."""
        box = self.cell_of(plane)
        place = QRectF(box.left(), self.circle_of(plane).bottom() + 2 + row * self._line, box.width(), self._line)
        painter.setFont(self._font)
        painter.setPen(colour)
        painter.drawText(place, int(ink.CENTRE | Qt.TextFlag.TextSingleLine), text)

    def _still_picture(self) -> QPixmap:
        """Circles, names and the vectors before rotation: they change with the reading, not with the position."""
        assert self.turned is not None
        r, look, ratio = self.turned.reading, theme.current(), self.devicePixelRatioF()
        drawn = (id(r), id(look), self.selected, self.pointed, self.width(), self.height(), self.columns, ratio)
        if drawn == self._still_drawn:
            return self._still
        self._still_drawn = drawn
        self._still = QPixmap(round(self.width() * ratio), round(self.height() * ratio))
        self._still.setDevicePixelRatio(ratio)
        self._still.fill(Qt.GlobalColor.transparent)
        painter = QPainter(self._still)
        self._paint_still(painter)
        painter.end()
        return self._still

    def _paint_still(self, painter: QPainter) -> None:
        assert self.turned is not None
        r, look = self.turned.reading, theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for plane in range(self.planes):
            self._paint_circle(painter, plane)
            circle = self.circle_of(plane)
            for before, colour in ((r.k_before, look.key), (r.q_before, look.query)):
                end, _ = hands.end_of(circle.center(), self.radius_in(circle), before[plane], float(self._whole[plane]))
                hands.draw_ghost(painter, circle.center(), end, colour, 1.0)
            name, long = self._words[plane]
            self._write(painter, plane, 0, name, look.text if plane == self.selected else look.faint)
            if self.lines == self.LINES:
                self._write_lengths(painter, plane, *long.split())

    def _write_lengths(self, painter: QPainter, plane: int, q: str, k: str) -> None:
        look, box = theme.current(), self.cell_of(plane)
        top, half = self.circle_of(plane).bottom() + 2 + self._line, box.width() / 2
        for text, left, align, colour in ((q, -3.0, ink.RIGHT, look.query), (k, half + 3, ink.LEFT, look.key)):
            painter.setPen(colour)
            place = QRectF(box.left() + left, top, half, self._line)
            painter.drawText(place, int(align | Qt.TextFlag.TextSingleLine), text)

    def _paint_circle(self, painter: QPainter, plane: int) -> None:
        look = theme.current()
        circle = self.circle_of(plane)
        chosen = plane == self.selected
        painter.setBrush(look.field)
        painter.setPen(
            QPen(look.accent if chosen else look.faint if plane == self.pointed else look.line, 2 if chosen else 1)
        )
        painter.drawEllipse(circle.adjusted(1, 1, -1, -1))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Announce the plane under a left click."""
        plane = self.plane_at(event.position().toPoint())
        if plane >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.plane_clicked.emit(plane)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Announce the plane under the pointer."""
        self.plane_pointed.emit(self.plane_at(event.position().toPoint()))

    def leaveEvent(self, event: QEvent) -> None:
        """Announce that the pointer is gone."""
        self.plane_pointed.emit(-1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move to the neighbouring plane."""
        step = self._steps().get(event.key())
        if step is None:
            super().keyPressEvent(event)
        elif 0 <= self.selected + step < self.planes:
            self.plane_clicked.emit(self.selected + step)

    def event(self, event: QEvent) -> bool:
        """Keep arrows from the window's shortcuts while focused, and answer for tooltips."""
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() in self._steps()
        ):
            event.accept()
            return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), wording.tooltip(self.description(self.plane_at(event.pos()))), self)
            return True
        return super().event(event)

    def _steps(self) -> dict[int, int]:
        keys = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)
        return dict(zip((int(k) for k in keys), (-1, 1, -self.columns, self.columns), strict=True))


def _words(r: PlaneReading) -> tuple[tuple[str, str], ...]:
    long = zip(lengths(r.q_before, r.factor).tolist(), lengths(r.k_before, r.factor).tolist(), strict=True)
    return tuple(
        (f"{plane} · λ {hands.wavelength(theta)}", f"{wording.number(q, 2)}  {wording.number(k, 2)}")
        for plane, (theta, (q, k)) in enumerate(zip(r.query_frequencies.tolist(), long, strict=True))
    )


class PlanesScroll(QScrollArea):
    """A scroll area that tells the planes how much room there is."""

    def __init__(self, view: PlanesView) -> None:
        super().__init__()
        self.view = view
        self.setWidget(view)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.viewport().setAutoFillBackground(False)
        view.setAutoFillBackground(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Pass the new room on."""
        super().resizeEvent(event)
        self.view.fit(self.viewport().size())
        self.verticalScrollBar().setSingleStep(max(self.view.cell.height(), 1))
        self.show_selected()

    def show_selected(self) -> None:
        """Scroll to the selected plane, where it is out of sight; to its dial where there is no room for all."""
        if self.view.planes:
            box = self.view.cell_of(min(max(self.view.selected, 0), self.view.planes - 1)).toRect()
            if not self.viewport().rect().translated(0, self.verticalScrollBar().value()).contains(box):
                half = min(box.height(), self.viewport().height()) // 2
                self.ensureVisible(box.center().x(), box.top() + half, 0, half)
