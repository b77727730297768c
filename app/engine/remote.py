"""The engine as the session asks it: jobs that ask its process, with handles of what the process keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ropewalk.app.engine.connection import Calls, Connection, Handle
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.decoder.spec import reaching
from ropewalk.model.engine.interface import CheckpointOutline, ModelHandle, OpenedTrace, RunHandle
from ropewalk.model.engine.questions import Question
from ropewalk.model.engine.requests import (
    AnswerQuestion,
    Attach,
    Attached,
    CountTokens,
    Decode,
    FetchTrace,
    Fingerprint,
    GrownRun,
    MadeRun,
    MadeTrace,
    MeasureProducts,
    OpenedModel,
    OpenModel,
    OpenToy,
    OpenTrace,
    OutlineCheckpoint,
    PutToken,
    ReadNumbers,
    RunInView,
    RunPrompt,
    Tidy,
)
from ropewalk.model.lessons.toy_spec import ToySpec
from ropewalk.model.options import Options
from ropewalk.model.readings.records import HeadNumbers, Sampling, TokenTexts
from ropewalk.model.tokens.prompt import Prompt


class RemoteEngine:
    """The engine behind a connection.

    Parameters
    ----------
    connection
        Where models are opened; what is asked about a model or a run goes to the process that keeps it.
    tile_bytes
        What refined pictures of a run may keep.
    """

    def __init__(self, connection: Connection, tile_bytes: Callable[[], int] = lambda: 0) -> None:
        self.connection = connection
        self._tile_bytes = tile_bytes

    def open_model(
        self, path: str | None, device: str, dtype: str, *, options: Options | None = None
    ) -> Calls[ModelHandle]:
        """Open a checkpoint; None is the bundled one."""
        asked = OpenModel(path, device, dtype, dict(options or {}))
        return _opened((yield self.connection.asking(asked)), self.connection)

    def open_toy(self, toy: ToySpec, name: str) -> Calls[ModelHandle]:
        """Open a lesson's toy."""
        return replace(_opened((yield self.connection.asking(OpenToy(toy, name))), self.connection), toy=toy)

    def outline(self, path: str | None, options: Options) -> Calls[CheckpointOutline]:
        """Say what a checkpoint is and would cost, without loading it."""
        found: CheckpointOutline = yield self.connection.asking(OutlineCheckpoint(path, dict(options)))
        return found

    def run(
        self,
        model_handle: ModelHandle,
        prompt: Prompt,
        run_id: int,
        head: tuple[int, int] | None,
        *,
        interventions: Sequence[Intervention] = (),
        decoded: Sequence[int] = (),
    ) -> Calls[RunHandle]:
        """Prefill. ``head`` is the (layer, head) in view; None looks for the head worth showing."""
        kept: Handle = model_handle.checkpoint
        asked = RunPrompt(
            kept.number, prompt, run_id, head, tuple(interventions), tuple(decoded), tile_bytes=self._tile_bytes()
        )
        return _made((yield kept.call(asked)), model_handle, prompt)

    def open_trace(
        self, model_handle: ModelHandle, run_id: int, head: tuple[int, int] | None = None
    ) -> Calls[OpenedTrace]:
        """The run of a trace file that is open."""
        kept: Handle = model_handle.checkpoint
        made: MadeTrace = yield kept.call(OpenTrace(kept.number, run_id, head, tile_bytes=self._tile_bytes()))
        return OpenedTrace(_made(made.run, model_handle, made.prompt), made.drawn, made.interventions)

    def attach(
        self,
        handle: RunHandle,
        path: str | None,
        device: str,
        *,
        options: Options | None = None,
        confirmed: bool = False,
    ) -> Calls[RunHandle]:
        """Open the checkpoint that a run from a file was made with, so that everything can be done with the run."""
        asked = Attach(in_view(handle), path, device, dict(options or {}), confirmed, self._tile_bytes())
        made: Attached = yield handle.trace.call(asked)
        return _made(made.run, _opened(made.model, handle.trace.connection), made.prompt)

    def step(self, handle: RunHandle, count: int, sampling: Sampling, past_end: bool = False) -> Calls[RunHandle]:
        """Decode ``count`` tokens after the rows in view; fewer where one ends the text, unless ``past_end``."""
        return _grown(handle, (yield handle.trace.call(Decode(in_view(handle), count, sampling, past_end))))

    def branch(self, handle: RunHandle, row: int, token: int) -> Calls[RunHandle]:
        """Put another token in the place of a decoded row, and forget what came after it."""
        return _grown(handle, (yield handle.trace.call(PutToken(in_view(handle), row, token))))

    def answer(self, handle: RunHandle, question: Question) -> Calls[Any]:
        """Answer a panel's question about the rows in view."""
        baseline = handle.baseline
        comparable = baseline is not None and baseline.trace.connection is handle.trace.connection
        against = in_view(baseline) if baseline is not None and comparable else None
        return (yield handle.trace.call(AnswerQuestion(in_view(handle), question, against)))

    def numbers(
        self, handle: RunHandle, layer: int, head: int, queries: tuple[int, int], keys: tuple[int, int]
    ) -> Calls[HeadNumbers]:
        """Read a rectangle of a head, half-open ranges of the rows in view."""
        numbers: HeadNumbers = yield handle.trace.call(ReadNumbers(in_view(handle), layer, head, queries, keys))
        return numbers

    def trace_file(self, handle: RunHandle, drawn: tuple[Sampling, ...] = ()) -> Calls[int]:
        """Bring the rows in view over as a trace file, whose bytes come in parts; returns how many there are.

        ``drawn`` is how each decoded token was drawn.
        """
        size: int = yield handle.trace.call(FetchTrace(in_view(handle), drawn[: handle.run.steps]))
        return size

    def length_of(self, model_handle: ModelHandle, prompt: Prompt) -> Calls[int]:
        """Count the tokens of a prompt."""
        kept: Handle = model_handle.checkpoint
        count: int = yield kept.call(CountTokens(kept.number, prompt))
        return count

    def fingerprint(self, model_handle: ModelHandle) -> Calls[str]:
        """A hash over the files of a model; empty where it has none."""
        kept: Handle = model_handle.checkpoint
        found: str = yield kept.call(Fingerprint(kept.number))
        return found

    def measure_products(self, model_handle: ModelHandle) -> Calls[str]:
        """Find what multiplies quickest where a model is, for runs to come; returns what it is, in words."""
        kept: Handle = model_handle.checkpoint
        found: str = yield kept.call(MeasureProducts(kept.number))
        return found

    def tidy(self) -> Calls[None]:
        """Give the memory back that a run which is gone has left."""
        yield self.connection.asking(Tidy())


