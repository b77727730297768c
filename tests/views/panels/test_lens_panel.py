"""The logit lens over canned readings: cells, words, hands, long runs, what is asked when, and what lessons ring."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QBuffer, QIODevice, QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.decoder.interventions import AblateHeads
from ropewalk.model.engine.questions import EVERYTHING, AskLens
from ropewalk.model.readings.records import LogitLens, TokenText
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.views.panels import lens as lens_panel
from ropewalk.views.panels.lens import LensPanel
from ropewalk.views.plots.charts.lens_map import MOST, QUANTITIES, LensMap
from ropewalk.views.plots.maps.levels import in_cell
from ropewalk.views.style import ink, theme, wording
from ropewalk.views.style.lettering import face
from tests.views import canned
from tests.views.canned import CannedEngine, token_at, word
from tests.views.driving import run_on, settle
from tests.views.plots.hand import click, drag, point_at, wheel

Shown = Callable[..., Any]
LongRun = Callable[[int], Session]


def asked_of(engine: CannedEngine) -> list[tuple[int, int] | None]:
    """The positions that were asked for, in turn."""
    return [one.rows for one in engine.asked if isinstance(one, AskLens)]


def lens_of(session: Session) -> LogitLens:
    lens: LogitLens = canned.reading(run_on(session), AskLens())
    return lens


def area_of(lens_map: LensMap) -> QRectF:
    return QRectF(lens_map.box.geometry())


def written_in(lens_map: LensMap, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, QRectF]]:
    """Every text that is written in a cell, and what of the widget its letters take."""
    found: list[tuple[str, QRectF]] = []
    draw = ink.draw_text

    def write(painter: QPainter, box: QRectF, text: str, font: Any, *how: Any) -> None:
        if area_of(lens_map).contains(box.center()):
            size = face(font).fitted(text, box.width(), Qt.TextElideMode.ElideRight).width, face(font).height
            taken = QRectF(0, 0, *size)
            taken.moveCenter(box.center())
            found.append((text, taken))
        draw(painter, box, text, font, *how)

    with monkeypatch.context() as patch:
        patch.setattr(ink, "draw_text", write)
        lens_map.grab()
    return found


# Cells ----------------------------------------------------------------------------------------------------------------


def test_each_cell_has_its_token_and_the_colour_of_its_number(
    running: Session, shown: Shown, engine: CannedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = shown(LensPanel, running, 900, 560)
    lens, lens_map, run = lens_of(running), panel.map, run_on(running)
    assert (lens_map.sight(), asked_of(engine)[-1]) == ((0, 12), (0, 12))
    image, table = lens_map.grab().toImage(), theme.current().sequential
    cells = [(place, position) for place in range(run.config.layers + 1) for position in range(12)]
    for cell in cells:
        chance = float(lens.probabilities[(*cell, 0)])
        assert lens_map.number(*cell) == pytest.approx(chance, abs=1e-6)
        colour = image.pixelColor((lens_map.cell_rect(*cell).topLeft() + QPointF(8, 8)).toPoint())  # off the outlines
        expected = table[round(chance * 255)][:3]
        assert np.abs(np.array(colour.getRgb()[:3], int) - expected).max() <= 3  # an index may be rounded the other way
    written = written_in(lens_map, monkeypatch)
    assert len(written) == 2 * len(cells)
    for cell in cells:
        inside = [text for text, taken in written if lens_map.cell_rect(*cell).contains(taken.center())]
        number = in_cell(float(lens.probabilities[(*cell, 0)]))
        assert inside == [number, word(int(lens.top[(*cell, 0)])).text]
    beside = [panel.map.left.tickStrings([place], 1, 1)[0] for place in range(run.config.layers + 1)]
    assert beside == ["embedding", "L0", "L1", "L2", "L3"]


@pytest.mark.parametrize("projector", [False, True])
@pytest.mark.parametrize("size", [(900, 560), (520, 300), (400, 220), (1400, 240)])
def test_what_is_written_in_a_cell_stays_in_it(
    running: Session,
    shown: Shown,
    engine: CannedEngine,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    projector: bool,
) -> None:
    engine.answers[AskLens] = lambda run, asked: replace(
        canned.reading(run, asked),
        tokens=[TokenText(number, f"·{'long' * (number % 5)}") for number in range(299, 339)],
    )
    panel = shown(LensPanel, running, *size)
    theme.apply("dark", projector)
    panel.theme_changed()
    settle(running, panel)
    lens_map = panel.map
    written = written_in(lens_map, monkeypatch)
    cells = [lens_map.cell_rect(place, at) for place in range(lens_map.places) for at in range(*lens_map.sight())]
    for text, taken in written:
        assert any(cell.adjusted(-1, -1, 1, 1).contains(taken) for cell in cells), text
    for (one, first), (other, second) in combinations(written, 2):
        both = first.intersected(second)
        assert both.width() < 1 or both.height() < 1, (one, other)
    assert written or lens_map.lettering() is None


def test_rows_too_low_for_type_have_none(
    session: Session, shown: Shown, engine: CannedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.config = engine.config.changed(layers=30)
    session.opening.begin(prompt=Prompt("twelve"))
    settle(session)
    panel = shown(LensPanel, session, 600, 300)
    assert panel.map.lettering() is None
    assert written_in(panel.map, monkeypatch) == []
    panel.resize(600, 560)
    settle(session, panel)
    small = panel.map.lettering()
    assert small is not None
    assert small.pixelSize() < theme.current().size("number")
    assert len(written_in(panel.map, monkeypatch)) == 31 * 12


def test_the_colours_are_of_what_is_chosen(running: Session, shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = shown(LensPanel, running, 900, 560)
    lens, lens_map, vocabulary = lens_of(running), panel.map, run_on(running).config.vocabulary
    expected = {
        "top": (lens.probabilities[..., 0], 0.0, 1.0),
        "final": (lens.final, 0.0, 1.0),
        "actual": (lens.actual, 0.0, 1.0),
        "rank": (lens.rank, 1.0, float(vocabulary)),
        "entropy": (lens.entropy, 0.0, math.log(vocabulary)),
    }
    for place, quantity in enumerate(QUANTITIES):
        numbers, low, high = expected[quantity.name]
        assert panel.quantity.currentText() == quantity.title
        assert quantity.title in lens_map.heading.text
        assert (lens_map.data.levels.low, lens_map.data.levels.high) == (low, high)
        whole = quantity.name == "rank"
        assert lens_map.bar.write(low) == ("1" if whole else "0.00")
        texts = [text for text, taken in written_in(lens_map, monkeypatch) if text[0].isdecimal()]
        assert {"." in text for text in texts} == {not whole}
        hidden = quantity.name in ("actual", "rank")
        assert [lens_map.data.is_masked(2, position) for position in (10, 11)] == [False, hidden]
        for cell in ((0, 0), (2, 5), (4, 10)):
            assert lens_map.number(*cell) == pytest.approx(float(numbers[cell]), rel=1e-6)
        if place + 1 < len(QUANTITIES):
            QTest.keyClick(panel.quantity, Qt.Key.Key_Down)


def test_an_end_of_the_colour_bar_can_be_dragged_and_the_choice_gives_the_levels_back(
    running: Session, shown: Shown
) -> None:
    lens_map = shown(LensPanel, running, 900, 560).map
    ramp = lens_map.bar.box.geometry()
    end, middle = QPointF(ramp.center().x(), ramp.bottom() - ramp.height() * 0.0536), ramp.center()
    before = lens_map.grab().toImage().pixelColor((lens_map.cell_rect(3, 3).topLeft() + QPointF(4, 4)).toPoint())
    drag(lens_map, [end, QPointF(end.x(), end.y() - 20), middle])
    assert lens_map.data.levels.low == pytest.approx(0.5, abs=0.05)
    after = lens_map.grab().toImage().pixelColor((lens_map.cell_rect(3, 3).topLeft() + QPointF(4, 4)).toPoint())
    assert before != after
    lens_map.colour(lens_map.quantity)
    assert lens_map.data.levels.low == 0.0


# Hands ----------------------------------------------------------------------------------------------------------------


def test_a_click_goes_there_and_is_outlined(running: Session, shown: Shown) -> None:
    panel = shown(LensPanel, running, 900, 560)
    lens_map, selection = panel.map, running.selection
    click(lens_map, lens_map.cell_rect(3, 4).center())
    assert (selection.now.layer, selection.now.query, lens_map.selected) == (2, 4, (3, 4))
    edge = lens_map.cell_rect(3, 4)
    image = lens_map.grab().toImage()
    on_edge = image.pixelColor(round(edge.center().x()), round(edge.top() - 2))
    assert on_edge.name() == theme.current().accent.name()
    click(lens_map, lens_map.cell_rect(0, 7).center())
    assert (selection.now.layer, selection.now.query, lens_map.selected) == (0, 7, (0, 7))
    assert "after the embedding at 7" in panel.said.text()
    click(lens_map, lens_map.cell_rect(1, 7).center())
    assert (selection.now.layer, lens_map.selected) == (0, (1, 7))
    click(lens_map, lens_map.cell_rect(0, 7).center())
    selection.update(layer=3)
    assert lens_map.selected == (4, 7)
    selection.update(layer=0)
    assert lens_map.selected == (1, 7)


def test_arrow_keys_go_to_the_cell_beside_and_no_further(running: Session, shown: Shown) -> None:
    panel = shown(LensPanel, running, 900, 560)
    lens_map = panel.map
    lens_map.setFocus()
    click(lens_map, lens_map.cell_rect(1, 1).center())
    found = []
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Left, Qt.Key.Key_Left, Qt.Key.Key_Down, Qt.Key.Key_Down):
        QTest.keyClick(lens_map, key)
        found.append(lens_map.selected)
    assert found == [(0, 1), (0, 1), (0, 0), (0, 0), (1, 0), (2, 0)]
    QTest.keyClick(lens_map, Qt.Key.Key_Right)
    assert (running.selection.now.layer, running.selection.now.query) == (1, 1)
    assert run_on(running).length == 12, "nothing was decoded"
    assert lens_map.accessibleDescription() == lens_map.words(2, 1)


def test_what_is_pointed_at_is_said_in_words(running: Session, shown: Shown) -> None:
    panel = shown(LensPanel, running, 900, 560)
    lens, lens_map, run = lens_of(running), panel.map, run_on(running)
    selected = panel.said.text()
    point_at(lens_map, lens_map.cell_rect(2, 5).center())
    assert running.selection.hover == Hover(query=5, layer=1)
    assert panel.said.text().startswith("after L1 at 5 ")
    for token, chance in zip(lens.top[2, 5], lens.probabilities[2, 5], strict=True):
        assert f"“{word(int(token)).inline}” {wording.number(float(chance))}" in panel.said.text()
    follows = f"really follows “{run.tokens[6].inline}”: {wording.number(float(lens.actual[2, 5]))}"
    assert panel.more.text().startswith(f"{follows}, rank {lens.rank[2, 5]} of {run.config.vocabulary:,} · entropy ")
    assert panel.more.text().endswith("run of 12 tokens")
    point_at(lens_map, lens_map.cell_rect(0, 11).center())
    assert lens_map.hovered == (0, 11)
    assert panel.said.text().startswith("after the embedding at 11 ")
    assert panel.more.text().startswith("nothing follows yet")
    point_at(lens_map, QPointF(2, 2))
    assert (running.selection.hover, panel.said.text()) == (Hover(), selected)
    running.selection.point_at(Hover(query=3))
    assert lens_map.hovered == (lens_map.selected[0], 3)
    running.interventions.apply((AblateHeads(1, (4,)),))
    settle(running, panel)
    assert panel.more.text().endswith("run of 12 tokens · with L1H4 → 0")


# Long runs ------------------------------------------------------------------------------------------------------------


def test_of_a_long_run_only_what_is_in_sight_is_asked_for(
    long_run: LongRun, shown: Shown, engine: CannedEngine
) -> None:
    session = long_run(400)
    session.selection.update(query=200)
    panel = shown(LensPanel, session, 700, 420)
    lens_map = panel.map
    first, last = lens_map.sight()
    assert first <= 200 < last
    assert 4 <= last - first <= 20
    assert panel.subtitle.text().endswith(f"{first} to {last - 1} in sight")
    assert max(stop - start for start, stop in filter(None, asked_of(engine))) <= last - first
    engine.asked.clear()
    click(lens_map, lens_map.cell_rect(2, last - 2).center())
    lens_map.setFocus()
    for _ in range(3):
        QTest.keyClick(lens_map, Qt.Key.Key_Right)
        settle(session, panel)
    assert session.selection.now.query == last + 1
    start, stop = lens_map.sight()
    assert start <= last + 1 < stop
    assert asked_of(engine) == [(last, stop)], "what was read before is not read again"
    lens = lens_of(session)
    for position in range(start, stop):
        assert lens_map.text(3, position) == word(int(lens.top[3, position, 0])).text
    engine.asked.clear()
    session.selection.update(query=3)
    settle(session, panel)
    assert lens_map.sight()[0] <= 3
    assert asked_of(engine) == [lens_map.sight()]
    assert lens_map.text(1, 3) == word(int(lens.top[1, 3, 0])).text


def test_the_wheel_and_a_drag_bring_others_in_sight(long_run: LongRun, shown: Shown, engine: CannedEngine) -> None:
    session = long_run(700)
    session.selection.update(query=300)
    panel = shown(LensPanel, session, 700, 420)
    lens_map = panel.map
    before, centre = lens_map.sight(), area_of(lens_map).center()
    engine.asked.clear()
    drag(lens_map, [centre, centre + QPointF(60, 0), centre + QPointF(160, 0)])
    settle(session, panel)
    first, last = lens_map.sight()
    assert first < before[0]
    assert asked_of(engine)[-1] == (first, before[0])
    wheel(lens_map, centre, -4)
    settle(session, panel)
    assert lens_map.sight()[0] < first
    assert lens_map.sight()[1] > last
    assert panel.lens is not None
    assert panel.lens.rows[0] <= lens_map.sight()[0]
    assert lens_map.sight()[1] <= panel.lens.rows[1]
    wheel(lens_map, centre, -40)
    settle(session, panel)
    assert lens_map.sight()[1] - lens_map.sight()[0] <= MOST + 1
    assert lens_map.lettering() is None
    QTest.mouseDClick(lens_map.viewport(), Qt.MouseButton.LeftButton, pos=centre.toPoint())
    settle(session, panel)
    assert lens_map.sight()[1] - lens_map.sight()[0] == MOST
    assert lens_map.sight()[0] <= 300 < lens_map.sight()[1]
    lens = lens_of(session)
    assert lens_map.number(2, 300) == pytest.approx(float(lens.probabilities[2, 300, 0]), abs=1e-6)


def test_a_click_on_a_position_at_the_edge_moves_no_more_than_it_in_sight(long_run: LongRun, shown: Shown) -> None:
    session = long_run(200)
    session.selection.update(query=100)
    lens_map = shown(LensPanel, session, 700, 420).map
    centre = area_of(lens_map).center()
    drag(lens_map, [centre, centre + QPointF(30, 0), centre + QPointF(20, 0)])
    for side in (0, 1, 0, 1):
        edge = lens_map.sight()[side] - side
        (before, _), _ = lens_map.box.viewRange()
        click(lens_map, lens_map.cell_rect(2, edge).intersected(area_of(lens_map)).center())
        settle(session)
        assert session.selection.now.query == edge
        (left, right), _ = lens_map.box.viewRange()
        assert abs(left - before) < 1
        assert left - 1e-6 <= edge - 0.5 <= right - 1 + 1e-6


def test_what_lies_far_away_is_let_go(
    long_run: LongRun, shown: Shown, engine: CannedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lens_panel, "KEPT", 30)
    session = long_run(400)
    session.selection.update(query=200)
    panel = shown(LensPanel, session, 700, 420)
    for query in range(200, 260, 6):
        session.selection.update(query=query)
        settle(session, panel)
        assert panel.lens is not None
        assert panel.lens.rows[1] - panel.lens.rows[0] <= 30
        assert panel.map.text(0, query)


def test_a_larger_panel_shows_more_positions_and_asks_for_them(
    long_run: LongRun, shown: Shown, engine: CannedEngine
) -> None:
    session = long_run(100)
    panel = shown(LensPanel, session, 500, 420)
    before = panel.map.sight()
    panel.resize(1100, 420)
    settle(session, panel)
    first, last = panel.map.sight()
    assert last - first > 1.5 * (before[1] - before[0])
    assert all(panel.map.text(0, position) for position in range(first, last))
    assert panel.map.cell[0] >= 40


# What is asked when ---------------------------------------------------------------------------------------------------


def test_parts_are_drawn_before_all_is_read(running: Session, shown: Shown, engine: CannedEngine, qtbot: QtBot) -> None:
    part = canned.reading(run_on(running), AskLens((0, 5)))
    engine.ready[AskLens] = [part]
    engine.gated = AskLens
    engine.gate.shut()
    panel = LensPanel(running)
    qtbot.addWidget(panel)
    panel.resize(900, 560)
    panel.show()
    qtbot.waitUntil(lambda: panel.map.text(2, 4) != "")
    assert panel.body.isVisible()
    assert panel.map.text(2, 5) == ""
    assert panel.words(2, 5)[0].endswith("not read yet")
    assert panel.map.data.colour(2, 8) is None
    engine.gate.open.set()
    settle(running, panel)
    assert panel.map.text(2, 5) != ""
    assert panel.lens is not None
    assert panel.lens.rows == (0, 12)


def test_a_decoded_token_gets_its_column(running: Session, shown: Shown) -> None:
    panel = shown(LensPanel, running, 900, 560)
    assert not panel.lens.rank[:, 11].any()
    running.timeline.step()
    settle(running, panel)
    assert panel.map.sight() == (0, 13)
    assert panel.lens.rank[:, 11].all()
    assert panel.map.text(4, 12) != ""
    running.timeline.step_back()
    settle(running, panel)
    assert panel.map.sight() == (0, 12)
    assert panel.lens.rows == (0, 12)


def test_a_run_whose_rows_cannot_be_run_again_is_explained(
    running: Session, shown: Shown, engine: CannedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running.handle is not None
    monkeypatch.setattr(running, "_handle", replace(running.handle, can=EVERYTHING - {"replay"}))
    engine.asked.clear()
    panel = shown(LensPanel, running)
    assert panel.notice.text().startswith("This run cannot be run again, so this cannot be answered; run a prompt ")
    assert (asked_of(engine), panel.settled) == ([], True)


# Lessons, files, looks ------------------------------------------------------------------------------------------------


def test_what_a_lesson_names_is_ringed(running: Session, shown: Shown) -> None:
    panel = shown(LensPanel, running, 900, 560)
    lens_map = panel.map
    panel.highlight({"predictions": frozenset({(2, 5), (-1, 3)})})
    assert lens_map.ringed == {(3, 5), (0, 3)}
    box = lens_map.cell_rect(3, 5)
    place = round(box.center().x()), round(box.top() - theme.current().grid(0.25))
    ringed = lens_map.grab().toImage().pixelColor(*place)
    panel.highlight({})
    assert lens_map.grab().toImage().pixelColor(*place) != ringed
    assert ringed.lightness() > 150


def test_the_numbers_are_copied_as_columns(running: Session, shown: Shown) -> None:
    panel = shown(LensPanel, running, 900, 560)
    lens, table = lens_of(running), dict(panel.map.table())
    assert len(set(map(len, table.values()))) == 1
    at = table["place"].index("L1") + 5
    assert (table["place"][at], table["position"][at], table["token"][at]) == ("L1", 5, token_at(5).text)
    assert table["top token"][at] == word(int(lens.top[2, 5, 0])).text
    assert table["probability of the top token"][at] == lens.probabilities[2, 5, 0]


def test_a_vector_file_holds_the_cells_in_sight_as_text(long_run: LongRun, shown: Shown) -> None:
    session = long_run(60)
    lens_map = shown(LensPanel, session, 700, 420).map
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(QSize(700, 420))
    painter = QPainter(generator)
    QWidget.render(lens_map, painter, QPoint())
    painter.end()
    drawn = bytes(buffer.data().data()).decode()
    first, last = lens_map.sight()
    for position in range(first, last):
        assert f">{lens_map.text(2, position)}</text>" in drawn
    table = theme.current().sequential
    chance = lens_map.number(2, first)
    red, green, blue = (int(part) for part in table[round(chance * 255)][:3])
    assert f"#{red:02x}{green:02x}{blue:02x}" in drawn


@pytest.mark.parametrize(("name", "projector"), [("light", False), ("dark", True)])
def test_every_theme_is_put_on(running: Session, shown: Shown, name: theme.ThemeName, projector: bool) -> None:
    panel = shown(LensPanel, running, 900, 560)
    now = theme.apply(name, projector)
    panel.theme_changed()
    settle(running, panel)
    lens_map = panel.map
    image = lens_map.grab().toImage()
    selected = lens_map.cell_rect(*lens_map.selected)
    at = round(selected.center().x()), round(selected.top() - 2)
    assert image.pixelColor(*at).name() == now.accent.name()
    font = lens_map.lettering()
    assert font is not None
    assert font.pixelSize() >= theme.themed(name, projector).size("number") * 0.75
