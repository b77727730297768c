"""WORKSPACES: what stands together on the stage, each a name, a number and a tree of panels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from PySide6.QtCore import QSize

from ropewalk.views.stage.tree import Tree, column, names, row


@dataclass(frozen=True)
class Variant:
    """How a workspace is divided on a stage of at least that width and height, in pixels at ordinary type."""

    width: int
    height: int
    tree: Tree


@dataclass(frozen=True)
class Workspace:
    """Panels that are looked at together.

    Attributes
    ----------
    name, title, number
        What settings call it, what a person reads, and its key with Ctrl.
    variants
        How it is divided, the largest first; the last one is for every stage.
    strip
        How much of the tokens stands above the panels: the whole panel, with arcs from the query to its keys or
        without, one line, or nothing, where the panels are of no run.
    """

    name: str
    title: str
    number: int
    variants: tuple[Variant, ...]
    strip: Literal["arcs", "whole", "line", "none"] = "line"

    def variant(self, size: QSize) -> int:
        """Which variant is for a stage of that size."""
        fits = (at for at, one in enumerate(self.variants) if one.width <= size.width() and one.height <= size.height())
        return next(fits, len(self.variants) - 1)

    def has(self, panel: str) -> bool:
        """Whether a panel has its place here."""
        return panel in names(self.variants[-1].tree)


def _always(tree: Tree) -> tuple[Variant, ...]:
    return (Variant(0, 0, tree),)


_OVERVIEW: Final = (
    Variant(
        1500,
        720,
        column(
            (
                86,
                row(
                    (27, "ledger"),
                    (42, column((38, "heads"), (62, "scores"))),
                    (31, column((48, "rope"), (23, "cache"), (29, "next_token"))),
                ),
            ),
            (12, "why"),
            (0, "timeline"),
        ),
    ),
    Variant(
        1160,
        420,
        row(
            (54, column((36, "heads"), (64, "scores"))),
            (46, column((66, "rope cache next_token ledger"), (34, "why"))),
        ),
    ),
    Variant(880, 0, row((50, "scores heads ledger"), (50, "rope cache next_token why"))),
    Variant(0, 0, ("scores", "heads", "rope", "next_token")),
)

_SHAPES: Final = (
    Variant(880, 400, row((40, "ledger"), (60, "walk cache why"))),
    Variant(0, 0, ("walk", "ledger", "cache", "why")),
)

_ROPE: Final = (
    Variant(760, 0, row((66, "rope"), (34, column((72, "scores"), (28, "why"))))),
    Variant(0, 0, ("rope", "scores", "why")),
)

_COMPARE: Final = (
    Variant(920, 0, row((62, "compare"), (38, column((55, "experiments"), (45, "next_token"))))),
    Variant(0, 0, ("compare", "experiments", "next_token")),
)

_HEADS_PAGES: Final = "heads board lines needs routing training"

_HEADS: Final = (
    Variant(760, 0, row((58, _HEADS_PAGES), (42, column((66, "scores"), (34, "why next_token"))))),
    Variant(0, 0, (*_HEADS_PAGES.split(), "scores", "next_token")),
)

_SURVEY: Final = (
    Variant(
        1400,
        640,
        row(
            (30, "survey_heads"),
            (35, column((54, "survey_scatter"), (46, "survey_head"))),
            (35, column((46, "survey_table"), (54, "survey_examples"))),
        ),
    ),
    Variant(
        1000,
        420,
        row(
            (34, "survey_heads"),
            (33, column((52, "survey_scatter"), (48, "survey_head"))),
            (33, column((46, "survey_table"), (54, "survey_examples"))),
        ),
    ),
    Variant(760, 0, row((50, "survey_heads survey_scatter"), (50, "survey_table survey_head survey_examples"))),
    Variant(0, 0, ("survey_heads", "survey_scatter", "survey_table", "survey_head", "survey_examples")),
)

WORKSPACES: Final = (
    Workspace("overview", "Overview", 1, _OVERVIEW, "whole"),
    Workspace("scores", "Scores", 2, _always(row((69, "scores lens"), (31, column((28, "why"), (72, "heads")))))),
    Workspace("rope", "RoPE", 3, _ROPE),
    Workspace(
        "decode", "Decode", 4, _always(column((1, row((52, "cache"), (48, "next_token"))), (0, "timeline"))), "arcs"
    ),
    Workspace("shapes", "Shapes", 5, _SHAPES),
    Workspace("heads", "Heads", 6, _HEADS),
    Workspace("compare", "Compare", 7, _COMPARE),
    Workspace("survey", "Survey", 8, _SURVEY, "none"),
    Workspace("lesson", "Lesson", 9, _always(row((38, "lesson"), (62, column((40, "heads"), (60, "scores")))))),
)
"""In the order of the bar."""

NAMED: Final = {workspace.name: workspace for workspace in WORKSPACES}

HOMES: Final = {
    "heads": "heads",
    "scores": "scores",
    "rope": "rope",
    "cache": "decode",
    "next_token": "decode",
    "timeline": "decode",
    "tokens": "decode",
    "why": "scores",
}
"""Where a panel is looked for first; the others have one workspace that is theirs."""


def home_of(panel: str) -> str:
    """The workspace in which a panel has its place."""
    found = next((one.name for one in WORKSPACES[1:] if one.has(panel)), WORKSPACES[0].name)
    return HOMES.get(panel, found)
