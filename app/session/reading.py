"""An answer of the engine, and what it is an answer to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ropewalk.model.engine.questions import Question
from ropewalk.model.readings.records import Run

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, eq=False)
class Reading(Generic[T_co]):
    """What was read of a run.

    Attributes
    ----------
    run
        The run that was on screen when it was asked; its ``run_id`` and ``length`` say which.
    question, value
        What was asked, and the answer.
    """

    run: Run
    question: Question
    value: T_co
