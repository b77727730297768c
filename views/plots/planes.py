"""The planes of a head as circles, and the shares of the score as bars: the pictures of the RoPE panel that turn."""

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
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QScrollArea, QToolTip, QWidget

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots.signed import signed_colour
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


class SharesView(QWidget):
    """Left, each plane's share of the score as a signed bar; right, the score against the query's position."""

    plane_clicked = Signal(int)
    position_chosen = Signal(float)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.turned: Turned | None = None
        self.selected = 0
        self.positions: Doubles = np.zeros(0)
        self.curve: Doubles = np.zeros(0)
        self._line = QPolygonF()
        self._line_drawn: tuple[int, ...] = ()
        self.setAccessibleName("Share of the score by plane, and score by position of the query")

    def show_turned(self, turned: Turned, positions: Doubles, curve: Doubles) -> None:
        """Draw the shares at a position, and mark it on the curve."""
        self.turned, self.positions, self.curve = turned, positions, curve
        self.update()

    def mark(self, plane: int) -> None:
        """Mark the selected plane."""
        if plane != self.selected:
            self.selected = plane
            self.update()

    def sizeHint(self) -> QSize:
        """Return a low strip: a caption and the bars."""
        look = theme.current()
        return QSize(200, round(ink.line_height(look.font("label"))) + look.grid(6))

    def bars_box(self) -> QRectF:
        """Return where the bars are drawn."""
        caption = ink.line_height(theme.current().font("label")) + 2
        return QRectF(0, caption, self.width() * 0.5 - 12, self.height() - caption)

    def curve_box(self) -> QRectF:
        """Return where the curve is drawn."""
        caption = ink.line_height(theme.current().font("label")) + 2
        return QRectF(self.width() * 0.5 + 12, caption, self.width() * 0.5 - 16, self.height() - caption)

    def bar_of(self, plane: int) -> QRectF:
        """Return the bar of a plane, upwards from zero for a positive share."""
        return self.bars()[plane] if self.turned is not None else QRectF()

    def bars(self) -> list[QRectF]:
        """Return the bars of all planes; a frame asks once."""
        if self.turned is None:
            return []
        shares, box = self.turned.shares, self.bars_box()
        top, bottom = max(float(shares.max(initial=0)), 0.0), min(float(shares.min(initial=0)), 0.0)
        unit = (box.height() - 2) / ((top - bottom) or 1.0)
        slot = box.width() / len(shares)
        gap = min(slot * 0.2, 4)
        first, zero = box.left() + gap / 2, box.top() + 1
        return [
            QRectF(first + i * slot, zero + (top - max(share, 0.0)) * unit, slot - gap, abs(share) * unit)
            for i, share in enumerate(shares.tolist())
        ]

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint both halves."""
        if self.turned is None:
            return
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = look.font("label")
        line = ink.line_height(font)
        extent = f"{self.curve.min():.1f} to {self.curve.max():.1f}".replace("-", wording.MINUS)
        room = self.curve_box().width()
        place = "position m" if ink.text_width(font, f"score by position m: {extent}") <= room else "m"
        for box, text in (
            (self.bars_box(), "share of the score, by plane"),
            (self.curve_box(), f"score by {place}: {extent}"),
        ):
            ink.draw_text(painter, QRectF(box.left(), 0, box.width(), line), text, font, look.faint)
        self._paint_bars(painter)
        self._paint_curve(painter)
        painter.end()

    def _paint_bars(self, painter: QPainter) -> None:
        if self.turned is None:
            return
        look, shares, bars, box = theme.current(), self.turned.shares, self.bars(), self.bars_box()
        if self.selected < len(bars):
            chosen = bars[self.selected]
            slot = QRectF(chosen.left() - 1, box.top(), chosen.width() + 2, box.height())
            painter.fillRect(slot, look.chosen)
        colours = {positive: signed_colour(1.0 if positive else -1.0) for positive in (True, False)}
        for share, bar in zip(shares.tolist(), bars, strict=True):
            ink.draw_bar(painter, bar, colours[share >= 0])
        y = bars[0].bottom() if shares[0] >= 0 else bars[0].top()
        painter.setPen(QPen(look.faint, 1))
        painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))

    def _points(self, positions: Doubles, scores: Doubles) -> QPolygonF:
        box = self.curve_box().adjusted(2, 4, -4, -4)
        low, high = float(self.curve.min()), float(self.curve.max())
        x = box.left() + box.width() * (positions - self.positions[0]) / max(self.positions[-1] - self.positions[0], 1)
        y = box.bottom() - box.height() * (scores - low) / ((high - low) or 1.0)
        return ink.polyline(x, y)

    def _paint_curve(self, painter: QPainter) -> None:
        if self.turned is None or len(self.curve) < 2:
            return
        look = theme.current()
        drawn = (id(self.curve), self.width(), self.height())
        if drawn != self._line_drawn:
            self._line_drawn = drawn
            self._line = self._points(self.positions, self.curve)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(look.faint, 1.2))
        painter.drawPolyline(self._line)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.query)
        radius = look.grid(0.5)
        score = min(max(self.turned.scaled, float(self.curve.min())), float(self.curve.max()))
        here = self._points(np.array([self.turned.position]), np.array([score]))
        painter.drawEllipse(here.at(0), radius, radius)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select the plane of the bar, or move the query to the position, under a left click."""
        if self.turned is None or event.button() != Qt.MouseButton.LeftButton:
            return
        x = event.position().x()
        bars, curve = self.bars_box(), self.curve_box()
        if bars.left() <= x < bars.right():
            self.plane_clicked.emit(int((x - bars.left()) / bars.width() * len(self.turned.shares)))
        elif curve.left() <= x <= curve.right() and len(self.positions):
            share = (x - curve.left() - 2) / max(curve.width() - 6, 1)
            self.position_chosen.emit(float(round(share * self.positions[-1])))
