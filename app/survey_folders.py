"""Which folders of this machine are surveys, by a glance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ropewalk.resources import resource

KEPT = ("tally.safetensors", "shards")
BUNDLED: Final[Mapping[str, tuple[str, Path]]] = {
    "text": ("validation text", resource("surveys", "text")),
    "repeats": ("random tokens twice", resource("surveys", "repeats")),
}
"""The surveys of the bundled model that come along: what it read, and where each lies; the first is looked at first."""


def surveys_in(path: str | Path) -> tuple[str, ...]:
    """A survey's folder itself, or the surveys that lie in a folder, by name; none where it is something else."""
    folder = Path(path)
    try:
        if _is_survey(folder):
            return (str(path),)
        return tuple(str(one) for one in sorted(folder.iterdir()) if _is_survey(one))
    except (OSError, ValueError):  # no path has a NUL in it
        return ()


def holds_surveys(path: str | Path) -> bool:
    """Whether a folder is a survey, or holds some."""
    return bool(surveys_in(path))


def bundled_statistics(name: str) -> tuple[str, ...]:
    """What a survey that comes along is of, without opening it."""
    manifest = json.loads((BUNDLED[name][1] / "manifest.json").read_text(encoding="utf-8"))
    return tuple(manifest["settings"]["statistics"])


def _is_survey(folder: Path) -> bool:
    """Whether it has what every survey has; a checkpoint has neither."""
    return (folder / "manifest.json").is_file() and any((folder / name).exists() for name in KEPT)
