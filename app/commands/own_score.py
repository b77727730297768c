"""A score of one's own: a function in a file that a person names, which gives a number for every head."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from ropewalk.model.errors import RopewalkError

ENDING = ".py"


@dataclass(frozen=True)
class OwnScore:
    """A function ``name(trace)`` of a file, which returns [L, H]."""

    path: Path
    name: str

    def load(self) -> Callable[[Any], Any]:
        """The function, with what goes wrong in it as a sentence.

        Raises
        ------
        RopewalkError
            When the file cannot be run, or has no such function.
        """
        function = function_of(self.path, self.name)

        def measure(trace: Any) -> Any:
            import numpy as np

            try:
                found = function(trace)
                found = found.detach().cpu() if hasattr(found, "detach") else found
                if np.iscomplexobj(found):
                    raise TypeError("it returned complex numbers")
                found = np.asarray(found, dtype=np.float64)
            except (Exception, SystemExit) as error:
                raise RopewalkError(f"{self.name} of {self.path} failed: {said(error)}.") from error
            wanted = (trace.config.layers, trace.config.heads)
            if found.shape != wanted:
                raise RopewalkError(
                    f"{self.name} of {self.path} returned shape {found.shape}, but a number for each of {wanted[0]} "
                    f"layers of {wanted[1]} heads is wanted."
                )
            return found

        return measure


def function_of(path: Path, name: str) -> Callable[..., Any]:
    """A function of a file.

    Raises
    ------
    RopewalkError
        When the file cannot be run, or has no such function.
    """
    function: Any = module_of(path).get(name)
    if not callable(function):
        raise RopewalkError(f"{path} has no function {name}.")
    return function  # type: ignore[no-any-return]


def module_of(path: Path) -> dict[str, Any]:
    """Whatever a file names.

    Raises
    ------
    RopewalkError
        When it cannot be run.
    """
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise RopewalkError(f"{path} cannot be run: {said(error)}.") from error
    return vars(module)


def scores_asked(text: str) -> list[str | OwnScore]:
    """Names of scores between commas, or a function of a file such as ``mine.py:sharpest``."""
    path, colon, function = text.rpartition(":")
    if not colon or not path.endswith(ENDING):
        names = [name for part in text.split(",") if (name := part.strip())]
        if not names:
            raise argparse.ArgumentTypeError("no score is named")
        return list(names)
    if not function.isidentifier():
        raise argparse.ArgumentTypeError(f"{function!r} is not the name of a function, as in mine.py:sharpest")
    if not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {path}")
    return [OwnScore(Path(path), function)]


def said(error: BaseException) -> str:
    """What an exception of somebody else's code says, in one line."""
    line = str(error).strip().split("\n")[0].rstrip(".")
    return f"{type(error).__name__}{f': {line}' if line else ''}"
