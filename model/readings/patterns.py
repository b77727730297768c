"""What a head's pattern is called: the table of head statistics, numbers that say a known habit of all heads at once.

Every statistic has a formula in words, shown beside it. They are gathers and extra fused calls over Q', K' and lse,
never a T × T matrix. Of a long run the entropy is the mean over some rows, and says so. Whoever asks for a statistic by
name asks :data:`STATISTICS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.decoder.attention import fused_attention
from ropewalk.model.decoder.scores import key_range, paired_scores
from ropewalk.model.errors import PromptError, TraceError
from ropewalk.model.progress import Progress, Steps, finished
from ropewalk.model.readings.records import Doubles
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace

EXACT_ENTROPY_UP_TO = 4096
"""Rows of a run whose entropy is the mean over all of them."""
ENTROPY_ROWS = 256
"""Rows that stand for a longer run, evenly spaced."""
BLOCK_CELLS = 1 << 22
"""Cells of all heads together that a pause waits for."""
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
        Given a layer and a sequence of the batch: [H], where it is no such mean.
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
    of_layer: Callable[[LayerTrace, int], Steps[Tensor]] | None = None
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
    layer: LayerTrace, names: Collection[str], pairs: Mapping[str, Pairs], batch: int
) -> Steps[dict[str, Doubles]]:
    """Name → [H] of statistics that are defined here, pausing often."""
    device = layer.positions.device
    found: dict[str, Doubles] = {}
    for name in names:
        of_layer = STATISTICS[name].of_layer
        if of_layer is None:
            queries, keys = pairs[name]
            values = mean_weight(layer, queries.to(device), keys.to(device), batch=batch)
        else:
            values = yield from of_layer(layer, batch)
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


def _mean_entropy(layer: LayerTrace, batch: int) -> Steps[Tensor]:
    """Mean entropy of every head's rows in nats, [H]: over all rows, or over some of a long run."""
    rows = torch.arange(layer.length, device=layer.positions.device)
    sampled = layer.length > EXACT_ENTROPY_UP_TO
    if sampled:
        rows = torch.linspace(0, layer.length - 1, ENTROPY_ROWS, device=rows.device).round().long()
    if layer.padding is not None:
        rows = rows[layer.padding[batch, rows]]
    rows = rows[torch.isfinite(layer.normaliser(0, rows, batch=batch))]
    # capped, biased and written scores are not linear in K', a mask of its own the kernel is not given; and of two
    # large numbers, the difference says little
    as_made = layer.spec.cap is None and layer.mask is None and not layer.spec.written
    by_kernel = as_made and not sampled and layer.precision(batch=batch) == torch.float32
    entropy = _linear_entropy if by_kernel else _cell_entropy
    total = torch.zeros(layer.spec.heads, dtype=torch.float64, device=rows.device)
    for block in _blocks(rows, layer.length * layer.spec.heads):
        total += entropy(layer, block, batch).clamp_min(0.0).double().sum(-1)
        yield Progress(0, 1, WHAT)
    return total / max(len(rows), 1)


def _blocks(rows: Tensor, cells_a_row: int) -> Iterator[Tensor]:
    step = max(1, BLOCK_CELLS // max(cells_a_row, 1))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def _linear_entropy(layer: LayerTrace, rows: Tensor, batch: int) -> Tensor:
    """Entropy [H, n] of rows that follow one another, by one fused call.

    A row's entropy is lse − Σ w·s − w_sink·s_sink, and Σ w·s = scale · (q · out) where out is attention with V := K'.
    """
    spec, first, end = layer.spec, int(rows[0]), int(rows[-1]) + 1
    keys = key_range(spec, (0, end), layer.length)
    q = layer.query_vectors(rows=(first, end), batch=batch)
    k = layer.key_vectors(keys=keys, batch=batch)
    padding = None if layer.padding is None else layer.padding[batch : batch + 1, slice(*keys)]
    sinks = layer.sink_logits()
    result = fused_attention(q[None], k[None], k[None], spec, past=first, padding=padding, sinks=sinks)
    entropy = result.lse[0] - paired_scores(q, result.out[0], spec)
    if sinks is not None:
        entropy -= layer.sink_weights(rows=(first, end), batch=batch) * sinks[:, None]
    return entropy


def _cell_entropy(layer: LayerTrace, rows: Tensor, batch: int) -> Tensor:
    """Entropy [H, n] of any rows, cell by cell: −Σ w·ln w, the sink's share among them."""
    keys = key_range(layer.spec, (int(rows[0]), int(rows[-1]) + 1), layer.length)
    hidden = ~layer.visible(rows, keys, batch=batch)
    found = []
    for head in range(layer.spec.heads):
        fine = layer.precision(head, rows, batch=batch)
        raw = layer.raw_scores(head, rows, keys, batch=batch, dtype=fine)
        logs = layer.log_weights(raw, head, rows, batch=batch).masked_fill_(hidden, 0.0)
        found.append(-(logs * logs.exp()).sum(-1).float())
    taken: Tensor = torch.special.entr(layer.sink_weights(rows=rows, batch=batch))
    return torch.stack(found) + taken


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
