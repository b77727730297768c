"""Pictures of one head: any rectangle of scores and weights in as few pixels as the screen can show.

A picture is *exact* where a pixel is one cell, and otherwise the *max* or *mean* of the cells it covers. What is too
large for one slice of time is first *sampled*: exact values on a lattice, with the diagonal and the first column. Then
it is refined square by square, and the squares are kept within a byte budget, so that panning computes only what comes
into view. Nothing here is T × T.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace

from ropewalk.model.decoder.scores import Span
from ropewalk.model.progress import Partial, Progress, Steps, finished, saying
from ropewalk.model.readings.frames import Frame, Pixels, frame_of, reaches, starts
from ropewalk.model.readings.readout import frozen
from ropewalk.model.readings.records import HeadPatch, HeadPicture, Reduction, Tile
from ropewalk.model.readings.reducer import reduced
from ropewalk.model.readings.score_blocks import Room
from ropewalk.model.runs.layer_trace import LayerTrace

AT_ONCE = 1 << 21
"""Cells that are reduced without a pause: about 10 ms on one core, so that another head is seen within a few frames."""
SQUARE_SIDE = 128
"""Pixels along a refined square, unless it would cover fewer cells than are worth one, or more than are one step."""
LEAST_CELLS, MOST_CELLS = 1 << 22, 1 << 24
CACHE_BYTES = 256 << 20
WHAT = "Refining the picture"


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
        self._squares: OrderedDict[tuple[object, ...], Pixels] = OrderedDict()

    def resize(self, limit: int) -> None:
        """Keep at most ``limit`` bytes from now on."""
        self.limit = limit
        self._shrink()

    def get(self, key: tuple[object, ...]) -> Pixels | None:
        """A square that is kept; it counts as used now."""
        square = self._squares.get(key)
        if square is not None:
            self._squares.move_to_end(key)
        return square

    def keep(self, key: tuple[object, ...], square: Pixels) -> None:
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
    layer: LayerTrace,
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
    frame = frame_of(layer, head, rows, columns, pixels, reduction=reduction, raw=raw, batch=batch)
    if frame.reduction == "sampled":
        return _sampled(layer, frame)
    if frame.cells <= AT_ONCE:
        return _picture(layer, frame, finished(reduced(layer, frame)))
    squares = [] if cache is None else [(one, cache.get(_key(layer, one))) for one in _squares(layer, frame)]
    if squares and all(found is not None for _, found in squares):
        return _picture(layer, frame, _joined(frame, [(one, found) for one, found in squares if found is not None]))
    return _sampled(layer, frame)


def refine_steps(
    layer: LayerTrace,
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

    Yields a :class:`~model.progress.Partial` with a :class:`~model.readings.records.HeadPatch` for every square that is
    ready, top to bottom, those with a visible cell first; pauses often; returns the whole picture.
    """
    kept = TileCache() if cache is None else cache
    frame = frame_of(layer, head, rows, columns, pixels, reduction=reduction, raw=raw, batch=batch)
    if frame.reduction == "sampled":
        return _sampled(layer, frame)
    squares = sorted(_squares(layer, frame), key=lambda one: not reaches(layer, one))
    whole, room = Pixels.empty(frame, layer.positions.device), Room()
    for number, square in enumerate(squares):
        key, (place, part) = _key(layer, square), _overlap(frame, square)
        found = kept.get(key)
        if found is None:
            into = whole.part(place) if _is_inside(square, frame) else None
            found = yield from saying(Progress(number, len(squares), WHAT), reduced(layer, square, into, room))
            kept.keep(key, found)
        else:
            into = None
        if into is None:
            whole.put(place, found.part(part))
        yield Partial(number + 1, len(squares), WHAT, _patch(place, found.part(part)))
    return _picture(layer, frame, whole)


# ----------------------------------------------------------------------------------------------------------------------
# Squares


