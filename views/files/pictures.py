"""A panel or the window as a picture file: PNG in as many pixels as asked for, SVG and PDF with text that is text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QPoint, QRect, QSizeF
from PySide6.QtGui import QImage, QPageSize, QPdfWriter, QRegion
from PySide6.QtWidgets import QWidget

from ropewalk.app.files.frames import Recording
from ropewalk.app.files.provenance import Provenance, software
from ropewalk.app.files.requests import EncodePng, WriteBytes, WriteSvg, Writing
from ropewalk.model.progress import Pauses, Progress, Steps, saying
from ropewalk.views.files import drawing
from ropewalk.views.files.figure import Figure
from ropewalk.views.files.parts import paint_parts, painting
from ropewalk.views.style import theme

Asked = TypeVar("Asked", bound=Writing)

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
        Paints a widget before it returns, in so many pixels for each one of its own where there are pixels; then comes,
        in steps, to what is to be asked for the file.
    """

    name: str
    title: str
    scaled: bool
    draw: Callable[[QWidget, Provenance, int, Path, Figure | None], Steps[Writing]]


def to_image(widget: QWidget, scale: float = 1, figure: Figure | None = None) -> QImage:
    """Paint a widget in ``scale`` × ``scale`` pixels for each one of its own: drawn finer, not stretched."""
    size = widget.size() if figure is None else figure.size
    image = QImage(math.ceil(size.width() * scale), math.ceil(size.height() * scale), QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(theme.current().window if figure is None else theme.current().panel)
    with painting(image) as painter:
        if figure is None:
            widget.render(painter, QPoint(), QRegion(), ALL)
        else:
            paint_parts(painter, widget, figure.hides)
            figure.paint_foot(painter)
    image.setDevicePixelRatio(1)
    return image


def recording_pauses(recording: Recording, image: QImage, milliseconds: int = 0) -> Pauses[None]:
    """Append a painted picture to a recording."""
    yield from recording.adding(image.width(), image.height(), memoryview(image.constBits()), milliseconds)


def draw_png(
    widget: QWidget, about: Provenance, scale: int, path: Path, figure: Figure | None = None
) -> Steps[EncodePng]:
    """Paint pixels; they are handed on in a file, which takes as long as painting where there are many."""
    return _png_steps(to_image(widget, scale, figure), about, scale, path)


def _png_steps(image: QImage, about: Provenance, scale: int, path: Path) -> Steps[EncodePng]:
    recording = Recording()
    try:
        yield from saying(Progress(1, 2, "Drawing"), recording_pauses(recording, image))
        return EncodePng(path, recording.taken(), round(DOTS * scale / 0.0254), about)
    except BaseException:
        recording.drop()
        raise


def draw_svg(
    widget: QWidget, about: Provenance, scale: int, path: Path, figure: Figure | None = None
) -> Steps[WriteSvg]:
    """Paint shapes and text."""
    return _at_once(WriteSvg(path, drawing.draw_svg(widget, about, figure)))


def draw_pdf(
    widget: QWidget, about: Provenance, scale: int, path: Path, figure: Figure | None = None
) -> Steps[WriteBytes]:
    """Paint shapes and text on one page of the picture's size."""
    size = widget.size() if figure is None else figure.size
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    points = QSizeF(size) * 72 / DOTS
    writer = QPdfWriter(buffer)
    writer.setPageSize(QPageSize(points, QPageSize.Unit.Point, "", QPageSize.SizeMatchPolicy.ExactMatch))
    writer.setPageMargins(QMarginsF())
    describe_pdf(writer, about)
    with painting(writer) as painter:
        painter.fillRect(QRect(QPoint(), size), theme.current().window if figure is None else theme.current().panel)
        paint_parts(painter, widget, None if figure is None else figure.hides)
        if figure is not None:
            figure.paint_foot(painter)
    return _at_once(WriteBytes(path, bytes(buffer.data().data())))


def _at_once(request: Asked) -> Steps[Asked]:
    yield from ()
    return request


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
