"""From logits to the next token: the distribution that is drawn from, the draw, and what to show of it.

Greedy is temperature 0. A draw depends only on the seed and the row, so stepping back and forth gives the same text.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.errors import PromptError, TraceError
from ropewalk.model.readings.records import Candidate, NextTokenReading, Sampling, TokenText
from ropewalk.model.runs.trace import Trace, replay

SEED_STRIDE = 1_000_003
"""A prime that keeps the draws of neighbouring seeds and rows apart."""

ROWS_AT_ONCE = 64
"""Rows whose likeliest tokens are looked for together."""


def check_sampling(sampling: Sampling) -> None:
    """Refuse settings that mean nothing.

    Raises
    ------
    PromptError
        For a negative temperature or top-k, or a top-p outside (0, 1].
    """
    if not isinstance(sampling, Sampling):
        raise PromptError(f"{sampling!r:.40} is no way to draw; give ropewalk.Sampling(temperature=…).")
    if not 0 <= sampling.temperature <= 100:
        raise PromptError(f"The temperature is {sampling.temperature}, but it must be between 0 and 100.")
    if sampling.top_k < 0:
        raise PromptError(f"Top-k is {sampling.top_k}, but it must be 0 (off) or more.")
    if not 0 < sampling.top_p <= 1:
        raise PromptError(f"Top-p is {sampling.top_p}, but it must be above 0 and at most 1.")


def distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """The probabilities that are drawn from, [V] float64 on the CPU.

    Temperature divides the logits; top-k keeps the k largest; top-p then keeps the smallest set of the most probable
    tokens whose probabilities reach p (Holtzman et al. 2020, arXiv:1904.09751). Temperature 0 puts all on the largest.

    Parameters
    ----------
    logits
        [V].
    """
    check_sampling(sampling)
    wide = logits.detach().double().cpu()
    if sampling.temperature == 0:
        return torch.nn.functional.one_hot(wide.argmax(), wide.shape[0]).double()
    wide = (wide - wide.max()) / sampling.temperature  # at most 0, so that no temperature makes it overflow
    if 0 < sampling.top_k < wide.shape[0]:
        keep = torch.zeros_like(wide, dtype=torch.bool)
        keep[wide.topk(sampling.top_k).indices] = True
        wide = wide.masked_fill(~keep, -torch.inf)
    probabilities = wide.softmax(-1)
    if sampling.top_p < 1:
        ordered, order = probabilities.sort(descending=True, stable=True)
        before = ordered.cumsum(-1) - ordered
        probabilities = probabilities.index_fill(0, order[before >= sampling.top_p], 0.0)
        probabilities = probabilities / probabilities.sum()
    return probabilities


def draw(logits: Tensor, sampling: Sampling, row: int) -> int:
    """Draw the token that follows ``row`` from logits [V]; the same seed and row give the same token."""
    probabilities = distribution(logits, sampling)
    if sampling.temperature == 0:
        return int(probabilities.argmax())
    generator = torch.Generator().manual_seed((sampling.seed * SEED_STRIDE + row) % 2**63)
    return int(torch.multinomial(probabilities, 1, generator=generator))


def row_logits(model: Decoder | None, trace: Trace, row: int, *, batch: int = 0) -> tuple[Tensor, bool]:
    """Logits [V] of one row, and whether they had to be replayed because the trace does not keep them.

    Raises
    ------
    TraceError
        When they are not kept, and there is no model to replay the row on.
    """
    trace.check_row(row)
    kept = trace.logits_of(row)
    if kept is not None:
        return kept[batch], False
    if model is None:
        raise TraceError(f"The logits of row {row} were not kept with this run, and it has no model to compute them.")
    return replay(model, trace, row, names=()).logits[batch], True


def likeliest(trace: Trace, count: int, most: int) -> list[int]:
    """Tokens among the ``count`` likeliest after a row whose logits were kept, the likeliest of a row first.

    There are ``most`` of them at most.
    """
    if trace.logits is None:
        return []
    kept, places = trace.logits.tensor[:, 0], min(count, trace.config.vocabulary)  # [B, n, V]
    best = torch.full((trace.config.vocabulary,), places)
    ranks = torch.arange(places)
    for start in range(0, kept.shape[1], ROWS_AT_ONCE):
        top = kept[:, start : start + ROWS_AT_ONCE].flatten(0, 1).topk(places).indices.cpu()
        best.scatter_reduce_(0, top.flatten(), ranks.expand_as(top).flatten(), "amin")
    order = best.sort(stable=True)
    found: list[int] = order.indices[order.values < places][:most].tolist()
    return found


def next_token_reading(
    model: Decoder | None,
    trace: Trace,
    query: int,
    count: int,
    sampling: Sampling,
    tokens: dict[int, TokenText],
    *,
    batch: int = 0,
) -> NextTokenReading:
    """The ``count`` most probable tokens after row ``query``, and the one that really follows.

    Parameters
    ----------
    tokens
        How to show an id; an id that is missing is shown as its number.
    """
    logits, replayed = row_logits(model, trace, query, batch=batch)
    return reading_of(logits, trace, query, count, sampling, tokens, replayed=replayed, batch=batch)


def reading_of(
    logits: Tensor,
    trace: Trace,
    query: int,
    count: int,
    sampling: Sampling,
    tokens: dict[int, TokenText],
    *,
    replayed: bool,
    batch: int = 0,
) -> NextTokenReading:
    """What logits [V] say after a row, as :func:`next_token_reading` says it of the run's own."""
    plain = logits.detach().double().cpu().softmax(-1)
    drawn = distribution(logits, sampling)

    def candidate(token: int) -> Candidate:
        shown = tokens.get(token, TokenText(token, f"#{token}"))
        return Candidate(shown, float(logits[token]), float(plain[token]), float(drawn[token]), float(drawn[token]) > 0)

    best = plain.topk(min(count, plain.shape[0])).indices.tolist()
    follows = None
    if trace.ids is not None and query + 1 < trace.length:
        follows = candidate(int(trace.ids[batch, query + 1]))
    return NextTokenReading(
        query=query,
        candidates=tuple(candidate(token) for token in best),
        entropy=float(torch.special.entr(plain).sum()),
        actual=follows,
        replayed=replayed,
    )
