"""Arrays of a survey as one ``.safetensors`` file: written whole, and mapped when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ropewalk.model.errors import SurveyError
from ropewalk.model.limits import regular
from ropewalk.model.whole_file import whole_file

Arrays: TypeAlias = dict[str, NDArray[Any]]
Axes: TypeAlias = Mapping[str, Sequence[int | str]]
"""The shape of each array; axes of one name are equally long."""
ENDING = ".safetensors"


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write a file whole."""
    with whole_file(path) as part:
        save_file({name: np.asarray(one, order="C") for name, one in arrays.items()}, part)


def read_arrays(path: Path, axes: Axes, whole: Set[str], cure: str, optional: Sequence[str] = ()) -> Arrays:
    """Arrays of a file, whose numbers are read from the disk when they are looked at.

    Parameters
    ----------
    whole
        Those that hold whole numbers; all others hold numbers with a point.
    cure
        What to do about a file that cannot be read.
    optional
        Arrays that may be missing.

    Raises
    ------
    SurveyError
        When it cannot be read, or its arrays do not fit together.
    """
    found = Arrays()
    try:
        with safe_open(regular(path), "pt") as file:  # as tensors, which are mapped
            there = set(file.keys())
            for name in axes:
                if name in there or name not in optional:
                    found[name] = file.get_tensor(name).numpy()
    except (OSError, SafetensorError, TypeError) as error:
        raise SurveyError(f"{path} is no file of a survey, or is damaged; {cure}.", str(error)) from error
    lengths = dict[str, int]()
    for name, one in found.items():
        fits = one.ndim == len(axes[name]) and one.dtype.kind in ("iu" if name in whole else "f")
        for axis, length in zip(axes[name], one.shape, strict=False):
            fits &= length == (lengths.setdefault(axis, length) if isinstance(axis, str) else axis)
        if not fits:
            details = f"{name} has the shape {one.shape} and the type {one.dtype}"
            raise SurveyError(f"{path} is no file of a survey, or is damaged; {cure}.", details)
    return found
