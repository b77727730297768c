"""Pictures against the exact readings, pixel by pixel; and how much is computed for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from ropewalk.model.decoder.cache import Rows
from ropewalk.model.decoder.decoder import Decoder
from ropewalk.model.decoder.interventions import ScaleScores
from ropewalk.model.errors import TraceError
from ropewalk.model.progress import Partial, finished
from ropewalk.model.readings import frames, readout, reducer, tiles
from ropewalk.model.readings.records import Bools, Floats, HeadPatch, HeadPicture, Reduction
from ropewalk.model.readings.score_blocks import ScoreBlocks
from ropewalk.model.readings.tiles import TileCache, read_head, refine_steps
from ropewalk.model.runs.layer_trace import LayerTrace
from ropewalk.model.runs.trace import Trace, append, capture
from tests.closeness import assert_close
from tests.model.small_models import BASE, CONFIGS, make, random_ids

POOLS: dict[Reduction, Callable[[Floats], np.floating]] = {"max": np.max, "mean": np.mean}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and squares so small that a short run needs many of them, and nothing done at once."""
    monkeypatch.setattr(reducer, "BLOCK_QUERIES", 6)
    monkeypatch.setattr(reducer, "BLOCK_KEYS", 9)
    monkeypatch.setattr(reducer, "BAND_CELLS", 100)
    monkeypatch.setattr(tiles, "SQUARE_SIDE", 4)
    monkeypatch.setattr(tiles, "LEAST_CELLS", 0)
    monkeypatch.setattr(tiles, "AT_ONCE", 0)


def padded_trace(name: str, tokens: int) -> Trace:
    """A run of two prompts, the second one padded on the left by five."""
    padding = torch.ones(2, tokens, dtype=torch.bool)
    padding[1, :5] = False
    return capture(make(name), random_ids(tokens, batch=2), padding=padding)


