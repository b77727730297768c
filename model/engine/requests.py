"""What may be asked of the engine: a frozen record each, with numbers in place of models and runs.

Together with what comes back they are all that passes between the window and the engine. Nothing here computes;
``model.engine.serving`` has an entry for every request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final

from ropewalk.model.codec import stored
from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.engine.questions import EVERYTHING, Capability, Question
from ropewalk.model.lessons.toy_spec import ToySpec
from ropewalk.model.options import Option
from ropewalk.model.readings.records import ModelCard, Run, Sampling, TokenText
from ropewalk.model.survey.records import SurveyOverview
from ropewalk.model.tokens.prompt import Prompt
from ropewalk.model.trace_files.header import Origin

# ----------------------------------------------------------------------------------------------------------------------
# Asked


@dataclass(frozen=True)
class RunInView:
    """A run by its number, and how many of its rows are in view."""

    number: int
    length: int


@dataclass(frozen=True)
class OpenModel:
    """Open a checkpoint; None is the bundled one → :class:`OpenedModel`."""

    path: str | None
    device: str
    dtype: str
    options: dict[str, Option] = field(default_factory=dict)


@dataclass(frozen=True)
class OpenToy:
    """Open a lesson's toy → :class:`OpenedModel`."""

    toy: ToySpec
    name: str


@dataclass(frozen=True)
class OutlineCheckpoint:
    """Say what a checkpoint is and would cost → ``CheckpointOutline``."""

    path: str | None
    options: dict[str, Option] = field(default_factory=dict)


@dataclass(frozen=True)
class RunPrompt:
    """Prefill a prompt on the model of a number → :class:`MadeRun`.

    ``head`` is the (layer, head) in view; ``decoded`` are tokens that follow the prompt and count as decoded;
    ``tile_bytes`` is what refined pictures of the run may keep.
    """

    model: int
    prompt: Prompt
    run_id: int
    head: tuple[int, int] | None
    interventions: tuple[Intervention, ...] = ()
    decoded: tuple[int, ...] = ()
    tile_bytes: int = 0


@dataclass(frozen=True)
class OpenTrace:
    """The run of the trace file that is open under a number → :class:`MadeTrace`; the rest is as of a prompt."""

    model: int
    run_id: int
    head: tuple[int, int] | None
    tile_bytes: int = 0


@dataclass(frozen=True)
class Attach:
    """Open the checkpoint that a run from a file was made with → :class:`Attached`.

    ``confirmed`` says that a person wants it although it is not known to be that checkpoint.
    """

    run: RunInView
    path: str | None
    device: str
    options: dict[str, Option] = field(default_factory=dict)
    confirmed: bool = False
    tile_bytes: int = 0


@dataclass(frozen=True)
class Decode:
    """Decode tokens after the rows in view → :class:`GrownRun`, fewer where one ends the text, unless ``past_end``."""

    run: RunInView
    count: int
    sampling: Sampling
    past_end: bool = False


@dataclass(frozen=True)
class PutToken:
    """Put another token in the place of a decoded row, and forget what came after it → :class:`GrownRun`."""

    run: RunInView
    row: int
    token: int


@dataclass(frozen=True)
class AnswerQuestion:
    """Answer a panel's question about the rows in view → what the question says."""

    run: RunInView
    question: Question
    baseline: RunInView | None = None


@dataclass(frozen=True)
class ReadNumbers:
    """Scores and weights of a rectangle of a head, half-open ranges of rows → ``HeadNumbers``."""

    run: RunInView
    layer: int
    head: int
    queries: tuple[int, int]
    keys: tuple[int, int]


@dataclass(frozen=True)
class FetchTrace:
    """The rows in view as a trace file: its bytes in parts → how many there are.

    ``drawn`` is how each decoded token was drawn.
    """

    run: RunInView
    drawn: tuple[Sampling, ...] = ()


@dataclass(frozen=True)
class CountTokens:
    """How many tokens a prompt is → ``int``."""

    model: int
    prompt: Prompt


@dataclass(frozen=True)
class Fingerprint:
    """A hash over the files of the model of a number → ``str``, empty where it has none."""

    model: int


@dataclass(frozen=True)
class MeasureProducts:
    """Find what multiplies quickest where the model of a number is, for runs to come → ``str``, what it is."""

    model: int


@dataclass(frozen=True)
class Tidy:
    """Give the memory back that a run which is gone has left → ``None``."""


@dataclass(frozen=True)
class OpenSurvey:
    """Open a survey's folder on the machine that is asked → :class:`OpenedSurveyFolder`."""

    folder: str


