"""Rows that grow, share and fork: nobody's earlier view ever changes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ropewalk.model.decoder import cache as cache_module
from ropewalk.model.decoder.cache import GROWTH, SMALLEST_ROOM, KvCache, Rows, grow_ahead
from ropewalk.model.errors import ShapeError, TraceError
from ropewalk.model.progress import finished


def counted(start: int, stop: int, batch: int = 1) -> Tensor:
    """[B, 2, n, 3] whose values are the row's number."""
    return torch.arange(start, stop).float()[None, None, :, None].expand(batch, 2, -1, 3).clone()


def handle(rows: Rows) -> list[float]:
    values = rows.tensor
    assert torch.equal(values, values[:, :1, :, :1].expand_as(values))
    return [float(x) for x in values[0, 0, :, 0]]


def start_of(rows: Rows) -> int:
    return rows.tensor.data_ptr()


def test_an_append_into_room_shares_the_storage() -> None:
    first = Rows.of(counted(0, 4), room=3)
    second = first.appended(counted(4, 6)).appended(counted(6, 7))
    assert start_of(first) == start_of(second)
    assert handle(first) == [0, 1, 2, 3]
    assert handle(second) == [0, 1, 2, 3, 4, 5, 6]


def test_an_append_past_the_room_moves_and_leaves_the_older_view() -> None:
    first = Rows.of(counted(0, 4))
    second = first.appended(counted(4, 5))
    assert start_of(first) != start_of(second)
    assert (handle(first), handle(second)) == ([0, 1, 2, 3], [0, 1, 2, 3, 4])


def test_an_append_to_an_older_view_forks() -> None:
    first = Rows.of(counted(0, 4), room=10)
    second = first.appended(counted(4, 6))
    other = first.appended(counted(70, 71))
    third = second.appended(counted(6, 7))
    assert handle(first) == [0, 1, 2, 3]
    assert handle(second) == [0, 1, 2, 3, 4, 5]
    assert handle(third) == [0, 1, 2, 3, 4, 5, 6]
    assert handle(other) == [0, 1, 2, 3, 70]
    assert start_of(third) == start_of(first) != start_of(other)


def test_a_step_back_is_a_slice_and_going_on_from_it_forks() -> None:
    whole = Rows.of(counted(0, 6), room=4)
    back = whole.first(3)
    assert start_of(back) == start_of(whole)
    branch = back.appended(counted(90, 92))
    assert (handle(whole), handle(back), handle(branch)) == ([0, 1, 2, 3, 4, 5], [0, 1, 2], [0, 1, 2, 90, 91])


def test_rows_without_room_are_the_tensor_itself_and_never_written() -> None:
    given = counted(0, 3)
    rows = Rows.of(given)
    assert start_of(rows) == given.data_ptr()
    rows.appended(counted(50, 51))
    assert torch.equal(given, counted(0, 3))


def test_rows_never_hold_a_graph() -> None:
    rows = Rows.of(counted(0, 2).requires_grad_(), room=2).appended(counted(2, 3).requires_grad_())
    assert not rows.tensor.requires_grad


@pytest.mark.parametrize("asked", [-1, 5])
def test_more_rows_than_there_are_is_refused_with_both_numbers(asked: int) -> None:
    with pytest.raises(TraceError, match=f"{asked} rows .* there are 4"):
        Rows.of(counted(0, 4)).first(asked)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (torch.zeros(2, 2, 1, 3), r"\(2, 2, 1, 3\)"),  # another batch would broadcast
        (torch.zeros(1, 1, 1, 3), r"\(1, 1, 1, 3\)"),
        (torch.zeros(1, 2, 1, 4), r"\(1, 2, 1, 4\)"),
        (torch.zeros(1, 2, 1, 3).half(), "float16"),
    ],
)
def test_rows_of_another_shape_or_dtype_are_refused(other: Tensor, named: str) -> None:
    with pytest.raises(ShapeError, match=named + r".*\(1, 2, 4, 3\)"):
        Rows.of(counted(0, 4), room=4).appended(other)


def test_growth_keeps_unused_room_small_and_moves_rare() -> None:
    rows, moves = Rows.of(counted(0, 1)), 0
    for n in range(1, 3000):
        grown = rows.appended(counted(n, n + 1))
        moves += start_of(grown) != start_of(rows)
        rows = grown
        room = rows.reserved_bytes - rows.used_bytes
        assert room <= max(SMALLEST_ROOM, rows.length // GROWTH) * 2 * 3 * 4
    assert handle(rows) == list(range(3000))
    assert moves <= 30


ROW = 2 * 3 * 4
"""Bytes of one row [1, 2, 1, 3] in float32."""


def test_growing_ahead_moves_a_share_with_each_step_and_no_append_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "LEAST_MOVED", ROW)
    start, room = 4096, 64
    stores = [Rows.of(counted(0, start), room=room) for _ in range(3)]
    views, copied, moved = list(stores), [], 0
    for n in range(start, start + 400):
        fits = [rows.reserved_bytes >= (n + 1) * ROW for rows in stores]
        assert all(fits)  # so the append below writes one row and copies none
        before = [start_of(rows) for rows in stores]
        stores = [rows.appended(counted(n, n + 1)) for rows in stores]
        assert [start_of(rows) for rows in stores] == before
        copied.append(grow_ahead(stores))
        moved += [start_of(rows) for rows in stores] != before
    whole = 3 * start * ROW
    assert 0 < max(copied) <= whole / (start / cache_module.NEARLY_FULL) * 1.1  # a 32nd of everything at most
    assert whole <= sum(copied) <= 1.1 * whole
    assert copied[: room - start // cache_module.NEARLY_FULL - 1] == [0] * (
        room - start // cache_module.NEARLY_FULL - 1
    )
    assert moved == 3  # one store after another
    for rows, view in zip(stores, views, strict=True):
        assert handle(rows) == list(range(start + 400))
        assert handle(view) == list(range(start))


