"""Answers to questions about a run: frozen records of numpy arrays and plain numbers.

These are what crosses from the engine to the window. Arrays are read-only float32 unless a field says float64.
No torch and no Qt here; nothing here computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from ropewalk.model.codec import stored
from ropewalk.model.decoder.config import ModelConfig
from ropewalk.model.decoder.spec import AttentionSpec
from ropewalk.model.readings.bidi import isolated

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Places = NDArray[np.int32]

TokenKind = Literal["text", "special", "bytes"]
TileKind = Literal["scores", "weights"]
Reduction = Literal["exact", "max", "mean", "sampled"]
WalkAxis = Literal["token", "key", "feature", "heads", "plane", "expert", "one"]


@dataclass(frozen=True)
class TokenText:
    """One token as a person should read it.

    Attributes
    ----------
    text
        Spaces as ``·``, newlines as ``⏎``, tabs as ``⇥``, raw bytes as hex such as ``<E4>``; never empty.
    kind
        Ordinary text, a special token such as ``<s>``, or raw bytes that are not a character on their own.
    group, character
        Tokens that together are the bytes of one character share a ``group`` number (else −1), and the first of them
        carries that ``character``.
    """

    id: int
    text: str
    kind: TokenKind = "text"
    group: int = -1
    character: str = ""

    @property
    def inline(self) -> str:
        """The text for use inside a sentence, which it must not reorder."""
        return isolated(self.text)


token_text = lru_cache(maxsize=1 << 16)(TokenText)
"""One object for all tokens that read alike: looking for garbage among those of a long prompt held up the window."""

TOKEN_KINDS: Final[tuple[TokenKind, ...]] = get_args(TokenKind)


class TokenTexts(Sequence[TokenText]):
    """The token texts of a run in columns: a long run has many, and few are looked at.

    Parameters
    ----------
    text
        Text and character of every token, one after another.
    numbers
        [n, 3] id, place of the kind in :data:`TOKEN_KINDS`, group.
    bounds
        [2n + 1] where each text and each character begins in ``text``, and where the last one ends.
    """

    __slots__ = ("bounds", "numbers", "text")

    def __init__(self, text: str, numbers: NDArray[np.int32], bounds: NDArray[np.int32]) -> None:
        self.text, self.numbers, self.bounds = text, numbers, bounds

    @classmethod
    def of(cls, tokens: Iterable[TokenText]) -> TokenTexts:
        """The same tokens in columns.

        Raises
        ------
        OverflowError
            For an id of more than 32 bits.
        """
        if isinstance(tokens, TokenTexts):
            return tokens
        listed, kinds = list(tokens), {kind: place for place, kind in enumerate(TOKEN_KINDS)}
        pieces = [""] * (2 * len(listed))
        pieces[::2] = [token.text for token in listed]
        pieces[1::2] = [token.character for token in listed]
        numbers = np.empty((len(listed), 3), np.int32)
        numbers[:, 0] = [token.id for token in listed]
        numbers[:, 1] = [kinds[token.kind] for token in listed]
        numbers[:, 2] = [token.group for token in listed]
        bounds = np.zeros(len(pieces) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, pieces), np.int32, len(pieces)), out=bounds[1:])
        return cls("".join(pieces), numbers, bounds)

    def check(self) -> None:
        """Refuse columns that do not fit one another.

        Raises
        ------
        ValueError
            With what does not.
        """
        numbers, bounds = self.numbers, self.bounds
        if numbers.ndim != 2 or numbers.shape[1] != 3 or bounds.shape != (2 * len(numbers) + 1,):
            raise ValueError(f"columns of {numbers.shape} numbers and {bounds.shape} bounds")
        if bounds[0] < 0 or bounds[-1] > len(self.text) or (np.diff(bounds) < 0).any():
            raise ValueError("bounds outside the text")
        if len(numbers) and not 0 <= numbers[:, 1].min() <= numbers[:, 1].max() < len(TOKEN_KINDS):
            raise ValueError("an unknown kind of token")

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> TokenText: ...
    @overload
    def __getitem__(self, place: slice) -> TokenTexts: ...
    def __getitem__(self, place: int | slice) -> TokenText | TokenTexts:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                return self.of(self[one] for one in range(start, stop, step))
            stop = max(start, stop)
            return TokenTexts(self.text, self.numbers[start:stop], self.bounds[2 * start : 2 * stop + 1])
        at = range(len(self))[place]
        (number, kind, group), (start, middle, stop) = (
            self.numbers[at].tolist(),
            self.bounds[2 * at : 2 * at + 3].tolist(),
        )
        return token_text(number, self.text[start:middle], TOKEN_KINDS[kind], group, self.text[middle:stop])

    def __iter__(self) -> Iterator[TokenText]:
        text, bounds = self.text, self.bounds.tolist()
        for (number, kind, group), start, middle, stop in zip(
            self.numbers.tolist(), bounds[::2], bounds[1::2], bounds[2::2], strict=False
        ):
            yield token_text(number, text[start:middle], TOKEN_KINDS[kind], group, text[middle:stop])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TokenTexts):
            return (
                np.array_equal(self.numbers, other.numbers)
                and np.array_equal(self.bounds - self.bounds[0], other.bounds - other.bounds[0])
                and self.own_text == other.own_text
            )
        if not isinstance(other, tuple):
            return NotImplemented
        return len(self) == len(other) and all(one == its for one, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Sequence[TokenText]) -> TokenTexts:
        more, text = TokenTexts.of(other), self.own_text
        start = np.int32(len(text))
        return TokenTexts(
            text + more.own_text,
            np.concatenate((self.numbers, more.numbers)),
            np.concatenate((self.bounds - self.bounds[0], more.bounds[1:] - more.bounds[0] + start)),
        )

    def __radd__(self, other: Sequence[TokenText]) -> TokenTexts:
        return TokenTexts.of(other) + self

    def __repr__(self) -> str:
        return f"TokenTexts({list(self)!r})"

    @property
    def groups(self) -> list[int]:
        """The group of each."""
        groups: list[int] = self.numbers[:, 2].tolist()
        return groups

    @property
    def own_text(self) -> str:
        """The part of ``text`` that belongs to these tokens."""
        return self.text[self.bounds[0] : self.bounds[-1]]


def token_strings(tokens: Sequence[TokenText]) -> list[str]:
    """The text of each token."""
    if not isinstance(tokens, TokenTexts):
        return [token.text for token in tokens]
    bounds = tokens.bounds.tolist()
    return [tokens.text[start:stop] for start, stop in zip(bounds[::2], bounds[1::2], strict=False)]


@dataclass(frozen=True)
class ModelCard:
    """What is open: shown in the bar and in the status line."""

    name: str
    path: str
    config: ModelConfig
    parameters: int
    """How many numbers its weights are; 0 where nobody knows, as of a trace of a model that transformers ran."""
    weight_bytes: int
    device: str
    dtype: str
    family: str = "ropewalk"
    has_tokenizer: bool = True
    bos: str = ""
    """What the tokenizer puts before a text, as a person reads it; empty where it puts nothing there."""
    chats: tuple[str, ...] = ()
    """Names of the checkpoint's chat templates, the one meant by default first."""
    notes: tuple[str, ...] = ()
    """What was left out, assumed or merged when it was opened, in sentences."""
    ends: tuple[int, ...] = ()
    """Ids of tokens that end a text or a turn of it."""


