"""Ropewalk from Python: ``import ropewalk`` in a notebook or a script.

What is named here is imported when it is first used, so that ``import ropewalk`` itself costs nothing;
``docs/python.md`` shows how the names go together. Installed, the packages ``app``, ``model``, ``views`` and
``resources`` lie in this one; in a clone they lie beside this folder.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # but for ``view``: the model names this file, and may not know the app
    from ropewalk.model.checkpoints import Checkpoint, open_checkpoint
    from ropewalk.model.decoder import hooks, interventions
    from ropewalk.model.errors import RopewalkError
    from ropewalk.model.notebooks.model import Model, open  # noqa: A004 - ropewalk.open(path)
    from ropewalk.model.notebooks.run import Run, load
    from ropewalk.model.notebooks.transformers_model import from_transformers
    from ropewalk.model.readings import readout
    from ropewalk.model.readings.attribution import direct_attribution
    from ropewalk.model.readings.lens import logit_lens
    from ropewalk.model.readings.next_token import draw
    from ropewalk.model.readings.patterns import head_scores, repeated_ids
    from ropewalk.model.readings.records import Sampling
    from ropewalk.model.runs.layer_trace import LayerTrace
    from ropewalk.model.runs.trace import KeepAll, Trace, append, capture, record, replay
    from ropewalk.model.survey.result import Survey, load_survey
    from ropewalk.model.survey.running import survey
    from ropewalk.model.survey.series import survey_series
    from ropewalk.model.survey.statistics import SurveyStatistic
    from ropewalk.model.trace_files.trace_file import load_trace, save_trace

__version__ = "0.2.0"

__all__ = [
    "Checkpoint",
    "KeepAll",
    "LayerTrace",
    "Model",
    "RopewalkError",
    "Run",
    "Sampling",
    "Survey",
    "SurveyStatistic",
    "Trace",
    "append",
    "capture",
    "direct_attribution",
    "draw",
    "from_transformers",
    "head_scores",
    "hooks",
    "interventions",
    "load",
    "load_survey",
    "load_trace",
    "logit_lens",
    "open",
    "open_checkpoint",
    "readout",
    "record",
    "repeated_ids",
    "replay",
    "save_trace",
    "survey",
    "survey_series",
    "view",
]

_MODULES = {
    "Checkpoint": "model.checkpoints",
    "KeepAll": "model.runs.trace",
    "LayerTrace": "model.runs.layer_trace",
    "Model": "model.notebooks.model",
    "RopewalkError": "model.errors",
    "Run": "model.notebooks.run",
    "Sampling": "model.readings.records",
    "Survey": "model.survey.result",
    "SurveyStatistic": "model.survey.statistics",
    "Trace": "model.runs.trace",
    "append": "model.runs.trace",
    "capture": "model.runs.trace",
    "direct_attribution": "model.readings.attribution",
    "draw": "model.readings.next_token",
    "head_scores": "model.readings.patterns",
    "from_transformers": "model.notebooks.transformers_model",
    "hooks": "model.decoder.hooks",
    "interventions": "model.decoder.interventions",
    "load": "model.notebooks.run",
    "load_survey": "model.survey.result",
    "load_trace": "model.trace_files.trace_file",
    "logit_lens": "model.readings.lens",
    "open": "model.notebooks.model",
    "open_checkpoint": "model.checkpoints",
    "readout": "model.readings.readout",
    "record": "model.runs.trace",
    "repeated_ids": "model.readings.patterns",
    "replay": "model.runs.trace",
    "save_trace": "model.trace_files.trace_file",
    "survey": "model.survey.running",
    "survey_series": "model.survey.series",
    "view": "app.viewing",
}
"""Where each name comes from; a module's last word is its own."""

_here = Path(__file__).resolve().parent  # in a clone, although found through a link
if not _here.joinpath("app").is_dir():
    __path__[:] = [str(_here), str(_here.parent)]


def __getattr__(name: str) -> Any:
    """Import what is used for the first time."""
    if name not in _MODULES:
        raise AttributeError(f"module 'ropewalk' has no attribute {name!r}; it has {', '.join(__all__)}.")
    module = import_module(f"ropewalk.{_MODULES[name]}")
    value = globals()[name] = module if module.__name__.endswith(f".{name}") else getattr(module, name)
    return value


def __dir__() -> list[str]:
    """Every name, imported or not."""
    return sorted({*globals(), *__all__})
