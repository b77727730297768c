"""Reading a JSON file of a checkpoint, and the options beside it, with a sentence for each way they can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ropewalk.model.checkpoints.damage import check_is_data
from ropewalk.model.errors import CheckpointError
from ropewalk.model.options import Options

LARGEST_JSON = 64_000_000


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises
    ------
    CheckpointError
        When it is empty, a pointer or web page saved in its place, too large, not JSON, or not an object.
    """
    check_is_data(path)
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


def whole_option(options: Options, name: str, default: int) -> int:
    """A positive whole number among the options.

    Raises
    ------
    CheckpointError
        When it is something else.
    """
    value: object = options.get(name, default)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CheckpointError(f"The option {name} is {value!r:.40}, but it must be a positive whole number.")
    return value
