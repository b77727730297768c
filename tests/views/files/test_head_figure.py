"""Heads as a figure for a paper, read back: words, colours of cells, no buttons; what cannot be drawn is said."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pypdf
import pytest
import resvg_py
from PIL import Image
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from ropewalk.app.files.shot import HeadsDrawn
from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskBoard
from ropewalk.model.readings.records import token_strings
from ropewalk.views.files import pictures
from ropewalk.views.files.head_figure import SIDE, heads_on_paper
from ropewalk.views.main_window import MainWindow
from ropewalk.views.panels.head_cards import CardGrid
from ropewalk.views.style import theme
from tests.views import canned
from tests.views.driving import run_on, window_over

HEADS = ((1, 4), (0, 2), (2, 6))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def window(qtbot: QtBot, running: Session) -> Iterator[MainWindow]:
    """A window that nobody sees: the figure needs none of its panels."""
    window = window_over(running)
    yield window
    window.close()
    window.deleteLater()


def made(qtbot: QtBot, window: MainWindow, path: Path, drawn: HeadsDrawn, scale: int = 1) -> bytes:
    kind = next(one for one in pictures.FORMATS if one.name == path.suffix[1:])
    exporter = window.files.exporter
    with qtbot.waitSignal(exporter.saved, timeout=20_000):
        exporter.heads(HEADS, drawn, kind, path, scale)
    return path.read_bytes()


def cells_of(session: Session, drawn: HeadsDrawn) -> list[dict[tuple[int, int], QPoint]]:
    """The middle of every cell of every map, in pixels of the figure."""
    run = run_on(session)
    read = canned.reading(run, AskBoard(HEADS, (0, len(HEADS))))
    with heads_on_paper(read.pictures, run, drawn.map, tokens=drawn.labels == "tokens") as sheet:
        grid = sheet.findChild(CardGrid)
        assert isinstance(grid, CardGrid)
        assert not any(button.isVisibleTo(sheet) and button.text() for button in sheet.findChildren(QAbstractButton)), (
            "an icon is left out of the picture, a word would be missed"
        )
        return [
            {
                (query, key): card.heatmap.mapTo(sheet, card.heatmap.cell_rect(query, key).center().toPoint())
                for query in range(run.length)
                for key in range(query + 1)
            }
            for card in grid.cards
        ]


def test_an_svg_has_the_words_and_the_colours_of_the_heads(
    qtbot: QtBot, running: Session, window: MainWindow, tmp_path: Path
) -> None:
    drawn = HeadsDrawn("weights", "tokens")
    written = made(qtbot, window, tmp_path / "fig.svg", drawn)
    texts = ["".join(text.itertext()) for text in ElementTree.fromstring(written).iter(f"{SVG}text")]
    run = run_on(running)
    assert {"L1H4", "L0H2", "L2H6", "query", "key", "masked"} <= set(texts)
    assert texts.count("key") == 3
    for token in set(token_strings(run.tokens[: run.length])):
        assert any(token in text for text in texts), token
    caption = next(text for text in texts if text.startswith("Weights (softmax) of L1H4, L0H2, L2H6 · "))
    assert "“the cat sat on the mat.”" in caption
    assert b"Take L1H4 off the board" not in written
    image = Image.open(io.BytesIO(bytes(resvg_py.svg_to_bytes(svg_string=written.decode(), skip_system_fonts=True))))
    pixels = image.convert("RGB")
    table = theme.themed("light").sequential
    for head, cells in zip(HEADS, cells_of(running, drawn), strict=True):
        weights = canned.weights(run, *head)
        for cell, at in cells.items():
            wanted = tuple(int(part) for part in table[round(float(np.float32(weights[cell])) * 255)][:3])
            assert pixels.getpixel((at.x(), at.y())) == wanted, (head, cell)


def test_a_png_is_as_fine_as_asked_for_and_on_paper_in_any_theme(
    qtbot: QtBot, running: Session, window: MainWindow, tmp_path: Path
) -> None:
    drawn = HeadsDrawn("scores", "positions")
    picture = Image.open(io.BytesIO(made(qtbot, window, tmp_path / "fig.png", drawn, 2))).convert("RGB")
    assert picture.width > 2 * 3 * SIDE
    ground = theme.themed("light").panel
    assert picture.getpixel((1, 1)) == (ground.red(), ground.green(), ground.blue())
    assert theme.current().name == "dark", "the window wears what it wore"
    run = run_on(running)
    seen = canned.visible(run)
    every = np.stack([canned.scores(run, *head) for head in HEADS]).astype(np.float32)
    low, high = every[:, seen].min(), every[:, seen].max()
    table = theme.themed("light").sequential
    for place, cells in enumerate(cells_of(running, drawn)):
        for cell in ((5, 2), (11, 0), (7, 7)):
            share = (every[place][cell] - low) / (high - low)
            wanted = tuple(int(part) for part in table[round(float(share) * 255)][:3])
            at = cells[cell]
            assert picture.getpixel((2 * at.x(), 2 * at.y())) == wanted, (place, cell)


def test_a_pdf_has_the_names_as_text_and_positions_where_they_were_wanted(
    qtbot: QtBot, window: MainWindow, tmp_path: Path
) -> None:
    path = tmp_path / "fig.pdf"
    made(qtbot, window, path, HeadsDrawn("weights", "positions"))
    (page,) = pypdf.PdfReader(path).pages
    text = page.extract_text()
    assert all(word in text for word in ("L1H4", "L0H2", "L2H6", "query", "Weights (softmax) of"))
    assert "11" in text.split()
    assert "·sat" not in text


def test_a_head_that_is_not_there_is_refused(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    exporter = window.files.exporter
    with qtbot.waitSignal(exporter.failed) as heard:
        exporter.heads(((1, 1), (9, 0)), HeadsDrawn(), pictures.FORMATS[1], tmp_path / "fig.svg")
    assert heard.args[0].startswith("There is no L9H0: this model has 4 layers of 8 heads")
    assert not list(tmp_path.glob("fig*"))
