"""Plots with axes: where things are, what is said of a place, seeing closer, and crisp files."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PySide6.QtCore import QBuffer, QEvent, QIODevice, QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QContextMenuEvent, QFontMetrics, QGuiApplication, QMouseEvent, QPainter, QWheelEvent
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ropewalk.model.readings.records import RowReading
from ropewalk.views.plots.charts.plot import NumberAxis, Plot
from ropewalk.views.plots.charts.row_bars import RowBars
from ropewalk.views.plots.menus.plot_menu import PlotMenu
from ropewalk.views.plots.rotation.curves import DASHES, DistanceView
from ropewalk.views.plots.rotation.shares import PositionCurve
from ropewalk.views.style import ink, theme


@pytest.fixture
def distances(qtbot: QtBot) -> DistanceView:
    view = DistanceView()
    qtbot.addWidget(view)
    view.resize(400, 200)
    xs = np.arange(101.0)
    solid, dashed = DASHES[:2]
    view.show_curves(
        xs,
        (("the run", QColor("#ffffff"), solid, xs / 10), ("none", QColor("#00ff00"), dashed, 10 - xs / 10)),
        (3.0, 0.3),
    )
    view.show()
    return view


def row(count: int) -> RowReading:
    weights = np.full(count, 0.001)
    weights[7] = 0.4
    return RowReading(0, 0, count - 1, np.zeros(count), weights, np.ones(count, np.bool_), 0.0, 1.0)


def drawn_range(plot: Plot) -> tuple[float, float]:
    return tuple(plot.box.viewRange()[0])


def turn_wheel(plot: Plot, at: QPointF) -> None:
    none, plain = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    outside = QPointF(plot.mapToGlobal(at.toPoint()))
    wheel = QWheelEvent(at, outside, QPoint(), QPoint(0, 120), none, plain, Qt.ScrollPhase.NoScrollPhase, False)
    QApplication.sendEvent(plot.viewport(), wheel)


def test_a_place_is_drawn_where_it_is_found_again(distances: DistanceView) -> None:
    for x, y in ((0.0, 0.0), (50.0, 5.0), (99.0, 9.0)):
        at = distances.place_at(distances.at(x, y))
        assert at is not None
        assert [at.x(), at.y()] == pytest.approx([x, y])


def test_what_is_pointed_at_is_said_until_the_pointer_leaves(distances: DistanceView) -> None:
    QTest.mouseMove(distances.viewport(), distances.at(40.0, 5.0).toPoint())
    assert distances.heading.readout == "m − n = 40: the run 4.000 · none 6.000"
    assert distances.pointer.isVisible()
    QApplication.sendEvent(distances.viewport(), QEvent(QEvent.Type.Leave))
    assert (distances.heading.readout, distances.pointer.isVisible()) == ("", False)


def test_other_curves_end_what_was_said(distances: DistanceView) -> None:
    QTest.mouseMove(distances.viewport(), distances.at(40.0, 5.0).toPoint())
    distances.show_curves(distances.distances, distances.curves, distances.true)
    assert distances.heading.readout == ""


def test_the_wheel_sees_closer_and_a_double_click_everything(distances: DistanceView) -> None:
    whole, at = drawn_range(distances), distances.at(50.0, 5.0)
    turn_wheel(distances, at)
    left, right = drawn_range(distances)
    assert whole[0] < left < 50 < right < whole[1]
    QTest.mouseDClick(distances.viewport(), Qt.MouseButton.LeftButton, pos=at.toPoint())
    assert drawn_range(distances) == whole


def test_the_line_at_m_is_dragged_to_whole_positions(qtbot: QtBot) -> None:
    view = PositionCurve()
    qtbot.addWidget(view)
    view.resize(400, 160)
    view.show_range(0, 64, 0, 1)
    view.here.setValue(10)
    view.show()
    chosen: list[float] = []
    view.chosen.connect(chosen.append)
    left, none, plain = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    QTest.mouseMove(view.viewport(), view.at(10, 0.5).toPoint())
    QTest.mousePress(view.viewport(), left, pos=view.at(10, 0.5).toPoint())
    for m in (14, 20, 30.3):
        at = view.at(m, 0.5)
        there = QMouseEvent(QEvent.Type.MouseMove, at, QPointF(view.mapToGlobal(at.toPoint())), none, left, plain)
        QApplication.sendEvent(view.viewport(), there)
    QTest.mouseRelease(view.viewport(), left, pos=view.at(30.3, 0.5).toPoint())
    assert chosen[-1] == 30
    assert all(m == round(m) for m in chosen)


@pytest.mark.parametrize(
    ("kind", "low", "high", "written"),
    [
        ("real", -1.0, 1.0, ["−1.0", "−0.5", "0.0", "0.5", "1.0"]),
        ("whole", 0.0, 3.0, ["0", "1", "2", "3"]),
        ("decades", -2.0, 2.0, ["0.01", "0.1", "1", "10", "100"]),
        ("bytes", 0.0, 2000.0, ["0 B", "512 B", "1 KiB", "1.5 KiB"]),
    ],
)
def test_numbers_of_an_axis(qtbot: QtBot, kind: str, low: float, high: float, written: list[str]) -> None:
    axis = NumberAxis("left", kind)  # type: ignore[arg-type]
    ((gap, values),) = axis.tickValues(low, high, 100)
    assert axis.tickStrings(sorted(values), 1, gap) == written


def test_no_two_numbers_of_a_low_axis_touch(qtbot: QtBot) -> None:
    axis = NumberAxis("left")
    for height in (20, 35, 60, 200):
        ((gap, values),) = axis.tickValues(-7.3, 11.9, height)
        apart = gap * height / 19.2
        assert len(values) < 2 or apart >= theme.current().size("number")


@pytest.mark.parametrize("projector", [False, True])
def test_no_two_numbers_of_a_narrow_axis_touch(qtbot: QtBot, projector: bool) -> None:
    theme.apply("dark", projector=projector)
    axis = NumberAxis("bottom", "whole")
    for width in (150, 230, 300, 700):
        ((gap, values),) = axis.tickValues(0, 3500, width)
        texts = axis.tickStrings(values, 1, gap)
        widest = max(ink.text_width(theme.current().font("number"), text) for text in texts)
        assert len(values) < 2 or gap * width / 3500 > widest


def test_where_keys_are_more_than_pixels_the_largest_is_still_seen(qtbot: QtBot) -> None:
    bars = RowBars()
    qtbot.addWidget(bars)
    bars.resize(300, 120)
    bars.set_row(row(5000), ())
    bars.show()
    heights = bars.bars.opts["height"]
    assert len(heights) < 300
    assert heights.max() == pytest.approx(0.4)
    assert bars.bars.opts["width"].sum() == 5000


def test_names_are_cut_where_the_bars_need_the_room(qtbot: QtBot) -> None:
    bars = RowBars()
    qtbot.addWidget(bars)
    bars.set_row(row(16), ("·Donaudampf",) * 16)
    bars.resize(300, 90)
    bars.show()
    assert bars.bottom.tickStrings([3], bars.pitch, 1) == ["3"], "two letters would be left"
    bars.resize(300, 120)
    assert bars.bottom.tickStrings([3], bars.pitch, 1) == ["·Donaudampf"]
    low = bars.bottom.height()
    assert low <= 40
    bars.resize(300, 400)
    assert bars.bottom.height() > 2 * low


def test_a_vector_file_has_letters_and_lines_of_their_own_width(distances: DistanceView) -> None:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QSvgGenerator()
    writer.setOutputDevice(buffer)
    writer.setSize(QSize(400, 200))
    painter = QPainter(writer)
    QWidget.render(distances, painter, QPoint())
    painter.end()
    svg = bytes(buffer.data().data()).decode()
    assert "distance m − n" in svg
    assert ">the run<" in svg
    lines = re.findall(r'<g [^>]*stroke-width="([\d.]+)"[^>]*>\s*<poly', svg)
    assert lines.count("1.5") == 2
    assert "<image" not in svg


def test_the_menu_acts_on_the_plot_it_was_opened_on(qtbot: QtBot, distances: DistanceView) -> None:
    menu = PlotMenu(distances)
    other = PositionCurve()
    qtbot.addWidget(other)
    distances.menu_wanted.connect(lambda cell, at: menu._open(distances, cell, at))
    at = distances.rect().center()
    asked = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, distances.mapToGlobal(at))
    QApplication.sendEvent(distances.viewport(), asked)
    actions = {action.text(): action for action in menu.actions()}
    actions["Copy the numbers"].trigger()
    assert QGuiApplication.clipboard().text().splitlines()[:3] == [
        "m − n\tthe run\tnone",
        "0.0\t0.0\t10.0",
        "1.0\t0.1\t9.9",
    ]
    turn_wheel(distances, distances.at(50.0, 5.0))
    actions["View all"].trigger()
    assert drawn_range(distances) == (0, 100)
    assert all(action.toolTip() != action.text() for action in menu.actions() if action.text())
    menu.close()


def test_no_part_of_a_plot_is_out_of_its_view_however_small_that_gets(qtbot: QtBot) -> None:
    bars = RowBars()
    qtbot.addWidget(bars)
    bars.set_row(row(16), ("·Donaudampf",) * 16)
    bars.show()
    for width, height in ((300, 400), (300, 90), (900, 168), (120, 70), (900, 400)):
        bars.resize(width, height)
        assert bars.centralWidget.geometry().size().toSize() == QSize(width, height)
        assert bars.bottom.geometry().bottom() <= height
        assert bars.box.height() > 10


@pytest.mark.parametrize("projector", [False, True])
def test_the_number_at_the_top_of_an_axis_stands_below_the_heading(distances: DistanceView, projector: bool) -> None:
    theme.apply("dark", projector)
    distances.resize(500, 260)
    distances.theme_changed()
    distances.lay_out()
    digits = QFontMetrics(theme.current().font("number")).tightBoundingRect("10").height()
    assert distances.box.geometry().top() - digits / 2 >= distances.heading.area.bottom()
    assert distances.heading.area.height() >= ink.line_height(theme.current().font("label"))
    theme.apply("dark")


def test_numbers_without_a_height_leave_a_plot_that_can_be_seen(distances: DistanceView) -> None:
    distances.show_range(0.0, 10.0, float("nan"), float("nan"))
    assert (distances.whole_range.top(), distances.whole_range.bottom()) == (0.0, 1.0)
    distances.show_range(0.0, 10.0, -2.0, 3.0)
    assert distances.box.viewRange()[1] == pytest.approx([-2.0, 3.0])
