"""A panel or the window as a picture file: PNG in as many pixels as asked for, SVG and PDF with text that is text.

It owns the formats, one entry each, and how a widget is painted into them. It must not know sessions, nor where a
file goes: drawing gives a function that makes the bytes, which may be called on another thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QPoint, QRect, QSize, QSizeF
from PySide6.QtGui import QFont, QFontMetricsF, QImage, QPageSize, QPainter, QPdfWriter, QRegion
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from app.provenance import Provenance, software
from model.errors import RopewalkError
from views import theme

Encode = Callable[[], bytes]

SCALES: Final = (1, 2, 3, 4)
"""Pixels of a PNG for each one of the window, along a side."""

DOTS = 96
"""Widget pixels in an inch of a page."""

ALL = QWidget.RenderFlag.DrawChildren | QWidget.RenderFlag.DrawWindowBackground

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
FALLBACKS: Final = {theme.SANS: "Inter, Helvetica, Arial, sans-serif", theme.MONO: "JetBrains Mono, monospace"}
"""What a reader takes that does not have the fonts."""


@dataclass(frozen=True)
class PictureFormat:
    """One kind of file.

    Attributes
    ----------
    name
        Its suffix, without the dot.
    title
        What a person reads in the list of formats.
    scaled
        Whether it has pixels, so that a scale can be chosen.
    draw
        Paints a widget now, on the GUI thread, and returns what makes the file's bytes, on any thread.
    """

    name: str
    title: str
    scaled: bool
    draw: Callable[[QWidget, Provenance, int], Encode]


def to_image(widget: QWidget, scale: int = 1) -> QImage:
    """Paint a widget in ``scale`` × ``scale`` pixels for each one of its own: drawn finer, not stretched."""
    image = QImage(widget.size() * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(theme.current().window)
    painter = QPainter(image)
    widget.render(painter, QPoint(), QRegion(), ALL)
    painter.end()
    image.setDevicePixelRatio(1)
    return image


def draw_png(widget: QWidget, about: Provenance, scale: int = 1) -> Encode:
    """Paint pixels; the provenance goes into text chunks."""
    image = to_image(widget, scale)
    inches = DOTS * scale / 0.0254
    image.setDotsPerMeterX(round(inches))
    image.setDotsPerMeterY(round(inches))
    for name, text in (("Title", about.title), *about.lines, ("Description", about.text)):
        image.setText(name, text)
    return lambda: encoded(image)


def encoded(image: QImage) -> bytes:
    """An image as the bytes of a PNG.

    Raises
    ------
    RopewalkError
        When it cannot be encoded.
    """
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    if not image.save(buffer, "PNG"):  # type: ignore[call-overload]
        raise RopewalkError(f"The picture of {image.width()} × {image.height()} pixels could not be encoded as PNG.")
    return bytes(buffer.data().data())


# ----------------------------------------------------------------------------------------------------------------------
# Vector files


def draw_svg(widget: QWidget, about: Provenance, scale: int = 1) -> Encode:
    """Paint shapes and text as SVG 1.1."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)  # the other version cannot clip
    generator.setOutputDevice(buffer)
    generator.setResolution(DOTS)
    generator.setSize(widget.size())
    generator.setViewBox(QRect(QPoint(), widget.size()))
    _paint(generator, widget)
    written = bytes(buffer.data().data()).decode("utf-8")
    size = widget.size()
    return lambda: finished_svg(written, size, about)


def finished_svg(written: str, size: QSize, about: Provenance) -> bytes:
    """An SVG as Qt wrote it, with its provenance, its size in pixels, fonts to fall back to, and widths of text."""
    for prefix, space in (("", SVG), ("xlink", XLINK)):
        ElementTree.register_namespace(prefix, space)
    root = ElementTree.fromstring(re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", written))
    root.set("width", str(size.width()))
    root.set("height", str(size.height()))
    for tag, text in (("metadata", about.json), ("desc", about.text), ("title", about.title)):
        for old in root.findall(f"{{{SVG}}}{tag}"):
            root.remove(old)
        element = ElementTree.Element(f"{{{SVG}}}{tag}")
        element.text = text
        root.insert(0, element)
    for words in root.iter(f"{{{SVG}}}text"):
        _settle_text(words)
    for image in root.iter(f"{{{SVG}}}image"):
        image.set("style", "image-rendering:pixelated")
    for element in root.iter():
        family = element.get("font-family")
        if family in FALLBACKS:
            element.set("font-family", f"{family}, {FALLBACKS[family]}")
    _drop_empty(root)
    finished: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return finished


def _settle_text(element: ElementTree.Element) -> None:
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


def _drop_empty(parent: ElementTree.Element) -> None:
    """Leave out the groups that Qt opened for a change of pen and drew nothing in."""
    for child in list(parent):
        _drop_empty(child)
        if child.tag == f"{{{SVG}}}g" and not len(child):
            parent.remove(child)


def draw_pdf(widget: QWidget, about: Provenance, scale: int = 1) -> Encode:
    """Paint shapes and text on one page of the widget's size."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    points = QSizeF(widget.size()) * 72 / DOTS
    writer = QPdfWriter(buffer)
    writer.setPageSize(QPageSize(points, QPageSize.Unit.Point, "", QPageSize.SizeMatchPolicy.ExactMatch))
    writer.setPageMargins(QMarginsF())
    describe_pdf(writer, about)
    _paint(writer, widget)
    return lambda: bytes(buffer.data().data())


def describe_pdf(writer: QPdfWriter, about: Provenance) -> None:
    """Put a provenance into a PDF: its title, a description in its metadata, and all of it as an attached file."""
    writer.setResolution(DOTS)
    writer.setTitle(about.title)
    writer.setCreator(software())
    writer.setAuthor(software())
    writer.setDocumentXmpMetadata(QByteArray(about.xmp))
    writer.addFileAttachment("about.json", QByteArray(about.json.encode()), "application/json")


def _paint(device: QSvgGenerator | QPdfWriter, widget: QWidget) -> None:
    painter = QPainter(device)
    painter.fillRect(QRect(QPoint(), widget.size()), theme.current().window)
    widget.render(painter, QPoint(), QRegion(), ALL)
    painter.end()


FORMATS: Final = (
    PictureFormat("png", "PNG picture", True, draw_png),
    PictureFormat("svg", "SVG drawing", False, draw_svg),
    PictureFormat("pdf", "PDF page", False, draw_pdf),
)
