"""Pictures of one head: any rectangle of scores and weights in as few pixels as the screen can show.

A picture is *exact* where a pixel is one cell, and otherwise the *max* or *mean* of the cells it covers. What is too
large for one slice of time is first *sampled*: exact values on a lattice, with the diagonal and the first column. Then
it is refined square by square, and the squares are kept within a byte budget, so that panning computes only what comes
into view. Nothing here is T × T: a block of scores is reduced while it is still in the processor's cache.

The heavy step is one matrix product. The maximum of a pixel's weights needs no exponential of every cell, because
exp(score − lse) grows with the score: first the largest score of each row, then one exponential a pixel.

This file owns the arithmetic of pictures; which squares a window wants, and when, is not known here.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model.attention import visible_keys
from model.errors import TraceError
from model.lens import Span, checked_span, checked_spec, frozen
from model.progress import Partial, Progress, Steps, Watch, finished
from model.readings import HeadPatch, HeadPicture, Reduction, Tile
from model.spec import AttentionSpec
from model.trace import Trace

AT_ONCE = 1 << 21
"""Cells that are reduced without a pause: about 10 ms on one core, so that another head is seen within a few frames."""
SQUARE_SIDE = 128
"""Pixels along a refined square, fewer where they would cover more than SQUARE_CELLS cells."""
SQUARE_CELLS = 1 << 24
BLOCK_QUERIES = 256
BLOCK_KEYS = 1024
"""Scores computed at a time, 1 MiB in float32: what a core's own cache holds."""
CACHE_BYTES = 256 << 20
WHAT = "Refining the picture"


@dataclass(frozen=True)
class Frame:
    """A rectangle of one head on a pixel grid.

    Attributes
    ----------
    rows, columns
        Half-open ranges of query and key rows; they start at a multiple of ``cell``.
    cell
        Query rows and key rows under one pixel.
    raw
        Whether scores before the mask are wanted; where all is hidden, they are the only thing to compute.
    """

    layer: int
    head: int
    rows: Span
    columns: Span
    cell: tuple[int, int]
    reduction: Reduction
    raw: bool
    batch: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """[h, w] in pixels."""
        return _pixels(self.rows, self.cell[0]), _pixels(self.columns, self.cell[1])

    @property
    def cells(self) -> int:
        """Cells of the rectangle."""
        return (self.rows[1] - self.rows[0]) * (self.columns[1] - self.columns[0])


@dataclass(frozen=True, eq=False)
class _Pixels:
    """A frame in pixels: [h, w] float32, and where anything is visible; ``raw`` is None where it was not wanted."""

    scores: Tensor
    weights: Tensor
    visible: Tensor
    raw: Tensor | None

    @property
    def arrays(self) -> list[Tensor]:
        """All of them."""
        return [self.scores, self.weights, self.visible, *([] if self.raw is None else [self.raw])]

    @property
    def bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays)


