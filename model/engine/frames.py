"""The wire between the window and the engine: messages cut into frames on a stream of bytes, and put together again.

A stream begins with :data:`MAGIC`. A frame is a head of fixed size, a header (MessagePack) where a message begins, and
a body of at most :data:`PIECE` bytes. A message is its record's MessagePack and then its arrays as raw bytes, each at a
multiple of 64. One that is longer than a piece goes on in further frames, and those of other messages may come between;
a message that nobody wants any more may be given up between two of its frames (:func:`abandoned`).

Nothing here trusts the other side: no length is believed before it has been looked at.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from ropewalk.model.engine.packing import DTYPES, Packed
from ropewalk.model.errors import RopewalkError

Kind = Literal["hello", "request", "cancel", "credit", "release", "progress", "part", "done", "failed"]

MAGIC: Final = b"\x00ropewalk\xf9wire1\n"
"""What a stream begins with. Whatever came before it, such as a shell's greeting, is kept as the banner."""
PIECE: Final = 1 << 20
"""Bytes of a frame's body at most, so that what is urgent need not wait for what is large."""
LARGEST: Final = 1 << 30
"""Bytes of a message at most, and of all that are half there: four times a head's picture at 4,096 × 4,096."""
LARGEST_DATA: Final = 64 << 20
"""Bytes of a message without its arrays: a session with a million decoded tokens has room."""
LARGEST_HEADER: Final = 1 << 20
"""Bytes of a header: it names the shape of each array, and tens of thousands have room."""
LONGEST_BANNER: Final = 1 << 20
"""Bytes that may come before it: whoever goes on for longer is no engine."""
KEPT_BANNER: Final = 64 << 10
LONGEST_FIRST: Final = 40
MOST_HALVES: Final = 1000
"""Messages that are half there at most."""
AT_ONCE: Final = 16 << 20
"""Bytes set aside when a message begins; for a longer one, room grows with what has really come."""
ALIGNMENT: Final = 64
MOST_SIDES: Final = 32

MARK: Final = b"\xf9rw\x01"
"""What every frame begins with, so that foreign bytes between two frames are met at once."""
HEAD: Final = struct.Struct("<4sB3xIIq")
"""The mark, what the frame is, bytes of header and of body, and the message's id."""
BEGINS, GOES_ON, ABANDONED = range(3)
"""What a frame is."""

Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Piece: TypeAlias = tuple[bytes | memoryview, ...]
"""A frame as buffers to be written one after another."""


class FrameError(RopewalkError):
    """A stream that is no stream of frames, or one that has ended too early."""


class NoMagicError(FrameError):
    """A stream that goes on and on without :data:`MAGIC`.

    Attributes
    ----------
    first
        The first line of what came instead.
    """

    def __init__(self, came: bytes) -> None:
        text = came.decode("utf-8", "replace")
        self.first = next((line.strip() for line in text.split("\n") if line.strip()), text)
        super().__init__(
            f"The other process said {self.first!r} and so on, which is nothing that Ropewalk understands."
        )


@dataclass(frozen=True)
class Header:
    """What a message is.

    Attributes
    ----------
    kind, slot, urgency
        What it is for; requests say in which slot and how urgent they are.
    type, data, arrays
        Its record: the type's name, bytes of MessagePack, and each array's dtype and shape.
    """

    kind: Kind
    slot: str = ""
    urgency: int = 0
    type: str = ""
    data: Size = 0
    arrays: tuple[tuple[str, tuple[Size, ...]], ...] = ()


@dataclass(frozen=True, eq=False)
class Message:
    """One thing that one process says to the other; ``id`` is the request's that it belongs to."""

    id: int
    kind: Kind
    slot: str = ""
    urgency: int = 0
    packed: Packed = field(default_factory=Packed)


_HEADERS: Final = msgspec.msgpack.Decoder(Header)


def frames_of(message: Message) -> Iterator[Piece]:
    """The frames of a message, of which nothing is copied.

    Whoever has begun with a message goes on with all of it before another one of the same id, or gives it up.

    Raises
    ------
    FrameError
        When it is too large to be sent.
    """
    packed = message.packed
    shapes = tuple((array.dtype.name, array.shape) for array in packed.arrays)
    header = Header(message.kind, message.slot, message.urgency, packed.type, len(packed.data), shapes)
    places, _ = _layout(header)
    encoded = msgspec.msgpack.encode(header)
    if len(encoded) > LARGEST_HEADER:
        raise FrameError(f"A result of {len(shapes):,} arrays is more than the window and the engine can exchange.")
    return _frames(message.id, encoded, list(_pieces(_buffers(packed, places))) or [[]])


