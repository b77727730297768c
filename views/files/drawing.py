"""A widget as an SVG drawing: shapes and text as Qt writes them, put right where Qt's file says it wrongly.

Qt's generator knows no clip but a painter's own, and writes that in the coordinates of the widget that was painted. So
each widget is painted by itself, after a mark, and gets the part of it that can be seen as a clip.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from PySide6.QtCore import QBuffer, QIODevice, QPoint, QPointF, QRect, QSize
from PySide6.QtGui import QFont, QFontMetricsF, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from ropewalk.app.files.provenance import Provenance
from ropewalk.views.files.parts import parts_of
from ropewalk.views.style import theme

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
FALLBACKS: Final = {theme.SANS: "Inter, Helvetica, Arial, sans-serif", theme.MONO: "JetBrains Mono, monospace"}
"""What a reader takes that does not have the fonts."""
MARK: Final = "\ue000"
"""Begins the text that stands before what a widget paints; its number follows."""


def draw_svg(widget: QWidget, about: Provenance, scale: int = 1) -> Callable[[], bytes]:
    """Paint shapes and text now; returns what makes the bytes of an SVG 1.1, on any thread."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)  # the other version cannot clip
    generator.setOutputDevice(buffer)
    generator.setResolution(96)
    generator.setSize(widget.size())
    generator.setViewBox(QRect(QPoint(), widget.size()))
    painter = QPainter(generator)
    painter.fillRect(QRect(QPoint(), widget.size()), theme.current().window)
    places: list[tuple[QPoint, QRect | None]] = []
    for number, part in enumerate(parts_of(widget)):
        painter.setPen(theme.current().text)
        painter.drawText(QPointF(), f"{MARK}{number}")
        part.render(painter, part.at)
        places.append((part.at, part.clip))
    painter.end()
    written, size = bytes(buffer.data().data()).decode("utf-8"), widget.size()
    return lambda: finished(written, size, places, about)


# ----------------------------------------------------------------------------------------------------------------------
# Putting it right


def finished(written: str, size: QSize, places: list[tuple[QPoint, QRect | None]], about: Provenance) -> bytes:
    """What Qt wrote, clipped, with its provenance, its size in pixels, fonts to fall back to, and widths of texts."""
    for prefix, space in (("", SVG), ("xlink", XLINK)):
        ElementTree.register_namespace(prefix, space)
    root = ElementTree.fromstring(re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", written))
    root.set("width", str(size.width()))
    root.set("height", str(size.height()))
    _clip(root, places)
    for tag, text in (("metadata", about.json), ("desc", about.text), ("title", about.title)):
        for old in root.findall(_tag(tag)):
            root.remove(old)
        element = Element(_tag(tag))
        element.text = text
        root.insert(0, element)
    for words in root.iter(_tag("text")):
        _settle_text(words)
    for image in root.iter(_tag("image")):
        image.set("style", "image-rendering:pixelated")
    for element in root.iter():
        family = element.get("font-family")
        if family in FALLBACKS:
            element.set("font-family", f"{family}, {FALLBACKS[family]}")
    _drop_empty(root)
    finished: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return finished


def _tag(name: str) -> str:
    return f"{{{SVG}}}{name}"


def _clip(root: Element, places: list[tuple[QPoint, QRect | None]]) -> None:
    """Gather what each widget painted into a group that ends where the widget does; take the marks out."""
    paths = {one.get("id"): one for one in root.iter(_tag("clipPath"))}
    defs = root.find(_tag("defs"))
    painted = root.find(_tag("g"))
    assert defs is not None
    assert painted is not None
    group = painted
    for child in list(painted):
        number = _mark(child)
        if number is not None:
            at, seen = places[number]
            group = Element(_tag("g"))
            if seen is not None:
                group.set("clip-path", f"url(#widget{number})")
                clip = ElementTree.SubElement(defs, _tag("clipPath"), {"id": f"widget{number}"})
                box = {"x": seen.x(), "y": seen.y(), "width": seen.width(), "height": seen.height()}
                ElementTree.SubElement(clip, _tag("rect"), {name: str(value) for name, value in box.items()})
            painted.remove(child)
            painted.append(group)
        elif group is not painted:
            painted.remove(child)
            own = child.get("clip-path") or ""
            if own and len(group) and group[-1].get("clip-path") == own:
                group[-1].extend(child)  # one clip for all that is painted under it
                continue
            group.append(child)
            for path in paths.pop(own[5:-1], ()):
                path.set("transform", f"translate({at.x()},{at.y()})")


def _mark(element: Element) -> int | None:
    """The number of the widget that a mark announces, None where it is something painted.

    Where widgets paint nothing their marks stand together; the last of them counts.
    """
    texts = [words.text or "" for words in element.iter(_tag("text"))]
    marks = [text[len(MARK) :] for text in texts if text.startswith(MARK)]
    return int(marks[-1]) if marks else None


def _settle_text(element: Element) -> None:
    """Say how wide a text is, so that it keeps its place in whatever font it is drawn."""
    content = "".join(element.itertext())
    font = QFont(element.get("font-family", theme.SANS))
    font.setPixelSize(max(round(float(element.get("font-size", "13"))), 1))
    font.setWeight(QFont.Weight(int(element.get("font-weight", "400"))))
    font.setItalic(element.get("font-style") == "italic")
    width = QFontMetricsF(font).horizontalAdvance(content)
    if content.strip() and width > 0:
        element.set("textLength", f"{width:.2f}")
        element.set("lengthAdjust", "spacingAndGlyphs")


def _drop_empty(parent: Element) -> None:
    """Leave out the groups that Qt opened for a change of pen and drew nothing in, and clips of what is gone."""
    for child in list(parent):
        _drop_empty(child)
        if child.tag == _tag("g") and not len(child):
            parent.remove(child)
