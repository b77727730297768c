"""The table of workspaces: every panel has its place, every number its key."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QSize

from ropewalk.app.commands import snapshot
from ropewalk.views import keys
from ropewalk.views.panels import registry
from ropewalk.views.stage import tree
from ropewalk.views.stage.workspaces import NAMED, WORKSPACES, Workspace, home_of

STRIP = "tokens"


def test_numbers_and_keys_agree() -> None:
    assert [workspace.number for workspace in WORKSPACES] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    for workspace in WORKSPACES:
        action = keys.action(f"workspace_{workspace.name}")
        assert action.keys == (f"Ctrl+{workspace.number}",)
        assert action.text == f"Workspace: {workspace.title}"


def test_the_command_line_knows_the_same() -> None:
    assert tuple(NAMED) == snapshot.WORKSPACES
    assert registry.names() == snapshot.PANELS


@pytest.mark.parametrize("workspace", WORKSPACES, ids=lambda workspace: workspace.name)
def test_every_tree_names_known_panels_once(workspace: Workspace) -> None:
    for variant in workspace.variants:
        names = tree.names(variant.tree)
        assert len(names) == len(set(names))
        assert set(names) <= set(registry.names()) - {STRIP}
    sizes = [(variant.width, variant.height) for variant in workspace.variants]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == (0, 0)


def test_every_panel_has_its_home() -> None:
    for name in registry.names():
        home = NAMED[home_of(name)]
        assert home.has(name) or (name == STRIP and home.strip != "line"), name


def test_the_overview_has_every_linked_panel_where_the_screen_carries_them() -> None:
    large = NAMED["overview"].variants[NAMED["overview"].variant(QSize(1920, 900))]
    linked = {"ledger", "heads", "scores", "rope", "cache", "next_token", "why"}
    assert linked <= set(tree.names(large.tree))
    assert all(len(leaf) == 1 for leaf in tree.leaves(large.tree))


def test_a_smaller_stage_takes_a_later_variant() -> None:
    overview = NAMED["overview"]
    chosen = [overview.variant(QSize(*size)) for size in ((1920, 900), (1366, 600), (960, 400), (640, 300))]
    assert chosen == [0, 1, 2, 3]
