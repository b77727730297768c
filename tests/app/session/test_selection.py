"""The selection: clamped, announced once, walked back and forth."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk.app.session.selection import Bounds, Hover, Selection, SelectionStore

BOUNDS = Bounds(layers=4, heads=8, rows=12, planes=8)


@pytest.fixture
def heard() -> list[tuple[Selection, Selection]]:
    """What was announced."""
    return []


@pytest.fixture
def store(heard: list[tuple[Selection, Selection]]) -> SelectionStore:
    """A store bound to a run of twelve rows."""
    store = SelectionStore()
    store.bind(BOUNDS, step=12)
    store.changed.connect(lambda before, after: heard.append((before, after)))
    return store


def test_an_update_is_announced_once_with_before_and_after(
    store: SelectionStore, heard: list[tuple[Selection, Selection]]
) -> None:
    store.update(layer=2, query=5)
    ((before, after),) = heard
    assert before.differences(after) == {"layer", "query"}
    assert after is store.now


def test_an_equal_update_is_silent(store: SelectionStore, heard: list[tuple[Selection, Selection]]) -> None:
    store.update(layer=0)
    store.update(layer=-3)
    assert heard == []


def test_every_field_is_clamped(store: SelectionStore) -> None:
    store.update(prompt=9, layer=99, head=99, query=99, key=99, plane=99, step=99)
    assert store.now == Selection(prompt=0, layer=3, head=7, query=11, key=11, plane=7, step=12)
    store.update(layer=-1, head=-1, query=-1, key=-1, plane=-1)
    assert store.now == Selection(step=12)


def test_a_shorter_run_clamps_in_the_same_announcement(
    store: SelectionStore, heard: list[tuple[Selection, Selection]]
) -> None:
    store.update(query=11, key=10)
    heard.clear()
    store.bind(Bounds(layers=4, heads=8, rows=6, planes=8), step=6, head=1)
    ((_, after),) = heard
    assert after == Selection(head=1, query=5, key=5, step=6)


def test_back_and_forward_walk_the_history(store: SelectionStore) -> None:
    for layer in (1, 2, 3):
        store.update(layer=layer)
    store.back()
    store.back()
    assert store.now.layer == 1
    store.forward()
    assert store.now.layer == 2
    store.update(head=4)
    store.forward()
    assert store.now == Selection(layer=2, head=4, step=12)
    for _ in range(9):
        store.back()
    assert store.now == Selection(step=12)


def test_walking_back_keeps_the_length_in_view(store: SelectionStore) -> None:
    store.update(query=3)
    store.bind(Bounds(layers=4, heads=8, rows=13, planes=8), step=13, query=12)
    store.update(query=1)
    store.back()
    assert store.now.step == 13
    store.back()
    assert (store.now.query, store.now.step) == (0, 13)


def test_the_history_is_bounded(store: SelectionStore) -> None:
    for number in range(3 * SelectionStore.HISTORY):
        store.update(query=number % 2 + 1)
    assert len(store._back) == SelectionStore.HISTORY


def test_what_a_person_moves_is_held_where_nobody_could_answer() -> None:
    held = False
    store = SelectionStore(is_held=lambda: held)
    store.bind(BOUNDS)
    store.update(layer=1)
    held = True
    moves: list[Callable[[], None]] = [lambda: store.update(layer=2), store.back, store.forward]
    for move in moves:
        move()
        assert store.now.layer == 1
    store.put(layer=3)
    assert store.now.layer == 3
    held = False
    store.back()
    assert store.now.layer == 1


def test_no_handler_writes_the_selection(store: SelectionStore) -> None:
    refused: list[str] = []

    def write_back(before: Selection, after: Selection) -> None:
        acts: list[Callable[[], None]] = [
            lambda: store.update(head=3),
            lambda: store.bind(BOUNDS),
            store.back,
            store.forward,
        ]
        for act in acts:
            try:
                act()
            except RuntimeError as error:
                refused.append(str(error))

    store.changed.connect(write_back)
    store.update(layer=1)
    assert len(refused) == 4
    store.update(layer=2)
    assert store.now.layer == 2


def test_hover_is_its_own_signal(store: SelectionStore, heard: list[tuple[Selection, Selection]]) -> None:
    seen: list[Hover] = []
    store.hovered.connect(seen.append)
    store.point_at(Hover(query=3, key=1))
    store.point_at(Hover(query=3, key=1))
    store.point_at(Hover())
    assert seen == [Hover(query=3, key=1), Hover()]
    assert store.hover == Hover()
    assert heard == []
