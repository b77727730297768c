"""What a head's pattern is called: the table of head statistics, numbers that say a known habit of all heads at once.

Every statistic has a formula in words, shown beside it. They are gathers and walks over Q', K' and lse, never a
T × T matrix. Of a long run the entropy is the mean over some rows, and says so. Whoever asks for a statistic by
name asks :data:`STATISTICS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.errors import PromptError, TraceError
from ropewalk.model.progress import Progress, Steps, finished, saying
from ropewalk.model.readings.layer_weights import LayerWeights, layer_weights
from ropewalk.model.readings.records import Doubles
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace

EXACT_ENTROPY_UP_TO = 4096
"""Rows of a run whose entropy is the mean over all of them."""
ENTROPY_ROWS = 256
"""Rows that stand for a longer run, evenly spaced."""
WHAT = "Scoring the heads"
TOO_SHORT = "needs at least two tokens"
NOT_REPEATED = "needs two tokens in a row that come again later"
NOT_DOUBLED = "needs a token that comes again later"

Pairs = tuple[Tensor, Tensor]
"""Queries and as many keys: cells of every head."""


@dataclass(frozen=True)
class Statistic:
    """One number for every head of a run.

    Attributes
    ----------
    name, title
        What it is asked for by; what a person reads.
    formula
        How it is computed, in words.
    pairs
        Given a run's length and its token ids [T] (None where it has none): the cells whose mean weight it is.
    of_layer
        Given a layer, a sequence of the batch and what a walk over the layer found: [H], where it is no such mean.
    undefined
        Why it has no value where there are no such cells.
    here
        Its formula for one run, where that is another one.
    smallest_first
        Whether small values are the interesting ones.
    """

    name: str
    title: str
    formula: str
    pairs: Callable[[int, Tensor | None], Pairs] | None = None
    of_layer: Callable[[LayerTrace, int, LayerWeights | None], Steps[Tensor]] | None = None
    undefined: str = ""
    here: Callable[[Trace], str] = lambda trace: ""
    smallest_first: bool = False


def repeat_period(ids: Tensor) -> int:
    """N where the ids [T] are the same N ≥ 2 tokens twice, else 0."""
    half = ids.shape[0] // 2
    if ids.shape[0] < 4 or ids.shape[0] % 2 or not torch.equal(ids[:half], ids[half:]):
        return 0
    return half


def induction_pairs(ids: Tensor) -> tuple[list[int], list[int]]:
    """Queries q that stand at the first of two tokens that have followed one another before, and the key after then.

    That is what followed the last time, from q alone: where the ids [T] are the same N tokens twice, q = N … 2N − 2 and
    the key is q − N + 1.
    """
    period = repeat_period(ids)
    if period:
        return list(range(period, 2 * period - 1)), list(range(1, period))
    tokens, last = ids.tolist(), dict[tuple[int, int], int]()
    queries, keys = list[int](), list[int]()
    for q, pair in enumerate(pairwise(tokens)):
        before = last.get(pair, -1)
        if 0 <= before < q - 1:  # else the key would be the query itself
            queries.append(q)
            keys.append(before + 1)
        last[pair] = q
    return queries, keys


def duplicate_pairs(ids: Tensor) -> tuple[list[int], list[int]]:
    """Queries q whose token has come before, and the key where it came last."""
    last = dict[int, int]()
    queries, keys = list[int](), list[int]()
    for q, token in enumerate(ids.tolist()):
        if token in last:
            queries.append(q)
            keys.append(last[token])
        last[token] = q
    return queries, keys


def repeated_ids(count: int, vocabulary: int, seed: int) -> list[int]:
    """``count`` random token ids, twice: the prompt that shows induction.

    Raises
    ------
    PromptError
        For numbers that nothing can be drawn with.
    """
    for what, number, least in (("count", count, 0), ("vocabulary", vocabulary, 1), ("seed", seed, 0)):
        if not isinstance(number, int | np.integer) or not least <= number < 2**63:
            raise PromptError(f"The {what} is {number!r:.40}, but it must be a whole number from {least} to 2^63 − 1.")
    generator = torch.Generator().manual_seed(seed)
    once = torch.randint(0, vocabulary, (count,), generator=generator).tolist()
    return [*once, *once]


def head_scores(
    trace: Trace, names: Collection[str] | None = None, *, batch: int = 0
) -> tuple[dict[str, Doubles], dict[str, str]]:
    """Statistics of every head, name → [L, H] float64, and why one that is NaN has no value here.

    Parameters
    ----------
    names
        Those of :data:`STATISTICS` that are wanted; all when not given. The entropy costs another pass of attention,
        the others next to nothing.

    Raises
    ------
    TraceError
        For a name that is not in the table.
    """
    return finished(head_score_steps(trace, names, batch=batch))


def head_score_steps(
    trace: Trace, names: Collection[str] | None = None, *, batch: int = 0
) -> Steps[tuple[dict[str, Doubles], dict[str, str]]]:
    """The same, pausing often."""
    names = STATISTICS if names is None else names
    unknown = [name for name in names if name not in STATISTICS]
    if unknown:
        raise TraceError(f"There is no head statistic {unknown[0]!r}; there are {', '.join(STATISTICS)}.")
    found = {name: np.full((trace.config.layers, trace.config.heads), math.nan) for name in names}
    pairs = pairs_of(trace, names, batch)
    undefined = undefined_of(pairs)
    wanted = [name for name in names if name not in undefined]
    for number, layer in enumerate(trace):
        for name, values in (yield from layer_scores(layer, wanted, pairs, batch)).items():
            found[name][number] = values
        yield Progress(number + 1, trace.config.layers, WHAT)
    return found, undefined


def formulas_of(trace: Trace) -> dict[str, str]:
    """Name → title and formula, saying so where it is over some of the rows only, or over what repeats itself here."""
    return {one.name: f"{one.title}: {one.here(trace) or one.formula}" for one in STATISTICS.values()}


def real_rows(trace: Trace, batch: int) -> Tensor:
    """Numbers of the rows of a prompt that are no padding."""
    real = torch.ones_like(trace.positions[batch], dtype=torch.bool) if trace.padding is None else trace.padding[batch]
    return real.nonzero().flatten()


def pairs_of(trace: Trace, names: Collection[str], batch: int) -> dict[str, Pairs]:
    """Name → cells among real tokens, of those statistics that are the mean weight of some."""
    real = real_rows(trace, batch)
    ids = None if trace.ids is None else trace.ids[batch, real]
    found = {one.name: one.pairs(len(real), ids) for name in names if (one := STATISTICS[name]).pairs is not None}
    rows = real.cpu()
    return {name: (rows[queries], rows[keys]) for name, (queries, keys) in found.items()}


def undefined_of(pairs: Mapping[str, Pairs]) -> dict[str, str]:
    """Name → why it has no value, of those that have no cells."""
    return {name: STATISTICS[name].undefined for name, (queries, _) in pairs.items() if not len(queries)}


def layer_scores(
    layer: LayerTrace,
    names: Collection[str],
    pairs: Mapping[str, Pairs],
    batch: int,
    walked: LayerWeights | None = None,
) -> Steps[dict[str, Doubles]]:
    """Name → [H] of statistics that are defined here, pausing often.

    Parameters
    ----------
    walked
        What a walk over all weights of the layer found already.
    """
    device = layer.positions.device
    found: dict[str, Doubles] = {}
    for name in names:
        of_layer = STATISTICS[name].of_layer
        if of_layer is None:
            queries, keys = pairs[name]
            values = mean_weight(layer, queries.to(device), keys.to(device), batch=batch)
        else:
            values = yield from of_layer(layer, batch, walked)
        found[name] = values.double().cpu().numpy()
    return found


def mean_weight(layer: LayerTrace, queries: Tensor, keys: Tensor, *, batch: int = 0) -> Tensor:
    """Mean over pairs (q, k) of w[q, k] for every head, [H]; real query rows only."""
    if layer.padding is not None:
        real = layer.padding[batch, queries]
        queries, keys = queries[real], keys[real]
    return layer.paired_weights(queries, keys, batch=batch).mean(-1)


def _previous(length: int, ids: Tensor | None) -> Pairs:
    rows = torch.arange(1, length)
    return rows, rows - 1


def _first(length: int, ids: Tensor | None) -> Pairs:
    rows = torch.arange(1, length)
    return rows, torch.zeros_like(rows)


def _of_ids(find: Callable[[Tensor], tuple[list[int], list[int]]]) -> Callable[[int, Tensor | None], Pairs]:
    """Cells that the tokens decide; none where a run has no tokens."""

    def pairs(length: int, ids: Tensor | None) -> Pairs:
        queries, keys = ([], []) if ids is None else find(ids)
        return torch.tensor(queries, dtype=torch.long), torch.tensor(keys, dtype=torch.long)

    return pairs


def _followed_here(trace: Trace) -> str:
    if trace.ids is None:
        return ""
    ids = trace.ids[0, real_rows(trace, 0)]
    if repeat_period(ids):
        return "mean over q = N … 2N − 2 of w[q, q − N + 1], where the ids are N tokens twice"
    count = len(induction_pairs(ids)[0])
    return FOLLOWED.replace("all q", f"the {count:,} places q") if count else ""


FOLLOWED = "mean of w[q, p + 1] over all q whose token and the next one came before, last at p and p + 1"


# ----------------------------------------------------------------------------------------------------------------------
# Entropy


def _entropy_here(trace: Trace) -> str:
    if trace.length <= EXACT_ENTROPY_UP_TO:
        return ""
    return f"mean over {ENTROPY_ROWS} of {trace.length:,} rows q, sampled, of −Σ w ln w, in nats"


def _mean_entropy(layer: LayerTrace, batch: int, walked: LayerWeights | None) -> Steps[Tensor]:
    """Mean entropy of every head's rows in nats, [H]: over all rows, or over some of a long run."""
    rows = torch.arange(layer.length, device=layer.positions.device)
    if layer.length > EXACT_ENTROPY_UP_TO:
        rows = torch.linspace(0, layer.length - 1, ENTROPY_ROWS, device=rows.device).round().long()
    rows = _with_entropy(layer, rows, batch)
    if not len(rows):
        return torch.zeros(layer.spec.heads)
    if walked is not None and walked.entropy is not None:
        return walked.entropy[:, rows].double().mean(-1)
    first, end = int(rows[0]), int(rows[-1]) + 1
    walk = layer_weights(layer, (first, end) if end - first == len(rows) else rows, batch=batch)
    found = yield from saying(Progress(0, 1, WHAT), walk)
    assert found.entropy is not None
    return found.entropy.double().mean(-1)


