"""Ropewalk from Python: ``import ropewalk`` in a notebook or a script.

What is named here is imported when it is first used, so that ``import ropewalk`` itself costs nothing;
``docs/python.md`` shows how the names go together. Installed, the packages ``app``, ``model``, ``views`` and
``resources`` lie in this one; in a clone they lie beside this folder.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
    from ropewalk.model.readings import readout
    from ropewalk.model.readings.patterns import head_scores
    from ropewalk.model.runs.trace import Trace, append, capture, replay
    from ropewalk.model.runs.trace_file import load_trace, save_trace

__version__ = "0.2.0"

__all__ = [
    "Checkpoint",
    "Trace",
    "append",
    "capture",
    "head_scores",
    "load_trace",
    "open_checkpoint",
    "readout",
    "replay",
    "save_trace",
]

_MODULES = {
    "Checkpoint": "model.checkpoints",
    "Trace": "model.runs.trace",
    "append": "model.runs.trace",
    "capture": "model.runs.trace",
    "head_scores": "model.readings.patterns",
    "load_trace": "model.runs.trace_file",
    "open_checkpoint": "model.checkpoints",
    "readout": "model.readings",
    "replay": "model.runs.trace",
    "save_trace": "model.runs.trace_file",
}
"""Where each name comes from."""

_here = Path(__file__).resolve().parent  # in a clone, although found through a link
if not _here.joinpath("app").is_dir():
    __path__[:] = [str(_here), str(_here.parent)]


def __getattr__(name: str) -> Any:
    """Import what is used for the first time."""
    if name not in _MODULES:
        raise AttributeError(f"module 'ropewalk' has no attribute {name!r}; it has {', '.join(__all__)}.")
    module = import_module(f"ropewalk.{_MODULES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    """Every name, imported or not."""
    return sorted({*globals(), *__all__})