@dataclass(frozen=True, eq=False)
class Run:
    """The trace on screen, described. The tensors stay behind; ``run_id`` says which they are.

    Attributes
    ----------
    run_id
        Grows with every prefill; a decode step keeps it.
    length, prefill
        Rows now in view (S) and how many of them the prompt gave; rows from ``prefill`` on were decoded.
    newest
        Rows that exist; ``length`` is smaller after a step back.
    first_logit_row
        Logits are kept for rows from here on.
    rendered
        The text that a chat template made of the prompt and that the model was given; empty without a template.
    extended_limit
        Positions that an intervention gives the run, 0 for those of the model.
    """

    run_id: int
    model: ModelCard
    specs: tuple[AttentionSpec, ...]
    prompt: str
    tokens: Sequence[TokenText]
    length: int
    prefill: int
    newest: int
    first_logit_row: int
    seconds: float = 0.0
    trace_bytes: int = 0
    rendered: str = ""
    extended_limit: int = 0

    @property
    def context_limit(self) -> int:
        """Tokens that the run may grow to."""
        return self.extended_limit or self.config.max_position

    @property
    def config(self) -> ModelConfig:
        """The model's config."""
        return self.model.config

    @property
    def steps(self) -> int:
        """Decode steps in view."""
        return self.length - self.prefill

    def ends_at(self, length: int) -> bool:
        """Whether the last of so many rows was decoded as the end of the text, or of a turn of it."""
        return length > self.prefill and self.tokens[length - 1].id in self.model.ends


