"""The head board: pictures are the numbers, maps are linked and as large as they can be, and what is pinned is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QSignalSpy, QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selection import Hover
from ropewalk.app.session.session import Session
from ropewalk.model.engine.questions import AskBoard, AskRefinedBoard
from ropewalk.model.readings.records import BoardReading, HeadPicture, Run
from ropewalk.views.panels.board import EMPTY, BoardPanel
from ropewalk.views.panels.head_cards import LEAST, CardGrid, HeadCard
from ropewalk.views.plots.maps.heatmap import Heatmap
from ropewalk.views.style import theme, wording
from tests.views import canned
from tests.views.canned import CannedEngine
from tests.views.driving import run_on, settle
from tests.views.measuring import faults

Shown = Callable[..., Any]
HEADS = ((1, 4), (0, 2), (2, 6))


@pytest.fixture
def pinned(running: Session) -> Session:
    """A session with three heads on the board."""
    for head in HEADS:
        running.board.pin(*head)
    return running


def names(panel: BoardPanel) -> list[str]:
    return [card.name.text() for card in panel.grid.cards]


def card_of(panel: BoardPanel, name: str) -> HeadCard:
    return next(card for card in panel.grid.cards if card.name.text() == name)


def boards_asked(engine: CannedEngine) -> list[AskBoard]:
    return [one for one in engine.asked if isinstance(one, AskBoard)]


def test_an_empty_board_says_how_heads_come_to_it_and_asks_nothing(
    running: Session, shown: Shown, engine: CannedEngine
) -> None:
    panel = shown(BoardPanel, running, 900, 600)
    assert (panel.notice.text(), panel.notice.isVisible()) == (EMPTY, True)
    assert panel.field.isVisible()
    assert not boards_asked(engine)


def test_maps_mean_and_difference_are_the_numbers_of_the_heads(pinned: Session, shown: Shown) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    run = run_on(pinned)
    assert names(panel) == ["L1H4", "L0H2", "L2H6", "average of 3", "L1H4 − L0H2"]
    every = [canned.weights(run, *head) for head in HEADS]
    pinned.selection.update(query=2, key=0)
    seen = canned.visible(run)
    for card, wanted in zip(panel.grid.cards, (*every, np.mean(every, axis=0), every[0] - every[1]), strict=True):
        assert np.where(seen, card.heatmap.data.values, 0) == pytest.approx(np.where(seen, wanted, 0), abs=1e-6)
        image = card.heatmap.grab().toImage()
        signed = card is panel.grid.cards[-1]
        assert (card.heatmap.levels.scale == "diverging") == signed
        table = theme.current().diverging if signed else theme.current().sequential
        for query, key in ((5, 1), (7, 4), (11, 9)):
            entry = card.heatmap.levels.indices(np.array([wanted[query, key]], np.float32))[0]
            place = card.heatmap.cell_rect(query, key).center().toPoint() + QPoint(2, 2)
            assert image.pixelColor(place).rgb() == QColor(*(int(part) for part in table[entry][:3])).rgb()


def test_one_colour_is_one_number_in_all_heads_as_weights_and_as_scores(
    pinned: Session, shown: Shown, engine: CannedEngine
) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    pinned.selection.update(query=6, key=3)
    asked = len(engine.asked)
    panel.scores.click()
    settle(pinned, panel)
    assert len(engine.asked) == asked, "both are in the one answer"
    run = run_on(pinned)
    every = np.stack([canned.scores(run, *head) for head in HEADS])
    assert f"L0H2 {wording.number(every[1][6, 3])}" in panel.readout.text(), "the number is of the map above it"
    assert card_of(panel, "L0H2").heatmap.value(6, 3) == pytest.approx(every[1][6, 3], abs=1e-5)
    seen = canned.visible(run)
    levels = {card.heatmap.levels for card in panel.grid.cards[:4]}
    assert len(levels) == 1
    assert next(iter(levels)).high == pytest.approx(every[:, seen].max(), abs=1e-4)
    assert "scores after the mask" in panel.subtitle.text()
    assert panel.figure_caption == "Scores of L1H4, L0H2, L2H6, average of 3, L1H4 − L0H2"


def test_the_two_that_are_subtracted_are_chosen(pinned: Session, shown: Shown, engine: CannedEngine) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    panel.boxes[0].setCurrentText("L2H6")
    panel.boxes[0].activated.emit(2)
    settle(pinned, panel)
    assert names(panel)[-1] == "L2H6 − L0H2"
    run = run_on(pinned)
    wanted = canned.weights(run, 2, 6) - canned.weights(run, 0, 2)
    assert panel.grid.cards[-1].heatmap.value(8, 3) == pytest.approx(wanted[8, 3], abs=1e-6)
    pinned.board.unpin(2, 6)
    settle(pinned, panel)
    assert names(panel)[-1] == "L1H4 − L0H2"
    assert boards_asked(engine)[-1].difference == (0, 1)


def test_maps_are_linked_by_zoom_selection_and_pointer(pinned: Session, shown: Shown) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    maps = [card.heatmap for card in panel.grid.cards]
    maps[2].look_at(QRectF(1.5, 3.5, 4, 4))
    assert all(heatmap.view == maps[2].view for heatmap in maps)
    place = maps[1].cell_rect(6, 3).center().toPoint()
    QTest.mouseMove(maps[1].viewport(), place)
    assert pinned.selection.hover == Hover(query=6, key=3, layer=0, head=2)
    assert all(heatmap.hover == (6, 3) for heatmap in maps)
    run = run_on(pinned)
    assert f"L2H6 {canned.weights(run, 2, 6)[6, 3]:.3f}" in panel.readout.text()
    QTest.mouseClick(maps[1].viewport(), Qt.MouseButton.LeftButton, pos=place)
    now = pinned.selection.now
    assert (now.layer, now.head, now.query, now.key) == (0, 2, 6, 3)
    assert all(heatmap.selection == (6, 3) for heatmap in maps)
    assert [card.name.text() for card in panel.grid.cards if card.selected] == ["L0H2"]
    line = card_of(panel, "L0H2")
    colour = line.grab().toImage().pixelColor(line.width() // 2, line.name.geometry().bottom() + 1)
    assert colour.rgb() == theme.current().accent.rgb()
    maps[3].setFocus()
    QTest.keyClick(maps[3], Qt.Key.Key_Down)
    assert (pinned.selection.now.head, pinned.selection.now.query) == (2, 7), "the mean is of no head of its own"


def test_a_head_is_pinned_by_its_name_or_a_sentence_says_what_there_is(running: Session, shown: Shown) -> None:
    panel = shown(BoardPanel, running, 900, 600)
    heard = QSignalSpy(running.failed)
    panel.field.setText(" l3 h7")
    QTest.keyClick(panel.field, Qt.Key.Key_Return)
    settle(running, panel)
    assert names(panel) == ["L3H7"]
    assert panel.field.text() == ""
    for typed, says in (
        ("L18H6", "There is no L18H6: this model has 4 layers of 8 heads, from L0H0 to L3H7."),
        ("q=3", "'q=3' names no head; write it like L1H3."),
        ("?", "'?' names no head and no cell"),
    ):
        panel.field.setText(typed)
        QTest.keyClick(panel.field, Qt.Key.Key_Return)
        assert heard.at(heard.count() - 1)[0].startswith(says)
    assert running.board.now.heads == ((3, 7),)


def test_a_head_is_taken_off_by_its_button_by_key_and_by_the_button_of_the_selected_one(
    pinned: Session, shown: Shown
) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    QTest.mouseClick(card_of(panel, "L0H2").close_button, Qt.MouseButton.LeftButton)
    settle(pinned, panel)
    assert pinned.board.now.heads == ((1, 4), (2, 6))
    heatmap = card_of(panel, "L2H6").heatmap
    heatmap.setFocus()
    QTest.keyClick(heatmap, Qt.Key.Key_Delete)
    settle(pinned, panel)
    assert names(panel) == ["L1H4"], "of one head there is no mean and no difference"
    pinned.selection.update(layer=1, head=4)
    assert panel.pin_button.text() == "unpin L1H4"
    panel.pin_button.click()
    settle(pinned, panel)
    assert panel.notice.text() == EMPTY
    assert panel.pin_button.text() == "pin L1H4"


def test_the_mean_and_the_difference_go_by_their_buttons(pinned: Session, shown: Shown, engine: CannedEngine) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    card_of(panel, "average of 3").close_button.click()
    settle(pinned, panel)
    assert names(panel)[3:] == ["L1H4 − L0H2"]
    panel.difference.click()
    settle(pinned, panel)
    assert names(panel) == ["L1H4", "L0H2", "L2H6"]
    asked = boards_asked(engine)[-1]
    assert (asked.average, asked.difference) == (False, None)
    assert not any(box.isVisible() for box in panel.boxes)


def test_what_does_not_fit_stands_on_another_page_and_no_map_is_small(
    running: Session, shown: Shown, engine: CannedEngine
) -> None:
    for number in range(20):
        running.board.pin(*divmod(number, 8))
    panel = shown(BoardPanel, running, 760, 520)
    seen = names(panel)
    assert 1 < len(seen) < 20
    assert panel.page.text() == f"1–{len(seen)} of 22"
    assert not panel.before.isEnabled()
    for _ in range(22):
        for card in panel.grid.cards:
            assert card.heatmap.plot.width() >= LEAST
            assert panel.grid.rect().contains(card.geometry())
        if not panel.after.isEnabled():
            break
        panel.after.click()
        settle(running, panel)
        shown_range = boards_asked(engine)[-1].shown
        assert shown_range[1] - shown_range[0] <= len(seen), "no picture is asked for that is not seen"
        seen += names(panel)
    assert seen == [f"L{n // 8}H{n % 8}" for n in range(20)] + ["average of 20", "L0H0 − L0H1"]
    panel.before.click()
    settle(running, panel)
    assert panel.after.isEnabled()


@pytest.mark.parametrize(("width", "height", "columns"), [(1300, 340, 5), (320, 1300, 1), (1100, 700, 3)])
def test_the_columns_are_those_with_the_largest_cells(
    pinned: Session, shown: Shown, width: int, height: int, columns: int
) -> None:
    panel = shown(BoardPanel, pinned, width, height)
    grid: CardGrid = panel.grid
    count = len(grid.cards)
    assert grid.columns == columns
    steps = {n: grid._fitted(-(-count // n), n)[0] for n in range(1, count + 1)}
    assert steps[columns] == max(steps.values())
    grid.arrange()
    assert {round(card.heatmap.plot.width(), 3) for card in grid.cards} == {grid.cards[0].heatmap.plot.width()}


def test_a_part_of_a_reduced_picture_is_asked_for_in_single_cells(
    long_run: Callable[[int], Session], shown: Shown, engine: CannedEngine
) -> None:
    session = long_run(400)
    for head in HEADS:
        session.board.pin(*head)
    panel = shown(BoardPanel, session, 900, 620)
    heatmap = panel.grid.cards[0].heatmap
    assert heatmap.block != (1, 1)
    assert heatmap.note.startswith("max of")
    levels = [card.heatmap.levels for card in panel.grid.cards]
    heatmap.look_at(QRectF(99.5, 199.5, 40, 40))
    settle(session, panel)
    asked = boards_asked(engine)[-1]
    assert (asked.rows, asked.columns) == ((200, 240), (100, 140))
    run = run_on(session)
    assert heatmap.block == (1, 1)
    assert [card.heatmap.levels for card in panel.grid.cards] == levels, "a colour is the number that it was"
    assert heatmap.value(210, 120) == pytest.approx(canned.weights(run, 1, 4)[210, 120], abs=1e-6)
    heatmap.view_all()
    settle(session, panel)
    assert heatmap.block != (1, 1)


def test_the_board_stands_again_in_the_engine_after_one_that_ended(pinned: Session, shown: Shown, qtbot: QtBot) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    before = names(panel)
    pinned.engines.current.kill()
    card_of(panel, "L0H2").close_button.click()  # what nobody can answer now is answered by the next engine
    with qtbot.waitSignal(pinned.recovery.engine_back):
        pinned.recovery.restart()
    settle(pinned, panel)
    assert names(panel) == ["L1H4", "L2H6", "average of 2", "L1H4 − L2H6"] != before
    run = run_on(pinned)
    assert panel.grid.cards[1].heatmap.value(8, 3) == pytest.approx(canned.weights(run, 2, 6)[8, 3], abs=1e-6)


def test_notes_stand_at_their_heads_and_in_the_list(pinned: Session, shown: Shown) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    assert not panel.notes.isVisible()
    pinned.board.note(0, 2, "looks\nback")
    pinned.board.note(3, 3, "odd")
    assert card_of(panel, "L0H2").note.text() == "looks back"
    assert card_of(panel, "L1H4").note.text() == ""
    assert panel.notes.text() == "2 notes"
    actions = panel.notes.menu().actions()
    assert [action.text() for action in actions] == ["L0H2   looks back", "L3H3   odd"]
    actions[1].trigger()
    assert (pinned.selection.now.layer, pinned.selection.now.head) == (3, 3)
    wanted = QSignalSpy(panel.note_wanted)
    card_of(panel, "L2H6").note_button.click()
    assert wanted.at(0) == [2, 6]


def test_maps_that_come_later_have_the_menu_of_maps(pinned: Session, shown: Shown) -> None:
    grown: list[Heatmap] = []
    panel = BoardPanel(pinned)
    panel.plotted.connect(lambda part: grown.extend(part.findChildren(Heatmap)))
    panel.resize(1100, 700)
    panel.show()
    settle(pinned, panel)
    assert grown == [card.heatmap for card in panel.grid.cards[1:]]
    panel.close()
    panel.deleteLater()


@pytest.mark.parametrize(
    ("size", "projector"), [(QSize(760, 560), False), (QSize(520, 380), False), (QSize(680, 500), True)]
)
def test_nothing_is_cut_off_or_covered(
    pinned: Session, shown: Shown, qtbot: QtBot, size: QSize, projector: bool
) -> None:
    theme.apply("dark", projector)
    pinned.board.note(1, 4, "a note that is longer than there is room for in the heading of a map, on any screen")
    panel = shown(BoardPanel, pinned, size.width(), size.height())
    panel.theme_changed()
    settle(pinned, panel)
    QApplication.processEvents()
    assert faults(panel.body) == []
    assert faults(panel.tools) == []


def carry(card: HeadCard, target: HeadCard, meanwhile: Callable[[], object]) -> None:
    """Carry a card to another one, and let it go there after something else has happened."""
    end = card.mapFromGlobal(target.mapToGlobal(target.rect().center()))
    QTest.mousePress(card, Qt.MouseButton.LeftButton, pos=card.name.geometry().center())
    QTest.mouseMove(card, end)
    assert target.aimed_at
    meanwhile()
    QTest.mouseRelease(card, Qt.MouseButton.LeftButton, pos=end)


def test_a_card_is_let_go_over_what_is_no_longer_there(pinned: Session, shown: Shown, engine: CannedEngine) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    carry(card_of(panel, "L2H6"), card_of(panel, "L1H4"), lambda: pinned.board.unpin(1, 4))
    assert pinned.board.now.heads == ((0, 2), (2, 6))
    settle(pinned, panel)

    def turn() -> None:
        pinned.board.shift(2, 6, -1)
        settle(pinned, panel)  # the card under the pointer is of another head now

    carry(card_of(panel, "L2H6"), card_of(panel, "L0H2"), turn)
    assert pinned.board.now.heads == ((2, 6), (0, 2))
    assert not any(one.aimed_at for one in panel.grid.cards)


def test_what_is_done_to_maps_of_another_run_changes_no_board(pinned: Session, shown: Shown) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    before, asked = pinned.board.now, QSignalSpy(panel.note_wanted)
    panel.begin(None)
    first, second = panel.grid.cards[:2]
    carry(first, second, lambda: None)
    QTest.keyClick(first.heatmap, Qt.Key.Key_Delete)
    QTest.mouseClick(first.close_button, Qt.MouseButton.LeftButton)
    QTest.mouseClick(first.note_button, Qt.MouseButton.LeftButton)
    assert pinned.board.now == before
    assert asked.count() == 0


def test_a_card_is_carried_by_its_name_to_the_place_of_another(pinned: Session, shown: Shown) -> None:
    panel = shown(BoardPanel, pinned, 1100, 700)
    card, target = card_of(panel, "L2H6"), card_of(panel, "L1H4")
    start = card.name.geometry().center()
    end = card.mapFromGlobal(target.mapToGlobal(target.rect().center()))
    QTest.mousePress(card, Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseMove(card, start + QPoint(1, 0))
    assert not target.aimed_at
    QTest.mouseMove(card, end)
    assert [one.aimed_at for one in panel.grid.cards] == [True, *[False] * 4]
    QTest.mouseRelease(card, Qt.MouseButton.LeftButton, pos=end)
    settle(pinned, panel)
    assert pinned.board.now.heads == ((2, 6), (1, 4), (0, 2))
    assert names(panel) == ["L2H6", "L1H4", "L0H2", "average of 3", "L2H6 − L1H4"]
    assert not any(one.aimed_at for one in panel.grid.cards)
    run = run_on(pinned)
    assert panel.grid.cards[0].heatmap.value(8, 3) == pytest.approx(canned.weights(run, 2, 6)[8, 3], abs=1e-6)
    average = card_of(panel, "average of 3")
    QTest.mousePress(average, Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseMove(average, end)
    QTest.mouseRelease(average, Qt.MouseButton.LeftButton, pos=end)
    assert pinned.board.now.heads == ((2, 6), (1, 4), (0, 2))


def test_what_is_sampled_is_refined_and_another_view_is_refined_in_its_turn(
    pinned: Session, shown: Shown, engine: CannedEngine
) -> None:
    whole = canned.READINGS[AskBoard]

    def sampled(run: Run, asked: AskBoard) -> BoardReading:
        def coarse(one: HeadPicture | None) -> HeadPicture | None:
            if one is None:
                return None
            return replace(
                one,
                scores=replace(one.scores, values=np.zeros_like(one.scores.values), reduction="sampled"),
                weights=replace(one.weights, values=np.zeros_like(one.weights.values), reduction="sampled"),
            )

        board = whole(run, asked)
        pictures = tuple(one for one in map(coarse, board.pictures) if one is not None)
        return BoardReading(pictures, coarse(board.average), coarse(board.difference))

    engine.answers |= {AskBoard: sampled}
    panel = shown(BoardPanel, pinned, 1100, 700)
    run = run_on(pinned)
    assert [one.board for one in engine.asked if isinstance(one, AskRefinedBoard)] == boards_asked(engine)[-1:]
    wanted = canned.weights(run, 1, 4)
    assert panel.grid.cards[0].heatmap.value(8, 3) == pytest.approx(wanted[8, 3], abs=1e-6)
    assert panel.picture is not None
    assert panel.picture.pictures[0].weights.reduction != "sampled"
    pinned.board.unpin(2, 6)
    settle(pinned, panel)
    assert [one.board for one in engine.asked if isinstance(one, AskRefinedBoard)][-1] == boards_asked(engine)[-1]


def test_maps_on_a_projector_are_fewer_and_larger(running: Session, shown: Shown) -> None:
    for head in range(8):
        running.board.pin(1, head)
    theme.apply("dark", projector=True)
    panel = shown(BoardPanel, running, 1300, 620)
    theme.apply("dark", projector=True)
    cells = [min(card.heatmap.plot.width(), card.heatmap.plot.height()) for card in panel.grid.cards]
    assert 1 <= len(cells) < 6
    assert min(cells) >= 200