def _opened(opened: OpenedModel, connection: Connection) -> ModelHandle:
    """A model that a process has opened."""
    return ModelHandle(
        opened.card,
        opened.devices,
        connection.keep(opened.number),
        opened.shapes_only,
        opened.options,
        opened.notice,
        can=opened.can,
        advice=opened.advice,
        origin=opened.origin,
    )


def _made(made: MadeRun, model_handle: ModelHandle, prompt: Prompt) -> RunHandle:
    """A run that a process has made."""
    trace = model_handle.checkpoint.connection.keep(made.number)
    return RunHandle(made.run, model_handle, trace, made.cell, prompt=prompt, can=made.can)


def in_view(handle: RunHandle) -> RunInView:
    """A run as its process knows it."""
    return RunInView(handle.trace.number, handle.run.length)


def _grown(handle: RunHandle, grown: GrownRun) -> RunHandle:
    """The run that goes on from another."""
    run, tokens = handle.run, TokenTexts.of(handle.run.tokens)[: grown.since] + grown.tokens
    length = len(tokens)
    run = replace(
        run,
        specs=reaching(run.specs, length) if grown.specs is None else grown.specs,
        tokens=tokens,
        length=length,
        newest=length,
        seconds=grown.seconds,
        trace_bytes=grown.trace_bytes,
    )
    return replace(handle, run=run, trace=handle.trace.connection.keep(grown.number))
