"""Two readings of the frequencies: the score against distance, and each plane's wavelength against the context."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QIcon,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
)
from PySide6.QtWidgets import QToolButton, QToolTip, QVBoxLayout, QWidget

from ropewalk.model.readings.records import Doubles, PlaneReading, RopeRule
from ropewalk.views.plots.turning import scores_by_distance
from ropewalk.views.style import ink, theme, wording
from ropewalk.views.style.flow import FlowLayout

DASHES = (
    Qt.PenStyle.SolidLine,
    Qt.PenStyle.DashLine,
    Qt.PenStyle.DotLine,
    Qt.PenStyle.DashDotLine,
    Qt.PenStyle.DashDotDotLine,
    Qt.PenStyle.DashLine,
)
POINTS = 1024


class DistanceView(QWidget):
    """The score that the same two contents would have at every relative distance, one line for each rule."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.distances: Doubles = np.zeros(0)
        self.curves: tuple[tuple[str, QColor, Qt.PenStyle, Doubles], ...] = ()
        self.true = (0.0, 0.0)
        self.setAccessibleName("Score against relative distance")

    def show_curves(
        self,
        distances: Doubles,
        curves: tuple[tuple[str, QColor, Qt.PenStyle, Doubles], ...],
        true: tuple[float, float],
    ) -> None:
        """Draw curves over distances [M]; ``true`` is the run's own distance and score."""
        self.distances, self.curves, self.true = distances, curves, true
        self.setAccessibleDescription(f"at distance {true[0]:g} the score is {wording.number(true[1])}")
        self.update()

    def sizeHint(self) -> QSize:
        """A strip in which waves can be seen."""
        return QSize(240, 160)

    def plot(self) -> QRectF:
        """Where the curves are."""
        line = ink.line_height(theme.current().font("label"))
        left = ink.text_width(theme.current().font("number"), "−00.00") + 4
        return QRectF(left, 4, self.width() - left - 4, self.height() - line - 8)

    def levels(self) -> tuple[float, float]:
        """The lowest and highest score drawn."""
        if not self.curves:
            return 0.0, 1.0
        low, high = (float(f([f(values) for *_, values in self.curves])) for f in (np.min, np.max))
        return (low, high) if high > low else (low - 1, high + 1)

    def point(self, distance: float, score: float) -> QPointF:
        """Where a distance and a score are drawn."""
        return self.points(np.array([distance]), np.array([score])).at(0)

    def points(self, distances: Doubles, scores: Doubles) -> QPolygonF:
        """Where distances and their scores [M] are drawn."""
        box, (low, high) = self.plot(), self.levels()
        span = max(float(self.distances[-1] - self.distances[0]), 1.0)
        x = box.left() + box.width() * (distances - float(self.distances[0])) / span
        return ink.polyline(x, box.bottom() - box.height() * (scores - low) / (high - low))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint axes, curves and the true distance."""
        if not len(self.distances):
            return
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box, (low, high) = self.plot(), self.levels()
        font, line = look.font("number"), ink.line_height(look.font("label"))
        painter.setPen(QPen(look.line, 1))
        painter.drawRect(box)
        for value in (low, high):
            y = min(max(self.point(0, value).y() - line / 2, 0), self.height() - line)
            text = wording.number(value, 2)
            ink.draw_text(painter, QRectF(0, y, box.left() - 4, line), text, font, look.faint, ink.RIGHT)
        below = QRectF(box.left(), box.bottom() + 2, box.width(), line)
        first, last = f"{self.distances[0]:g}".replace("-", wording.MINUS), f"{self.distances[-1]:g}"
        ink.draw_text(painter, below, first, font, look.faint)
        ink.draw_text(painter, below, last, font, look.faint, ink.RIGHT)
        ink.draw_text(painter, below, "distance m − n", look.font("label"), look.faint, ink.CENTRE)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for _, colour, dash, values in reversed(self.curves):
            painter.setPen(QPen(colour, 1.5, dash))
            painter.drawPolyline(self.points(self.distances, values))
        self._paint_names(painter)
        at = self.point(*self.true)
        painter.setPen(QPen(look.query, 1, Qt.PenStyle.DotLine))
        painter.drawLine(QPointF(at.x(), box.top()), QPointF(at.x(), box.bottom()))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(look.query)
        painter.drawEllipse(at, look.grid(0.5), look.grid(0.5))
        painter.end()

    def _paint_names(self, painter: QPainter) -> None:
        """Name each curve at its end, none upon another."""
        look, box = theme.current(), self.plot()
        font, line = look.font("label"), ink.line_height(look.font("label"))
        ends = [(self.point(0, float(values[-1])).y(), name, colour) for name, colour, _, values in self.curves]
        ends.sort(key=lambda end: end[0])
        if len(ends) * line > box.height():
            return  # the buttons show whose colour it is
        top = box.top()
        for i, (y, name, colour) in enumerate(ends):
            top = min(max(y - line, top), box.bottom() - (len(ends) - i) * line)
            width = ink.text_width(font, name)
            place = QRectF(box.right() - width - 4, top, width, line)
            painter.fillRect(place, ink.faded(look.panel, 0.85))
            ink.draw_text(painter, place, name, font, colour, ink.RIGHT)
            top += line


class CurvesPage(QWidget):
    """The distance curve with a button for every rule, and one for the whole context.

    Signals
    -------
    chosen()
        Other curves, or another length, are wanted: call :meth:`draw`.
    """

    chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.reading: PlaneReading | None = None
        self.rules: tuple[RopeRule, ...] = ()
        self.distance = 1
        self.limit = 1
        self.view = DistanceView()
        self.buttons: list[QToolButton] = []
        self.wide = _toggle("whole context")
        self.wide.toggled.connect(self.chosen)
        self.row = QWidget()
        self._flow = FlowLayout(self.row)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.view, 1)
        layout.addWidget(self.row)
        self._flow.addWidget(self.wide)

    def show_reading(self, reading: PlaneReading, rules: tuple[RopeRule, ...], distance: int, limit: int) -> None:
        """Take another cell; ``rules`` has the model's own first, ``distance`` and ``limit`` are the two ends."""
        self.reading, self.distance, self.limit = reading, max(distance, 1), max(limit - 1, 1)
        if [rule.name for rule in rules] != [rule.name for rule in self.rules]:
            self._offer(rules)
        self.rules = rules
        self.draw()

    def draw(self) -> None:
        """Draw the curves that are switched on."""
        r, look = self.reading, theme.current()
        if r is None:
            return
        true = r.query_position - r.key_position
        end = self.limit if self.wide.isChecked() else self.distance
        start = min(true, 0)
        step = max(math.ceil((end - start + 1) / POINTS), 1)
        distances = np.arange(start, end + 1, step, dtype=np.float64)
        curves = [("the run", look.text, DASHES[0], scores_by_distance(r, distances))]
        for i, (rule, button) in enumerate(zip(self.rules[1:], self.buttons, strict=True), start=1):
            if button.isChecked():
                curves.append((rule.name, self.colour(i), DASHES[i], scores_by_distance(r, distances, rule)))
        self.view.show_curves(distances, tuple(curves), (float(true), r.scaled))

    def theme_changed(self) -> None:
        """Draw in the colours of the theme in use."""
        self._mark()
        self.draw()

    def _mark(self) -> None:
        """Give each button the line that its curve is drawn with."""
        for i, button in enumerate(self.buttons, start=1):
            button.setIcon(_swatch(self.colour(i), DASHES[i]))
            button.setIconSize(_swatch_size())

    def colour(self, rule: int) -> QColor:
        """The colour of a rule's curve, from the part of the sequential map that stands out from the ground."""
        look = theme.current()
        first, last = (70, 250) if look.name == "dark" else (0, 165)
        place = first + (last - first) * ((rule - 1) % len(DASHES)) // (len(DASHES) - 1)
        red, green, blue = (int(c) for c in look.sequential[place][:3])
        return QColor(red, green, blue)

    def sentence(self) -> str:
        """Say what is marked."""
        r = self.reading
        if r is None:
            return ""
        true = f"{r.query_position - r.key_position}".replace("-", wording.MINUS)
        return f"In the run m − n = {true} and the scaled score is {wording.number(r.scaled)}."

    def _offer(self, rules: tuple[RopeRule, ...]) -> None:
        for button in self.buttons:
            self._flow.removeWidget(button)
            button.deleteLater()
        self.buttons = []
        for rule in rules[1:]:
            button = _toggle(rule.name)
            button.toggled.connect(self.chosen)
            self._flow.addWidget(button)
            self.buttons.append(button)
        self._mark()


