"""Formulas as pictures: LaTeX drawn by ziamath as SVG, and that painted once for a size and a colour."""

from __future__ import annotations

import warnings
from functools import lru_cache

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

FINE = 2
"""Pixels of the picture for each one on screen, so that it stays sharp where the screen is dense."""
LARGEST = 4_000_000
"""Pixels of a formula on screen; a larger one is shown as it is written."""


@lru_cache(maxsize=512)
def formula_picture(latex: str, pixels: int, colour: str, inline: bool) -> QImage | None:
    """Draw a formula.

    Parameters
    ----------
    pixels
        Height of its type.
    colour
        Such as ``#ffffff``.
    inline
        Whether it stands in a line of words.

    Returns
    -------
    QImage | None
        None where it is no LaTeX that ziamath can draw; the caller then shows it as it is written.
    """
    svg = formula_svg(latex, pixels, colour, inline)
    renderer = QSvgRenderer(QByteArray(svg.encode()))
    size = renderer.defaultSize()
    if not svg or size.isEmpty() or size.width() * size.height() > LARGEST:
        return None
    image = QImage(size * FINE, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    renderer.render(painter)
    painter.end()
    return image


def formula_svg(latex: str, pixels: int, colour: str, inline: bool) -> str:
    """Draw a formula as SVG; empty where it is no LaTeX that ziamath can draw."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # ziamath reads its font by an older way of importlib
        from latex2mathml import exceptions
        from ziamath.config import config
        from ziamath.zmath import Latex
    config.svg2 = False  # Qt draws SVG Tiny, which has no symbols to reuse
    kinds = [kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    latex = latex.replace(r"\bmod", r"\;\mathrm{mod}\;")  # ziamath leaves no room around it
    python = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError, ValueError)
    broken: tuple[type[Exception], ...] = (*python, *kinds)  # the XML it cannot read is a SyntaxError
    try:
        return str(Latex(latex, size=pixels, color=colour, inline=inline).svg())
    except broken:
        return ""