def _squares(layer: LayerTrace, frame: Frame) -> list[Frame]:
    """The squares of the pixel grid that a frame touches, whole ones, so that they serve the next frame too."""
    least, most = (math.isqrt(cells // (frame.cell[0] * frame.cell[1])) for cells in (LEAST_CELLS, MOST_CELLS))
    side = max(1, min(max(SQUARE_SIDE, least), most))
    return [
        replace(frame, rows=rows, columns=columns)
        for rows in _grid(frame.rows, side * frame.cell[0], layer.length)
        for columns in _grid(frame.columns, side * frame.cell[1], layer.length)
    ]


def _grid(span: Span, step: int, length: int) -> list[Span]:
    """The grid's intervals that a span touches; the last one ends where the run does."""
    return [(start, min(start + step, length)) for start in range(span[0] // step * step, span[1], step)]


def _key(layer: LayerTrace, square: Frame) -> tuple[object, ...]:
    """What a square's numbers depend on: rows of one store never change, so a decode step leaves them valid."""
    return layer.queries.store, square


def _overlap(frame: Frame, square: Frame) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Where a square lies in a frame, and which part of the square that is, in pixels."""
    in_frame, in_square = [], []
    for whole, part, cell in zip((frame.rows, frame.columns), (square.rows, square.columns), frame.cell, strict=True):
        low, high = max(whole[0], part[0]), min(whole[1], part[1])
        in_frame.append(slice((low - whole[0]) // cell, -(-(high - whole[0]) // cell)))
        in_square.append(slice((low - part[0]) // cell, -(-(high - part[0]) // cell)))
    return (in_frame[0], in_frame[1]), (in_square[0], in_square[1])


def _is_inside(square: Frame, frame: Frame) -> bool:
    spans = zip((frame.rows, frame.columns), (square.rows, square.columns), strict=True)
    return all(whole[0] <= part[0] and part[1] <= whole[1] for whole, part in spans)


def _patch(place: tuple[slice, slice], found: Pixels) -> HeadPatch:
    return HeadPatch(
        top=place[0].start,
        left=place[1].start,
        scores=frozen(found.scores),
        weights=frozen(found.weights),
        visible=frozen(found.visible),
        raw=None if found.raw is None else frozen(found.raw),
    )


def _joined(frame: Frame, squares: list[tuple[Frame, Pixels]]) -> Pixels:
    """Put squares together."""
    whole = Pixels.empty(frame, squares[0][1].scores.device)
    for square, found in squares:
        place, part = _overlap(frame, square)
        whole.put(place, found.part(part))
    return whole


def _picture(layer: LayerTrace, frame: Frame, found: Pixels) -> HeadPicture:
    seen = frozen(found.visible)
    weights = Tile(
        kind="weights",
        layer=layer.spec.layer,
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
    return HeadPicture(layer.spec.layer, frame.head, layer.spec.kv_head_of(frame.head), scores, weights)


# ----------------------------------------------------------------------------------------------------------------------
# The coarse picture


def _sampled(layer: LayerTrace, frame: Frame) -> HeadPicture:
    """One exact cell for each pixel: its first, or the one on the diagonal where that crosses the pixel.

    The first column of cells is always among them, and so is every pixel of the diagonal.
    """
    head, batch, device = frame.head, frame.batch, layer.positions.device
    (rows, _), (columns, _) = starts(frame.rows, frame.cell[0], device), starts(frame.columns, frame.cell[1], device)
    fine = layer.precision(head, rows, batch=batch)
    raw = layer.raw_scores(head, rows, columns, batch=batch, dtype=fine)  # [h, w]
    seen = layer.visible(rows, columns, batch=batch)
    weights = layer.log_weights(raw, head, rows, batch=batch).exp_()
    for diagonal in (rows, columns):
        on = diagonal[(diagonal >= frame.rows[0]) & (diagonal < frame.rows[1])]
        on = on[(on >= frame.columns[0]) & (on < frame.columns[1])]
        on = on[layer.sees(on, on, batch=batch)]
        place = (on - frame.rows[0]) // frame.cell[0], (on - frame.columns[0]) // frame.cell[1]
        raw[place] = layer.paired_scores(on, on, head, batch=batch, dtype=fine)
        weights[place] = layer.log_weights(raw[place][:, None], head, on, batch=batch)[:, 0].exp_()
        seen[place] = True
    raw, weights = raw.float(), weights.float().masked_fill_(~seen, 0.0)
    found = Pixels(raw.masked_fill(~seen, 0.0), weights, seen, raw if frame.raw else None)
    how: Reduction = "exact" if frame.cell == (1, 1) else "sampled"
    return _picture(layer, replace(frame, reduction=how), found)
