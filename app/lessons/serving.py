"""What serves a lesson's requests, in the engine's process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropewalk.app.lessons.filling import READING, fill_check, fill_step
from ropewalk.app.lessons.plan import Asked, FilledStep
from ropewalk.app.lessons.requests import FillCheck, FillStep, OpenRuns
from ropewalk.model.engine.serving import Handles, Serve
from ropewalk.model.progress import Progress, Steps


def _open_runs(handles: Handles, asked: OpenRuns) -> Steps[int]:
    model = None if asked.model is None else handles.model(asked.model)
    run = None if asked.run is None else handles.run(asked.run)
    return handles.keep((yield from handles.engine.lesson_runs(asked.models, model, run)))


def _fill_step(handles: Handles, asked: FillStep) -> Steps[FilledStep]:
    return fill_step(asked.lesson, 0, handles.thing(asked.runs), asked.seeds)


def _fill_check(handles: Handles, asked: FillCheck) -> Steps[Asked]:
    yield Progress(0, 1, READING)
    step, place = asked.lesson.place_of(asked.check)
    check = asked.lesson.steps[step].checks[place]
    return fill_check(asked.lesson, check, handles.thing(asked.runs), asked.seed)


SERVED: Mapping[type[Any], Serve] = {OpenRuns: _open_runs, FillStep: _fill_step, FillCheck: _fill_check}
