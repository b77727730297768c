"""An engine without torch: jobs, session and window are tested by themselves over it.

It keeps the contract of ``model.engine.interface.Engine``: each of its methods is a job, its handles are opaque, and it
writes down what it was asked. It knows no numbers; :mod:`tests.views.canned` adds readings that panels can draw.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from PySide6.QtCore import QCoreApplication, QEventLoop

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.interventions import Intervention, check_interventions
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.engine.interface import CheckpointOutline, ModelHandle, RunHandle
from ropewalk.model.engine.questions import AskBranchCheck, AskCachedCheck, Question
from ropewalk.model.errors import CheckpointError, DeviceError, PromptError
from ropewalk.model.options import Options
from ropewalk.model.progress import Partial, Progress
from ropewalk.model.readings.records import ConsistencyCheck, ModelCard, Run, Sampling, TokenText
from ropewalk.model.tokens.prompt import Prompt

CONFIG = ModelConfig(
    vocabulary=256, width=16, layers=2, heads=4, kv_heads=2, head_width=4, mlp_width=32, max_position=64
)


class Reached:
    """Whether a job has come somewhere; a test that waits for it lets Qt's loop run, in which jobs go on."""

    def __init__(self) -> None:
        self._is_so = False

    def is_set(self) -> bool:
        return self._is_so

    def set(self) -> None:
        self._is_so = True

    def clear(self) -> None:
        self._is_so = False

    def wait(self, seconds: float) -> bool:
        ends = time.monotonic() + seconds
        while not self._is_so and time.monotonic() < ends:
            QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 100)
        return self._is_so


