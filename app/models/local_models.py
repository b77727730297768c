"""Which checkpoints lie on this machine already: a look into the local Hugging Face cache, by its folders alone.

Nothing here touches the network, reads a weight or knows torch.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ropewalk.model.progress import Progress

PREFIX = "models--"
WEIGHTS = (".safetensors", ".bin", ".gguf", ".pth")
"""Endings of files that hold weights."""


@dataclass(frozen=True)
class LocalModel:
    """One checkpoint of the cache: ``org/name``, where to open it, and the bytes of its weight files."""

    name: str
    path: str
    size: int


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the Hugging Face cache is: ``HF_HUB_CACHE``, or ``hub`` in ``HF_HOME``, or its usual place."""
    named = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return Path(named).expanduser()
    home = environment.get("HF_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".cache" / "huggingface") / "hub"


def local_models_steps(folder: Path) -> Generator[Progress, None, tuple[LocalModel, ...]]:
    """List the checkpoints of a cache, pausing after every model; what cannot be read is left out."""
    try:
        entries = sorted(entry for entry in folder.iterdir() if entry.name.startswith(PREFIX))
    except OSError:
        return ()
    found = []
    for number, entry in enumerate(entries):
        yield Progress(number, len(entries), "Looking into the Hugging Face cache")
        with suppress(OSError):
            found.extend(_models_of(entry))
    return tuple(found)


def _models_of(entry: Path) -> list[LocalModel]:
    """What can be opened in one repository of the cache: its newest snapshot, or every GGUF file of that."""
    name = entry.name.removeprefix(PREFIX).replace("--", "/", 1)
    snapshot = _snapshot(entry)
    if snapshot is None:
        return []
    weights = [file for file in sorted(snapshot.iterdir()) if file.suffix in WEIGHTS and file.exists()]
    if (snapshot / "config.json").exists() and any(file.suffix != ".gguf" for file in weights):
        return [LocalModel(name, str(snapshot), sum(file.stat().st_size for file in weights))]
    quantised = [file for file in weights if file.suffix == ".gguf"]
    return [LocalModel(f"{name} · {file.name}", str(file), file.stat().st_size) for file in quantised]


def _snapshot(entry: Path) -> Path | None:
    """The snapshot that ``main`` names, else the newest one."""
    with suppress(OSError):
        named = entry / "snapshots" / (entry / "refs" / "main").read_text(encoding="utf-8").strip()
        if named.is_dir():
            return named
    snapshots = [folder for folder in (entry / "snapshots").iterdir() if folder.is_dir()]
    return max(snapshots, key=lambda folder: folder.stat().st_mtime, default=None)