@dataclass(frozen=True)
class ReadSurveyHead:
    """What the survey of a number knows of a head, with the examples of a statistic → ``SurveyHead``."""

    number: int
    layer: int
    head: int
    statistic: str


@dataclass(frozen=True)
class CompareSurveys:
    """How the survey of another number differs from that of a number → ``SurveyDifference``."""

    number: int
    other: int


@dataclass(frozen=True)
class ReadSeries:
    """Read the surveys of several folders in a row → ``SeriesOverview``."""

    folders: tuple[str, ...]


@dataclass(frozen=True)
class ListStatistics:
    """Say what a survey can measure → ``tuple[SurveyedStatistic, ...]``."""


@stored("path device dtype texts folder column windows limit seed tokens statistics options", closed=False)
@dataclass(frozen=True)
class RunSurvey:
    """Run a survey of a model (None: the bundled one), or go on with it → how many texts there are.

    ``texts`` are files; ``limit`` None is all of them, and no ``statistics`` are all.
    """

    path: str | None
    device: str
    dtype: str
    texts: tuple[str, ...]
    folder: str
    column: str = "text"
    windows: bool = False
    limit: int | None = None
    seed: int = 0
    tokens: int = 512
    statistics: tuple[str, ...] = ()
    options: dict[str, Option] = field(default_factory=dict)


NUMBERS: Final = frozenset({"model", "run_id", "runs", "number", "other"})
"""Fields that are numbers of things which one process keeps, and mean nothing to another."""


def apart_from_numbers(request: Any) -> Any:
    """What is asked whatever the numbers are, to be compared with what was asked of another process."""
    if not is_dataclass(request) or isinstance(request, type):
        return request
    changes: dict[str, Any] = {}
    for each in fields(request):
        value = getattr(request, each.name)
        if each.name in NUMBERS:
            changes[each.name] = 0
        elif isinstance(value, RunInView):
            changes[each.name] = replace(value, number=0)
    return replace(request, **changes)


# ----------------------------------------------------------------------------------------------------------------------
# Given back


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A model that is open, by its number; the rest is as in ``ModelHandle``."""

    number: int
    card: ModelCard
    devices: tuple[str, ...]
    shapes_only: bool
    options: tuple[tuple[str, Option], ...]
    notice: str
    can: frozenset[Capability] = EVERYTHING
    advice: str = ""
    origin: Origin | None = None


@dataclass(frozen=True, eq=False)
class MadeRun:
    """A run, by its number; the rest is as in ``RunHandle``."""

    number: int
    run: Run
    cell: tuple[int, int, int, int]
    can: frozenset[Capability]


@dataclass(frozen=True, eq=False)
class MadeTrace:
    """The run of a trace file, with the prompt that it answers; the rest is as in ``OpenedTrace``."""

    run: MadeRun
    prompt: Prompt
    drawn: tuple[Sampling, ...]
    interventions: tuple[Intervention, ...]


@dataclass(frozen=True, eq=False)
class Attached:
    """A checkpoint that is open, and a run from a file with which everything can be done now."""

    model: OpenedModel
    run: MadeRun
    prompt: Prompt


@dataclass(frozen=True, eq=False)
class GrownRun:
    """A run that goes on from one that the window has, by its own number.

    Attributes
    ----------
    since, tokens
        The rows that stay, and the tokens after them.
    specs
        What every layer was told, where that is more than the same for more rows.
    seconds, trace_bytes
        As in ``Run``.
    """

    number: int
    since: int
    tokens: Sequence[TokenText]
    specs: tuple[AttentionSpec, ...] | None
    seconds: float
    trace_bytes: int


@dataclass(frozen=True, eq=False)
class OpenedSurveyFolder:
    """A survey that is open, by its number."""

    number: int
    overview: SurveyOverview


@dataclass(frozen=True)
class Failure:
    """Why a request has no result: a sentence for the person, what is folded under it, what would work instead.

    ``unforeseen`` says that nobody thought of it, so that a person is owed what was going on; ``confirm`` that it is
    done after all where a person confirms it.
    """

    sentence: str
    details: str = ""
    offers: tuple[Intervention, ...] = ()
    unforeseen: bool = False
    confirm: bool = False


@dataclass(frozen=True)
class Greeting:
    """What either side says first.

    Attributes
    ----------
    version
        Of Ropewalk, which has to be the same on both sides.
    host
        What the engine's machine is called.
    warm
        Whether the window wants torch to be there before anything needs it; from the engine, that it is there.
    """

    version: str
    host: str = ""
    warm: bool = False