class Gate:
    """Holds a job at one of its points until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = Reached()
        self.open = Reached()
        self.open.set()

    def shut(self) -> None:
        """Let the next job that comes here wait."""
        self.reached.clear()
        self.open.clear()

    def pass_through(self, point: Progress) -> Generator[Progress, None, None]:
        """Wait here while the gate is shut; whatever is more urgent goes first."""
        self.reached.set()
        while not self.open.is_set():
            yield point


@dataclass
class FakeEngine:
    """Tokens are characters; a decoded token is the one after the last; answers say what they were asked.

    Attributes
    ----------
    calls, asked
        What was asked of it: everything, and the questions alone; both in the order in which they were worked on.
    closed
        Jobs that were ended before they were done.
    gate, gated
        Where jobs can be held, and which kinds of questions are held there.
    hash
        The fingerprint of every model. Surveys are read and run as they are.
    consistency
        What consistency checks come to, by kind, where that is not that everything agrees.
    """

    calls: list[str] = field(default_factory=list)
    tidied: int = 0
    measured: list[str] = field(default_factory=list)
    hash: str = ""
    closed: list[str] = field(default_factory=list)
    gate: Gate = field(default_factory=Gate)
    gated: type[Any] = object
    devices: tuple[str, ...] = ("cpu",)
    tiles: Any = None
    check_fails: bool = False
    ends: tuple[int, ...] = ()
    config: ModelConfig = CONFIG
    asked: list[Question] = field(default_factory=list)
    consistency: dict[str, ConsistencyCheck] = field(default_factory=dict)

    # What a variant does otherwise --------------------------------------------------------------------------------

    def card(self, path: str | None, device: str, dtype: str) -> ModelCard:
        """What is open."""
        return ModelCard(
            path or "bundled", path or "resources/bundled", self.config, 1000, 4000, device, dtype, ends=self.ends
        )

    def specs(self) -> tuple[AttentionSpec, ...]:
        """What every layer was told to do."""
        c = self.config
        return tuple(
            AttentionSpec(layer, c.heads, c.kv_heads, c.head_width, c.scale, rotary_width=c.rotary_width(layer))
            for layer in range(c.layers)
        )

    def tokens(self, prompt: str) -> tuple[TokenText, ...]:
        """The tokens of a prompt."""
        return tuple(self.token(ord(letter)) for letter in prompt)

    def token(self, number: int) -> TokenText:
        """The token of an id."""
        return TokenText(number, chr(number))

    def after(self, tokens: Sequence[TokenText], sampling: Sampling) -> TokenText:
        """The token that is decoded after others."""
        return self.token(tokens[-1].id + 1 + sampling.seed)

    def described(self, run: Run) -> Run:
        """A run whose prompt has just been run, with what else is known of it."""
        return run

    def cell(self, run: Run, head: tuple[int, int] | None) -> tuple[int, int, int, int]:
        """Where a run is worth looking first."""
        layer, at = head or (1, 3)
        return layer, at, run.length - 1, max(run.length - 2, 0)

    def outline_of(self, path: str | None) -> CheckpointOutline:
        """What a checkpoint is."""
        if path == "broken":
            raise CheckpointError("broken is not a checkpoint.")
        sizes = {"float32": 4000, "bfloat16": 2000, "float16": 2000}
        return CheckpointOutline(path or "bundled", path or "", "tiny", self.config, 1000, sizes, sizes, True)

    def reading(self, handle: RunHandle, question: Question) -> Any:
        """The answer to a question that is no consistency check."""
        against = () if handle.baseline is None else (_text(handle.baseline),)
        return _text(handle), question, *against

    def parts(self, handle: RunHandle, question: Question) -> Sequence[Any]:
        """What is ready of an answer before all of it is."""
        return ()

    # The engine ---------------------------------------------------------------------------------------------------

    def open_model(
        self,
        path: str | None,
        device: str,
        dtype: str,
        *,
        options: Options | None = None,
    ) -> Generator[Progress, None, ModelHandle]:
        answered = f" {dict(options)}" if options else ""
        self.calls.append(f"open {path} {device} {dtype}{answered}")
        try:
            for layer in range(self.config.layers):
                yield (point := Progress(layer, self.config.layers, "Loading the weights"))
                yield from self.gate.pass_through(point)
        except GeneratorExit:
            self.closed.append(f"loading {path}")
            raise
        if device not in self.devices:
            raise DeviceError(f"There is no {device} here; the devices are {', '.join(self.devices)}.")
        card = self.card(path, device, dtype)
        return ModelHandle(card, self.devices, "weights", path == "shapes", tuple((options or {}).items()))

    def outline(self, path: str | None, options: Options) -> Generator[Progress, None, CheckpointOutline]:
        yield Progress(0, 1, "Looking")
        return self.outline_of(path)

    def run(
        self,
        model_handle: ModelHandle,
        prompt: Prompt,
        run_id: int,
        head: tuple[int, int] | None,
        *,
        interventions: Sequence[Intervention] = (),
        decoded: Sequence[int] = (),
    ) -> Generator[Progress, None, RunHandle]:
        changed = "".join(f" [{intervention.label}]" for intervention in interventions)
        text = prompt.text
        meant = "" if prompt == Prompt(text) else f" {prompt}"
        self.calls.append(f"run {text} {run_id} {head}{changed}{meant}")
        check_interventions(interventions, self.config)
        try:
            for layer in range(self.config.layers):
                yield (point := Progress(layer, self.config.layers, "Prefill"))
                yield from self.gate.pass_through(point)
        except GeneratorExit:
            self.closed.append(text)
            raise
        if not text:
            raise PromptError("The prompt is empty.")
        tokens, limit = self.tokens(text), self.config.max_position
        if len(tokens) > limit:
            raise PromptError(f"The prompt has {len(tokens)} tokens, but the model takes {limit}.", "folded")
        prefill = len(tokens)
        tokens = (*tokens, *map(self.token, decoded))
        n = len(tokens)
        run = self.described(Run(run_id, model_handle.card, self.specs(), text, tokens, n, prefill, n, 0))
        return RunHandle(run, model_handle, tokens, self.cell(run, head), prompt=prompt, tiles=self.tiles)

    def step(
        self, handle: RunHandle, count: int, sampling: Sampling, past_end: bool = False
    ) -> Generator[Progress, None, RunHandle]:
        self.calls.append(f"step {handle.run.length}+{count} {sampling.seed}")
        tokens = handle.run.tokens[: handle.run.length]
        for done in range(count):
            yield (point := Progress(done, count, "Decoding"))
            yield from self.gate.pass_through(point)
            tokens = (*tokens, self.after(tokens, sampling))
            if tokens[-1].id in handle.run.model.ends and not past_end:
                break
        run = replace(handle.run, tokens=tokens, length=len(tokens), newest=len(tokens))
        return replace(handle, run=run, trace=tokens)

    def branch(self, handle: RunHandle, row: int, token: int) -> Generator[Progress, None, RunHandle]:
        self.calls.append(f"branch {row} {token}")
        yield Progress(0, 1, "Decoding")
        tokens = (*handle.run.tokens[:row], self.token(token))
        return replace(handle, run=replace(handle.run, tokens=tokens, length=row + 1, newest=row + 1), trace=tokens)

    def answer(self, handle: RunHandle, question: Question) -> Generator[Progress, None, Any]:
        self.calls.append(f"answer {type(question).__name__} {handle.run.run_id}@{handle.run.length}")
        self.asked.append(question)
        yield Progress(0, 1, "Working")
        if isinstance(question, AskBranchCheck):
            return self.consistency.get("branches") or ConsistencyCheck("branches", handle.run.length, 0.0, 1e-4)
        if isinstance(question, AskCachedCheck):
            if self.check_fails:
                raise ZeroDivisionError("broken check")
            return self.consistency.get("cached") or ConsistencyCheck("cached", handle.run.length, 0.0, 1e-4)
        for part in self.parts(handle, question):
            yield Partial(0, 1, "Working", part)
        if isinstance(question, self.gated):
            yield from self.gate.pass_through(Progress(0, 1, "Working"))
        return self.reading(handle, question)

    def fingerprint(self, model_handle: ModelHandle) -> Generator[Progress, None, str]:
        yield Progress(0, 1, "Hashing")
        return self.hash

    def open_survey(self, folder: str) -> Generator[Progress, None, Any]:
        from ropewalk.model.engine.surveys import open_survey

        return open_survey(folder)

    def open_series(self, folders: Sequence[str]) -> Generator[Progress, None, Any]:
        from ropewalk.model.engine.surveys import open_series

        return open_series(folders)

    def survey_statistics(self) -> Generator[Progress, None, Any]:
        from ropewalk.model.engine.surveys import survey_statistics

        return survey_statistics()

    def run_survey(self, asked: Any) -> Generator[Progress, None, int]:
        from ropewalk.model.engine.surveys import run_survey

        return run_survey(asked)

    def measure_products(self, model_handle: ModelHandle) -> Generator[Progress, None, str]:
        """Nothing is measured."""
        self.measured.append(model_handle.card.name)
        yield from ()
        return "torch"

    def tidy(self) -> Generator[Progress, None, None]:
        self.tidied += 1
        yield Progress(0, 1, "Tidying")


def _text(handle: RunHandle) -> str:
    return "".join(token.text for token in handle.run.tokens[: handle.run.length])
