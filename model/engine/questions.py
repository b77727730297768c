"""What a panel may ask about the run: a frozen record for each question, with its urgency and what it needs of the run.

A question is plain data, so equal questions have equal answers for the same run. Nothing here computes: the answers are
the table of ``model.engine.answers``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from ropewalk.model.decoder.interventions import Intervention
from ropewalk.model.engine.urgency import Urgency
from ropewalk.model.readings.records import Sampling

Capability: TypeAlias = Literal[
    "attention", "logits", "replay", "decode", "interventions", "tokens", "run", "unembedding", "rotation"
]
"""What a run may let be done with it: its queries, keys and values read; its logits read; its rows run again, which
takes tokens and weights; tokens decoded after it; the model changed; its token ids read; another prompt run; the
stream read as logits, which takes the last matrix; its rotation and its blocks described, which takes a
config of ours."""

EVERYTHING: Final[frozenset[Capability]] = frozenset(get_args(Capability))

WITHOUT: Final[dict[Capability, str]] = {
    "attention": "shows no attention",
    "logits": "has no logits",
    "replay": "cannot be run again",
    "decode": "cannot be gone on with",
    "interventions": "cannot be run under experiments",
    "tokens": "has no tokens",
    "run": "is of a model that runs no prompts",
    "unembedding": "has no last matrix to read the stream as logits with",
    "rotation": "says nothing of its model's rotation and blocks",
}
"""What a sentence says of a run without one."""


class Question:
    """The base of all questions, each a frozen dataclass.

    Attributes
    ----------
    urgency
        What is under the pointer comes first, what fills a whole page last.
    needs
        What a run must let be done with it, for an answer.
    """

    urgency: ClassVar[Urgency]
    needs: ClassVar[frozenset[Capability]]


@dataclass(frozen=True)
class AskHead(Question):
    """Scores and weights of a head, at once → ``HeadPicture``, sampled where it would take long.

    ``rows``, ``columns`` None: all; ``pixels`` bounds a side; ``reduction`` is how a pixel stands for its cells.
    """

    urgency = Urgency.PICTURE
    needs = frozenset({"attention"})

    layer: int
    head: int
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    pixels: int = 512
    reduction: Literal["max", "mean"] = "max"


@dataclass(frozen=True)
class AskRefined(Question):
    """The picture that :class:`AskHead` gave sampled, in full → ``HeadPicture``, with a ``HeadPatch`` for each part."""

    urgency = Urgency.REFINEMENT
    needs = frozenset({"attention"})

    picture: AskHead


@dataclass(frozen=True)
class AskStrongWeights(Question):
    """The weights of some heads of a layer that reach a threshold, one by one → ``StrongWeights``.

    ``rows``, ``columns`` None: all; the first of the rising ``thresholds`` is taken that no more than ``most`` weights
    reach, else the last, of which the largest are given.
    """

    urgency = Urgency.PICTURE
    needs = frozenset({"attention"})

    layer: int
    heads: tuple[int, ...]
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    thresholds: tuple[float, ...] = (0.0,)
    most: int = 20_000


@dataclass(frozen=True)
class AskAtlas(Question):
    """Thumbnails and scores of all heads → ``HeadAtlas``, with an ``AtlasPart`` for each layer.

    ``pixels`` bounds a thumbnail's side; ``exact`` looks at every cell of a long run too; layers of ``first``, those
    in sight, come before the others.
    """

    urgency = Urgency.THUMBNAILS
    needs = frozenset({"attention"})

    pixels: int = 64
    exact: bool = False
    first: tuple[int, ...] = ()


@dataclass(frozen=True)
class AskRepeats(Question):
    """What the heads of the run's model do on ``count`` random tokens twice → ``RepeatScores``.

    Nothing can be known of such a text but that it repeats itself. Of a short context it is fewer tokens.
    """

    urgency = Urgency.COARSE
    needs = frozenset({"run"})

    count: int = 32
    seed: int = 0


@dataclass(frozen=True)
class AskScoreChanges(Question):
    """How far every head's statistics moved from the pinned run → ``ScoreChanges | None``."""

    urgency = Urgency.COARSE
    needs = frozenset({"attention"})


@dataclass(frozen=True)
class AskBoard(Question):
    """Several heads side by side → ``BoardReading``.

    Attributes
    ----------
    heads
        (layer, head) of each.
    shown
        The half-open range of them whose pictures are wanted.
    average, difference
        Whether the mean of all of them is wanted; which two, by their places, the first less the second.
    rows, columns, pixels, reduction
        As of :class:`AskHead`.
    """

    urgency = Urgency.PICTURE
    needs = frozenset({"attention"})

    heads: tuple[tuple[int, int], ...]
    shown: tuple[int, int]
    average: bool = False
    difference: tuple[int, int] | None = None
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    pixels: int = 512
    reduction: Literal["max", "mean"] = "max"


@dataclass(frozen=True)
class AskRefinedBoard(Question):
    """What :class:`AskBoard` gave sampled, in full → ``BoardReading``."""

    urgency = Urgency.REFINEMENT
    needs = frozenset({"attention"})

    board: AskBoard


@dataclass(frozen=True)
class AskRow(Question):
    """One query row → ``RowReading``."""

    urgency = Urgency.POINTER
    needs = frozenset({"attention"})

    layer: int
    head: int
    query: int


