"""Small pictures for notebooks: an SVG with the cells in it as a PNG, axes of tokens, and the colours of the window.

No Qt here. Writing takes the colour of the page, so that it can be read on a light and on a dark one.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ropewalk.model.readings.viridis import viridis

SIDE = 360
"""Pixels along a picture of one head."""
MOST_LABELS = 40
"""Tokens that are named along an axis; of a longer run every n-th is."""
LONGEST_LABEL = 14
LETTER = 6.2
"""Pixels that a letter of 10 pixels takes."""
SIGNED = ((33, 102, 172), (247, 247, 247), (178, 24, 43))
"""Blue, white, red for numbers with a sign (Brewer's RdBu), which every eye tells apart."""


def coloured(values: NDArray[np.floating], low: float, high: float) -> NDArray[np.uint8]:
    """Numbers [h, w] as RGBA; what is NaN is left open."""
    place = np.nan_to_num((values - low) / ((high - low) or 1.0)).clip(0, 1)
    pixels: NDArray[np.uint8] = viridis()[np.rint(255 * place).astype(int)]
    pixels[np.isnan(values)] = 0
    return pixels


def coloured_signed(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Numbers [h, w] as RGBA about 0, which is white."""
    reach = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    place = np.nan_to_num(values / reach)
    table = [np.interp(place, (-1, 0, 1), [colour[channel] for colour in SIGNED]) for channel in range(3)]
    open_ = np.where(np.isnan(values), 0, 255)
    return np.asarray(np.rint(np.stack((*table, open_), axis=-1)), dtype=np.uint8)


def matrix(pixels: NDArray[np.uint8], rows: Sequence[str], columns: Sequence[str], title: str, side: int = SIDE) -> str:
    """Cells [h, w, 4] as one SVG with names along both axes, evenly spaced.

    Parameters
    ----------
    title
        What is written above it, and read out in its place.
    side
        Pixels of its longer side.
    """
    height, width = pixels.shape[:2]
    cell = max(side / max(height, width), 1.0)
    left = 8 + LETTER * max(map(len, _shortened(rows)), default=0)
    top = 22 + LETTER * max(map(len, _shortened(columns)), default=0)
    wide, high = cell * width, cell * height
    parts = [f'<text x="{left:.0f}" y="13" font-weight="bold">{escape(title)}</text>']
    parts.append(
        f'<image x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{_as_png(pixels)}"/>'
    )
    for at, name in _named(rows):
        y = top + (at + 0.5) * high / len(rows) + 3.5
        parts.append(f'<text x="{left - 4:.1f}" y="{y:.1f}" text-anchor="end">{escape(name)}</text>')
    for at, name in _named(columns):
        x = left + (at + 0.5) * wide / len(columns) + 3.5
        parts.append(f'<text transform="translate({x:.1f} {top - 4:.1f}) rotate(-90)">{escape(name)}</text>')
    size = f'width="{left + max(wide, LETTER * len(title)) + 8:.0f}" height="{top + high + 8:.0f}"'
    style = 'style="font:10px monospace;fill:currentColor;white-space:pre"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def head_maps(maps: Iterable[tuple[str, NDArray[np.uint8]]], side: int = 160) -> str:
    """Several maps of layers and heads, each a title and its cells [L, H, 4], one after another."""
    return "".join(
        matrix(
            cells,
            [f"L{row}" for row in range(cells.shape[0])],
            [f"H{head}" for head in range(cells.shape[1])],
            title,
            side,
        )
        for title, cells in maps
    )


def mosaic(pictures: NDArray[np.floating], gap: int = 1) -> NDArray[np.floating]:
    """Pictures [R, C, n, n] side by side as one [R · (n + gap), C · (n + gap)], NaN between them."""
    rows, columns, side, _ = pictures.shape
    spaced = np.full((rows, columns, side + gap, side + gap), np.nan, pictures.dtype)
    spaced[:, :, :side, :side] = pictures
    return spaced.transpose(0, 2, 1, 3).reshape(rows * (side + gap), columns * (side + gap))


def _named(names: Sequence[str]) -> list[tuple[int, str]]:
    """Where a name is written, and what, few enough to be read."""
    step = -(-len(names) // MOST_LABELS) if names else 1
    return [(at, name) for at, name in enumerate(_shortened(names)) if at % step == 0]


def _shortened(names: Sequence[str]) -> list[str]:
    return [name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…" for name in names]


def _as_png(pixels: NDArray[np.uint8]) -> str:
    """An image as the address of its own bytes."""
    kept = io.BytesIO()
    Image.fromarray(pixels).save(kept, "PNG")
    return "data:image/png;base64," + base64.b64encode(kept.getvalue()).decode()
