"""The table of what a survey measures of every head, which goes on from the statistics of one run.

A statistic is a number of every head and query of a text; most are the weight on some keys, and need nothing but a
function that says which (``among``). Those that share a pass over the weights take it from the :class:`Block`.
``docs/survey.md`` has the formulas.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ropewalk.model.decoder.scores import Span
from ropewalk.model.readings.patterns import STATISTICS, Statistic
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.tokens.tokenizer import Piece, Tokenizer

Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.int64]

KINDS: Final = ("punctuation", "line_break", "special", "digit")
"""Kinds of tokens."""
FAR = 64
"""Queries beyond it have a first token that is far away."""
GRID = 32
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
    _cells: dict[tuple[str, Span], Cells] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def cells(self, statistic: SurveyStatistic, rows: Span) -> Cells:
        """Which keys some rows are asked about; the same in every layer, so looked for once."""
        place = statistic.name, rows
        if place not in self._cells:
            self._cells[place] = Cells.of(self, statistic, rows)
        return self._cells[place]


@dataclass(frozen=True, eq=False)
class Cells:
    """Which of some rows have a key that a statistic asks about, [n], and those cells, of a statistic that gathers."""

    eligible: Tensor
    queries: Tensor
    keys: Tensor

    @classmethod
    def of(cls, text: Text, statistic: SurveyStatistic, rows: Span) -> Cells:
        """Look for them."""
        nothing = torch.zeros(0, dtype=torch.long)
        if statistic.among is None:
            return cls(torch.ones(rows[1] - rows[0], dtype=torch.bool), nothing, nothing)
        found = statistic.among(text, np.arange(*rows), np.arange(rows[1]))
        eligible = torch.from_numpy(found.any(-1))
        if statistic.of_block is not gathered:
            return cls(eligible, nothing, nothing)
        queries, keys = (torch.from_numpy(one) for one in found.nonzero())
        return cls(eligible, queries, keys)


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


def part_of(rows: Tensor, length: int) -> Tensor:
    """Which of :data:`GRID` equal parts of a text each row lies in."""
    return rows * GRID // length


# ----------------------------------------------------------------------------------------------------------------------
# A block of rows


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a text in a layer, with their weights, and what several statistics read of them.

    Attributes
    ----------
    rows
        Its queries; its keys are the first up to the last query.
    weights
        [H, n, m].
    bins
        How many :func:`distance_bins` there are.
    parts, change
        [H, n, D] what each head adds to the residual stream, and [n, D] what the block adds in all; None where nobody
        asks, or the model does not say.
    """

    layer: LayerTrace
    batch: int
    text: Text
    rows: Span
    weights: Tensor
    bins: int
    parts: Tensor | None = None
    change: Tensor | None = None

    @property
    def keys(self) -> int:
        """m."""
        return self.weights.shape[-1]

    @cached_property
    def past_weights(self) -> Tensor:
        """The weights up to each query, [H, n, keys up to the last query]; all that there are, of a causal layer."""
        if self.layer.spec.causal:
            return self.weights
        return self.weights[..., : self.rows[1]].tril(self.rows[0])

    @cached_property
    def by_distance(self) -> Tensor:
        """[H, n, bins + 1] the weight in each range of distances, and last the mean distance.

        The weights are looked at along their diagonals, where a column is a distance: with n − 1 zeros before each
        row, a row that is one longer begins one key later.
        """
        heads, n, m = self.past_weights.shape
        wide = torch.nn.functional.pad(self.past_weights, (n - 1, 0))
        row = n - 1 + m
        by_distance = wide.as_strided((heads, n, m), (n * row, row + 1, 1))  # column j is the distance m − 1 − j
        distances = torch.arange(m - 1, -1, -1, device=wide.device)
        columns = torch.zeros(m, self.bins + 1, device=wide.device)
        # 0 is in bin 0, 2^i … 2^(i + 1) − 1 in bin i + 1
        columns[torch.arange(m), torch.frexp(distances.float()).exponent.long()] = 1.0
        columns[:, -1] = distances
        return by_distance @ columns

    @cached_property
    def by_kind(self) -> Tensor:
        """[H, n, kinds] the weight on tokens of each of :data:`KINDS`."""
        kinds = np.stack([self.text.kinds[kind][: self.rows[1]] for kind in KINDS], -1)
        return self.past_weights @ torch.from_numpy(kinds).to(self.weights)

    @cached_property
    def by_part(self) -> Tensor:
        """[H, n, GRID] the weight in each part of the text."""
        device = self.weights.device
        parts = part_of(torch.arange(self.rows[1], device=device), len(self.text))
        return self.past_weights @ torch.nn.functional.one_hot(parts, GRID).to(self.weights)

    @cached_property
    def norm(self) -> Tensor:
        """[H, n] of what each head adds."""
        assert self.parts is not None
        found: Tensor = self.parts.norm(dim=-1)
        return found

    def weight_at(self, cells: Cells) -> Tensor:
        """[H, n] the weight of each row at its cells together."""
        device = self.weights.device
        queries, keys = cells.queries.to(device), cells.keys.to(device)
        total = self.weights.new_zeros(self.weights.shape[:2])
        found: Tensor = total.index_add_(1, queries, self.weights[:, queries, keys])
        return found


