"""Messages on their way out: what goes first, what credit allows, and what is given up."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from ropewalk.model.engine.frames import HEAD, PIECE, FrameError, FrameReader, Message, Piece, abandoned
from ropewalk.model.engine.outbox import CREDIT, Outbox
from ropewalk.model.engine.packing import Packed
from ropewalk.model.engine.urgency import Urgency


def message(number: int, size: int = 10, urgency: Urgency = Urgency.COARSE, text: bytes = b"") -> Message:
    arrays = () if text else (np.full(size, number, np.uint8),)
    return Message(number, "part", "slot", urgency, Packed("", text or b"\xc0", arrays))


class Reader:
    """Takes what may go out without waiting, and reads it."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.frames = FrameReader()
        self.whole: list[Message] = []
        self.pieces = 0

    def take(self) -> int:
        """Take one piece; returns its bytes, 0 where there is none."""
        if not (self.outbox._given_up or self.outbox._is_ready()):
            return 0
        piece = self.outbox.next()
        assert piece is not None
        self.pieces += 1
        data = b"".join(piece)
        self.whole += self.frames.feed(data)
        return len(data)

    def take_all(self) -> int:
        """Take whatever may go out; returns its bytes."""
        total = 0
        while size := self.take():
            total += size
        return total

    @property
    def numbers(self) -> list[int]:
        """Whose messages have come whole, in order."""
        return [one.id for one in self.whole]


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def reader(outbox: Outbox) -> Reader:
    return Reader(outbox)


def test_never_more_goes_out_than_there_is_credit_for(outbox: Outbox, reader: Reader) -> None:
    for number in range(1, 4):
        outbox.put(message(number, 3 * PIECE))
    first = reader.take_all()
    assert CREDIT - PIECE - 200 < first <= CREDIT
    outbox.grant(PIECE // 2)
    granted = PIECE // 2
    assert first + reader.take_all() <= CREDIT + granted
    while reader.numbers != [1, 2, 3]:
        outbox.grant(PIECE)
        granted += PIECE
        reader.take_all()
        assert reader.frames.taken <= CREDIT + granted


def test_what_says_that_a_message_was_given_up_takes_credit_too(outbox: Outbox, reader: Reader) -> None:
    outbox.put(message(1, 2 * PIECE))
    reader.take()
    outbox.drop(1)
    reader.take_all()
    outbox.grant(reader.frames.taken)
    assert outbox._credit == CREDIT


def test_the_most_urgent_goes_first_and_between_the_pieces_of_what_has_begun(outbox: Outbox, reader: Reader) -> None:
    outbox.put(message(1, 2 * PIECE, Urgency.REFINEMENT))
    reader.take()
    outbox.put(message(2, urgency=Urgency.COARSE))
    outbox.put(message(3, urgency=Urgency.POINTER))
    reader.take_all()
    assert reader.numbers == [3, 2, 1]
    assert reader.whole[-1].packed.arrays[0].tolist() == [1] * (2 * PIECE)


def test_messages_of_one_request_keep_their_order(outbox: Outbox, reader: Reader) -> None:
    outbox.put(message(1, 2 * PIECE))
    reader.take()
    outbox.put(message(1, text=b"\x01"))
    outbox.put(message(1, text=b"\x02"))
    reader.take_all()
    assert [one.packed.data for one in reader.whole] == [b"\xc0", b"\x01", b"\x02"]


def test_what_is_dropped_before_it_has_begun_is_never_sent(outbox: Outbox, reader: Reader) -> None:
    outbox.put(message(1))
    outbox.put(message(2))
    outbox.drop(1)
    reader.take_all()
    assert (reader.numbers, reader.pieces) == ([2], 1)


def test_a_message_that_has_begun_is_given_up_in_so_many_words(outbox: Outbox, reader: Reader) -> None:
    outbox.put(message(1, 2 * PIECE))
    reader.take()
    outbox.drop(1)
    assert not outbox.holds(1, "part", "done", "progress")
    outbox.put(message(1, text=b"\x01"))  # its end, which must not be taken for the rest
    assert b"".join(_next(outbox)) == abandoned(1)
    reader.frames.feed(abandoned(1))
    reader.take_all()
    assert [one.packed.data for one in reader.whole] == [b"\x01"]
    reader.frames.end()


def _next(outbox: Outbox) -> Piece:
    piece = outbox.next()
    assert piece is not None
    return piece


def test_it_holds_what_has_not_gone_out_whole_and_says_when_it_has(outbox: Outbox, reader: Reader) -> None:
    sent: list[bool] = []
    outbox.sent = lambda: sent.append(outbox.holds(1, "part", "done", "progress"))
    outbox.put(message(1, 2 * PIECE))
    outbox.put(message(2, urgency=Urgency.POINTER))
    assert outbox.holds(1, "part", "done", "progress")
    assert not outbox.holds(3, "part", "done", "progress")
    reader.take_all()
    assert sent == [True, False]


def test_whoever_writes_waits_for_credit_and_for_messages_and_hears_of_the_end(outbox: Outbox) -> None:
    got: list[Piece | None] = []
    wrote = threading.Semaphore(0)

    def write() -> None:
        while got[-1:] != [None]:
            got.append(outbox.next())
            wrote.release()

    outbox._credit = HEAD.size
    writer = threading.Thread(target=write)
    writer.start()
    outbox.put(message(1))
    outbox.grant(1000)
    assert wrote.acquire(timeout=20)
    outbox.put(message(2, 2000))
    outbox.drop(2)  # it never had the credit
    outbox.close()
    writer.join(20)
    assert not writer.is_alive()
    assert len(got) == 2


def test_what_is_too_large_is_refused_at_once(outbox: Outbox) -> None:
    with pytest.raises(FrameError, match="more than the window and the engine can exchange"):
        outbox.put(Message(1, "part", packed=Packed("", b"", (np.broadcast_to(np.uint8(0), (2 << 30,)),))))
    assert not outbox.holds(1, "part", "done", "progress")
