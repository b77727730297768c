"""Pictures are opened again by independent readers and compared with what the engine says was on screen."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pypdf
import pypdfium2
import pytest
import resvg_py
from numpy.typing import NDArray
from PIL import Image
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.files.provenance import Provenance, provenance
from ropewalk.app.files.serving import serve
from ropewalk.model.progress import finished
from ropewalk.model.readings.readout import read_row
from ropewalk.views.files import pictures
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.scores import ScoresPanel
from ropewalk.views.plots.maps.levels import Levels
from ropewalk.views.style import ink, theme
from tests.in_process import trace_of
from tests.views.real_window import PROMPT, real_window

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def window(qapp: QApplication, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MainWindow]:
    """One for all tests here: they only look."""
    with real_window(tmp_path_factory.mktemp("window")) as opened:
        yield opened


@pytest.fixture
def scores(window: MainWindow) -> ScoresPanel:
    panel = window.panels["scores"]
    assert isinstance(panel, ScoresPanel)
    return panel


@pytest.fixture
def about(window: MainWindow) -> Provenance:
    return provenance(window.session, "Scores")


def made(name: str, widget: QWidget, about: Provenance, scale: int = 1) -> bytes:
    """Draw a widget, have the file made, and read it."""
    chosen = next(one for one in pictures.FORMATS if one.name == name)
    with tempfile.TemporaryDirectory() as folder:
        request = finished(chosen.draw(widget, about, scale, Path(folder) / f"made.{name}", None))
        path: Path = finished(serve(request, lambda point: None))
        return path.read_bytes()


def engine_colours(window: MainWindow) -> dict[tuple[int, int], tuple[int, int, int]]:
    """The colour of every visible cell's weight, from the engine's own number."""
    handle, now = window.session.handle, window.session.selection.now
    assert handle is not None
    colours = {}
    for query in range(handle.run.length):
        row = read_row(trace_of(handle)[now.layer], now.head, query)
        for key in np.flatnonzero(row.visible):
            index = Levels(0.0, 1.0).indices(np.array(row.weights[key]))
            red, green, blue, _ = (int(part) for part in theme.current().sequential[index])
            colours[query, int(key)] = red, green, blue
    return colours


def cell_points(panel: ScoresPanel, cell: tuple[int, int]) -> list[QPointF]:
    """Points of a cell near its corners, in the panel's coordinates, clear of the lines between cells."""
    box = QRectF(panel.weights.cell_rect(*cell)).translated(QPointF(panel.weights.mapTo(panel, QPointF(0, 0))))
    inset = 0.2 * box.width()
    inner = box.adjusted(inset, inset, -inset, -inset)
    return [inner.topLeft(), inner.topRight(), inner.bottomLeft(), inner.bottomRight()]


