"""What a panel may ask about the run: frozen questions, answered on the compute thread by ``app.answers``.

A question is plain data, so equal questions have equal answers for the same run. Nothing here computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from model.readings import Sampling


@dataclass(frozen=True)
class AskHead:
    """Scores and weights of a head, at once → ``HeadPicture``, sampled where it would take long.

    ``rows``, ``columns`` None: all; ``pixels`` bounds a side; ``reduction`` is how a pixel stands for its cells.
    """

    layer: int
    head: int
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    pixels: int = 512
    reduction: Literal["max", "mean"] = "max"


@dataclass(frozen=True)
class AskRefined:
    """The picture that :class:`AskHead` gave sampled, in full → ``HeadPicture``, with a ``HeadPatch`` for each part."""

    picture: AskHead


@dataclass(frozen=True)
class AskAtlas:
    """Thumbnails and scores of all heads → ``HeadAtlas``, with an ``AtlasPart`` for each layer.

    ``pixels`` bounds a thumbnail's side; ``exact`` looks at every cell of a long run too; layers of ``first``, those
    in sight, come before the others.
    """

    pixels: int = 64
    exact: bool = False
    first: tuple[int, ...] = ()


@dataclass(frozen=True)
class AskRow:
    """One query row → ``RowReading``."""

    layer: int
    head: int
    query: int


@dataclass(frozen=True)
class AskCell:
    """One cell in numbers → ``CellReading``."""

    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class AskPlanes:
    """Rotation planes of a cell → ``PlaneReading``."""

    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class AskCache:
    """The KV cache → ``CacheReading``. ``positions`` bounds how many positions are brought over."""

    positions: int = 512


@dataclass(frozen=True)
class AskNextToken:
    """What follows a row → ``NextTokenReading``."""

    query: int
    count: int
    sampling: Sampling


@dataclass(frozen=True)
class AskLedger:
    """The shape ledger of the run, prefill and decode → ``tuple[ShapeLedger, ShapeLedger | None]`` (model.ledger)."""

    layer: int


@dataclass(frozen=True)
class AskProof:
    """Cached against full logits of the last row → ``Proof``; ``by_layer`` compares every layer even if they agree."""

    by_layer: bool = False


@dataclass(frozen=True)
class AskBranchProof:
    """The fused against the explicit branch, with padding and a cache → ``Proof``; long, with progress."""


@dataclass(frozen=True)
class AskArithmetic:
    """Every step of one cell, from the residual to the logits → ``Arithmetic``."""

    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class AskNeeds:
    """Which heads a token after a row needs, by ablating each in turn → ``HeadNeeds``; long, with progress."""

    query: int
    token: int


@dataclass(frozen=True)
class AskAttribution:
    """What each part adds directly to the logit of a token after a row → ``DirectAttribution``."""

    query: int
    token: int


@dataclass(frozen=True)
class AskRules:
    """A layer's frequencies under other stretching rules → ``tuple[RopeRule, ...]``, the model's own first."""

    layer: int


@dataclass(frozen=True)
class AskRouting:
    """Router probabilities and chosen experts of a mixture layer, token by expert → ``Routing | None``."""

    layer: int


@dataclass(frozen=True)
class AskHeadDifference:
    """One head of this run less the same head of the pinned one → ``HeadDifference | None``."""

    layer: int
    head: int


@dataclass(frozen=True)
class AskNextTokenDifference:
    """How the distribution after the last row moved from the pinned run → ``NextTokenDifference | None``."""


@dataclass(frozen=True)
class AskMean:
    """The experiment that sets something of a layer to its mean over the run → ``Experiment``.

    That is some ``heads``, the ``plane`` of one head, or (both None) the MLP.
    """

    layer: int
    heads: tuple[int, ...] | None
    plane: int | None = None


@dataclass(frozen=True)
class AskRandomLayers:
    """A random layer on random input, both ways of drawing, with and without the scale → four ``RandomLayer``."""

    batch: int = 2
    tokens: int = 16
    width: int = 128
    heads: int = 4
    seed: int = 0


Question: TypeAlias = (
    AskHead
    | AskRefined
    | AskAtlas
    | AskRow
    | AskCell
    | AskPlanes
    | AskCache
    | AskNextToken
    | AskLedger
    | AskProof
    | AskBranchProof
    | AskArithmetic
    | AskNeeds
    | AskAttribution
    | AskRules
    | AskRouting
    | AskHeadDifference
    | AskNextTokenDifference
    | AskMean
    | AskRandomLayers
)