@dataclass(frozen=True, eq=False)
class Tile:
    """A rectangle of one head's scores or weights, reduced to at most the pixels asked for.

    Attributes
    ----------
    rows, columns
        The half-open ranges of query and key rows that the picture covers.
    values
        [h, w]; the value where ``visible``, 0 where masked. Scores are scaled and soft-capped.
    visible
        [h, w]; False where every cell under the pixel is masked.
    raw
        [h, w] scores as they are before the mask (only for ``kind == "scores"``), else None.
    reduction
        ``exact`` when a pixel is one cell; else how a pixel stands for the cells it covers: the ``max`` or ``mean`` of
        the visible ones (of all, for ``raw``), or one of them (``sampled``).
    cell
        Query rows and key rows under one pixel; the last pixels may hold fewer.
    """

    kind: TileKind
    layer: int
    head: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    values: Floats
    visible: Bools
    raw: Floats | None = None
    reduction: Reduction = "exact"
    cell: tuple[int, int] = (1, 1)


@dataclass(frozen=True, eq=False)
class HeadPicture:
    """Everything the score panel shows of one head: scores before and after the mask, and the weights."""

    layer: int
    head: int
    kv_head: int
    scores: Tile
    weights: Tile


NO_HEAD: Final = -1
"""The layer and the head of a picture that is of several."""


@dataclass(frozen=True, eq=False)
class BoardReading:
    """Several heads side by side.

    Attributes
    ----------
    pictures
        Of the heads that were to be shown.
    average
        The mean over all of them, cell by cell, None where it was not wanted; a weight that one of them masks is 0,
        and a score is there where none of them masks it.
    difference
        The first of two less the second, likewise.
    """

    pictures: tuple[HeadPicture, ...]
    average: HeadPicture | None = None
    difference: HeadPicture | None = None


@dataclass(frozen=True, eq=False)
class HeadPatch:
    """A refined part of a :class:`HeadPicture` that was sampled.

    Attributes
    ----------
    top, left
        The pixel of the picture where the arrays begin.
    scores, weights, visible, raw
        [h, w] each, as in the picture's tiles.
    """

    top: int
    left: int
    scores: Floats
    weights: Floats
    visible: Bools
    raw: Floats | None = None


@dataclass(frozen=True, eq=False)
class WalkMatrix:
    """A matrix of the walk through a block.

    Attributes
    ----------
    name, kind
        What it is called, such as ``W_qᵀ``, and what it is made for, which gives its colour.
    values
        [h, w] numbers; of a large matrix, of each block the one that is furthest from 0.
    rows, columns
        The half-open ranges of the whole matrix that they cover.
    shape
        Rows and columns of the whole matrix.
    axes
        What its rows and columns count; ``heads`` are the features of all heads, side by side.
    hidden
        [h, w] where no number stands because the key is not seen; None where every number does.
    of
        The matrix that it is another view of, such as K' for its transpose; empty for one of its own.
    names
        What its columns (or, of ``experts``, its rows) are called, where numbers would not do.
    """

    name: str
    kind: str
    values: Floats
    rows: tuple[int, int]
    columns: tuple[int, int]
    shape: tuple[int, int]
    axes: tuple[WalkAxis, WalkAxis]
    hidden: Bools | None = None
    of: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class WalkReading:
    """One block for one head, as the matrices of ``model.ledger.walk`` by their names.

    ``rows`` are the tokens that are walked: all of a short run of a small model, else the query alone.
    """

    layer: int
    head: int
    kv_head: int
    query: int
    rows: tuple[int, int]
    matrices: dict[str, WalkMatrix]