def abandoned(id: int) -> bytes:  # noqa: A002
    """The frame that says that the rest of a message will not come."""
    return HEAD.pack(MARK, ABANDONED, 0, 0, id)


def _frames(id: int, header: bytes, pieces: Iterable[list[memoryview]]) -> Iterator[Piece]:  # noqa: A002
    what = BEGINS
    for piece in pieces:
        head = HEAD.pack(MARK, what, len(header), sum(map(len, piece)), id)
        yield head + header, *piece
        what, header = GOES_ON, b""


def _buffers(packed: Packed, places: list[int]) -> Iterator[memoryview]:
    """The body of a message, with what keeps each array at its place."""
    yield memoryview(packed.data)
    end = len(packed.data)
    for array, place in zip(packed.arrays, places, strict=True):
        yield memoryview(bytes(place - end))
        yield array.reshape(-1).view(np.uint8).data
        end = place + array.nbytes


def _pieces(buffers: Iterator[memoryview]) -> Iterator[list[memoryview]]:
    """A body in pieces, all but the last as large as they may be."""
    piece: list[memoryview] = []
    room = PIECE
    for whole in buffers:
        rest = whole
        while len(rest):
            part, rest = rest[:room], rest[room:]
            piece.append(part)
            room -= len(part)
            if not room:
                yield piece
                piece, room = [], PIECE
    if piece:
        yield piece


def _layout(header: Header) -> tuple[list[int], int]:
    """Where each array of a message begins, and where the message ends.

    Raises
    ------
    FrameError
        For sizes that no message has.
    """
    places, end = [], header.data
    if end > LARGEST_DATA:
        raise FrameError(f"A record of {end:,} bytes is more than the window and the engine can exchange.")
    for name, shape in header.arrays:
        if name not in DTYPES:
            raise FrameError(f"An array of {name[:40]!r} is nothing that the window and the engine exchange.")
        if len(shape) > MOST_SIDES:
            raise FrameError(f"An array of {len(shape)} dimensions is nothing that the window and the engine exchange.")
        end += -end % ALIGNMENT
        places.append(end)
        end += math.prod(shape) * np.dtype(name).itemsize
        if end > LARGEST or math.prod(max(1, side) for side in shape) > LARGEST:
            raise FrameError(f"A message of {end:,} bytes is more than the window and the engine can exchange.")
    return places, end


class _Half:
    """A message of which a part has come."""

    def __init__(self, id: int, header: Header) -> None:  # noqa: A002
        self.id, self.header = id, header
        self._places, self.total = _layout(header)
        self.came = 0
        self._room = _aligned(min(self.total, AT_ONCE))

    def add(self, part: memoryview) -> None:
        """Take what comes next."""
        came, self.came = self.came, self.came + len(part)
        if self.came > len(self._room):
            larger = _aligned(min(self.total, max(2 * len(self._room), self.came)))
            larger[:came] = self._room[:came]
            self._room = larger
        self._room[came : self.came] = np.frombuffer(part, np.uint8)

    def message(self) -> Message:
        """All of it."""
        room, header = self._room, self.header
        if room.base is not None:
            room.base.flags.writeable = False
        room.flags.writeable = False
        arrays = tuple(
            _array(room, place, name, shape) for place, (name, shape) in zip(self._places, header.arrays, strict=True)
        )
        packed = Packed(header.type, room[: header.data].tobytes(), arrays)
        return Message(self.id, header.kind, header.slot, header.urgency, packed)


def _aligned(size: int) -> NDArray[np.uint8]:
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size]