@dataclass(frozen=True)
class AskCell(Question):
    """One cell in numbers → ``CellReading``."""

    urgency = Urgency.POINTER
    needs = frozenset({"attention"})

    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class AskPlanes(Question):
    """Rotation planes of a cell → ``PlaneReading``."""

    urgency = Urgency.POINTER
    needs = frozenset({"attention", "rotation"})

    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class AskCache(Question):
    """The KV cache → ``CacheReading``. ``positions`` bounds how many positions are brought over."""

    urgency = Urgency.COARSE
    needs = frozenset({"attention"})

    positions: int = 512


@dataclass(frozen=True)
class AskNextToken(Question):
    """What follows a row → ``NextTokenReading``."""

    urgency = Urgency.COARSE
    needs = frozenset({"logits"})

    query: int
    count: int
    sampling: Sampling


@dataclass(frozen=True)
class AskNextTokenUnder(Question):
    """What would follow a row under other interventions than the run's → ``NextTokenReading``.

    Urgent, for somebody is clicking; the run itself is made again after it.
    """

    urgency = Urgency.POINTER
    needs = frozenset({"run", "interventions", "logits"})

    query: int
    count: int
    sampling: Sampling
    interventions: tuple[Intervention, ...]


@dataclass(frozen=True)
class AskLedger(Question):
    """The shape ledger of the run, prefill and decode → ``tuple[ShapeLedger, ShapeLedger | None]``.

    Where the rows cannot be run again, nothing of it is checked.
    """

    urgency = Urgency.REFINEMENT  # it measures a whole layer, and must not keep a head from being shown
    needs = frozenset({"attention", "rotation"})

    layer: int


@dataclass(frozen=True)
class AskCachedCheck(Question):
    """Cached against full logits of the last row → ``ConsistencyCheck``; ``by_layer``: of every layer, always."""

    urgency = Urgency.REFINEMENT
    needs = frozenset({"logits", "replay", "unembedding"})

    by_layer: bool = False


@dataclass(frozen=True)
class AskBranchCheck(Question):
    """The fused against the explicit branch, with padding and a cache → ``ConsistencyCheck``; long, with progress."""

    urgency = Urgency.REFINEMENT
    needs = frozenset({"replay"})


@dataclass(frozen=True)
class AskArithmetic(Question):
    """Every step of one cell, from the residual to the logits → ``Arithmetic``."""

    urgency = Urgency.COARSE
    needs = frozenset({"attention", "replay"})

    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class AskWalk(Question):
    """Every matrix of one block for one head and query, step after step → ``WalkReading``.

    A key moves through the steps without asking again. ``pixels`` bounds the sides of a large matrix.
    """

    urgency = Urgency.COARSE
    needs = frozenset({"attention", "replay"})

    layer: int
    head: int
    query: int
    pixels: int = 256


@dataclass(frozen=True)
class AskNeeds(Question):
    """Which heads a token after a row needs, by ablating each in turn → ``HeadNeeds``; long, with progress."""

    urgency = Urgency.THUMBNAILS
    needs = frozenset({"run", "interventions", "logits"})

    query: int
    token: int


@dataclass(frozen=True)
class AskAttribution(Question):
    """What each part adds directly to the logit of a token after a row → ``DirectAttribution``."""

    urgency = Urgency.COARSE
    needs = frozenset({"replay", "unembedding"})

    query: int
    token: int


@dataclass(frozen=True)
class AskRules(Question):
    """A layer's frequencies under other stretching rules → ``tuple[RopeRule, ...]``, the model's own first."""

    urgency = Urgency.COARSE
    needs = frozenset({"rotation"})

    layer: int


@dataclass(frozen=True)
class AskRouting(Question):
    """Router probabilities and chosen experts of a mixture layer, token by expert → ``Routing | None``."""

    urgency = Urgency.REFINEMENT
    needs = frozenset({"replay"})

    layer: int


@dataclass(frozen=True)
class AskLens(Question):
    """What the stream says after every block of some rows → ``LogitLens``, a part of it for every few rows.

    ``rows`` is a half-open range, None for all; ``count`` of the most probable tokens are named.
    """

    urgency = Urgency.REFINEMENT
    needs = frozenset({"replay", "unembedding"})

    rows: tuple[int, int] | None = None
    count: int = 5


@dataclass(frozen=True)
class AskHeadDifference(Question):
    """One head of this run less the same head of the pinned one → ``HeadDifference | None``."""

    urgency = Urgency.COARSE
    needs = frozenset({"attention"})

    layer: int
    head: int


@dataclass(frozen=True)
class AskNextTokenDifference(Question):
    """How the distribution after the last row moved from the pinned run → ``NextTokenDifference | None``."""

    urgency = Urgency.COARSE
    needs = frozenset({"logits"})


@dataclass(frozen=True)
class AskMean(Question):
    """The intervention that sets something of a layer to its mean over the run → ``Intervention``.

    That is some ``heads``, the ``plane`` of one head, or (both None) the MLP.
    """

    urgency = Urgency.COARSE
    needs = frozenset({"run", "interventions"})

    layer: int
    heads: tuple[int, ...] | None
    plane: int | None = None


@dataclass(frozen=True)
class AskRandomLayers(Question):
    """A random layer on random input, both ways of drawing, with and without the scale → four ``RandomLayer``."""

    urgency = Urgency.COARSE
    needs = frozenset()

    batch: int = 2
    tokens: int = 16
    width: int = 128
    heads: int = 4
    seed: int = 0


@dataclass(frozen=True)
class AskTraining(Question):
    """How the run's model came to be, where a file beside its weights says so → ``TrainingHistory | None``."""

    urgency = Urgency.COARSE
    needs = frozenset()


QUESTIONS: Final = tuple(Question.__subclasses__())
"""Every question there is."""
