"""What a checkpoint's file may turn out to be instead, found in its first bytes."""

from __future__ import annotations

from pathlib import Path

from ropewalk.model.errors import CheckpointError

LFS = b"version https://git-lfs"
HTML = (b"<!doctype html", b"<html", b"<?xml")


def first_bytes(path: Path, count: int = 512) -> bytes:
    """The beginning of a file; of a pipe, which would be waited for, or a device nothing is read."""
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path.name} is no file, but something else under its name; download it again.")
    with path.open("rb") as file:
        return file.read(count)


def check_is_data(path: Path) -> None:
    """Refuse an empty file, a Git LFS pointer and a web page saved as weights.

    Raises
    ------
    CheckpointError
        With what the file is and what to do.
    """
    start = first_bytes(path)
    if not start:
        raise CheckpointError(f"{path.name} is empty; download it again.")
    if start.startswith(LFS):
        raise CheckpointError(
            f"{path.name} is a Git LFS pointer of {path.stat().st_size} bytes, not the file it stands for; run "
            "'git lfs pull' in its folder, or download the file itself."
        )
    if start.lstrip().lower().startswith(HTML):
        raise CheckpointError(
            f"{path.name} is a web page, not a model's file: a download that was refused was saved under this name; "
            "sign in where it came from and download it again."
        )
