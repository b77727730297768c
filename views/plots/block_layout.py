"""Where the matrices of a step of the walk stand: a product with its factors left and above, the rest in lines.

Everything here is a function of sizes and rectangles; ``views.plots.block_view`` paints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QRectF

from ropewalk.model.ledger.walk import Equation
from ropewalk.model.readings.records import WalkMatrix
from ropewalk.views.style import ink, theme

LEAST_SHARE = 0.24
"""The share of the room that the smaller of two matrices side by side gets at least, as far as it can use it."""
SQUARE = 0.3
"""How much it counts that cells are square, beside how much is painted."""
NARROWED = 0.7
"""How much a picture is worth in which captions are names alone."""


@dataclass(frozen=True)
class Place:
    """One matrix of the picture.

    Attributes
    ----------
    key
        Its name in the reading.
    equation, slot
        Which equation it is in, and which of its operands it is; −1 is the result.
    box, caption
        Its cells, and the line above them.
    labelled
        Whether tokens are written left of its rows.
    """

    key: str
    equation: int
    slot: int
    box: QRectF
    caption: QRectF
    labelled: bool = False


@dataclass
class Picture:
    """A step as it is painted.

    Attributes
    ----------
    places, signs
        The matrices, and the signs between them.
    corner
        What a product leaves free left of its second factor.
    """

    places: list[Place] = field(default_factory=list)
    signs: list[tuple[QRectF, str]] = field(default_factory=list)
    corner: QRectF = field(default_factory=QRectF)

    def worth(self, matrices: Mapping[str, WalkMatrix]) -> float:
        """How much is painted, less where cells are far from square."""
        worth = 0.0
        for place in self.places:
            height, width = _size(matrices[place.key])
            down, across = place.box.height() / height, place.box.width() / width
            if min(down, across) > 0:
                worth += place.box.width() * place.box.height() * (min(down, across) / max(down, across)) ** SQUARE
        return worth


@dataclass(frozen=True)
class Measures:
    """Sizes that a layout is made with, in pixels.

    Attributes
    ----------
    line, gap, sign
        The height of a caption, the air between two matrices, the room of a sign.
    label, head
        The room for tokens left of rows, and above columns.
    cell, tall, number
        How wide and how tall a cell gets at most, and how wide a number is that has no column of cells.
    widths
        How wide the caption of each matrix is.
    """

    line: float
    gap: float
    sign: float
    label: float
    head: float
    cell: float
    tall: float
    number: float
    widths: Mapping[str, float]


def measures(captions: Mapping[str, tuple[str, str]], signs: Iterable[str], label: float) -> tuple[Measures, Measures]:
    """The sizes that the theme in use asks for: with room for name and shape of each matrix, and for its name alone.

    Parameters
    ----------
    label
        How wide the tokens beside rows are.
    """
    look = theme.current()
    size, font, large = look.size("number"), look.font("label"), look.font("title")
    names = {key: ink.text_width(font, name) + 4 for key, (name, _) in captions.items()}
    wide = Measures(
        line=ink.line_height(look.font("formula")) + 2,
        gap=look.grid(1),
        sign=max((ink.text_width(large, sign) for sign in signs), default=0.0) + 2 * size,
        label=label,
        head=ink.line_height(font),
        cell=14.0 * size,
        tall=7.0 * size,
        number=5.0 * size,
        widths={key: names[key] + ink.text_width(font, shape) + 8 for key, (_, shape) in captions.items()},
    )
    return wide, replace(wide, widths=names, number=3.5 * size, sign=wide.sign - size)


def arranged(
    equations: tuple[Equation, ...], matrices: Mapping[str, WalkMatrix], area: QRectF, m: tuple[Measures, Measures]
) -> Picture:
    """The picture of a step that fills the most of an area; shapes are left out where that gives much more room."""
    wide, narrow = (_best(equations, matrices, area, one) for one in m)
    return narrow if NARROWED * narrow.worth(matrices) > wide.worth(matrices) else wide


def _best(equations: tuple[Equation, ...], matrices: Mapping[str, WalkMatrix], area: QRectF, m: Measures) -> Picture:
    if not equations:
        return _lone(matrices, area, m)
    if equations[0].form == "product":
        return _product(equations[0], matrices, area, m)
    tries = []
    for across in (True, False):
        picture, count = Picture(), len(equations)
        for number, equation in enumerate(equations):
            if across:
                part = QRectF(area.x(), area.y() + area.height() * number / count, area.width(), area.height() / count)
            else:
                part = QRectF(area.x() + area.width() * number / count, area.y(), area.width() / count, area.height())
            made = (_across if across else _down)(equation, matrices, part, m)
            for one in made.places:
                picture.places.append(replace(one, equation=number, caption=one.caption.intersected(part)))
            picture.signs += made.signs
        tries.append(picture)
    return max(tries, key=lambda picture: picture.worth(matrices))


def _lone(matrices: Mapping[str, WalkMatrix], area: QRectF, m: Measures) -> Picture:
    """The stream that a block begins with."""
    height, width = _size(matrices["x"])
    cell = min((area.width() - m.label) / width, m.cell)
    tall = min((area.height() - m.line) / height, m.tall)
    box = _centred(area, m.label + width * cell, m.line + height * tall).adjusted(m.label, m.line, 0, 0)
    return Picture([_place("x", -1, box, m, labelled=m.label > 0)])


def _product(equation: Equation, matrices: Mapping[str, WalkMatrix], area: QRectF, m: Measures) -> Picture:
    """Rows of the left factor, columns of the upper one, and where they meet, the result."""
    left, above = equation.operands[:2]
    (rows, inner), (_, columns) = _size(matrices[left]), _size(matrices[above])
    strip = 1.4 * m.line
    bias = strip + m.gap if len(equation.operands) > 2 else 0.0
    head = m.head if matrices[above].axes[1] == "key" else 0.0
    down = area.height() - 2 * m.line - 2 * m.gap - bias - head
    across = area.width() - m.label - m.sign
    first, second = _shared(across, (inner, columns), m.cell, (m.widths[left], m.widths[equation.result]))
    upper, lower = _shared(down, (inner, rows), m.tall, (0.0, 0.0))
    width, height = m.label + first + m.sign + second, 2 * m.line + 2 * m.gap + bias + head + upper + lower
    place = _centred(area, width, height)
    x, y = place.x() + m.label, place.y() + m.line + head
    across_to = x + first + m.sign
    below = y + upper + m.gap + bias + m.line + m.gap
    boxes = [QRectF(x, below, first, lower), QRectF(across_to, y, second, upper)]
    picture = Picture([_place(left, 0, boxes[0], m, labelled=m.label > 0), _place(above, 1, boxes[1], m, lift=head)])
    if bias:
        box = QRectF(across_to, y + upper + m.gap, second, strip)
        picture.places.append(Place(equation.operands[2], 0, 2, box, QRectF()))
        picture.signs.append((QRectF(across_to - m.sign, box.y(), m.sign - 6, strip), "+ b"))
    picture.places.append(_place(equation.result, -1, QRectF(across_to, below, second, lower), m))
    picture.signs.append((QRectF(x + first, below, m.sign, lower), "="))
    picture.corner = QRectF(place.x(), place.y(), m.label + first, y + upper - place.y())
    return picture


def _across(equation: Equation, matrices: Mapping[str, WalkMatrix], area: QRectF, m: Measures) -> Picture:
    """One beside the other."""
    keys = (*equation.operands, equation.result)
    sizes = [_size(matrices[key]) for key in keys]
    tall = min((area.height() - m.line - m.gap) / max(height for height, _ in sizes), m.tall)
    room = area.width() - m.label - m.sign * len(equation.signs)
    counts = [width if width > 1 or tall >= m.line else 0 for _, width in sizes]
    least = [max(m.widths[key], m.number if width == 1 else 0) for key, (_, width) in zip(keys, sizes, strict=True)]
    cell = _fitted(room, counts, least, m.cell)
    widths = [max(width * cell, m.number if width == 1 else 0) for _, width in sizes]
    extents = [max(width, m.widths[key]) for key, width in zip(keys, widths, strict=True)]
    highest = max(height for height, _ in sizes) * tall
    total = m.label + sum(extents) + m.sign * len(equation.signs)
    place = _centred(area, min(total, area.width()), m.line + highest)
    picture, x = Picture(), place.x() + m.label
    for slot, (key, (height, _), width, extent) in enumerate(zip(keys, sizes, widths, extents, strict=True)):
        middle = place.y() + m.line + highest / 2
        high = height * tall if height > 1 else min(max(tall, 1.5 * m.line), highest)
        box = QRectF(x, middle - high / 2, width, high)
        number = slot if slot < len(equation.operands) else -1
        picture.places.append(_place(key, number, box, m, labelled=slot == 0 and m.label > 0))
        if slot < len(equation.signs):
            picture.signs.append((QRectF(x + extent, middle - m.line, m.sign, 2 * m.line), equation.signs[slot]))
        x += extent + m.sign
    return picture


def _down(equation: Equation, matrices: Mapping[str, WalkMatrix], area: QRectF, m: Measures) -> Picture:
    """One above the other; a number for each row, or a single one, stands right of what it belongs to."""
    keys, lines = (*equation.operands, equation.result), list[list[int]]()
    sizes = [_size(matrices[key]) for key in keys]
    for slot, (_, width) in enumerate(sizes):
        if lines and width == 1 and slot < len(keys) - 1:
            lines[-1].append(slot)
        else:
            lines.append([slot])
    narrow = max((max(m.widths[keys[slot]] for slot in line[1:]) for line in lines if line[1:]), default=0.0)
    narrow = max(narrow, m.number) if narrow else 0.0
    beside = max(len(line) - 1 for line in lines) * (m.sign + narrow)
    room = area.width() - max(m.label, m.sign) - beside
    cell = min(room / max(sizes[line[0]][1] for line in lines), m.cell)
    free = area.height() - len(lines) * (m.line + m.gap)
    tall = min(free / sum(sizes[line[0]][0] for line in lines), m.tall)
    if tall <= 0 or cell <= 0:
        return Picture()
    gutter = max(m.label, m.sign)
    across = gutter + max(sizes[line[0]][1] for line in lines) * cell + beside
    height = sum(sizes[line[0]][0] * tall + m.line + m.gap for line in lines) - m.gap
    place = _centred(area, across, height)
    picture, y = Picture(), place.y() + m.line
    for number, line in enumerate(lines):
        x, high = place.x() + gutter, sizes[line[0]][0] * tall
        for slot in line:
            rows, columns = sizes[slot]
            wide = narrow if slot != line[0] else columns * cell
            own = rows * tall if rows > 1 or slot == line[0] else min(max(tall, 1.5 * m.line), high)
            box = QRectF(x, y + (high - own) / 2, wide, own)
            result = slot == len(keys) - 1
            labelled = m.label > 0 and number == 0 and slot == line[0]
            picture.places.append(_place(keys[slot], -1 if result else slot, box, m, labelled=labelled))
            if slot and slot == line[0]:
                sign = QRectF(place.x(), y, m.sign - 6, max(high, m.line))
                picture.signs.append((sign, equation.signs[slot - 1]))
            elif slot:
                picture.signs.append((QRectF(x - m.sign, y, m.sign, high), equation.signs[slot - 1]))
            x += wide + m.sign
        y += high + m.gap + m.line
    return picture


def _size(matrix: WalkMatrix) -> tuple[int, int]:
    return matrix.values.shape[0], matrix.values.shape[1]


def _place(key: str, slot: int, box: QRectF, m: Measures, *, labelled: bool = False, lift: float = 0.0) -> Place:
    caption = QRectF(box.x(), box.y() - m.line - lift, max(box.width(), m.widths.get(key, 0.0)), m.line)
    return Place(key, 0, slot, box, caption, labelled)


def _shared(room: float, counts: tuple[int, int], most: float, least: tuple[float, float]) -> tuple[float, float]:
    """Room for two matrices by their counts of cells; neither is squeezed, and what one cannot use the other takes."""
    first = room * min(max(counts[0] / sum(counts), LEAST_SHARE), 1 - LEAST_SHARE)
    first = min(max(first, least[0]), room - least[1])
    sizes = [min(first, counts[0] * most), min(room - first, counts[1] * most)]
    for one, other in ((0, 1), (1, 0)):
        sizes[one] = min(room - sizes[other], counts[one] * most)
    return sizes[0], sizes[1]


def _fitted(room: float, counts: list[int], least: list[float], most: float) -> float:
    """The largest cell with which matrices, each at least as wide as its caption, stand in a room."""
    low, high = 0.0, most
    for _ in range(24):
        middle = (low + high) / 2
        fits = sum(max(count * middle, width) for count, width in zip(counts, least, strict=True)) <= room
        low, high = (middle, high) if fits else (low, middle)
    return low


def _centred(area: QRectF, width: float, height: float) -> QRectF:
    return QRectF(
        area.x() + max(area.width() - width, 0) / 2, area.y() + max(area.height() - height, 0) / 2, width, height
    )
