"""Two runs side by side: A and B, aligned by token, their difference read as B minus A.

The runs may differ in prompt, interventions or checkpoint, as long as layers and heads are the same in number. Nothing
here runs a model.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from difflib import SequenceMatcher

import numpy as np
from torch import Tensor

from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Steps
from ropewalk.model.readings import readout
from ropewalk.model.readings.patterns import head_score_steps
from ropewalk.model.readings.records import (
    Floats,
    HeadDifference,
    NextTokenDifference,
    ScoreChanges,
    TokenChange,
    TokenText,
)
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace

Alignment = tuple[tuple[int | None, int | None], ...]
WIDEST = 1024
"""Rows that can be compared at once."""


def aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> Alignment:
    """Pair the rows of two prompts by token, keeping order; a row without a partner is paired with None."""
    pairs: list[tuple[int | None, int | None]] = []
    for kind, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind == "equal":
            pairs += zip(range(a0, a1), range(b0, b1), strict=True)
        else:
            pairs += [(row, None) for row in range(a0, a1)]
            pairs += [(None, row) for row in range(b0, b1)]
    return tuple(pairs)


def align(a: Trace, b: Trace, texts: tuple[Sequence[str], Sequence[str]] | None = None) -> Alignment:
    """Pair the rows of two runs by token.

    Parameters
    ----------
    texts
        The tokens as text, for runs of two models: an id of one may be another token of the other.

    Raises
    ------
    TraceError
        When the models differ in layers or heads, the texts have no token in common, or there are too many rows.
    """
    _check_heads(a, b)
    if max(a.length, b.length) > WIDEST:
        raise TraceError(f"Runs of up to {WIDEST} rows can be compared; these have {a.length} and {b.length}.")
    if a.ids is None or b.ids is None:
        longest = max(a.length, b.length)
        return tuple((i if i < a.length else None, i if i < b.length else None) for i in range(longest))
    if texts is not None:
        rows = aligned(*texts)
        if not any(None not in pair for pair in rows):
            raise TraceError("A and B have no token in common, so no rows can be compared; run one text on both.")
        return rows
    return aligned(a.ids[0].tolist(), b.ids[0].tolist())


def score_changes(a: Trace, b: Trace) -> Steps[ScoreChanges]:
    """How far the statistics of every head moved, B minus A.

    Raises
    ------
    TraceError
        When the models differ in layers or heads.
    """
    _check_heads(a, b)
    before, without = yield from head_score_steps(a)
    after, undefined = yield from head_score_steps(b)
    return ScoreChanges({name: after[name] - before[name] for name in after}, {**without, **undefined})


def _check_heads(a: Trace, b: Trace) -> None:
    shapes = [(trace.config.layers, trace.config.heads) for trace in (a, b)]
    if shapes[0] != shapes[1]:
        raise TraceError(
            f"A has {shapes[0][0]} layers of {shapes[0][1]} heads and B {shapes[1][0]} of {shapes[1][1]}, so their "
            "heads cannot be compared."
        )


def head_difference(a: LayerTrace, b: LayerTrace, head: int, rows: Alignment) -> HeadDifference:
    """Scores and weights of one head, B minus A, over aligned rows and columns."""
    scores_a, weights_a = _spread(a, head, rows, 0)
    scores_b, weights_b = _spread(b, head, rows, 1)
    return HeadDifference(a.spec.layer, head, scores_b - scores_a, weights_b - weights_a, rows)


def _spread(layer: LayerTrace, head: int, rows: Alignment, side: int) -> tuple[Floats, Floats]:
    """Scores and weights [n, n] on the aligned grid, NaN where the run has no such cell or masks it."""
    own = [pair[side] for pair in rows]
    there = np.array([i for i, row in enumerate(own) if row is not None])
    index = np.array([row for row in own if row is not None])
    scores, weights = readout.scores(layer, head), readout.weights(layer, head)
    seen = np.isfinite(scores)
    out = []
    for values in (scores, weights):
        grid = np.full((len(rows), len(rows)), np.nan, dtype=np.float32)
        grid[np.ix_(there, there)] = np.where(seen, values, np.nan)[np.ix_(index, index)]
        out.append(grid)
    return out[0], out[1]


def next_token_difference(
    before: Tensor, after: Tensor, names: Mapping[int, TokenText], count: int = 8
) -> NextTokenDifference:
    """How the next-token distribution moved.

    Parameters
    ----------
    before, after
        Logits [V] of A and of B.
    names
        How to show an id.
    count
        How many of the most moved tokens to list.

    Raises
    ------
    TraceError
        When the vocabularies differ in size.
    """
    if before.shape != after.shape:
        raise TraceError(
            f"A has {before.shape[-1]} tokens in its vocabulary and B {after.shape[-1]}, so their next tokens cannot "
            "be compared."
        )
    log_a, log_b = (logits.detach().double().cpu().log_softmax(-1) for logits in (before, after))
    a, b = log_a.exp(), log_b.exp()
    moved = (b - a).abs().topk(min(count, a.shape[0])).indices.tolist()
    return NextTokenDifference(
        kl_forward=float((a * (log_a - log_b)).sum()),
        kl_backward=float((b * (log_b - log_a)).sum()),
        top_before=names[int(a.argmax())],
        top_after=names[int(b.argmax())],
        changes=tuple(TokenChange(names[token], float(a[token]), float(b[token])) for token in moved),
    )
