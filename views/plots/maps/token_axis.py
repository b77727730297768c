"""An axis whose places are tokens: it names them as long as they can be read, and counts them otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from pyqtgraph import AxisItem
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter

from ropewalk.views.style import ink, theme
from ropewalk.views.style.lettering import face

LEAST_NAMED = 9
"""Pixels that a place must have for some of them to be named by their tokens; else they are numbered."""
MOST_LETTERS = 9
"""Digits' widths that a name may have; a longer one is cut."""
GAP = 6
"""Pixels between a name and the plot."""
SLOPING = 1.5
"""Heights of a line that a place must have for its name to slope."""
SHORT = 2
"""Digits' widths up to which names are not turned: fewer are written instead, or they stay level among turned ones."""
LEAST_CUT = "000…"
"""What must be left of a turned name that is cut; where less would be, there are positions."""
STRIDES = (1, 2, 5)
"""Of how many places one is named, and ten times, a hundred times as many."""

Turned = Literal["level", "sloping", "upright"]


def even(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50 … that is not under ``least``."""
    power: int = 10 ** math.floor(math.log10(max(least, 1)))
    return next(step * power for step in (*STRIDES, 10) if step * power >= least - 1e-9)


def widest_name(names: tuple[str, ...]) -> int:
    """The width that the widest of some names wants, of nine digits at most."""
    metrics = theme.current().face("number").metrics
    most, widest = metrics.horizontalAdvance("0" * MOST_LETTERS), 0.0
    for text in sorted(set(names), key=len, reverse=True):
        widest = max(widest, metrics.horizontalAdvance(text))
        if widest >= most:
            break
    return math.ceil(min(widest, most))


class TokenAxis(AxisItem):
    """The rows or the columns of a map; place i is centred on i.

    Below a plot names are level where the widest of them fits its place. Where it does not, they slope if there is room
    for that, else they are upright; a name of one or two letters stays level if it fits so. Where there is not room for
    every name, one of 2, 5, 10, 20 … is written.

    Parameters
    ----------
    side
        ``left`` for rows, ``bottom`` for columns.
    letter
        What the places are called where they are no tokens, such as ``L`` for layers; may be changed.
    """

    def __init__(self, side: Literal["left", "bottom"], letter: str = "") -> None:
        super().__init__(side, showValues=False)
        self.letter = letter
        self.title = ""
        """Word at the far side of the names, such as ``query``; empty for none."""
        self.title_colour = QColor()
        self.names: tuple[str, ...] = ()
        self.chosen = -1
        """The place whose name has a colour and is never left out."""
        self.chosen_colour = QColor()
        self.limit = math.inf
        """Pixels that it may be high: longer names are cut."""
        self.spare = (0.0, 0.0)
        """Pixels before and after the axis that its first and last name may stand out into."""
        self._extent = 0.0
        """Widest of the names, 0 before anybody looked: there may be thousands."""

    # What is said -------------------------------------------------------------------------------------------------

    def set_names(self, names: tuple[str, ...]) -> None:
        """Set the text of every token."""
        if names == self.names:
            return
        before, self.names = self.names, names
        shared = min(len(before), len(names))
        if before[:shared] != names[:shared]:
            self._extent = 0.0
        elif self._extent:  # a run that goes on: only what is new is measured
            self._extent = max(self._extent, self._widest(names[shared:]))
        self.update()

    def choose(self, place: int, colour: QColor) -> None:
        """Give the name of a place a colour; −1 for none."""
        if (place, colour) != (self.chosen, self.chosen_colour):
            self.chosen, self.chosen_colour = place, QColor(colour)
            self.update()

    def theme_changed(self) -> None:
        """Measure and draw in the type in use."""
        self._extent = 0.0
        self.update()

    def name(self, place: int) -> str:
        """What a place is called."""
        if self.letter:
            return f"{self.letter}{place}"
        return self.names[place] if 0 <= place < len(self.names) else str(place)

    # Room ---------------------------------------------------------------------------------------------------------

    def extent(self) -> float:
        """The width that names want, of nine digits at most."""
        if not self._extent:
            self._extent = self._widest(self.names)
        return self._extent

    def _widest(self, names: tuple[str, ...]) -> float:
        if self.letter:
            return math.ceil(theme.current().face("number").metrics.horizontalAdvance(f"{self.letter}00"))
        return widest_name(names)

    def _positions(self) -> float:
        """The width of the longest position, of three digits at least."""
        return theme.current().face("number").width("0" * max(len(str(len(self.names))), 3))

    def is_named(self, pitch: float) -> bool:
        """Whether places of so many pixels are named, and not numbered."""
        return bool(self.letter) or (pitch >= LEAST_NAMED and bool(self.names))

    def turned(self, pitch: float) -> Turned:
        """How the names below the plot, but for short ones, are written where places have so many pixels."""
        widest = self.extent()
        if self.letter or not self.is_named(pitch) or self._is_short(widest) or widest + GAP <= pitch:
            return "level"
        line = theme.current().face("number").height
        sloping = pitch >= SLOPING * line and (widest + line) * math.sqrt(0.5) + GAP <= self.limit
        return "sloping" if sloping else "upright"

    def stays_level(self, text: str, pitch: float, apart: float) -> bool:
        """Whether a name is level among turned ones, where the next name is so many pixels apart."""
        letters = theme.current().face("number")
        width, line = letters.width(text), letters.height
        beside = line if self.turned(pitch) == "sloping" else line / 2
        return self._is_short(width) and max(width, width / 2 + beside) + 1 <= apart

    def _is_short(self, width: float) -> bool:
        return width <= theme.current().face("number").width("0" * SHORT)

    def _length(self, height: float, pitch: float) -> float:
        """Pixels along a turned name in so many below the plot."""
        if self.turned(pitch) == "upright":
            return height - GAP
        return (height - GAP) / math.sqrt(0.5) - theme.current().face("number").height

    def _is_enough(self, length: float) -> bool:
        """Whether so many pixels leave enough of a name."""
        return length >= min(self.extent(), theme.current().face("number").width(LEAST_CUT))

    def names_fit(self, pitch: float) -> bool:
        """Whether there is room for names: a map that is seen closer has no more below it than before."""
        if self.orientation == "left" or self.turned(pitch) == "level":
            return self.is_named(pitch)
        return self._is_enough(self._length(self.size().height() - self._title_height(), pitch))

    def room(self, pitch: float) -> int:
        """How high (or wide, beside the rows) the axis wants to be where places have so many pixels."""
        now = theme.current()
        line = now.face("number").height
        title = self._title_height()
        if self.orientation == "left":
            return math.ceil(self.extent() if self.is_named(pitch) else self._positions()) + GAP + title
        turned = self.turned(pitch)
        if turned == "level" or not self._is_enough(self._length(self.limit, pitch)):
            return math.ceil(line) + 2 + title
        wanted = (self.extent() + line) * math.sqrt(0.5) if turned == "sloping" else self.extent()
        return math.ceil(min(wanted + GAP, self.limit)) + title

    # pyqtgraph's axis ---------------------------------------------------------------------------------------------

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[int]]]:
        """The places that are named, and how many of them a name is for: no two names touch."""
        low, high = sorted((minVal, maxVal))
        if high <= low or size <= 0:
            return [(1, [])]
        pitch = size / (high - low)
        apart = self._apart(pitch, high)
        stride = even(apart / pitch)
        first, last = max(math.ceil(low), 0), math.ceil(high)
        places = list(range(-(-first // stride) * stride, last, stride))
        if first <= self.chosen < last and self.chosen not in places:
            places = [one for one in places if abs(one - self.chosen) * pitch >= apart] + [self.chosen]
        return [(stride, places)]

    def _apart(self, pitch: float, high: float) -> float:
        """Least pixels from one name to the next."""
        now = theme.current()
        line = now.face("number").height
        if self.orientation == "left":
            return now.size("number") + 1
        if self.names_fit(pitch) and not self.letter:
            turned = self.turned(pitch)
            return {"level": self.extent() + 2, "sloping": SLOPING * line, "upright": now.size("number") + 1}[turned]
        widest = f"{self.letter}{'0' * len(str(max(math.floor(high), 0)))}"
        return math.ceil(now.face("number").width(widest) + now.grid(0.75))

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        """What is written at places that have ``scale`` pixels each."""
        named = self.names_fit(scale)
        return [self.name(int(value)) if named else str(int(value)) for value in values]

    def boundingRect(self) -> QRectF:
        """The axis, and what of its first and last names stands out."""
        line = theme.current().face("number").height
        box: QRectF = self.mapRectFromParent(self.geometry())
        if self.orientation == "bottom":
            return box.adjusted(-self.extent() - 4, 0, line, 0)
        return box.adjusted(0, -line, 0, line)

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Write the names."""
        box, view = self.mapRectFromParent(self.geometry()), self.linkedView()
        if view is None or box.isEmpty():
            return
        across = self.orientation == "bottom"
        low, high = view.viewRange()[0 if across else 1]
        length = box.width() if across else box.height()
        pitch = length / (high - low)
        places = self.tickValues(low, high, length)[0][1]
        apart = min((after - before for before, after in pairwise(sorted(places))), default=1) * pitch
        painter.save()
        for place, text in zip(places, self.tickStrings(places, pitch, 1), strict=True):
            colour = self.chosen_colour if place == self.chosen else theme.current().faint
            middle = (place - low) * pitch
            if across:
                self._write_below(painter, QPointF(box.left() + middle, box.top()), text, colour, pitch, place, apart)
            else:
                self._write_beside(painter, box, box.top() + middle, text, colour)
        self._write_title(painter, box)
        painter.restore()

    def _write_beside(self, painter: QPainter, box: QRectF, middle: float, text: str, colour: QColor) -> None:
        font = theme.current().font("number")
        height = face(font).height
        room = min(max(self.extent(), self._positions()) + 1, box.width() - GAP)
        place = QRectF(box.right() - GAP - room, middle - height / 2, room, height)
        ink.draw_text(painter, place, text, font, colour, ink.RIGHT)

    def _write_below(
        self, painter: QPainter, at: QPointF, text: str, colour: QColor, pitch: float, place: int, apart: float
    ) -> None:
        """Write at a point of the lower edge of the plot."""
        font, line = theme.current().font("number"), theme.current().face("number").height
        named = self.names_fit(pitch)
        if self.turned(pitch) == "level" or not named:
            width = ink.text_width(font, text) + 1
            width = min(width, self.extent() + 1) if named else width
            middle = at.x() - width / 2
            left = min(max(middle, -self.spare[0]), self.size().width() + self.spare[1] - width)
            if abs(left - middle) <= theme.current().grid(0.375) or place == self.chosen:  # else it would touch another
                ink.draw_text(painter, QRectF(left, at.y() + 2, width, line), text, font, colour)
            return
        if self.stays_level(text, pitch, apart):
            width = ink.text_width(font, text) + 1
            ink.draw_text(painter, QRectF(at.x() - width / 2, at.y() + 2, width, line), text, font, colour)
            return
        sloping = self.turned(pitch) == "sloping"
        length = min(self._length(self.size().height() - self._title_height(), pitch), self.extent()) + 1
        painter.save()
        painter.translate(at.x(), at.y() + (2 if sloping else GAP))
        painter.rotate(-45 if sloping else -90)
        ink.draw_text(
            painter, QRectF(-length, 0 if sloping else -line / 2, length, line), text, font, colour, ink.RIGHT
        )
        painter.restore()

    def _title_height(self) -> int:
        return math.ceil(theme.current().face("label").height) if self.title else 0

    def _write_title(self, painter: QPainter, box: QRectF) -> None:
        if not self.title:
            return
        font = theme.current().font("label")
        height = face(font).height
        if self.orientation == "bottom":
            place = QRectF(box.left(), box.bottom() - height, box.width(), height)
            ink.draw_text(painter, place, self.title, font, self.title_colour, ink.CENTRE)
            return
        painter.translate(box.left(), box.center().y())
        painter.rotate(-90)
        place = QRectF(-box.height() / 2, 0, box.height(), height)
        ink.draw_text(painter, place, self.title, font, self.title_colour, ink.CENTRE)

    # It is not dragged or turned by itself --------------------------------------------------------------------------

    def wheelEvent(self, event: Any) -> None:
        """Leave the wheel to what is around the plot."""
        event.ignore()

    def mouseDragEvent(self, event: Any) -> None:
        """Leave drags alone: a cell is as wide as it is high."""
        event.ignore()

    def mouseClickEvent(self, event: Any) -> None:
        """Leave clicks alone."""
        event.ignore()
