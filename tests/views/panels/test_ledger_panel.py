"""The ledger panel: rows, columns that fit, checks, clicks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.ledger.ledger import Check, LedgerEntry, build_ledger
from ropewalk.views.panels.ledger import COLUMNS, LedgerPanel, LedgerRow, description, memory_text, paired, totals_text
from ropewalk.views.style import theme, wording
from tests.views import canned
from tests.views.driving import run_on, settle

Shown = Callable[..., Any]


def column(key: str) -> int:
    return next(i for i, c in enumerate(COLUMNS) if c.key == key)


def cell(panel: LedgerPanel, row: int, key: str) -> str:
    return str(panel.model.index(row, column(key)).data())


def row_named(panel: LedgerPanel, name: str) -> int:
    return next(i for i, row in enumerate(panel.model.rows) if row.entry.name == name)


def click_row(qtbot: QtBot, panel: LedgerPanel, row: int) -> None:
    box = panel.table.visualRect(panel.model.index(row, 0))
    QTest.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=box.center())


def some_entry(**changes: Any) -> LedgerEntry:
    entry = LedgerEntry(
        name="Scores",
        kind="score",
        symbol="[B, H, T, S]",
        shape=(1, 8, 12, 12),
        dtype="float32",
        device="cpu",
        bytes=0,
        parameters=0,
        flops_full=36_864,
        flops_causal=19_968,
        stored="not stored",
        would_cost_bytes=4_608,
        check=None,
        panel="scores",
        formula="scale · Q'K'ᵀ",
        key="scores",
    )
    return replace(entry, **changes)


def test_rows_hold_the_entries_of_the_selected_layer(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 900, 800)
    row = row_named(panel, "Scores")
    assert cell(panel, row, "symbol") == "[B, H, T, S]"
    assert cell(panel, row, "shape") == "1×8×12×12"
    assert cell(panel, row, "spared") == "not stored · would be 4.5 KiB"
    assert cell(panel, row_named(panel, "Split heads Q"), "spared") == "view"
    assert panel.subtitle.text() == "layer 1 · prefill T = 12"
    assert "decode" not in panel.shown_columns()


def test_a_decode_step_adds_its_own_column(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(LedgerPanel, running, 900, 800)
    running.timeline.step()
    settle(running, panel)
    row = row_named(panel, "Scores")
    assert "decode" in panel.shown_columns()
    assert cell(panel, row, "shape") == "1×8×12×12"
    assert cell(panel, row, "decode") == "1×8×1×13"
    assert "decode P = 12" in panel.subtitle.text()


def test_rows_that_only_a_decode_step_has_come_last(running: Session) -> None:
    from ropewalk.model.engine.questions import AskLedger

    prefill, _ = canned.reading(run_on(running), AskLedger(0))
    extra = some_entry(key="only-here", name="Only here")
    rows = paired(prefill, replace(prefill, entries=(*prefill.entries[:2], extra)))
    assert rows[0].decode is prefill.entries[0]
    assert rows[2].decode is None
    assert rows[-1] == LedgerRow(None, extra)
    assert rows[-1].entry is extra


def test_a_click_asks_for_the_panel_that_shows_the_row(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(LedgerPanel, running, 900, 800)
    row = row_named(panel, "Scores")
    with qtbot.waitSignal(panel.panel_requested) as asked:
        click_row(qtbot, panel, row)
    assert asked.args == [panel.model.rows[row].entry.panel]
    panel.model.show((LedgerRow(some_entry(panel="")),))
    with qtbot.assertNotEmitted(panel.panel_requested):
        click_row(qtbot, panel, 0)


def test_return_does_what_a_click_does(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(LedgerPanel, running, 900, 800)
    panel.table.selectRow(row_named(panel, "Softmax"))
    with qtbot.waitSignal(panel.panel_requested) as asked:
        QTest.keyClick(panel.table, Qt.Key.Key_Return)
    assert asked.args == ["scores"]


def test_narrow_and_projector_keep_the_essential_columns(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 1400, 700)
    assert {"flops", "parameters", "causal"} <= set(panel.shown_columns())
    panel.resize(330, 560)
    assert set(panel.shown_columns()) <= {"operation", "shape", "check", "memory", "symbol"}
    assert {"operation", "shape", "check"} <= set(panel.shown_columns())
    theme.apply("dark", projector=True)
    panel.resize(1400, 700)
    panel.theme_changed()
    assert {"operation", "symbol", "shape", "spared", "check"} == set(panel.shown_columns())


@pytest.mark.parametrize("width", [330, 430, 540, 700, 1000])
def test_what_is_shown_fits_the_width(running: Session, shown: Shown, width: int) -> None:
    panel = shown(LedgerPanel, running, width, 600)
    assert panel.table.horizontalHeader().length() <= panel.table.viewport().width()
    panel.all_columns.click()
    without = {"decode", "decode_flops", "decode_memory", "spared" if "memory" in panel.shown_columns() else "memory"}
    assert set(panel.shown_columns()) == {one.key for one in COLUMNS} - without  # no step; memory is said once


def headings(panel: LedgerPanel) -> list[str]:
    """The headings on screen, from left to right."""
    header = panel.table.horizontalHeader()
    places = sorted(range(len(COLUMNS)), key=header.visualIndex)
    horizontal = Qt.Orientation.Horizontal
    return [str(panel.model.headerData(at, horizontal)) for at in places if not panel.table.isColumnHidden(at)]


@pytest.mark.parametrize("stepped", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_every_column_has_a_heading_of_its_own(running: Session, shown: Shown, stepped: bool, alone: bool) -> None:
    panel = shown(LedgerPanel, running, 1300, 600)
    if stepped:
        running.timeline.step()
        settle(running, panel)
    if alone:
        panel.show_outline(build_ledger(canned.CONFIG, 0, 1, 1, 63, "bfloat16", "cpu", "fused"))
    for _ in range(2):
        panel.all_columns.toggle()
        found = headings(panel)
        assert len(found) == len(set(found))
        assert ("Decode" in found) == (stepped or alone)
        assert "step FLOPs" not in found or (stepped and not alone)


def test_all_columns_fit_with_the_memory_said_briefly_and_the_costs_come_first_where_they_do_not(
    running: Session, shown: Shown
) -> None:
    panel = shown(LedgerPanel, running, 700, 600)
    panel.all_columns.click()
    assert "memory" in panel.shown_columns()
    assert panel.table.horizontalHeader().length() <= panel.table.viewport().width()
    assert headings(panel)[1] == "Symbol"
    panel.resize(480, 600)
    assert panel.table.horizontalHeader().length() > panel.table.viewport().width()
    assert headings(panel)[:4] == ["Operation", "Prefill", "FLOPs", "causal"]
    assert panel.table.columnViewportPosition(column("causal")) < panel.table.viewport().width() - 40


def test_no_row_is_cut_in_two(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 540, 501)
    row = panel.table.verticalHeader().defaultSectionSize()
    assert panel.table.viewport().height() % row == 0


def test_a_failed_check_is_a_cross_and_its_statement_the_tooltip(running: Session, shown: Shown) -> None:
    check = Check("W_Q rows = H·Dh = <128>", False, "found 127")
    bad = LedgerRow(some_entry(check=check))
    good = LedgerRow(some_entry(check=replace(check, passed=True)))
    open_ = LedgerRow(some_entry(check=replace(check, passed=None)))
    panel = shown(LedgerPanel, running, 900, 300)
    panel.model.show((bad, good, open_))
    assert [cell(panel, i, "check") for i in range(3)] == ["✗", "✓", ""]
    tip = str(panel.model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole))
    assert "&lt;128&gt;: does not hold (found 127)" in tip
    panel.fit_columns()
    image = panel.table.viewport().grab().toImage()
    for row, colour in ((0, theme.current().bad), (1, theme.current().good)):
        box = panel.table.visualRect(panel.model.index(row, column("check")))
        box = box.intersected(image.rect())
        inside = {
            image.pixelColor(x, y).rgb() for x in range(box.left(), box.right()) for y in range(box.top(), box.bottom())
        }
        assert colour.rgb() in inside


def test_colour_chips_mean_query_key_value(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 900, 800)
    image = panel.table.viewport().grab().toImage()
    look = theme.current()
    for name, colour in (("Split heads Q", look.query), ("Split heads K", look.key), ("Split heads V", look.value)):
        box = panel.table.visualRect(panel.model.index(row_named(panel, name), 0))
        assert image.pixelColor(box.left() + 7, box.center().y()).rgb() == colour.rgb()


def test_words_for_memory_and_totals(running: Session) -> None:
    from ropewalk.model.engine.questions import AskLedger

    assert memory_text(some_entry()) == "not stored · would be 4.5 KiB"
    assert memory_text(some_entry(), brief=True) == "not stored"
    assert memory_text(some_entry(stored="stored", bytes=6_144)) == "6 KiB"
    assert "36,864 FLOPs, of which causal 19,968" in description(LedgerRow(some_entry()))
    prefill, _ = canned.reading(run_on(running), AskLedger(0))
    stored = sum(e.bytes for e in prefill.entries if e.stored == "stored")
    assert f"prefill rows: {wording.byte_size(stored)} stored" in totals_text(prefill).replace("\u00a0", " ")


def test_only_the_layer_redraws_it(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(LedgerPanel, running)
    drawn = panel.draws
    running.selection.update(head=2, query=3, key=1, plane=4)
    running.selection.update(layer=2)
    settle(running, panel)
    assert panel.draws == drawn + 1
    assert "layer 2" in panel.subtitle.text()


def test_nothing_less_important_takes_the_decode_columns_place(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(LedgerPanel, running, 520, 600)
    running.timeline.step()
    settle(running, panel)
    assert "decode" in panel.shown_columns()
    assert not {"flops", "parameters", "causal"} & set(panel.shown_columns())


def test_sums_are_brief_where_there_is_little_room(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 900, 600)
    assert "not stored" in panel.totals.text().replace("\u00a0", " ")
    panel.resize(330, 600)
    assert "not stored" not in panel.totals.text().replace("\u00a0", " ")
    assert "not stored" in panel.totals.toolTip().replace("\u00a0", " ")


def changed_cells(panel: LedgerPanel, act: Callable[[], object]) -> tuple[set[tuple[int, str]], int]:
    """The cells that were announced as changed, and how often all of them were, while ``act`` was done."""
    cells: set[tuple[int, str]] = set()
    resets: list[bool] = []
    panel.model.dataChanged.connect(lambda first, last: cells.add((first.row(), COLUMNS[first.column()].key)))
    panel.model.modelReset.connect(lambda: resets.append(True))
    act()
    return cells, len(resets)


def test_another_step_changes_only_the_cells_that_say_something_else(
    running: Session, shown: Shown, qtbot: QtBot
) -> None:
    panel = shown(LedgerPanel, running, 1400, 800)
    running.timeline.step()
    settle(running, panel)
    before = panel.model.texts

    def step() -> None:
        running.timeline.step()
        settle(running, panel)

    cells, resets = changed_cells(panel, step)
    texts = {
        (row, COLUMNS[number].key)
        for row, texts in enumerate(panel.model.texts)
        for number, text in enumerate(texts)
        if text != before[row][number]
    }
    assert resets == 0
    assert (row_named(panel, "Scores"), "decode") in texts
    assert cells == texts
    assert {key for _, key in cells} <= {"decode", "decode_flops", "decode_memory"}


def test_a_layer_of_the_same_kind_changes_no_cell(running: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(LedgerPanel, running, 1400, 800)
    shown_before = panel.model.texts

    def switch() -> None:
        running.selection.update(layer=2)
        settle(running, panel)

    assert changed_cells(panel, switch) == (set(), 0)
    assert panel.model.texts == shown_before
    assert panel.subtitle.text().startswith("layer 2")


def test_a_check_that_fails_repaints_its_row(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 1400, 800)
    row = row_named(panel, "Scores")
    rows = list(panel.model.rows)
    rows[row] = LedgerRow(replace(rows[row].entry, check=Check("holds", False)))
    cells, resets = changed_cells(panel, lambda: panel.model.show(tuple(rows)))
    assert (cells, resets) == ({(row, column.key) for column in COLUMNS}, 0)


def test_other_operations_replace_the_table(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 1400, 800)
    fewer = panel.model.rows[:-1]
    assert changed_cells(panel, lambda: panel.model.show(fewer)) == (set(), 1)
    assert len(panel.model.texts) == len(fewer)


def test_the_row_of_a_line_of_arithmetic_is_marked_and_brought_into_sight(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 420, 300)
    keys = [row.entry.key for row in panel.model.rows]
    last = keys.index("lm_head")

    def lines(row: int) -> int:
        """Rows of pixels in the accent inside a row of the table."""
        image, box = panel.table.grab().toImage(), panel.table.visualRect(panel.model.index(row, 0))
        top = panel.table.horizontalHeader().height() + box.top()
        accent = theme.current().accent.rgb()
        return sum(image.pixelColor(20, y).rgb() == accent for y in range(top, top + box.height()))

    running.selection.point_at(Hover(operation="q"))
    assert panel.model.pointed == "q"
    assert lines(keys.index("q")) > 0
    assert lines(keys.index("k")) == 0
    running.selection.point_at(Hover(operation="lm_head"))
    assert panel.table.visualRect(panel.model.index(last, 0)).bottom() <= panel.table.viewport().height()
    assert lines(last) > 0
    running.selection.point_at(Hover())
    assert lines(last) == 0


def test_as_many_of_the_named_rows_as_fit_are_brought_into_sight(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 700, 220)
    panel.highlighted = {"rows": frozenset({"q", "k", "v", "split_k"})}
    panel.show_highlights()
    for name in ("Q projection", "K projection", "V projection"):
        assert in_sight(panel, name)
    assert not in_sight(panel, "Scores")


def in_sight(panel: LedgerPanel, name: str) -> bool:
    box = panel.table.visualRect(panel.model.index(row_named(panel, name), 0))
    return not box.isEmpty() and panel.table.viewport().rect().contains(box)


NAMED = {"embed": "Embedding", "blend": "P · V", "o": "W_O", "lm_head": "lm_head"}


@pytest.mark.parametrize("look", ["dark", "projector"])
def test_named_rows_that_are_far_apart_are_all_in_sight(
    running: Session, shown: Shown, qtbot: QtBot, look: str
) -> None:
    theme.apply("dark", projector=look == "projector")
    panel = shown(LedgerPanel, running, 700, 300 if look == "dark" else 420)
    panel.highlighted = {"rows": frozenset(NAMED)}
    panel.show_highlights()
    table, row = panel.table, panel.table.verticalHeader().defaultSectionSize()
    assert [name for name in NAMED.values() if not in_sight(panel, name)] == []
    shown_rows = [place for place in range(len(panel.model.rows)) if not table.isRowHidden(place)]
    folds = panel.model.folds
    assert len(shown_rows) + sum(count - 1 for count in folds.values()) == len(panel.model.rows)
    assert sum(table.rowHeight(place) for place in shown_rows) == row * len(shown_rows) <= table.viewport().height()
    first = min(folds)
    assert panel.model.index(first, 0).data() == f"⋯ {folds[first]} more"
    with qtbot.assertNotEmitted(panel.panel_requested):
        click_row(qtbot, panel, first)
    assert not any(table.isRowHidden(place) for place in range(len(panel.model.rows)))
    panel.highlighted = {"rows": frozenset({"embed"})}
    panel.show_highlights()
    assert not panel.model.folds


def test_an_operation_that_is_pointed_at_comes_out_of_its_fold(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 700, 320)
    panel.highlighted = {"rows": frozenset(NAMED)}
    panel.show_highlights()
    assert not in_sight(panel, "K projection")
    running.selection.point_at(Hover(operation="k"))
    assert in_sight(panel, "K projection")
    assert [name for name in NAMED.values() if not in_sight(panel, name)] == []


def test_the_sums_give_way_to_rows_that_are_named(running: Session, shown: Shown) -> None:
    panel = shown(LedgerPanel, running, 700, 160)
    assert panel.totals.isVisible()
    panel.highlighted = {"rows": frozenset({"q", "k", "v"})}
    panel.show_highlights()
    assert not panel.totals.isVisible()
    assert all(in_sight(panel, f"{name} projection") for name in "QKV")
    panel.highlighted = {}
    panel.show_highlights()
    assert panel.totals.isVisible()
