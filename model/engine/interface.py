"""What passes between the window and the engine: opaque handles, and what the engine offers.

A handle is made by the engine, held by whoever asked, and handed back with the next request. Nobody but the
engine looks inside its ``Any`` fields. Records alone: no torch, and nothing that knows who fills them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.engine.questions import EVERYTHING, WITHOUT, Capability, Question
from ropewalk.model.options import VIA, Option, Options
from ropewalk.model.progress import Progress
from ropewalk.model.readings.records import HeadNumbers, ModelCard, Run, Sampling
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.header import Origin

if TYPE_CHECKING:
    from ropewalk.model.engine.requests import RunSurvey
    from ropewalk.model.lessons.models import LessonModel
    from ropewalk.model.lessons.toy_spec import ToySpec
    from ropewalk.model.survey.records import SeriesOverview, SurveyedStatistic

TRANSFORMERS_LACKS: Final[frozenset[Capability]] = frozenset({"replay", "unembedding", "rotation"})
"""What a model that transformers runs does not let be done with it."""
TRANSFORMERS_ADVICE: Final = "transformers runs this model, and shows no more of it than its attention and its logits"


@dataclass(frozen=True, eq=False)
class ModelHandle:
    """A model that is open. ``checkpoint`` is the engine's own; ``devices`` are the devices of its machine.

    ``shapes_only`` says that there are no weights, so that nothing can be run; ``options`` are the answers to what the
    checkpoint left open; ``notice`` is what whoever opened it has to be told, in sentences; ``toy`` is what a lesson
    built it from; ``can`` is what may be done with it and its runs, of which a run may allow less, and ``advice`` what
    to do about the rest. ``origin`` is there where the model is a trace file, which has a run and no weights: the
    checkpoint that the run was made with.
    """

    card: ModelCard
    devices: tuple[str, ...]
    checkpoint: Any
    shapes_only: bool = False
    options: tuple[tuple[str, Option], ...] = ()
    notice: str = ""
    toy: ToySpec | None = None
    can: frozenset[Capability] = EVERYTHING
    advice: str = "run a prompt on a model that is open with its weights"
    origin: Origin | None = None

    @property
    def via(self) -> str:
        """What runs it in the place of our own decoder; empty where that runs it."""
        return str(dict(self.options).get(VIA, ""))


def without_weights(card: ModelCard) -> str:
    """Why a model of shapes alone is not run, in a sentence."""
    return (
        f"{card.name} holds no weights, so nothing can be run on it; the Open dialog and `ropewalk ledger` show its "
        "shapes and costs."
    )


@dataclass(frozen=True)
class Choice:
    """Something that a checkpoint leaves open: ``sentence`` asks it, ``assumed`` is taken without an answer."""

    option: str
    sentence: str
    choices: tuple[int, ...]
    assumed: int


@dataclass(frozen=True, eq=False)
class CheckpointOutline:
    """A checkpoint before it is loaded: what it is, and by dtype its bytes and those of a thousand tokens' K and V.

    ``holds_run`` says that it is a trace file, whose run is shown without weights.
    """

    name: str
    path: str
    family: str
    config: ModelConfig
    parameters: int
    bytes_in: Mapping[str, int]
    kv_bytes_in: Mapping[str, int]
    holds_weights: bool
    choices: tuple[Choice, ...] = ()
    notes: tuple[str, ...] = ()
    holds_run: bool = False


@dataclass(frozen=True, eq=False)
class RunHandle:
    """A run and its tensors. ``run.length`` says how much of ``trace`` is in view.

    ``cell`` is (layer, head, query, key): where it is worth looking first. ``baseline`` is the run it is compared with,
    ``prompt`` what was asked for, ``tiles`` what was refined of its pictures, ``can`` what may be asked of it.
    """

    run: Run
    model_handle: ModelHandle
    trace: Any
    cell: tuple[int, int, int, int] = (0, 0, 0, 0)
    baseline: RunHandle | None = None
    prompt: Prompt = field(default_factory=Prompt)
    tiles: Any = None
    can: frozenset[Capability] = EVERYTHING


@dataclass(frozen=True, eq=False)
class OpenedTrace:
    """The run of a trace file, how its tokens were drawn, and what was changed in the model."""

    handle: RunHandle
    drawn: tuple[Sampling, ...]
    interventions: tuple[Intervention, ...]


def missing(handle: RunHandle, question: Question) -> frozenset[Capability]:
    """What a question needs and the run does not have."""
    return question.needs - handle.can


def why_missing(lacking: frozenset[Capability], model_handle: ModelHandle, what: str = "answered") -> str:
    """What a run lacks, and what to do about it, in a sentence: that this cannot be ``what``."""
    said = lacking - {"unembedding"} or lacking  # what has no logits, or is not run again, needs no last matrix either
    *others, last = (without for one, without in WITHOUT.items() if one in said)
    lacks = f"{', '.join(others)} and {last}" if others else last
    advice = TRANSFORMERS_ADVICE if in_no_checkpoint(lacking, model_handle) else model_handle.advice
    return f"This run {lacks}, so this cannot be {what}; {advice}."


def in_no_checkpoint(lacking: frozenset[Capability], model_handle: ModelHandle) -> bool:
    """Whether no checkpoint brings what a run from a file lacks: its model runs in transformers alone."""
    return model_handle.card.config.position == "unknown" and bool(lacking & TRANSFORMERS_LACKS)


def undoable(handle: RunHandle, needs: frozenset[Capability]) -> str:
    """Why a run does not let something be done with it, a sentence; empty where it does."""
    lacking = needs - handle.can
    return why_missing(lacking, handle.model_handle, "done") if lacking else ""


def unanswerable(handle: RunHandle, question: Question) -> str:
    """Why a question about a run has no answer, a sentence; empty where it has one."""
    lacking = missing(handle, question)
    if lacking:
        return why_missing(lacking, handle.model_handle)
    row = getattr(question, "query", handle.run.length - 1)
    if "logits" in question.needs and not handle.can & {"replay", "run"} and row < handle.run.first_logit_row:
        return f"The logits of row {row} were not kept with this run; {handle.model_handle.advice}."
    return ""


class Engine(Protocol):
    """What the session asks of ``app.engine``. Each is a job: a generator that returns its result."""

    def open_model(
        self,
        path: str | None,
        device: str,
        dtype: str,
        *,
        options: Options | None = None,
    ) -> Generator[Progress, None, ModelHandle]:
        """Open a checkpoint; None is the bundled one."""

    def outline(self, path: str | None, options: Options) -> Generator[Progress, None, CheckpointOutline]:
        """Say what a checkpoint is and would cost, without loading it."""

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
        """Prefill. ``head`` is the (layer, head) in view; None looks for the head worth showing."""

    def open_trace(
        self, model_handle: ModelHandle, run_id: int, head: tuple[int, int] | None
    ) -> Generator[Progress, None, OpenedTrace]:
        """The run of a trace file that is open."""

    def attach(
        self,
        handle: RunHandle,
        path: str | None,
        device: str,
        *,
        options: Options | None = None,
        confirmed: bool = False,
    ) -> Generator[Progress, None, RunHandle]:
        """Open the checkpoint that a run from a file was made with, so that everything can be done with the run."""

    def measure_products(self, model_handle: ModelHandle) -> Generator[Progress, None, str]:
        """Find what multiplies quickest where a model is, for runs to come; returns what it is, in words."""

    def step(
        self, handle: RunHandle, count: int, sampling: Sampling, past_end: bool = False
    ) -> Generator[Progress, None, RunHandle]:
        """Decode ``count`` tokens after the rows in view; fewer where one ends the text, unless ``past_end``."""

    def branch(self, handle: RunHandle, row: int, token: int) -> Generator[Progress, None, RunHandle]:
        """Put another token in the place of a decoded row, and forget what came after it."""

    def answer(self, handle: RunHandle, question: Question) -> Generator[Progress, None, Any]:
        """Answer a panel's question about the rows in view."""

    def open_toy(self, toy: ToySpec, name: str) -> Generator[Progress, None, ModelHandle]:
        """Open a lesson's toy."""

    def lesson_runs(
        self, models: Mapping[str, LessonModel], model_handle: ModelHandle | None, handle: RunHandle | None
    ) -> Generator[Progress, None, Any]:
        """Keep runs of a lesson's models, and of what the person has open, to measure its numbers on."""

    def numbers(
        self, handle: RunHandle, layer: int, head: int, queries: tuple[int, int], keys: tuple[int, int]
    ) -> Generator[Progress, None, HeadNumbers]:
        """Read a rectangle of a head, half-open ranges of the rows in view."""

    def save_steps(
        self, handle: RunHandle, path: Path, *, drawn: Sequence[Sampling] = ()
    ) -> Generator[Progress, None, Path]:
        """Write the rows in view to a trace file; ``drawn`` is how each decoded token was drawn."""

    def length_of(self, model_handle: ModelHandle, prompt: Prompt) -> Generator[Progress, None, int]:
        """Count the tokens of a prompt."""

    def tidy(self) -> Generator[Progress, None, None]:
        """Give the memory back that a run which is gone has left."""

    def open_survey(self, folder: str) -> Generator[Progress, None, Any]:
        """Open a survey's folder; what comes back answers about its heads."""

    def open_series(self, folders: Sequence[str]) -> Generator[Progress, None, SeriesOverview]:
        """Read several surveys in a row."""

    def survey_statistics(self) -> Generator[Progress, None, tuple[SurveyedStatistic, ...]]:
        """What a survey can measure."""

    def run_survey(self, asked: RunSurvey) -> Generator[Progress, None, int]:
        """Run a survey, or go on with it."""

    def fingerprint(self, model_handle: ModelHandle) -> Generator[Progress, None, str]:
        """A hash over the files of a model; empty where it has none."""
