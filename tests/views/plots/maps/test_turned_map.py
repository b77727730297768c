"""A map of layers and heads is turned where that makes its cells larger, and then everything on it turns along."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter
from pytestqt.qtbot import QtBot

from ropewalk.views.plots.maps.signed import HeadMap
from ropewalk.views.plots.maps.turned_map import TurnedMap
from ropewalk.views.style import ink, wording
from tests.views.plots.hand import click

NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)  # [A, B]
SIZES = {"A down": (500, 420), "A across": (300, 560)}


@pytest.fixture(params=SIZES)
def shown(request: pytest.FixtureRequest, qtbot: QtBot) -> TurnedMap:
    made = TurnedMap("numbers", ("L", "H"))
    qtbot.addWidget(made)
    made.resize(*SIZES[request.param])
    there = np.ones(NUMBERS.shape, np.bool_)
    there[1, 3] = False
    made.show_numbers(NUMBERS, there)
    made.show()
    assert made.across == (request.param == "A across")
    return made


def test_each_number_is_where_it_says(shown: TurnedMap) -> None:
    assert [[shown.number(a, b) for b in range(4)] for a in range(3)] == NUMBERS.tolist()
    right, below = shown.cell_of(0, 1).center(), shown.cell_of(1, 0).center()
    first = shown.cell_of(0, 0).center()
    assert (right.x() > first.x(), below.y() > first.y()) == (not shown.across, not shown.across)
    hidden = [(row, column) for row in range(4) for column in range(4) if shown.is_masked(row, column)]
    assert hidden == [(3, 1) if shown.across else (1, 3)]


def test_places_are_named_along_their_own_axis(shown: TurnedMap, monkeypatch: pytest.MonkeyPatch) -> None:
    beside: set[str] = set()
    under: set[str] = set()

    def write(painter: QPainter, box: QRectF, text: str, *how: Any) -> None:
        if text[0] in "LH":
            centre: QPointF = painter.transform().map(box.center())
            (beside if centre.x() < shown.plot.left() else under).add(text)

    monkeypatch.setattr(ink, "draw_text", write)
    shown.grab()
    layers, heads = {f"L{a}" for a in range(3)}, {f"H{b}" for b in range(4)}
    assert (beside, under) == ((heads, layers) if shown.across else (layers, heads))


def test_a_click_says_a_and_b(qtbot: QtBot, shown: TurnedMap) -> None:
    with qtbot.waitSignal(shown.chosen) as chosen:
        click(shown, shown.cell_of(2, 1).center())
    assert chosen.args == [2, 1]


def test_marks_turn_along(shown: TurnedMap) -> None:
    shown.mark(2, 1)
    shown.point(1, 0)
    size = shown.size()
    shown.resize(size.transposed())
    shown.grab()
    assert (shown.marked, shown.hovered) == ((2, 1), (1, 0))


def test_a_map_of_heads_says_which_one_is_marked(qtbot: QtBot) -> None:
    heads = HeadMap("change of the logit")
    qtbot.addWidget(heads)
    heads.show_heads(NUMBERS.astype(np.float64))
    for layer, head in ((0, 0), (2, 0), (1, 3)):
        heads.mark(layer, head)
        assert heads.accessibleDescription() == f"L{layer}H{head}: {wording.number(NUMBERS[layer, head])}"
