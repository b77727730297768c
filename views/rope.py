"""Rotary positions: one circle per plane, the shares of the score, and what moving the query does to it.

It owns the pictures and the slider. The only arithmetic here is the model's own rotation, on the two features of each
plane that the reading brings; everything else is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QScrollArea, QSlider, QToolTip, QVBoxLayout, QWidget

from app.questions import AskPlanes, Question
from app.selection import Hover, Selection
from model.readings import Doubles, PlaneReading, Run
from views import ink, theme, wording
from views.panel import Panel, plain_label
from views.signed import signed_colour

if TYPE_CHECKING:
    from app.session import Session

PARTS = 4
"""The slider counts quarters of a position, so that play turns smoothly; a key moves whole positions."""


def rotated(before: Doubles, angles: Doubles, factor: float) -> Doubles:
    """Turn each plane's pair by its angle and stretch it by the attention factor.

    Parameters
    ----------
    before
        [F, 2] pairs (a, b).
    angles
        [F] radians, position · θ_i.
    factor
        What cos and sin are multiplied by (1 except for YaRN and longrope).

    Returns
    -------
    Doubles
        [F, 2] pairs factor · (a cos − b sin, a sin + b cos) (Su et al. 2021, arXiv:2104.09864).
    """
    cos, sin = factor * np.cos(angles), factor * np.sin(angles)
    a, b = before[:, 0], before[:, 1]
    return np.stack((a * cos - b * sin, a * sin + b * cos), axis=1)


@dataclass(frozen=True, eq=False)
class Turned:
    """The reading with the query moved to a position, which may be fractional while it plays."""

    reading: PlaneReading
    position: float

    @property
    def moved(self) -> bool:
        """Whether the query is elsewhere than in the run."""
        return self.position != self.reading.query_position

    @property
    def q_after(self) -> Doubles:
        """[F, 2] the query after the rotation of this position; the run's own numbers where it was not moved."""
        r = self.reading
        return rotated(r.q_before, self.position * r.query_frequencies, r.factor) if self.moved else r.q_after

    @property
    def shares(self) -> Doubles:
        """[F] what each plane adds to the scaled score."""
        if not self.moved:
            return self.reading.shares
        shares: Doubles = self.reading.scale * np.sum(self.q_after * self.reading.k_after, axis=1)
        return shares

    @property
    def scaled(self) -> float:
        """The scaled score, before soft cap and mask."""
        return float(self.shares.sum() + self.reading.rest) if self.moved else self.reading.scaled


def scores_by_position(reading: PlaneReading, positions: Doubles) -> Doubles:
    """Return the scaled score [M] for the query at each of M positions, the key staying where it is."""
    return np.array([Turned(reading, float(m)).scaled for m in positions])


