"""A file that tells of everything written to it, so that work which cannot pause is followed, and may be ended."""

from __future__ import annotations

from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.model.progress import Progress, Pulse

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class WatchedFile(BufferedWriter):
    """A file that is written anew; ``pulse`` hears ``what`` at each write, and ends the work by raising."""

    def __init__(self, path: Path, pulse: Pulse, what: str) -> None:
        super().__init__(path.open("wb", buffering=0))
        self._pulse, self._point = pulse, Progress(0, 0, what)

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Tell, then write."""
        self._pulse(self._point)
        return super().write(buffer)