@dataclass(frozen=True, eq=False)
class StrongWeights:
    """The visible weights of a rectangle of some heads that reach a threshold, the largest first.

    Attributes
    ----------
    rows, columns
        The half-open ranges of query and key rows that were looked through.
    threshold, reached
        The least weight that was wanted, and how many there are of it and more; the arrays may hold fewer.
    total
        All visible weights of the heads in the whole run.
    head, query, key, weight
        [n] each; a head's number among those of the layer.
    """

    layer: int
    heads: tuple[int, ...]
    rows: tuple[int, int]
    columns: tuple[int, int]
    threshold: float
    reached: int
    total: int
    head: Places
    query: Places
    key: Places
    weight: Floats


@dataclass(frozen=True, eq=False)
class HeadAtlas:
    """Small pictures of every head, and their scores.

    Attributes
    ----------
    thumbnails
        [L, H, n, n] weights, reduced by ``reduction``; masked cells are NaN.
    scores
        Name → [L, H] float64; NaN where the score is not defined for this prompt.
    formulas
        Name → the formula in words and symbols.
    undefined
        Name → why the score is not defined here, for those that are not.
    titles
        Name → what a person reads.
    smallest_first
        Names of the scores whose small values are the interesting ones.
    """

    thumbnails: Floats
    reduction: Reduction
    scores: dict[str, Doubles]
    formulas: dict[str, str]
    undefined: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    smallest_first: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ScoreChanges:
    """How far every head's scores moved from the pinned run, B minus A: name → [L, H], and why some did not.

    Attributes
    ----------
    undefined
        Name → why there is no difference: a score that one of the two runs does not define.
    """

    scores: dict[str, Doubles]
    undefined: dict[str, str]


@dataclass(frozen=True, eq=False)
class RepeatScores:
    """Scores of every head on ``count`` random tokens twice, name → [L, H]."""

    count: int
    scores: dict[str, Doubles]


@dataclass(frozen=True, eq=False)
class AtlasPart:
    """One layer of a :class:`HeadAtlas`: thumbnails [H, n, n], and name → [H] of the scores that are defined."""

    layer: int
    thumbnails: Floats
    reduction: Reduction
    scores: dict[str, Doubles]


@dataclass(frozen=True, eq=False)
class RowReading:
    """One query row of one head, computed in float64.

    Attributes
    ----------
    scores
        [S] scaled and soft-capped, as before the mask.
    weights, visible
        [S] after softmax; whether the key is visible to the query.
    lse
        log Σ exp(score) over the visible keys (and the sink, where there is one); +inf when nothing is visible.
    entropy
        −Σ w ln w in nats.
    sink_weight
        The share of the sink logit, 0 where the layer has none.
    """

    layer: int
    head: int
    query: int
    scores: Doubles
    weights: Doubles
    visible: Bools
    lse: float
    entropy: float
    sink_weight: float = 0.0


@dataclass(frozen=True, eq=False)
class CellReading:
    """One attention cell in numbers, computed in float64 from the run's own Q', K' and lse.

    ``dot`` is q'·k'; ``scaled`` is scale·dot; ``score`` is after the soft cap and ``bias``, what the model adds by
    position; ``weight`` is 0 where masked. ``hidden_because`` is empty for a visible key, else the reason in words.
    ``written`` says that the weight was written for the head, and the score follows from it.
    """

    layer: int
    head: int
    kv_head: int
    sharing: tuple[int, ...]
    query: int
    key: int
    q: Doubles
    k: Doubles
    dot: float
    scale: float
    scaled: float
    cap: float | None
    score: float
    hidden_because: str
    lse: float
    weight: float
    bias: float = 0.0
    written: bool = False


