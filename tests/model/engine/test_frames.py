"""Messages cut into frames come together again however their bytes arrive, and nothing else is taken for one."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from ropewalk.model.engine import frames
from ropewalk.model.engine.frames import (
    ABANDONED,
    BEGINS,
    GOES_ON,
    HEAD,
    KEPT_BANNER,
    LARGEST,
    LARGEST_DATA,
    LARGEST_HEADER,
    LONGEST_BANNER,
    MAGIC,
    MARK,
    PIECE,
    FrameError,
    FrameReader,
    Message,
    NoMagicError,
    abandoned,
    frames_of,
)
from ropewalk.model.engine.packing import DTYPES, Packed

LARGE = np.arange(PIECE, dtype=np.float32).reshape(4, -1)


def wire(message: Message) -> list[bytes]:
    """Each frame of a message."""
    return [b"".join(frame) for frame in frames_of(message)]


def said(*messages: Message) -> bytes:
    return b"".join(itertools.chain.from_iterable(map(wire, messages)))


def read(data: bytes, sizes: Iterable[int] = (), *, magic: bool = False) -> list[Message]:
    """What a reader makes of bytes that come in chunks; the last chunk is the rest."""
    reader, found = FrameReader(magic=magic), []
    for size in sizes:
        found += reader.feed(data[:size])
        data = data[size:]
    found += reader.feed(data)
    reader.end()
    return found


def same(one: Message, other: Message) -> bool:
    def head(message: Message) -> tuple[Any, ...]:
        return message.id, message.kind, message.slot, message.urgency, message.packed.type, message.packed.data

    arrays = (one.packed.arrays, other.packed.arrays)
    return head(one) == head(other) and all(
        (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()) for a, b in zip(*arrays, strict=True)
    )


def message(id_: int = 1, *arrays: Any, data: bytes = b"\xc0") -> Message:
    return Message(id_, "done", f"slot {id_}", 3, Packed("AskHead", data, arrays))


SMALL = [
    Message(0, "hello"),
    message(-5, np.array(3.5), np.zeros((0, 7), np.int64)),
    message(1 << 40, *(np.arange(6).astype(name).reshape(2, 3) for name in DTYPES), data=b"x" * 65),
    message(7, data=b""),
]


# ----------------------------------------------------------------------------------------------------------------------
# There and back


@pytest.mark.parametrize("chunk", [1, 2, 3, 23, 24, 25, 1000])
def test_messages_come_together_from_chunks_of_any_size(chunk: int) -> None:
    data = b"a greeting\r\n" + MAGIC[:5] + MAGIC + said(*SMALL)
    found = read(data, itertools.repeat(chunk, len(data) // chunk), magic=True)
    assert all(map(same, found, SMALL))
    assert len(found) == len(SMALL)


def test_arrays_are_read_only_and_stand_where_a_processor_likes_them() -> None:
    (found,) = read(said(message(1, np.ones(3, np.bool_), LARGE, np.ones(5), data=b"\xc0" * 7)))
    for array in found.packed.arrays:
        assert array.ctypes.data % 64 == 0
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize("size", [PIECE - 64, PIECE - 63, PIECE, PIECE + 1, 3 * PIECE - 64, 3 * PIECE - 63])
def test_a_large_message_goes_in_pieces(size: int) -> None:
    sent = message(4, np.arange(size, dtype=np.uint8))
    pieces = wire(sent)
    assert len(pieces) == -(-(size + 64) // PIECE)
    assert all(len(piece) <= PIECE + 200 for piece in pieces)
    assert all(map(same, read(b"".join(pieces), [1, 300, PIECE]), [sent]))


def test_no_byte_of_an_array_is_copied_on_its_way_out() -> None:
    sent = list(frames_of(message(1, LARGE)))
    own = [buffer for frame in sent for buffer in frame if np.shares_memory(np.frombuffer(buffer, np.uint8), LARGE)]
    assert sum(map(len, own)) == LARGE.nbytes


def test_room_grows_with_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "AT_ONCE", 1000)
    sent = message(4, np.arange(300_000, dtype=np.int64), LARGE)
    assert all(map(same, read(said(sent), itertools.repeat(4567, 900)), [sent]))


def test_frames_of_several_messages_may_interleave() -> None:
    many = [message(id_, LARGE + id_) for id_ in range(3)]
    data = b"".join(itertools.chain.from_iterable(zip(*map(wire, many), strict=True)))
    small = said(message(9))
    reader = FrameReader()
    first = reader.feed(data[: PIECE + 1000])
    rest = reader.feed(data[PIECE + 1000 :] + small)
    assert first == []
    assert all(map(same, rest, [*many, message(9)]))
    assert reader.taken == len(data) + len(small)
    reader.end()


# ----------------------------------------------------------------------------------------------------------------------
# Before the magic


def test_what_came_before_the_magic_is_kept_as_far_as_it_is_short() -> None:
    reader = FrameReader(magic=True)
    greeting = b"Welcome to gpu1\r\n" * 5000
    for start in range(0, len(greeting), 4096):
        assert reader.feed(greeting[start : start + 4096]) == []
    assert reader.banner == greeting[-KEPT_BANNER:]
    with pytest.raises(FrameError, match="ended before it said anything that Ropewalk understands"):
        reader.end()
    assert reader.taken == 0
    assert len(reader.feed(MAGIC + said(*SMALL))) == len(SMALL)
    assert reader.banner == greeting[-KEPT_BANNER:]
    assert reader.taken == len(said(*SMALL))
    reader.end()


@pytest.mark.parametrize(
    ("line", "first"), [(b"\nwe are Welcome\n", "we are Welcome"), (b"\n", "\n" * 40), (b"\xff\x00", "\ufffd\x00" * 20)]
)
def test_what_never_comes_to_the_magic_is_refused_by_its_first_line(line: bytes, first: str) -> None:
    reader = FrameReader(magic=True)
    assert reader.feed(line * (LONGEST_BANNER // len(line))) == []
    with pytest.raises(NoMagicError) as told:
        reader.feed(line)
    assert told.value.first == first


# ----------------------------------------------------------------------------------------------------------------------
# Given up


def test_the_rest_of_a_message_may_not_come() -> None:
    begun = wire(message(1, LARGE))[:2]
    reader = FrameReader()
    assert reader.feed(b"".join(begun)) == []
    assert reader.feed(abandoned(1)) == []
    reader.end()
    assert len(reader.feed(said(message(1, LARGE)))) == 1
    assert reader.feed(abandoned(8)) == []  # it had not begun
    reader.end()


# ----------------------------------------------------------------------------------------------------------------------
# What is not believed


def frame(what: int = BEGINS, header: Any = b"", body: bytes = b"", id_: int = 1, mark: bytes = MARK) -> bytes:
    encoded = header if isinstance(header, bytes) else msgspec.msgpack.encode(header)
    return HEAD.pack(mark, what, len(encoded), len(body), id_) + encoded + body


def begins(body: bytes = b"", **header: Any) -> bytes:
    return frame(BEGINS, {"kind": "done", **header}, body)


def array(name: str, *shape: int) -> dict[str, Any]:
    return {"arrays": [[name, list(shape)]]}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"Traceback (most recent call last)", "said something that Ropewalk does not understand: b'Traceback"),
        (frame(3), "said something that Ropewalk does not understand"),
        (HEAD.pack(MARK, BEGINS, LARGEST_HEADER + 1, 0, 1), "a frame of 1,048,577 and 0 bytes, which none has"),
        (HEAD.pack(MARK, GOES_ON, 0, PIECE + 1, 1), "a frame of 0 and 1,048,577 bytes, which none has"),
        (frame(GOES_ON, {}), "a frame of 1 and 0 bytes, which none has"),
        (frame(BEGINS), "a frame of 0 and 0 bytes, which none has"),
        (frame(GOES_ON), "mixed up its messages"),
        (begins(data=2) * 2, "mixed up its messages"),
        (frame(ABANDONED, body=b"x"), "gave a message up and went on with it"),
        (begins(b"xx", data=1), "said more in a message than it had announced"),
        (begins(b"x", data=2) + frame(GOES_ON, body=b"xx"), "said more in a message than it had announced"),
        (frame(BEGINS, b"\xc1"), "began a message that Ropewalk does not understand"),
        (frame(BEGINS, b"\x91" * 100_000), "began a message that Ropewalk does not understand"),
        (frame(BEGINS, {"kind": "shout"}), "began a message that Ropewalk does not understand"),
        (frame(BEGINS, {}), "began a message that Ropewalk does not understand"),
        (begins(data=-1), "began a message that Ropewalk does not understand"),
        (begins(data="1"), "began a message that Ropewalk does not understand"),
        (begins(**array("float32", -1)), "began a message that Ropewalk does not understand"),
        (begins(**array("float32", True)), "began a message that Ropewalk does not understand"),
        (begins(data=LARGEST_DATA + 1), "A record of 67,108,865 bytes is more than"),
        (begins(**array("object", 1)), "An array of 'object' is nothing that"),
        (begins(**array("float32", *([1] * 33))), "An array of 33 dimensions is nothing that"),
        (begins(**array("float32", LARGEST // 4 + 1)), "A message of 1,073,741,828 bytes is more than"),
        (begins(**array("float32", 0, LARGEST + 1)), "A message of 0 bytes is more than"),
        (begins(**array("float32", *([1 << 62] * 32))), "is more than the window and the engine can exchange"),
        (begins(b"\x02", **array("bool", 1)), "An array of true and false that came from the other process holds"),
    ],
)
def test_rubbish_is_refused_in_a_sentence(data: bytes, says: str) -> None:
    reader = FrameReader()
    with pytest.raises(FrameError, match=says.replace("(", r"\(").replace(")", r"\)")):
        reader.feed(data)


@pytest.mark.parametrize("cut", [1, 23, 24, 30, 100, PIECE, PIECE + 200])
def test_a_stream_that_ends_too_early_is_no_answer(cut: int) -> None:
    reader = FrameReader()
    assert reader.feed(said(message(1, LARGE))[:cut]) == []
    with pytest.raises(FrameError, match="ended in the middle of what it said"):
        reader.end()


@pytest.mark.parametrize("announced", [array("uint8", LARGEST), {"data": 1}])
def test_messages_that_are_begun_and_not_ended_are_bounded(announced: dict[str, Any]) -> None:
    reader = FrameReader()
    header = {"kind": "part", **announced}
    many = b"".join(frame(BEGINS, header, id_=id_) for id_ in range(frames.MOST_HALVES + 1))
    with pytest.raises(FrameError, match="began many messages and ended none of them"):
        reader.feed(many)


def test_what_is_too_large_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LARGEST_HEADER", 1000)
    monkeypatch.setattr(frames, "LARGEST_DATA", 1000)
    for packed, says in (
        (Packed("a", bytes(1001)), "A record of 1,001 bytes is more than"),
        (Packed("a", b"", (np.broadcast_to(np.uint8(1), (LARGEST + 1,)),)), "A message of 1,073,741,825 bytes"),
        (Packed("a", b"", (np.zeros(0),) * 300), "A result of 300 arrays is more than"),
    ):
        with pytest.raises(FrameError, match=says):
            frames_of(Message(1, "done", packed=packed))


def test_damaged_streams_are_refused_or_read_and_never_believed() -> None:
    random = Random(12)
    whole = said(*SMALL, message(3, np.arange(50.0)))
    tracemalloc.start()
    try:
        for _ in range(600):
            data = bytearray(whole)
            for _ in range(random.randint(1, 3)):
                at = random.randrange(len(data) + 1)
                data[at : at + random.randint(0, 3)] = random.randbytes(random.randint(0, 3))
            del data[random.randrange(len(data) + 1) :]
            reader = FrameReader()
            try:
                for start in range(0, len(data), 100):
                    for found in reader.feed(bytes(data[start : start + 100])):
                        assert sum(map(len, wire(found))) <= len(data) + 200
                reader.end()
            except FrameError:
                continue
        assert tracemalloc.get_traced_memory()[1] < 2 * frames.AT_ONCE
    finally:
        tracemalloc.stop()
