"""Pictures of one size as raw pixels in a temporary file: recorded by the window, read by whoever encodes them."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.progress import Pauses

PIECE = 4 << 20
"""Bytes that are written in one go."""


@dataclass(frozen=True)
class Frames:
    """Recorded pictures. The file belongs to the record that :meth:`Recording.taken` made, and goes with it.

    Attributes
    ----------
    path
        Holds [height, width, 4] bytes a frame: blue, green, red and one that is not used, as Qt paints them.
    durations
        Milliseconds that each frame stays.
    """

    path: Path
    width: int
    height: int
    durations: tuple[int, ...]

    def raw(self) -> Iterator[bytes]:
        """The frames in order."""
        with self.path.open("rb") as stream:
            for _ in self.durations:
                yield stream.read(4 * self.width * self.height)


class Recording:
    """Writes frames as they are painted: a film of a window has no place in memory.

    A frame of another size than the first is put into its upper left corner.
    """

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="ropewalk-", suffix=".raw")
        self._path = Path(name)
        self._file = open(handle, "wb")  # noqa: SIM115 - lives as long as the recording
        self._size = (0, 0)
        self._durations: list[int] = []

    def adding(self, width: int, height: int, pixels: bytes | memoryview, milliseconds: int) -> Pauses[None]:
        """Append a frame as :class:`Frames` keeps them, pausing between its pieces."""
        if not self._durations:
            self._size = (width, height)
        if (width, height) != self._size:
            pixels = _in_corner(np.frombuffer(pixels, np.uint8).reshape(height, width, 4), *self._size)
        for begin in range(0, len(pixels), PIECE):
            if begin:
                yield
            self._file.write(pixels[begin : begin + PIECE])
        self._durations.append(milliseconds)

    def taken(self) -> Frames:
        """End, and give what was recorded: its file is removed when nobody holds the record any more."""
        self._file.close()
        frames = Frames(self._path, *self._size, tuple(self._durations))
        weakref.finalize(frames, _remove, self._path)
        return frames

    def drop(self) -> None:
        """End, and give the disk back."""
        self._file.close()
        _remove(self._path)


def _in_corner(frame: NDArray[np.uint8], width: int, height: int) -> bytes:
    fitted = np.zeros((height, width, 4), np.uint8)
    part = frame[:height, :width]
    fitted[: part.shape[0], : part.shape[1]] = part
    return fitted.tobytes()


def _remove(path: Path) -> None:
    with suppress(OSError):  # Windows keeps what is still being read
        path.unlink(missing_ok=True)
