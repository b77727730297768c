"""Tokens left and right with a line for each weight: the queries in sight, and the keys that they read.

All lines are one item. On a screen they are painted once into pixels, the strongest first and each weaker one below
those that are there, in turns that are short enough for a wheel to be followed; what is pointed at has pixels of its
own. In a vector file they are curves.
"""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFocusEvent, QImage, QKeyEvent, QMouseEvent, QPainter, QPainterPath, QPen, QWheelEvent
from PySide6.QtWidgets import QWidget

from ropewalk.model.readings.bidi import isolated
from ropewalk.model.readings.records import Bools, Doubles, StrongWeights
from ropewalk.views.plots import arrow_keys
from ropewalk.views.plots.charts.plot import Table
from ropewalk.views.plots.maps.token_axis import even, widest_name
from ropewalk.views.plots.plot_view import Painted, PlotView
from ropewalk.views.style import ink, theme, wording

LEVELS: Final = 16
"""How many opacities there are; that of a weight is its root, so that small ones can be seen."""
THICKEST: Final = 4
"""Pixels of the line of the weight 1 where there is room for it."""
THIN: Final = 1.5
"""Pixels below which a line is drawn one pixel of the screen wide, which takes a tenth of the time."""
ROOMY: Final = 6
"""Pixels that a token must have for each pixel of the thickest line."""
MOST_IN_SIGHT: Final = 512
LEAST_IN_SIGHT: Final = 4
"""Tokens that may be in sight at most, and of a longer run at least."""
BESIDE: Final = 0.18
"""The part of the width that weights may take beside the names on either side."""
GAP: Final = 6
"""Pixels between a name and what is beside it."""
TURN: Final = 0.008
"""Seconds that lines are painted for in one turn of the event loop."""
ALIKE: Final = 8
"""Lines of one colour and width that are painted in one go at most."""
NOTCH: Final = 0.1
"""The part of what is in sight that a notch of the wheel scrolls."""
CLOSER: Final = 1.25
"""How many times as many tokens are in sight after a notch with Ctrl."""

SIDES: Final = ("query", "key")
"""What is on the left and on the right, as signals and the selection call it."""


