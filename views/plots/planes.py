"""The planes of a head as circles: what turns in the RoPE panel."""

from __future__ import annotations

import math

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

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots.turning import Turned
from ropewalk.views.style import highlight, ink, theme, wording


class PlanesView(QWidget):
    """The circles: faint before, solid after the rotation."""

    plane_clicked = Signal(int)
    plane_pointed = Signal(int)

    ARC = 36
    """Pixels from which on a circle has room for the angle between its vectors."""
    FEW = 16
    """Up to this many planes, angles are written even where they need a line each."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.turned: Turned | None = None
        self.selected = 0
        self.pointed = -1
        self.highlighted: frozenset[int] = frozenset()
        self.columns = 1
        self.cell = QSize(1, 1)
        self.room = QSize(1, 1)
        self._font = theme.current().font("label")
        self._line, self._rows = 1.0, 1
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
        """Draw the planes with the query at a position."""
        anew = self.turned is None or len(self.turned.reading.features) != len(turned.reading.features)
        self.turned = turned
        if anew:
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
        """Choose the number of columns: room for angles, large circles, full rows; scroll when too small."""
        if not self.planes:
            return
        label = round(ink.line_height(theme.current().font("label")))
        smallest = 2 * label + 2

        def size(columns: int) -> tuple[int, int]:
            return self.room.width() // columns, self.room.height() // -(-self.planes // columns)

        def circle(columns: int) -> int:
            width, height = size(columns)
            return min(width - 8, height - self._lines(width) * label - 4)

        ways = range(1, self.planes + 1)
        description = [n for n in ways if self._lines(size(n)[0]) > 1 and circle(n) >= 2 * smallest - 20]
        largest = max(circle(n) for n in description or ways)
        best = min(
            (n for n in description or ways if circle(n) >= min(0.9 * largest, largest)),
            key=lambda n: (-self.planes % n, -circle(n)),
        )
        if circle(best) < smallest:
            best = max(self.room.width() // (smallest + 8), 1)
        width, height = size(best)
        least = min(smallest, width) + self._lines(width) * label + 4
        if height < least:  # whole rows, however far it is scrolled
            height = self.room.height() // max(self.room.height() // least, 1)
        self.columns, self.cell = best, QSize(width, height)
        self._font = theme.current().font("label")
        self._line, self._rows = ink.line_height(self._font), self._lines(width)
        self.setFixedSize(self.room.width(), max(-(-self.planes // best) * height, self.room.height()))
        self.update()

    def _lines(self, width: int) -> int:
        """How many lines of text a cell of that width has room for."""
        font = theme.current().font("label")
        angle_width = ink.text_width(font, "mθ 0.0000")
        if width / 2 - 4 >= angle_width:
            return 2
        return 3 if width >= angle_width and self.planes <= self.FEW else 1

    def cell_of(self, plane: int) -> QRectF:
        """Return where a plane is drawn, text included."""
        row, column = divmod(plane, self.columns)
        return QRectF(column * self.cell.width(), row * self.cell.height(), self.cell.width(), self.cell.height())

    def circle_of(self, plane: int) -> QRectF:
        """Return the square around a plane's circle."""
        box = self.cell_of(plane)
        text = self._rows * self._line
        side = min(box.width() - 8, box.height() - text - 6)
        return QRectF(box.center().x() - side / 2, box.top() + 2, side, side)

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
        r, q_after, k_after = turned.reading, turned.q_after, turned.k_after
        between = turned.between
        q_longest, k_longest = _longest(r.q_before, r.factor), _longest(r.k_before, r.factor)
        for plane in range(self.planes):
            if self.cell_of(plane).intersects(QRectF(event.rect())):
                self._paint_between(painter, plane, k_after[plane], float(between[plane]))
                self._paint_vector(painter, plane, k_after[plane] / k_longest, look.key, True)
                self._paint_vector(painter, plane, q_after[plane] / q_longest, look.query, True)
                self._paint_angles(painter, plane)
                if plane in self.highlighted:
                    highlight.ring(painter, self.circle_of(plane).adjusted(2, 2, -2, -2))
        painter.end()

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
        q_longest, k_longest = _longest(r.q_before, r.factor), _longest(r.k_before, r.factor)
        for plane in range(self.planes):
            self._paint_circle(painter, plane)
            self._paint_vector(painter, plane, r.k_before[plane] / k_longest, look.key, False)
            self._paint_vector(painter, plane, r.q_before[plane] / q_longest, look.query, False)
            self._paint_name(painter, plane)

    def _paint_circle(self, painter: QPainter, plane: int) -> None:
        look = theme.current()
        circle = self.circle_of(plane)
        chosen = plane == self.selected
        painter.setBrush(look.field)
        painter.setPen(
            QPen(look.accent if chosen else look.faint if plane == self.pointed else look.line, 2 if chosen else 1)
        )
        painter.drawEllipse(circle.adjusted(1, 1, -1, -1))

    def _paint_vector(self, painter: QPainter, plane: int, vector: Doubles, colour: QColor, after: bool) -> None:
        circle = self.circle_of(plane)
        centre, radius = circle.center(), circle.width() / 2 - 3
        tip = centre + QPointF(float(vector[0]) * radius, -float(vector[1]) * radius)
        width = max(1.5, radius / 18) if after else max(1.0, radius / 40)
        painter.setPen(
            QPen(colour if after else ink.faded(colour, 0.45), width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap)
        )
        painter.drawLine(centre, tip)
        if after:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawEllipse(tip, width * 1.1, width * 1.1)

    def _paint_between(self, painter: QPainter, plane: int, k: Doubles, angle: float) -> None:
        """An arc from the key to the query, inside the circle."""
        circle = self.circle_of(plane)
        if circle.width() < self.ARC:
            return
        inset = circle.width() * 0.36
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.current().faint, 1))
        start, span = math.degrees(math.atan2(float(k[1]), float(k[0]))), math.degrees(angle)
        painter.drawArc(circle.adjusted(inset, inset, -inset, -inset), round(16 * start), round(16 * span))

    def _paint_name(self, painter: QPainter, plane: int) -> None:
        if self.turned is None:
            return
        look, box = theme.current(), self.cell_of(plane)
        font = look.font("label")
        top = self.circle_of(plane).bottom() + 2
        name = f"{plane} · θ {wording.significant(float(self.turned.reading.query_frequencies[plane]))}"
        if ink.text_width(font, "00 · θ 0.00000") > box.width():
            name = str(plane)
        colour = look.text if plane == self.selected else look.faint
        ink.draw_text(painter, QRectF(box.left(), top, box.width(), self._line), name, font, colour, ink.CENTRE)

    def _paint_angles(self, painter: QPainter, plane: int) -> None:
        """Write both angles; their width is known to fit, so nothing is measured in every frame."""
        if self.turned is None or self._rows == 1:
            return
        look, r, box, line = theme.current(), self.turned.reading, self.cell_of(plane), self._line
        q = f"mθ {angle(self.turned.position * float(r.query_frequencies[plane]))}"
        k = f"nθ {angle(self.turned.key_position * float(r.key_frequencies[plane]))}"
        below = QRectF(box.left(), self.circle_of(plane).bottom() + 2 + line, box.width(), line)
        if self._rows == 2:
            half = box.width() / 2 + 4
            places = ((below.adjusted(0, 0, -half, 0), ink.RIGHT), (below.adjusted(half, 0, 0, 0), ink.LEFT))
        else:
            places = ((below, ink.CENTRE), (below.translated(0, line), ink.CENTRE))
        painter.setFont(self._font)
        for text, colour, (place, align) in zip((q, k), (look.query, look.key), places, strict=True):
            painter.setPen(colour)
            painter.drawText(place, int(align | Qt.TextFlag.TextSingleLine), text)

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


def _longest(pairs: Doubles, factor: float) -> float:
    """Length that fills a circle: the longest pair of the vector after the rotation, which only stretches."""
    return float(np.hypot(pairs[:, 0], pairs[:, 1]).max(initial=0.0)) * max(factor, 1.0) or 1.0


def angle(radians: float) -> str:
    """Write an angle in at most six signs."""
    return wording.significant(radians, 3 if abs(radians) >= 0.1 else 2)


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