def unmarked(window: MainWindow, cells: dict[tuple[int, int], tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Cells that no crosshair touches."""
    now = window.session.selection.now
    return [cell for cell in cells if abs(cell[0] - now.query) > 1 and abs(cell[1] - now.key) > 1]


def token_texts(window: MainWindow) -> list[str]:
    run = window.session.run
    assert run is not None
    return [token.text for token in run.tokens]


@pytest.mark.parametrize("scale", pictures.SCALES)
def test_a_png_has_the_engines_colours_in_pixels_of_its_own(
    window: MainWindow, scores: ScoresPanel, about: Provenance, scale: int
) -> None:
    image = Image.open(io.BytesIO(made("png", scores, about, scale))).convert("RGB")
    assert image.size == (scores.width() * scale, scores.height() * scale)
    wanted = engine_colours(window)
    for cell in unmarked(window, wanted):
        for point in cell_points(scores, cell):
            assert image.getpixel((round(point.x() * scale), round(point.y() * scale))) == wanted[cell], cell


def test_a_larger_png_is_drawn_finer_not_stretched(scores: ScoresPanel, about: Provenance) -> None:
    fine = np.asarray(Image.open(io.BytesIO(made("png", scores, about, 4))).convert("L"), dtype=np.int16)
    blocks = fine.reshape(fine.shape[0] // 4, 4, fine.shape[1] // 4, 4).swapaxes(1, 2)
    stretched = blocks[:, :, :1, :1]
    edges = np.abs(blocks - stretched).max(axis=(2, 3)) > 100  # a stretched picture has none: a pixel becomes a block
    assert edges.sum() > 500


def test_thumbnails_and_planes_are_drawn_finer_too(window: MainWindow) -> None:
    for name in ("heads", "rope"):
        window.reveal(name)
        panel = window.panels[name]
        once, twice = pictures.to_image(panel), pictures.to_image(panel, 2)
        assert twice.size() == once.size() * 2
        smooth = once.scaled(twice.size())
        differing = sum(
            twice.pixel(x, y) != smooth.pixel(x, y)
            for x in range(0, twice.width(), 3)
            for y in range(0, twice.height(), 3)
        )
        assert differing > 100


def test_an_svg_has_cells_that_stay_sharp_and_text_that_is_text(
    window: MainWindow, scores: ScoresPanel, about: Provenance
) -> None:
    written = made("svg", scores, about)
    root = ElementTree.fromstring(written)
    text = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    assert "weights (softmax)" in text
    assert "row of query 23 s" in text
    image = rendered(written, 4)
    assert image.size == (4 * scores.width(), 4 * scores.height())
    wanted = engine_colours(window)
    for cell in unmarked(window, wanted):
        for point in cell_points(scores, cell):
            assert image.getpixel((round(point.x() * 4), round(point.y() * 4))) == wanted[cell], cell


def rendered(written: bytes, zoom: int) -> Image.Image:
    """An SVG as a reader draws it that takes the standard at its word."""
    png = resvg_py.svg_to_bytes(svg_string=written.decode(), zoom=zoom, skip_system_fonts=True)
    return Image.open(io.BytesIO(bytes(png))).convert("RGB")


class Spread(QWidget):
    """A widget that paints far beyond itself, with a clip of its own in the middle."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(QRectF(-500, -500, 2000, 2000), QColor("#ff0000"))
        painter.translate(5, 5)
        painter.setClipRect(QRectF(40, 40, 20, 20))
        painter.fillRect(QRectF(-500, -500, 2000, 2000), QColor("#0000ff"))
        painter.end()


@pytest.mark.parametrize("name", ["svg", "pdf"])
def test_what_cannot_be_seen_is_not_in_a_vector_file(qtbot: QtBot, name: str) -> None:
    outer = QWidget()
    qtbot.addWidget(outer)
    outer.resize(300, 200)
    area = QScrollArea(outer)
    area.setGeometry(100, 50, 150, 100)
    area.setFrameShape(QScrollArea.Shape.NoFrame)
    inner = Spread()
    inner.resize(400, 400)
    area.setWidget(inner)
    outer.show()
    area.verticalScrollBar().setValue(30)
    written = made(name, outer, Provenance("Scrolled", ()))
    if name == "svg":
        image = rendered(written, 1)
    else:
        document = pypdfium2.PdfDocument(written)
        image = document[0].render(scale=96 / 72).to_pil().convert("RGB")
        document.close()
    truth = outer.grab().toImage()
    for x in range(4, 300, 10):
        for y in range(4, 200, 10):
            wanted = truth.pixelColor(x, y)
            if (wanted.red(), wanted.green(), wanted.blue()) in ((255, 0, 0), (0, 0, 255)):
                assert image.getpixel((x, y)) == (wanted.red(), wanted.green(), wanted.blue()), (x, y)
            else:
                assert image.getpixel((x, y)) not in ((255, 0, 0), (0, 0, 255)), (x, y)


def test_a_pdf_has_cells_that_stay_sharp_and_text_that_can_be_copied(
    window: MainWindow, scores: ScoresPanel, about: Provenance
) -> None:
    written = made("pdf", scores, about)
    page = pypdf.PdfReader(io.BytesIO(written)).pages[0]
    assert (page.mediabox.width * 96 / 72, page.mediabox.height * 96 / 72) == pytest.approx(
        (scores.width(), scores.height()), abs=1.5
    )
    assert "weights (softmax)" in page.extract_text()
    document = pypdfium2.PdfDocument(written)
    image = document[0].render(scale=4 * 96 / 72).to_pil().convert("RGB")
    document.close()
    wanted = engine_colours(window)
    for cell in unmarked(window, wanted):
        for point in cell_points(scores, cell):
            assert image.getpixel((round(point.x() * 4), round(point.y() * 4))) == wanted[cell], cell


class Grid(QWidget):
    """A widget that is nothing but cells."""

    def __init__(self, cells: NDArray[np.uint8]) -> None:
        super().__init__()
        self.cells = cells
        self.resize(300, 300)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        ink.draw_cells(painter, QRectF(0, 0, 300, 300), self.cells)
        painter.end()


@pytest.mark.parametrize("side", [7, 150])
@pytest.mark.parametrize("name", ["svg", "pdf"])
def test_few_cells_are_rectangles_and_many_are_whole_blocks_of_pixels(qtbot: QtBot, name: str, side: int) -> None:
    cells = np.random.default_rng(side).integers(0, 256, (side, side, 4), np.uint8)
    cells[..., 3] = 255
    cells[1, 2, 3] = 0  # a masked cell shows the ground
    grid = Grid(cells)
    qtbot.addWidget(grid)
    about = Provenance("Grid", ())
    written = made(name, grid, about)
    if name == "svg":
        pixels = np.asarray(rendered(written, 4))
        paths = sum(len(e.get("d", "")) for e in ElementTree.fromstring(written).iter(f"{SVG}path"))
        assert (paths > 0) == (side == 7)
    else:
        document = pypdfium2.PdfDocument(written)
        pixels = np.asarray(document[0].render(scale=4 * 96 / 72).to_pil().convert("RGB"))
        document.close()
    pitch = 1200 / side
    window = theme.current().window
    ground = window.red(), window.green(), window.blue()
    for row in range(side):
        for column in range(side):
            found = pixels[int((row + 0.5) * pitch), int((column + 0.5) * pitch)]
            shown = cells[row, column, :3] if cells[row, column, 3] else ground
            assert [int(part) for part in found] == [int(part) for part in shown], (row, column)


@pytest.mark.parametrize("name", ["svg", "pdf"])
def test_the_tokens_stand_in_a_vector_file_as_they_are(window: MainWindow, about: Provenance, name: str) -> None:
    written = made(name, window.panels["tokens"], about)
    if name == "svg":
        lines = ["".join(text.itertext()) for text in ElementTree.fromstring(written).iter(f"{SVG}text")]
    else:
        lines = pypdf.PdfReader(io.BytesIO(written)).pages[0].extract_text().split("\n")
    stripped = {line.strip() for line in lines}
    assert set(token_texts(window)) <= stripped
    assert "<" in stripped  # a tag in the prompt is text like any other


def test_every_format_says_where_it_came_from(window: MainWindow, scores: ScoresPanel, about: Provenance) -> None:
    now = window.session.selection.now
    lines = dict(about.lines)
    assert lines["Model"] == "bundled"
    assert lines["Prompt"] == PROMPT
    assert lines["Head"].startswith(f"L{now.layer}H{now.head} ")
    assert lines["Query"].startswith(f"{now.query} ")
    assert "temperature 0" in lines["Sampling"]
    assert "scale 0.25" in lines["Attention"]

    png = Image.open(io.BytesIO(made("png", scores, about)))
    assert lines.items() <= dict(png.text).items()  # type: ignore[attr-defined]
    svg = ElementTree.fromstring(made("svg", scores, about))
    metadata = svg.find(f"{SVG}metadata")
    assert metadata is not None
    assert json.loads(metadata.text or "") == {"Title": "Scores", **lines}
    assert svg.findtext(f"{SVG}desc") == about.text
    pdf = pypdf.PdfReader(io.BytesIO(made("pdf", scores, about)))
    assert pdf.metadata is not None
    assert pdf.metadata.title == "Scores"
    assert json.loads(pdf.attachments["about.json"][0]) == {"Title": "Scores", **lines}
    assert pdf.xmp_metadata is not None
    assert pdf.xmp_metadata.dc_description == {"x-default": about.text}


def test_a_provenance_holds_what_no_file_refuses(qtbot: QtBot, scores: ScoresPanel) -> None:
    strange = Provenance("a <title> & more", ()).with_lines({"Prompt": "bell \x07, half \ud800, é 中 <i>"})
    assert strange.lines == (("Prompt", "bell , half ?, é 中 <i>"),)
    png = Image.open(io.BytesIO(made("png", scores, strange)))
    assert png.text["Prompt"] == "bell , half ?, é 中 <i>"  # type: ignore[attr-defined]
    assert ElementTree.fromstring(made("svg", scores, strange)).findtext(f"{SVG}title") == "a <title> & more"