@dataclass(frozen=True, eq=False)
class PlaneReading:
    """The rotation planes of one head for one (query, key).

    Attributes
    ----------
    features
        [F, 2] which two features of the head make plane i (F = d_rot/2 planes).
    query_frequencies, key_frequencies
        θ_i in radians per position that rotated this query and this key (they differ only where the rule depends
        on the length).
    q_before, k_before, q_after, k_after
        [F, 2] the two features of each plane before and after rotation.
    shares
        [F] scale · (q_after · k_after) of each plane.
    rest
        The share of the features that do not turn; shares and rest add up to ``scaled``, the score before soft cap
        and mask.
    approximate
        Whether the vectors before rotation were undone from a half-precision trace (off by up to 0.03).
    """

    layer: int
    head: int
    kv_head: int
    query: int
    key: int
    query_position: int
    key_position: int
    features: NDArray[np.int64]
    query_frequencies: Doubles
    key_frequencies: Doubles
    factor: float
    q_before: Doubles
    k_before: Doubles
    q_after: Doubles
    k_after: Doubles
    shares: Doubles
    rest: float
    scaled: float
    scale: float
    approximate: bool = False


@dataclass(frozen=True, eq=False)
class CacheReading:
    """The KV cache as it stands.

    Attributes
    ----------
    keys, values
        [L, Hkv, S, Dh] what is stored, or every n-th position when ``stride`` > 1; values may be wider or narrower.
    key_magnitudes, value_magnitudes
        [L, Hkv · Dh, S] how large each number is in its layer, as ``model.readings.magnitudes`` counts.
    bytes_measured
        Bytes of the rows in use, counted from the tensors.
    bytes_reserved
        Bytes of the storage, growth room included.
    bytes_formula
        2 · B · S · L · Hkv · Dh · bytes per number, layer by layer where those differ.
    """

    keys: Floats
    values: Floats
    key_magnitudes: Bytes
    value_magnitudes: Bytes
    stride: int
    length: int
    prefill: int
    bytes_measured: int
    bytes_reserved: int
    bytes_formula: int
    bytes_per_token: int
    bytes_full_heads: int
    bytes_one_head: int
    dtype: str
    windows: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """One possible next token. ``kept`` says whether top-k and top-p leave it in the draw."""

    token: TokenText
    logit: float
    probability: float
    drawn_probability: float
    kept: bool


@dataclass(frozen=True, eq=False)
class NextTokenReading:
    """What the model expects after row ``query``.

    ``probability`` of a candidate is softmax(logits); ``drawn_probability`` is after temperature, top-k and top-p.
    ``actual`` is the token that really follows in the run, None at the end. ``replayed`` says that the logits were
    recomputed for this row because the trace does not keep them.
    """

    query: int
    candidates: tuple[Candidate, ...]
    entropy: float
    actual: Candidate | None
    replayed: bool


@stored("temperature top_k top_p seed")
@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn: temperature 0 is greedy; top_k 0 and top_p 1 leave everything in."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class LayerGap:
    """How far two ways of running a layer are apart, in units of the largest magnitude, and ``where``."""

    layer: int
    difference: float
    where: str


@dataclass(frozen=True)
class ConsistencyCheck:
    """Two ways to the same logits compared: decoding by steps with the full prefix, or both branches of attention.

    Attributes
    ----------
    kind
        ``cached``: the last row's logits, through the cache and without one. ``branches``: the logits of the rows after
        the first ``past``, fused and explicit, in a batch of two of which one begins with ``padded`` rows of padding.
    rows
        Rows that were run.
    difference, tolerance
        The largest difference of the logits, and what the dtype allows.
    explained
        Why they must differ although nothing is wrong; else empty.
    layers, layer_tolerance
        Layer by layer, where that was compared, and what is allowed there.
    """

    kind: Literal["cached", "branches"]
    rows: int
    difference: float
    tolerance: float
    explained: str = ""
    layers: tuple[LayerGap, ...] = ()
    layer_tolerance: float = 0.0
    past: int = 0
    padded: int = 0

    @property
    def holds(self) -> bool:
        """Whether the difference is within the tolerance of the dtype; NaN is not."""
        return self.difference <= self.tolerance

    @property
    def alarms(self) -> bool:
        """Whether something is wrong: a difference that is too large and not by design."""
        return not self.holds and not self.explained

    @property
    def begins(self) -> LayerGap | None:
        """The first layer that is off by more than is allowed."""
        return next((gap for gap in self.layers if not gap.difference <= self.layer_tolerance), None)


