"""How seconds and bytes grow with T, both axes logarithmic, as a picture for docs/performance.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from tests.benchmarks.peers.figures import EAGER, LONG, MEMORY, PEAK, PEERS, PREFILL, TIME
from tests.benchmarks.peers.report import Figure, bytes_written, written

WIDTH, HEIGHT, MARGIN = 1600, 720, 90
INK, FAINT, GROUND = "#1f2328", "#d8dee4", "#ffffff"
COLOURS = {
    "Ropewalk": "#0969da",
    "plain forward": "#6e7781",
    EAGER: "#bc4c00",
    "TransformerLens": "#8250df",
}


@dataclass(frozen=True)
class Curve:
    """One line: points (T, value) in order of T."""

    name: str
    points: tuple[tuple[float, float], ...]


def time_curves(figures: Sequence[Figure]) -> list[Curve]:
    """Seconds of a prefill against T, ours and the peers'."""
    streamed = [(one.tokens, one.ours) for one in figures if one.section == LONG and one.what == "capture in slices"]
    captured = [(one.tokens, one.ours) for one in figures if one.section == PREFILL and one.what == "capture"]
    known = {tokens for tokens, _ in captured}
    ours = captured + [point for point in streamed if point[0] not in known]
    plain = [(one.tokens, one.peer) for one in figures if one.section == PREFILL and one.what == "capture"]
    return _curves({"Ropewalk": ours, "plain forward": plain, **_peers(figures, TIME)})


def memory_curves(figures: Sequence[Figure]) -> list[Curve]:
    """Peak bytes of a prefill beyond the weights against T."""
    handle = [(one.tokens, one.ours) for one in figures if one.section == MEMORY and one.what == "peak in slices"]
    known = {tokens for tokens, _ in handle}
    long = [(one.tokens, one.ours) for one in figures if one.section == LONG and one.what == "peak memory"]
    ours = handle + [point for point in long if point[0] not in known]
    return _curves({"Ropewalk": ours, **_peers(figures, PEAK)})


def _peers(figures: Sequence[Figure], what: str) -> dict[str, list[tuple[int, float | None]]]:
    found: dict[str, list[tuple[int, float | None]]] = {}
    for one in figures:
        if one.section == PEERS and one.what == what:
            found.setdefault(one.peer_name, []).append((one.tokens, one.peer))
    return found


def _curves(named: dict[str, list[tuple[int, float | None]]]) -> list[Curve]:
    curves = []
    for name, points in named.items():
        known = sorted((float(tokens), value) for tokens, value in points if value)
        if known:
            curves.append(Curve(name, tuple(known)))
    return curves


def draw_growth(figures: Sequence[Figure], out: Path) -> None:
    """Write the picture."""
    image = Image.new("RGB", (WIDTH, HEIGHT), GROUND)
    brush = ImageDraw.Draw(image)
    half = WIDTH // 2
    _panel(brush, (0, half), "seconds to run a prompt", time_curves(figures), lambda value: written(value, "s"))
    _panel(brush, (half, WIDTH), "peak memory beyond the weights", memory_curves(figures), bytes_written)
    image.save(out)


def _panel(brush: Any, across: tuple[int, int], title: str, curves: list[Curve], label: Any) -> None:
    from PIL import ImageFont

    font, large = ImageFont.load_default(18), ImageFont.load_default(24)
    left, right, top, bottom = across[0] + MARGIN + 20, across[1] - 30, MARGIN, HEIGHT - MARGIN
    brush.text((left, 30), title, fill=INK, font=large)
    points = [point for curve in curves for point in curve.points]
    if not points:
        brush.text((left, top), "nothing was measured", fill=INK, font=font)
        return
    xs = _span([x for x, _ in points], 2.0)
    ys = _span([y for _, y in points], 10.0)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            left + (right - left) * (math.log(x) - math.log(xs[0])) / (math.log(xs[1]) - math.log(xs[0])),
            bottom - (bottom - top) * (math.log(y) - math.log(ys[0])) / (math.log(ys[1]) - math.log(ys[0])),
        )

    for power in range(round(math.log10(ys[0])), round(math.log10(ys[1])) + 1):
        _, y = place(xs[0], 10.0**power)
        brush.line((left, y, right, y), fill=FAINT)
        brush.text((left - 10, y), label(10.0**power), fill=INK, font=font, anchor="rm")
    for tokens in sorted({x for x, _ in points}):
        x, _ = place(tokens, ys[0])
        brush.line((x, top, x, bottom), fill=FAINT)
        brush.text((x, bottom + 12), f"{tokens:,.0f}", fill=INK, font=font, anchor="mt")
    brush.text(((left + right) / 2, bottom + 44), "tokens T", fill=INK, font=font, anchor="mt")
    for number, curve in enumerate(curves):
        colour = COLOURS.get(curve.name, INK)
        line = [place(x, y) for x, y in curve.points]
        brush.line(line, fill=colour, width=3)
        for x, y in line:
            brush.ellipse((x - 5, y - 5, x + 5, y + 5), fill=colour)
        brush.text((left + 14, top + 10 + 26 * number), curve.name, fill=colour, font=font)


def _span(values: list[float], base: float) -> tuple[float, float]:
    """Whole powers of ``base`` around the values."""
    low = base ** math.floor(math.log(min(values), base) + 1e-9)
    high = base ** math.ceil(math.log(max(values), base) - 1e-9)
    return low, high if high > low else low * base