Among: TypeAlias = Callable[[Text, Numbers, Numbers], Bools]
"""Of a text, some queries [n] and keys [m]: which cells are meant, [n, m]."""


def gathered(block: Block, statistic: SurveyStatistic) -> Tensor:
    """The weight of each row on all the keys that the statistic asks about, [H, n]."""
    return block.weight_at(block.text.cells(statistic, block.rows))


@dataclass(frozen=True, kw_only=True)
class SurveyStatistic(Statistic):
    """A statistic as a survey reads it.

    Attributes
    ----------
    among
        Which keys its value is the weight on; a query without one is not eligible. None where it is no such weight.
    of_block
        Its value for every head and query of a block, [H, n].
    of_groups
        Whether it is about heads that share a kv head, and so needs groups of two or more.
    of_outputs
        Whether it reads what heads add to the residual stream, which only Ropewalk's own decoder says.
    """

    among: Among | None = None
    of_block: Callable[[Block, SurveyStatistic], Tensor] = gathered
    of_groups: bool = False
    of_outputs: bool = False


def _same_token(text: Text, queries: Numbers, keys: Numbers) -> Bools:
    found: Bools = (text.ids[queries][:, None] == text.ids[keys]) & (keys < queries[:, None])
    return found


def _after_same_token(text: Text, queries: Numbers, keys: Numbers) -> Bools:
    before = text.ids[np.maximum(keys - 1, 0)]
    found: Bools = (text.ids[queries][:, None] == before) & (keys > 0) & (keys < queries[:, None])
    return found


def _asked(text: Text, queries: Numbers, keys: Numbers) -> Bools:
    asked = np.zeros((len(queries), len(keys)), np.bool_)
    where = {int(query): at for at, query in enumerate(queries)}
    for query, key in text.pairs.tolist():
        if query in where and keys[0] <= key <= keys[-1]:
            asked[where[query], key - keys[0]] = True
    return asked


def _of_kind(kind: str) -> Among:
    def among(text: Text, queries: Numbers, keys: Numbers) -> Bools:
        if kind not in text.kinds:
            return np.zeros((len(queries), len(keys)), np.bool_)
        found: Bools = text.kinds[kind][keys] & (keys <= queries[:, None])
        return found

    return among


def _near(count: int) -> Among:
    return lambda text, queries, keys: (keys <= queries[:, None]) & (keys > queries[:, None] - count)


def _entropy(block: Block, statistic: SurveyStatistic) -> Tensor:
    of_keys: Tensor = torch.special.entr(block.weights).sum(-1)
    taken = block.layer.sink_weights(rows=block.rows, batch=block.batch)
    of_sink: Tensor = torch.special.entr(taken)
    return of_keys + of_sink


