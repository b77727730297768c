"""Pinned heads and notes: of one model each, there after its engine has ended, and never beyond the model's heads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtTest import QSignalSpy
from pytestqt.qtbot import QtBot

from ropewalk.app.session.selected import NOTHING_PINNED, HeadNote, PinnedHeads
from ropewalk.app.session.session import Session
from ropewalk.model.readings.records import ModelCard


@pytest.fixture
def card(running: Session) -> ModelCard:
    assert running.model is not None
    return running.model


def test_heads_are_pinned_once_in_their_order_and_taken_off(running: Session) -> None:
    board, heard = running.board, QSignalSpy(running.board.changed)
    for at in ((1, 3), (0, 2), (1, 3), (1, 0)):
        board.pin(*at)
    assert board.now.heads == ((1, 3), (0, 2), (1, 0))
    assert heard.count() == 3
    board.toggle(0, 2)
    board.toggle(0, 1)
    assert board.now.heads == ((1, 3), (1, 0), (0, 1))
    board.note(1, 3, "kept")
    board.clear()
    assert not board.now.heads
    assert board.note_of(1, 3) == "kept"


def test_pinned_heads_change_places(running: Session) -> None:
    board = running.board
    for at in ((1, 3), (0, 2), (1, 0)):
        board.pin(*at)
    board.move(1, 0, 0)
    assert board.now.heads == ((1, 0), (1, 3), (0, 2))
    board.shift(1, 0, 1)
    assert board.now.heads == ((1, 3), (1, 0), (0, 2))
    heard = QSignalSpy(board.changed)
    board.shift(1, 3, -1)
    board.shift(0, 2, 5)
    board.move(0, 0, 1)
    board.shift(0, 0, 1)
    assert board.now.heads == ((1, 3), (1, 0), (0, 2))
    assert heard.count() == 0


def test_a_note_replaces_the_one_before_and_an_empty_one_takes_it_away(running: Session) -> None:
    board = running.board
    board.note(1, 0, "first")
    board.note(0, 3, "  looks back \n")
    board.note(1, 0, "second")
    assert board.now.notes == (HeadNote(0, 3, "looks back"), HeadNote(1, 0, "second"))
    board.note(1, 0, " ")
    assert (board.note_of(1, 0), board.note_of(0, 3)) == ("", "looks back")


def test_every_model_has_a_board_of_its_own(running: Session, card: ModelCard) -> None:
    running.board.pin(1, 1)
    other = replace(card, name="other", path="/models/other")
    assert running.board.of(other) == NOTHING_PINNED
    running.board.restore(other, PinnedHeads(((0, 0), (0, 0), (9, 0), (0, 9)), (HeadNote(9, 0, "gone"),)))
    assert running.board.of(other) == PinnedHeads(((0, 0),))
    assert running.board.now.heads == ((1, 1),)
    assert running.board.of(replace(card, device="cuda", dtype="bfloat16")).heads == ((1, 1),)


def test_a_file_that_has_several_notes_to_a_head_brings_the_last_back(running: Session, card: ModelCard) -> None:
    several = tuple(HeadNote(*one) for one in ((1, 0, "b"), (0, 1, "a"), (1, 0, " c\n"), (0, 2, "gone"), (0, 2, "  ")))
    running.board.restore(card, PinnedHeads(notes=several))
    assert running.board.of(card).notes == (HeadNote(0, 1, "a"), HeadNote(1, 0, "c"))


def test_the_board_is_there_in_the_engine_after_one_that_ended(qtbot: QtBot, running: Session) -> None:
    running.board.pin(1, 2)
    running.board.note(1, 2, "odd")
    before = running.board.now
    running.engines.current.kill()
    with qtbot.waitSignal(running.recovery.engine_back):
        running.recovery.restart()
    assert running.board.now == before


def test_nothing_is_pinned_before_the_first_run(session: Session) -> None:
    session.board.pin(0, 0)
    assert session.board.now == NOTHING_PINNED