class PlanesView(QWidget):
    """The circles: faint before, solid after the rotation."""

    plane_clicked = Signal(int)
    plane_pointed = Signal(int)

    FEW = 16
    """Up to this many planes, angles are written even where they need a line each."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.turned: Turned | None = None
        self.selected = 0
        self.pointed = -1
        self.columns = 1
        self.cell = QSize(1, 1)
        self.room = QSize(1, 1)
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
        self.selected = plane
        self.setAccessibleDescription(self.told(plane))
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
        told = [n for n in ways if self._lines(size(n)[0]) > 1 and circle(n) >= 2 * smallest - 20]
        largest = max(circle(n) for n in told or ways)
        best = min(
            (n for n in told or ways if circle(n) >= min(0.9 * largest, largest)),
            key=lambda n: (-self.planes % n, -circle(n)),
        )
        if circle(best) < smallest:
            best = max(self.room.width() // (smallest + 8), 1)
        width, height = size(best)
        least = min(smallest, width) + self._lines(width) * label + 4
        if height < least:  # whole rows, however far it is scrolled
            height = self.room.height() // max(self.room.height() // least, 1)
        self.columns, self.cell = best, QSize(width, height)
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
        text = self._lines(self.cell.width()) * ink.line_height(theme.current().font("label"))
        side = min(box.width() - 8, box.height() - text - 6)
        return QRectF(box.center().x() - side / 2, box.top() + 2, side, side)

    def plane_at(self, point: QPoint) -> int:
        """Return the plane under a point, −1 where there is none."""
        return next((i for i in range(self.planes) if self.cell_of(i).contains(QPointF(point))), -1)

    def told(self, plane: int) -> str:
        """Name a plane, its features, its angles and its share."""
        if self.turned is None or not 0 <= plane < self.planes:
            return ""
        r = self.turned.reading
        first, second = (int(f) for f in r.features[plane])
        theta = float(r.query_frequencies[plane])
        return (
            f"plane {plane} (features {first} and {second}) · θ = {wording.number(theta, 5)} rad a position · "
            f"query turned by {wording.number(self.turned.position * theta)}, "
            f"key by {wording.number(r.key_position * float(r.key_frequencies[plane]))} rad · "
            f"share of the score {wording.number(float(self.turned.shares[plane]))}"
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the circles that are dirty."""
        if self.turned is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        r, q_after = self.turned.reading, self.turned.q_after
        q_longest = _longest(r.q_before, r.factor)
        k_longest = _longest(r.k_before, r.factor)
        for plane in range(self.planes):
            if not self.cell_of(plane).intersects(QRectF(event.rect())):
                continue
            self._paint_circle(painter, plane)
            look = theme.current()
            self._paint_vector(painter, plane, r.k_before[plane] / k_longest, look.key, False)
            self._paint_vector(painter, plane, r.q_before[plane] / q_longest, look.query, False)
            self._paint_vector(painter, plane, r.k_after[plane] / k_longest, look.key, True)
            self._paint_vector(painter, plane, q_after[plane] / q_longest, look.query, True)
            self._paint_text(painter, plane)
        painter.end()

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

    def _paint_text(self, painter: QPainter, plane: int) -> None:
        if self.turned is None:
            return
        look, r = theme.current(), self.turned.reading
        font = look.font("label")
        line = ink.line_height(font)
        box = self.cell_of(plane)
        lines = self._lines(self.cell.width())
        theta = float(r.query_frequencies[plane])
        top = self.circle_of(plane).bottom() + 2
        colour = look.text if plane == self.selected else look.faint
        name = f"{plane} · θ {wording.significant(theta)}"
        if ink.text_width(font, "00 · θ 0.00000") > box.width():
            name = str(plane)
        ink.draw_text(painter, QRectF(box.left(), top, box.width(), line), name, font, colour, ink.CENTRE)
        if lines == 1:
            return
        q = f"mθ {angle(self.turned.position * theta)}"
        k = f"nθ {angle(r.key_position * float(r.key_frequencies[plane]))}"
        below = QRectF(box.left(), top + line, box.width(), line)
        if lines == 2:
            half = box.width() / 2 + 4
            ink.draw_text(painter, below.adjusted(0, 0, -half, 0), q, font, look.query, ink.RIGHT)
            ink.draw_text(painter, below.adjusted(half, 0, 0, 0), k, font, look.key)
        else:
            ink.draw_text(painter, below, q, font, look.query, ink.CENTRE)
            ink.draw_text(painter, below.translated(0, line), k, font, look.key, ink.CENTRE)

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
            QToolTip.showText(event.globalPos(), wording.tooltip(self.told(self.plane_at(event.pos()))), self)
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
        self.setAccessibleName("Share of the score by plane, and score by position of the query")

    def show_turned(self, turned: Turned, positions: Doubles, curve: Doubles) -> None:
        """Draw the shares at a position, and mark it on the curve."""
        self.turned, self.positions, self.curve = turned, positions, curve
        self.update()

    def mark(self, plane: int) -> None:
        """Mark the selected plane."""
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
        if self.turned is None:
            return QRectF()
        shares, box = self.turned.shares, self.bars_box()
        top, bottom = max(float(shares.max(initial=0)), 0.0), min(float(shares.min(initial=0)), 0.0)
        unit = (box.height() - 2) / ((top - bottom) or 1.0)
        slot = box.width() / len(shares)
        value = float(shares[plane])
        gap = min(slot * 0.2, 4)
        y = box.top() + 1 + (top - max(value, 0.0)) * unit
        return QRectF(box.left() + plane * slot + gap / 2, y, slot - gap, abs(value) * unit)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint both halves."""
        if self.turned is None:
            return
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = look.font("label")
        line = ink.line_height(font)
        reach = f"{self.curve.min():.1f} to {self.curve.max():.1f}".replace("-", wording.MINUS)
        room = self.curve_box().width()
        place = "position m" if ink.text_width(font, f"score by position m: {reach}") <= room else "m"
        for box, text in (
            (self.bars_box(), "share of the score, by plane"),
            (self.curve_box(), f"score by {place}: {reach}"),
        ):
            ink.draw_text(painter, QRectF(box.left(), 0, box.width(), line), text, font, look.faint)
        self._paint_bars(painter)
        self._paint_curve(painter)
        painter.end()

    def _paint_bars(self, painter: QPainter) -> None:
        if self.turned is None:
            return
        look, shares = theme.current(), self.turned.shares
        for plane, share in enumerate(shares):
            bar = self.bar_of(plane)
            colour = signed_colour(float(share))
            if plane == self.selected:
                slot = QRectF(bar.left() - 1, self.bars_box().top(), bar.width() + 2, self.bars_box().height())
                painter.fillRect(slot, look.chosen)
            ink.draw_bar(painter, bar, colour)
        zero = self.bar_of(0)
        y = zero.bottom() if shares[0] >= 0 else zero.top()
        painter.setPen(QPen(look.faint, 1))
        painter.drawLine(QPointF(self.bars_box().left(), y), QPointF(self.bars_box().right(), y))

    def _point(self, position: float, score: float) -> QPointF:
        box = self.curve_box().adjusted(2, 4, -4, -4)
        low, high = float(self.curve.min()), float(self.curve.max())
        x = box.left() + box.width() * (position - self.positions[0]) / max(self.positions[-1] - self.positions[0], 1)
        y = box.bottom() - box.height() * (score - low) / ((high - low) or 1.0)
        return QPointF(x, y)

    def _paint_curve(self, painter: QPainter) -> None:
        if self.turned is None or len(self.curve) < 2:
            return
        look = theme.current()
        points = [self._point(float(m), float(s)) for m, s in zip(self.positions, self.curve, strict=True)]
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(look.faint, 1.2))
        painter.drawPolyline(QPolygonF(points))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.query)
        radius = look.grid(0.5)
        score = min(max(self.turned.scaled, float(self.curve.min())), float(self.curve.max()))
        painter.drawEllipse(self._point(self.turned.position, score), radius, radius)

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


class RopePanel(Panel):
    """Shows how rotation turns the selected query and key, plane by plane."""

    name: ClassVar[str] = "rope"
    title: ClassVar[str] = "RoPE"
    depends: ClassVar[frozenset[str]] = frozenset({"layer", "head", "query", "key"})
    marks: ClassVar[frozenset[str]] = frozenset({"plane"})

    INTERVAL = 60
    """Milliseconds between two quarters of a position while it plays."""
    LEAST_REACH = 64
    CURVE_POINTS = 400

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self.reading: PlaneReading | None = None
        self._positions: Doubles = np.zeros(0)
        self._curve: Doubles = np.zeros(0)
        self._planes_view()
        self.shares = SharesView()
        self.shares.plane_clicked.connect(self._select)
        self.shares.position_chosen.connect(lambda m: self.slider.setValue(round(m * PARTS)))
        self.sum_label = plain_label("", "number")
        self.sum_label.setWordWrap(True)
        self.sum_label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.timer = QTimer(self)
        self.timer.setInterval(self.INTERVAL)
        self.timer.timeout.connect(self._advance)
        layout = QVBoxLayout(self.body)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.scroller, 1)
        layout.addWidget(self.shares)
        layout.addWidget(self.sum_label)
        layout.addLayout(self._controls())

    def _planes_view(self) -> None:
        self.view = PlanesView()
        self.view.plane_clicked.connect(self._select)
        self.view.plane_pointed.connect(self._point)
        self.scroller = PlanesScroll(self.view)

    def _controls(self) -> QHBoxLayout:
        self.play_button = QPushButton("Play")
        self.play_button.setToolTip("Move the query through the positions.")
        self.play_button.clicked.connect(self.toggle)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setSingleStep(PARTS)
        self.slider.setPageStep(8 * PARTS)
        self.slider.setAccessibleName("Position of the query")
        self.slider.valueChanged.connect(self._moved)
        self.slider.sliderMoved.connect(lambda value: self.slider.setValue(round(value / PARTS) * PARTS))
        self.position_label = plain_label("", "number")
        self.back_button = QPushButton("Back")
        self.back_button.setToolTip("Put the query back where it is in the run.")
        self.back_button.clicked.connect(self.put_back)
        row = QHBoxLayout()
        row.addWidget(self.play_button)
        row.addWidget(self.slider, 1)
        row.addWidget(self.position_label)
        row.addWidget(self.back_button)
        return row

    # Panel --------------------------------------------------------------------------------------------------------

    def question(self, run: Run, selection: Selection) -> Question | None:
        """Ask for the planes of the selected cell, unless the layer does not rotate."""
        if run.specs[selection.layer].rotary_width == 0:
            return None
        return AskPlanes(selection.layer, selection.head, selection.query, selection.key)

    def show_answer(self, run: Run, selection: Selection, answer: Any) -> None:
        """Draw the planes of the run's own position; a moved slider goes back."""
        self.pause()
        if answer is None:
            self.reading = None
            self.describe(wording.head_name(selection.layer, selection.head))
            self.explain(_why_still(run, selection.layer))
            return
        self.reading = answer
        r = self.reading
        assert r is not None
        reach = min(max(run.newest - 1, self.LEAST_REACH), run.config.max_position - 1)
        self._positions = np.linspace(0, reach, min(reach + 1, self.CURVE_POINTS))
        self._curve = scores_by_position(r, self._positions)
        self.describe(_subtitle(run, r))
        self.slider.blockSignals(True)
        self.slider.setRange(0, reach * PARTS)
        self.slider.setValue(r.query_position * PARTS)
        self.slider.blockSignals(False)
        self._show(Turned(r, r.query_position))

    def show_selection(self, selection: Selection) -> None:
        """Mark the selected plane."""
        self.view.mark(selection.plane)
        self.shares.mark(selection.plane)

    def show_hover(self, hover: Hover) -> None:
        """Mark the plane under the pointer."""
        self.view.pointed = -1 if hover.plane is None else hover.plane
        self.view.update()

    def theme_changed(self) -> None:
        """Arrange and paint anew."""
        self.shares.updateGeometry()
        self.view.lay_out()
        self.shares.update()

    def close_down(self) -> None:
        """Stop playing."""
        self.timer.stop()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop playing when nobody sees it."""
        self.pause()
        super().hideEvent(event)

    # Moving -------------------------------------------------------------------------------------------------------

    @property
    def position(self) -> float:
        """Where the query is shown."""
        return self.slider.value() / PARTS

    def toggle(self) -> None:
        """Play or pause."""
        if self.timer.isActive():
            self.pause()
        elif self.reading is not None:
            if self.slider.value() == self.slider.maximum():
                self.slider.setValue(0)
            self.timer.start()
            self.play_button.setText("Pause")

    def pause(self) -> None:
        """Stop where it is."""
        self.timer.stop()
        self.play_button.setText("Play")

    def put_back(self) -> None:
        """Go back to the run's own position."""
        self.pause()
        if self.reading is not None:
            self.slider.setValue(self.reading.query_position * PARTS)

    def _advance(self) -> None:
        if self.slider.value() >= self.slider.maximum():
            self.pause()
        else:
            self.slider.setValue(self.slider.value() + 1)

    def _moved(self) -> None:
        if self.reading is not None:
            self._show(Turned(self.reading, self.position))

    def _show(self, turned: Turned) -> None:
        self.view.show_turned(turned)
        self.shares.show_turned(turned, self._positions, self._curve)
        self.back_button.setEnabled(turned.moved)
        m = f"{turned.position:.2f}".rstrip("0").rstrip(".")
        self.position_label.setText(f"m = {m}, n = {turned.reading.key_position}")
        self.sum_label.setText(sum_text(turned))

    def _select(self, plane: int) -> None:
        self.session.selection.update(plane=plane)

    def _point(self, plane: int) -> None:
        self.session.selection.point_at(Hover() if plane < 0 else Hover(plane=plane))


