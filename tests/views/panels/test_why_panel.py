"""The why panel: the cell's arithmetic in words that can be read back."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover, Selection
from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskCell
from ropewalk.model.readings.records import CellReading
from ropewalk.views.panels.why import WhyPanel, arithmetic, exact_text, hover_of, scale_text
from ropewalk.views.style import theme
from tests.views import canned
from tests.views.driving import run_on, settle

Shown = Callable[..., Any]


def a_cell(**changes: Any) -> CellReading:
    cell = CellReading(
        layer=1,
        head=3,
        kv_head=0,
        sharing=(0, 1, 2, 3),
        query=8,
        key=7,
        q=np.ones(64),
        k=np.ones(64),
        dot=4.1,
        scale=0.125,
        scaled=0.5125,
        cap=None,
        score=0.5125,
        hidden_because="",
        lse=1.94,
        weight=0.2399,
    )
    return replace(cell, **changes)


def arithmetic_lines(cell: CellReading) -> list[str]:
    return ["".join(piece.text for piece in line) for line in arithmetic(cell)]


def test_the_arithmetic_of_a_visible_cell() -> None:
    assert arithmetic_lines(a_cell()) == [
        "q·k = 4.100",
        "score = 4.100 × 1/√64 = 0.512",
        "key 7 ≤ query 8: visible",
        "row log-sum-exp = 1.940",
        "weight = exp(0.512 − 1.940) = 0.2399",
    ]


def test_a_weight_that_was_written_is_not_said_to_follow_from_q_and_k() -> None:
    (line,) = arithmetic_lines(a_cell(written=True, weight=0.5))
    assert line == "q·k = 4.100, but the weight was written for this head: 0.5000"
    assert arithmetic_lines(a_cell(written=True, key=9, hidden_because="later"))[-1].startswith("weight = 0")


def test_a_masked_cell_says_why_and_weighs_nothing() -> None:
    lines = arithmetic_lines(a_cell(key=9, hidden_because="key 9 comes after query 8", weight=0.0))
    assert "hidden: key 9 comes after query 8" in lines
    assert lines[-1] == "weight = 0 (masked before the softmax)"


def test_a_soft_cap_and_another_scale_are_written_out() -> None:
    lines = arithmetic_lines(a_cell(cap=50.0, score=0.51248, scale=0.0625))
    assert "soft cap 50.00·tanh(0.512 / 50.00) = 0.512" in lines
    assert scale_text(a_cell(scale=0.0625)) == "0.0625"


def test_a_negative_log_sum_exp_is_bracketed() -> None:
    assert arithmetic_lines(a_cell(lse=-1.25))[-1].startswith("weight = exp(0.512 − (−1.250))")


def test_the_numbers_on_screen_are_the_readings(running: Session, shown: Shown) -> None:
    panel = shown(WhyPanel, running, 1240, 110)
    now = running.selection.now
    cell = canned.reading(run_on(running), AskCell(now.layer, now.head, now.query, now.key))
    text = panel.text.toPlainText().replace("−", "-")
    weight = float(re.findall(r"\) = ([\d.]+)", text)[-1])
    lse = float(re.findall(r"log-sum-exp = (-?[\d.]+)", text)[0])
    assert weight == pytest.approx(cell.weight, abs=6e-5)
    assert lse == pytest.approx(cell.lse, abs=6e-4)
    assert np.exp(cell.score - cell.lse) == pytest.approx(cell.weight)
    assert "reads kv head 1, shared with H5, H6, H7" in panel.subtitle.text()


def test_query_and_key_have_their_colours(running: Session, shown: Shown) -> None:
    panel = shown(WhyPanel, running, 1240, 110)
    look = theme.current()

    def colour(word: str) -> QColor:
        cursor = panel.text.document().find(word)
        found: QColor = cursor.charFormat().foreground().color()
        return found

    assert colour("query") == look.query
    assert colour("key") == look.key
    theme.apply("light")
    panel.theme_changed()
    assert colour("query") == theme.current().query != look.query


def test_text_can_be_selected_and_copied_as_plain_text(running: Session, shown: Shown) -> None:
    panel = shown(WhyPanel, running, 1240, 110)
    panel.text.selectAll()
    copied = panel.text.createMimeDataFromSelection()
    assert copied.text() == panel.text.toPlainText()
    assert not copied.hasHtml()


def test_vectors_unfold(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(WhyPanel, running, 1240, 110)
    assert "q = [" not in panel.text.toPlainText()
    QTest.mouseClick(panel.fold_q, Qt.MouseButton.LeftButton)
    now = running.selection.now
    cell = canned.reading(run_on(running), AskCell(now.layer, now.head, now.query, now.key))
    text = panel.text.toPlainText().replace("−", "-").replace("\u2212", "-")
    numbers = [float(n) for n in re.findall(r"q = \[(.*)\]", text)[0].split(", ")]
    assert np.allclose(numbers, cell.q, atol=6e-4)
    assert "k = [" not in text
    QTest.mouseClick(panel.fold_q, Qt.MouseButton.LeftButton)
    assert "q = [" not in panel.text.toPlainText()


def test_copy_numbers_keeps_every_digit(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(WhyPanel, running, 1240, 110)
    QTest.mouseClick(panel.copy_button, Qt.MouseButton.LeftButton)
    fields = dict(line.split(" = ") for line in QApplication.clipboard().text().splitlines())
    assert float(fields["weight"]) == panel.cell.weight
    assert float(fields["lse"]) == panel.cell.lse
    assert len(fields["q"].split(",")) == 16
    assert exact_text(a_cell()).startswith("layer = 1\nhead = 3\n")


@pytest.mark.parametrize("width", [500, 800, 1240, 1880])
def test_no_step_is_broken_where_it_fits(running: Session, shown: Shown, width: int) -> None:
    panel = shown(WhyPanel, running, width, 160)
    lines = panel.text.toPlainText().splitlines()
    assert panel.cell is not None
    for step in arithmetic_lines(panel.cell):
        assert any(step in line for line in lines)
    document = panel.text.document()
    block = document.begin()
    while block.isValid():
        assert block.layout().lineCount() == 1
        block = block.next()


def test_unfolding_in_a_low_strip_scrolls_and_survives(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(WhyPanel, running, 500, 100)
    for fold in (panel.fold_q, panel.fold_k, panel.fold_q, panel.fold_k):
        QTest.mouseClick(fold, Qt.MouseButton.LeftButton)
        panel.grab()
    panel.resize(900, 300)
    panel.grab()
    assert panel.text.toPlainText().count("weight") == 1


def test_the_cell_redraws_it_once_and_a_plane_does_not(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(WhyPanel, running, 1240, 110)
    drawn = panel.draws
    running.selection.update(plane=5)
    running.selection.update(query=9, key=9)
    settle(running, panel)
    assert panel.draws == drawn + 1
    assert "query 9" in panel.subtitle.text()


SELECTED = Selection(layer=2, head=5, query=8, key=3)
"""What a line of the arithmetic is asked about."""


@pytest.mark.parametrize(
    ("place", "key", "hover"),
    [
        ("cell", "x", Hover(query=8, key=3, layer=2, head=5)),
        ("row", "x", Hover(query=8)),
        ("next_token", "x", Hover(query=8)),
        ("plane:4", "x", Hover(plane=4)),
        ("cache:key", "x", Hover(key=3, layer=2, head=5, slot="K")),
        ("cache:value", "x", Hover(key=3, layer=2, head=5, slot="V")),
        ("tokens", "x.query.y", Hover(query=8)),
        ("tokens", "x.key.y", Hover(key=3)),
        ("ledger:scores", "x", Hover(operation="scores")),
        ("", "x", Hover()),
    ],
)
def test_a_line_points_at_what_it_is_about(place: str, key: str, hover: Hover) -> None:
    assert hover_of(place, key, SELECTED) == hover
