"""A file whose bytes come from elsewhere, a part at a time: whole at its place, or not there at all."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

from ropewalk.model.errors import Cancelled, RopewalkError
from ropewalk.model.whole_file import whole_file


class Incoming:
    """Writes what comes into a file beside the one that it is to be.

    Parameters
    ----------
    path
        Where it is to be; what is there stays until all of it has come.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack = ExitStack()
        self._file: BinaryIO | None = None
        self._why = ""

    @property
    def refusal(self) -> str:
        """Why the file cannot be written, a sentence; empty while it can."""
        return self._why and f"{self._path.name} could not be written to {self._path.parent}: {self._why}."

    def add(self, part: bytes) -> None:
        """Take the next part, unless there is a ``refusal``."""
        if self._why:
            return
        try:
            if self._file is None:
                self._file = self._stack.enter_context(self._stack.enter_context(whole_file(self._path)).open("wb"))
            self._file.write(part)
        except OSError as error:
            self._why = error.strerror or str(error)

    def finish(self) -> Path:
        """Put the file at its place, now that all of it has come.

        Raises
        ------
        RopewalkError
            When it could not be written.
        """
        if not self._why:
            try:
                self._stack.close()
            except OSError as error:
                self._why = error.strerror or str(error)
        if self._why:
            raise RopewalkError(self.refusal)
        return self._path

    def drop(self) -> None:
        """Leave nothing of a file that did not come whole; one that did stays."""
        with suppress(Cancelled, OSError):  # what is still to be written does not fit either
            self._stack.__exit__(Cancelled, Cancelled(), None)