def _similarity(block: Block, statistic: SurveyStatistic) -> Tensor:
    """Mean cosine of a head's row with those of the other heads of its group."""
    heads, n, m = block.weights.shape
    size = heads // block.layer.spec.kv_heads
    rows = block.weights.view(-1, size, n, m).transpose(1, 2)  # [Hkv, n, G, m]
    products = rows @ rows.transpose(-1, -2)  # [Hkv, n, G, G]
    length = products.diagonal(dim1=-2, dim2=-1).clamp_min(1e-30).sqrt()
    cosines = products / (length[..., None] * length[..., None, :])
    others = (cosines.sum(-1) - 1.0) / max(size - 1, 1)  # [Hkv, n, G]
    found: Tensor = others.transpose(1, 2).reshape(heads, n)
    return found


def _share(block: Block, statistic: SurveyStatistic) -> Tensor:
    assert block.parts is not None
    assert block.change is not None
    along = (block.parts * block.change).sum(-1)  # [H, n]
    return along / block.change.square().sum(-1).clamp_min(1e-30)


def _known(name: str, **more: Any) -> SurveyStatistic:
    """An entry of the statistics of one run, with how a survey reads it."""
    return SurveyStatistic(**{**vars(STATISTICS[name]), **more})


def _on_kind(name: str, title: str, kind: str) -> SurveyStatistic:
    at = KINDS.index(kind)
    return SurveyStatistic(
        name,
        title,
        f"mean of Σ w[q, k] over keys k ≤ q that are {title}, over q that have one",
        among=_of_kind(kind),
        of_block=lambda block, _: block.by_kind[..., at],
    )


def _local(count: int) -> SurveyStatistic:
    last = count.bit_length()
    return SurveyStatistic(
        f"local_{count}",
        f"last {count}",
        f"mean of Σ w[q, k] over q − {count} < k ≤ q",
        among=_near(count),
        of_block=lambda block, _: block.by_distance[..., : min(last, block.bins)].sum(-1),
    )


SURVEYED: Final = {
    one.name: one
    for one in (
        _known(
            "previous",
            among=lambda text, queries, keys: keys == queries[:, None] - 1,
            of_block=lambda block, _: block.by_distance[..., 1] if block.bins > 1 else block.weights[..., 0] * 0.0,
        ),
        SurveyStatistic(
            "self",
            "self",
            "mean over q of w[q, q]",
            among=lambda text, queries, keys: keys == queries[:, None],
            of_block=lambda block, _: block.by_distance[..., 0],
        ),
        _known(
            "sink",
            among=lambda text, queries, keys: (keys == 0) & (queries[:, None] > 0),
            of_block=lambda block, _: block.weights[..., 0],
        ),
        SurveyStatistic(
            f"sink_beyond_{FAR}",
            f"sink beyond {FAR}",
            f"mean over q > {FAR} of w[q, 0]",
            among=lambda text, queries, keys: (keys == 0) & (queries[:, None] > FAR),
            of_block=lambda block, _: block.weights[..., 0],
        ),
        _known("entropy", here=lambda trace: "", of_block=_entropy),
        SurveyStatistic(
            "largest",
            "largest weight",
            "mean over q of max w[q, k]",
            of_block=lambda block, _: block.weights.amax(-1),
        ),
        SurveyStatistic(
            "distance",
            "mean distance",
            "mean over q of Σ (q − k) w[q, k]",
            of_block=lambda block, _: block.by_distance[..., -1],
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
            of_block=lambda block, _: block.norm,
            of_outputs=True,
        ),
        SurveyStatistic(
            "share",
            "share of the change",
            "mean over q of r[q] · Δ[q] / |Δ[q]|², Δ what the block adds to the residual stream",
            of_block=_share,
            of_outputs=True,
        ),
        SurveyStatistic(
            "pairs",
            "pairs",
            "mean of Σ w[q, k] over the cells that were given, over q that have one",
            among=_asked,
        ),
    )
}
"""Every statistic of a survey by its name. A new one is an entry: which keys it is about, or what reads a block."""