@dataclass(frozen=True, eq=False)
class HeadNeeds:
    """Change of one token's logit after row ``row`` when each head is ablated: ``change`` [L, H], ``logit`` without."""

    row: int
    token: int
    logit: float
    change: Doubles


@dataclass(frozen=True, eq=False)
class DirectAttribution:
    """What each part adds directly to one token's logit after row ``row``; all of it adds up to ``logit``.

    Attributes
    ----------
    heads, mlps
        [L, H] and [L].
    embedding, rest
        The embedding, and the biases.
    """

    row: int
    token: int
    logit: float
    heads: Doubles
    mlps: Doubles
    embedding: float
    rest: float


@dataclass(frozen=True)
class TokenChange:
    """One token's probability before and after."""

    token: TokenText
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class HeadDifference:
    """One head of two runs, B minus A, rows and columns aligned by token.

    Attributes
    ----------
    scores, weights
        [n, n] differences; NaN where either run masks the cell or has no such row.
    rows
        For each aligned row, the row of A and of B, None where one has a gap.
    """

    layer: int
    head: int
    scores: Floats
    weights: Floats
    rows: tuple[tuple[int | None, int | None], ...]


@dataclass(frozen=True)
class NextTokenDifference:
    """Next-token distributions of two runs at one row each.

    Attributes
    ----------
    kl_forward, kl_backward
        Σ a ln(a/b) and Σ b ln(b/a) in nats.
    top_before, top_after
        The most probable token of each.
    changes
        The tokens whose probability moved most.
    """

    kl_forward: float
    kl_backward: float
    top_before: TokenText
    top_after: TokenText
    changes: tuple[TokenChange, ...]


@dataclass(frozen=True, eq=False)
class Line:
    """One line of arithmetic.

    Attributes
    ----------
    key
        A stable name, such as ``score.scaled``.
    symbol, substituted
        The formula in symbols, and with this cell's numbers put in.
    value
        The result where it is one number.
    vector
        The result where it is many, or what was summed; shown folded.
    place
        Where the number lives: ``cell``, ``row``, ``plane:3``, ``cache:key`` (a slot of the KV cache),
        ``ledger:softmax``, ``tokens``, ``next_token`` or empty.
    """

    key: str
    symbol: str
    substituted: str = ""
    value: float | None = None
    vector: Doubles | None = None
    place: str = ""


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of the block: a name and its lines, in the order they are computed."""

    name: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """Why one weight is what it is, from the token's residual to the logits, stage by stage."""

    layer: int
    head: int
    kv_head: int
    sharing: tuple[int, ...]
    query: int
    key: int
    stages: tuple[Stage, ...]

    def line(self, key: str) -> Line:
        """The line of that name; ``KeyError`` where this model has none."""
        for stage in self.stages:
            for line in stage.lines:
                if line.key == key:
                    return line
        raise KeyError(key)


@dataclass(frozen=True, eq=False)
class RopeRule:
    """A stretching rule as it would turn one layer: θ_i [F] in radians per position, and the factor on cos and sin."""

    name: str
    frequencies: Doubles
    factor: float


Init = Literal["normal", "library"]
"""How random weights are drawn: from N(0, 1/D), or as ``torch.nn.Linear`` does."""


@dataclass(frozen=True, eq=False)
class RandomLayer:
    """A layer of random weights on random input, with the scale or without it.

    Attributes
    ----------
    spread
        Standard deviation of the scores of all visible cells.
    entropy, even
        Mean over batch, heads and rows of −Σ w ln w in nats; what it would be if every row were even.
    largest
        Mean over batch, heads and rows of a row's largest weight.
    features
        Standard deviation of the features of q.
    weights
        [T, T] of the first head of the first sequence, 0 where masked.
    """

    init: Init
    scaled: bool
    spread: float
    entropy: float
    even: float
    largest: float
    features: float
    weights: Floats


