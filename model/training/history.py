"""How a model came to be: losses of every step, and what its heads did at checkpoints along the way.

It is a file beside the weights. Nothing of torch is needed to read it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.errors import TrainingError
from ropewalk.model.readings.records import TrainingHistory
from ropewalk.model.whole_file import whole_file

HISTORY = "history.safetensors"
"""The file's name, in the folder of the checkpoint."""
NOTE = "ropewalk_history"
"""Key of its JSON in the header."""
SCORES = "scores."
"""What names of statistics begin with in the file."""
NOTED = ("formulas", "sequences", "opened")
ARRAYS = ("text_loss", "repeat_loss", "checked", "validation_loss", "steps", "ids", "maps")


def write_history(folder: Path, history: TrainingHistory) -> None:
    """Write the file, whole or not at all."""
    arrays = {f"{SCORES}{name}": values for name, values in history.scores.items()}
    arrays |= {name: getattr(history, name) for name in ARRAYS}
    note = {name: getattr(history, name) for name in NOTED}
    with whole_file(folder / HISTORY) as part:
        save_file({name: np.ascontiguousarray(one) for name, one in arrays.items()}, part, {NOTE: json.dumps(note)})


def read_history(folder: Path, config: ModelConfig | None = None) -> TrainingHistory | None:
    """Read the file of a checkpoint's folder, None where it has none.

    Parameters
    ----------
    config
        The model that it has to be of.

    Raises
    ------
    TrainingError
        When it is not such a file, or its parts do not fit each other.
    """
    path = folder / HISTORY
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="np") as file:
            note: dict[str, Any] = json.loads(file.metadata()[NOTE])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        found = TrainingHistory(
            scores={name.removeprefix(SCORES): arrays[name] for name in arrays if name.startswith(SCORES)},
            formulas={str(name): str(words) for name, words in note["formulas"].items()},
            sequences=int(note["sequences"]),
            opened=None if note["opened"] is None else int(note["opened"]),
            **{name: arrays[name] for name in ARRAYS},
        )
        _check(found)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrainingError(
            f"{HISTORY} in {folder.name} does not hold how a model came to be; remove it to go on without.", str(error)
        ) from error
    if config is not None and found.maps.shape[1:3] != (config.layers, config.heads):
        layers, heads = found.maps.shape[1:3]
        raise TrainingError(
            f"{HISTORY} in {folder.name} is of a model with {layers} layers of {heads} heads, not of this one; remove "
            "it to go on without."
        )
    return found


def _check(found: TrainingHistory) -> None:
    """Hold the shapes and the types of the arrays to each other."""
    kept, layers, heads, length = found.maps.shape[:4]
    wanted: dict[str, tuple[NDArray[Any], tuple[int, ...], str]] = {
        "maps": (found.maps, (kept, layers, heads, length, length), "f2"),
        "steps": (found.steps, (kept,), "i8"),
        "ids": (found.ids, (length,), "i8"),
        "text_loss": (found.text_loss, found.text_loss.shape[:1], "f4"),
        "repeat_loss": (found.repeat_loss, found.text_loss.shape[:1], "f4"),
        "checked": (found.checked, found.checked.shape[:1], "i8"),
        "validation_loss": (found.validation_loss, found.checked.shape[:1], "f4"),
        **{name: (values, (kept, layers, heads), "f8") for name, values in found.scores.items()},
    }
    for name, (array, shape, kind) in wanted.items():
        if array.shape != shape or array.dtype != np.dtype(kind):
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, not {kind} {list(shape)}")
    if not kept or found.scores.keys() != found.formulas.keys() or (np.diff(found.steps) <= 0).any():
        raise ValueError("checkpoints or statistics are missing or out of order")