class TileCache:
    """Refined squares, the least recently used dropped first.

    Parameters
    ----------
    limit
        Bytes to keep at most.

    Attributes
    ----------
    computed
        Squares computed so far; a pan should add few.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self.computed = 0
        self.bytes = 0
        self._squares: OrderedDict[tuple[object, ...], _Pixels] = OrderedDict()

    def resize(self, limit: int) -> None:
        """Keep at most ``limit`` bytes from now on."""
        self.limit = limit
        self._shrink()

    def get(self, key: tuple[object, ...]) -> _Pixels | None:
        """A square that is kept; it counts as used now."""
        square = self._squares.get(key)
        if square is not None:
            self._squares.move_to_end(key)
        return square

    def keep(self, key: tuple[object, ...], square: _Pixels) -> None:
        """Keep a square that was computed."""
        self.computed += 1
        if key in self._squares:
            self.bytes -= self._squares.pop(key).bytes
        self._squares[key] = square
        self.bytes += square.bytes
        self._shrink()

    def __len__(self) -> int:
        return len(self._squares)

    def _shrink(self) -> None:
        while self.bytes > self.limit:
            _, oldest = self._squares.popitem(last=False)
            self.bytes -= oldest.bytes


# ----------------------------------------------------------------------------------------------------------------------
# What a caller asks for


def read_head(
    trace: Trace,
    layer: int,
    head: int,
    rows: Span | None = None,
    columns: Span | None = None,
    pixels: int = 512,
    *,
    reduction: Reduction = "max",
    raw: bool = True,
    batch: int = 0,
    cache: TileCache | None = None,
) -> HeadPicture:
    """Scores before and after the mask, and weights, of a rectangle, in at most ``pixels`` × ``pixels`` pixels.

    The answer takes one slice of time. A rectangle of up to AT_ONCE cells is exact, or reduced in full; a larger one
    is sampled, unless all of its squares are in ``cache``.

    Parameters
    ----------
    rows, columns
        Half-open ranges of query and key rows; all when not given. A reduced picture may reach a pixel further, so
        that its pixels stay the same ones while somebody pans.
    reduction
        ``max`` or ``mean`` over the visible cells of a pixel (``raw``: over all of them), or ``sampled`` for one cell.
    raw
        Whether to give scores before the mask; a large picture takes half as long without.

    Raises
    ------
    TraceError
        For a head or a range that is not there, or a reduction that is not one of these.
    """
    frame = frame_of(trace, layer, head, rows, columns, pixels, reduction=reduction, raw=raw, batch=batch)
    if frame.reduction == "sampled":
        return _sampled(trace, frame)
    if frame.cells <= AT_ONCE:
        return _picture(trace, frame, finished(_reduced(trace, frame)))
    squares = [] if cache is None else [(one, cache.get(_key(trace, one))) for one in _squares(trace, frame)]
    if squares and all(found is not None for _, found in squares):
        return _picture(trace, frame, _joined(frame, [(one, found) for one, found in squares if found is not None]))
    return _sampled(trace, frame)


def refine_steps(
    trace: Trace,
    layer: int,
    head: int,
    rows: Span | None = None,
    columns: Span | None = None,
    pixels: int = 512,
    *,
    reduction: Reduction = "max",
    raw: bool = True,
    batch: int = 0,
    cache: TileCache | None = None,
) -> Steps[HeadPicture]:
    """Refine what :func:`read_head` sampled, with the same parameters.

    Yields a :class:`~model.progress.Partial` with a :class:`~model.readings.HeadPatch` for every square that is ready,
    top to bottom, those with a visible cell first; pauses often; returns the whole picture.
    """
    kept = TileCache() if cache is None else cache
    frame = frame_of(trace, layer, head, rows, columns, pixels, reduction=reduction, raw=raw, batch=batch)
    if frame.reduction == "sampled":
        return _sampled(trace, frame)
    squares = sorted(_squares(trace, frame), key=lambda one: not _reaches(trace, one))
    done: list[tuple[Frame, _Pixels]] = []
    for number, square in enumerate(squares):
        key = _key(trace, square)
        found = kept.get(key)
        if found is None:
            pauses = _reduced(trace, square)
            while found is None:
                try:
                    next(pauses)
                except StopIteration as stop:
                    found = stop.value
                else:
                    yield Progress(number, len(squares), WHAT)
            kept.keep(key, found)
        done.append((square, found))
        yield Partial(number + 1, len(squares), WHAT, _patch(frame, square, found))
    return _picture(trace, frame, _joined(frame, done))


def whole_head_steps(
    trace: Trace, layer: int, head: int, pixels: int = 512, *, reduction: Reduction = "max", raw: bool, batch: int = 0
) -> Steps[HeadPicture]:
    """Reduce all of a head in full, pausing often, without parts on the way and without keeping anything."""
    frame = frame_of(trace, layer, head, None, None, pixels, reduction=reduction, raw=raw, batch=batch)
    return _picture(trace, frame, (yield from _reduced(trace, frame)))


def frame_of(
    trace: Trace,
    layer: int,
    head: int,
    rows: Span | None,
    columns: Span | None,
    pixels: int,
    *,
    reduction: Reduction = "max",
    raw: bool = True,
    batch: int = 0,
) -> Frame:
    """Lay a rectangle on a pixel grid whose lines stay where they are when it moves."""
    checked_spec(trace, layer, head)
    if reduction not in ("max", "mean", "sampled"):
        raise TraceError(f"A picture reduced by {reduction!r} was asked for; it can be max, mean or sampled.")
    if pixels < 1:
        raise TraceError(f"A picture of {pixels} pixels was asked for, but it needs at least one.")
    rows, columns = checked_span(rows, trace.length, "Rows"), checked_span(columns, trace.length, "Columns")
    high, wide = _cell(rows, pixels), _cell(columns, pixels)
    rows, columns = _aligned(rows, high, trace.length), _aligned(columns, wide, trace.length)
    how: Reduction = "exact" if high == wide == 1 else reduction
    return Frame(layer, head, rows, columns, (high, wide), how, raw, batch)


def _cell(span: Span, pixels: int) -> int:
    """Cells a pixel must cover, so that the span, widened to whole pixels, still fits."""
    cell = -(-(span[1] - span[0]) // pixels)
    while cell > 1 and -(-span[1] // cell) - span[0] // cell > pixels:
        cell += 1
    return cell


def _aligned(span: Span, cell: int, length: int) -> Span:
    return span[0] // cell * cell, min(-(-span[1] // cell) * cell, length)


def _pixels(span: Span, cell: int) -> int:
    return -(-(span[1] - span[0]) // cell)


# ----------------------------------------------------------------------------------------------------------------------
# Squares


def _squares(trace: Trace, frame: Frame) -> list[Frame]:
    """The squares of the pixel grid that a frame touches, whole ones, so that they serve the next frame too."""
    side = max(1, min(SQUARE_SIDE, math.isqrt(SQUARE_CELLS // (frame.cell[0] * frame.cell[1]))))
    return [
        replace(frame, rows=rows, columns=columns)
        for rows in _grid(frame.rows, side * frame.cell[0], trace.length)
        for columns in _grid(frame.columns, side * frame.cell[1], trace.length)
    ]


def _grid(span: Span, step: int, length: int) -> list[Span]:
    """The grid's intervals that a span touches; the last one ends where the run does."""
    return [(start, min(start + step, length)) for start in range(span[0] // step * step, span[1], step)]


def _key(trace: Trace, square: Frame) -> tuple[object, ...]:
    """What a square's numbers depend on: rows of one store never change, so a decode step leaves them valid."""
    return trace.queries[square.layer].store, square


def _overlap(frame: Frame, square: Frame) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Where a square lies in a frame, and which part of the square that is, in pixels."""
    in_frame, in_square = [], []
    for whole, part, cell in zip((frame.rows, frame.columns), (square.rows, square.columns), frame.cell, strict=True):
        low, high = max(whole[0], part[0]), min(whole[1], part[1])
        in_frame.append(slice((low - whole[0]) // cell, -(-(high - whole[0]) // cell)))
        in_square.append(slice((low - part[0]) // cell, -(-(high - part[0]) // cell)))
    return (in_frame[0], in_frame[1]), (in_square[0], in_square[1])


def _patch(frame: Frame, square: Frame, found: _Pixels) -> HeadPatch:
    place, part = _overlap(frame, square)
    return HeadPatch(
        top=place[0].start,
        left=place[1].start,
        scores=frozen(found.scores[part]),
        weights=frozen(found.weights[part]),
        visible=frozen(found.visible[part]),
        raw=None if found.raw is None else frozen(found.raw[part]),
    )


def _joined(frame: Frame, squares: list[tuple[Frame, _Pixels]]) -> _Pixels:
    """Put squares together."""
    whole = _empty(frame, squares[0][1].scores.device)
    for square, found in squares:
        place, part = _overlap(frame, square)
        for to, here in zip(whole.arrays, found.arrays, strict=True):
            to[place] = here[part]
    return whole


def _empty(frame: Frame, device: torch.device) -> _Pixels:
    def zeros(dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(frame.shape, dtype=dtype, device=device)

    return _Pixels(zeros(), zeros(), zeros(torch.bool), zeros() if frame.raw else None)


def _picture(trace: Trace, frame: Frame, found: _Pixels) -> HeadPicture:
    kv_head = trace.specs[frame.layer].kv_head_of(frame.head)
    seen = frozen(found.visible)
    weights = Tile(
        kind="weights",
        layer=frame.layer,
        head=frame.head,
        rows=frame.rows,
        columns=frame.columns,
        values=frozen(found.weights),
        visible=seen,
        reduction=frame.reduction,
        cell=frame.cell,
    )
    raw = None if found.raw is None else frozen(found.raw)
    scores = replace(weights, kind="scores", values=frozen(found.scores), raw=raw)
    return HeadPicture(frame.layer, frame.head, kv_head, scores, weights)


# ----------------------------------------------------------------------------------------------------------------------
# Which cells can be seen


def _reach(spec: AttentionSpec, rows: Span, length: int) -> Span:
    """The range of keys that the queries of ``rows`` can see between them."""
    low = 0 if spec.window is None else max(0, rows[0] - spec.window + 1)
    return low, (rows[1] if spec.causal else length)


def _reaches(trace: Trace, frame: Frame) -> bool:
    """Whether any cell of a frame is visible, padding aside."""
    low, high = _reach(trace.specs[frame.layer], frame.rows, trace.length)
    return frame.columns[0] < high and frame.columns[1] > low


def _starts(span: Span, cell: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The first cell of each pixel along an axis, and where it ends."""
    first = torch.arange(span[0], span[1], cell, device=device)
    return first, (first + cell).clamp_max(span[1])


def _visible_pixels(trace: Trace, frame: Frame) -> Tensor:
    """[h, w] bool: whether any cell under a pixel is visible.

    The ranges of keys that neighbouring queries see overlap, so that a pixel's rows together see one range.
    """
    first, end = _starts(frame.rows, frame.cell[0], trace.positions.device)
    return _real_keys(trace, frame, first, end - 1) > 0


def _visible_counts(trace: Trace, frame: Frame) -> Tensor:
    """[h, w] how many cells under a pixel are visible."""
    queries = torch.arange(*frame.rows, device=trace.positions.device)
    return _grouped(_real_keys(trace, frame, queries, queries), frame.cell[0], 0).sum(1)


def _real_keys(trace: Trace, frame: Frame, first: Tensor, last: Tensor) -> Tensor:
    """[n, w] how many real keys of each pixel's columns lie in the range that queries ``first`` … ``last`` see."""
    spec, device = trace.specs[frame.layer], first.device
    left, right = _starts(frame.columns, frame.cell[1], device)
    low = torch.zeros_like(first) if spec.window is None else (first - spec.window + 1).clamp_min(0)
    high = last + 1 if spec.causal else torch.full_like(last, trace.length)
    start = torch.maximum(low[:, None], left)
    stop = torch.maximum(torch.minimum(high[:, None], right), start)
    if trace.padding is None:
        return stop - start
    before = torch.nn.functional.pad(trace.padding[frame.batch].long().cumsum(0), (1, 0))  # real rows before each
    return before[stop] - before[start]


# ----------------------------------------------------------------------------------------------------------------------
# Reducing blocks of scores


class _Reducer:
    """Walks over a frame in blocks of scores and reduces each to its pixels.

    Blocks are [keys, queries], so that the larger step of every reduction runs over the outer axis, where it is quick
    for any size of pixel, and K is read as it lies. Blocks are pooled over keys alone, into arrays [w, n] for all
    queries of the frame; pooling those over queries comes last, once.
    """

    def __init__(self, trace: Trace, frame: Frame) -> None:
        spec, layer = trace.specs[frame.layer], frame.layer
        self.trace, self.frame, self.spec = trace, frame, spec
        q = trace.queries[layer].tensor[frame.batch, frame.head, slice(*frame.rows)]
        k = trace.keys[layer].tensor[frame.batch, spec.kv_head_of(frame.head), slice(*frame.columns)]
        self.q, self.k = q.float() * spec.scale, k.float()
        self.lse = trace.lse[layer].tensor[frame.batch, frame.head, slice(*frame.rows)]
        self.mean = frame.reduction == "mean"
        self.storage = self.q.new_empty(0)
        shape, fill = (frame.shape[1], len(self.q)), 0.0 if self.mean else -math.inf  # [w, n]
        self.scores = self.q.new_full(shape, fill)
        self.weights = self.q.new_full(shape, fill) if self.mean else None
        self.raw = self.q.new_full(shape, fill) if frame.raw else None

    def steps(self) -> Steps[_Pixels]:
        """Reduce block after block, pausing when a slice of time is over."""
        watch = Watch()
        for rows in _pieces(self.frame.rows, 1, BLOCK_QUERIES):
            for columns in self._reached(rows):
                self._reduce(rows, columns)
                if watch.over:
                    yield Progress(0, 1, WHAT)
                    watch.restart()
        return self._finished()

    def _reached(self, rows: Span) -> list[Span]:
        """The blocks of keys to look at: without scores before the mask, those that a query of ``rows`` sees."""
        low, high = self.frame.columns
        wide = self.frame.cell[1]
        if self.raw is None:
            first, end = _reach(self.spec, rows, self.trace.length)
            low, high = max(low, first // wide * wide), min(high, -(-end // wide) * wide)
        return _pieces((low, max(low, high)), wide, BLOCK_KEYS)

    def _reduce(self, rows: Span, columns: Span) -> None:
        """Pool one block over its keys."""
        wide, origin = self.frame.cell[1], self.frame.columns[0]
        n = slice(rows[0] - self.frame.rows[0], rows[1] - self.frame.rows[0])
        place = slice((columns[0] - origin) // wide, -(-(columns[1] - origin) // wide)), n
        scores = self._block(self.q[n], self.k[columns[0] - origin : columns[1] - origin])  # [m, n]
        if self.raw is not None:
            _pool_into(self.raw[place], scores, wide, self.mean)
        masks = [
            (slice(low - columns[0], high - columns[0]), self._unseen(rows, (low, high)))
            for low, high in self._doubtful(rows, columns)
        ]
        for keys, unseen in masks:
            scores[keys].masked_fill_(unseen, 0.0 if self.mean else -math.inf)
        if self.raw is not None and not masks:
            self.scores[place] = self.raw[place]
        else:
            _pool_into(self.scores[place], scores, wide, self.mean)
        if self.weights is not None:
            weights = scores.sub_(self.lse[n]).exp_()
            for keys, unseen in masks:
                weights[keys].masked_fill_(unseen, 0.0)
            _pool_into(self.weights[place], weights, wide, self.mean)

    def _block(self, q: Tensor, k: Tensor) -> Tensor:
        """Scaled, soft-capped scores [m, n], in storage that every block uses again."""
        keys, queries = k.shape[0], q.shape[0]
        if self.storage.numel() < keys * queries:
            self.storage = q.new_empty(keys * queries)
        scores = torch.mm(k, q.T, out=self.storage[: keys * queries].view(keys, queries))
        return scores if self.spec.cap is None else scores.div_(self.spec.cap).tanh_().mul_(self.spec.cap)

    def _doubtful(self, rows: Span, columns: Span) -> list[Span]:
        """The keys that some query may not see: all where there is padding, else those outside what every query sees.

        What the first query sees last, and the last query sees first, all of them see.
        """
        if self.trace.padding is not None:
            return [columns]
        low = columns[0] if self.spec.window is None else rows[1] - self.spec.window
        high = rows[0] + 1 if self.spec.causal else columns[1]
        if low >= high:
            return [columns]
        parts = [(columns[0], min(low, columns[1])), (max(high, columns[0]), columns[1])]
        return [(start, stop) for start, stop in parts if start < stop]

    def _unseen(self, rows: Span, columns: Span) -> Tensor:
        """[m, n] bool: what the run's own mask hides."""
        trace, batch = self.trace, self.frame.batch
        queries, keys = (torch.arange(*span, device=self.q.device) for span in (rows, columns))
        padding = None if trace.padding is None else trace.padding[batch : batch + 1]
        return visible_keys(self.spec, queries, keys, padding)[0, 0].logical_not_().T

    def _finished(self) -> _Pixels:
        """Pool over queries, turn sums into means, and give what is masked the value 0."""
        frame, high = self.frame, self.frame.cell[0]
        visible = _visible_pixels(self.trace, frame)
        scores = _pooled_rows(self.scores, high, self.mean)
        raw = None if self.raw is None else _pooled_rows(self.raw, high, self.mean)
        if self.weights is None:
            weights = _pooled_rows(self.scores.sub_(self.lse), high, self.mean).exp_()
        else:
            counts = _visible_counts(self.trace, frame).clamp_min(1)
            weights = _pooled_rows(self.weights, high, self.mean).div_(counts)
            scores = scores.div(counts)
            raw = None if raw is None else raw.div_(_cell_counts(frame, self.q.device))
        return _Pixels(scores.masked_fill(~visible, 0.0), weights, visible, raw)


def _reduced(trace: Trace, frame: Frame) -> Steps[_Pixels]:
    """A frame in pixels, pausing when a slice of time is over."""
    return _Reducer(trace, frame).steps()


def _pieces(span: Span, cell: int, about: int) -> list[Span]:
    """Cut a span into pieces of about so many cells, each of whole pixels."""
    step = max(1, about // cell) * cell
    return [(start, min(start + step, span[1])) for start in range(*span, step)]


def _cell_counts(frame: Frame, device: torch.device) -> Tensor:
    """[h, w] how many cells each pixel covers."""
    first, end = _starts(frame.rows, frame.cell[0], device)
    left, right = _starts(frame.columns, frame.cell[1], device)
    return (end - first)[:, None] * (right - left)


def _pool_into(target: Tensor, x: Tensor, size: int, mean: bool) -> None:
    """Largest (or, for a mean, sum) of every ``size`` rows of ``x``; the last group may be smaller."""
    groups = _grouped(x, size, 0.0 if mean else -math.inf)
    if mean:
        torch.sum(groups, 1, out=target)
    else:
        torch.amax(groups, 1, out=target)


def _pooled_rows(x: Tensor, size: int, mean: bool) -> Tensor:
    """Pool [w, n] over n, which gives [h, w]."""
    groups = _grouped(x.T, size, 0.0 if mean else -math.inf)
    return groups.sum(1) if mean else groups.amax(1)


def _grouped(x: Tensor, size: int, fill: float) -> Tensor:
    """[n, m] → [n / size, size, m]; what is missing from the last group is ``fill``."""
    short = -x.shape[0] % size
    if short:
        x = torch.nn.functional.pad(x, (0, 0, 0, short), value=fill)
    return x.reshape(-1, size, x.shape[1])


# ----------------------------------------------------------------------------------------------------------------------
# The coarse picture


def _sampled(trace: Trace, frame: Frame) -> HeadPicture:
    """One exact cell for each pixel: its first, or the one on the diagonal where that crosses the pixel.

    The first column of cells is always among them, and so is every pixel of the diagonal.
    """
    device = trace.positions.device
    (rows, _), (columns, _) = _starts(frame.rows, frame.cell[0], device), _starts(frame.columns, frame.cell[1], device)
    raw = _cells(trace, frame, rows, columns)  # [h, w]
    seen = _seen_cells(trace, frame, rows[:, None], columns)
    lse = trace.lse[frame.layer].tensor[frame.batch, frame.head]
    weights = (raw - lse[rows, None]).exp()
    for diagonal in (rows, columns):
        on = diagonal[(diagonal >= frame.rows[0]) & (diagonal < frame.rows[1])]
        on = on[(on >= frame.columns[0]) & (on < frame.columns[1])]
        on = on[_seen_cells(trace, frame, on, on)]
        place = (on - frame.rows[0]) // frame.cell[0], (on - frame.columns[0]) // frame.cell[1]
        raw[place] = _diagonal(trace, frame, on)
        weights[place] = (raw[place] - lse[on]).exp()
        seen[place] = True
    found = _Pixels(raw.masked_fill(~seen, 0.0), weights.masked_fill(~seen, 0.0), seen, raw if frame.raw else None)
    how: Reduction = "exact" if frame.cell == (1, 1) else "sampled"
    return _picture(trace, replace(frame, reduction=how), found)


def _vectors(trace: Trace, frame: Frame, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    spec = trace.specs[frame.layer]
    q = trace.queries[frame.layer].tensor[frame.batch, frame.head, rows].float() * spec.scale
    return q, trace.keys[frame.layer].tensor[frame.batch, spec.kv_head_of(frame.head), columns].float()


def _capped(scores: Tensor, cap: float | None) -> Tensor:
    return scores if cap is None else cap * torch.tanh(scores / cap)


def _cells(trace: Trace, frame: Frame, rows: Tensor, columns: Tensor) -> Tensor:
    """Scores [n, m] of every row with every column, as before the mask."""
    q, k = _vectors(trace, frame, rows, columns)
    return _capped(q @ k.T, trace.specs[frame.layer].cap)


def _diagonal(trace: Trace, frame: Frame, rows: Tensor) -> Tensor:
    """Scores [n] of each row with itself."""
    q, k = _vectors(trace, frame, rows, rows)
    return _capped((q * k).sum(-1), trace.specs[frame.layer].cap)


def _seen_cells(trace: Trace, frame: Frame, queries: Tensor, keys: Tensor) -> Tensor:
    """Whether each query sees each key; shapes broadcast."""
    spec = trace.specs[frame.layer]
    seen = keys <= queries if spec.causal else torch.ones_like(keys <= queries)
    if spec.window is not None:
        seen = seen & (keys > queries - spec.window)
    return seen if trace.padding is None else seen & trace.padding[frame.batch, keys]
