"""Small strokes that several panels paint alike: text that never overflows, bars, ticks, colour ramps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPaintEngine, QPainter, QPainterPath, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from ropewalk.views.style.lettering import face
from ropewalk.views.style.theme import Theme

LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
CENTRE = Qt.AlignmentFlag.AlignCenter

Bytes = NDArray[np.uint8]

VECTORS = frozenset({QPaintEngine.Type.SVG, QPaintEngine.Type.Pdf, QPaintEngine.Type.Picture})
MOST_RECTANGLES = 64 * 64
"""Cells up to which a grid in a vector file is rectangles; beyond, it is a picture with whole blocks of pixels."""
COUNTABLE = 3.0
"""Pixels that a cell must have along a side to be drawn as a rectangle."""
FINER = 4
"""Pixels of such a picture for each one of the box, along a side."""


def text_width(font: QFont, text: str) -> float:
    """Return how wide a text is in a font, in pixels, rounded up."""
    return face(font).width(text)


def first_fitting(font: QFont, texts: Iterable[str], width: float) -> str:
    """The first of some texts that fits into a width whole; empty where none does."""
    return next((text for text in texts if text_width(font, text) <= width), "")


PART = " · "
"""What stands between the parts of what is said in one line."""


def whole_parts(font: QFont, text: str, width: float) -> str:
    """As many of the parts of a line as fit into a width; the first, whether it fits or not."""
    parts = text.split(PART)
    return first_fitting(font, (PART.join(parts[:count]) for count in range(len(parts), 0, -1)), width) or parts[0]


def line_height(font: QFont) -> float:
    """Return the height of one line of a font, in pixels, rounded up."""
    return float(math.ceil(face(font).height))


def draw_text(
    painter: QPainter,
    box: QRectF,
    text: str,
    font: QFont,
    colour: QColor,
    align: Qt.AlignmentFlag = LEFT,
    elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
) -> None:
    """Write one line inside a box, in the middle of its height; what does not fit ends in an ellipsis.

    Parameters
    ----------
    align
        ``LEFT``, ``RIGHT`` or ``CENTRE``.
    elide
        Where the ellipsis stands.
    """
    letters, width = face(font), box.width()
    line = letters.fitted(text, width, elide)
    spare = 0.0 if align == LEFT else width - line.width if align == RIGHT else (width - line.width) / 2
    painter.setFont(font)
    painter.setPen(colour)
    painter.drawStaticText(QPointF(box.x() + spare, box.y() + (box.height() - letters.height) / 2), line.text)


def draw_bar(painter: QPainter, box: QRectF, colour: QColor) -> None:
    """Fill a bar with slightly round corners."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    radius = min(2.0, box.width() / 2, box.height() / 2)
    painter.drawRoundedRect(box, radius, radius)


def draw_tick(painter: QPainter, box: QRectF, passed: bool, theme: Theme) -> None:
    """Draw a check mark or a cross, as strokes, so that no font has to have the glyph."""
    side = min(box.width(), box.height()) * 0.45
    centre = box.center()
    path = QPainterPath()
    if passed:
        path.moveTo(centre + QPointF(-side / 2, 0.05 * side))
        path.lineTo(centre + QPointF(-side / 8, side / 2.4))
        path.lineTo(centre + QPointF(side / 2, -side / 2.4))
    else:
        half = side / 2.4
        path.moveTo(centre + QPointF(-half, -half))
        path.lineTo(centre + QPointF(half, half))
        path.moveTo(centre + QPointF(half, -half))
        path.lineTo(centre + QPointF(-half, half))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(theme.good if passed else theme.bad, max(1.5, side / 6)))
    painter.drawPath(path)