def pooled(values: Floats, visible: Bools, picture: HeadPicture, reduction: Reduction) -> Floats:
    """The obvious twin: loop over pixels and pool the visible cells of each."""
    (r0, r1), (c0, c1), (high, wide) = picture.weights.rows, picture.weights.columns, picture.weights.cell
    found = np.zeros((-(-(r1 - r0) // high), -(-(c1 - c0) // wide)), np.float32)
    for i, r in enumerate(range(r0, r1, high)):
        for j, c in enumerate(range(c0, c1, wide)):
            block = slice(r, min(r + high, r1)), slice(c, min(c + wide, c1))
            seen = values[block][visible[block]]
            found[i, j] = POOLS[reduction](seen) if seen.size else 0.0
    return found


def refined(steps: Iterator[object], coarse: HeadPicture) -> tuple[HeadPicture, list[HeadPatch]]:
    """The result, and the patches that came before it."""
    patches: list[HeadPatch] = []
    while True:
        try:
            point = next(steps)
        except StopIteration as stop:
            return stop.value, patches
        if isinstance(point, Partial):
            assert isinstance(point.reading, HeadPatch)
            patches.append(point.reading)


@pytest.mark.parametrize("reduction", ["max", "mean"])
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("batch", [0, 1])
def test_a_refined_picture_pools_the_visible_cells_of_each_pixel(
    name: str, reduction: Reduction, batch: int, small_blocks: None
) -> None:
    trace = padded_trace(name, 43)
    rows, columns = (3, 43), (1, 38)
    picture = finished(refine_steps(trace[1], 2, rows, columns, 14, reduction=reduction, batch=batch))
    scores, weights = (read(trace[1], 2, batch=batch) for read in (readout.scores, readout.weights))
    visible: Bools = np.isfinite(scores)
    raw = readout.raw_scores(trace[1], 2, batch=batch)
    everything: Bools = np.ones_like(visible)
    assert picture.weights.reduction == reduction
    assert max(picture.weights.values.shape) <= 14
    assert picture.weights.values == pytest.approx(pooled(weights, visible, picture, reduction), abs=1e-6)
    assert picture.scores.values == pytest.approx(pooled(scores, visible, picture, reduction), abs=1e-5)
    assert picture.scores.raw == pytest.approx(pooled(raw, everything, picture, reduction), abs=1e-5)
    assert np.array_equal(picture.weights.visible, pooled(np.ones_like(weights), visible, picture, "max") > 0)
    assert picture.kv_head == trace.specs[1].kv_head_of(2)


@pytest.mark.parametrize("name", CONFIGS)
def test_at_once_and_square_by_square_are_the_same_picture(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = padded_trace(name, 61)
    whole = read_head(trace[2], 3, (2, 60), (4, 61), 13, batch=1)
    monkeypatch.setattr(tiles, "SQUARE_SIDE", 3)
    monkeypatch.setattr(tiles, "LEAST_CELLS", 0)
    pieces = finished(refine_steps(trace[2], 3, (2, 60), (4, 61), 13, batch=1))
    for one, other in ((whole.weights, pieces.weights), (whole.scores, pieces.scores)):
        assert one.values == pytest.approx(other.values, abs=1e-6)
        assert np.array_equal(one.visible, other.visible)
        assert (one.rows, one.columns, one.cell) == (other.rows, other.columns, other.cell)


@pytest.mark.parametrize("name", CONFIGS)
def test_zoomed_in_the_cells_are_exact(name: str) -> None:
    trace = capture(make(name), random_ids(40))
    picture = read_head(trace[0], 3, (11, 29), (5, 40), 64)
    assert picture.weights.reduction == "exact"
    assert picture.weights.cell == (1, 1)
    assert (picture.weights.rows, picture.weights.columns) == ((11, 29), (5, 40))
    assert picture.weights.values == pytest.approx(readout.weights(trace[0], 3, (11, 29), (5, 40)), abs=1e-6)
    scores = readout.scores(trace[0], 3, (11, 29), (5, 40))
    seen = np.isfinite(scores)
    assert np.array_equal(picture.scores.visible, seen)
    assert picture.scores.values[seen] == pytest.approx(scores[seen], abs=1e-5)
    assert not picture.scores.values[~seen].any()


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("batch", [0, 1])
def test_a_coarse_picture_holds_cells_the_diagonal_and_the_first_column(
    name: str, batch: int, small_blocks: None
) -> None:
    trace = padded_trace(name, 47)
    picture = read_head(trace[1], 1, (3, 47), None, 9, batch=batch)  # pixels of 5 × 6 cells: the grids do not meet
    assert picture.weights.reduction == "sampled"
    (r0, _), (c0, _), (high, wide) = picture.weights.rows, picture.weights.columns, picture.weights.cell
    weights, scores = readout.weights(trace[1], 1, batch=batch), readout.scores(trace[1], 1, batch=batch)
    for (i, j), value in np.ndenumerate(picture.weights.values):
        block = slice(r0 + i * high, r0 + (i + 1) * high), slice(c0 + j * wide, c0 + (j + 1) * wide)
        assert np.abs(weights[block] - value).min() < 1e-6
        if picture.weights.visible[i, j]:
            assert np.abs(scores[block] - picture.scores.values[i, j]).min() < 1e-5
    first = weights[r0::high, 0][: len(picture.weights.values)]
    assert picture.weights.values[2:, 0] == pytest.approx(first[2:], abs=1e-6)
    for query in range(r0, 47):
        if batch == 0:  # the other prompt begins with padding
            assert picture.weights.visible[(query - r0) // high, (query - c0) // wide]


def test_patches_laid_over_the_coarse_picture_make_the_refined_one(small_blocks: None) -> None:
    trace = capture(make("window"), random_ids(50))
    where = ((4, 50), (0, 41), 12)
    coarse = read_head(trace[0], 2, *where)
    whole, patches = refined(refine_steps(trace[0], 2, *where), coarse)
    values = {name: np.full(coarse.weights.values.shape, np.nan, np.float32) for name in ("weights", "scores", "raw")}
    for patch in patches:
        for name, canvas in values.items():
            array = getattr(patch, name)
            canvas[patch.top : patch.top + len(array), patch.left : patch.left + array.shape[1]] = array
    assert len(patches) > 4
    assert np.array_equal(values["weights"], whole.weights.values)
    assert np.array_equal(values["scores"], whole.scores.values)
    assert whole.scores.raw is not None
    assert np.array_equal(values["raw"], whole.scores.raw)


def test_without_scores_before_the_mask_hidden_squares_cost_nothing(
    small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = 0
    block = ScoreBlocks.block

    def counted(self: ScoreBlocks, n: slice, columns: tuple[int, int]) -> torch.Tensor:
        nonlocal cells
        scores = block(self, n, columns)
        cells += scores.numel()
        return scores

    monkeypatch.setattr(ScoreBlocks, "block", counted)
    trace = capture(make("plain"), random_ids(120))
    picture = finished(refine_steps(trace[0], 0, pixels=40, raw=False))
    assert picture.scores.raw is None
    half = 120 * 121 // 2
    assert half <= cells <= half + 120 * (reducer.BLOCK_QUERIES + reducer.BLOCK_KEYS)


# ----------------------------------------------------------------------------------------------------------------------
# The cache: what a pan costs


def test_a_pan_computes_only_the_squares_that_come_into_view(small_blocks: None) -> None:
    trace, cache = capture(make("plain"), random_ids(128)), TileCache()
    first = finished(refine_steps(trace[0], 1, (0, 64), (0, 64), 16, cache=cache))  # cells of 4, squares of 4 pixels
    assert first.weights.cell == (4, 4)
    assert cache.computed == 16
    finished(refine_steps(trace[0], 1, (0, 64), (0, 64), 16, cache=cache))
    assert cache.computed == 16
    panned = finished(refine_steps(trace[0], 1, (0, 64), (8, 72), 16, cache=cache))  # two pixels to the right
    assert cache.computed == 16 + 4
    finished(refine_steps(trace[0], 1, (0, 64), (16, 80), 16, cache=cache))  # the same five columns of squares
    assert cache.computed == 16 + 4
    fresh = finished(refine_steps(trace[0], 1, (0, 64), (8, 72), 16))
    assert_close(panned.weights.values, fresh.weights.values, trace.config.head_width)


def test_what_was_refined_is_given_at_once_afterwards(small_blocks: None) -> None:
    trace, cache = capture(make("plain"), random_ids(64)), TileCache()
    assert read_head(trace[0], 1, pixels=16, cache=cache).weights.reduction == "sampled"
    whole = finished(refine_steps(trace[0], 1, pixels=16, cache=cache))
    again = read_head(trace[0], 1, pixels=16, cache=cache)
    assert again.weights.reduction == "max"
    assert np.array_equal(again.weights.values, whole.weights.values)


def test_a_step_leaves_the_squares_of_older_rows_and_a_branch_does_not_take_its_sibling(small_blocks: None) -> None:
    model = make("plain")
    start, cache = capture(model, random_ids(64)), TileCache()
    finished(refine_steps(start[0], 1, pixels=17, cache=cache))  # cells of 4, squares of 16 cells
    one = append(model, start, 3)
    before = cache.computed
    finished(refine_steps(one[0], 1, pixels=17, cache=cache))
    assert cache.computed == before + 5 + 4  # the new bottom row of squares and the new right column
    other = append(model, start, 9)
    found = finished(refine_steps(other[0], 1, pixels=17, cache=cache))
    fresh = finished(refine_steps(other[0], 1, pixels=17))
    assert_close(found.weights.values[-1], fresh.weights.values[-1], BASE.head_width)


def test_the_cache_keeps_within_its_bytes_and_drops_the_least_recently_used(small_blocks: None) -> None:
    trace, cache = capture(make("plain"), random_ids(64)), TileCache()
    finished(refine_steps(trace[0], 0, pixels=16, cache=cache))
    one_head, squares = cache.bytes, len(cache)
    assert one_head == 16 * 16 * (3 * 4 + 1)
    cache.resize(2 * one_head)
    for head in (1, 0, 2):  # head 0 is used again before head 2 comes
        finished(refine_steps(trace[0], head, pixels=16, cache=cache))
    assert cache.bytes <= 2 * one_head
    computed = cache.computed
    finished(refine_steps(trace[0], 0, pixels=16, cache=cache))
    assert cache.computed == computed
    finished(refine_steps(trace[0], 1, pixels=16, cache=cache))
    assert cache.computed == computed + squares
    cache.resize(0)
    assert (len(cache), cache.bytes) == (0, 0)


# ----------------------------------------------------------------------------------------------------------------------
# The shape of the cost


def long_trace(tokens: int) -> Trace:
    """A run of one layer whose numbers are random, made without running it."""
    generator = torch.Generator().manual_seed(0)
    short = capture(Decoder(BASE.changed(layers=1, max_position=tokens)), random_ids(4))

    def rows(like: Rows) -> Rows:
        return Rows.of(torch.randn((*like.tensor.shape[:2], tokens, *like.tensor.shape[3:]), generator=generator))

    positions = torch.arange(tokens)[None]
    return replace(
        short,
        layers=(LayerTrace(short[0].spec, positions, None, *map(rows, short[0].rows)),),
        positions=positions,
        prefill=tokens,
    )


@pytest.mark.parametrize(("tokens", "first"), [(512, "max"), (1024, "max"), (2048, "sampled"), (8192, "sampled")])
def test_a_head_whose_cells_take_long_is_shown_sampled_first(tokens: int, first: Reduction) -> None:
    assert read_head(long_trace(tokens)[0], 1, pixels=256).weights.reduction == first


def test_a_long_run_is_refined_in_pauses_and_without_anything_tokens_by_tokens() -> None:
    trace = long_trace(8192)
    largest = 0
    for point in refine_steps(trace[0], 1, pixels=128, raw=False):
        if isinstance(point, Partial) and isinstance(point.reading, HeadPatch):
            largest = max(largest, point.reading.weights.size)
    assert largest <= tiles.SQUARE_SIDE**2
    assert read_head(trace[0], 1, pixels=128).weights.values.shape == (128, 128)


@pytest.mark.parametrize("span", [(0, 32768), (5, 32767), (1000, 20001), (7, 520), (0, 1), (31, 33)])
@pytest.mark.parametrize("pixels", [1, 7, 512])
def test_a_span_widened_to_whole_pixels_fits(span: tuple[int, int], pixels: int) -> None:
    cell = frames._cell(span, pixels)
    start, stop = frames._aligned(span, cell, 32768)
    assert start <= span[0] < span[1] <= stop
    assert -(-(stop - start) // cell) <= pixels
    assert start % cell == 0


def test_what_cannot_be_drawn_is_refused() -> None:
    trace = capture(make("plain"), random_ids(4))
    with pytest.raises(TraceError, match="Layer 3 was asked for, but this run's layers are 0 to 2"):
        read_head(trace[3], 0)
    with pytest.raises(TraceError, match="L2H4 was asked for, but the layer has 4 heads, from 0 to 3"):
        read_head(trace[2], 4)
    with pytest.raises(TraceError, match="Rows 2 to 9 were asked for, but this run has 4 rows"):
        read_head(trace[0], 0, (2, 9))
    with pytest.raises(TraceError, match="reduced by 'median'"):
        read_head(trace[0], 0, reduction="median")  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="picture of 0 pixels"):
        read_head(trace[0], 0, pixels=0)


@pytest.mark.parametrize("name", CONFIGS)
def test_no_weight_passes_1_where_scores_are_a_thousand_times_as_large(name: str) -> None:
    """Float32 then has places for a score to some 1e-3, and the kept log-sum-exp is off by as much."""
    padding = torch.ones(2, 40, dtype=torch.bool)
    padding[1, :5] = False
    trace = capture(make(name), random_ids(40, batch=2), padding=padding, interventions=[ScaleScores(1000.0)])
    rows = torch.arange(40)
    worst = 0.0
    for layer in trace:
        for head in range(4):
            scores = layer.scores(head, batch=1, dtype=torch.float64)
            sinks = layer.sink_logits()
            joined = scores if sinks is None else torch.cat([scores, sinks[head].double().expand(40, 1)], 1)
            expected = joined.softmax(-1)[:, :40].nan_to_num(0.0).float()
            kept = layer.lse.tensor[1, head]
            worst = max(worst, float((scores.float() - kept[:, None]).exp().max()))
            before = (rows - 1).clamp_min(0)
            found = {
                "all": layer.weights(head, batch=1),
                "heads together": layer.weights(batch=1)[head],
                "exact": torch.tensor(read_head(layer, head, batch=1).weights.values),
                "pairs": layer.paired_weights(rows, before, head, batch=1),
            }
            found["row"] = torch.tensor(readout.read_row(layer, head, 30, batch=1).weights)
            cell = readout.read_cell(layer, head, 30, 12, batch=1)
            wanted = dict.fromkeys(found, expected) | {"pairs": expected[rows, before], "row": expected[30].double()}
            for way, weights in found.items():
                assert float(weights.max()) <= 1.0, way
                torch.testing.assert_close(weights, wanted[way], rtol=0.0, atol=2e-4, msg=way)
            assert cell.weight == pytest.approx(float(expected[30, 12]), abs=2e-4)
            coarse = read_head(layer, head, pixels=10, batch=1)
            whole, _ = refined(refine_steps(layer, head, pixels=10, batch=1), coarse)
            blocks = expected.view(10, 4, 10, 4).amax((1, 3))
            torch.testing.assert_close(torch.tensor(whole.weights.values), blocks, rtol=0.0, atol=2e-4)
            assert coarse.weights.values.max() <= 1.0
    assert worst > 1.0 or name == "soft_cap", "or nothing is proved"


def test_a_key_that_is_no_number_spoils_only_what_sees_it(small_blocks: None) -> None:
    trace = capture(make("plain"), random_ids(24))
    keys = trace[0].keys.tensor.clone()
    keys[:, :, 10] = float("nan")
    broken = replace(trace[0], keys=Rows.of(keys))
    whole, sound = (finished(refine_steps(one, 1, (0, 10), None, 8, raw=False)) for one in (broken, trace[0]))
    assert np.array_equal(whole.weights.values, sound.weights.values)
    assert np.isnan(finished(refine_steps(broken, 1, None, None, 8, raw=False)).weights.values).any()
