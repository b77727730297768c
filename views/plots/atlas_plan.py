"""Where the thumbnails of the atlas lie: by layer, folded into blocks, or in the order of a score, as large as fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from PySide6.QtCore import QPoint, QRect, QSize

MOST_FOLDS = 6
"""Blocks into which the layers may be folded."""

AROUND = 4
"""Pixels around sorted heads, for the outline of those at the edges."""

Arrangement = Literal["heads down", "heads across", "sorted"]


@dataclass(frozen=True)
class Place:
    """Where one head is drawn: its cell in the grid and its square in pixels."""

    layer: int
    head: int
    row: int
    column: int
    square: QRect


@dataclass(frozen=True)
class Plan:
    """Where everything lies in a given width and height.

    ``lines`` says how many lines of text there are under a thumbnail; with none, a bar stands for the score.
    ``inset`` is how far a square stands in from the left of what is written under it.
    """

    arrangement: Arrangement = "heads across"
    side: int = 0
    lines: int = 1
    size: QSize = field(default_factory=QSize)
    places: tuple[Place, ...] = ()
    inset: int = 0
    folds: int = 1
    """Blocks side by side into which the layers are folded."""

    def at(self, point: QPoint) -> Place | None:
        """Return the place under a point, its label included."""
        for place in self.places:
            if place.square.adjusted(-1, -1, 1, self.side // 8 + 2).contains(point):
                return place
        return None

    def of(self, layer: int, head: int) -> Place | None:
        """Return where a head is drawn."""
        return next((p for p in self.places if p.layer == layer and p.head == head), None)

    def beside(self, place: Place, right: int, down: int) -> Place | None:
        """Return the place so many cells to the right and down, None past the edge."""
        return next((p for p in self.places if (p.row, p.column) == (place.row + down, place.column + right)), None)


@dataclass(frozen=True)
class Metrics:
    """Sizes that a plan is made with, all in pixels; ``brackets`` are kv heads left of heads that go down."""

    gap: int
    group_gap: int
    label: int
    label_width: int
    gutter: int
    header: int
    brackets: int = 0
    smallest: int = 24
    largest: int = 168


class Planner:
    """Finds the arrangement in which thumbnails are largest.

    Parameters
    ----------
    layers, heads, group
        L, H and how many query heads share a kv head.
    room
        The width and height there is; a plan may be taller when thumbnails would become too small.
    """

    def __init__(self, layers: int, heads: int, group: int, room: QSize, metrics: Metrics) -> None:
        self.layers, self.heads, self.group = layers, heads, group
        self.room = room
        self.metrics = metrics

    def in_layers(self) -> Plan:
        """Arrange by layer and head, whichever way round and labelled where that costs nothing."""
        folds = range(1, min(self.layers, MOST_FOLDS) + 1)
        plans = [
            *(self._folded(count, labelled) for labelled in (True, False) for count in folds),
            *(self._grid("heads down", labelled) for labelled in (True, False)),
        ]
        readable = [p for p in plans if p.lines and p.side >= self.metrics.label_width]
        fitting = [p for p in plans if p.folds == 1 or p.size.width() <= self.room.width()]
        return max(
            [p for p in readable if p in fitting] or [p for p in fitting if not p.lines],
            key=lambda plan: (plan.side, -self._scrolling(plan)),
        )

    def _scrolling(self, plan: Plan) -> int:
        """How much of a plan is out of sight; sideways it is harder to find."""
        beyond = plan.size - self.room
        return 4 * max(beyond.width(), 0) + max(beyond.height(), 0)

    def _folded(self, folds: int, labelled: bool) -> Plan:
        """Heads across, and the layers in so many blocks beside one another: a low, wide room holds more that way."""
        m = self.metrics
        deep = -(-self.layers // folds)
        room = QSize((self.room.width() - (folds - 1) * m.gutter) // folds, self.room.height())
        block = Planner(deep, self.heads, self.group, room, m)._grid("heads across", labelled)
        pitch = block.size.width() + m.gutter
        places = []
        for place in block.places:
            for fold in range(folds):
                layer = fold * deep + place.layer
                if layer < self.layers:
                    square = place.square.translated(fold * pitch, 0)
                    places.append(Place(layer, place.head, place.row, fold * self.heads + place.column, square))
        size = _extent(places, m.label if labelled else 4)
        return Plan("heads across", block.side, block.lines, size, tuple(places), folds=folds)

    def _grid(self, way: Literal["heads across", "heads down"], labelled: bool) -> Plan:
        m = self.metrics
        gaps = (self.heads // self.group - 1) * m.group_gap
        under = m.label if labelled else 4
        across, down = (self.heads, self.layers) if way == "heads across" else (self.layers, self.heads)
        left = m.gutter + (m.brackets if way == "heads down" else 0)
        wide = self.room.width() - left - (gaps if way == "heads across" else 0)
        high = self.room.height() - m.header - (gaps if way == "heads down" else 0)
        side = min(wide // across - m.gap, high // down - m.gap - under, m.largest)
        side = max(side, m.smallest)
        places = []
        for layer in range(self.layers):
            for head in range(self.heads):
                shift = head // self.group * m.group_gap
                column, row = (head, layer) if way == "heads across" else (layer, head)
                x = left + column * (side + m.gap) + (shift if way == "heads across" else 0)
                y = m.header + row * (side + m.gap + under) + (shift if way == "heads down" else 0)
                places.append(Place(layer, head, row, column, QRect(x, y, side, side)))
        return Plan(way, side, int(labelled), _extent(places, under), tuple(places))

    def in_order(self, order: list[tuple[int, int]], beside: int, under: int) -> Plan:
        """Arrange as running text, best first, every head with its name and score.

        ``beside`` is the width of a name and a score on one line, ``under`` that of the wider one of two lines. Where
        neither lets everything be seen at once, whole rows are, and the rest by scrolling.
        """
        m = self.metrics
        for lines, least in ((1, beside), (2, under)):
            for side in range(m.largest, least - 1, -1):
                pitch = side + m.gap + lines * m.label
                if self._rows(len(order), side) * pitch <= self._height:
                    return self._flow(order, QRect(0, 0, side, side), QSize(side + m.gap, pitch), lines)
        rows = max(round(self._height / (beside + m.gap + m.label)), 1)
        pitch = -(-(self.room.height() - AROUND) // rows)
        side = max(pitch - m.gap - m.label, m.smallest)
        width = max(side, beside)
        return self._flow(order, QRect((width - side) // 2, 0, side, side), QSize(width + m.gap, pitch), 1)

    def _rows(self, number: int, side: int) -> int:
        return -(-number // max(self._width // (side + self.metrics.gap), 1))

    @property
    def _width(self) -> int:
        return self.room.width() - 2 * AROUND

    @property
    def _height(self) -> int:
        return self.room.height() - 2 * AROUND

    def _flow(self, order: list[tuple[int, int]], square: QRect, cell: QSize, lines: int) -> Plan:
        columns = max(self._width // cell.width(), 1)
        places = []
        for i, (layer, head) in enumerate(order):
            row, column = divmod(i, columns)
            at = square.translated(AROUND + column * cell.width(), AROUND + row * cell.height())
            places.append(Place(layer, head, row, column, at))
        size = QSize(columns * cell.width() + 2 * AROUND, (-(-len(order) // columns)) * cell.height() + 2 * AROUND)
        return Plan("sorted", square.width(), lines, size, tuple(places), square.left())


def _extent(places: list[Place], under: int) -> QSize:
    return QSize(
        max((p.square.right() + 2 for p in places), default=0),
        max((p.square.bottom() + under + 2 for p in places), default=0),
    )
