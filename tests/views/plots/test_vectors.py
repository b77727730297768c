"""In a vector file a map is shapes and text, or a picture with whole blocks of pixels; nothing of it is blurred."""

from __future__ import annotations

import base64
import io
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QBuffer, QIODevice, QPoint, QRect
from PySide6.QtGui import QPainter
from PySide6.QtSvg import QSvgGenerator
from pytestqt.qtbot import QtBot

from ropewalk.views.files.parts import parts_of
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.plots.plot_view import PlotView
from ropewalk.views.style import theme

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"


def drawn(plot: PlotView) -> ElementTree.Element:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)
    generator.setOutputDevice(buffer)
    generator.setResolution(96)
    generator.setSize(plot.size())
    generator.setViewBox(QRect(QPoint(), plot.size()))
    painter = QPainter(generator)
    for part in parts_of(plot):
        part.render(painter, part.at)
    painter.end()
    return ElementTree.fromstring(buffer.data().data())


def shown(qtbot: QtBot, size: int) -> Heatmap:
    heatmap = Heatmap("weights")
    qtbot.addWidget(heatmap)
    heatmap.resize(420, 460)
    values = np.random.default_rng(1).random((size, size)).astype(np.float32)
    heatmap.set_data(values, np.tril(np.ones((size, size), np.bool_)), (0, size), (0, size))
    heatmap.set_labels(tuple(f"token{i}" for i in range(size)))
    heatmap.set_selection(size - 2, 1)
    heatmap.show()
    return heatmap


def images(root: ElementTree.Element) -> list[Image.Image]:
    found = [element.get(LINK, "").partition("base64,")[2] for element in root.iter(f"{SVG}image")]
    return [Image.open(io.BytesIO(base64.b64decode(code))) for code in found]


def test_cells_that_can_be_counted_are_shapes_in_their_colours(qtbot: QtBot) -> None:
    heatmap = shown(qtbot, 8)
    root = drawn(heatmap)
    filled = {group.get("fill") for group in root.iter(f"{SVG}g") if group.find(f"{SVG}path") is not None}
    for query, key in ((0, 0), (5, 3), (7, 7)):
        colour = heatmap.data.colour(query, key)
        assert colour is not None
        assert colour.name() in filled
    text = " ".join("".join(element.itertext()) for element in root.iter(f"{SVG}text"))
    assert all(word in text for word in ("weights", "token0", "token7", "1.00"))


def test_a_line_is_as_wide_as_on_the_screen(qtbot: QtBot) -> None:
    heatmap = shown(qtbot, 8)
    root = drawn(heatmap)
    for group in root.iter(f"{SVG}g"):
        if group.get("stroke") not in (None, "none") and len(group):
            matrix = [float(part) for part in group.get("transform", "matrix(1,0,0,1,0,0)")[7:-1].split(",")]
            width = float(group.get("stroke-width", "1"))
            assert max(matrix[0], matrix[3]) * width <= 6
    accent = theme.current().accent.name()
    ends = [group for group in root.iter(f"{SVG}g") if group.get("fill") == accent and len(group)]
    assert ends, "the ends of the colour bar"


@pytest.mark.parametrize("size", [200, 384])
def test_more_cells_are_a_picture_in_which_each_is_a_block_of_pixels(qtbot: QtBot, size: int) -> None:
    heatmap = shown(qtbot, size)
    picture = max(images(drawn(heatmap)), key=lambda image: image.width * image.height)
    times = picture.width // size
    assert picture.size == (times * size, times * size)
    assert times * size >= 3 * heatmap.plot.width()
    pixels = np.asarray(picture.convert("RGBA"))
    assert (pixels[::times, ::times] == pixels[times - 1 :: times, times - 1 :: times]).all()
    colour = heatmap.data.colour(size - 1, 3)
    assert colour is not None
    assert pixels[times * (size - 1), 3 * times].tolist() == list(colour.getRgb())  # type: ignore[call-overload]
