"""How a place is divided: pure functions of trees and rectangles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from PySide6.QtCore import QRect, QSize

from ropewalk.views.stage import tree
from ropewalk.views.stage.tree import Pages, Plan, Split, column, row

KNOWN = frozenset("abcdef")
THREE = row((60, "a"), (40, column((50, "b c"), (50, "d"))))
BOX = QRect(10, 20, 508, 308)
GAP = 8


def small(leaf: Pages) -> QSize:
    return QSize(50, 40)


def test_a_box_is_divided_by_shares_with_gaps_between() -> None:
    plan = Plan(THREE, BOX, small, GAP)
    assert plan.boxes == {
        ("a",): QRect(10, 20, 300, 308),
        ("b", "c"): QRect(318, 20, 200, 150),
        ("d",): QRect(318, 178, 200, 150),
    }
    assert [(edge.path, edge.box) for edge in plan.edges] == [
        ((), QRect(310, 20, 8, 308)),
        ((1,), QRect(318, 170, 200, 8)),
    ]


@pytest.mark.parametrize(
    ("room", "shares", "least", "sizes"),
    [
        (100, (1, 1), (10, 10), [50, 50]),
        (100, (1, 1), (70, 10), [70, 30]),
        (100, (1, 1, 2), (40, 0, 0), [40, 20, 40]),
        (100, (90, 5, 5), (0, 30, 30), [40, 30, 30]),
        (100, (1, 0), (10, 24), [76, 24]),
        (101, (1, 1, 1), (0, 0, 0), [33, 34, 34]),
    ],
)
def test_nobody_gets_less_than_the_least_where_there_is_enough(
    room: int, shares: tuple[int, ...], least: tuple[int, ...], sizes: list[int]
) -> None:
    assert tree.shared_out(room, shares, least) == sizes
    assert sum(sizes) == room


def test_too_little_for_all_is_shared_all_the_same() -> None:
    assert tree.shared_out(60, (1, 1), (50, 50)) == [30, 30]
    assert tree.shared_out(20, (1, 0), (50, 50)) == [0, 50]


def test_the_least_of_a_tree_is_that_of_its_leaves_and_gaps() -> None:
    assert tree.least_of(THREE, small, GAP) == QSize(108, 88)


def test_places_are_given_up_one_after_the_other_until_one_has_all() -> None:
    one = tree.folded(THREE)
    assert one == row((60, "a"), (40, "b c d"))
    assert tree.folded(one) == tuple("abcd")
    assert tree.folded(tuple("abcd")) == tuple("abcd")
    assert tree.folded(column((1, "a"), (2, "b"), (3, "c"))) == column((1, "a"), (5, "b c"))


def test_what_leaves_makes_room_for_its_neighbours() -> None:
    assert tree.without(THREE, frozenset("d")) == row((60, "a"), (40, "b c"))
    assert tree.without(THREE, frozenset("c")) == row((60, "a"), (40, column((50, "b"), (50, "d"))))
    assert tree.without(THREE, frozenset("abcd")) == ()


def test_a_card_changes_places_or_stands_beside() -> None:
    assert tree.swapped(THREE, "a", "c") == row((60, "c"), (40, column((50, "b a"), (50, "d"))))
    assert tree.beside(THREE, "d", "a", "below") == row((60, column((1, "a"), (1, "d"))), (40, "b c"))
    assert tree.beside(THREE, "e", "d", "left") == row(
        (60, "a"), (40, column((50, "b c"), (50, row((1, "e"), (1, "d")))))
    )
    assert tree.behind(THREE, "e") == row((60, "a"), (40, column((50, "b c"), (50, "d e"))))
    assert tree.behind((), "e") == ("e",)


def test_a_part_is_found_and_resized_by_its_path() -> None:
    assert tree.at(THREE, (1, 0)) == ("b", "c")
    assert tree.at(THREE, (0, 1)) == ()
    assert tree.resized(THREE, (1,), (30, 70)) == row((60, "a"), (40, column((30, "b c"), (70, "d"))))
    assert tree.resized(THREE, (), (10, 90)) == row((10, "a"), (90, column((50, "b c"), (50, "d"))))


def test_a_tree_is_written_and_read() -> None:
    assert tree.read(json.loads(json.dumps(tree.written(THREE))), KNOWN) == THREE


@pytest.mark.parametrize(
    "plain",
    [
        None,
        "",
        "a a",
        "z",
        [],
        ["row", [1], ["a"]],
        ["row", [1, 1], ["a"]],
        ["row", [0, 0], ["a", "b"]],
        ["row", [1, -1], ["a", "b"]],
        ["row", [1, True], ["a", "b"]],
        ["row", [1, 1 << 30], ["a", "b"]],
        ["stack", [1, 1], ["a", "b"]],
        ["row", [1, 1], ["a", ["column", [1, 1], ["b", "a"]]]],
    ],
)
def test_what_is_no_tree_is_refused(plain: Any) -> None:
    with pytest.raises(ValueError, match="panels"):
        tree.read(plain, KNOWN)


def test_a_row_is_not_a_column() -> None:
    assert isinstance(THREE, Split)
    assert THREE.across
    assert not column((1, "a"), (1, "b")).across