def sum_text(turned: Turned) -> str:
    """Write the sum of the shares out, the features that do not turn included."""
    r = turned.reading
    text = f"Σ of {len(r.shares)} shares = {wording.number(float(turned.shares.sum()))}"
    if r.rest:
        text += f", features that do not turn {wording.number(r.rest)}, together"
    text = f"{text} = {wording.number(turned.scaled)}" if r.rest else text
    text += " = scaled score"
    if turned.moved:
        text += f" (in the run {wording.number(r.scaled)})"
    return text


def _subtitle(run: Run, r: PlaneReading) -> str:
    spec = run.specs[r.layer]
    pairs = (
        "adjacent pairs (2i, 2i+1)"
        if spec.pairing == "adjacent"
        else f"half-split pairs (i, i+{spec.rotary_width // 2})"
    )
    text = f"{wording.head_name(r.layer, r.head)} · query {r.query_position} → key {r.key_position}"
    text += f" · plane i turns by m·θᵢ · {pairs}"
    if spec.rotary_width < spec.head_width:
        text += f" · {spec.rotary_width} of {spec.head_width} features turn"
    if r.factor != 1.0:
        text += f" · stretched by {wording.number(r.factor)}"
    return text + (" · before rotation: approximate (half precision)" if r.approximate else "")


def _why_still(run: Run, layer: int) -> str:
    if run.config.position == "rotary":
        return f"Layer {layer} does not rotate: this model leaves it without RoPE, so its scores ignore distance."
    how = {"none": "gives no positions at all", "learned": "adds learned positions to the embedding"}
    kind = how.get(run.config.position, "adds sinusoidal positions to the embedding")
    return f"No layer rotates here: this model {kind}."
