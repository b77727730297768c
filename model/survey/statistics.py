"""The table of what a survey measures of every head, which goes on from the statistics of one run.

A statistic is a number of every head and query of a text; most are the weight on some keys, and need nothing but a
function that says which :class:`Cells` (``among``). Those that share a pass over the weights take it from the
:class:`Block`. ``docs/survey.md`` has the formulas.

Letters: B texts side by side, S rows of the longest with its padding, H heads, n queries of a block and m keys.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ropewalk.model.decoder.scores import Span
from ropewalk.model.errors import SurveyError
from ropewalk.model.readings.patterns import STATISTICS, Statistic
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.survey.outputs import HeadOutputs
from ropewalk.model.tokens.tokenizer import Piece, Tokenizer

Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.int64]

KINDS: Final = ("punctuation", "line_break", "special", "digit")
"""Kinds of tokens."""
FAR = 64
"""Queries beyond it have a first token that is far away."""
GRID: Final = 32
"""Parts of a text, along each axis of a mean map."""
LOCAL = (8, 32, 128)
"""How many last keys are near; powers of two, so that the histogram of distances has them."""


# ----------------------------------------------------------------------------------------------------------------------
# A text


@dataclass(frozen=True, eq=False)
class Text:
    """One text of a corpus, as tokens.

    Attributes
    ----------
    number
        Which of the corpus it is.
    ids
        [T].
    kinds
        For each of :data:`KINDS`, which tokens are of it, [T]; empty where there is no tokenizer.
    pairs
        (query, key) cells that somebody asked for, [n, 2].
    """

    number: int
    ids: Numbers
    kinds: Mapping[str, Bools] = field(default_factory=dict)
    pairs: Numbers = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    def __len__(self) -> int:
        return len(self.ids)


def kind_of(piece: Piece | None) -> frozenset[str]:
    """Which of :data:`KINDS` a token is."""
    if piece is None or piece.special:
        return frozenset({"special"})
    text = piece.data.decode("utf-8", "replace")
    bare = text.strip()
    found = {"line_break"} if "\n" in text else set()
    if bare and all(unicodedata.category(one).startswith("P") for one in bare):
        found.add("punctuation")
    if bare.isdecimal():
        found.add("digit")
    return frozenset(found)


class Kinds:
    """Says what kinds the tokens of a tokenizer are, each once."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, frozenset[str]] = {}

    def of(self, ids: Numbers) -> dict[str, Bools]:
        """For each kind, which of the ids [T] are of it."""
        if self._tokenizer is None:
            return {}
        codec, known = self._tokenizer.codec, self._known
        tokens = ids.tolist()
        for token in {*tokens} - known.keys():
            known[token] = kind_of(codec.piece(token))
        return {kind: np.array([kind in known[token] for token in tokens]) for kind in KINDS}


# ----------------------------------------------------------------------------------------------------------------------
# Distances


def distance_bins(length: int) -> list[Span]:
    """Ranges of distances, each twice as wide as the one before: 0, 1, 2 to 3, 4 to 7, …, up to ``length``."""
    return [(0, 1), *((1 << at, 2 << at) for at in range(max(length - 1, 0).bit_length()))]


