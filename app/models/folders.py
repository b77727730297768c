"""What lies in a folder of this machine, for a window that may be on another one and has no dialog to look into it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ropewalk.app.models.local_models import WEIGHTS
from ropewalk.model.errors import CheckpointError
from ropewalk.model.progress import Progress, Steps

CONFIGS: Final = ("config.json", "params.json")
"""Files that make a folder look like a checkpoint."""
MOST: Final = 4096
"""Entries that are listed."""
AT_ONCE: Final = 64
"""Entries that are looked at between two pauses: on a network each costs a round trip."""


ADAPTER_FILES: Final = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")


def adapter_folder(path: str) -> str:
    """The folder of a LoRA adapter that a path, or one of its files, is; empty where it is none."""
    place = Path(path)
    folder = place.parent if place.name in ADAPTER_FILES else place
    is_one = os.path.isfile(folder / ADAPTER_FILES[0]) and not os.path.isfile(folder / CONFIGS[0])
    return str(folder) if is_one else ""


@dataclass(frozen=True)
class Entry:
    """One thing in a folder; a folder has no size, and ``is_checkpoint`` is what its files look like by their names."""

    name: str
    path: str
    is_folder: bool
    size: int
    is_checkpoint: bool


@dataclass(frozen=True)
class Folder:
    """A folder by its full path, the one that it is in (empty at the top), and what is in it: folders come first.

    ``left_out`` is how many entries there are beyond those listed.
    """

    path: str
    parent: str
    entries: tuple[Entry, ...]
    left_out: int = 0


def folder_steps(path: str) -> Steps[Folder]:
    """List a folder, an empty path being the home folder; what is hidden or cannot be looked at is left out.

    Raises
    ------
    CheckpointError
        When it is not there or cannot be listed.
    """
    place = Path(os.path.abspath(Path.home() / Path(path).expanduser()))
    found: list[Entry] = []
    left_out = 0
    try:
        with os.scandir(place) as entries:
            for number, entry in enumerate(entries):
                if number % AT_ONCE == 0:
                    yield Progress(0, 0, f"Looking into {place}")
                if entry.name.startswith(".") or not _can_be_said(entry.name):
                    continue
                if len(found) == MOST:
                    left_out += 1
                    continue
                with suppress(OSError):
                    found.append(_described(entry))
    except OSError as error:
        raise CheckpointError(f"{place} cannot be listed: {error.strerror or error}.") from error
    found.sort(key=lambda one: (not one.is_folder, one.name.casefold(), one.name))
    return Folder(str(place), "" if place.parent == place else str(place.parent), tuple(found), left_out)


def _described(entry: os.DirEntry[str]) -> Entry:
    if entry.is_dir():
        looks = any(os.path.isfile(os.path.join(entry.path, name)) for name in CONFIGS)
        return Entry(entry.name, entry.path, True, 0, looks)
    return Entry(entry.name, entry.path, False, entry.stat().st_size, Path(entry.name).suffix.lower() in WEIGHTS)


def _can_be_said(name: str) -> bool:
    """Whether a name is text; one of other bytes could not be asked for."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