@dataclass(frozen=True, eq=False)
class Routing:
    """Where a mixture layer sent each token: router probabilities [S, E] and the experts chosen [S, k]."""

    layer: int
    probabilities: Doubles
    chosen: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LogitLens:
    """What the model would say of some rows if it ended after the embedding, or after each block.

    The stream of n rows is read at L + 1 places; the first is the embedding, the last the model's output.

    Attributes
    ----------
    rows
        The half-open range of rows.
    top, probabilities
        [L + 1, n, k] ids of the most probable tokens and their probabilities, float64, the first the most probable.
    entropy
        [L + 1, n] float64, in nats.
    final
        [L + 1, n] float64 probability of the token that is the most probable one in the end.
    actual, rank
        [L + 1, n] float64 probability of the token that really follows, and how many are more probable, plus one; NaN
        and 0 where nothing follows.
    tokens
        How to show the ids in ``top``, each once.
    """

    rows: tuple[int, int]
    top: NDArray[np.int64]
    probabilities: Doubles
    entropy: Doubles
    final: Doubles
    actual: Doubles
    rank: NDArray[np.int64]
    tokens: Sequence[TokenText]

    def until(self, end: int) -> LogitLens:
        """The same of the rows before ``end``."""
        count = end - self.rows[0]
        arrays = ("top", "probabilities", "entropy", "final", "actual", "rank")
        return replace(self, rows=(self.rows[0], end), **{name: getattr(self, name)[:, :count] for name in arrays})

    @classmethod
    def joined(cls, parts: Sequence[LogitLens]) -> LogitLens:
        """One of all rows of some, each of which begins where the one before it ends."""
        shown = {token.id: token for part in parts for token in part.tokens}
        return cls(
            (parts[0].rows[0], parts[-1].rows[1]),
            np.concatenate([part.top for part in parts], axis=1),
            np.concatenate([part.probabilities for part in parts], axis=1),
            np.concatenate([part.entropy for part in parts], axis=1),
            np.concatenate([part.final for part in parts], axis=1),
            np.concatenate([part.actual for part in parts], axis=1),
            np.concatenate([part.rank for part in parts], axis=1),
            TokenTexts.of(shown.values()),
        )


@dataclass(frozen=True, eq=False)
class HeadNumbers:
    """Scores and weights of a rectangle of one head.

    Attributes
    ----------
    queries, keys
        The half-open ranges of rows that the rectangle covers.
    scores, weights
        [h, w] scaled and soft-capped scores as before the mask, and the weights after softmax; 0 where masked.
    visible
        [h, w] whether the key is visible to the query.
    """

    layer: int
    head: int
    queries: tuple[int, int]
    keys: tuple[int, int]
    scores: Doubles
    weights: Doubles
    visible: Bools


@dataclass(frozen=True, eq=False)
class TrainingHistory:
    """What is kept of a training run of S steps with N checkpoints.

    Attributes
    ----------
    text_loss, repeat_loss
        [S], nats a token of each step's rows: text, and what repeats itself from the second round on; NaN for none.
    checked, validation_loss
        [K] steps taken, and nats a token of text that is not trained on.
    steps
        [N], steps taken at each checkpoint.
    scores
        Name of a head statistic → [N, L, H], each the mean over ``sequences`` random sequences said twice.
    formulas
        Its formula in words.
    ids, tokens
        [T] of the tokens that the maps are of: T / 2 random ones, twice; and how to show them.
    maps
        [N, L, H, T, T] float16, weights of the heads.
    opened
        Steps taken when the opening ended, None where it never did.
    """

    text_loss: Floats
    repeat_loss: Floats
    checked: NDArray[np.int64]
    validation_loss: Floats
    steps: NDArray[np.int64]
    scores: dict[str, Doubles]
    formulas: dict[str, str]
    ids: NDArray[np.int64]
    maps: NDArray[np.float16]
    sequences: int
    opened: int | None
    tokens: Sequence[TokenText] = ()
