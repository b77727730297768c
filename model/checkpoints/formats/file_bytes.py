"""The bytes of weights, read and not mapped: what is cut short meanwhile is then a sentence.

A map would be the end of the process (SIGBUS).
"""

from __future__ import annotations

from contextlib import ExitStack
from io import FileIO
from pathlib import Path

import torch
from torch import Tensor

from ropewalk.model.errors import CheckpointError


class FileBytes:
    """Files of weights, each opened when it is first read and then kept open."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._open: dict[Path, FileIO] = {}

    def read(self, path: Path, start: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The tensor that lies row after row from the byte ``start``.

        Raises
        ------
        CheckpointError
            When the file ends before it does.
        """
        tensor = torch.empty(shape, dtype=dtype)
        room = tensor.view(-1).view(torch.uint8).numpy().data
        if path not in self._open:
            self._open[path] = self._stack.enter_context(path.open("rb", buffering=0))
        file = self._open[path]
        file.seek(start)
        while room:
            came = file.readinto(room)
            if not came:
                raise cut_short(path)
            room = room[came:]
        return tensor

    def close(self) -> None:
        """Close the files; one that is read again is opened again."""
        self._open.clear()
        self._stack.close()


def cut_short(path: Path) -> CheckpointError:
    """What to raise where a file ends in a weight that it had when it was opened."""
    return CheckpointError(
        f"{path.name} was cut short while it was read: it ends where a weight was; open it again when it is whole."
    )
