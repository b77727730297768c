"""A widget as an SVG drawing: shapes and text as Qt writes them, for ``app.files.svg_file`` to put right."""

from __future__ import annotations

import re
from html import unescape
from typing import Final

from PySide6.QtCore import QBuffer, QIODevice, QPoint, QPointF, QRect
from PySide6.QtGui import QFont, QFontMetricsF
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from ropewalk.app.files.provenance import Provenance
from ropewalk.app.files.requests import FinishSvg, SvgPart
from ropewalk.app.files.svg_file import MARK, harmless
from ropewalk.views.files.figure import Figure
from ropewalk.views.files.parts import painting, parts_of
from ropewalk.views.style import theme

FALLBACKS: Final = (
    (theme.SANS, "Inter, Helvetica, Arial, sans-serif"),
    (theme.MONO, "JetBrains Mono, monospace"),
)
"""What a reader takes that does not have the fonts."""
TEXT: Final = re.compile(r"(<text\b[^>]*)>([^<]*)</text>")
ATTRIBUTE: Final = re.compile(r'([\w-]+)="([^"]*)"')


def draw_svg(widget: QWidget, about: Provenance, figure: Figure | None = None) -> FinishSvg:
    """Paint shapes and text of an SVG 1.1, of a widget or of the figure that is made of it."""
    size = widget.size() if figure is None else figure.size
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)  # the other version cannot clip
    generator.setOutputDevice(buffer)
    generator.setResolution(96)
    generator.setSize(size)
    generator.setViewBox(QRect(QPoint(), size))
    parts: list[SvgPart] = []
    with painting(generator) as painter:
        painter.fillRect(QRect(QPoint(), size), theme.current().window if figure is None else theme.current().panel)
        for number, part in enumerate(parts_of(widget, None if figure is None else figure.hides)):
            painter.setPen(theme.current().text)
            painter.drawText(QPointF(), f"{MARK}{number}")
            part.render(painter, part.at)
            clip = part.clip
            seen = None if clip is None else (clip.x(), clip.y(), clip.width(), clip.height())
            parts.append(SvgPart(part.at.x(), part.at.y(), seen))
        if figure is not None:
            painter.setPen(theme.current().text)
            painter.drawText(QPointF(), f"{MARK}{len(parts)}")
            figure.paint_foot(painter)
            parts.append(SvgPart(0, 0, None))
    drawn = TEXT.sub(_measured, bytes(buffer.data().data()).decode("utf-8"))
    return FinishSvg(drawn, size.width(), size.height(), tuple(parts), FALLBACKS, about)


def _measured(text: re.Match[str]) -> str:
    """Say how wide a text is, so that it keeps its place in whatever font it is drawn; only Qt can measure that."""
    content = harmless(unescape(text[2]))
    if not content.strip() or content.startswith(MARK):
        return text[0]
    look = {name: unescape(value) for name, value in ATTRIBUTE.findall(text[1])}
    font = QFont(look.get("font-family", theme.SANS))
    font.setPixelSize(max(round(float(look.get("font-size", "13"))), 1))
    font.setWeight(QFont.Weight(int(look.get("font-weight", "400"))))
    font.setItalic(look.get("font-style") == "italic")
    width = QFontMetricsF(font).horizontalAdvance(content)
    if width <= 0:
        return text[0]
    return f'{text[1]} textLength="{width:.2f}" lengthAdjust="spacingAndGlyphs">{text[2]}</text>'
