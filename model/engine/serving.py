"""What serves each request: one entry of a table, over the models and runs that a window has by their numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from ropewalk.model.decoder.spec import reaching
from ropewalk.model.engine.interface import Engine, ModelHandle, RunHandle
from ropewalk.model.engine.requests import (
    AnswerQuestion,
    Attach,
    Attached,
    CompareSurveys,
    CountTokens,
    Decode,
    FetchTrace,
    Fingerprint,
    GrownRun,
    ListStatistics,
    MadeRun,
    MadeTrace,
    MeasureProducts,
    OpenedModel,
    OpenedSurveyFolder,
    OpenModel,
    OpenSurvey,
    OpenToy,
    OpenTrace,
    OutlineCheckpoint,
    PutToken,
    ReadNumbers,
    ReadSeries,
    ReadSurveyHead,
    RunInView,
    RunPrompt,
    RunSurvey,
    Tidy,
)
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Partial, Progress, Pulse, Steps
from ropewalk.model.survey.records import SurveyDifference, SurveyHead

PART = 1 << 20
"""Bytes of a file that are sent at a time."""


class Handles:
    """The things that a window has by their numbers, until it releases them.

    Parameters
    ----------
    load
        Brings the engine in; called when something needs it for the first time.
    pulse
        Hears how far work is that cannot pause; raises ``Cancelled`` when it is to end.
    """

    def __init__(self, load: Callable[[], Engine], pulse: Pulse) -> None:
        self.load = load
        self.pulse = pulse
        self._things: dict[int, Any] = {}
        self._numbers = count(1)
        self._made: list[int] = []

    @property
    def engine(self) -> Engine:
        """The engine, loaded by now."""
        return self.load()

    def keep(self, thing: object) -> int:
        """Keep something; returns its number."""
        number = next(self._numbers)
        self._things[number] = thing
        self._made.append(number)
        return number

    def made(self) -> list[int]:
        """The numbers given since this was last asked."""
        made, self._made = self._made, []
        return made

    def release(self, number: int) -> None:
        """Keep something no longer."""
        self._things.pop(number, None)

    def __len__(self) -> int:
        return len(self._things)

    def thing(self, number: int) -> Any:
        """What has a number.

        Raises
        ------
        TraceError
            When nothing has it.
        """
        if number not in self._things:
            raise TraceError("What was asked about is no longer there; run the prompt again.")
        return self._things[number]

    def model(self, number: int) -> ModelHandle:
        """The model of a number."""
        model: ModelHandle = self._typed(number, ModelHandle)
        return model

    def run(self, view: RunInView) -> RunHandle:
        """A run as far as it is in view."""
        handle: RunHandle = self._typed(view.number, RunHandle)
        run = handle.run
        if not run.prefill <= view.length <= run.newest:
            raise TraceError(f"Row {view.length} was asked for, but the run has {run.prefill} to {run.newest} rows.")
        return handle if run.length == view.length else replace(handle, run=replace(run, length=view.length))

    def _typed(self, number: int, kind: type[Any]) -> Any:
        thing = self.thing(number)
        if not isinstance(thing, kind):
            raise TraceError("What was asked about is something else; run the prompt again.")
        return thing


Serve: TypeAlias = Callable[[Handles, Any], Steps[Any]]


def _open_model(handles: Handles, asked: OpenModel) -> Steps[OpenedModel]:
    opened = yield from handles.engine.open_model(asked.path, asked.device, asked.dtype, options=asked.options)
    return _opened(handles, opened)


def _open_toy(handles: Handles, asked: OpenToy) -> Steps[OpenedModel]:
    return _opened(handles, (yield from handles.engine.open_toy(asked.toy, asked.name)))


def _opened(handles: Handles, opened: ModelHandle) -> OpenedModel:
    return OpenedModel(
        handles.keep(opened),
        opened.card,
        opened.devices,
        opened.shapes_only,
        opened.options,
        opened.notice,
        opened.can,
        opened.advice,
        opened.origin,
    )


def _run_prompt(handles: Handles, asked: RunPrompt) -> Steps[MadeRun]:
    made = yield from handles.engine.run(
        handles.model(asked.model),
        asked.prompt,
        asked.run_id,
        asked.head,
        interventions=asked.interventions,
        decoded=asked.decoded,
    )
    return _made(handles, made, asked.tile_bytes)


def _made(handles: Handles, made: RunHandle, tile_bytes: int) -> MadeRun:
    if made.tiles is not None and tile_bytes:
        made.tiles.resize(tile_bytes)
    return MadeRun(handles.keep(made), made.run, made.cell, made.can)


def _open_trace(handles: Handles, asked: OpenTrace) -> Steps[MadeTrace]:
    opened = yield from handles.engine.open_trace(handles.model(asked.model), asked.run_id, asked.head)
    made = _made(handles, opened.handle, asked.tile_bytes)
    return MadeTrace(made, opened.handle.prompt, opened.drawn, opened.interventions)


def _attach(handles: Handles, asked: Attach) -> Steps[Attached]:
    found = yield from handles.engine.attach(
        handles.run(asked.run), asked.path, asked.device, options=asked.options, confirmed=asked.confirmed
    )
    return Attached(_opened(handles, found.model_handle), _made(handles, found, asked.tile_bytes), found.prompt)


def _decode(handles: Handles, asked: Decode) -> Steps[GrownRun]:
    before = handles.run(asked.run)
    after = yield from handles.engine.step(before, asked.count, asked.sampling, asked.past_end)
    return _grown(handles, before, after, asked.run.length)


def _put_token(handles: Handles, asked: PutToken) -> Steps[GrownRun]:
    before = handles.run(asked.run)
    after = yield from handles.engine.branch(before, asked.row, asked.token)
    return _grown(handles, before, after, asked.row)


def _grown(handles: Handles, before: RunHandle, after: RunHandle, since: int) -> GrownRun:
    run = after.run
    specs = None if run.specs == reaching(before.run.specs, run.length) else run.specs
    return GrownRun(handles.keep(after), since, run.tokens[since:], specs, run.seconds, run.trace_bytes)


def _answer(handles: Handles, asked: AnswerQuestion) -> Steps[Any]:
    baseline = None if asked.baseline is None else handles.run(asked.baseline)
    return handles.engine.answer(replace(handles.run(asked.run), baseline=baseline), asked.question)


def _fetch_trace(handles: Handles, asked: FetchTrace) -> Steps[int]:
    """The file is made here, where there may be more room than in memory, and read back a part at a time."""
    with tempfile.TemporaryDirectory(prefix="ropewalk-trace-") as folder:
        path = Path(folder) / "trace.safetensors"
        yield from handles.engine.save_steps(handles.run(asked.run), path, drawn=asked.drawn)
        total, sent = path.stat().st_size, 0
        with path.open("rb") as file:
            while part := file.read(PART):
                sent += len(part)
                yield Partial(sent, total, "Writing the trace", part)
    return total


def _open_survey(handles: Handles, asked: OpenSurvey) -> Steps[OpenedSurveyFolder]:
    opened = yield from handles.engine.open_survey(asked.folder)
    return OpenedSurveyFolder(handles.keep(opened), opened.overview())


def _read_survey_head(handles: Handles, asked: ReadSurveyHead) -> Steps[SurveyHead]:
    yield Progress(0, 1, "Reading the head")
    found: SurveyHead = handles.thing(asked.number).head(asked.layer, asked.head, asked.statistic)
    return found


def _compare_surveys(handles: Handles, asked: CompareSurveys) -> Steps[SurveyDifference]:
    yield Progress(0, 1, "Comparing the surveys")
    found: SurveyDifference = handles.thing(asked.number).difference(handles.thing(asked.other))
    return found


SERVED: Mapping[type[Any], Serve] = {
    OpenModel: _open_model,
    OpenToy: _open_toy,
    OutlineCheckpoint: lambda handles, asked: handles.engine.outline(asked.path, asked.options),
    RunPrompt: _run_prompt,
    OpenTrace: _open_trace,
    Attach: _attach,
    Decode: _decode,
    PutToken: _put_token,
    AnswerQuestion: _answer,
    ReadNumbers: lambda handles, asked: handles.engine.numbers(
        handles.run(asked.run), asked.layer, asked.head, asked.queries, asked.keys
    ),
    FetchTrace: _fetch_trace,
    CountTokens: lambda handles, asked: handles.engine.length_of(handles.model(asked.model), asked.prompt),
    Fingerprint: lambda handles, asked: handles.engine.fingerprint(handles.model(asked.model)),
    MeasureProducts: lambda handles, asked: handles.engine.measure_products(handles.model(asked.model)),
    Tidy: lambda handles, asked: handles.engine.tidy(),
    OpenSurvey: _open_survey,
    ReadSurveyHead: _read_survey_head,
    CompareSurveys: _compare_surveys,
    ReadSeries: lambda handles, asked: handles.engine.open_series(asked.folders),
    ListStatistics: lambda handles, asked: handles.engine.survey_statistics(),
    RunSurvey: lambda handles, asked: handles.engine.run_survey(asked),
}
"""What serves each request of ``model.engine.requests``."""
