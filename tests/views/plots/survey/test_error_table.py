"""The table of heads says each number of its own head, in any order, and so do keys, clicks and what is copied."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QGuiApplication, QKeySequence
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.views.plots.maps.signed import signed_colour
from ropewalk.views.plots.survey.error_table import BAR, COUNT, ERROR, HEAD, MEAN, ErrorTable
from ropewalk.views.style import ink, theme

NAMES = ("L0H0", "L0H1", "L1H0", "L1H1", "L2H0")
MEANS = np.array([0.2, np.nan, 0.8, 0.4, 0.2])
ERRORS = np.array([0.01, np.nan, 0.1, np.nan, 0.02])
COUNTS = np.array([200, 0, 200, 1, 1200])


@pytest.fixture
def table(qtbot: QtBot) -> ErrorTable:
    made = ErrorTable()
    qtbot.addWidget(made)
    made.resize(640, 240)
    made.show_heads(NAMES, MEANS, ERRORS, COUNTS)
    made.show()
    made.grab()
    return made


def cell(table: ErrorTable, row: int, column: int) -> QRect:
    return table.visualRect(table.model().index(row, column))


def said(table: ErrorTable, column: int) -> list[str]:
    return [str(table.model().index(row, column).data()) for row in range(table.model().rowCount())]


def click_heading(table: ErrorTable, column: int) -> None:
    header = table.horizontalHeader()
    middle = QPoint(header.sectionViewportPosition(column) + header.sectionSize(column) // 2, header.height() // 2)
    QTest.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=middle)


def test_rows_are_sorted_by_any_column_and_those_without_a_number_are_last(table: ErrorTable) -> None:
    orders = [said(table, HEAD)]
    for column in (MEAN, ERROR, ERROR, COUNT, HEAD, HEAD):
        click_heading(table, column)
        orders.append(said(table, HEAD))
    assert orders == [
        ["L1H0", "L1H1", "L0H0", "L2H0", "L0H1"],
        ["L0H0", "L2H0", "L1H1", "L1H0", "L0H1"],
        ["L1H0", "L2H0", "L0H0", "L0H1", "L1H1"],
        ["L0H0", "L2H0", "L1H0", "L0H1", "L1H1"],
        ["L2H0", "L0H0", "L1H0", "L1H1", "L0H1"],
        ["L0H0", "L0H1", "L1H0", "L1H1", "L2H0"],
        ["L2H0", "L1H1", "L1H0", "L0H1", "L0H0"],
    ]
    assert table.model().headerData(HEAD, Qt.Orientation.Horizontal) == "head ▾"


def test_each_row_has_the_numbers_of_its_head(table: ErrorTable) -> None:
    assert said(table, MEAN) == ["0.800", "0.400", "0.200", "0.200", "–"]
    assert said(table, ERROR) == ["0.100", "–", "0.010", "0.020", "–"]
    assert said(table, COUNT) == ["200", "1", "200", "1,200", "0"]
    role = Qt.ItemDataRole.AccessibleTextRole
    assert table.model().index(0, BAR).data(role) == "L1H0: 0.800 ± 0.100 · n = 200"
    assert table.model().index(4, BAR).data(role) == "L0H1: no text has a value"
    assert dict(table.table())["n"] == [200, 1, 200, 1200, 0]


@pytest.mark.parametrize("name", ["dark", "light"])
def test_a_bar_is_as_long_as_its_mean_and_has_the_colour_of_data(table: ErrorTable, name: theme.ThemeName) -> None:
    theme.apply(name)
    table.theme_changed()
    image, look = table.grab().toImage(), theme.current()
    pad, whole = look.grid(0.75), cell(table, 0, BAR).width() - 2 * look.grid(0.75)

    def colour(row: int, share: float) -> QColor:
        box = cell(table, row, BAR)
        at = QPoint(round(box.left() + pad + share * whole), box.center().y() - 2)
        return image.pixelColor(table.viewport().mapTo(table, at))

    data = ink.mixed(look.panel, look.key, 0.85)
    for row, mean in ((1, 0.4), (2, 0.2)):
        inside, beyond = (colour(row, (mean + aside) / 0.9) for aside in (-0.1, 0.1))
        assert abs(inside.red() - data.red()) + abs(inside.green() - data.green()) < 8
        assert beyond == look.panel


def test_differences_grow_from_zero_in_the_colours_of_their_signs(table: ErrorTable) -> None:
    table.show_heads(NAMES[:2], np.array([0.5, -0.5]), np.zeros(2), 200, "difference")
    image, box = table.grab().toImage(), cell(table, 1, BAR)

    def colour(row: int, share: float) -> QColor:
        at = QPoint(round(box.left() + share * box.width()), cell(table, row, BAR).center().y())
        return image.pixelColor(table.viewport().mapTo(table, at))

    assert (colour(0, 0.75), colour(1, 0.25)) == (signed_colour(1.0), signed_colour(-1.0))
    assert colour(0, 0.25) == colour(1, 0.75) == theme.current().panel


def test_a_click_and_the_keys_go_to_a_head_and_a_mark_says_nothing(table: ErrorTable) -> None:
    picked: list[int] = []
    table.picked.connect(picked.append)
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=cell(table, 1, MEAN).center())
    for key in (Qt.Key.Key_Down, Qt.Key.Key_End, Qt.Key.Key_Up):
        QTest.keyClick(table, key)
    assert picked == [3, 0, 1, 4]
    table.mark(2)
    click_heading(table, HEAD)
    assert table.selected == 2
    table.show_heads(NAMES, 1 - MEANS, ERRORS, COUNTS)
    assert table.selected == 2
    table.mark(-1)
    assert table.selected == -1
    assert len(picked) == 4


def test_chosen_heads_come_first_in_the_same_order(table: ErrorTable) -> None:
    table.choose([3, 4, 1])
    assert said(table, HEAD) == ["L1H1", "L2H0", "L0H1", "L1H0", "L0H0"]
    click_heading(table, HEAD)
    assert said(table, HEAD) == ["L0H1", "L1H1", "L2H0", "L0H0", "L1H0"]
    table.choose([])
    assert said(table, HEAD) == list(NAMES)


def test_what_is_copied_are_the_selected_rows(table: ErrorTable) -> None:
    table.mark(2)
    QTest.keyClick(table, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    QTest.keySequence(table, QKeySequence(QKeySequence.StandardKey.Copy))
    copied = QGuiApplication.clipboard().text().splitlines()
    assert copied == ["head\tmean\terror\tn", "L1H0\t0.8\t0.1\t200", "L1H1\t0.4\tnan\t1"]
    assert len(table.text().splitlines()) == 6


@pytest.mark.parametrize("projector", [False, True])
def test_columns_are_left_out_rather_than_cut(table: ErrorTable, projector: bool) -> None:
    theme.apply("dark", projector)
    table.theme_changed()
    for width in (900, 420, 300):
        table.resize(width * (2 if projector else 1), 240)
        table.grab()
        shown = [column for column in range(BAR + 1) if not table.isColumnHidden(column)]
        assert shown[:3] == [HEAD, MEAN, ERROR]
        assert cell(table, 0, shown[-1]).right() < table.viewport().width()
        font = theme.current().font("number")
        assert cell(table, 0, MEAN).width() > ink.text_width(font, "0.800")
    assert table.isColumnHidden(COUNT)


def test_no_row_is_cut_in_two(table: ErrorTable) -> None:
    table.show_heads([f"L{layer}H0" for layer in range(50)], np.linspace(1, 0, 50), np.zeros(50), 200)
    last = table.rowAt(table.viewport().height() - 1)
    for more in range(cell(table, last, HEAD).height()):
        table.resize(640, 240 + more)
        image, row = table.grab().toImage(), cell(table, last, BAR)
        at = table.viewport().mapTo(table, QPoint(row.left() + 20, row.center().y()))
        drawn = image.rect().contains(at) and image.pixelColor(at) != theme.current().panel
        assert drawn == (row.bottom() < table.viewport().height())


def test_ten_thousand_heads_are_sorted_and_found(table: ErrorTable) -> None:
    means = np.random.default_rng(0).random(10_000)
    names = [f"L{i // 100}H{i % 100}" for i in range(10_000)]
    table.show_heads(names, means, means / 10, 200)
    assert table.heads.order[:3].tolist() == np.argsort(-means)[:3].tolist()
    table.mark(4321)
    assert table.viewport().rect().contains(table.visualRect(table.currentIndex()).center())
    assert table.currentIndex().siblingAtColumn(HEAD).data() == "L43H21"