def _with_entropy(layer: LayerTrace, rows: Tensor, batch: int) -> Tensor:
    """Those of some rows that are no padding and see something."""
    if layer.padding is not None:
        rows = rows[layer.padding[batch, rows]]
    return rows[torch.isfinite(layer.normaliser(0, rows, batch=batch))]


STATISTICS: Final = {
    one.name: one
    for one in (
        Statistic("previous", "previous token", "mean over q ≥ 1 of w[q, q − 1]", _previous, undefined=TOO_SHORT),
        Statistic("sink", "sink", "mean over q ≥ 1 of w[q, 0]", _first, undefined=TOO_SHORT),
        Statistic(
            "induction",
            "induction",
            FOLLOWED,
            _of_ids(induction_pairs),
            undefined=NOT_REPEATED,
            here=_followed_here,
        ),
        Statistic(
            "duplicate",
            "duplicate token",
            "mean of w[q, p] over all q whose token came before, last at p",
            _of_ids(duplicate_pairs),
            undefined=NOT_DOUBLED,
        ),
        Statistic(
            "entropy",
            "entropy",
            "mean over q of −Σ w ln w, in nats",
            of_layer=_mean_entropy,
            here=_entropy_here,
            smallest_first=True,
        ),
    )
}
"""Every head statistic by its name. A new one is an entry: the cells whose mean weight it is, or what reads a layer."""