def _array(room: NDArray[np.uint8], place: int, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    dtype = np.dtype(name).newbyteorder("<")
    raw = room[place : place + math.prod(shape) * dtype.itemsize]
    if name == "bool" and raw.size and raw.max() > 1:
        raise FrameError("An array of true and false that came from the other process holds something else.")
    return raw.view(dtype).reshape(shape)


class FrameReader:
    """Puts the messages of a stream together.

    Parameters
    ----------
    magic
        Whether the stream begins with :data:`MAGIC`.

    Attributes
    ----------
    taken
        Bytes that have come after the magic.
    """

    def __init__(self, *, magic: bool = False) -> None:
        self.taken = 0
        self._seeking = magic
        self._before = bytearray()
        self._head = bytearray()
        """Head and header of the frame that is being read."""
        self._wanted = HEAD.size
        self._body = 0
        """Bytes of its body that are still to come."""
        self._now: _Half | None = None
        """What its body is a part of."""
        self._halves: dict[int, _Half] = {}

    @property
    def banner(self) -> bytes:
        """The last of what came before the magic."""
        return bytes(self._before[-KEPT_BANNER:])

    def feed(self, data: bytes | bytearray | memoryview) -> list[Message]:
        """Take what has come, and give the messages that are whole with it.

        Raises
        ------
        FrameError
            For bytes that are no frames, a :class:`NoMagicError` where too many come before the first; nothing can be
            read from the stream after that.
        """
        view = self._after_magic(data) if self._seeking else memoryview(data)
        self.taken += len(view)
        found: list[Message] = []
        while len(view):
            if self._body:
                part, view = view[: self._body], view[self._body :]
                self._body -= len(part)
                if self._now is not None:
                    self._now.add(part)
            else:
                lacking = self._wanted - len(self._head)
                self._head += view[:lacking]
                view = view[lacking:]
                if not self._has_begun():
                    continue
            if not self._body:
                found += self._ended()
        return found

    def end(self) -> None:
        """Say that nothing more comes.

        Raises
        ------
        FrameError
            When something is half there, or the stream has not even begun.
        """
        if self._seeking:
            raise FrameError("The other process ended before it said anything that Ropewalk understands.")
        if self._head or self._halves:
            raise FrameError("The other process ended in the middle of what it said.")

    def _after_magic(self, data: bytes | bytearray | memoryview) -> memoryview:
        start = max(0, len(self._before) - len(MAGIC) + 1)
        self._before += data
        at = self._before.find(MAGIC, start)
        if at < 0:
            if len(self._before) > LONGEST_BANNER:
                raise NoMagicError(bytes(self._before[:LONGEST_FIRST]))
            return memoryview(b"")
        self._seeking = False
        rest = bytes(self._before[at + len(MAGIC) :])
        del self._before[at:]
        return memoryview(rest)

    def _has_begun(self) -> bool:
        """Whether head and header of the frame are here; they are then understood."""
        if len(self._head) < self._wanted:
            return False
        mark, what, header, body, id_ = HEAD.unpack_from(self._head)
        if self._wanted == HEAD.size:
            if mark != MARK or what > ABANDONED:
                raise FrameError(
                    f"The other process said something that Ropewalk does not understand: {bytes(self._head)!r}."
                )
            if body > PIECE or header > LARGEST_HEADER or (header > 0) != (what == BEGINS):
                raise FrameError(f"The other process began a frame of {header:,} and {body:,} bytes, which none has.")
            self._wanted += header
            if len(self._head) < self._wanted:
                return False
        self._now = self._half(what, id_)
        self._body = body
        if self._now is not None and body > self._now.total - self._now.came:
            raise FrameError("The other process said more in a message than it had announced.")
        if self._now is None and body:
            raise FrameError("The other process gave a message up and went on with it.")
        return True

    def _half(self, what: int, id: int) -> _Half | None:  # noqa: A002
        """The message that the frame belongs to."""
        if what == ABANDONED:
            self._halves.pop(id, None)
            return None
        if (id in self._halves) != (what == GOES_ON):
            raise FrameError("The other process mixed up its messages: one was not begun, or not ended.")
        if what == BEGINS:
            self._halves[id] = _Half(id, self._header())
            if len(self._halves) > MOST_HALVES or sum(one.total for one in self._halves.values()) > LARGEST:
                raise FrameError("The other process began many messages and ended none of them.")
        return self._halves[id]

    def _header(self) -> Header:
        try:
            return _HEADERS.decode(bytes(self._head[HEAD.size :]))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise FrameError(
                "The other process began a message that Ropewalk does not understand.", str(error)
            ) from error

    def _ended(self) -> list[Message]:
        """What is whole with the frame that has ended."""
        self._head.clear()
        self._wanted = HEAD.size
        half, self._now = self._now, None
        if half is None or half.came < half.total:
            return []
        del self._halves[half.id]
        return [half.message()]
