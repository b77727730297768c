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

from ropewalk.model.codec import CodecError, read_json
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
LARGEST = 512 << 20
"""Bytes that the file may have: it is read whole."""
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
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has {path.stat().st_size:,} bytes")
        with safe_open(path, framework="np") as file:
            note: dict[str, Any] = read_json(file.metadata()[NOTE])
            names = [name for name in file.keys() if name in ARRAYS or name.startswith(SCORES)]  # noqa: SIM118
            arrays = {name: file.get_tensor(name) for name in names}
        found = TrainingHistory(
            scores={name: arrays[f"{SCORES}{name}"] for name in note["formulas"]},
            **{name: note[name] for name in NOTED},
            **{name: arrays[name] for name in ARRAYS},
        )
        _check(found, len(names))
    except (OSError, SafetensorError, CodecError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrainingError(
            f"{HISTORY} in {folder.name} does not hold how a model came to be; remove it to go on without.", str(error)
        ) from error
    if config is None:
        return found
    layers, heads = found.maps.shape[1:3]
    if (layers, heads) != (config.layers, config.heads) or found.ids.max() >= config.vocabulary:
        raise TrainingError(
            f"{HISTORY} in {folder.name} is of a model with {layers} layers of {heads} heads and at least "
            f"{found.ids.max() + 1} tokens, not of this one; remove it to go on without."
        )
    return found


def _check(found: TrainingHistory, arrays: int) -> None:
    """Hold the shapes, the types and the numbers of so many arrays to each other."""
    kept, layers, heads, length = found.maps.shape[:4]
    steps, checks = len(found.text_loss), len(found.checked)
    wanted: dict[str, tuple[NDArray[Any], tuple[int, ...], str]] = {
        "maps": (found.maps, (kept, layers, heads, length, length), "f2"),
        "steps": (found.steps, (kept,), "i8"),
        "ids": (found.ids, (length,), "i8"),
        "text_loss": (found.text_loss, (steps,), "f4"),
        "repeat_loss": (found.repeat_loss, (steps,), "f4"),
        "checked": (found.checked, (checks,), "i8"),
        "validation_loss": (found.validation_loss, (checks,), "f4"),
        **{name: (values, (kept, layers, heads), "f8") for name, values in found.scores.items()},
    }
    for name, (array, shape, kind) in wanted.items():
        if array.shape != shape or array.dtype != np.dtype(kind):
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, not {kind} {list(shape)}")
        whole = name in ("maps", "validation_loss")  # of the others, what could not be measured is NaN
        if np.isinf(array).any() or (whole and np.isnan(array).any()):
            raise ValueError(f"{name} has numbers that are none")
    if not kept or not length or not found.scores or arrays != len(ARRAYS) + len(found.scores):
        raise ValueError("checkpoints or statistics are missing")
    for name, numbers in (("steps", found.steps), ("checked", found.checked)):
        if numbers.min(initial=0) < 0 or (numbers[1:] <= numbers[:-1]).any():
            raise ValueError(f"{name} are out of order")
    for number in (found.sequences, found.opened or 0, *found.ids.tolist()):
        if type(number) is not int or not 0 <= number < 1 << 31:
            raise ValueError(f"{number!r} counts nothing")
    for words in found.formulas.values():
        if not isinstance(words, str):
            raise ValueError(f"{words!r} are no words")
