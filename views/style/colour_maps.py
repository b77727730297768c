"""The tables of colours that a number without a sign can be drawn in; each grows lighter all the way.

And colours to tell things of a kind apart, such as heads.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QColor

from ropewalk.model.readings.viridis import viridis

COLOUR_MAPS = {
    "viridis": "viridis",
    "cividis": "cividis (for every eye)",
    "magma": "magma",
    "inferno": "inferno",
    "plasma": "plasma",
    "CET-L1": "grey",
}
"""Names, as pyqtgraph has them, and what a person reads."""


@lru_cache(maxsize=len(COLOUR_MAPS))
def colour_table(name: str) -> NDArray[np.uint8]:
    """Return the 256 colours of a map [256, 4] RGBA.

    Raises
    ------
    KeyError
        When there is no map of that name.
    """
    if name not in COLOUR_MAPS:
        raise KeyError(name)
    if name == "viridis":  # that of every start needs no file
        return viridis()
    from pyqtgraph import colormap

    table: NDArray[np.uint8] = np.full((256, 4), 255, dtype=np.uint8)
    table[:, :3] = colormap.get(name).getLookupTable(nPts=256, alpha=False)
    table.setflags(write=False)
    return table


LIGHTNESS = {"dark": (0.80, 0.64), "light": (0.44, 0.58)}
"""How light neighbours are in turn, so that they differ for an eye that sees no hue; by the theme they stand out in."""
CHROMA = 0.14
FIRST_HUE = 25.0


_TO_CONES = np.array(
    (
        (1, 0.3963377774, 0.2158037573),
        (1, -0.1055613458, -0.0638541728),
        (1, -0.0894841775, -1.2914855480),
    )
)
_TO_RGB = np.array(
    (
        (4.0767416621, -3.3077115913, 0.2309699292),
        (-1.2684380046, 2.6097574011, -0.3413193965),
        (-0.0041960863, -0.7034186147, 1.7076147010),
    )
)
"""From OKLab over what cones see to linear sRGB (Ottosson, 2020)."""


@lru_cache(maxsize=64)
def distinct(count: int, theme: str) -> tuple[QColor, ...]:
    """Return so many colours around a circle of OKLab, those of neighbours light and dark in turn."""
    number = np.arange(count)
    lightness, hue = np.take(LIGHTNESS[theme], number % 2), np.deg2rad(FIRST_HUE + 360 * number / max(count, 1))
    lab = np.stack((lightness, CHROMA * np.cos(hue), CHROMA * np.sin(hue)))
    linear = np.clip(_TO_RGB @ (_TO_CONES @ lab) ** 3, 0, 1)
    shown = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return tuple(QColor(*colour) for colour in np.rint(255 * shown).astype(int).T.tolist())
