"""The hands of a plane: a query's and a key's pair of features as directions in a circle, and their turn in words."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from ropewalk.model.readings.records import Doubles, PlaneReading
from ropewalk.views.plots.rotation.turning import Turned, lengths
from ropewalk.views.style import ink, theme, wording

SHORTEST = 0.3
"""How much of its circle a hand is drawn long at least: a direction can be read however short it is."""


def radii(reading: PlaneReading) -> Doubles:
    """[F] the length that fills each plane's circle: that of its longer hand, before or after rotation."""
    r, factor = reading, max(reading.factor, 1.0)
    longer: Doubles = np.maximum(lengths(r.q_before, factor), lengths(r.k_before, factor))
    return np.where(longer > 0, longer, 1.0)


def end_of(centre: QPointF, radius: float, pair: Doubles, whole: float) -> tuple[QPointF, bool]:
    """Where a hand ends, and whether it is drawn longer than it is; ``radius`` stands for the length ``whole``."""
    a, b = float(pair[0]), float(pair[1])
    length = math.hypot(a, b)
    if length == 0:
        return QPointF(centre), True
    drawn = radius * max(length / whole, SHORTEST) / length
    return centre + QPointF(a * drawn, -b * drawn), length / whole < SHORTEST


def draw_hand(
    painter: QPainter, centre: QPointF, end: QPointF, colour: QColor, width: float, hollow: bool = False
) -> None:
    """Draw a hand with a dot at its end; the dot is hollow where the hand is shorter than it is drawn."""
    painter.setPen(QPen(colour, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    painter.drawLine(centre, end)
    painter.setPen(QPen(colour, max(0.6 * width, 1)) if hollow else Qt.PenStyle.NoPen)
    painter.setBrush(theme.current().field if hollow else colour)
    painter.drawEllipse(end, 1.3 * width, 1.3 * width)


def draw_ghost(painter: QPainter, centre: QPointF, end: QPointF, colour: QColor, width: float) -> None:
    """Draw where a hand was before rotation."""
    painter.setPen(QPen(ink.faded(colour, 0.6), width, Qt.PenStyle.DashLine))
    painter.drawLine(centre, end)


def draw_arc(painter: QPainter, centre: QPointF, radius: float, start: Doubles, angle: float, pen: QPen) -> None:
    """Draw an arc from a pair's direction on, counterclockwise for a positive angle in radians."""
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    box = QRectF(centre.x() - radius, centre.y() - radius, 2 * radius, 2 * radius)
    degrees = math.degrees(math.atan2(float(start[1]), float(start[0])))
    painter.drawArc(box, round(16 * degrees), round(16 * math.degrees(angle)))


def in_degrees(radians: float) -> str:
    """Write an angle in degrees."""
    degrees = round(math.degrees(radians), 1) + 0.0  # no minus before nothing
    return f"{degrees:.1f}°".replace("-", wording.MINUS)


def speed(theta: float) -> str:
    """Write how many degrees a plane turns in a position."""
    return f"{wording.significant(math.degrees(theta), 4)}°"


def place(position: float) -> str:
    """Write a position, a part of one while it turns."""
    return f"{position:.2f}".rstrip("0").rstrip(".").replace("-", wording.MINUS)


def wavelength(theta: float) -> str:
    """Write after how many positions a plane has turned once."""
    turn = abs(2 * math.pi / theta) if theta else math.inf
    if not math.isfinite(turn):
        return "∞"
    return f"{turn:.1f}" if turn < 100 else wording.count(round(turn))


def share(value: float) -> str:
    """Write what a plane adds to the score: as many decimals for all planes."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", wording.MINUS)


def angle_words(turned: Turned, plane: int, content: float) -> tuple[str, ...]:
    """Write out the angle from k to q: what the contents make of it, what the positions add, and whole turns."""
    r, between, more = turned.reading, float(turned.between[plane]), float(turned.from_distance[plane])
    theta = float(r.query_frequencies[plane])
    if theta == float(r.key_frequencies[plane]):
        added = f" + distance {place(turned.distance)} × {speed(theta)}"
    else:  # the rule depends on the length, so query and key do not turn equally fast
        added = f" + positions {in_degrees(more)}"
    turns = round((content + more - between) / (2 * math.pi))
    whole = f" {wording.MINUS if turns > 0 else '+'} {abs(turns)} × 360°" if turns else ""
    return f"angle {in_degrees(between)}", f" = content {in_degrees(content)}", added, whole


def share_words(turned: Turned, plane: int) -> tuple[str, ...]:
    """Write out what a plane adds to the score."""
    r, here = turned.reading, slice(plane, plane + 1)
    q, k = (wording.number(float(lengths(pairs[here])[0])) for pairs in (turned.q_after, turned.k_after))
    product = f" = {q} × {k} × cos {in_degrees(float(turned.between[plane]))} × {wording.significant(r.scale)}"
    return "adds |q||k| cos(angle) × scale", product, f" = {wording.number(float(turned.shares[plane]))}"


def pair_words(name: str, before: Doubles, after: Doubles) -> tuple[str, ...]:
    """Write out one hand's features before and after rotation, and how long it is."""
    ends = [", ".join(wording.number(float(value)) for value in pair) for pair in (before, after)]
    return f"|{name}| = {wording.number(math.hypot(*after))}:", f" ({ends[0]})", f" → ({ends[1]})"


WIDEST = (
    ("angle −000.0°", " = content −000.0°", " + distance 0000.00 × 0.000000°", " − 000 × 360°"),
    ("adds |q||k| cos(angle) × scale", " = 00.000 × 00.000 × cos −000.0° × 0.000", " = −00.000"),
    ("|q| = 00.000:", " (−00.000, −00.000)", " → (−00.000, −00.000)"),
    ("|k| = 00.000:", " (−00.000, −00.000)", " → (−00.000, −00.000)"),
)
"""These words at their longest: nothing may be arranged anew while the hands turn."""
