"""The Hugging Face cache as people find it: ``models--org--name`` with ``refs``, ``snapshots`` and ``blobs``.

A snapshot is a folder of links to blobs, which are named by their hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ropewalk.model.errors import CheckpointError

PREFIX, SNAPSHOTS, BLOBS = "models--", "snapshots", "blobs"
DESCRIPTIONS = ("config.json", "params.json", "adapter_config.json")
LISTED = 8


@dataclass(frozen=True)
class Place:
    """Where what was asked for really lies.

    Attributes
    ----------
    path
        The folder or file to open.
    name
        ``org/name``, where it is the snapshot of a model; else empty.
    notes
        Which of several was taken, in a sentence.
    """

    path: Path
    name: str = ""
    notes: tuple[str, ...] = ()


def place_of(path: Path) -> Place:
    """Where a path of the cache leads: from a model's folder to its snapshot, from a blob to what it is called there.

    Raises
    ------
    CheckpointError
        When there is no snapshot, or several and nothing says which.
    """
    if path.is_file() and path.resolve().parent.name == BLOBS and path.parent.name == BLOBS:
        return Place(_called(path))
    if not path.is_dir():
        return Place(path)
    whole = path.absolute()
    if whole.parent.name == SNAPSHOTS:
        return Place(path, name_of(whole.parent.parent))
    if (path / SNAPSHOTS).is_dir():
        return _snapshot(path)
    models = sorted(child.name for child in path.glob(f"{PREFIX}*")) if not _described(path) else []
    if len(models) == 1:
        return _snapshot(path / models[0])
    if models:
        listed = ", ".join(models[:LISTED]) + (" and others" if len(models) > LISTED else "")
        raise CheckpointError(f"{whole.name} is a cache of {len(models)} models; open one of its folders: {listed}.")
    return Place(path)


def name_of(folder: Path) -> str:
    """``org/name`` for ``models--org--name``; another folder's own name."""
    return folder.name.removeprefix(PREFIX).replace("--", "/") if folder.name.startswith(PREFIX) else folder.name


def _snapshot(folder: Path) -> Place:
    name = name_of(folder.resolve())
    every = sorted(child for child in (folder / SNAPSHOTS).iterdir() if child.is_dir())
    main = folder / "refs" / "main"
    named = main.read_text(encoding="utf-8", errors="replace").strip() if main.is_file() else ""
    if not every:
        raise CheckpointError(f"{folder.name} has no snapshot, so nothing of {name} was downloaded; download it again.")
    chosen = next((one for one in every if one.name == named), every[0] if len(every) == 1 else None)
    if chosen is None:
        wanted = f"refs/main names {named[:12]!r}, which is not among them" if named else "there is no refs/main"
        raise CheckpointError(
            f"{folder.name} has {len(every)} snapshots, but {wanted}; open one of them: "
            f"{', '.join(one.name for one in every[:LISTED])}."
        )
    notes = (f"Of {len(every)} snapshots that of refs/main is open, {chosen.name[:12]}.",) if len(every) > 1 else ()
    return Place(_within(chosen, name), name, notes)


def _within(snapshot: Path, name: str) -> Path:
    """What there is to open in a snapshot: itself, or its one GGUF file."""
    files = sorted(snapshot.glob("*.gguf"))
    if not files or _described(snapshot):
        return snapshot
    if len(files) > 1 and "-of-" not in files[0].name:
        listed = ", ".join(file.name for file in files[:LISTED])
        raise CheckpointError(f"{name} has {len(files)} GGUF files; open one of them in {snapshot}: {listed}.")
    return files[0]


def _described(folder: Path) -> bool:
    return any((folder / file).is_file() for file in DESCRIPTIONS)


def _called(blob: Path) -> Path:
    """A file by its name in a snapshot, beside the files that describe it."""
    links = (link for link in (blob.parent.parent / SNAPSHOTS).glob("*/*") if link.is_file())
    return next((link for link in sorted(links) if link.samefile(blob)), blob)
