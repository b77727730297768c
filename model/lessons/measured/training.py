"""How a model came to be: what was kept of its heads and its losses while it was trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ropewalk.model.errors import LessonError
from ropewalk.model.lessons.runs import Runs
from ropewalk.model.lessons.values import Head, ModelName
from ropewalk.model.readings.records import Doubles, TrainingHistory
from ropewalk.model.training.history import read_history

WINDOW = 25
"""Steps whose mean is a loss: rows of a single step differ too much."""


def _history(runs: Runs, model: ModelName) -> TrainingHistory:
    checkpoint = runs.checkpoint(model)
    found = read_history(Path(checkpoint.path), checkpoint.config) if checkpoint.path else None
    if found is None:
        raise LessonError(f"Nothing was kept of how {model.name} was trained.")
    return found


def _scores(history: TrainingHistory, statistic: str) -> Doubles:
    """[N, L, H] of a statistic, without NaN."""
    if statistic not in history.scores:
        raise LessonError(f"No statistic {statistic!r} was kept; there are {', '.join(history.scores)}.")
    return np.nan_to_num(history.scores[statistic], nan=-np.inf)


def _nearest(history: TrainingHistory, step: int) -> int:
    return int(np.abs(history.steps - step).argmin())


def training_steps(runs: Runs, model: ModelName) -> int:
    """How many steps a model was trained."""
    return int(_history(runs, model).steps[-1])


def opening_steps(runs: Runs, model: ModelName) -> int:
    """How many steps the opening of a training took, in which nearly all rows were random tokens that repeat."""
    opened = _history(runs, model).opened
    if opened is None:
        raise LessonError(f"The training of {model.name} never got past its opening.")
    return opened


def checkpoints(runs: Runs, model: ModelName) -> int:
    """At how many moments of the training its heads were looked at."""
    return len(_history(runs, model).steps)


def first_step(runs: Runs, model: ModelName, statistic: str, least: float) -> int:
    """The steps taken at the first checkpoint at which any head's statistic reaches so much."""
    history = _history(runs, model)
    reached = _scores(history, statistic).max(axis=(1, 2)) >= least
    if not reached.any():
        raise LessonError(f"No head's {statistic} ever reached {least:g}.")
    return int(history.steps[int(reached.argmax())])


def step_before(runs: Runs, model: ModelName, step: int) -> int:
    """The steps taken at the checkpoint before one."""
    history = _history(runs, model)
    return int(history.steps[max(_nearest(history, step) - 1, 0)])


def most_at(runs: Runs, model: ModelName, statistic: str, step: int) -> float:
    """The largest of any head's statistic at the checkpoint nearest to a step."""
    history = _history(runs, model)
    return float(_scores(history, statistic)[_nearest(history, step)].max())


def head_at(runs: Runs, model: ModelName, statistic: str, step: int) -> Head:
    """The head with the largest statistic at the checkpoint nearest to a step."""
    history = _history(runs, model)
    found = _scores(history, statistic)[_nearest(history, step)]
    layer, head = divmod(int(found.argmax()), found.shape[1])
    return Head(layer, head)


def had(runs: Runs, model: ModelName, head: Head, statistic: str, step: int) -> float:
    """One head's statistic at the checkpoint nearest to a step."""
    history = _history(runs, model)
    return float(_scores(history, statistic)[_nearest(history, step), head.layer, head.head])


def loss_at(runs: Runs, model: ModelName, rows: str, step: int) -> float:
    """The loss of text, or of repeats from the second round on, in nats a token: the mean of 25 steps up to one."""
    history = _history(runs, model)
    losses = {"text": history.text_loss, "repeats": history.repeat_loss}
    if rows not in losses:
        raise LessonError(f"There is a loss of {' and of '.join(losses)}, none of {rows!r}.")
    stop = min(max(step, WINDOW), len(losses[rows]))
    part = losses[rows][stop - WINDOW : stop]
    if not np.isfinite(part).any():
        raise LessonError(f"No row of {rows} was read in the steps before step {step}.")
    return float(np.nanmean(part))
