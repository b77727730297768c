"""The logit lens: what the model would say if it ended after the embedding, or after each block.

The residual stream of a row goes through the model's own last norm and head, tied or not, with whatever the family does
to logits (nostalgebraist 2020, "interpreting GPT: the logit lens"). After the last block that is the model's output. A
trace keeps no stream, so rows are run again over its own K' and V, some at a time; of their distributions over the
vocabulary only a few numbers are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.intervention_contexts import changed_block, turned
from ropewalk.model.decoder.products import multiplying
from ropewalk.model.decoder.scores import Span
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Pace, Partial, Progress, Steps, Watch, finished
from ropewalk.model.readings.readout import checked_span
from ropewalk.model.readings.records import LogitLens, TokenText, TokenTexts
from ropewalk.model.runs.trace import LOGIT_ROWS, LentCache, Trace

ROWS = 32
"""Rows that are run again together: what is ready of them is shown before the next ones."""
MOST_NUMBERS = 1 << 22
"""Probabilities that are held at once; with a large vocabulary those of a few rows."""
WHAT = "Reading the stream after every block"


def logit_lens(model: Decoder, trace: Trace, rows: Span | None = None, *, count: int = 5, batch: int = 0) -> LogitLens:
    """Do what :func:`lens_steps` does without pausing."""
    return finished(lens_steps(model, trace, {}, rows, count=count, batch=batch))


def lens_steps(
    model: Decoder,
    trace: Trace,
    tokens: dict[int, TokenText],
    rows: Span | None = None,
    *,
    count: int = 5,
    batch: int = 0,
) -> Steps[LogitLens]:
    """Read the stream of some rows as next-token distributions, in float64, under the interventions of the run.

    Yields a :class:`~model.progress.Partial` with a :class:`~model.readings.records.LogitLens` of every few rows.

    Parameters
    ----------
    tokens
        How to show an id; an id that is missing is shown as its number.
    rows
        A half-open range; all when not given.
    count
        How many of the most probable tokens are named.

    Raises
    ------
    TraceError
        When a row is not there, or the run was given vectors.
    """
    first, last = checked_span(rows, trace.length, "Rows")
    if trace.ids is None:
        raise TraceError("This run was given vectors, not tokens, so its rows cannot be run again.")
    parts: list[LogitLens] = []
    for start, stop in _blocks(trace, first, last):
        streams = yield from _streams(model, trace, start, stop, batch)
        parts.append((yield from _read(model, trace, streams, start, tokens, count, batch)))
        yield Partial(stop - first, last - first, WHAT, parts[-1])
    return LogitLens.joined(parts)


def _blocks(trace: Trace, first: int, last: int) -> Iterator[Span]:
    """Cut rows into blocks, each of which the run rotated alike."""
    cuts = {segment.start for layer in trace for segment in layer.spec.segments}
    start = first
    for cut in sorted({*(cut for cut in cuts if first < cut < last), last}):
        for begin in range(start, cut, ROWS):
            yield begin, min(begin + ROWS, cut)
        start = cut


def _streams(model: Decoder, trace: Trace, start: int, stop: int, batch: int) -> Steps[list[Tensor]]:
    """The stream [n, D] of some rows after the embedding and after every block."""
    assert trace.ids is not None
    watch, layers = Watch(), model.config.layers
    with multiplying(trace.products), turned(model, trace.interventions):
        x, call = model.begin(
            trace.ids[:, start:stop],
            cache=LentCache(trace, (start, stop)),
            positions=trace.positions[:, start:stop],
            padding=trace.padding,
            branch=trace.branch,
            rotary_length=trace.rotary_length(stop - 1),
        )
    streams = [x[batch]]
    for layer in range(layers):
        block = model.block(layer)
        with multiplying(trace.products), changed_block(block, layer, trace.interventions):
            x = block(x, call)
        streams.append(x[batch])
        if watch.over:
            yield Progress(layer + 1, layers, WHAT)
            watch.restart()
    return streams


def _read(
    model: Decoder,
    trace: Trace,
    streams: list[Tensor],
    start: int,
    tokens: dict[int, TokenText],
    count: int,
    batch: int,
) -> Steps[LogitLens]:
    """What the streams of a block say; the last one first, for the others are asked about its token too."""
    assert trace.ids is not None
    vocabulary, shape = model.config.vocabulary, (len(streams), len(streams[0]))
    most = max(MOST_NUMBERS // vocabulary, 1)
    pace = Pace(min(LOGIT_ROWS, most), most)  # not fewer: reading the last matrix would take longer than using it
    follows = trace.ids[batch, start + 1 : start + 1 + shape[1]].cpu()
    top = np.zeros((*shape, min(count, vocabulary)), np.int64)
    probabilities, rank = np.zeros(top.shape), np.zeros(shape, np.int64)
    entropy, final, actual = np.zeros(shape), np.zeros(shape), np.full(shape, np.nan)
    for at in reversed(range(shape[0])):
        done = 0
        while done < shape[1]:
            piece = slice(done, min(done + pace.size, shape[1]))
            with multiplying(trace.products), pace.timed(piece.stop - done):
                logits = model.finish(streams[at][None, piece])[0].cpu().double()  # [n, V]
                chances = logits.softmax(-1)
                best = chances.topk(top.shape[-1])
                top[at, piece], probabilities[at, piece] = best.indices.numpy(), best.values.numpy()
                entropy[at, piece] = torch.special.entr(chances).sum(-1).numpy()
                of_last = torch.from_numpy(top[-1, piece, :1])
                final[at, piece] = chances.gather(1, of_last)[:, 0].numpy()
                known = follows[piece, None]  # one less in the last row of the run
                there = slice(done, done + len(known))
                actual[at, there] = chances[: len(known)].gather(1, known)[:, 0].numpy()
                higher = logits[: len(known)] > logits[: len(known)].gather(1, known)
                rank[at, there] = 1 + higher.sum(-1).numpy()
            done = piece.stop
            yield Progress(shape[0] - at, shape[0], WHAT)
    shown = (tokens.get(one, TokenText(one, f"#{one}")) for one in np.unique(top).tolist())
    lens = LogitLens((start, start + shape[1]), top, probabilities, entropy, final, actual, rank, TokenTexts.of(shown))
    for array in (top, probabilities, entropy, final, actual, rank):
        array.setflags(write=False)
    return lens
