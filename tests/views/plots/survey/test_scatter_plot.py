"""A hand on the scatter: each dot is its head, a line around some chooses exactly those, keys reach every one."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.views.plots.survey.scatter_plot import ScatterPlot
from ropewalk.views.style import ink, theme
from tests.views.plots.hand import click, drag, point_at
from tests.views.plots.test_vectors import SVG, drawn

XS = np.array([0.1, 0.5, 0.9, 0.5, np.nan, 0.1, 0.9])
YS = np.array([0.1, 0.5, 0.9, 0.1, 0.3, 0.9, np.inf])
NAMES = [f"L{place // 3}H{place % 3}" for place in range(7)]


class Said:
    """What the plot said, in turn."""

    def __init__(self, plot: ScatterPlot) -> None:
        self.picked: list[int] = []
        self.lassoed: list[list[int]] = []
        plot.picked.connect(self.picked.append)
        plot.picked.connect(plot.mark)
        plot.lassoed.connect(self.lassoed.append)


@pytest.fixture
def plot(qtbot: QtBot) -> ScatterPlot:
    made = ScatterPlot()
    qtbot.addWidget(made)
    made.resize(480, 400)
    made.show_heads(NAMES, XS, YS, "previous token", "induction")
    made.show()
    made.grab()
    return made


@pytest.fixture
def said(plot: ScatterPlot) -> Said:
    return Said(plot)


def at(plot: ScatterPlot, head: int) -> QPointF:
    return plot.at(float(XS[head]), float(YS[head]))


def around(plot: ScatterPlot, heads: list[int], far: float = 15) -> list[QPointF]:
    """A box around some dots, drawn from one corner and back."""
    places = [at(plot, head) for head in heads]
    left, right = min(p.x() for p in places) - far, max(p.x() for p in places) + far
    top, bottom = min(p.y() for p in places) - far, max(p.y() for p in places) + far
    return [QPointF(left, top), QPointF(right, top), QPointF(right, bottom), QPointF(left, bottom)]


def test_dots_are_where_their_numbers_are_and_others_are_counted(plot: ScatterPlot) -> None:
    assert plot.shown.tolist() == [0, 1, 2, 3, 5]
    for place, (x, y) in zip(plot.shown, plot.points(), strict=True):
        assert (x, y) == pytest.approx(at(plot, place).toTuple())
        inside = plot.box.mapSceneToView(QPointF(x, y))
        assert inside.toTuple() == pytest.approx((XS[place], YS[place]))
    assert plot.heading.text == "5 heads · 2 without a value"


@pytest.mark.parametrize("look", ["dark", "light", "projector"])
def test_a_dot_has_the_colour_of_data_and_a_chosen_one_another_shape_and_colour(plot: ScatterPlot, look: str) -> None:
    theme.apply("light" if look == "light" else "dark", look == "projector")
    plot.theme_changed()
    plot.grab()
    now = theme.current()
    ground = plot.palette().window().color()

    def pixel(head: int, aside: float = 0.0) -> QColor:
        point = at(plot, head) + QPointF(0, aside)
        return plot.picture().pixelColor(QPoint(round(2 * point.x()), round(2 * point.y())))

    def near(one: QColor, other: QColor) -> bool:
        return max(abs(one.red() - other.red()), abs(one.green() - other.green()), abs(one.blue() - other.blue())) < 4

    assert near(pixel(1), ink.mixed(ground, now.key, 0.6))
    plot.choose([1])
    assert near(pixel(1), now.text)
    assert not near(pixel(2), now.text)
    tip = plot.radius * 1.3 - 2
    assert near(pixel(1, tip / 2), now.text)
    plot.mark(2)
    ring = plot.radius + now.grid(0.5)
    assert near(pixel(2, -ring), now.accent)


def test_a_click_and_the_pointer_find_the_nearest_head(plot: ScatterPlot, said: Said) -> None:
    click(plot, at(plot, 3) + QPointF(3, -3))
    click(plot, (at(plot, 1) + at(plot, 2)) / 2)
    assert said.picked == [3]
    assert said.lassoed == []
    assert plot.heading.readout == "L1H0 · previous token 0.500 · induction 0.100"
    point_at(plot, at(plot, 5))
    assert plot.pointed_at == 5
    assert plot.heading.readout.startswith("L1H2 · ")
    point_at(plot, QPointF(2, 2))
    assert (plot.pointed_at, plot.heading.readout[:4]) == (-1, "L1H0")


def test_a_line_around_heads_chooses_them_and_escape_lets_them_go(plot: ScatterPlot, said: Said) -> None:
    drag(plot, around(plot, [0, 3]))
    drag(plot, around(plot, [1]), Qt.KeyboardModifier.ShiftModifier)
    drag(plot, around(plot, [2]))
    drag(plot, [QPointF(200, 200), QPointF(201, 200)])
    assert said.lassoed == [[0, 3], [0, 1, 3], [2]]
    assert plot.chosen == {2}
    assert "1 chosen" in plot.heading.text
    QTest.keyClick(plot, Qt.Key.Key_Escape)
    QTest.keyClick(plot, Qt.Key.Key_Escape)
    assert said.lassoed[3:] == [[]]
    assert plot.chosen == frozenset()


def test_the_line_may_be_of_any_shape(plot: ScatterPlot, said: Said) -> None:
    first, middle, last = (at(plot, head) for head in (0, 1, 2))
    hollow = [first + QPointF(-20, 20), first + QPointF(20, 20), last + QPointF(20, 20), last + QPointF(20, -20)]
    hollow += [last + QPointF(-20, -20), middle + QPointF(25, 25), first + QPointF(-20, -20)]
    drag(plot, hollow)
    assert said.lassoed == [[0, 2]], "the head in the middle is outside of the bend"


def test_the_arrows_reach_every_head_and_stop_at_the_ends(plot: ScatterPlot, said: Said) -> None:
    for key in (*[Qt.Key.Key_Right] * 6, Qt.Key.Key_Left):
        QTest.keyClick(plot, key)
    assert said.picked == [0, 5, 1, 3, 2, 3]
    said.picked.clear()
    for key in (*[Qt.Key.Key_Up] * 4, Qt.Key.Key_Down):
        QTest.keyClick(plot, key)
    assert said.picked == [1, 2, 5, 2]


def test_a_head_out_of_view_comes_into_it(plot: ScatterPlot, said: Said) -> None:
    plot.box.setRange(xRange=(0.05, 0.2), yRange=(0.05, 0.2), padding=0)
    plot.mark(2)
    assert plot.box.viewRect().contains(0.9, 0.9)


def test_ten_thousand_heads_are_drawn_pointed_at_and_chosen(plot: ScatterPlot, said: Said) -> None:
    xs, ys = np.random.default_rng(0).random((2, 10_000))
    plot.show_heads([f"L{i // 100}H{i % 100}" for i in range(10_000)], xs, ys, "a", "b")
    plot.grab()
    head = plot.head_at(plot.at(float(xs[77]), float(ys[77])))
    assert np.hypot(xs[head] - xs[77], ys[head] - ys[77]) == 0
    drag(plot, [plot.at(x, y) for x, y in ((-0.03, -0.03), (1.03, -0.03), (1.03, 0.5), (-0.03, 0.5))])
    assert abs(len(said.lassoed[0]) - 5000) < 300
    assert set(said.lassoed[0]) ^ set(np.flatnonzero(ys < 0.5).tolist()) <= set(np.flatnonzero(abs(ys - 0.5) < 0.02))


def test_no_head_and_heads_of_one_number_can_be_shown(plot: ScatterPlot) -> None:
    for numbers in (np.full(7, np.nan), np.full(7, 0.25), np.zeros(7)):
        plot.show_heads(NAMES, numbers, numbers, "a", "b")
        plot.grab()
        assert np.isfinite(plot.box.viewRange()).all()
    plot.show_heads([], np.zeros(0), np.zeros(0), "a", "b")
    plot.grab()
    QTest.keyClick(plot, Qt.Key.Key_Right)
    assert plot.words(0) == ""


def test_in_a_vector_file_dots_are_circles(plot: ScatterPlot) -> None:
    root = drawn(plot)
    assert len(list(root.iter(f"{SVG}circle"))) + len(list(root.iter(f"{SVG}ellipse"))) >= 5
    assert not list(root.iter(f"{SVG}image"))
