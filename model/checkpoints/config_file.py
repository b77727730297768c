"""Reading a JSON file from a checkpoint folder, with a sentence for each way it can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from model.errors import CheckpointError

LARGEST_JSON = 64_000_000


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises
    ------
    CheckpointError
        When it is too large, not text, not JSON, or not an object.
    """
    size = path.stat().st_size
    if size > LARGEST_JSON:
        raise CheckpointError(f"{path.name} has {size:,} bytes, too many for a config; it is some other file.")
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name} is not JSON ({size:,} bytes); download it again.", str(error)) from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path.name} holds {type(found).__name__} where a JSON object was expected.")
    return found
