"""Two readings of the frequencies: the score against distance, and each plane's wavelength against the context."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pyqtgraph import mkPen
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QToolButton, QVBoxLayout, QWidget

from ropewalk.model.readings.records import Doubles, PlaneReading, RopeRule
from ropewalk.views.plots.charts.bars import Bars
from ropewalk.views.plots.charts.plot import Curve, Line, NumberAxis, Plot, Table
from ropewalk.views.plots.rotation.turning import scores_by_distance
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

Named = tuple[str, QColor, Qt.PenStyle, Doubles]
"""A curve: its name, its colour, how it is dashed, and its values."""


class DistanceView(Plot):
    """The score that the same two contents would have at every relative distance, one line for each rule."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.distances: Doubles = np.zeros(0)
        self.curves: tuple[Named, ...] = ()
        self.true = (0.0, 0.0)
        self._lines: list[Any] = []
        self.own = Line(movable=False)
        super().__init__(bottom=NumberAxis("bottom", "whole"), parent=parent)
        self.add(self.own)
        self.heading.say("score of the same two contents by distance")
        self.left.name("scaled score")
        self.bottom.name("distance m − n, in positions")
        self.setAccessibleName("Score against relative distance")

    def show_curves(self, distances: Doubles, curves: tuple[Named, ...], true: tuple[float, float]) -> None:
        """Draw curves over distances [M]; ``true`` is the run's own distance and score."""
        self.distances, self.curves, self.true = distances, curves, true
        self.setAccessibleDescription(f"at distance {true[0]:g} the score is {wording.number(true[1])}")
        self.point_away()
        for line in self._lines:
            self.box.removeItem(line)
        self._lines = []
        for _, colour, dash, values in reversed(curves):
            line = Curve()
            line.setData(distances, values, pen=mkPen(colour, width=1.5, style=dash))
            self.add(line)
            self._lines.append(line)
        self.own.setValue(true[0])
        self.dots.show_dots([(*true, theme.current().query)])
        low, high = (float(f([f(values) for *_, values in curves])) for f in (np.min, np.max))
        margin = 0.05 * (high - low) or 1.0
        self.show_range(float(distances[0]), max(float(distances[-1]), 1.0), low - margin, high + margin)
        self.name_ends([(float(values[-1]), name, colour) for name, colour, _, values in curves])

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        super().theme_changed()
        now = theme.current()
        self.own.setPen(mkPen(now.query, style=Qt.PenStyle.DotLine))

    def table(self) -> Table:
        """What is drawn, as columns."""
        return ("m − n", self.distances.tolist()), *((name, values.tolist()) for name, *_, values in self.curves)

    def readout(self, at: QPointF) -> str:
        """What every curve says at a distance."""
        distance = round(at.x())
        said = (
            f"{name} {wording.number(float(np.interp(distance, self.distances, values)))}"
            for name, *_, values in self.curves
        )
        return f"m − n = {distance}: {' · '.join(said)}".replace("-", wording.MINUS) if self.curves else ""

    def sizeHint(self) -> QSize:
        """A strip in which waves can be seen."""
        return QSize(240, 160)


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
        self.wide = _toggle("whole context", "Show every distance in the model's context, not just those in this run")
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
        self.view.theme_changed()
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
            button = _toggle(
                rule.name, f"Lay the curve over it that the rule “{rule.name}” would give with the same contents"
            )
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


def _toggle(text: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setToolTip(tip)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    button.setCheckable(True)
    button.setProperty("toggle", "yes")
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.setAccessibleName(f"Show: {text}")
    return button


class SpectrumView(Bars):
    """Wavelength 2π/θ of every plane on a log axis, with the context length and the run's across it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.wavelengths: Doubles = np.zeros(0)
        self.limit = self.length = 1
        self.whose = "the model's"
        self.lengths = (Line(angle=0), Line(angle=0))
        super().__init__(NumberAxis("left", "decades"), parent)
        for line in self.lengths:
            self.add(line)
        self.heading.say("how slowly each plane turns, fast to slow")
        self.left.name("positions a turn")
        self.setAccessibleName("Wavelength of each plane; left and right select one")

    def show_planes(self, reading: PlaneReading, limit: int, length: int, whose: str = "the model's") -> None:
        """Take the frequencies of a head; ``limit`` is the context length and ``whose`` it is, ``length`` the run's."""
        self.whose, self.limit, self.length = whose, limit, length
        with np.errstate(divide="ignore"):
            self.wavelengths = 2 * np.pi / np.abs(reading.query_frequencies)
        self.setAccessibleDescription(self.sentence())
        self.point_away()
        self._draw()

    def _draw(self) -> None:
        if not len(self.wavelengths):
            return
        look, finite = theme.current(), self.wavelengths[np.isfinite(self.wavelengths)]
        top = math.ceil(math.log10(max(float(finite.max(initial=10.0)), self.limit)))
        heights = np.log10(np.clip(self.wavelengths, 1.0, 10.0**top))
        colours = [ink.faded(look.bad if w > self.limit else look.accent, 0.7) for w in self.wavelengths]
        named = ((self.limit, f"context {self.limit:,}"), (self.length, f"this run {self.length:,}"))
        for line, (value, _) in zip(self.lengths, named, strict=True):
            line.setPen(mkPen(look.text, style=Qt.PenStyle.DashLine))
            line.setValue(math.log10(max(value, 1)))
        self.name_ends([(math.log10(max(value, 1)), name, look.text) for value, name in named])
        self.show_bars(heights, colours, 0.0, float(top))

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

    def number(self, place: int) -> str:
        """A wavelength, in whole positions from ten on."""
        value = float(self.wavelengths[place])
        return "∞" if math.isinf(value) else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"

    def is_hatched(self, place: int) -> bool:
        """Whether a plane never finishes a turn."""
        return bool(self.wavelengths[place] > self.limit)

    def table(self) -> Table:
        """What is drawn, as columns."""
        return ("plane", range(len(self.wavelengths))), ("wavelength", self.wavelengths.tolist())

    def readout(self, at: QPointF) -> str:
        """A plane and its wavelength."""
        place = round(at.x())
        if not 0 <= place < len(self.wavelengths):
            return ""
        return f"plane {place}: {self.wavelengths[place]:,.1f} positions a turn"

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        super().theme_changed()
        self._draw()