@dataclass(frozen=True)
class Sight:
    """The tokens in sight: the first query, the first key, and how many of each."""

    query: int = 0
    key: int = 0
    count: int = 1

    @property
    def rows(self) -> tuple[int, int]:
        """The queries, a half-open range."""
        return self.query, self.query + self.count

    @property
    def columns(self) -> tuple[int, int]:
        """The keys, a half-open range."""
        return self.key, self.key + self.count

    def of(self, count: int, length: int) -> Sight:
        """So many tokens of a run around the same middle."""
        count = max(min(count, length), 1)

        def first(before: int) -> int:
            return min(max(before + (self.count - count) // 2, 0), max(length - count, 0))

        return Sight(first(self.query), first(self.key), count)

    def moved(self, queries: int, keys: int, length: int) -> Sight:
        """So many tokens further down, as far as there are any."""
        last = max(length - self.count, 0)
        return replace(self, query=min(max(self.query + queries, 0), last), key=min(max(self.key + keys, 0), last))

    def with_token(self, side: str, place: int, length: int) -> Sight:
        """The nearest in which a token is on a side; what is far away comes into the middle."""
        first: int = getattr(self, side)
        if first <= place < first + self.count:
            return self
        near = place if place < first else place - self.count + 1
        if abs(near - first) > self.count // 2:
            near = place - self.count // 2
        return replace(self, **{side: min(max(near, 0), max(length - self.count, 0))})


class Stroke(NamedTuple):
    """Lines that look alike: their colour, their width, and how high each begins and ends, [n, 2]."""

    colour: QColor
    width: float
    ends: Doubles


def opacity(weight: float) -> float:
    """How opaque the line of a weight is."""
    return min(max(round(math.sqrt(max(weight, 0.0)) * LEVELS), 1), LEVELS) / LEVELS


class LinesView(PlotView):
    """The tokens in sight, and lines between them.

    Signals
    -------
    picked(query, key)
        A token was clicked, or reached with the arrow keys: a query or a key, the other is −1.
    pointed(query, key)
        The pointer is over another token; (−1, −1) when it left.
    looked()
        Other tokens are in sight.
    painted()
        All lines that there are have been painted.
    """

    picked = Signal(int, int)
    pointed = Signal(int, int)
    looked = Signal()
    painted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.names: tuple[str, ...] = ()
        """The text of every token of the run."""
        self.sight = Sight()
        self.wanted = 0
        """How many tokens somebody wants in sight; 0 for as many as can be named."""
        self.weights: StrongWeights | None = None
        self.colours: Sequence[QColor] = ()
        """Of every head of the layer."""
        self.selected = {"query": -1, "key": -1}
        self.hovered = {"query": -1, "key": -1}
        self.plot = QRectF()
        """Where the lines are, in the widget."""
        self.side = "query"
        """The side on which up and down move the selection."""
        self._closer: StrongWeights | None = None
        """Weights of what is pointed at that are too small to be drawn among all the others."""
        self._widest = 0.0
        self._turned = 0.0
        """What of a notch of the wheel was not enough for a token."""
        self._all: Pixels | None = None
        self._pointed: Pixels | None = None
        """All lines, and those of what is pointed at."""
        self._before: Pixels | None = None
        """All lines as they were before somebody scrolled, to be seen until the new ones are painted."""
        self._next = QTimer(self)
        self._next.setSingleShot(True)
        self._next.setInterval(0)
        self._next.timeout.connect(self._paint_some)
        self.lines, self.tokens = Lines(self), Tokens(self)
        for item in (self.lines, self.tokens):
            self.scene().addItem(item)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(
            "Lines from queries, left, to the keys that they read, right; up and down select, left and right change "
            "the side"
        )

    # What is shown ------------------------------------------------------------------------------------------------

    def set_names(self, names: tuple[str, ...]) -> None:
        """Set the text of every token of a run."""
        if names is not self.names and names != self.names:
            before, self.names = self.names, names
            goes_on = bool(self._widest) and names[: len(before)] == before  # only what is new is measured
            self._widest = max(self._widest, widest_name(names[len(before) :])) if goes_on else 0.0
            self.arrange()

    def show_weights(self, weights: StrongWeights | None, colours: Sequence[QColor], *, keep: bool = False) -> None:
        """Draw lines, each in the colour of its head; None for no head.

        With ``keep`` they are those of the same heads of the same run as before, and these are seen until then.
        """
        if not keep:
            self._all = self._before = None
        self.weights, self.colours, self._closer = weights, colours, None
        self.arrange()

    def look(self, sight: Sight) -> None:
        """Bring other tokens in sight, and say so."""
        if sight != self.sight:
            self.sight = sight
            self._begin()
            self.looked.emit()

    def want(self, count: int) -> None:
        """Have so many tokens in sight; 0 for as many as can be named."""
        self.wanted = count
        self.look(self.sight.of(self.count, len(self.names)))

    def mark(self, query: int, key: int) -> None:
        """Outline the selected query and the selected key."""
        self.selected = {"query": query, "key": key}
        self.setAccessibleDescription(f"query {query}, key {key}")
        self.tokens.update()

    def point(self, query: int, key: int) -> None:
        """Show the lines of one token alone: those of a query, else those into a key; −1 for none."""
        hovered = {"query": query, "key": key}
        if hovered != self.hovered:
            self.hovered = hovered
            self._begin_pointed()

    def show_closer(self, weights: StrongWeights) -> None:
        """Draw more lines of the token that is pointed at than there are of it among all."""
        self._closer = weights
        self._begin_pointed()

    def theme_changed(self) -> None:
        """Take the colours and the type in use, and paint all lines at once: a picture may be taken now."""
        self._widest, self._all, self._before = 0.0, None, None
        self.arrange()
        self.finish()

    def view_all(self) -> None:
        """Have as many tokens in sight as may be."""
        self.want(MOST_IN_SIGHT)

    @property
    def count(self) -> int:
        """How many tokens are to be in sight."""
        named = math.floor(self.plot.height() / self.apart)
        return min(max(self.wanted or named, LEAST_IN_SIGHT), MOST_IN_SIGHT)

    @property
    def apart(self) -> int:
        """Pixels from one name to the next at least."""
        return theme.current().size("number") + 1

    @property
    def is_painted(self) -> bool:
        """Whether all lines there are have been painted."""
        return not self._next.isActive()

    def table(self) -> Table:
        """What is drawn, as columns."""
        w = self.weights
        if w is None:
            return ()
        columns = {"head": w.head, "query": w.query, "key": w.key, "weight": w.weight}
        return tuple((name, column.tolist()) for name, column in columns.items())

    # Where things are ---------------------------------------------------------------------------------------------

    @property
    def several(self) -> bool:
        """Whether there are lines of several heads."""
        return self.weights is not None and len(self.weights.heads) > 1

    @property
    def names_heads(self) -> bool:
        """Whether a weight is written with its head: where there are several, and room for their names."""
        return self.several and BESIDE * self.width() >= theme.current().face("number").width("H00 0.00")

    @property
    def aside(self) -> float:
        """Width of what stands beyond a name: a position, or the weights of what is pointed at."""
        face = theme.current().face("number")
        place = face.width("0" * max(len(str(len(self.names))), 4)) + 1
        if not self.names_heads:
            return place
        one, more = face.width("H00 0.00"), face.width(" +00")
        wanted = (one + GAP + one if self.width() >= 12 * one else one) + more
        return max(place, min(wanted, BESIDE * self.width()))

    @property
    def margin(self) -> float:
        """Width of the names and of what stands beside them, on either side."""
        if not self._widest:
            self._widest = widest_name(self.names)
        return min(self._widest + 1, 0.22 * self.width()) + self.aside + 3 * GAP

    def _place(self) -> QRectF:
        """Where the lines are to be."""
        top = ink.line_height(theme.current().font("label")) + self.apart / 2  # where there are many, names stand out
        size = self.width() - 2 * self.margin, self.height() - top - self.apart / 2
        return QRectF(self.margin, top, max(size[0], 1), max(size[1], 1))

    @property
    def pitch(self) -> float:
        """Pixels of a token."""
        return self.plot.height() / self.sight.count

    def centre(self, side: str, place: int) -> QPointF:
        """Where a token's lines begin or end, in the widget."""
        plot, first = self.plot, getattr(self.sight, side)
        x = plot.left() if side == "query" else plot.right()
        return QPointF(x, plot.top() + (place - first + 0.5) * self.pitch)

    def in_sight(self, side: str) -> range:
        """The tokens in sight on a side."""
        first = getattr(self.sight, side)
        return range(first, first + min(self.sight.count, len(self.names)))

    def token_at(self, point: QPointF) -> tuple[str, int] | None:
        """The side and the token under a point of the widget; None among the lines."""
        plot = self.plot
        if not plot.top() <= point.y() < plot.bottom() or plot.left() + GAP < point.x() < plot.right() - GAP:
            return None
        side = "query" if point.x() <= plot.left() + GAP else "key"
        place = getattr(self.sight, side) + math.floor((point.y() - plot.top()) / self.pitch)
        return (side, place) if place in self.in_sight(side) else None

    # The lines ----------------------------------------------------------------------------------------------------

    @property
    def only(self) -> tuple[str, int] | None:
        """The side and the token whose lines alone are drawn."""
        return next(((side, at) for side, at in self.hovered.items() if at in self.in_sight(side)), None)

    def drawn(self) -> tuple[StrongWeights, Bools] | None:
        """The weights that are drawn, and [n] which of them: those with both ends in sight, of one token or of all."""
        only, w = self.only, self.weights
        if only is not None and self._closer is not None:
            side, place = only
            span = self._closer.rows if side == "query" else self._closer.columns
            w = self._closer if span == (place, place + 1) else w
        return None if w is None else (w, self._in_sight(w) if only is None else self._of(w, *only))

    def _in_sight(self, w: StrongWeights) -> Bools:
        (top, bottom), (first, end) = self.sight.rows, self.sight.columns
        return (w.query >= top) & (w.query < bottom) & (w.key >= first) & (w.key < end)

    def _of(self, w: StrongWeights, side: str, place: int) -> Bools:
        found: Bools = getattr(w, side) == place
        return found & self._in_sight(w)

    def beside(self, side: str) -> dict[int, list[tuple[int, float]]]:
        """What is written beside the tokens of a side: heads and weights, the largest first."""
        only, drawn = self.only, self.drawn()
        said: dict[int, list[tuple[int, float]]] = {}
        if drawn is not None and only is not None and only[0] != side:
            w, own = drawn
            for place, head, weight in zip(getattr(w, side)[own], w.head[own], w.weight[own], strict=True):
                said.setdefault(int(place), []).append((int(head), float(weight)))
        return said

    def readout(self) -> str:
        """What is pointed at, in words."""
        only, drawn = self.only, self.drawn()
        if drawn is None or only is None:
            return ""
        (side, place), (w, own) = only, drawn
        said, count = f"{side} {place} {isolated(self.names[place])}", int(own.sum())
        if not count:
            return f"{said} · nothing of {w.threshold:g} and more in sight"
        weights = wording.counted(count, "weight")
        if self.several:
            return f"{said} · {weights} of {wording.counted(len(np.unique(w.head[own])), 'head')}"
        if side == "key":
            return f"{said} · {weights}, the largest of query {w.query[own][0]}"
        return f"{said} · {weights}, together {wording.number(float(w.weight[own].sum()), 2)}"

    def strokes(self, w: StrongWeights, which: Bools) -> list[Stroke]:
        """Lines of some weights, the strongest first, in the coordinates of the plot."""
        places = np.flatnonzero(which)
        levels = np.clip(np.rint(np.sqrt(np.maximum(w.weight[places], 0)) * LEVELS), 1, LEVELS).astype(np.int64)
        order = np.lexsort((w.head[places], -levels))
        places, levels = places[order], levels[order]
        heads = w.head[places]
        cells = np.stack((w.query[places] - self.sight.query, w.key[places] - self.sight.key), 1).astype(np.float64)
        ends = (cells + 0.5) * self.pitch  # sliced below: so many pairs would set off Python's garbage collection
        cuts = {*(np.flatnonzero(np.diff(levels) | np.diff(heads)) + 1).tolist(), *range(0, len(places), ALIKE)}
        bounds = [*sorted(cuts), len(places)]
        most, made = min(max(self.pitch / ROOMY, 1.0), THICKEST), []
        looks: dict[tuple[int, int], tuple[QColor, float]] = {}  # there are few, and thousands of strokes
        for (start, stop), look in zip(
            pairwise(bounds), zip(heads[bounds[:-1]].tolist(), levels[bounds[:-1]].tolist(), strict=True), strict=True
        ):
            if look not in looks:
                share = look[1] / LEVELS
                looks[look] = ink.faded(self.colours[look[0]], share), 1 + (most - 1) * share**2
            made.append(Stroke(*looks[look], ends[start:stop]))
        return made

    def pixels(self) -> tuple[Pixels, float] | None:
        """The lines that are to be seen, as far as they are painted, and how far they are moved."""
        now, before = self._all if self.only is None else self._pointed, self._before
        if now is None:
            return None
        if self.only is None and now.waiting and before is not None and before.image.size() == now.image.size():
            up = before.sight.query - self.sight.query
            if before.sight.moved(-up, -up, len(self.names)) == self.sight and 2 * abs(up) <= self.sight.count:
                return before, up * self.pitch
        return now, 0.0

    def finish(self) -> None:
        """Paint all lines that are still to be painted."""
        self._paint(math.inf)

    def _begin(self) -> None:
        """Begin all lines anew."""
        if self._all is not None and not self._all.waiting:
            self._before = self._all
        self._all = None if self.weights is None else self._pixels(self.weights, self._in_sight(self.weights))
        self._begin_pointed()

    def _begin_pointed(self) -> None:
        drawn = self.drawn()
        self._pointed = None if drawn is None or self.only is None else self._pixels(*drawn)
        self.tokens.update()
        self._paint_some()

    def _pixels(self, w: StrongWeights, which: Bools) -> Pixels:
        return Pixels(self.plot.size().toSize(), self.devicePixelRatioF(), self.strokes(w, which), self.sight)

    def _paint_some(self) -> None:
        """Paint as many lines as a turn of the event loop has time for."""
        self._paint(TURN)

    def _paint(self, seconds: float) -> None:
        """Paint for about so long, what is pointed at before the others."""
        both = [one for one in (self._pointed, self._all) if one is not None]
        for one in both:
            seconds -= one.paint(seconds)
        self.lines.update()
        if any(one.waiting for one in both):
            self._next.start()
        else:
            self._next.stop()
            self.painted.emit()

    # Layout -------------------------------------------------------------------------------------------------------

    def sizeHint(self) -> QSize:
        """A size at which a dozen tokens can be read."""
        return QSize(360, 320)

    def minimumSizeHint(self) -> QSize:
        """The smallest size in which lines can be told apart."""
        line = theme.current().size("label")
        return QSize(16 * line, 7 * line)

    def arrange(self) -> None:
        """Take another size, in which more tokens or fewer may be named."""
        self.plot = self._place()
        self.tokens.put(QRectF(self.rect()))
        self.lines.put(self.plot)
        before, length = self.sight, len(self.names)
        if length:
            self.sight = before.of(self.count, length)
            for side in SIDES:
                if 0 <= self.selected[side] - getattr(before, side) < before.count:  # it stays in sight
                    self.sight = self.sight.with_token(side, min(self.selected[side], length - 1), length)
        self._begin()
        if self.sight != before:
            self.looked.emit()

    # Input --------------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Pick the token that is clicked."""
        found = self.token_at(event.position())
        if event.button() == Qt.MouseButton.LeftButton and found is not None:
            self.side = found[0]
            self._pick(*found)
        event.accept()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Two clicks on a token are clicks."""
        self.mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Nothing is dragged here."""
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a token."""
        found = self.token_at(event.position())
        self._point(found)

    def viewportEvent(self, event: QEvent) -> bool:
        """Point at nothing any more."""
        if event.type() == QEvent.Type.Leave:
            self._point(None)
        return bool(super().viewportEvent(event))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll the side that the pointer is over, or both between them; with Ctrl have fewer or more in sight."""
        event.accept()
        notches, length = event.angleDelta().y() / 120, len(self.names)
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.want(min(max(round(self.sight.count * CLOSER**-notches), LEAST_IN_SIGHT), MOST_IN_SIGHT, length))
            return
        step = max(NOTCH * self.sight.count, 1)
        self._turned -= notches * step
        whole = math.trunc(self._turned)
        self._turned -= whole
        plot, x = self.plot, event.position().x()
        queries, keys = whole * (x <= plot.right()), whole * (x >= plot.left())
        self.look(self.sight.moved(queries, keys, length))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move the selection up and down, or go over to the other side."""
        step = arrow_keys.step_of(event)
        if step is None:
            super().keyPressEvent(event)
        elif step[0]:
            self.side = SIDES[step[0] > 0]
            self.tokens.update()
        elif 0 <= self.selected[self.side] + step[1] < len(self.names):
            self._pick(self.side, self.selected[self.side] + step[1])

    def event(self, event: QEvent) -> bool:
        """Keep the arrows while focused."""
        return arrow_keys.kept(event) or bool(super().event(event))

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show on which side the arrows move."""
        super().focusInEvent(event)
        self.tokens.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Show it no longer."""
        super().focusOutEvent(event)
        self.tokens.update()

    def _pick(self, side: str, place: int) -> None:
        self.picked.emit(*(place if one == side else -1 for one in SIDES))

    def _point(self, found: tuple[str, int] | None) -> None:
        query, key = (found[1] if found is not None and found[0] == side else -1 for side in SIDES)
        if {"query": query, "key": key} != self.hovered:
            self.pointed.emit(query, key)


class Pixels:
    """Lines in pixels, the strongest painted first and every other one below what is there.

    Attributes
    ----------
    sight
        The tokens in sight.
    waiting
        What is still to be painted, the next one last.
    """

    def __init__(self, size: QSize, ratio: float, strokes: list[Stroke], sight: Sight) -> None:
        self.image = QImage(size * ratio, QImage.Format.Format_ARGB32_Premultiplied)
        self.image.setDevicePixelRatio(ratio)
        self.image.fill(0)
        self.sight, self.waiting = sight, strokes[::-1]
        self._width = float(size.width())

    def paint(self, seconds: float) -> float:
        """Paint for about so long, if there is any time; returns how long it took."""
        began = now = time.perf_counter()
        if seconds <= 0:
            return 0.0
        painter = QPainter(self.image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_DestinationOver)
        while self.waiting and now - began < seconds:
            draw(painter, self._width, self.waiting.pop(), self.image.devicePixelRatio())
            now = time.perf_counter()
        painter.end()
        return now - began


def draw(painter: QPainter, width: float, stroke: Stroke, ratio: float = 0.0) -> None:
    """Draw curves across a width; where a pixel of a screen is ``ratio`` wide, thin ones are one pixel wide."""
    pen = QPen(stroke.colour, stroke.width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap)
    thin = ratio > 0 and stroke.width * ratio < THIN
    if thin:
        pen.setWidth(1)
        pen.setCosmetic(True)
    path, half = QPainterPath(), width / 2
    for start, end in stroke.ends.tolist():
        path.moveTo(0, start)
        path.cubicTo(half, start, half, end, width, end)
        if not thin:  # each by itself, so that where two cross both are seen, and because many at once take much longer
            painter.strokePath(path, pen)
            path = QPainterPath()
    painter.strokePath(path, pen)


class Lines(Painted):
    """The lines of a view."""

    def __init__(self, view: LinesView) -> None:
        super().__init__()
        self.view = view

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Copy what is painted; elsewhere than on the screen draw it for there."""
        view, at = self.view, self.area.topLeft()
        pixels, drawn = view.pixels(), view.drawn()
        if pixels is None or drawn is None:
            return
        if not ink.leaves_the_screen(painter, view):
            painter.setClipRect(self.area)
            painter.drawImage(at + QPointF(0, pixels[1]), pixels[0].image)
            return
        strokes = view.strokes(*drawn)
        if ink.in_vectors(painter):
            painter.translate(at)
            for stroke in reversed(strokes):
                draw(painter, self.area.width(), stroke)
            return
        ratio = painter.paintEngine().paintDevice().devicePixelRatioF()
        fine = Pixels(self.area.size().toSize(), ratio, strokes, view.sight)
        fine.paint(math.inf)
        painter.drawImage(at, fine.image)


class Tokens(Painted):
    """The tokens of a view left and right, which of them are selected and pointed at, and what is said of them."""

    def __init__(self, view: LinesView) -> None:
        super().__init__()
        self.view = view

    def draw(self, painter: QPainter, exposed: QRectF) -> None:
        """Write them."""
        view, now = self.view, theme.current()
        font, line = now.font("label"), ink.line_height(now.font("label"))
        for side, colour, align in (("query", now.query, ink.RIGHT), ("key", now.key, ink.LEFT)):
            wide, edge = ink.text_width(font, side) + 1, self._column(side)
            left = edge.right() - wide if side == "query" else edge.left()
            ink.draw_text(painter, QRectF(left, 0, wide, line), side, font, colour, align)
            self._write_column(painter, side, colour)
        plot = view.plot
        box = QRectF(plot.left(), 0, plot.width(), line)
        ink.draw_text(painter, box, view.readout(), font, now.text, ink.CENTRE)

    def _column(self, side: str) -> QRectF:
        """Where names are written."""
        plot, width = self.view.plot, self.view.margin - self.view.aside - 3 * GAP
        left = plot.left() - 2 * GAP - width if side == "query" else plot.right() + 2 * GAP
        return QRectF(left, plot.top(), width, plot.height())

    def _write_column(self, painter: QPainter, side: str, colour: QColor) -> None:
        view, now = self.view, theme.current()
        font = now.font("number")
        line, column, beside, only = now.face("number").height, self._column(side), view.beside(side), view.only
        selected, hovered = view.selected[side], view.hovered[side]
        for place in self._named(side, beside):
            middle = view.centre(side, place).y()
            box = QRectF(column.left(), middle - line / 2, column.width(), line)
            alone = only is None or place in beside or (side, place) == only
            ink_of = colour if place == selected else now.text if place in beside or place == hovered else now.faint
            ink_of = ink_of if alone else ink.faded(ink_of, 0.45)
            align = ink.RIGHT if side == "query" else ink.LEFT
            if place == hovered:
                painter.fillRect(box.adjusted(-GAP / 2, 0, GAP / 2, 0), now.hover)
            ink.draw_text(painter, box, view.names[place], font, ink_of, align)
            if place == selected:
                self._outline(painter, box, colour, view.hasFocus() and side == view.side)
            self._write_beside(painter, side, box, place, beside.get(place, []))

    def _named(self, side: str, beside: dict[int, list[tuple[int, float]]]) -> list[int]:
        """The tokens that are named, so that no two names touch: what is pointed at, what it has lines to, the rest."""
        view, seen = self.view, self.view.in_sight(side)
        apart = max(math.ceil(view.apart / view.pitch - 1e-6), 1)
        stride = even(apart)
        least = -(-seen.start // stride) * stride
        strongest = sorted(beside, key=lambda place: -beside[place][0][1])
        wanted = (view.hovered[side], *strongest, view.selected[side], *range(least, seen.stop, stride))
        named: list[int] = []
        for place in wanted:
            if place in seen:
                at = bisect.bisect(named, place)
                if all(abs(place - other) >= apart for other in named[max(at - 1, 0) : at + 1]):
                    named.insert(at, place)
        return named

    def _outline(self, painter: QPainter, box: QRectF, colour: QColor, focused: bool) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colour, 1.5))
        spare = (box.height() - max(min(box.height(), self.view.pitch), self.view.apart)) / 2
        around = box.adjusted(-GAP / 2, spare, GAP / 2, -spare)
        painter.drawRect(around)
        if focused:
            painter.setPen(QPen(theme.current().accent, 1, Qt.PenStyle.DotLine))
            painter.drawRect(around.adjusted(-2.5, -2.5, 2.5, 2.5))

    def _write_beside(
        self, painter: QPainter, side: str, box: QRectF, place: int, weights: list[tuple[int, float]]
    ) -> None:
        """Write beyond a name its position, or as many weights as there is room for."""
        view, now = self.view, theme.current()
        font, face, width = now.font("number"), now.face("number"), view.aside
        left = 0.0 if side == "query" else view.width() - width
        room = QRectF(left, box.top(), width, box.height())
        if not weights:
            if view.only is None or (side, place) == view.only:
                align = ink.RIGHT if side == "query" else ink.LEFT
                ink.draw_text(painter, room, str(place), font, ink.faded(now.faint, 0.7), align)
            return
        for number, (head, weight) in enumerate(weights):
            said = f"H{head} {weight:.2f}" if view.names_heads else f"{weight:.2f}"
            wide, left = face.width(said) + 1, len(weights) - number
            more = face.width(f" +{left}")
            if room.width() < wide + (more if number and left > 1 else 0):
                if room.width() >= more:
                    ink.draw_text(painter, room, f"+{left}", font, now.faint)
                return
            colour = view.colours[head] if view.several else now.text
            ink.draw_text(painter, QRectF(room.left(), room.top(), wide, room.height()), said, font, colour)
            room.setLeft(room.left() + wide + GAP - 1)
