"""Files that travel with the program: fonts, the bundled model, lessons."""

from __future__ import annotations

from pathlib import Path


def resource(*parts: str) -> Path:
    """The path of a file or folder that travels with the program, such as ``resource("bundled")``."""
    return Path(__file__).resolve().parent.joinpath(*parts)