def _swatch_size() -> QSize:
    look = theme.current()
    return QSize(look.grid(2), look.size("body"))


def _swatch(colour: QColor, dash: Qt.PenStyle) -> QIcon:
    """A piece of a line."""
    size = _swatch_size()
    picture = QPixmap(size)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setPen(QPen(colour, 2, dash))
    painter.drawLine(0, size.height() // 2, size.width(), size.height() // 2)
    painter.end()
    return QIcon(picture)


def _toggle(text: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    button.setCheckable(True)
    button.setProperty("toggle", "yes")
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.setAccessibleName(f"Show: {text}")
    return button


class SpectrumView(QWidget):
    """Wavelength 2π/θ of every plane on a log axis, with the context length across it."""

    plane_clicked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.wavelengths: Doubles = np.zeros(0)
        self.limit = 1
        self.whose = "the model's"
        self.length = 1
        self.selected = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Wavelength of each plane; left and right select one")

    def show_planes(self, reading: PlaneReading, limit: int, length: int, whose: str = "the model's") -> None:
        """Take the frequencies of a head; ``limit`` is the context length and ``whose`` it is, ``length`` the run's."""
        self.whose = whose
        with np.errstate(divide="ignore"):
            self.wavelengths = 2 * np.pi / np.abs(reading.query_frequencies)
        self.limit, self.length = limit, length
        self.setAccessibleDescription(self.sentence())
        self.update()

    def mark(self, plane: int) -> None:
        """Mark the selected plane."""
        if plane != self.selected:
            self.selected = plane
            self.update()

    @property
    def unfinished(self) -> int:
        """How many planes never finish a turn within the context."""
        return int((self.wavelengths > self.limit).sum())

    def sentence(self) -> str:
        """Say how many planes never finish a turn."""
        return (
            f"{self.unfinished} of {len(self.wavelengths)} planes never finish a turn in {self.whose} {self.limit:,} "
            f"positions; {int((self.wavelengths > self.length).sum())} do not in this run's {self.length:,}."
        )

    def plot(self) -> QRectF:
        """Where the bars are."""
        line = ink.line_height(theme.current().font("label"))
        left = ink.text_width(theme.current().font("number"), f"{10 ** self._decades()[1]:,}") + 8
        return QRectF(left, line / 2, self.width() - left - 4, self.height() - line * 1.5 - 6)

    def height_of(self, wavelength: float) -> float:
        """The y of a wavelength."""
        box, (low, high) = self.plot(), self._decades()
        share = (math.log10(wavelength) - low) / (high - low) if math.isfinite(wavelength) else 1.0
        return box.bottom() - box.height() * min(max(share, 0.0), 1.0)

    def bar_of(self, plane: int) -> QRectF:
        """The bar of a plane."""
        box = self.plot()
        slot = box.width() / max(len(self.wavelengths), 1)
        top = self.height_of(float(self.wavelengths[plane]))
        gap = min(slot * 0.25, 6)
        return QRectF(box.left() + plane * slot + gap / 2, top, slot - gap, max(box.bottom() - top, 1))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the axis, the bars and the two lengths."""
        if not len(self.wavelengths):
            return
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box, line = self.plot(), ink.line_height(look.font("label"))
        low, high = self._decades()
        for decade in range(low, high + 1):
            y = self.height_of(10.0**decade)
            painter.setPen(QPen(look.line, 1))
            painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
            place = QRectF(0, y - line / 2, box.left() - 6, line)
            ink.draw_text(painter, place, f"{10**decade:,}", look.font("number"), look.faint, ink.RIGHT)
        for plane, wavelength in enumerate(self.wavelengths):
            bar = self.bar_of(plane)
            never = wavelength > self.limit
            colour = look.bad if never else look.accent
            ink.draw_bar(painter, bar, colour if plane == self.selected else ink.faded(colour, 0.6))
            if never:
                painter.setBrush(Qt.BrushStyle.BDiagPattern)
                painter.setPen(QPen(look.panel, 1))
                painter.drawRect(bar)
        self._line(painter, self.limit, f"context {self.limit:,}")
        self._line(painter, self.length, f"this run {self.length:,}")
        under = QRectF(box.left(), box.bottom() + 4, box.width(), line)
        text = "plane, fast to slow · wavelength in positions"
        ink.draw_text(painter, under, text, look.font("label"), look.faint, ink.CENTRE)
        painter.end()

    def _line(self, painter: QPainter, length: int, text: str) -> None:
        look, box = theme.current(), self.plot()
        y, line = self.height_of(length), ink.line_height(theme.current().font("label"))
        painter.setPen(QPen(look.text, 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
        place = QRectF(box.left() + 4, y - line, box.width() - 8, line)
        ink.draw_text(painter, place, text, look.font("label"), look.text)

    def _decades(self) -> tuple[int, int]:
        finite = self.wavelengths[np.isfinite(self.wavelengths)]
        largest = max(float(finite.max(initial=1.0)), self.limit)
        return 0, max(math.ceil(math.log10(largest)), 1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select the plane of a bar."""
        plane = self._plane_at(event.position())
        if plane >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.plane_clicked.emit(plane)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Select the next plane."""
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
        elif 0 <= self.selected + step < len(self.wavelengths):
            self.plane_clicked.emit(self.selected + step)

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused, and answer for tooltips."""
        arrows = (Qt.Key.Key_Left, Qt.Key.Key_Right)
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and event.key() in arrows:
            event.accept()
            return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            plane = self._plane_at(QPointF(event.pos()))
            text = "" if plane < 0 else f"plane {plane}: {self.wavelengths[plane]:,.1f} positions a turn"
            QToolTip.showText(event.globalPos(), text, self)
            return True
        return super().event(event)

    def _plane_at(self, point: QPointF) -> int:
        box = self.plot()
        if not box.left() <= point.x() < box.right() or not len(self.wavelengths):
            return -1
        return int((point.x() - box.left()) / box.width() * len(self.wavelengths))
