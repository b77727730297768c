"""Where a line of the arithmetic is at home: the panel it belongs to, and what is pointed at there."""

from __future__ import annotations

import pytest

from ropewalk.app.session.selection import Hover, Selection
from ropewalk.views.panels.places import lit

NOW = Selection(layer=2, head=5, query=8, key=3)


@pytest.mark.parametrize(
    ("place", "key", "hover"),
    [
        ("cell", "x", Hover(query=8, key=3, layer=2, head=5)),
        ("row", "x", Hover(query=8)),
        ("next_token", "x", Hover(query=8)),
        ("plane:4", "x", Hover(plane=4)),
        ("cache:key", "x", Hover(key=3, layer=2, head=5, slot="K")),
        ("cache:value", "x", Hover(key=3, layer=2, head=5, slot="V")),
        ("tokens", "x.query.y", Hover(query=8)),
        ("tokens", "x.key.y", Hover(key=3)),
        ("ledger:scores", "x", Hover(operation="scores")),
        ("", "x", Hover()),
    ],
)
def test_a_line_points_at_what_it_is_about(place: str, key: str, hover: Hover) -> None:
    assert lit(place, key, NOW) == hover