# ----------------------------------------------------------------------------------------------------------------------
# Texts side by side


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Some of the texts that run side by side, on a layer's device.

    Attributes
    ----------
    first
        Which of those that run is the first; the others follow.
    starts, lengths
        [B] the row of each text's first token, and how many it has; the rows around are padding.
    ids
        [B, S], −1 for padding.
    kinds
        For each of :data:`KINDS`, which tokens are of it, [B, S]; empty where there is no tokenizer.
    """

    texts: Sequence[Text]
    first: int
    starts: Tensor
    lengths: Tensor
    ids: Tensor
    kinds: Mapping[str, Tensor]

    @classmethod
    def of(cls, texts: Sequence[Text], first: int, starts: Sequence[int], rows: int, device: torch.device) -> TextBatch:
        """Lay texts out as they run: each from its start on, in so many rows."""
        places = [slice(start, start + len(text)) for start, text in zip(starts, texts, strict=True)]
        ids = np.full((len(texts), rows), -1, np.int64)
        kinds = {kind: np.zeros((len(texts), rows), np.bool_) for kind in texts[0].kinds}
        for at, (text, place) in enumerate(zip(texts, places, strict=True)):
            ids[at, place] = text.ids
            for kind, are in kinds.items():
                are[at, place] = text.kinds[kind]
        return cls(
            texts,
            first,
            torch.tensor(list(starts), device=device),
            torch.tensor([len(text) for text in texts], device=device),
            torch.from_numpy(ids).to(device),
            {kind: torch.from_numpy(are).to(device) for kind, are in kinds.items()},
        )

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def place(self) -> slice:
        """Where they are among those that run."""
        return slice(self.first, self.first + len(self))

    @cached_property
    def rows(self) -> Span:
        """The rows that they lie in."""
        return int(self.starts.min()), int((self.starts + self.lengths).max())

    @cached_property
    def is_padded_before(self) -> bool:
        """Whether any has padding before it."""
        return bool((self.starts > 0).any())

    @cached_property
    def in_parts(self) -> Tensor:
        """[B, GRID, T] by which share each row counts in the mean of its text's part, of the rows that they lie in."""
        rows = torch.arange(*self.rows, device=self.starts.device) - self.starts[:, None]
        length = self.lengths[:, None]
        parts = torch.where((rows >= 0) & (rows < length), rows * GRID // length, GRID)
        found = torch.nn.functional.one_hot(parts, GRID + 1)[..., :GRID].float()
        return (found / found.sum(1, keepdim=True).clamp_min(1.0)).transpose(1, 2).contiguous()

    @cached_property
    def before(self) -> Tensor:
        """[B, S] the token before each, −1 where there is none."""
        return torch.nn.functional.pad(self.ids, (1, 0), value=-1)[:, :-1]

    @cached_property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """The cells that somebody asked for, in order: the row of each text's query, counted through, and the key's."""
        found = [
            text.pairs + np.array((at * self.ids.shape[1] + start, start))
            for at, (text, start) in enumerate(zip(self.texts, self.starts.tolist(), strict=True))
        ]
        pairs = torch.from_numpy(np.concatenate(found)).to(self.ids.device)
        return pairs[:, 0].contiguous(), pairs[:, 1]

    def queries(self, rows: Span, keys: int) -> Cells:
        """The cells of some rows of every text, [B, n, m]."""
        device = self.ids.device
        return Cells(self, torch.arange(len(self), device=device)[:, None], torch.arange(*rows, device=device), keys)


@dataclass(frozen=True, eq=False)
class Cells:
    """Queries of some texts, and their keys: what a function that says which cells are meant is asked about.

    Everything broadcasts to the shape of the cells, [B, n, m] of a block, [c, m] of c single queries.

    Attributes
    ----------
    at, row
        Of which text a query is, and its row, [B, 1] and [n], or [c] twice.
    keys
        m, the first rows.
    """

    batch: TextBatch
    at: Tensor
    row: Tensor
    keys: int

    @cached_property
    def query(self) -> Tensor:
        """Positions of the queries in their texts, from 0."""
        return (self.row - self.batch.starts[self.at])[..., None]

    @cached_property
    def key(self) -> Tensor:
        """Positions of the keys in the texts; negative for padding before a text."""
        return torch.arange(self.keys, device=self.row.device) - self.batch.starts[self.at][..., None]

    @property
    def length(self) -> Tensor:
        """Tokens of the texts."""
        return self.batch.lengths[self.at][..., None]

    @cached_property
    def query_token(self) -> Tensor:
        """Token ids of the queries."""
        return self.batch.ids[self.at, self.row][..., None]

    @property
    def key_token(self) -> Tensor:
        """Token ids of the keys."""
        return self.batch.ids[self.at][..., : self.keys]

    @property
    def token_before_key(self) -> Tensor:
        """Token ids of those before the keys, −1 where there is none."""
        return self.batch.before[self.at][..., : self.keys]

    def key_is(self, kind: str) -> Tensor:
        """Whether the keys are of one of :data:`KINDS`."""
        found = self.batch.kinds.get(kind)
        return torch.zeros_like(self.key, dtype=torch.bool) if found is None else found[self.at][..., : self.keys]

    @property
    def asked(self) -> Tensor:
        """Which cells somebody gave as pairs."""
        queries, keys = self.batch.pairs
        rows = (self.at * self.batch.ids.shape[1] + self.row).flatten()
        first = torch.searchsorted(queries, rows)
        count = torch.searchsorted(queries, rows, right=True) - first
        place = torch.arange(len(rows), device=rows.device).repeat_interleave(count)
        nth = torch.arange(len(place), device=rows.device) - (count.cumsum(0) - count)[place]
        key = keys[first[place] + nth]
        found = torch.zeros(len(rows), self.keys, dtype=torch.bool, device=rows.device)
        there = key < self.keys
        found[place[there], key[there]] = True
        return found.view(*self.shape, self.keys)

    @cached_property
    def real(self) -> Tensor:
        """Whether the queries are tokens of their texts, not padding."""
        return ((self.query >= 0) & (self.query < self.length))[..., 0]

    def meant(self, statistic: SurveyStatistic) -> Tensor:
        """Which cells a statistic asks about; none are of padding, or after their query."""
        return self.said(statistic) & self._past

    def said(self, statistic: SurveyStatistic) -> Tensor:
        """Which cells a statistic's function says, padding and later keys perhaps among them.

        Raises
        ------
        SurveyError
            When its function gives something else.
        """
        assert statistic.among is not None
        found: Any = statistic.among(self)
        wanted = (*self.shape, self.keys)
        try:
            if found.dtype != torch.bool:
                raise TypeError(f"it gave {found.dtype}")
            expanded: Tensor = found.expand(wanted)
        except (AttributeError, TypeError, RuntimeError) as error:
            raise SurveyError(
                f"The statistic {statistic.name!r} says which cells are meant by booleans of shape {wanted}, but gave "
                f"{_kind_of_result(found)}.",
                str(error),
            ) from error
        return expanded

    @cached_property
    def _past(self) -> Tensor:
        return (self.key >= 0) & (self.key <= self.query) & self.real[..., None]

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the queries, [B, n] or [c]."""
        return tuple((self.at + self.row).shape)


# ----------------------------------------------------------------------------------------------------------------------
# A block of rows


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of texts in a layer, with their weights, and what several statistics read of them.

    Attributes
    ----------
    texts
        Whose rows they are.
    rows
        Its queries; its keys are the first up to the last query, or all that there are in a layer that is not causal.
    weights, logs
        [B, H, n, m] and their logarithms, at least −87; of a hidden key the weight is 0, its logarithm any number.
    sink
        [B, H, n] what a sink takes, None in a layer without.
    bins
        How many :func:`distance_bins` there are.
    outputs
        What the heads add to the residual stream; None where nobody asks, or the model does not say.
    """

    layer: LayerTrace
    texts: TextBatch
    rows: Span
    weights: Tensor
    logs: Tensor
    sink: Tensor | None
    bins: int
    outputs: HeadOutputs | None = None

    @property
    def keys(self) -> int:
        """m."""
        return self.weights.shape[-1]

    @cached_property
    def cells(self) -> Cells:
        """Its queries and keys."""
        return self.texts.queries(self.rows, self.keys)

    @cached_property
    def past_weights(self) -> Tensor:
        """The weights up to each query, [B, H, n, keys up to the last query]; all there are, of a causal layer."""
        if self.layer.spec.causal:
            return self.weights
        return self.weights[..., : self.rows[1]].tril(self.rows[0])

    @cached_property
    def sums(self) -> Tensor:
        """[B, H, n, m] the weight of the keys up to each: what lies in a range of them is a difference of two."""
        return self.past_weights.cumsum(-1)

    def on_diagonal(self, distance: int) -> Tensor:
        """[B, H, n] the weight at a distance, 0 where there is no such key."""
        first, last = self.rows
        missing = min(max(distance - first, 0), last - first)
        found = self.past_weights[:, :, missing:].diagonal(first + missing - distance, -2, -1)
        return torch.nn.functional.pad(found, (missing, 0)) if missing else found

    @property
    def on_first(self) -> Tensor:
        """[B, H, n] the weight on the first token."""
        index = self.texts.starts[:, None, None, None].expand(*self.weights.shape[:3], 1)
        return self.weights.gather(-1, index)[..., 0]

    @cached_property
    def by_distance(self) -> Tensor:
        """[B, H, n, bins] the weight in each range of distances."""
        rows = torch.arange(*self.rows, device=self.sums.device)
        last = rows[:, None] - 2 ** torch.arange(self.bins - 1, device=rows.device)  # the key at 1, 2, 4, … from each
        index = last.clamp_min(0).expand(*self.sums.shape[:3], -1)
        farther = self.sums.gather(-1, index) * (last >= 0)
        farther = torch.cat((self.sums[..., -1:], farther), -1)
        return farther - torch.nn.functional.pad(farther[..., 1:], (0, 1))

    @cached_property
    def mean_distance(self) -> Tensor:
        """[B, H, n] Σ (q − k) w[q, k]: every key before the query adds the weight up to it once more."""
        first, last = self.rows
        before = torch.ones(last - first, last - first, device=self.sums.device).tril(-1)
        return self.sums[..., :first].sum(-1) + (self.sums[..., first:] * before).sum(-1)

    @cached_property
    def by_kind(self) -> Tensor:
        """[B, H, n, kinds] the weight on tokens of each of :data:`KINDS`."""
        batch, heads, n, m = self.past_weights.shape
        kinds = torch.stack([self.texts.kinds[kind][:, :m] for kind in KINDS], 1).to(self.weights)
        # this way round it is several times as fast, for the kinds are few
        found = torch.bmm(kinds, self.past_weights.reshape(batch, heads * n, m).transpose(1, 2))  # [B, kinds, H · n]
        return found.view(batch, -1, heads, n).movedim(1, -1)

    @cached_property
    def by_part(self) -> Tensor:
        """[B, H, n, GRID] the weight in each part of the text."""
        batch, heads, n, m = self.sums.shape
        ends = torch.arange(1, GRID + 1, device=self.sums.device) * self.texts.lengths[:, None]
        last = self.texts.starts[:, None] + (ends + GRID - 1) // GRID - 1  # the last key of each part, if it has any
        index = last.clamp(0, m - 1)[:, None, None].expand(batch, heads, n, GRID)
        up_to = self.sums.gather(-1, index) * (last >= self.texts.starts[:, None])[:, None, None]
        return up_to - torch.nn.functional.pad(up_to[..., :-1], (1, 0))

    def weight_on(self, cells: Tensor) -> Tensor:
        """[B, H, n] the weight of each row on some cells [B, n, m] together, later ones aside."""
        past = self.past_weights
        return (past * cells[:, None, :, : past.shape[-1]].to(past.dtype)).sum(-1)

    @property
    def norm(self) -> Tensor:
        """[B, H, n] of what each head adds to the residual stream."""
        assert self.outputs is not None
        return self.outputs.norms[self.texts.place, :, slice(*self.rows)]

    @property
    def share(self) -> Tensor:
        """[B, H, n] the share of each head in what the block adds to the residual stream."""
        assert self.outputs is not None
        return self.outputs.shares[self.texts.place, :, slice(*self.rows)]


@dataclass(frozen=True, kw_only=True)
class SurveyStatistic(Statistic):
    """A statistic as a survey reads it: ``among``, or ``of_block``, or both.

    Attributes
    ----------
    among
        Given :class:`Cells`, which of them its value is the weight on, as booleans; a query without one is not
        eligible. None where it is no such weight.
    of_block
        Given a :class:`Block`, its value for every text, head and query, [B, H, n]; the weight on the cells when not
        given.
    one_pass
        Whether it reads each block of weights once, as it is made; one that goes back to the layer for more is not
        among ``all`` statistics, and has to be named.
    of_groups
        Whether it is about heads that share a kv head, and so needs groups of two or more.
    of_outputs
        Whether it reads what heads add to the residual stream, which only Ropewalk's own decoder says.
    source
        What says which code it is, where that is not its functions' own.
    """

    among: Callable[[Cells], Tensor] | None = None
    of_block: Callable[[Block], Tensor] | None = None
    one_pass: bool = True
    of_groups: bool = False
    of_outputs: bool = False
    source: str = ""

    def value(self, block: Block) -> Tensor:
        """[B, H, n] of a block.

        Raises
        ------
        SurveyError
            When its function gives something else.
        """
        if self.of_block is None:
            return block.weight_on(block.cells.said(self))
        found: Any = self.of_block(block)
        wanted = tuple(block.weights.shape[:3])
        if not isinstance(found, Tensor) or tuple(found.shape) != wanted:
            raise SurveyError(
                f"The statistic {self.name!r} gives a number for every text, head and query, of shape {wanted}, but "
                f"gave {_kind_of_result(found)}."
            )
        given: Tensor = found
        return given


def _kind_of_result(found: Any) -> str:
    if not isinstance(found, Tensor):
        return f"a {type(found).__name__}"
    return f"{str(found.dtype).removeprefix('torch.')} of shape {tuple(found.shape)}"


def _same_token(cells: Cells) -> Tensor:
    return (cells.query_token == cells.key_token) & (cells.key < cells.query)


def _after_same_token(cells: Cells) -> Tensor:
    return (cells.query_token == cells.token_before_key) & (cells.key < cells.query)


def _near(count: int) -> Callable[[Cells], Tensor]:
    return lambda cells: cells.key > cells.query - count


def _entropy(block: Block) -> Tensor:
    of_keys = -(block.weights * block.logs).sum(-1)
    return of_keys if block.sink is None else of_keys + torch.special.entr(block.sink)


def _similarity(block: Block) -> Tensor:
    """Mean cosine of a head's row with those of the other heads of its group."""
    size = block.layer.spec.heads // block.layer.spec.kv_heads
    length = torch.linalg.vector_norm(block.weights, dim=-1, keepdim=True).clamp_min(1e-30)
    rows = (block.weights / length).unflatten(1, (-1, size))  # [B, Hkv, G, n, m]
    of_all = (rows * rows.sum(2, keepdim=True)).sum(-1)  # with itself too, which is 1
    found: Tensor = (of_all - 1.0) / max(size - 1, 1)
    return found.flatten(1, 2)


def _known(name: str, **more: Any) -> SurveyStatistic:
    """An entry of the statistics of one run, with how a survey reads it."""
    return SurveyStatistic(**{**vars(STATISTICS[name]), **more})


def _on_kind(name: str, title: str, kind: str) -> SurveyStatistic:
    at = KINDS.index(kind)
    return SurveyStatistic(
        name,
        title,
        f"mean of Σ w[q, k] over keys k ≤ q that are {title}, over q that have one",
        among=lambda cells: cells.key_is(kind),
        of_block=lambda block: block.by_kind[..., at],
    )


def _local(count: int) -> SurveyStatistic:
    last = count.bit_length()
    return SurveyStatistic(
        f"local_{count}",
        f"last {count}",
        f"mean of Σ w[q, k] over q − {count} < k ≤ q",
        among=_near(count),
        of_block=lambda block: block.by_distance[..., : min(last, block.bins)].sum(-1),
    )


SURVEYED: Final = {
    one.name: one
    for one in (
        _known(
            "previous",
            among=lambda cells: cells.key == cells.query - 1,
            of_block=lambda block: block.on_diagonal(1),
        ),
        SurveyStatistic(
            "self",
            "self",
            "mean over q of w[q, q]",
            among=lambda cells: cells.key == cells.query,
            of_block=lambda block: block.on_diagonal(0),
        ),
        _known(
            "sink",
            among=lambda cells: (cells.key == 0) & (cells.query > 0),
            of_block=lambda block: block.on_first,
        ),
        SurveyStatistic(
            f"sink_beyond_{FAR}",
            f"sink beyond {FAR}",
            f"mean over q > {FAR} of w[q, 0]",
            among=lambda cells: (cells.key == 0) & (cells.query > FAR),
            of_block=lambda block: block.on_first,
        ),
        _known("entropy", here=lambda trace: "", of_block=_entropy),
        SurveyStatistic(
            "largest",
            "largest weight",
            "mean over q of max w[q, k]",
            of_block=lambda block: block.weights.amax(-1),
        ),
        SurveyStatistic(
            "distance",
            "mean distance",
            "mean over q of Σ (q − k) w[q, k]",
            of_block=lambda block: block.mean_distance,
        ),
        *(_local(count) for count in LOCAL),
        _known(
            "duplicate",
            formula="mean of Σ w[q, p] over all p < q with the token of q, over q that have one",
            among=_same_token,
        ),
        _known(
            "induction",
            formula="mean of Σ w[q, p + 1] over all p < q − 1 with the token of q, over q that have one",
            among=_after_same_token,
        ),
        _on_kind("punctuation", "punctuation", "punctuation"),
        _on_kind("line_break", "line breaks", "line_break"),
        _on_kind("special", "special tokens", "special"),
        _on_kind("digit", "digits", "digit"),
        SurveyStatistic(
            "similarity",
            "likeness in its group",
            "mean over q, and over the other heads of its kv group, of the cosine of w[q] and theirs",
            of_block=_similarity,
            of_groups=True,
        ),
        SurveyStatistic(
            "output",
            "norm of the output",
            "mean over q of |r[q]|, r what the head adds to the residual stream",
            of_block=lambda block: block.norm,
            of_outputs=True,
        ),
        SurveyStatistic(
            "share",
            "share of the change",
            "mean over q of r[q] · Δ[q] / |Δ[q]|², Δ what the block adds to the residual stream",
            of_block=lambda block: block.share,
            of_outputs=True,
        ),
        SurveyStatistic(
            "pairs",
            "pairs",
            "mean of Σ w[q, k] over the cells that were given, over q that have one",
            among=lambda cells: cells.asked,
        ),
    )
}
"""Every statistic of a survey by its name. A new one is an entry: which keys it is about, or what reads a block."""
