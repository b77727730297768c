"""What is asked about checkpoints of the engine's machine before one is opened: frozen records, as of any request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ListModels:
    """What lies in the Hugging Face cache → ``tuple[LocalModel, ...]``."""


@dataclass(frozen=True)
class DownloadModel:
    """Download ``org/name`` → the folder or file to open."""

    name: str


@dataclass(frozen=True)
class ListFolder:
    """What lies in a folder, an empty path being the home folder → ``Folder``."""

    path: str
