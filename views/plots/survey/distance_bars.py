"""How far back a head looks: the share of its weight in ranges of distances that double."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.records import Doubles
from ropewalk.views.plots.charts.bars import LEAST, RING, WIDTH, Bars
from ropewalk.views.plots.charts.plot import Table
from ropewalk.views.plots.maps.levels import in_cell
from ropewalk.views.plots.plot_view import Painted
from ropewalk.views.plots.survey.statistic_map import with_error
from ropewalk.views.style import ink, theme

KIBI: Final = 1024


def distance_name(start: int, end: int) -> str:
    """Name the distances from ``start`` to ``end`` − 1: ``1``, ``2–3``, ``1k–2k``, in which k is 1,024."""
    if end - start <= 1:
        return short_name(start)
    if start >= KIBI:
        return f"{short_name(start)}–{short_name(end)}"
    return f"{start}–{end - 1}"


def short_name(distance: int) -> str:
    """Write a distance in few characters."""
    return f"{distance // KIBI}k" if distance >= KIBI and distance % KIBI == 0 else str(distance)


class DistanceBars(Bars):
    """A bar for every range of distances, with the error of its share; arrow keys go from one to the next.

    Signals
    -------
    picked(place), pointed(place)
        As of bars.
    """

    title = "tokens back"

    def __init__(self, parent: QWidget | None = None) -> None:
        self.ranges: tuple[tuple[int, int], ...] = ()
        self._shares: Doubles = np.zeros(0)
        self.errors: Doubles = np.zeros(0)
        self.count = 0
        self._about = ""
        self.whiskers: Whiskers | None = None
        super().__init__(parent=parent)
        self.whiskers = Whiskers(self)
        self.scene().addItem(self.whiskers)
        self.picked.connect(self.mark)
        self.setAccessibleName("share of the weight by distance; arrow keys go from bar to bar")

    def show_distances(
        self, title: str, ranges: Sequence[tuple[int, int]], shares: Doubles, errors: Doubles, count: int
    ) -> None:
        """Draw shares [D] of a query's weight at distances from … to − 1, and their errors [D], of ``count`` texts."""
        self.ranges = tuple((int(start), int(end)) for start, end in ranges)
        self.errors, self.count, self._about = errors, count, title
        if self.selected >= len(self.ranges):
            self.mark(-1)
        self._shares = shares
        self._draw()
        self._say()

    def _draw(self) -> None:
        if self.ranges:
            heights = np.nan_to_num(self._shares)
            high = float((heights + np.nan_to_num(self.errors)).max(initial=0.0)) or 1.0
            self.show_bars(heights, (ink.faded(theme.current().key, 0.7),), 0.0, high)

    def _name(self) -> None:
        """Name every range where there is room for that, else where it begins."""
        (left, right), _ = self.box.viewRange()
        pitch = max(self.width() - self.left.width() - theme.GRID, 1) / (right - left)
        names = tuple(distance_name(*one) for one in self.ranges)
        font = theme.current().font("number")
        if max((ink.text_width(font, name) for name in names), default=0) + theme.GRID > pitch:
            names = tuple(short_name(start) for start, _ in self.ranges)
        self.names = names
        super()._name()

    def _redraw(self) -> None:
        super()._redraw()
        if self.whiskers is not None:
            self.whiskers.put(self.box.geometry())
            self.whiskers.update()

    def whisker(self, place: int) -> tuple[QPointF, QPointF] | None:
        """The upper and the lower end of a bar's error, in the widget; None where there is none."""
        error, height = float(self.errors[place]), float(self.heights[place])
        if not error > 0:
            return None
        return self.at(place, height + error), self.at(place, max(height - error, 0.0))

    def number(self, place: int) -> str:
        """A share that does not read 0.00, or that of the selected bar."""
        share = float(self._shares[place])
        return in_cell(share) if share >= 0.005 or place == self.selected else ""

    def number_box(self, place: int) -> QRectF:
        """Above the error of a bar, too."""
        box, ends = super().number_box(place), self.whisker(place)
        return box if ends is None else box.translated(0, min(ends[0].y() - RING - box.bottom(), 0.0))

    def is_hidden(self, place: int) -> bool:
        """Whether no text is long enough for a range."""
        return bool(np.isnan(self._shares[place]))

    def words(self, place: int) -> str:
        """Everything about a bar; empty where there is none."""
        if not 0 <= place < len(self.ranges):
            return ""
        start, end = self.ranges[place]
        far = f"{start:,}" if end - start == 1 else f"{start:,}–{end - 1:,}"
        back = f"{far} token{'' if (start, end) == (1, 2) else 's'} back"
        share = float(self._shares[place])
        if np.isnan(share):
            return f"{back}: no text is so long"
        return f"{back}: {with_error(share, float(self.errors[place]))}{ink.PART}n = {self.count:,}"

    def mark(self, place: int) -> None:
        """Outline a bar, and say its number; −1 for none."""
        super().mark(place)
        self._say()

    def readout(self, at: QPointF) -> str:
        """What is pointed at, or else selected."""
        return self.words(round(at.x())) or self.words(self.selected)

    def point_away(self) -> None:
        """Say what is selected."""
        super().point_away()
        self._say()

    def _say(self) -> None:
        self.heading.say(self._about, self.words(self.selected))
        self.setAccessibleDescription(self.words(self.selected))

    def table(self) -> Table:
        """What is drawn, as columns."""
        starts, ends = ([one[side] for one in self.ranges] for side in (0, 1))
        shares, errors = (numbers.tolist() for numbers in (self._shares, self.errors)) if self.ranges else ([], [])
        return ("from", starts), ("to", ends), ("share", shares), ("error", errors)

    def theme_changed(self) -> None:
        """Take the colours and the type in use."""
        super().theme_changed()
        self._draw()

    def sizeHint(self) -> QSize:
        """Room for a heading, numbers, bars and names."""
        return QSize(300, 9 * theme.current().size("label"))

    def minimumSizeHint(self) -> QSize:
        """The smallest size that still shows bars."""
        return QSize(80, 7 * theme.current().size("label"))


class Whiskers(Painted):
    """A line from one end of each error to the other, with a cap at both."""

    def __init__(self, plot: DistanceBars) -> None:
        super().__init__()
        self.plot = plot
        self.setZValue(9)  # numbers are over it

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Draw those in view."""
        plot = self.plot
        if plot.pitch < 2 * LEAST:
            return
        painter.setClipRect(self.area)
        painter.setPen(QPen(theme.current().text, max(theme.current().grid(0.125), 1)))
        half = min(plot.pitch * WIDTH / 5, theme.current().grid(0.5))
        for place in plot.seen():
            if (ends := plot.whisker(place)) is None:
                continue
            painter.drawLine(*ends)
            for end in ends:
                painter.drawLine(QPointF(end.x() - half, end.y()), QPointF(end.x() + half, end.y()))