def polyline(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> QPolygonF:
    """Return the line through points [M], made in one go: a curve has hundreds of them."""
    return QPolygonF(list(map(QPointF, xs.tolist(), ys.tolist())))


def kind_colour(kind: str, theme: Theme) -> QColor:
    """Return the one colour that a kind of tensor has everywhere."""
    colours = {"query": theme.query, "key": theme.key, "value": theme.value, "mask": theme.masked, "score": theme.text}
    return colours.get(kind, theme.text)


def faded(colour: QColor, alpha: float) -> QColor:
    """Return a colour with an opacity between 0 and 1; a weight may be a rounding more than 1."""
    result = QColor(colour)
    result.setAlphaF(min(max(alpha, 0.0), 1.0))
    return result


def mixed(low: QColor, high: QColor, share: float) -> QColor:
    """Return the colour at ``share`` of the way from ``low`` to ``high``."""
    ends = [(colour.red(), colour.green(), colour.blue()) for colour in (low, high)]
    return QColor(*(round(a + (b - a) * share) for a, b in zip(*ends, strict=True)))


def ramp(low: QColor, high: QColor) -> Bytes:
    """Return a 256-entry RGBA table [256, 4] that goes straight from one colour to another."""
    ends = [np.array([c.red(), c.green(), c.blue(), 255], dtype=np.float64) for c in (low, high)]
    share = np.linspace(0, 1, 256)[:, None]
    table: Bytes = np.rint(ends[0] + (ends[1] - ends[0]) * share).astype(np.uint8)
    return table


def coloured(values: NDArray[np.float32], table: Bytes, empty: QColor) -> Bytes:
    """Look values in [0, 1] up in a table → [..., 4]; NaN becomes the colour ``empty``."""
    missing = np.isnan(values)
    index = np.rint(np.clip(np.where(missing, 0, values), 0, 1) * 255).astype(np.uint8)
    pixels: Bytes = table[index]
    pixels[missing] = (empty.red(), empty.green(), empty.blue(), 255)
    return pixels


def in_vectors(painter: QPainter) -> bool:
    """Whether a painter writes a vector file, in which text and shapes stay what they are."""
    return painter.paintEngine().type() in VECTORS


def leaves_the_screen(painter: QPainter, widget: QWidget) -> bool:
    """Whether a widget is painted elsewhere than on its screen, so that what it keeps in pixels is too coarse."""
    engine = painter.paintEngine()
    return engine.type() in VECTORS or engine.paintDevice().devicePixelRatioF() != widget.devicePixelRatioF()


def draw_cells(painter: QPainter, box: QRectF, pixels: Bytes) -> None:
    """Fill a box with a grid of cells [h, w, 4] RGBA, sharp wherever it is painted and however far one zooms in."""
    height, width = pixels.shape[:2]
    smooth = QPainter.RenderHint.SmoothPixmapTransform
    painter.setRenderHint(smooth, False)
    if not in_vectors(painter):
        whole = np.ascontiguousarray(pixels)
        painter.drawImage(box, QImage(whole.data, width, height, 4 * width, QImage.Format.Format_RGBA8888))
        return
    painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
    if height * width <= MOST_RECTANGLES and box.width() >= COUNTABLE * width:
        painter.drawImage(box, to_image(pixels))  # keeps the ground from showing between the rectangles
        _draw_rectangles(painter, box, pixels)
    else:
        times = max(math.ceil(FINER * box.width() / width), 1)
        painter.drawImage(box, to_image(pixels.repeat(times, axis=0).repeat(times, axis=1)))


def _draw_rectangles(painter: QPainter, box: QRectF, pixels: Bytes) -> None:
    """One shape for each colour; neighbours in a row that share it are one rectangle."""
    height, width = pixels.shape[:2]
    down, across = box.height() / height, box.width() / width
    packed = np.ascontiguousarray(pixels).view(np.uint32)[..., 0]
    shapes: dict[int, QPainterPath] = {}
    for row in range(height):
        edges = np.flatnonzero(np.diff(packed[row])) + 1
        for start, end in zip((0, *edges), (*edges, width), strict=True):
            if pixels[row, start, 3]:
                shape = shapes.setdefault(int(packed[row, start]), QPainterPath())
                shape.addRect(box.left() + start * across, box.top() + row * down, (end - start) * across, down)
    for colour, shape in shapes.items():
        red, green, blue, alpha = colour.to_bytes(4, "little")
        painter.fillPath(shape, QColor(red, green, blue, alpha))


def to_image(pixels: Bytes) -> QImage:
    """Copy [h, w, 4] RGBA bytes into an image of its own."""
    height, width, _ = pixels.shape
    contiguous = np.ascontiguousarray(pixels)
    return QImage(contiguous.data, width, height, 4 * width, QImage.Format.Format_RGBA8888).copy()


Cells = TypeVar("Cells", NDArray[np.float32], Bytes)


def resampled(values: Cells, height: int, width: int) -> Cells:
    """Fit the last two axes to a number of pixels: cells are repeated, or the largest of those under a pixel is kept.

    NaN (masked) cells count only where a pixel covers nothing else.
    """
    return _fitted(_fitted(values, height, -2), width, -1)


def _fitted(values: Cells, size: int, axis: int) -> Cells:
    cells = values.shape[axis]
    if size >= cells:
        repeated: Cells = np.take(values, np.arange(size) * cells // size, axis=axis)
        return repeated
    starts = np.arange(size) * cells // size
    with np.errstate(invalid="ignore"):
        fitted: Cells = np.fmax.reduceat(values, starts, axis=axis)
    return fitted