def test_a_store_that_somebody_went_on_from_is_not_moved_for_its_older_view() -> None:
    first = Rows.of(counted(0, 4), room=1)
    first.appended(counted(4, 5))
    assert (first.is_behind, grow_ahead([first])) == (True, 0)


def test_while_rows_move_both_stores_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "LEAST_MOVED", ROW)
    rows = Rows.of(counted(0, 1024), room=8)
    alone = rows.reserved_bytes
    assert grow_ahead([rows]) == 1024 // 8 * ROW
    assert rows.reserved_bytes == alone + (1024 + 1024 // GROWTH) * ROW


def test_going_on_from_an_earlier_view_can_be_copied_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "LEAST_MOVED", 4 * ROW)
    monkeypatch.setattr("ropewalk.model.progress.Watch.over", True)
    whole = Rows.of(counted(0, 40))
    steps = whole.first(10).apart_steps()
    assert [(point.done, point.total) for point in (next(steps), next(steps), next(steps))] == [
        (4, 10),
        (8, 10),
        (10, 10),
    ]
    apart = finished(steps)
    assert not apart.is_behind
    assert not apart.is_copied_to_grow
    assert Rows.of(torch.zeros(1, 1, 3, 2)).is_copied_to_grow
    assert not Rows.of(torch.zeros(1, 1, 3, 2), room=1).is_copied_to_grow
    assert start_of(apart.appended(counted(90, 91))) == start_of(apart) != start_of(whole)
    assert (handle(apart), handle(whole)) == (list(range(10)), list(range(40)))


def test_bytes_are_counted_from_the_tensors() -> None:
    rows = Rows.of(counted(0, 4), room=6)
    assert (rows.used_bytes, rows.reserved_bytes) == (2 * 4 * 3 * 4, 2 * 10 * 3 * 4)


# The cache of a model


def grown(cache: KvCache, start: int, stop: int, layers: int = 2) -> KvCache:
    for layer in range(layers):
        key, value = cache.append(layer, counted(start, stop), counted(start + 100, stop + 100))
        assert key.shape == value.shape == (1, 2, stop, 3)
    return cache


def test_a_cache_hands_out_all_rows_of_a_layer() -> None:
    cache = grown(grown(KvCache(2), 0, 4), 4, 5)
    keys, values = cache.filled()
    assert [handle(rows) for rows in keys] == [[0, 1, 2, 3, 4]] * 2
    assert [handle(rows) for rows in values] == [[100, 101, 102, 103, 104]] * 2


def test_its_length_is_that_of_the_last_layer() -> None:
    cache = KvCache(2)
    assert cache.length == 0
    cache.append(0, counted(0, 4), counted(0, 4))
    assert cache.length == 0  # the pass is not over
    cache.append(1, counted(0, 4), counted(0, 4))
    assert cache.length == 4


def test_room_asked_for_is_used_before_anything_moves() -> None:
    cache = grown(KvCache(1, room=8), 0, 4, layers=1)
    before = cache.filled()[0][0]
    grown(cache, 4, 12, layers=1)
    assert start_of(cache.filled()[0][0]) == start_of(before)


def test_an_earlier_cache_is_independent() -> None:
    cache = grown(KvCache(2, room=8), 0, 6)
    back = cache.first(3)
    assert start_of(back.filled()[0][0]) == start_of(cache.filled()[0][0])
    grown(back, 3, 5)
    assert (cache.length, back.length) == (6, 5)
    assert handle(cache.filled()[0][1]) == [0, 1, 2, 3, 4, 5]


def test_a_cache_that_holds_someones_rows_never_changes_them() -> None:
    keys, values = [Rows.of(counted(0, 3), room=5)], [Rows.of(counted(100, 103), room=5)]
    cache = grown(KvCache.holding(keys, values), 3, 4, layers=1)
    assert handle(keys[0]) == [0, 1, 2]
    assert handle(cache.filled()[0][0]) == [0, 1, 2, 3]


@pytest.mark.parametrize("past", [0, 4])
def test_what_a_failed_pass_left_behind_is_forgotten(past: int) -> None:
    cache = grown(KvCache(2, room=8), 0, past) if past else KvCache(2, room=8)
    cache.append(0, counted(70, 72), counted(70, 72))  # the pass fails before layer 1
    grown(cache, past, past + 1)
    assert [handle(rows) for rows in cache.filled()[0]] == [list(range(past + 1))] * 2


def test_a_cache_of_an_unfinished_pass_is_refused_with_both_numbers() -> None:
    cache = KvCache(3)
    cache.append(0, counted(0, 2), counted(0, 2))
    with pytest.raises(TraceError, match="Only 1 of 3 layers"):
        cache.filled()


def test_cache_bytes_are_two_times_layers_times_rows() -> None:
    cache = grown(KvCache(2, room=6), 0, 4)
    assert cache.used_bytes == 2 * 2 * (2 * 4 * 3 * 4)  # K and V, two layers, [1, 2, 4, 3] in float32
    assert cache.reserved_bytes == 2 * 2 * (2 * 10 * 3 * 4)
