"""A panel or the window as a picture file: PNG in as many pixels as asked for, SVG and PDF with text that is text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QPoint, QRect, QSizeF
from PySide6.QtGui import QImage, QPageSize, QPainter, QPdfWriter, QRegion
from PySide6.QtWidgets import QWidget

from ropewalk.app.files.provenance import Provenance, software
from ropewalk.model.errors import RopewalkError
from ropewalk.views.files.drawing import draw_svg
from ropewalk.views.files.parts import paint_parts
from ropewalk.views.style import theme

Encode = Callable[[], bytes]

SCALES: Final = (1, 2, 3, 4)
"""Pixels of a PNG for each one of the window, along a side."""

DOTS: Final = 96
"""Widget pixels in an inch of a page."""

ALL = QWidget.RenderFlag.DrawChildren | QWidget.RenderFlag.DrawWindowBackground


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


def draw_pdf(widget: QWidget, about: Provenance, scale: int = 1) -> Encode:
    """Paint shapes and text on one page of the widget's size."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    points = QSizeF(widget.size()) * 72 / DOTS
    writer = QPdfWriter(buffer)
    writer.setPageSize(QPageSize(points, QPageSize.Unit.Point, "", QPageSize.SizeMatchPolicy.ExactMatch))
    writer.setPageMargins(QMarginsF())
    describe_pdf(writer, about)
    painter = QPainter(writer)
    painter.fillRect(QRect(QPoint(), widget.size()), theme.current().window)
    paint_parts(painter, widget)
    painter.end()
    return lambda: bytes(buffer.data().data())


def describe_pdf(writer: QPdfWriter, about: Provenance) -> None:
    """Put a provenance into a PDF: its title, a description in its metadata, and all of it as an attached file."""
    writer.setResolution(DOTS)
    writer.setTitle(about.title)
    writer.setCreator(software())
    writer.setAuthor(software())
    writer.setDocumentXmpMetadata(QByteArray(about.xmp))
    writer.addFileAttachment("about.json", QByteArray(about.json.encode()), "application/json")


FORMATS: Final = (
    PictureFormat("png", "PNG picture", True, draw_png),
    PictureFormat("svg", "SVG drawing", False, draw_svg),
    PictureFormat("pdf", "PDF page", False, draw_pdf),
)
